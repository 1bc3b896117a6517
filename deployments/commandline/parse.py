"""A pasted command line becomes words, environment, directory and container. PURE."""

from __future__ import annotations

from dataclasses import dataclass, field

from controlpanel.masking import is_secret_name, mask_text
from deployments.commandline import compose, container
from deployments.commandline.activation import (
    CONDA,
    NOT_ACTIVATED,
    Environment,
    activated,
    after_conda_run,
    located,
)
from deployments.commandline.checks import check_argv, check_container, check_env, check_no_secret, check_words
from deployments.commandline.command import Command
from deployments.commandline.prefixes import LEFT_OUT, UV_NOTE, name_of, refuse_program, uv_without_frozen
from deployments.commandline.words import ASSIGNMENT, Operator, Token, Word, read_words
from deployments.commandline.write import write

ELSEWHERE = "Variables (X=1) belong into Environment, the directory of a cd into Working directory."
NOTHING = "Write the command that starts the server, for example: python -m sglang.launch_server --model-path /models/x"


@dataclass
class _Paste:
    """What was gathered so far from the statements in front of the command."""

    env: dict[str, str] = field(default_factory=dict)
    workdir: str = ""
    environment: Environment = field(default_factory=Environment)
    notes: list[str] = field(default_factory=list)


def parse(text: str) -> Command:
    """Read one pasted command line. Raises ValueError with a sentence that says what to change."""
    if "\0" in text:
        raise ValueError("The command holds a NUL character; remove it.")
    found = compose.command_of(text)
    if found is not None:
        return _finish([Word(word, bare=0) for word in found], _Paste())
    tokens, notes = read_words(text)
    if tokens and isinstance(tokens[0], Word) and tokens[0] == Word("$"):  # a prompt that was copied with it
        tokens = tokens[1:]
    paste = _Paste(notes=notes)
    return _finish(_command(tokens, paste), paste)


def check_command(command: Command) -> None:
    """Refuse what no revision may hold, and what would not be read back exactly as it is.

    Raises ValueError with a sentence.
    """
    if command.container:
        check_container(command.container, command.argv)
    else:
        check_argv(command.argv)
    check_env(command.env)
    if parse(write(command)) != command:
        raise ValueError("This command does not read back as it is written. Paste it as the line that you would type.")


def _command(tokens: list[Token], paste: _Paste) -> list[Word]:
    """The words of the command itself, after what stands in front of it was put into ``paste``."""
    while True:
        while tokens and tokens[0] == Operator("\n"):
            tokens = tokens[1:]
        words, operator, rest = _statement(tokens)
        if operator not in (";", "&&", "\n") or not _has_words(rest) or not _is_preparation(words, paste):
            break
        tokens = rest
    if not words and operator:
        raise ValueError(_needs_a_shell(operator))
    _nothing_after(words, operator, rest, paste)
    return words


def _has_words(tokens: list[Token]) -> bool:
    return any(isinstance(token, Word) for token in tokens)


def _statement(tokens: list[Token]) -> tuple[list[Word], str, list[Token]]:
    """The words up to the next operator, that operator (empty at the end), and what follows it."""
    words: list[Word] = []
    for place, token in enumerate(tokens):
        if isinstance(token, Operator):
            return words, token.text, tokens[place + 1 :]
        words.append(token)
    return words, "", []


def _is_preparation(words: list[Word], paste: _Paste) -> bool:
    """Put one statement in front of the command into ``paste``; False where it is none."""
    if not words:
        return False
    first, rest = words[0].text, words[1:]
    assigned = [word.assigns for word in rest]
    if first == "export" and rest and None not in assigned:
        for word in rest:
            _set(paste, word, word.assigns or ("", ""))
    elif first == "cd" and len(rest) == 1 and not paste.workdir:
        _keep(rest)
        paste.workdir = rest[0].text
    elif first == "set" and rest and all(word.text[0:1] in "-+" or word.text == "pipefail" for word in rest):
        return True
    elif all(word.assigns for word in words):
        raise ValueError(
            f"{words[0].text.partition('=')[0]} is set for the shell only and never reaches the server. Write export "
            "in front of it, or write it into Environment."
        )
    else:
        if first != "eval" and name_of(first) in ("source", ".", *CONDA):
            _keep(rest)
        found = activated([word.text for word in words], paste.environment, workdir=paste.workdir)
        if found is None:
            return False
        paste.environment = found
    return True


def _set(paste: _Paste, word: Word, assigned: tuple[str, str]) -> None:
    """Take one NAME=value into the environment."""
    name, value = assigned
    if word.trouble and is_secret_name(name):
        raise ValueError(f"{name} looks like a secret, and is filled in by a shell. Leave it out of the command line.")
    _keep([word])
    paste.env[name] = value


def _keep(words: list[Word]) -> None:
    """Refuse words that a shell would have made something else of."""
    for word in words:
        if word.trouble:
            raise ValueError(word.trouble)


def _nothing_after(words: list[Word], operator: str, rest: list[Token], paste: _Paste) -> None:
    """Refuse what follows the command, but for what only puts it into the background or keeps its log."""
    if operator in ("|", "|&"):
        following, operator, rest = _statement(rest)
        if not following or name_of(following[0].text) != "tee":
            raise ValueError(_needs_a_shell("|"))
        paste.notes.append("| tee was left out: each launch keeps its own log.")
    if operator == "&":
        following, operator, rest = _statement(rest)
        texts = [word.text for word in following]
        if texts and texts[0] not in ("disown", "wait") and texts != ["echo", "$!"]:
            raise ValueError(_needs_a_shell("&"))
    if not _has_words(rest) and operator in ("", "\n", ";", "&"):
        return
    following = [token for token in rest if isinstance(token, Word)][:1]
    if operator == "\n" and following and following[0].text.startswith("-"):
        raise ValueError(
            f"A line begins with {mask_text(following[0].text)[:40]}, but the line before does not go on: end that "
            "line with a backslash, with nothing after it."
        )
    if operator == "\n":
        raise ValueError(f"Paste one command. To go on in the next line, end the line with a backslash. {ELSEWHERE}")
    raise ValueError(_needs_a_shell(operator or "&"))


def _needs_a_shell(operator: str) -> str:
    return (
        f"{operator!r} needs a shell, which the panel does not use. Keep only the command that starts the server. "
        f"{ELSEWHERE}"
    )


def _finish(words: list[Word], paste: _Paste) -> Command:
    """Take off what stands before the program, and look into a container."""
    words = _without_wrappers(words, paste)
    command = _built([word.text for word in words], paste)
    check_words(command.argv)
    # A secret is named before what a shell would fill in: “write the value itself” would be the worst of advice there.
    if command.container:
        check_container(command.container, command.argv)
    else:
        check_no_secret(command.argv)
    _keep(words)
    return command


def _built(argv: list[str], paste: _Paste) -> Command:
    """The command of these words, resolved to its environment or taken apart from its container."""
    if name_of(argv[0]) in CONDA and argv[1:2] == ["run"]:
        paste.environment, argv = after_conda_run(argv, paste.environment)
        argv = [word.text for word in _without_wrappers([Word(word) for word in argv], paste)]
    if container.is_run(argv):
        return _contained(argv, paste)
    refuse_program(argv)
    placed = located(argv, paste.environment)
    if placed != argv:
        paste.notes.append(NOT_ACTIVATED.format(next(new for new, old in zip(placed, argv, strict=True) if new != old)))
    if uv_without_frozen(placed):
        paste.notes.append(UV_NOTE)
    return Command(placed, paste.env, paste.workdir, {}, tuple(paste.notes))


def _contained(argv: list[str], paste: _Paste) -> Command:
    """A command in a container, whose tool is started with the environment that was set for it."""
    found = container.read(argv)
    handed = {option.value for option in container.options_of(found.container) if option.name == "--env"}
    notes = [
        f"{name} is set for {found.container['tool']} itself. The server gets it by -e {name} after run."
        for name in paste.env
        if name not in handed
    ]
    return Command(found.argv, paste.env, paste.workdir, found.container, (*paste.notes, *found.notes, *notes))


def _without_wrappers(words: list[Word], paste: _Paste) -> list[Word]:
    """The words from the program on. Raises ValueError where none is left."""
    while words:
        name = name_of(words[0].text)
        if assigned := words[0].assigns:
            _set(paste, words[0], assigned)
            words = words[1:]
            continue
        if name == "env":
            words = _after_env(words[1:], paste)
        elif name in LEFT_OUT:
            options = LEFT_OUT[name]
            words = words[1:]
            while words and words[0].text in options:
                words = words[1:]
        else:
            return words
        if words and words[0].text.startswith("-"):
            raise ValueError(f"{name} {mask_text(words[0].text)[:40]} is not understood. Leave {name} out.")
    raise ValueError(NOTHING)


def _after_env(words: list[Word], paste: _Paste) -> list[Word]:
    """What follows ``env A=1 B=2``, which takes its variables in quotes too."""
    while words and (assigned := ASSIGNMENT.fullmatch(words[0].text)):
        _set(paste, words[0], (assigned[1], assigned[2]))
        words = words[1:]
    return words
