"""What the real llama-server prints about itself: its own parser of arguments, without its server.

The extension module of xllamacpp is llama.cpp with everything in it, but offers its parser to no Python; it is called
as C++ calls it. It prints, and ends the process.
"""

import ctypes
from typing import NoReturn

PARSE = "_Z19common_params_parseiPPcR13common_params13llama_examplePFviS0_E"
"""common_params_parse(int, char**, common_params&, llama_example, void (*)(int, char**))"""
SERVER = 12
"""LLAMA_EXAMPLE_SERVER of this version: the parser of any other program knows no --slots."""
HEAD = 16
"""Bytes of a Python object before what it holds: here the settings that C++ wants."""
PRINTS = ("-h", "--help", "--usage", "--completion-bash")


def tell(word: str) -> NoReturn:
    """Print what one of ``PRINTS`` asks for. Raises RuntimeError when this llama.cpp cannot be asked."""
    import xllamacpp
    from xllamacpp import xllamacpp as extension

    parse = getattr(ctypes.CDLL(extension.__file__), PARSE)
    parse.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
    settings = xllamacpp.CommonParams()
    words = (ctypes.c_char_p * 3)(b"llama-server", word.encode(), None)
    parse(2, words, id(settings) + HEAD, SERVER, None)
    raise RuntimeError("llama.cpp did not print anything.")
