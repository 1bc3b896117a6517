"""The command `sglang`: of its parts, `serve`."""

import sys


def main() -> None:
    """`sglang serve ...`: the same server as `python -m sglang.launch_server`. Exits 2 on anything else."""
    if sys.argv[1:2] != ["serve"]:
        sys.stderr.write("usage: sglang [-h] {serve,generate,version} ...\n")
        sys.exit(2)

    from ..launch_server import run  # noqa: TID252
    from ..srt import traits  # noqa: TID252

    words = sys.argv[2:]
    if traits.DICT_ARGUMENTS and words and not words[0].startswith("-"):
        words = ["--model-path", *words]
    if "--model-type" in words[:-1]:
        at = words.index("--model-type")
        words = words[:at] + words[at + 2 :]
    run(words)


if __name__ == "__main__":
    main()
