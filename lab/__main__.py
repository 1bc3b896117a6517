"""The lab's command line: see `python -m lab --help`."""

import argparse
import sys
from collections.abc import Sequence

from lab import namespaces


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab", description="A simulated fleet of GPU hosts.")
    commands = parser.add_subparsers(dest="verb", required=True)
    enter = commands.add_parser(
        "enter", help="run a command in namespaces of its own: enter [OPTIONS] -- CMD"
    )
    enter.add_argument("--listen", type=_address, help="HOST:PORT outside, becomes file descriptor 3 inside")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status."""
    own, _, rest = (
        (list(arguments), "", [])
        if "--" not in arguments
        else (list(arguments[: arguments.index("--")]), "", list(arguments[arguments.index("--") + 1 :]))
    )
    options = _parser().parse_args(own)
    try:
        return namespaces.enter(rest, listen=options.listen)
    except namespaces.RefusedError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
