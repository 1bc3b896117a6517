"""Command lines as people paste them, read into words and written back exactly. PURE.

``parse`` reads one, ``write`` gives it back: ``parse(write(command)) == command`` for every command that a revision may
hold (``check_command``). Nothing here is run, and nothing goes through a shell.
"""

from deployments.commandline.checks import check_argv, check_container, check_env, check_env_name
from deployments.commandline.command import Command
from deployments.commandline.parse import check_command, parse
from deployments.commandline.write import on_one_line, read_env, write, write_env

__all__ = [
    "Command",
    "check_argv",
    "check_command",
    "check_container",
    "check_env",
    "check_env_name",
    "on_one_line",
    "parse",
    "read_env",
    "write",
    "write_env",
]
