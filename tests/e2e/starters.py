"""How somebody has started a server before the panel knows of it: by a unit, in a container, by hand."""

import json
import os
import shlex
import signal
from contextlib import suppress

from lab.processes import Process
from lab.tree import LOGIN, LOGIN_ID
from tests.adopting.people import CARDS, command, line, wait_for_server
from tests.managers.keepers import UNITS, everybody, has_systemd, run, start_docker
from tests.support.story import HASTE, Machine, Place
from tests.support.waiting import until

DIRECTORY = "/srv/llm"
ROOT, LLM = "root", LOGIN
UIDS = {ROOT: 0, LLM: LOGIN_ID}


def start(machine: Machine, way: str, *, port: int, user: str) -> Process:
    """The simulated SGLang on both of the first cards, as this user; returns its process once it listens."""
    place = Place(None, machine)  # type: ignore[arg-type]
    {"unit": _by_unit, "compose": _by_compose, "transient": _by_hand, "plain": _by_hand}[way](place, port, user)
    return wait_for_server(place, port)


def end(machine: Machine) -> None:
    """No server runs any more, and nothing that would start one. What the panel's monitor has there goes on: a host
    whose look was killed counts as not reached for a while, and nothing is adopted there then."""
    place = Place(None, machine)  # type: ignore[arg-type]
    if has_systemd(place):
        units = "'chat*' 'docker*' 'relaunch-*'"
        run(place, f"systemctl kill -s KILL {units} 2> /dev/null; systemctl stop {units}; systemctl reset-failed")
        run(place, f"rm -rf {UNITS}/chat.service {UNITS}/chat.service.d /run/docker.sock; systemctl daemon-reload")
    for process in everybody(place):
        if "sglang" in process.title:
            with suppress(ProcessLookupError):
                os.kill(process.lab_pid, signal.SIGKILL)
    until(lambda: not ["" for each in everybody(place) if "sglang" in each.title], seconds=20, what="their end")


def _by_unit(place: Place, port: int, user: str) -> None:
    environment = "".join(f"Environment='{key}={value}'\n" for key, value in {**HASTE, **CARDS}.items())
    text = f"[Service]\nUser={user}\nExecStart={shlex.join(command(port))}\n{environment}Restart=always\n"
    place.machine.seen(f"{UNITS}/chat.service").write_text(f"{text}[Install]\nWantedBy=multi-user.target\n")
    run(place, "systemctl daemon-reload; systemctl enable --now --quiet chat 2>&1")


def _by_compose(place: Place, port: int, user: str) -> None:
    words = command(port)
    service = {
        "image": "sglang", "entrypoint": words[:1], "command": words[1:], "environment": {**HASTE, **CARDS},
        "user": "" if user == ROOT else f"{LOGIN_ID}:{LOGIN_ID}",
    }  # fmt: skip
    directory = place.machine.seen(DIRECTORY)
    directory.mkdir(parents=True, exist_ok=True)
    for file in directory.iterdir():
        file.unlink()
    (directory / "compose.yaml").write_text(json.dumps({"services": {"chat": service}}))
    start_docker(place)
    run(place, f"docker compose -p llm --project-directory {DIRECTORY} -f {DIRECTORY}/compose.yaml up -d chat")


def _by_hand(place: Place, port: int, user: str) -> None:
    login = "" if user == ROOT else f"setpriv --reuid={LOGIN_ID} --regid={LOGIN_ID} --clear-groups "
    run(place, f"cd /tmp && nohup setsid -f {login}{line(port)} > /tmp/{port}.log 2>&1")
