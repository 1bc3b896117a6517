"""Programs that start another: which are left out, which are kept in front of it, which are refused. PURE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deployments.commandline.words import ASSIGNMENT

LEFT_OUT = {"nohup": (), "exec": (), "setsid": ("-f", "-w", "--fork", "--wait"), "time": ("-p",), "command": ()}
"""With the options that go with them: what is launched has a session and a log of its own anyhow."""


@dataclass(frozen=True)
class _Prefix:
    """The options of one program that take a value, and how many words of its own follow them."""

    valued: frozenset[str]
    words: int = 0
    then: str = ""
    """The word that must come first, as the ``run`` of ``uv run``."""


_OF_NUMACTL = """
-i --interleave -p --preferred -P --preferred-many -C --physcpubind -N --cpunodebind -m --membind
-w --weighted-interleave
"""
_OF_UV = """
--with --with-editable --with-requirements --extra --group --only-group --no-group --no-extra --python -p --project
--directory --env-file --index --default-index --index-url --extra-index-url --cache-dir --config-file --package
--index-strategy --find-links -f --color --link-mode --resolution --prerelease
"""
KEPT = {
    "numactl": _Prefix(frozenset(_OF_NUMACTL.split())),
    "taskset": _Prefix(frozenset(), words=1),
    "nice": _Prefix(frozenset(["-n", "--adjustment"])),
    "ionice": _Prefix(frozenset(["-c", "-n", "--class", "--classdata"])),
    "stdbuf": _Prefix(frozenset(["-i", "-o", "-e", "--input", "--output", "--error"])),
    "chrt": _Prefix(frozenset(["-T", "-P", "-D"]), words=1),
    "unbuffer": _Prefix(frozenset()),
    "uv": _Prefix(frozenset(_OF_UV.split()), then="run"),
}

AS_LOGIN = (
    "{} runs the server as another user, but the panel starts it as the login of its host. Leave it out; for another "
    "user add the host once more with that user's login."
)
INNER = (
    "{} hides the command from the panel. Write the command itself, as it stands between the quotes; what needs "
    "several belongs into a script on the host, which the panel can start."
)
DETACHED = "{} is not needed: the panel starts the server detached and keeps its log. Leave it out."
OF_ANOTHER = "{} hands the server to a scheduler, beside which the panel starts nothing. Write the command it runs."
OF_MANAGER = "{} only asks a manager to start something. Write the command that starts the server itself."
OF_THE_SHELL = "{} starts nothing by itself. Write the command that starts the server after it."
REFUSED = {
    **dict.fromkeys(("sudo", "su", "doas", "runuser"), AS_LOGIN),
    **dict.fromkeys(("screen", "tmux", "start-stop-daemon", "daemonize", "pm2"), DETACHED),
    **dict.fromkeys(("srun", "sbatch", "kubectl", "ray"), OF_ANOTHER),
    **dict.fromkeys(("systemctl", "service", "supervisorctl", "docker-compose", "podman-compose"), OF_MANAGER),
    "systemd-run": DETACHED,
    "ssh": "{} is not needed: the panel connects to the host itself. Write the command that runs there.",
    "eval": INNER,
    **dict.fromkeys(("export", "cd", "set", "source", ".", "conda", "mamba", "micromamba"), OF_THE_SHELL),
}
SHELLS = ("sh", "bash", "dash", "zsh", "fish")


def name_of(word: str) -> str:
    """The program a word names, without its folder."""
    return word.rpartition("/")[2]


def split_prefix(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """(what stands in front and is kept, the program and its words); nothing in front where that is not clear."""
    at = 0
    while at < len(argv):
        end = _end_of(argv, at)
        if end == at:
            return list(argv[:at]), list(argv[at:])
        at = end
    return [], list(argv)


def _end_of(argv: Sequence[str], at: int) -> int:
    """Where the words of the prefix that begins at ``at`` end; ``at`` itself where none begins."""
    name = name_of(argv[at])
    if name == "env":
        return next((end for end in range(at + 1, len(argv)) if not ASSIGNMENT.fullmatch(argv[end])), at)
    known = KEPT.get(name)
    if known is None or (known.then and list(argv[at + 1 : at + 2]) != [known.then]):
        return at
    words, at = known.words, at + 1 + bool(known.then)
    while at < len(argv) and argv[at].startswith("-") and argv[at] != "--":
        # The program of `python -m` begins with no dash, so what does is the prefix's own.
        at += 2 if argv[at] in known.valued else 1
    return at + (argv[at : at + 1] == ["--"]) + words


def refuse_program(argv: Sequence[str]) -> None:
    """Raise ValueError with a sentence where the program is not one that the panel can start."""
    prefix, rest = split_prefix(argv)
    if not rest:
        return
    if rest[0].startswith("-"):
        raise ValueError("The command begins with a flag. Write the program that it belongs to in front of it.")
    name = name_of(rest[0])
    if name in REFUSED:
        raise ValueError(REFUSED[name].format(name))
    if name in SHELLS and any(word.startswith("-") and word.endswith("c") for word in rest[1:2]):
        raise ValueError(INNER.format(f"{name} {rest[1]}"))
    if name in LEFT_OUT or (name in KEPT and name != "uv" and not prefix):
        raise ValueError(f"What {name} is to start is missing: write the command that starts the server after it.")


def uv_without_frozen(argv: Sequence[str]) -> bool:
    """Whether ``uv run`` may change the environment before it starts the server."""
    prefix, _ = split_prefix(argv)
    return "uv" in map(name_of, prefix) and not {"--frozen", "--no-sync", "--locked", "--no-project"} & set(prefix)


UV_NOTE = (
    "uv run without --frozen may change the environment at each start, and the server with it. Write uv run --frozen "
    "to start what is installed."
)
