"""`python -m sglang.launch_server`: the simulated SGLang. Light to import: every worker imports it again."""

import sys


def main() -> None:
    """Parse as SGLang does (exit 2 on a wrong flag), then serve until told to stop."""
    from .srt.server_args import parse

    args = parse(sys.argv[1:])

    from .srt.engine import launch

    launch(args)


if __name__ == "__main__":
    main()
