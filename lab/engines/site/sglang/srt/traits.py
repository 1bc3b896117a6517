"""In what the simulated versions differ, beside their flags."""

from argparse import Namespace

from . import VERSION

NUMBER = tuple(map(int, VERSION.split(".")))

WATCHES_CHILDREN = NUMBER >= (0, 5, 10)
"""Notices a worker that was killed from outside, while it loads and while it serves."""
RECOMMENDS_SERVE = NUMBER >= (0, 5, 10)
PIECEWISE_BY_ITSELF = NUMBER >= (0, 5, 10)
"""Captures piecewise graphs unless something speaks against them."""
RENAMED_GRAPH_FLAGS = NUMBER >= (0, 5, 14)
"""The flags of graphs are one for decode and one for prefill; the lines about them name the phase."""
DTYPE_IN_POOL_LINE = NUMBER >= (0, 5, 14)
DTYPE_IN_WEIGHTS_LINE = NUMBER < (0, 5, 10)
DICT_ARGUMENTS = NUMBER >= (0, 5, 20)
"""`server_args={...}` in place of `server_args=ServerArgs(...)`."""
GRAPH_MEMORY_BY_PHASE = NUMBER >= (0, 5, 20)
LOADS_AGGREGATE = NUMBER < (0, 5, 20)
"""/v1/loads sums up over the ranks."""
HAS_GET_LOAD = NUMBER < (0, 5, 20)
HAS_READY = NUMBER >= (0, 5, 20)
EXITS_BY_ITSELF = NUMBER >= (0, 5, 20)
"""After a drain it ends with 0; before, it kills itself: 137."""


def largest_graph(args: Namespace) -> str:
    """The name of the argument that limits the batch of a captured graph."""
    return "cuda_graph_max_bs_decode" if RENAMED_GRAPH_FLAGS else "cuda_graph_max_bs"
