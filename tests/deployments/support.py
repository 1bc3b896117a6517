"""A host that answers the panel's scripts as a real one would, and does what a test wants to go wrong."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from deployments import runner
from deployments.lifecycle import JobKind, JobState
from deployments.models import Deployment, Gate, Job
from hosts import links
from hosts.models import Host
from hosts.probe.fake import Content, answer, asked_for, frame_bytes, is_probe
from hosts.transport.base import ConnectTimeout, TransportError
from hosts.transport.fake import Call, FakeTransport, Reply
from tests.deployments.machine import SGLANG, Machine, Proc
from tests.factories import make_deployment, make_gpu, make_host, make_launch, make_profile, make_revision

READY = "INFO: Uvicorn running on http://0.0.0.0:30000\nThe server is fired up and ready to roll!\n"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
COMPLETION = b'{"choices": [{"text": " Paris, and"}]}'
ROUNDS = 12
MARKS = {
    "take_locks": "locks",
    "tell_record": "launch",
    "tell_listener": "follow",
    "for WORD in $TARGETS": "stop",
    "tell program": "manager",
    "say version": "version",
    "tell_hook()": "hook",
}


@dataclass
class Tunnel:
    """The server's port: answers by path."""

    pages: dict[str, tuple[int, bytes]]
    _answer: bytes = b""

    def sendall(self, data: bytes) -> None:
        status, body = self.pages.get(data.split()[1].decode(), (404, b""))
        self._answer = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    def recv(self, n: int) -> bytes:
        part, self._answer = self._answer[:n], self._answer[n:]
        return part

    def settimeout(self, seconds: float | None) -> None:
        pass

    def close(self) -> None:
        pass


@dataclass
class FakeHost:
    """``machine`` is what it looks like now; ``sent`` what was sent to it; ``after`` and ``before`` break things."""

    machine: Machine
    pages: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    log: str = "loading\n" + READY
    exit_code: int | None = None
    listens: str = "ours"
    """Who has the port of a server that was launched."""
    deaf: set[str] = field(default_factory=set)
    denied: set[int] = field(default_factory=set)
    """Processes that the login may not signal."""
    by_pidfd: set[int] = field(default_factory=set)
    spaces: list[str] = field(default_factory=list)
    """The pid namespace of each order to signal somebody."""
    leaks: bool = False
    reachable: bool = True
    through: Callable[[str], list[str]] = lambda command: []
    """What a manager's own tool does and says."""
    answered: list[str] = field(default_factory=list)
    """What it has said since; whoever knows by what name it was asked is told."""
    uses: int = 40_000
    """MiB of each card that a server takes."""
    used_before: dict[str, int] = field(default_factory=dict)
    told: dict[str, list[str]] = field(default_factory=dict)
    """What manager.sh says, by kind of manager."""
    version: list[str] = field(default_factory=list)
    """What version.sh says."""
    flags: dict[str, Any] | None = None
    """What the reader of an engine's flags answers."""
    model: Mapping[str, Any] | None = None
    """The config.json of the model on its disk, with 20 GB of weights beside it; None: there is no model."""
    hooks: dict[str, tuple[list[str], int]] = field(default_factory=dict)
    """What a hook's command prints and its exit status, by the command; others print nothing and end well."""
    told_router: list[str] = field(default_factory=list)
    """The commands of hooks that were run, in order."""
    fence: int = 0
    locked_by: str = ""
    told_of_locks: list[str] = field(default_factory=list)
    """What taking the locks says instead of that they were taken."""
    launches: dict[str, str] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    before: dict[str, Callable[[], None]] = field(default_factory=dict)
    after: dict[str, Callable[[], None]] = field(default_factory=dict)
    _asked: str = ""
    _pids: Iterator[int] = field(default_factory=lambda: iter(range(500, 900, 10)))

    def __post_init__(self) -> None:
        self.transport = FakeTransport()
        self.transport.on(lambda call: not is_probe(call), reply=self._script)
        self.transport.on(is_probe, reply=self._probe)
        self.transport.on(lambda call: b"read_flags()" in call.stdin, reply=self._flags)
        self.transport.on(lambda call: b"tell_sizes()" in call.stdin, reply=self._model)
        self.transport.on(lambda call: b"look_at_server()" in call.stdin, reply=self._servers)
        self.transport.on("cat", "/proc/self/environ", reply=Reply(stdout=b"PATH=/usr/bin:/bin\0"))
        self.pages |= {
            "/v1/completions": (200, COMPLETION),
            "/server_info": (200, b'{"kv_cache_dtype": "fp8", "tp": 2}'),
            "/metrics": (200, b"sglang:num_running_reqs 0.0\n"),
        }
        self.transport.ports[30000] = lambda _host, _port: Tunnel(self.pages)

    @contextlib.contextmanager
    def borrow(self, host: Host) -> Iterator[FakeTransport]:
        if not self.reachable:
            raise ConnectTimeout(f"{host} does not answer.")
        yield self.transport

    # --- What it does

    def _happens(self, kind: str, work: Callable[[], Reply]) -> Reply:
        """Note that ``kind`` was sent, let the test break it, do it."""
        self.sent.append(kind)
        self.before.get(kind, lambda: None)()
        reply = work()
        self.after.get(kind, lambda: None)()
        return reply

    def _probe(self, call: Call) -> Reply:
        paths = tuple(word.removeprefix("path=") for word in call.argv if word.startswith("path="))
        ports = tuple(int(word.removeprefix("port=")) for word in call.argv if word.startswith("port="))
        if not any(word.startswith("every=") for word in call.argv):
            return self._happens("probe", lambda: answer(self.machine.sections(paths, ports))(call))
        token = call.stdin.partition(b"\n")[0].removeprefix(b"TOKEN=").decode()

        def frames() -> Reply:
            made = []
            for _ in range(ROUNDS):
                self.before.get("round", lambda: None)()
                made.append(frame_bytes(token, asked_for(call, self.machine.sections(paths, ports))))
            return Reply(chunks=tuple(made))

        return self._happens("watch", frames)

    def _script(self, call: Call) -> Reply:
        header, _, body = call.stdin.decode().partition("main() {")
        values = dict(word.partition("=")[::2] for word in shlex.split(header))
        parts = [name for mark, name in MARKS.items() if mark in body]
        kind = parts[-1]
        detail = {
            "stop": values.get("SIGNAL") or "watch",
            "launch": values.get("MODE_LAUNCH"),
            "locks": values.get("MODE"),
        }
        name = f"{kind} {detail[kind]}" if kind in detail else kind

        def work() -> Reply:
            lines = self._fenced(values) if kind != "follow" else None
            if lines is None and "locks" in parts and values["MODE"] == "take" and self.locked_by:
                lines = [f"locked {values['CARDS'].split()[0]} {self.locked_by}"]
            if lines is None:
                lines = getattr(self, f"_{kind}")(values)
            mark = f"@{values['TOKEN']} "
            return Reply(stdout="".join(f"{mark}{line}\n" for line in [*lines, "end"]).encode())

        return self._happens(name, work)

    def _hook(self, values: Mapping[str, str]) -> list[str]:
        command = values["COMMAND"]
        self.told_router.append(command)
        printed, status = self.hooks.get(command, ([], 0))
        return [*(f"out {line}" for line in printed), f"status {status}"]

    def _servers(self, call: Call) -> Reply:
        """What the look for servers is told: everybody's command, then more of some."""
        head = call.stdin.decode().partition("\n#")[0]
        values = dict(word.partition("=")[::2] for word in shlex.split(head))
        sections: dict[str, Content] = {"commands": self.machine.sections()["commands"]}
        for pid in values["PIDS"].split():
            program = self.machine.procs[int(pid)].command.split()[0]
            sections |= {f"cwd.{pid}": "/srv", f"environ.{pid}": "PATH=/usr/bin:/bin\0", f"program.{pid}": program}
        return Reply(stdout=frame_bytes(values["TOKEN"], sections))

    def _flags(self, call: Call) -> Reply:
        """What the reader of an engine's flags says; by default that the engine is not there."""
        values = dict(word.partition("=")[::2] for word in shlex.split(call.stdin.decode().partition("\n#")[0]))
        answer = self.flags if self.flags is not None else {"interpreter": values["PROGRAM"]}
        if answer.get("stamp") and answer["stamp"] == values["KNOWN"]:
            answer = {**answer, "same": True, "arguments": None}
        mark = f"@{values['TOKEN']}"
        return Reply(stdout=f"{mark} {json.dumps(answer)}\n{mark} end\n".encode())

    def _model(self, call: Call) -> Reply:
        """What is read of the model's folder."""
        token = call.stdin.partition(b"\n")[0].removeprefix(b"TOKEN=").decode()
        listed = "total 1\n-rw-r--r-- 1 0 0 20000000000 Jan 1 00:00 model.safetensors\n"
        sections: dict[str, Content] = {"kind": "none\n"}
        if self.model is not None:
            sections = {
                "kind": "folder\n",
                "config.json": json.dumps(self.model),
                "hf_quant_config.json": ("", 3),
                "index": ("", 3),
                "sizes": listed,
            }
        return Reply(stdout=frame_bytes(token, sections))

    def _fenced(self, values: dict[str, str]) -> list[str] | None:
        if int(values["FENCE"]) < self.fence:
            return [f"fenced {self.fence}"]
        self.fence = int(values["FENCE"])
        return None

    def _manager(self, values: dict[str, str]) -> list[str]:
        return self.told.get(values["KIND"], [])

    def _version(self, values: dict[str, str]) -> list[str]:
        return self.version

    def _locks(self, values: dict[str, str]) -> list[str]:
        return self.told_of_locks if self.told_of_locks and values["MODE"] == "take" else [values["MODE"]]

    def _stop(self, values: dict[str, str]) -> list[str]:
        lines: list[str] = []
        if values["THROUGH"]:
            self._asked = values["ANSWER"]
            lines = self.through(values["THROUGH"])
        elif values["ANSWER"] and values["ANSWER"] == self._asked:
            lines = [*self.answered]
        self.spaces += [values["SPACE"]] if values["TARGETS"] else []
        for word in values["TARGETS"].split():
            pid, start = map(int, word.split(":"))
            proc = self.machine.procs.get(pid)
            if proc is None or proc.start != start:
                lines.append(f"gone {pid}")
                continue
            if pid in self.denied:
                lines.append(f"denied {pid}")
                continue
            lines.append(f"sent {values['SIGNAL']} {pid}{' pidfd' if pid in self.by_pidfd else ''}")
            if values["SIGNAL"] not in self.deaf:
                self.end(pid)
        watched = [word.partition(":")[0] for word in values["WATCHED"].split()]
        alive = {pid: self.machine.procs[int(pid)].state for pid in watched if int(pid) in self.machine.procs}
        waits = [f"waits {pid} uvm_wait" for pid, state in alive.items() if state == "D"]
        return [*lines, " ".join(["alive", *(f"{pid}:{state}" for pid, state in alive.items())]), *waits]

    def end(self, root: int) -> None:
        """A process and all below it end; their memory is free unless the host leaks."""
        ended = {root}
        while more := {pid for pid, proc in self.machine.procs.items() if proc.parent in ended} - ended:
            ended |= more
        for pid in ended & self.machine.procs.keys():
            del self.machine.procs[pid]
        left = {pid: proc for pid, proc in self.machine.procs.items() if proc.cards}
        if not self.leaks and all(proc.memory for proc in left.values()):
            held = dict.fromkeys(self.machine.cards, 4)
            for pid, proc in left.items():
                held |= {uuid: held[uuid] + proc.memory for _, uuid in self.machine.holds(pid)}
            self.machine.cards = {**held}

    def _launch(self, values: dict[str, str]) -> list[str]:
        launch = values["LAUNCH"]
        if launch not in self.launches:
            if values["MODE_LAUNCH"] == "abandon":
                self.launches[launch] = "abandoned"
            else:
                self.launches[launch] = self._begin(launch, port=int(values["PORT"]), uuids=values["CARDS"].split())
        if self.launches[launch] == "abandoned":
            return ["abandoned"]
        asked = [*values["LIMITS"].split(), *values["NEEDS"].split()]
        memory = [f"memory {word.split('=')[0]} {self.used_before.get(word.split('=')[0], 4)}" for word in asked]
        return [*memory, *self.launches[launch].splitlines(), f"started /root/.relaunch/{launch}"]

    def _begin(self, launch: str, *, port: int, uuids: list[str]) -> str:
        self.used_before = {uuid: used if isinstance(used, int) else 4 for uuid, used in self.machine.cards.items()}
        pid = next(self._pids)
        worker = Proc(pid + 1, pid * 10 + 1, "sglang::schedul", parent=pid, cards=self._minors(uuids))
        if self.exit_code is None:
            self.machine.add(
                Proc(pid, pid * 10, command=SGLANG, port=port, marker=launch),
                replace(worker, marker=launch, memory=self.uses),
            )
            self.machine.cards = {
                uuid: used if uuid not in uuids else self.uses if used == 4 else self.uses + used
                for uuid, used in self.used_before.items()
            }
        return f"record pid {pid}\nrecord start {pid * 10}\nrecord boot {self.machine.boot}\nrecord pidns pid:[1]"

    def _minors(self, uuids: list[str]) -> tuple[int, ...]:
        """Of the cards that a server was started for."""
        return tuple(self.machine.minor(n) for n, uuid in enumerate(self.machine.cards) if uuid in uuids)

    def _follow(self, values: dict[str, str]) -> list[str]:
        text = self.log.encode()[int(values["OFFSET"]) :].decode()
        lines = [f"log {values['OFFSET']} {len(text)}\n{text}"] if text else []
        lines += [f"gpu {uuid} {used}" for uuid, used in self.machine.cards.items()]
        if self.exit_code is not None:
            other = ["listen other"] if self.listens == "other" else []
            return [*other, *lines, f"exited {self.exit_code}"]
        return [*lines, f"listen {self.listens}", "deadline"]


def raising(error: BaseException, *, times: int = 1) -> Callable[[], None]:
    """For ``before`` and ``after``: fail the first ``times``."""
    left = [error] * times

    def fail() -> None:
        if left:
            raise left.pop()

    return fail


@dataclass
class Story:
    """A deployment that serves on a fake host, and people and workers to act on it."""

    host: FakeHost
    deployment: Deployment
    ask: Callable[..., Job]
    job: Job = field(init=False)

    def request(self, kind: JobKind = JobKind.RESTART, **values: Any) -> Job:
        self.job = self.ask(self.deployment, kind=kind, **values)
        return self.job

    def work(self, told_to_stop: Callable[[], bool] = runner.never) -> Job:
        """One worker's turn."""
        runner.run(self.job.pk, told_to_stop=told_to_stop)
        self.job.refresh_from_db()
        return self.job

    def work_on(self) -> Job:
        """Turns until the job waits, is unknown or has ended."""
        while self.work().state == JobState.QUEUED:
            pass
        return self.job

    def answer(self, choice: str, comment: str = "why") -> None:
        """The open gate gets its answer, as the service gives it."""
        from django.contrib.auth.models import User

        from deployments import services

        gate = self.gate
        actor = User.objects.get(username="approver")
        services.answer_gate(gate, choice=choice, comment=comment, plan_hash=gate.plan_hash, actor=actor, address="")

    def approve(self) -> None:
        assert self.work().state == JobState.WAITING, self.job.summary
        self.answer("approve")
        self.host.sent.clear()

    @property
    def gate(self) -> Gate:
        gate = self.job.open_gate
        assert gate is not None, self.job.summary
        return gate

    def steps(self) -> dict[str, str]:
        return {f"{step.name}{' back' if step.way_back else ''}": step.state for step in self.job.steps.all()}

    def log(self) -> str:
        return "".join(self.job.log.order_by("seq").values_list("text", flat=True))


def make_story(machine: Machine, ask: Callable[..., Job], monkeypatch: pytest.MonkeyPatch, *, serves: bool) -> Story:
    """Two cards; with ``serves`` a launch of ours, recorded as pid 100."""
    host = make_host()
    gpus = [make_gpu(host, uuid=uuid, index=index, baseline_mib=4) for index, uuid in enumerate(machine.cards)]
    profile = make_profile()
    deployment = make_deployment(host=host, gpus=gpus, revision=make_revision(profile))
    if serves:
        make_launch(
            deployment, revision=profile.revisions.get(number=1), pid=100, start_time=1000, boot_id=machine.boot
        )
    fake = FakeHost(machine)
    monkeypatch.setattr(links, "borrow", fake.borrow)
    return Story(fake, deployment, ask)


__all__ = ["OOM", "READY", "FakeHost", "Story", "TransportError", "make_story", "raising"]
