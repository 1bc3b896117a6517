"""The few settings that people try first, as flags to be added to a command. PURE."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from deployments.engines.base import Engine
from deployments.fit.arguments import VLLM_UNITS, Arguments
from deployments.fit.asked import Asked
from deployments.fit.changes import CARDS_FLAGS, CONTEXT_FLAGS, FRACTION_FLAGS
from deployments.fit.estimate import KV_FLAGS
from deployments.fit.files import ModelFiles
from deployments.fit.sglang_flags import processes
from deployments.fit.span import CannotTell

LENGTH = re.compile(r"(\d{1,9})([kK]?)", re.ASCII)
SPELLINGS = {
    "--mem-fraction-static": ("--mem-fraction-static", "--mem-fraction"),
    "--tp-size": ("--tp-size", "--tensor-parallel-size", "--tp"),
    "--tensor-parallel-size": ("--tensor-parallel-size", "-tp"),
    "-c": ("-c", "--ctx-size"),
    "-ctk": ("-ctk", "--cache-type-k"),
}


@dataclass(frozen=True)
class Wanted:
    """What to try; None or empty: as in the command. ``context`` in tokens, ``cards``: tensor parallel."""

    context: int | None = None
    precision: str = ""
    fraction: float | None = None
    cards: int | None = None

    @property
    def flags_of(self) -> tuple[tuple[str, str], ...]:
        """Which settings are to be another, by name and value."""
        found = (
            ("context", "" if self.context is None else str(self.context)),
            ("fraction", "" if self.fraction is None else f"{self.fraction:g}"),
            ("cards", "" if self.cards is None else str(self.cards)),
        )
        return tuple((name, value) for name, value in found if value)


FLAGS = {"context": CONTEXT_FLAGS, "fraction": FRACTION_FLAGS, "cards": CARDS_FLAGS}


def flags_for(engine: Engine, wanted: Wanted) -> tuple[str, ...]:
    """To be added to the command: the last one given counts. What the engine has no flag for is left out."""
    found: list[str] = []
    for name, value in wanted.flags_of:
        flag = FLAGS[name].get(engine.key)
        found += [flag, value] if flag is not None else []
    return (*found, *KV_FLAGS.get(engine.key, {}).get(wanted.precision, ()))


def has_setting(engine: Engine, name: str) -> bool:
    """Does the engine have a flag for one of ``context``, ``fraction`` and ``cards``?"""
    return engine.key in FLAGS[name]


def as_launched(engine: Engine, argv: Sequence[str]) -> dict[str, str]:
    """What the command says of each setting; empty where it leaves it to the engine."""
    names = {name: flags[engine.key] for name, flags in FLAGS.items() if engine.key in flags}
    names["precision"] = next(iter(next(iter(KV_FLAGS.get(engine.key, {"": ("",)}).values()))))
    return {name: engine.flag(argv, SPELLINGS.get(flag, (flag,))) or "" for name, flag in names.items()}


def tokens_of(text: str) -> int | None:
    """A length as people write it, 131072 or 128K; None for anything else."""
    found = LENGTH.fullmatch(text.strip().replace(",", ""))
    return int(found[1]) * (1024 if found[2] else 1) if found is not None and int(found[1]) else None


def cards_needed(engine: Engine, argv: Sequence[str]) -> int | None:
    """Cards that the command uses; None where it takes whatever there is, or where it cannot be told."""
    try:
        if engine.key == "sglang":
            return processes(Asked(engine, tuple(argv), ModelFiles(), ()))
        if engine.key == "vllm":
            flags = Arguments(engine, argv, VLLM_UNITS)
            kinds = (CARDS_NAMES, ("--pipeline-parallel-size", "-pp"), ("--data-parallel-size", "-dp"))
            cards = 1
            for names in kinds:
                cards *= flags.positive(*names) or 1
            return cards
    except CannotTell:
        pass
    return None


CARDS_NAMES = SPELLINGS["--tensor-parallel-size"]
