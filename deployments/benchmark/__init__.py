"""How fast a server is: what it is asked, how the asking is done, and what the figures are."""
