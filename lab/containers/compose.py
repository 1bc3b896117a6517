"""`docker compose ... up -d SERVICE`: files of JSON, which is YAML too; the last word wins."""

import argparse
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

LABEL = "com.docker.compose."


def add_parser(parser: argparse.ArgumentParser) -> None:
    """What is understood of it."""
    parser.add_argument("-p", "--project-name", required=True)
    parser.add_argument("-f", "--file", action="append", required=True)
    parser.add_argument("--project-directory", default="")
    parser.add_argument("what", choices=["up"])
    parser.add_argument("-d", "--detach", action="store_true", required=True)
    parser.add_argument("--no-deps", action="store_true")
    parser.add_argument("service")


def up(asked: argparse.Namespace, ask: Callable[..., Any]) -> None:
    """Start the service's container, made anew where its files say other than it was made of."""
    wanted = _service(asked.file, asked.service)
    digest = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()
    labels = {
        f"{LABEL}project": asked.project_name,
        f"{LABEL}service": asked.service,
        f"{LABEL}project.working_dir": asked.project_directory or str(Path(asked.file[0]).parent),
        f"{LABEL}project.config_files": ",".join(asked.file),
        f"{LABEL}config-hash": digest,
    }
    name = f"{asked.project_name}-{asked.service}-1"
    for row in ask("ps", all=True):
        if row["Name"] != f"/{name}":
            continue
        if row["Config"]["Labels"][f"{LABEL}config-hash"] == digest:
            ask("start", container=name)
            return
        ask("stop", container=name, timeout=10)
        ask("rm", container=name)
    ask(
        "run",
        name=name,
        restart=wanted.get("restart", "no"),
        image=wanted["image"],
        command=wanted.get("command", []),
        entrypoint=wanted.get("entrypoint", []),
        user=wanted.get("user", ""),
        env=[f"{key}={value}" for key, value in wanted["environment"].items()],
        binds=[(each["source"], each["target"]) for each in wanted["volumes"]],
        labels=wanted["labels"] | labels,
    )


def _service(files: list[str], name: str) -> dict[str, Any]:
    """What is said in several files is put together for environment, labels, env_file and volumes; `environment` wins
    over `env_file`."""
    found: dict[str, Any] = {"environment": {}, "labels": {}, "env_file": [], "volumes": []}
    for file in files:
        part = json.loads(Path(file).read_text(), object_hook=_interpolated)["services"].get(name, {})
        maps = {key: {**found[key], **part.get(key, {})} for key in ("environment", "labels")}
        lists = {key: [*found[key], *part.get(key, [])] for key in ("env_file", "volumes")}
        found = {**found, **part, **maps, **lists}
    given = dict(pair for path in found.pop("env_file") for pair in env_file(path))
    return {**found, "environment": {**given, **found["environment"]}}


def env_file(path: str) -> list[tuple[str, str]]:
    """NAME='value', in which only a quotation mark is escaped. Raises what the real one says of a file not there."""
    try:
        lines = Path(path).read_text().splitlines()
    except FileNotFoundError:
        print(f"env file {path} not found: stat {path}: no such file or directory", file=sys.stderr)
        raise SystemExit(1) from None
    pairs = (line.partition("=") for line in lines if line)
    return [(name, value[1:-1].replace("\\'", "'")) for name, _, value in pairs]


def _interpolated(pairs: dict[str, Any]) -> dict[str, Any]:
    """`$$` is a dollar sign; there are no variables here."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(each) for each in value]
        return value.replace("$$", "$") if isinstance(value, str) else value

    return {key: plain(value) for key, value in pairs.items()}
