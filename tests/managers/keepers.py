"""What looks after servers on the simulated machines, and bystanders that note each signal they get."""

import os
import shlex
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from deployments.models import Deployment, Effect, Gate, Job
from lab import processes
from lab.bystanders import BOOKS, PROGRAM, Bystanders
from lab.node import Container
from lab.processes import Process
from tests.support.story import HASTE, Place, Story, sglang, told
from tests.support.waiting import until

UNITS = "/etc/systemd/system"


def run(place: Place, script: str, *, timeout: float = 60) -> str:
    """A shell script on the machine, as root, in a session of its own; what it prints."""
    done = place.machine.exec(["setsid", "-w", "sh", "-c", script], timeout=timeout)
    assert done.returncode == 0, (script, done.stdout, done.stderr)
    return done.stdout.decode()


def has_systemd(place: Place) -> bool:
    return place.machine.spec.systemd


def everybody(place: Place) -> list[Process]:
    """What runs on the machine, in containers of docker as well."""
    own = processes.space(place.machine.pid1)
    depth = 2 if isinstance(place.machine, Container) else 1
    return list(processes.in_spaces({own, *processes.spaces_below(own)}, depth=depth))


def serve(place: Place, deployment: Deployment) -> str:
    """The server's command line for a shell."""
    return shlex.join(sglang(cards=2)).replace("{port}", str(deployment.port))


def adopted(story: Story, place: Place, **policy: object) -> Deployment:
    """A deployment on both cards whose server somebody else starts."""
    usual = {"memory_seconds": 5, "stuck_seconds": 8, "port_seconds": 5, "term_seconds": 10, "kill_seconds": 5}
    return story.deploy_sglang(place, **(usual | policy))


LATE = {
    **HASTE,
    "SGLANG_LAB_MODE": "late-release",
    "SGLANG_LAB_HINTS": '{"release_seconds": 20, "weights_mib": 2000, "kv_mib": 1000}',
}
"""Its memory stays for two seconds after its end: what starts it again has done so when the cards are free."""


def env(of: Mapping[str, str] = HASTE) -> str:
    """The environment of a server, as words before its command line."""
    return shlex.join(["env", *(f"{name}={value}" for name, value in of.items())])


@dataclass
class Bystander:
    """Somebody whom no signal may reach, wherever it is started on the machine. `ends`: a SIGTERM ends it."""

    place: Place
    name: str
    ends: bool = False

    def __post_init__(self) -> None:
        self.book = f"{BOOKS}/{self.name}"
        crowd = Bystanders(self.place.machine)
        self.command = crowd.command(self.name, ends=self.ends)
        """For a shell."""
        self.place.machine.seen(self.book).unlink(missing_ok=True)

    def process(self) -> Process | None:
        found = [each for each in everybody(self.place) if self.book in each.cmdline and each.state not in "ZX"]
        found = [each for each in found if each.cmdline[0] == PROGRAM]
        book = self.place.machine.seen(self.book)
        return found[0] if found and book.exists() and book.read_text().endswith("\n") else None

    def wait(self) -> Process:
        """Until it is there to note what it gets."""
        found = until(self.process, seconds=30, what=self.name)
        assert found is not None
        self.was = found
        return found

    def assert_unharmed(self) -> None:
        now = self.process()
        assert now is not None and (now.pid, now.started) == (self.was.pid, self.was.started), f"{self.name} has ended"
        got = self.place.machine.seen(self.book).read_text().splitlines()[1:]
        assert got == [], f"{self.name} got signals"


def bystander_alone(place: Place, name: str) -> Bystander:
    """One that runs by itself in the place where logins do."""
    made = Bystander(place, name)
    run(
        place,
        f"setsid -f {made.command} > /dev/null 2>&1" if not has_systemd(place) else _unit_line(name, made.command),
    )
    made.wait()
    return made


def _unit_line(name: str, command: str, *options: str) -> str:
    line = shlex.join(["systemd-run", "--quiet", "--collect", f"--unit={name}", *options, "sh", "-c"])
    return f"{line} {shlex.quote(f'exec {command}')}"


def start_unit(place: Place, deployment: Deployment, *, of: Mapping[str, str] = HASTE, name: str = "chat") -> None:
    """The server as a unit with `Restart=always`, as people write it; returns when it serves."""
    environment = "".join(f"Environment='{key}={value}'\n" for key, value in of.items())
    text = f"[Service]\nExecStart={serve(place, deployment)}\n{environment}Restart=always\nRestartSec=100ms\n"
    text += "[Install]\nWantedBy=multi-user.target\n"
    place.machine.seen(f"{UNITS}/{name}.service").write_text(text)
    run(place, f"systemctl daemon-reload; systemctl enable --now --quiet {name} 2>&1")
    wait_for_server(place, deployment)


def start_docker(place: Place) -> None:
    """The look-alike's daemon, as a unit."""
    run(place, "systemd-run --quiet --unit=docker dockerd; until [ -S /run/docker.sock ]; do sleep 0.02; done")


def start_container(place: Place, deployment: Deployment, *, of: Mapping[str, str] = HASTE) -> None:
    """The server in a container `chat`; returns when it serves."""
    run(place, f"docker run -d --name chat --restart always sglang {env(of)} {serve(place, deployment)}")
    wait_for_server(place, deployment)


def start_supervisord(place: Place, programs: dict[str, str]) -> None:
    """The real one, with these programs, from a configuration of its own."""
    if not Path("/usr/bin/supervisord").exists():
        pytest.skip("supervisord is not installed here (Debian: apt-get install supervisor)")
    text = "[supervisord]\nlogfile=/var/log/supervisord.log\npidfile=/run/supervisord.pid\n"
    text += "[unix_http_server]\nfile=/run/supervisor.sock\n[supervisorctl]\nserverurl=unix:///run/supervisor.sock\n"
    text += "[rpcinterface:supervisor]\n"
    text += "supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface\n"
    for name, command in programs.items():
        file = place.machine.seen(f"/root/{name}.sh")
        file.write_text(f"#!/bin/sh\nexec {command}\n")
        text += f"[program:{name}]\ncommand=sh /root/{name}.sh\nautorestart=true\n"
    place.machine.seen("/root/lab-supervisord.conf").write_text(text)
    run(place, "supervisord -c /root/lab-supervisord.conf")


def wait_for_server(place: Place, deployment: Deployment) -> Process:
    """The server's process, once something listens on the deployment's port."""

    def look() -> Process | None:
        sockets = processes.listening_sockets(place.machine.pid1, deployment.port)
        found = [each for each in everybody(place) if processes.open_files(each.lab_pid) & sockets]
        return min(found, key=lambda process: process.started, default=None)

    found = until(look, seconds=60, what="the server", tell=lambda: [each.title for each in everybody(place)])
    assert found is not None
    return found


def end_all(place: Place) -> None:
    """Nothing runs any more but the machine itself."""
    if has_systemd(place):
        units = "'watch*' 'other*' 'chat*' 'user@*' 'docker*' 'relaunch-*'"
        run(place, f"systemctl kill -s KILL {units} 2> /dev/null; systemctl stop {units}; systemctl reset-failed")
        run(place, f"rm -rf {UNITS}/chat.service {UNITS}/chat.service.d /run/docker.sock; systemctl daemon-reload")
        run(place, "rmdir /sys/fs/cgroup/kubepods.slice/* /sys/fs/cgroup/kubepods.slice 2> /dev/null; true")
    mine = ("systemd", "sshd", "/usr/lib/systemd", "/lib/systemd", "/sbin/init")
    for process in place.machine.processes():
        if process.own_pid != 1 and not process.title.startswith(mine):
            with suppress(ProcessLookupError):
                os.kill(process.lab_pid, signal.SIGKILL)


def evidence_of(gate: Gate) -> str:
    """All that a gate tells, as one text."""
    return f"{gate.title} {gate.text} {gate.evidence}"


def assert_untouched(place: Place, deployment: Deployment, job: Job) -> None:
    """The server that serves has got no signal of this job, and is the very one that was there."""
    assert not Effect.objects.filter(job=job).exists(), told(job)
    wait_for_server(place, deployment)


def lives(place: Place, process: Process) -> bool:
    """Still the very same process."""
    same = [each for each in everybody(place) if (each.pid, each.started) == (process.pid, process.started)]
    return bool(same) and same[0].state not in "ZX"


def signalled(job: Job) -> set[int]:
    """Every pid that the job has sent a signal to."""
    found: set[int] = set()
    for effect in Effect.objects.filter(job=job, kind__startswith="signal"):
        found |= {pid for pid, _ in effect.target["processes"]}
    return found
