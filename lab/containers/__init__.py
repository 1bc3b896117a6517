"""A look-alike of docker for the simulated machines: real processes, pid namespaces and control groups, no images.

What it knows of the real one: `/docker/<id>` as control group, restart policies, a stop that TERMs process 1 of the
container and KILLs all of it later, and the words with which the command line refuses.
"""
