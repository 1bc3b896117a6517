"""Ten ways in which people start a server, each with somebody beside it whom nobody may touch."""

import shlex
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lab import processes
from lab.fleet import Fleet
from lab.processes import Process
from tests.adopting.people import by_llama_server, by_nohup, by_unit, command, line
from tests.managers.keepers import Bystander, everybody, run, start_docker
from tests.support.fixtures import short_directory
from tests.support.panel import Panel
from tests.support.story import HASTE, Place, Story

QUIET = "> /dev/null 2>&1 < /dev/null"
CONDA = "/root/miniconda3/envs/serve"


@dataclass(frozen=True)
class Start:
    """What is started where, and on which port; ``beside`` is started with it."""

    fleet: Fleet
    place: Place
    port: int
    beside: Bystander


def _together(start: Start, server: str) -> str:
    """A shell's lines: both in one session, as somebody types them who then leaves."""
    return f"cd /tmp; {start.beside.command} {QUIET} & nohup {server} > /tmp/{start.port}.log 2>&1 < /dev/null &"


def loop_in_tmux(start: Start) -> None:
    script = start.place.machine.seen("/root/serve.sh")
    script.write_text(f"#!/bin/sh\nwhile true; do {line(start.port)}; sleep 600; done\n")
    run(start.place, f"tmux new-session -d -s llm 'sh /root/serve.sh'; tmux new-window -d -t llm: {_quoted(start)}")


def unit(start: Start) -> None:
    run(start.place, f"systemd-run --quiet --unit=chat-other sh -c {_quoted(start)}")
    by_unit(start.place, start.port)


def docker(start: Start) -> None:
    start_docker(start.place)
    run(start.place, f"docker run -d --name other sglang {start.beside.command}")
    run(start.place, f"docker run -d --name chat --restart always sglang {line(start.port)}")


def nohup_over_ssh(start: Start) -> None:
    """A real login, which ends."""
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "IdentitiesOnly=yes"]
    words = ["ssh", "-i", str(start.fleet.client_key), *(word for option in options for word in ("-o", option))]
    login = f"root@{start.place.node.address}"
    subprocess.run([*words, login, _together(start, line(start.port))], check=True, timeout=60)


def conda(start: Start) -> None:
    """What `conda activate serve` leaves in a shell."""
    start.place.machine.seen(CONDA).parent.mkdir(parents=True, exist_ok=True)
    run(start.place, f"ln -sfn /opt/sglang-0.5.9 {CONDA}")
    env = {"CONDA_PREFIX": CONDA, "CONDA_DEFAULT_ENV": "serve", "CONDA_EXE": "/root/miniconda3/bin/conda", **HASTE}
    exports = "; ".join(f"export {name}={value}" for name, value in env.items())
    server = shlex.join(["python", *command(start.port)[1:]])
    run(start.place, f"{exports}; export PATH={CONDA}/bin:$PATH; {_together(start, server)}")


def other_user(start: Start) -> None:
    inner = shlex.quote(_together(start, line(start.port)))
    run(start.place, f"setpriv --reuid=llm --regid=llm --init-groups sh -c {inner}")


def in_container(start: Start) -> None:
    run(start.place, _together(start, line(start.port)))


def two_on_one_card(start: Start) -> None:
    """The other one is on the next port."""
    run(start.place, f"setsid -f {start.beside.command} {QUIET}")
    by_llama_server(start.place, start.port)
    by_llama_server(start.place, start.port + 1)


def other_port(start: Start) -> None:
    """As it is found first; who restarts it by hand on another port does that later (``on_another_port``)."""
    run(start.place, _together(start, line(start.port + 1)))


def on_another_port(start: Start) -> None:
    by_nohup(start.place, start.port)


def another_panel(start: Start) -> None:
    """A real one, which is then shut down: its wrapper, its directory and its marks are there."""
    run(start.place, f"setsid -f {start.beside.command} {QUIET}")
    with Panel(short_directory("theirs")) as theirs:
        theirs.start("worker")
        with theirs.entered():
            story = Story.begin()
            place = story.add_host(start.fleet.host("desk"))
            story.start(story.deploy_sglang(place, port=start.port))


def _quoted(start: Start) -> str:
    return shlex.quote(f"exec {start.beside.command}")


WAYS: dict[str, tuple[str, Callable[[Start], None]]] = {
    "a loop in tmux": ("desk", loop_in_tmux),
    "a unit with Restart=always": ("units", unit),
    "docker with a restart policy": ("units", docker),
    "nohup over ssh": ("desk", nohup_over_ssh),
    "conda": ("desk", conda),
    "another user": ("desk", other_user),
    "in a container": ("box", in_container),
    "two on one card": ("desk", two_on_one_card),
    "port changed": ("desk", other_port),
    "another panel": ("desk", another_panel),
}
"""The machine, and how it is started there."""


def strangers(place: Place, *ports: int) -> dict[tuple[int, int], Process]:
    """Who lives on the machine, and on its node, besides logins (the panel's too) and the servers of these ports.

    A pause is nobody: that of a look outlives its login for a second, that of a loop begins when its server ends.
    """
    machines = dict.fromkeys((place.machine.pid1, place.node.pid1))
    found = {each.lab_pid: each for each in everybody(place)}
    found |= {each.lab_pid: each for pid in machines for each in processes.in_spaces({processes.space(pid)}, depth=1)}
    gone = {each.lab_pid for each in found.values() if each.title.startswith(("sshd", "sleep "))}
    for port in ports:
        sockets = processes.listening_sockets(place.machine.pid1, port)
        gone |= {each.lab_pid for each in found.values() if processes.open_files(each.lab_pid) & sockets}
    alive = [each for each in found.values() if each.state not in "ZX" and not _ancestors(each.lab_pid) & gone]
    return {(each.lab_pid, each.started): each for each in alive}


def _ancestors(lab_pid: int) -> set[int]:
    """With the process itself."""
    found: set[int] = set()
    with suppress(OSError):  # one that has just ended
        while lab_pid > 1:
            found.add(lab_pid)
            lab_pid = int(Path(f"/proc/{lab_pid}/stat").read_text().rpartition(")")[2].split()[1])
    return found
