"""``docker run`` and ``podman run``: their options, the image, and the command inside. PURE.

Facts: the flags of docker 28 and podman 5, as ``run --help`` of each lists them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deployments.commandline.prefixes import SHELLS, name_of

TOOLS = ("docker", "podman")
_SWITCHES = """
--detach --interactive --tty --init --no-healthcheck --oom-kill-disable --privileged --publish-all --quiet
--read-only --rm --sig-proxy --disable-content-trust --use-api-socket --replace --tls-verify --env-host --http-proxy
--no-hosts --no-hostname --rmi --rootfs --passwd --read-only-tmpfs --unsetenv-all
"""
_VALUED = """
--add-host --annotation --attach --blkio-weight --blkio-weight-device --cap-add --cap-drop --cgroup-parent
--cgroupns --cidfile --cpu-count --cpu-period --cpu-quota --cpu-rt-period --cpu-rt-runtime --cpu-shares --cpus
--cpuset-cpus --cpuset-mems --detach-keys --device --device-cgroup-rule --device-read-bps --device-read-iops
--device-write-bps --device-write-iops --dns --dns-opt --dns-option --dns-search --domainname --entrypoint --env
--env-file --expose --gpus --group-add --health-cmd --health-interval --health-retries --health-start-interval
--health-start-period --health-timeout --hostname --ip --ip6 --ipc --isolation --label --label-file --link
--link-local-ip --log-driver --log-opt --mac-address --memory --memory-reservation --memory-swap --memory-swappiness
--mount --name --net --net-alias --network --network-alias --oom-score-adj --pid --pids-limit --platform --publish
--pull --restart --runtime --security-opt --shm-size --stop-signal --stop-timeout --storage-opt --sysctl --tmpfs
--ulimit --user --userns --uts --volume --volume-driver --volumes-from --workdir --arch --authfile --conmon-pidfile
--hooks-dir --pidfile --pod --requires --sdnotify --secret --systemd --tz --umask --uidmap --gidmap --subuidname
--subgidname --timeout --cgroups --cgroup-conf
"""
SWITCHES = frozenset(_SWITCHES.split())
"""They take a value only after ``=``."""
VALUED = frozenset(_VALUED.split())
SHORT = {
    "a": "--attach", "c": "--cpu-shares", "e": "--env", "h": "--hostname", "l": "--label", "m": "--memory",
    "p": "--publish", "u": "--user", "v": "--volume", "w": "--workdir",
    "d": "--detach", "i": "--interactive", "t": "--tty", "P": "--publish-all", "q": "--quiet",
}  # fmt: skip
NOT_KEPT = {
    "--detach": "-d was left out: the panel follows the container itself.",
    "--interactive": "-i was left out: there is no terminal.",
    "--tty": "-t was left out: there is no terminal.",
}
USUAL = "docker run --gpus all --ipc host -p 8000:8000 IMAGE COMMAND"


@dataclass(frozen=True)
class Run:
    """What one ``run`` says."""

    container: dict[str, Any]
    argv: list[str]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Option:
    """One option under its long name, its value (None for a switch), and the words that say it."""

    name: str
    value: str | None
    words: tuple[str, ...]


def inside(argv: Sequence[str]) -> list[str]:
    """The words of the server itself, where a shell in the container is given them as one (``bash -c "..."``)."""
    if len(argv) > 2 and name_of(argv[0]) in SHELLS and argv[1].startswith("-") and argv[1].endswith("c"):
        try:
            return shlex.split(argv[2])
        except ValueError:
            return list(argv)
    return list(argv)


def is_run(argv: Sequence[str]) -> bool:
    """Whether these words go to docker or podman at all; ``read`` says whether they are a ``run``."""
    return bool(argv) and name_of(argv[0]) in TOOLS


def read(argv: Sequence[str]) -> Run:
    """Take ``docker run ...`` apart. Raises ValueError with a sentence for all that is not one."""
    tool = name_of(argv[0])
    words = list(argv[1:])
    if words[:2] == ["container", "run"]:
        words = words[1:]
    if words[:1] != ["run"]:
        raise ValueError(
            f"{tool} {' '.join(words[:1])} does not say how the container is made. Paste the {tool} run that makes it."
        )
    options, rest, notes = _options(tool, words[1:])
    if not rest or not rest[0] or rest[0].startswith("-"):
        raise ValueError(f"The image is missing: {USUAL}.")
    return Run({"tool": tool, "image": rest[0], "options": options}, rest[1:], notes)


def _options(tool: str, words: list[str]) -> tuple[list[str], list[str], list[str]]:
    """(the words of the options that are kept, the image and all behind it, what was left out in sentences)."""
    kept: list[str] = []
    notes: dict[str, None] = {}
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        if words[at] == "--":
            at += 1
            break
        found, length = _option(tool, words, at)
        at += length
        for option in found:
            if option.name in NOT_KEPT:
                notes[NOT_KEPT[option.name]] = None
            else:
                kept += option.words
    return kept, words[at:], list(notes)


def _option(tool: str, words: Sequence[str], at: int) -> tuple[list[Option], int]:
    """The options that one word says (``-it`` says two), and how many words they take."""
    word = words[at]
    if not word.startswith("--"):
        return _short(tool, words, at)
    name, equals, value = word.partition("=")
    if equals:
        if name not in SWITCHES | VALUED:
            raise ValueError(f"{tool} run {name} is not an option that the panel knows. Check how it is written.")
        return [Option(name, value, (word,))], 1
    if name in SWITCHES:
        return [Option(name, None, (word,))], 1
    if name not in VALUED:
        raise ValueError(f"{tool} run {name} is not an option that the panel knows. Check how it is written.")
    return [Option(name, _value(tool, words, at), (word, words[at + 1]))], 2


def _value(tool: str, words: Sequence[str], at: int) -> str:
    if at + 1 >= len(words):
        raise ValueError(f"{tool} run {words[at]} needs a value after it.")
    return words[at + 1]


def _short(tool: str, words: Sequence[str], at: int) -> tuple[list[Option], int]:
    """``-it`` are two switches; in ``-itp 80:80`` and ``-p80:80`` the last has a value."""
    word, found = words[at], []
    if word[2:3] == "=":  # -d=true, -p=8000:8000
        name = _long(tool, word[1])
        return [Option(name, word[3:], (word,))], 1
    for place, letter in enumerate(word[1:], start=1):
        name = _long(tool, letter)
        if name in SWITCHES:
            found.append(Option(name, None, (f"-{letter}",)))
            continue
        glued = word[place + 1 :]
        if glued:
            return [*found, Option(name, glued.removeprefix("="), (f"-{letter}{glued}",))], 1
        return [*found, Option(name, _value(tool, words, at), (f"-{letter}", words[at + 1]))], 2
    return found, 1


def _long(tool: str, letter: str) -> str:
    if letter not in SHORT:
        raise ValueError(f"{tool} run -{letter} is not an option that the panel knows. Check how it is written.")
    return SHORT[letter]


def options_of(container: Mapping[str, Any]) -> Iterator[Option]:
    """The options of a stored container, one by one. Raises ValueError where the words are no options."""
    words, at = list(container.get("options", ())), 0
    while at < len(words):
        if not words[at].startswith("-"):
            raise ValueError(f"{words[at]!r} is not an option of {container.get('tool')} run.")
        found, length = _option(str(container.get("tool")), words, at)
        yield from found
        at += length


def settings(container: Mapping[str, Any]) -> dict[str, str]:
    """A container's settings by name, to be compared: the image, and each option under its long name."""
    if not container:
        return {}
    tool = container["tool"]
    found = {"image": container["image"], "container by": tool}
    for option in options_of(container):
        name = f"{tool} {option.name}"
        value = "(set)" if option.value is None else option.value
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
