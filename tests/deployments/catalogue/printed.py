"""Print arguments, JSON on stdin, as vLLM's own parser prints them for ``--help=all``.

    python printed.py VLLM/utils/argparse_utils.py

The module needs a logger of vLLM and ``regex``, for which Python's own does here.
"""

import importlib.util
import json
import logging
import re
import sys
import types
from typing import Any


def main() -> None:
    """Exits 0 when it has printed."""
    named = types.ModuleType("vllm.logger")
    named.init_logger = logging.getLogger  # type: ignore[attr-defined]
    sys.modules |= {"regex": re, "vllm": types.ModuleType("vllm"), "vllm.logger": named}
    spec = importlib.util.spec_from_file_location("printer", sys.argv[1])
    assert spec is not None and spec.loader is not None
    printer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(printer)
    parser = printer.FlexibleArgumentParser(prog="vllm serve")
    for told in json.load(sys.stdin):
        parser.add_argument(*told["names"], **_words(told))
    parser.parse_args(["--help=all"])


def _words(told: dict[str, Any]) -> dict[str, Any]:
    words: dict[str, Any] = {"help": told["help"].replace("%", "%%"), "default": told.get("default")}
    positional = not told["names"][0].startswith("-")
    if told["takes"] == "0":
        return words | {"action": "store_true"}
    nargs = told["takes"] if told["takes"] in ("?", "*", "+") else None
    return words | {"nargs": "?" if positional else nargs, "choices": told.get("choices")}


if __name__ == "__main__":
    main()
