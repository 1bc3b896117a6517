"""`python -m sglang.launch_server`: the simulated SGLang. Light to import: every worker imports it again."""

import sys
from collections.abc import Sequence


def run(argv: Sequence[str]) -> None:
    """Parse as SGLang does (exit 2 on a wrong flag), then serve until told to stop."""
    from .srt.arguments import merge_config
    from .srt.server_args import prepare_server_args

    args = prepare_server_args(merge_config(argv))

    from .srt.engine import launch

    launch(args)


def main() -> None:
    """Newer versions would rather be started as `sglang serve`, and say so."""
    from .srt import traits

    if traits.RECOMMENDS_SERVE:
        import warnings

        warnings.warn(
            "'python -m sglang.launch_server' is still supported, but 'sglang serve' is the recommended entrypoint.\n"
            "  Example: sglang serve --model-path <model> [options]",
            UserWarning,
            stacklevel=1,
        )
    run(sys.argv[1:])


if __name__ == "__main__":
    main()
