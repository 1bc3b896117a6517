"""Traffic hooks: how a deployment is taken out of its router before a stop, and put back after a check."""
