"""What the panel must know about an inference engine. PURE.

One module per engine, one instance per engine in ``registry.py``. Nothing here talks to a host: an engine says
which words to look for and which request to send, and reads the answer it is given.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from deployments.engines.bench import OPENAI, Bench
from deployments.engines.configuration import Configuration, Seen
from deployments.engines.knob import Knob
from deployments.engines.signature import Signature
from deployments.engines.stage import Stage


@dataclass(frozen=True)
class Engine:
    """An inference engine: how to recognise it, how far its start is, when it is ready, why it fails."""

    key: str
    label: str
    default_port: int
    port_flags: tuple[str, ...] = ("--port",)
    model_flags: tuple[str, ...] = ("--model",)
    serves: re.Pattern[str] = field(default_factory=lambda: re.compile(r"(?!)"))
    image: re.Pattern[str] = field(default_factory=lambda: re.compile(r"(?!)"))
    """Names of images that start this engine by themselves."""
    ready: tuple[re.Pattern[str], ...] = ()
    embedding: re.Pattern[str] = field(default_factory=lambda: re.compile(r"(?!)"))
    """Found in a command whose server makes vectors and no text."""
    metrics_path: str = ""
    metrics_flag: str = ""  # without which the engine has no such page
    running_metric: str = ""
    waiting_metric: str = ""  # counts the requests that it has taken in and not begun
    told_to_end: str = ""  # what becomes of requests when it is told to end, in a sentence, where that is not to wait
    waits_with: str = ""  # the flag with which it waits for them all the same
    drivers: tuple[tuple[str, int], ...] = ()  # from this version on -> the oldest driver that its CUDA takes
    generated_metric: str = ""  # counts the tokens it has made for everybody
    api_key_variable: str = ""  # from which it takes the key that its API asks for
    api_key_setting: str = ""  # the same, in the file that --config names, of an engine that reads no variable
    api_key_shown: str = ""  # where the engine itself shows it, in a sentence
    package: str = ""  # in which its version stands, where it is written in Python
    pages: tuple[str, ...] = ()  # in which it tells its configuration, beside its log
    aliases: Mapping[str, str] = field(default_factory=dict)  # other spelling of a flag -> its own name
    configuration: Callable[[Seen], Configuration] | None = None
    knobs: Mapping[str, Knob] = field(default_factory=dict)
    """What people change first; without a setting that it has no flag for."""
    first_command: tuple[str, ...] = ()
    """One that serves ``{model}``, for whoever has none yet."""
    bench: Bench = OPENAI
    signatures: tuple[Signature, ...] = ()
    stages: tuple[Stage, ...] = ()
    """Of its start, as its log names them."""

    def flag(self, argv: Sequence[str], names: Sequence[str]) -> str | None:
        """The value given to one of ``names``, as ``--flag value`` or ``--flag=value``; the last one wins."""
        value = None
        for position, word in enumerate(argv):
            for name in names:
                if word == name and position + 1 < len(argv):
                    value = argv[position + 1]
                elif word.startswith(name + "="):
                    value = word[len(name) + 1 :]
        return value

    def port(self, argv: Sequence[str]) -> int:
        """The port this command listens on."""
        value = self.flag(argv, self.port_flags)
        return int(value) if value is not None and value.isdecimal() else self.default_port

    def model_path(self, argv: Sequence[str]) -> str | None:
        """The model, when it is a path on the host (a hub id is None)."""
        value = self.flag(argv, self.model_flags) or self._served(argv)
        return value if value is not None and value.startswith(("/", "~", "./")) else None

    def _served(self, argv: Sequence[str]) -> str | None:
        """The model of ``vllm serve MODEL``, where it is a word of its own."""
        for program, word, model in zip(argv, argv[1:], argv[2:], strict=False):
            if word == "serve" and posixpath.basename(program) == self.key:
                return model
        return None

    @property
    def takes_api_key(self) -> bool:
        """Does the panel know how to give it a key without showing the key to anybody?"""
        return bool(self.api_key_variable or self.api_key_setting)

    def recognises(self, command: str) -> bool:
        """Is this command line a server of this engine?"""
        return bool(self.serves.search(command))

    def embeds(self, argv: Sequence[str]) -> bool:
        """Does this command start a server that makes vectors of texts, and no text?"""
        return bool(self.embedding.search(" ".join(["", *argv, ""])))

    def running_requests(self, metrics: str) -> int | None:
        """How many requests run, from the engine's metrics page; None when it does not say."""
        return _sum_of(self.running_metric, metrics)

    def waiting_requests(self, metrics: str) -> int | None:
        """How many it has taken in and not begun; None when it does not say."""
        return _sum_of(self.waiting_metric, metrics)


def _sum_of(name: str, metrics: str) -> int | None:
    """Over all its labels."""
    found = re.findall(rf"^{re.escape(name)}(?:\{{[^}}]*\}})? +([0-9.eE+]+)$", metrics, re.M)
    return int(sum(map(float, found))) if found and name else None
