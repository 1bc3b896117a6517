"""A pasted command line becomes words, environment and working directory. PURE.

Understands environment prefixes, quotes, line continuations, ``export A=1;``, ``cd DIR &&``, ``nohup``, ``exec``,
output redirections and a trailing ``&``. Anything else that a shell would interpret is refused in words, because the
panel starts programs from a list of words and never through a shell.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field

from controlpanel.masking import MASK, is_secret_name, mask_argv, mask_text

ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.S)
REDIRECTION_OR_QUOTED = re.compile(
    r"""(?P<quoted>'[^']*'|"(?:\\.|[^"\\])*"|\\.)"""
    r"""|(?:(?<=\s)|^)(?:\d+|&)?(?:>>?|<)\s*(?:&\d|&-|'[^']*'|"[^"]*"|[^\s&|;]+)""",
    re.S,
)
VARIABLE = re.compile(r"\$[A-Za-z_{]")
PREFIXES = ("nohup", "exec", "setsid")
ACTIVATES = ("source", ".", "conda")
ELSEWHERE = "Variables (X=1) belong into Environment, the directory of a cd into Working directory."
SECRET_FLAGS = {
    "--api-keys": "--ap",
    "--admin-api-key": "--ad",
    "--hf-token": "--hf-t",
    "--ssl-keyfile-password": "--ssl-keyfile-p",
}
"""With how far the engines let each be cut short."""


@dataclass(frozen=True)
class ParsedCommand:
    """A command as the panel stores it."""

    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = ""


def parse(text: str) -> ParsedCommand:
    """Read one pasted command line. Raises ValueError with a sentence that says what to change."""
    if "\0" in text:
        raise ValueError("The command holds a NUL character; remove it.")
    words = _words(_without_redirections(text))
    if words[-1:] == ["&"]:
        words = words[:-1]
    env, workdir, words = _preparations(words)
    while words:
        match = ASSIGNMENT.fullmatch(words[0])
        if match:
            env[match.group(1)] = match.group(2)
        elif words[0] != "env" and words[0] not in PREFIXES:
            break
        words = words[1:]
    _refuse_shell_syntax(words)
    _refuse_expansions([workdir, *env.values(), *words])
    if not words:
        raise ValueError(
            "Write the command that starts the server, for example: "
            "python -m sglang.launch_server --model-path /models/x"
        )
    check_no_secret(words)
    return ParsedCommand(words, env, workdir)


def _preparations(words: list[str]) -> tuple[dict[str, str], str, list[str]]:
    """Environment and directory from what stands in front (``export A=1; cd /srv &&``), and the words after it."""
    env: dict[str, str] = {}
    workdir = ""
    while (end := next((at for at, word in enumerate(words) if word in (";", "&&")), 0)) > 1:
        first, *rest = words[:end]
        assigned = [(match[1], match[2]) for word in rest if (match := ASSIGNMENT.fullmatch(word))]
        if first == "export" and len(assigned) == len(rest):
            env.update(assigned)
        elif first == "cd" and len(rest) == 1 and not workdir:
            workdir = rest[0]
        else:
            break
        words = words[end + 1 :]
    return env, workdir, words


def check_no_secret(argv: list[str]) -> None:
    """Refuse a secret on the command line: every user of the host can read it there."""
    masked = mask_argv(argv)
    for position, word in enumerate(argv):
        flag, _, value = word.partition("=")
        given = value or any(not following.startswith("-") for following in argv[position + 1 : position + 2])
        if (given and _is_cut_short(flag)) or masked[position] != word:
            where = argv[position - 1] if masked[position] == MASK and position else mask_text(flag)
            raise ValueError(
                f"{where} would show the secret to every user of the host. Leave it out; "
                "give the engine a key by its own configuration file on the host."
            )


def _is_cut_short(flag: str) -> bool:
    """Whether this is the beginning of a secret's flag."""
    flag = flag.replace("_", "-")
    return any(full.startswith(flag) and flag.startswith(least) for full, least in SECRET_FLAGS.items())


def _words(text: str) -> list[str]:
    """Split like a POSIX shell, keeping operators as words of their own."""
    joined = re.sub(r"\\\r?\n", " ", text.strip())
    if "\n" in joined:
        raise ValueError(f"Paste one command. To go on in the next line, end the line with a backslash. {ELSEWHERE}")
    lexer = shlex.shlex(joined, posix=True, punctuation_chars="&|;()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError as error:
        raise ValueError(f"The quotes do not match ({error}). Close every quote that is opened.") from error


def _without_redirections(text: str) -> str:
    """Drop ``> file`` and ``2>&1`` outside quotes: each launch has its own log."""
    return REDIRECTION_OR_QUOTED.sub(lambda match: match.group("quoted") or " ", text)


def _refuse_shell_syntax(words: list[str]) -> None:
    if words[:1] and words[0] in ACTIVATES:
        raise ValueError(
            f"{words[0]!r} needs a shell, which the panel does not use. Instead of activating an environment write the "
            f"full path of its python, for example /srv/venv/bin/python. {ELSEWHERE}"
        )
    for word in words:
        if word in ("&&", "||", "|", ";", "&", "(", ")"):
            raise ValueError(
                f"{word!r} needs a shell, which the panel does not use. Keep only the command that starts the server. "
                f"{ELSEWHERE}"
            )


def _refuse_expansions(words: list[str]) -> None:
    for word in words:
        if "`" in word or "$(" in word:
            raise ValueError(f"{word!r} would be run by a shell first. Write the value itself.")
        if VARIABLE.search(word):
            raise ValueError(f"{word!r} would be filled in by a shell first. Write the value itself.")


ENV_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
FORBIDDEN_ENV = ("LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "ENV", "IFS", "PYTHONSTARTUP")


def check_argv(argv: list[str]) -> None:
    """Refuse a list of words that cannot be a command. Raises ValueError with a sentence."""
    if not argv or not argv[0].strip():
        raise ValueError("The command is empty.")
    if any("\0" in word or "\n" in word for word in argv):
        raise ValueError("A word of the command holds a line break or a NUL; remove it.")
    if len(argv) > 1000 or sum(map(len, argv)) > 100_000:
        raise ValueError("The command is too long (1,000 words and 100,000 characters at most).")
    check_no_secret(argv)


def check_env(env: dict[str, str]) -> None:
    """Refuse environment variables that would change how programs load, or that show a secret."""
    for name, value in env.items():
        if not ENV_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a name for an environment variable: capital letters, digits and _.")
        if name in FORBIDDEN_ENV:
            raise ValueError(f"{name} changes how every program is loaded; set it in the server's own environment.")
        if name.startswith("RELAUNCH_"):
            raise ValueError(f"{name} is the panel's own: the names that begin with RELAUNCH_ mark what it started.")
        if is_secret_name(name) or mask_text(value) != value:
            raise ValueError(f"{name} looks like a secret. Keep it in the engine's own configuration on the host.")
        if "\0" in value or "\n" in value or len(value) > 10_000:
            raise ValueError(f"The value of {name} holds a line break or a NUL, or is too long.")
