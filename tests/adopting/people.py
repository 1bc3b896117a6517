"""How people start a server by hand, and what is on a machine before and after."""

import os
import shlex
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

from deployments.discovery.found import Found
from deployments.discovery.store import run_look, servers_of
from deployments.models import ServerLook
from lab import processes
from lab.processes import Process
from tests.managers.keepers import UNITS, everybody, has_systemd, run
from tests.support.fixtures import end_all as end_processes
from tests.support.story import HASTE, Machine, Place, sglang
from tests.support.waiting import until

CARDS = {"CUDA_VISIBLE_DEVICES": "0,1"}


def command(port: int, *flags: str, cards: int = 2) -> list[str]:
    """The simulated SGLang on this port."""
    return [word.replace("{port}", str(port)) for word in sglang(*flags, cards=cards)]


def line(port: int, *flags: str, env: Mapping[str, str] = CARDS, cards: int = 2) -> str:
    """The same as one types it, with the environment in front."""
    return shlex.join(["env", *(f"{k}={v}" for k, v in {**HASTE, **env}.items()), *command(port, *flags, cards=cards)])


def by_nohup(place: Place, port: int, *flags: str, env: Mapping[str, str] = CARDS, cards: int = 2) -> Process:
    """As in an ssh session that is left."""
    run(
        place,
        f"mkdir -p /srv; cd /srv && nohup setsid -f {line(port, *flags, env=env, cards=cards)} > /tmp/{port}.log 2>&1",
    )
    return wait_for_server(place, port)


def by_llama_server(place: Place, port: int, *flags: str, card: str = "0") -> Process:
    """The real llama.cpp with a small model on one card."""
    words = ["/lab/bin/llama-server", "-m", "/models/tiny.gguf", "--host", "0.0.0.0", "--port", str(port), "--metrics"]
    command = shlex.join([*words, *flags])
    run(place, f"cd /tmp && CUDA_VISIBLE_DEVICES={card} nohup setsid -f {command} > /tmp/{port}.log 2>&1")
    return wait_for_server(place, port)


def by_unit(place: Place, port: int, *flags: str, name: str = "chat") -> Process:
    """As a unit with `Restart=always`, as people write it."""
    environment = "".join(f"Environment='{key}={value}'\n" for key, value in {**HASTE, **CARDS}.items())
    text = f"[Service]\nExecStart={shlex.join(command(port, *flags))}\n{environment}Restart=always\nRestartSec=100ms\n"
    place.machine.seen(f"{UNITS}/{name}.service").write_text(f"{text}[Install]\nWantedBy=multi-user.target\n")
    run(place, f"systemctl daemon-reload; systemctl enable --now --quiet {name} 2>&1")
    return wait_for_server(place, port)


def wait_for_server(place: Place, port: int) -> Process:
    """The server's process, once it listens and has warmed itself up."""

    def look() -> Process | None:
        sockets = processes.listening_sockets(place.machine.pid1, port)
        found = [each for each in everybody(place) if processes.open_files(each.lab_pid) & sockets]
        return min(found, key=lambda process: process.started, default=None)

    found = until(look, seconds=60, what="the server", tell=lambda: [each.title for each in everybody(place)])
    assert found is not None
    return found


def looked(place: Place) -> list[Found]:
    """What a look at the host finds, made here and now."""
    row = ServerLook.objects.create(host=place.host)
    run_look(row.pk)
    row.refresh_from_db()
    assert not row.problem, row.problem
    return servers_of(row)


def on_port(place: Place, port: int) -> Found:
    """The server of this port."""
    found = [each for each in looked(place) if each.port == port]
    assert len(found) == 1, found
    return found[0]


def flags_of(place: Place, port: int) -> Sequence[str]:
    """The command line of what serves, as the kernel has it."""
    return wait_for_server(place, port).cmdline


def files(place: Place) -> set[str]:
    """Every file where the panel may leave something: homes, locks, units; not what the monitor has for the host."""
    text = run(
        place,
        "find /root /home /etc/systemd/system /run/lock /run/systemd/system /tmp -xdev 2> /dev/null | sort; true",
    )
    of_the_host = (".log", "/relaunch-nvidia-smi.lock", "/relaunch-0")
    return {line for line in text.splitlines() if not line.endswith(of_the_host) and "/watch.monitor-" not in line}


def end_all(machine: Machine) -> None:
    """Nothing runs any more but the machine itself."""
    place = Place(None, machine)  # type: ignore[arg-type]
    if has_systemd(place):
        units = "'chat*' 'docker*' 'relaunch-*'"
        run(place, f"systemctl kill -s KILL {units} 2> /dev/null; systemctl stop {units}; systemctl reset-failed")
        run(place, f"rm -rf {UNITS}/chat.service {UNITS}/chat.service.d /run/docker.sock; systemctl daemon-reload")
        mine = ("systemd", "sshd", "/usr/lib/systemd", "/lib/systemd", "/sbin/init")
        for process in machine.processes():
            if process.own_pid != 1 and not process.title.startswith(mine):
                with suppress(ProcessLookupError):
                    os.kill(process.lab_pid, signal.SIGKILL)
        return
    end_processes(machine)
