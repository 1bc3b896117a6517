"""The command line: the verbs and options that are needed here, the messages of the real one."""

import argparse
import json
import re
import socket
import sys
import time
from pathlib import Path
from typing import Any

from lab.containers import compose

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
    run.add_argument("-e", "--env", action="append", default=[])
    run.add_argument("--env-file", action="append", default=[])
    run.add_argument("-l", "--label", action="append", default=[])
    run.add_argument("--entrypoint", default="")
    run.add_argument("-u", "--user", default="")
    run.add_argument("--mount", action="append", default=[])
    for kept in ("-v", "--gpus", "--ipc", "--shm-size", "--device", "--ulimit", "--pull"):
        run.add_argument(kept, action="append", default=[], dest="kept")
    run.add_argument("image")
    run.add_argument("command", nargs=argparse.REMAINDER)
    ps = verbs.add_parser("ps")
    ps.add_argument("-a", "--all", action="store_true")
    ps.add_argument("-q", "--quiet", action="store_true")
    ps.add_argument("--no-trunc", action="store_true")
    ps.add_argument("--filter", action="append", default=[])
    logs = verbs.add_parser("logs")
    logs.add_argument("-f", "--follow", action="store_true")
    logs.add_argument("--since", default="")
    logs.add_argument("container")
    compose.add_parser(verbs.add_parser("compose"))
    inspect = verbs.add_parser("inspect")
    inspect.add_argument("-f", "--format", default="")
    stop = verbs.add_parser("stop")
    stop.add_argument("-t", "--timeout", type=int, default=10)
    rename = verbs.add_parser("rename")
    rename.add_argument("container")
    rename.add_argument("name")
    update = verbs.add_parser("update")
    update.add_argument("--restart", required=True)
    update.add_argument("container")
    image = verbs.add_parser("image")
    image.add_argument("what", choices=["inspect"])
    image.add_argument("-f", "--format", required=True)
    image.add_argument("image")
    for verb in (inspect, stop, verbs.add_parser("start"), verbs.add_parser("rm")):
        verb.add_argument("containers", nargs="+")
    return parser


def main(words: list[str]) -> int:
    """Returns the exit status."""
    asked = _parser().parse_args(words)
    try:
        if asked.verb == "run":
            asked.env = [*_env_files(asked.env_file), *asked.env]
            made = {key: getattr(asked, key) for key in ("name", "restart", "image", "command", "env", "user")}
            made["entrypoint"] = [asked.entrypoint] if asked.entrypoint else []
            made["binds"] = [_bind(each) for each in asked.mount]
            print(ask("run", **made, labels=dict(each.split("=", 1) for each in asked.label)))
        elif asked.verb == "ps":
            _show(_filtered(ask("ps", all=asked.all), asked.filter), only_ids=asked.quiet)
        elif asked.verb == "image":
            print(f"sha256:{asked.image}")
        elif asked.verb in ("rename", "update"):
            ask(asked.verb, **{key: getattr(asked, key) for key in ("container", "name", "restart") if key in asked})
        elif asked.verb == "logs":
            _logs(asked.container, since=asked.since, follow=asked.follow)
        elif asked.verb == "compose":
            compose.up(asked, ask)
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


def _bind(words: str) -> tuple[str, str]:
    """Source and target of `type=bind,source=...,target=...,readonly`."""
    parts = dict(each.partition("=")[::2] for each in words.split(","))
    if parts.pop("type", "") != "bind" or parts.keys() != {"source", "target", "readonly"}:
        raise RefusedError(f'invalid argument "{words}" for "--mount" flag')
    return parts["source"], parts["target"]


def _env_files(paths: list[str]) -> list[str]:
    """NAME=value as it stands; lines that begin with # and empty ones are none."""
    lines = [line.lstrip() for path in paths for line in Path(path).read_text().splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _filtered(rows: list[dict[str, Any]], filters: list[str]) -> list[dict[str, Any]]:
    """By `label=NAME=VALUE`, all of them."""
    wanted = dict(each.removeprefix("label=").split("=", 1) for each in filters)
    return [row for row in rows if wanted.items() <= row["Config"]["Labels"].items()]


def _logs(name: str, *, since: str, follow: bool) -> None:
    """All of it, or what this start has written; `since` is the time of that start and nothing else."""
    row = ask("inspect", container=name)
    with Path(row["LogPath"]).open("rb") as log:
        log.seek(row["LogStart"] if since == row["State"]["StartedAt"] else 0)
        while True:
            runs = ask("inspect", container=name)["State"]["Running"]
            sys.stdout.buffer.write(log.read())
            sys.stdout.buffer.flush()
            if not follow or not runs:
                return
            time.sleep(0.05)


def _show(rows: list[dict[str, Any]], *, only_ids: bool) -> None:
    if only_ids:
        print("\n".join(row["Id"] for row in rows))
        return
    print(f"{'CONTAINER ID':<15}{'IMAGE':<12}{'STATUS':<12}NAMES")
    for row in rows:
        print(
            f"{row['Id'][:SHORT]:<15}{row['Config']['Image']:<12}{row['State']['Status']:<12}{row['Name'].removeprefix('/')}"
        )


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
