"""The command line: the verbs and options that are needed here, the messages of the real one."""

import argparse
import json
import re
import socket
import sys
from typing import Any

SOCKET = "/run/docker.sock"
SHORT = 12


class RefusedError(Exception):
    """The daemon said no; the text is what the real one says."""


def ask(verb: str, **words: Any) -> Any:
    """One request to the daemon. Raises RefusedError."""
    with socket.socket(socket.AF_UNIX) as link:
        try:
            link.connect(SOCKET)
        except PermissionError:
            raise RefusedError(
                "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock"
            ) from None
        except OSError:
            raise RefusedError(
                "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
            ) from None
        link.sendall(json.dumps({"verb": verb, **words}).encode() + b"\n")
        answer = json.loads(link.makefile().readline())
    if "refused" in answer:
        raise RefusedError(answer["refused"])
    return answer["result"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="docker")
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run")
    run.add_argument("-d", "--detach", action="store_true", required=True)
    run.add_argument("--name", default="")
    run.add_argument("--restart", default="no")
    run.add_argument("--network", choices=["host"], default="host")
    run.add_argument("image")
    run.add_argument("command", nargs=argparse.REMAINDER)
    ps = verbs.add_parser("ps")
    ps.add_argument("-a", "--all", action="store_true")
    inspect = verbs.add_parser("inspect")
    inspect.add_argument("-f", "--format", default="")
    stop = verbs.add_parser("stop")
    stop.add_argument("-t", "--timeout", type=int, default=10)
    for verb in (inspect, stop, verbs.add_parser("start"), verbs.add_parser("rm")):
        verb.add_argument("containers", nargs="+")
    return parser


def main(words: list[str]) -> int:
    """Returns the exit status."""
    asked = _parser().parse_args(words)
    try:
        if asked.verb == "run":
            print(ask("run", name=asked.name, restart=asked.restart, image=asked.image, command=asked.command))
        elif asked.verb == "ps":
            _show(ask("ps", all=asked.all))
        elif asked.verb == "inspect":
            return _inspect(asked.containers, asked.format)
        else:
            for name in asked.containers:
                ask(asked.verb, container=name, timeout=getattr(asked, "timeout", 0))
                print(name)
    except RefusedError as error:
        print(str(error), file=sys.stderr)
        return 1
    return 0


def _show(rows: list[dict[str, Any]]) -> None:
    print(f"{'CONTAINER ID':<15}{'IMAGE':<12}{'STATUS':<12}NAMES")
    for row in rows:
        print(f"{row['Id'][:SHORT]:<15}{row['Image']:<12}{row['State']['Status']:<12}{row['Name'].removeprefix('/')}")


def _inspect(names: list[str], shape: str) -> int:
    found = []
    for name in names:
        try:
            found.append(ask("inspect", container=name))
        except RefusedError as error:
            print("" if shape else "[]")
            said = str(error)
            print(f"Error: No such object: {name}" if "No such container" in said else said, file=sys.stderr)
            return 1
    print("\n".join(_filled(shape, row) for row in found) if shape else json.dumps(found, indent=4))
    return 0


def _filled(shape: str, row: dict[str, Any]) -> str:
    """A template of which only `{{.A.B}}` is known."""

    def value(match: "re.Match[str]") -> str:
        here: Any = row
        for word in match.group(1).split("."):
            here = here[word]
        return str(here).lower() if isinstance(here, bool) else str(here)

    return re.sub(r"\{\{\s*\.([\w.]+)\s*\}\}", value, shape)
