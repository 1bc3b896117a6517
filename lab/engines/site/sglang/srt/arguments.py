"""What every version does with its arguments once argparse has read them."""

import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

UNITS = {"k": 1000, "Ki": 1024, "M": 1000**2, "Mi": 1024**2, "G": 1000**3, "Gi": 1024**3}


def human_readable_int(text: str) -> int:
    """256k is 256000, 256Ki is 262144; the case matters. Raises ValueError."""
    for unit, factor in sorted(UNITS.items(), key=lambda item: -len(item[0])):
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * factor)
    return int(text)


def merge_config(argv: Sequence[str]) -> list[str]:
    """With what the file that `--config` names says in front, so that the command line wins.

    Of YAML only a flat `name: value`; a value is as JSON has it, or plain text. Raises ValueError as the real one does.
    """
    words = list(argv)
    if words.count("--config") > 1:
        raise ValueError("Multiple config files specified! Only one allowed.")
    if "--config" not in words:
        return words
    at = words.index("--config")
    path = Path(words[at + 1])
    if path.suffix not in (".yaml", ".yml"):
        raise ValueError(f"Config file must be YAML format, got: {path.suffix}")
    given: list[str] = []
    for line in path.read_text().splitlines():
        name, colon, text = line.partition(":")
        value = _plain(text.strip())
        if colon and value is not False:
            given += [f"--{name.strip()}", *([] if value is True else [str(value)])]
    return [*given, *words[:at], *words[at + 2 :]]


def _plain(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def fill_in(args: Namespace) -> Namespace:
    """The few values that follow from another one; `config` is not one of them."""
    vars(args).pop("config", None)
    args.tokenizer_path = args.tokenizer_path or args.model_path
    args.served_model_name = args.served_model_name or args.model_path
    if args.speculative_algorithm == "NEXTN":
        args.speculative_algorithm = "EAGLE"
    if args.speculative_algorithm and args.speculative_num_steps is None:
        args.speculative_num_steps, args.speculative_eagle_topk = 3, 1
        args.speculative_num_draft_tokens = 4
    return args
