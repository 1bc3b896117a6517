"""What no revision may hold, each with a sentence that says what to do. PURE."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from controlpanel.masking import MASK, is_secret_name, mask_argv, mask_text
from deployments.commandline.container import TOOLS, options_of
from deployments.commandline.words import TOO_LONG

SECRET_FLAGS = {
    "--api-keys": "--ap",
    "--admin-api-key": "--ad",
    "--hf-token": "--hf-t",
    "--ssl-keyfile-password": "--ssl-keyfile-p",
}
"""With how far the engines let each be cut short."""
ENV_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
FORBIDDEN_ENV = ("LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "ENV", "IFS", "PYTHONSTARTUP")


def check_no_secret(argv: list[str]) -> None:
    """Refuse a secret on the command line: every user of the host can read it there."""
    masked = mask_argv(argv)
    for position, word in enumerate(argv):
        flag, _, value = word.partition("=")
        given = value or any(not following.startswith("-") for following in argv[position + 1 : position + 2])
        if (given and _is_cut_short(flag)) or masked[position] != word:
            where = argv[position - 1] if masked[position] == MASK and position else mask_text(flag)
            raise ValueError(
                f"{where} would show the secret to every user of the host. Leave it out, "
                "and set it under Secrets on the deployment's page."
            )


def _is_cut_short(flag: str) -> bool:
    """Whether this is the beginning of a secret's flag."""
    flag = flag.replace("_", "-")
    return any(full.startswith(flag) and flag.startswith(least) for full, least in SECRET_FLAGS.items())


def check_argv(argv: list[str]) -> None:
    """Refuse a list of words that cannot be a command. Raises ValueError with a sentence."""
    if not argv or not argv[0].strip():
        raise ValueError("The command is empty.")
    check_words(argv)
    check_no_secret(argv)


def check_container(container: Mapping[str, Any], argv: list[str]) -> None:
    """Refuse a container that cannot be one; ``argv`` is the command inside, empty where the image has it."""
    if container.keys() != {"tool", "image", "options"} or container["tool"] not in TOOLS:
        raise ValueError("A container has a tool (docker or podman), an image and options.")
    words = [container["image"], *container["options"]]
    if not all(isinstance(word, str) for word in words) or not container["image"].strip():
        raise ValueError("A container has the name of an image, and its options are words.")
    check_words([*words, *argv])
    for option in options_of(container):
        name, equals, value = (option.value or "").partition("=")
        if option.name == "--env" and name.startswith("RELAUNCH_"):
            raise ValueError(f"{name} is the panel's own: the names that begin with RELAUNCH_ mark what it started.")
        if option.name == "--env" and equals and (is_secret_name(name) or mask_text(value) != value):
            raise ValueError(
                f"-e {name}=... would show the secret to every user of the host. Write -e {name} alone: the tool then "
                "takes it from the environment it is started with."
            )
    check_no_secret(words)
    check_no_secret(argv)


def check_words(argv: list[str]) -> None:
    """Refuse words that no program can be given, and too many. Raises ValueError with a sentence."""
    if any("\0" in word or "\n" in word or "\r" in word for word in argv):
        raise ValueError("A word of the command holds a line break or a NUL; remove it (JSON goes on one line).")
    if len(argv) > 1000 or sum(map(len, argv)) > 100_000:
        raise ValueError(TOO_LONG)


def check_env_name(name: str) -> None:
    """Refuse a name that no environment variable of a server may have. Raises ValueError with a sentence."""
    if not ENV_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name for an environment variable: capital letters, digits and _.")
    if name in FORBIDDEN_ENV:
        raise ValueError(f"{name} changes how every program is loaded; set it in the server's own environment.")
    if name.startswith("RELAUNCH_"):
        raise ValueError(f"{name} is the panel's own: the names that begin with RELAUNCH_ mark what it started.")


def check_env(env: dict[str, str]) -> None:
    """Refuse environment variables that would change how programs load, or that show a secret."""
    for name, value in env.items():
        check_env_name(name)
        if is_secret_name(name) or mask_text(value) != value:
            raise ValueError(f"{name} looks like a secret. Set it under Secrets on the deployment's page.")
        if "\0" in value or "\n" in value or "\r" in value or len(value) > 10_000:
            raise ValueError(f"The value of {name} holds a line break or a NUL, or is too long.")
