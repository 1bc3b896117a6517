"""A server that something looks after: it is stopped through that, or after a confirmation; nobody else gets a signal.

What needs systemd or docker needs machines of another kind: `tests/managers/`.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from lab.bystanders import Bystander
from tests.verdicts.scene import Scene
from tests.verdicts.situation import ASKS, REFUSED, STOPPED, Outcome, Table
from tests.verdicts.stops import SOON, TERM

SETTINGS = "/run/lab-supervisord.conf"
SUPERVISORD = """[supervisord]
logfile=/run/lab-supervisord.log
pidfile=/run/lab-supervisord.pid
[unix_http_server]
file=/run/lab-supervisor.sock
[supervisorctl]
serverurl=unix:///run/lab-supervisor.sock
[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface
"""
TABLE = Table(policy=SOON)
row = TABLE.row


def under(s: Scene, start: str) -> Bystander:
    """The server, not started by the panel; ``start`` is a shell's line that runs its {command}."""
    name = s.name("server")
    command = s.by.command(name, **s.options(None))
    s.detach(start.format(command=command, quoted=shlex.quote(f"{command}; :")))
    found = s.by.await_one(name)
    s.members.append(found)
    return found


@row("a job of Slurm", REFUSED, "is a job of Slurm.*Nothing was touched")
def keeper_scheduler(s: Scene) -> Outcome:
    s.expected.append((under(s, "cp /bin/sh /run/slurmstepd; exec /run/slurmstepd -c {quoted}"), []))
    return s.asked()


@row("a shell waits for it, and may run a loop", ASKS, "manager: .*may start the server again")
def keeper_shell(s: Scene) -> Outcome:
    s.expected.append((under(s, "bash --norc -c {quoted}; sleep 86399"), []))
    return s.stop()


@row("the same, and a person has said stop", STOPPED)
def keeper_confirmed(s: Scene) -> Outcome:
    s.expected.append((under(s, "bash --norc -c {quoted}; sleep 86399"), [TERM]))
    job = s.planned()
    s.answer(job, "approve")
    return s.answer(job, "stop", comment="It is no loop.")


@row("a program of supervisord: stopped through it, the other program goes on", STOPPED)
def keeper_supervisord(s: Scene) -> Outcome:
    server, other = s.name("server"), s.name("other")
    commands = {"chat": s.by.command(server, **s.options(None)), "other": s.by.command(other, title="llama-server")}
    text = SUPERVISORD
    for program, command in commands.items():
        s.machine.seen(f"/run/{program}.sh").write_text(f"exec {command}\n")
        text += f"[program:{program}]\ncommand=sh /run/{program}.sh\nautorestart=true\nstartsecs=0\n"
    s.machine.seen(SETTINGS).write_text(text)
    s.shell(f"setsid -w supervisord -c {SETTINGS}")
    s.bystanders.append(s.by.await_one(other))
    s.members.append(s.by.await_one(server))
    s.expected.append((s.by.await_one(server), [TERM]))
    return s.stop()


ROWS = [row for row in TABLE.rows if row.key != "keeper_supervisord" or Path("/usr/bin/supervisord").exists()]
"""Without supervisord there is nothing to ask (Debian: apt-get install supervisor)."""
