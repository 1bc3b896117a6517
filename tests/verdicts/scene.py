"""One deployment at one place: what the lab makes happen there, what the product says, and whom it hurt."""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deployments import runner
from deployments.lifecycle import ACTIVE, LIVE_LAUNCH, JobKind, JobState, LaunchState, StepState
from deployments.models import CardClaim, Check, Deployment, Effect, Gate, Job, JobStep, Launch, PortClaim
from lab import processes
from lab.bystanders import Bystander, Bystanders
from lab.fleet import CardSpec, Fleet
from lab.gpus import state
from lab.host import wait_until
from lab.processes import Process
from tests.support.fixtures import MONITOR
from tests.support.story import Machine, Place, Story, told
from tests.verdicts.place import boot_id_of
from tests.verdicts.situation import ASKS, FREE, NO_CONTACT, NOT_FREE, REFUSED, STOPPED, UNMEASURED, Outcome

SERVER = "llama-server"
ARGV = ("/lab/bin/llama-server", "-m", "/models/tiny.gguf", "--port", "{port}")
BEFORE_VERIFY = ("plan", "drain", "stop")
_numbers = itertools.count(1)


@dataclass
class Scene:
    """``standing``: bystanders of every situation; ``elsewhere``: how to start some on the node and in another
    container."""

    story: Story
    fleet: Fleet
    place: Place
    by: Bystanders
    standing: tuple[Bystander, ...]
    elsewhere: dict[str, Bystanders]
    slots: tuple[int, ...] = (0,)
    bystanders: list[Bystander] = field(default_factory=list)
    members: list[Bystander | Process] = field(default_factory=list)
    expected: list[tuple[Bystander, list[int]]] = field(default_factory=list)
    approved: list[Bystander] = field(default_factory=list)
    """Strangers that a person named in this situation."""
    way_back: list[Callable[[], None]] = field(default_factory=list)

    # --- What there is

    @property
    def machine(self) -> Machine:
        """Where the server lives."""
        return self.place.machine

    @property
    def faults(self) -> Any:
        """What can go wrong."""
        return self.fleet.faults

    @property
    def cards(self) -> list[CardSpec]:
        """The deployment's cards."""
        return [self.place.node.cards[slot] for slot in self.slots]

    def card(self, slot: int) -> CardSpec:
        """Any card of the machine."""
        return self.place.node.cards[slot]

    def deploy(self, slots: Sequence[int], **policy: Any) -> None:
        """The deployment that all is about, on a port of its own."""
        self.slots = tuple(slots)
        known = {gpu.uuid: gpu.index for gpu in self.place.host.gpus.all()}
        cards = [known[card.uuid] for card in self.cards]
        self.deployment: Deployment = self.story.deploy(self.place, ARGV, engine="llama_server", cards=cards, **policy)

    # --- What happens there

    def gpu(self, *lines: str) -> None:
        """What is wrong with the machine's GPUs."""
        self.faults.gpu(self.place.node, "\n".join(lines))

    def leak(self, slot: int, mib: int) -> None:
        """Memory in use without a process."""
        self.by.shell(f"gpu-hold --gpu {self.card(slot).uuid} --mib {mib} --mode leak -- true")

    def shell(self, script: str) -> None:
        """Run something on the server's machine, as root."""
        self.by.shell(script)

    def ask(self, command: str) -> str:
        """What a command prints there."""
        return self.machine.exec(["sh", "-c", command], timeout=20).stdout.decode()

    def detach(self, script: str) -> None:
        """The same, left to itself."""
        self.shell(f"setsid -f sh -c {shlex.quote(script)} < /dev/null > /dev/null 2>&1")

    def name(self, what: str) -> str:
        """A name that no other bystander has."""
        return f"{what}-{next(_numbers)}"

    def bystander(self, what: str, *, there: Bystanders | None = None, **options: Any) -> Bystander:
        """Somebody else's process, which must get no signal."""
        by, name = there or self.by, self.name(what)
        found = by.start(name, f"exec {by.command(name, **options)}")
        self.bystanders.append(found)
        return found

    def stranger(self, slot: int, mib: int, **options: Any) -> Bystander:
        """One that holds a card."""
        return self.bystander("stranger", hold=(self.card(slot).uuid, mib), **options)

    def launch(self, **fields: Any) -> Launch:
        """The row of a server that the panel has started here."""
        return Launch.objects.create(
            deployment=self.deployment,
            revision=self.deployment.revision,
            host=self.place.host,
            **{"state": LaunchState.SERVING, "boot_id": boot_id_of(self.machine), **fields},
        )

    def record(self, launch: Launch, who: Bystander | Process) -> None:
        """Write down that ``who`` is what this launch has started."""
        Launch.objects.filter(pk=launch.pk).update(pid=pid_of(who), start_time=who.started)

    def options(self, launch: Launch | None, **more: Any) -> dict[str, Any]:
        """How the server itself is started: on the port, on the first card, under its name, with its launch's mark."""
        env = {"RELAUNCH_LAUNCH_ID": str(launch.pk)} if launch is not None else {}
        usual = {"title": SERVER, "port": self.deployment.port, "hold": (self.cards[0].uuid, 9000), "ends": True}
        return {**usual, "env": env, **more}

    def serve(self, *, adopted: bool = False, **options: Any) -> Bystander:
        """The deployment's server, one process; ``adopted``: not started by the panel."""
        launch = None if adopted else self.launch()
        name = self.name("server")
        found = self.by.start(name, f"exec {self.by.command(name, **self.options(launch, **options))}")
        if launch is not None:
            self.record(launch, found)
        self.members.append(found)
        return found

    def tree(self, launch: Launch, *workers: dict[str, Any], **options: Any) -> list[Bystander]:
        """A server with workers below it, recorded; the server first."""
        name, names = self.name("server"), [self.name("worker") for _ in workers]
        lines = [f"{self.by.command(worker, **more)} &" for worker, more in zip(names, workers, strict=True)]
        found = [
            self.by.start(name, "\n".join([*lines, f"exec {self.by.command(name, **self.options(launch, **options))}"]))
        ]
        found += [self.by.await_one(worker) for worker in names]
        self.record(launch, found[0])
        self.members += found
        return found

    def process(self, title: str) -> Process:
        """The newest process there whose command line begins so; a member from now on."""
        found = [process for process in self.machine.processes() if process.title.startswith(title)]
        self.members.append(max(found, key=lambda process: (process.started, process.pid)))
        return self.members[-1]  # type: ignore[return-value]  # it was just put there

    def kill(self, who: Bystander | Process) -> None:
        """End one by force, from outside, and wait until it is gone."""
        os.kill(who.lab_pid, signal.SIGKILL)
        wait_until(lambda: not lives(who), timeout=10, what=f"end of {pid_of(who)}")

    def instead_of(self, who: Bystander) -> Bystander:
        """It ends, and somebody else's process gets its number."""
        self.kill(who)
        self.members.remove(who)
        return self.bystander("same-pid", pid=who.pid, title=SERVER)

    # --- What the product says

    def look(self, record: Iterable[Bystander | Process] = (), *, boot_id: str = "") -> Outcome:
        """The step *verify* of a stop whose earlier steps are over; ``record``: the processes that it has stopped."""
        job = self.story.ask(self.deployment, JobKind.STOP)
        known = [[pid_of(who), who.started] for who in record]
        data = {"processes": known, "root": None, "boot_id": boot_id or boot_id_of(self.machine)}
        JobStep.objects.filter(job=job, name__in=BEFORE_VERIFY).update(state=StepState.DONE)
        JobStep.objects.filter(job=job, name="stop").update(data=data)
        Job.objects.filter(pk=job.pk).update(touched=True)
        self._looking = job
        return outcome_of(self.work(job))

    def look_again(self) -> Outcome:
        """As the sweeper lets a job do whose machine did not answer."""
        return outcome_of(self.work(self._looking))

    def lost_and_found(self, back: Callable[[], None]) -> Outcome:
        """A look while the machine does not answer. Once it does again, the job must find its way by itself."""
        first = self.look()
        back()
        for _ in range(3):  # each link that broke is noticed once
            then = self.look_again()
            if then.verdict != UNMEASURED:
                break
        return first if then.verdict == FREE else Outcome(f"{first.verdict}, then {then.verdict}", then.text)

    def work(self, job: Job) -> Job:
        """A worker's turns until the job waits, is out of contact or has ended."""
        while True:
            runner.run(job.pk)
            job.refresh_from_db()
            if job.state != JobState.QUEUED:
                return job

    def planned(self, kind: JobKind = JobKind.STOP) -> Job:
        """A job that waits for its approval."""
        job = self.work(self.story.ask(self.deployment, kind))
        assert job.state == JobState.WAITING, told(job)
        return job

    def asked(self, kind: JobKind = JobKind.STOP) -> Outcome:
        """What the plan comes to; one that may be approved asks for that."""
        self.put_model()
        return outcome_of(self.work(self.story.ask(self.deployment, kind)), stop=True)

    def before_launch(self, meanwhile: Callable[[], object] = lambda: None) -> Outcome:
        """The step *verify* of a restart whose plan is approved, and nothing else of it; ``meanwhile``: what happens
        after the plan was made.
        """
        self.put_model()
        job = self.planned(JobKind.RESTART)
        JobStep.objects.filter(job=job).exclude(name__in=("plan", "verify")).update(state=StepState.DONE)
        meanwhile()
        gate = job.open_gate
        assert gate is not None, told(job)
        self.story.answer(gate, "approve")
        return outcome_of(self.work(job))

    def put_model(self) -> None:
        """What the server would load, or no plan would let it be launched."""
        self.shell(f"mkdir -p /models; touch {ARGV[2]}")

    def answer(self, job: Job, choice: str, *, comment: str = "") -> Outcome:
        """Answer the open question and go on."""
        gate = job.open_gate
        assert gate is not None, told(job)
        self.story.answer(gate, choice, comment=comment)
        return outcome_of(self.work(job), stop=True)

    def after(self, job: Job) -> Outcome:
        """What comes of a stop when a worker takes it up, and again when it was out of contact."""
        outcome = outcome_of(self.work(job), stop=True)
        for _ in range(3):
            if outcome.verdict != NO_CONTACT:
                break
            outcome = outcome_of(self.work(job), stop=True)
        return outcome

    def stop(self) -> Outcome:
        """A stop from the click on, its plan approved."""
        return self.answer(self.planned(), "approve")

    # --- What is true

    def in_use(self) -> list[str]:
        """What the lab itself knows to be on the deployment's cards, on its port, and left of its server."""
        node, own = self.place.node, set(self.slots)
        found = [
            f"{context.mib} MiB on slot {context.card} ({context.mode}, pid {context.pid})"
            for context in state.read_contexts(node.gpu_state)
            if context.card in own and _is_held(context)
        ]
        files = {f"/dev/nvidia{card.minor}" for card in self.cards}
        found += [
            f"open file: {other.title}"
            for other in node.processes()
            if processes.open_files(other.lab_pid) & files and "nvidia-smi --query" not in other.title  # our question
        ]
        found += [
            f"listener {socket}" for socket in processes.listening_sockets(self.machine.pid1, self.deployment.port)
        ]
        return found + [f"member {pid_of(who)}" for who in self.members if lives(who)]

    def harm(self) -> list[str]:
        """Who got a signal that was not theirs, by the bystanders' own books and by the product's."""
        found = [f"{who.name}: {who.harm}" for who in (*self.standing, *self.bystanders) if who.harm]
        ours = {(pid_of(who), who.started) for who in (*self.members, *self.approved)}
        starts = {started for _, started in ours}
        for effect in Effect.objects.filter(job__deployment=self.deployment):
            for pid, started in _targets(effect):
                if (pid, started) not in ours and not (effect.kind.endswith("node") and started in starts):
                    found.append(f"process {pid}:{started} was a target of {effect.kind}")
        return found

    def unmet(self) -> list[str]:
        """Members that got other signals than they should."""
        return [f"{who.name} got {who.signals} instead of {want}" for who, want in self.expected if who.signals != want]

    # --- The way back

    def clear(self) -> None:
        """Everything as it was before."""
        for back in reversed(self.way_back):
            back()
        jobs = Job.objects.filter(state__in=ACTIVE)
        jobs.update(state=JobState.CANCELLED, lease_until=None, owner="")
        Gate.objects.filter(answered_at=None).update(answered_at="2026-01-01T00:00:00Z", answer="ended")
        CardClaim.objects.all().delete()
        PortClaim.objects.all().delete()
        own = Launch.objects.filter(deployment=self.deployment, state__in=LIVE_LAUNCH)
        own.update(state=LaunchState.ENDED)
        self.faults.gpu(self.place.node, "none")
        self.faults.gpu_unstick(self.place.node)
        self._end_all()
        self.faults.gpu_clear(self.place.node)
        for machine in (self.place.node, self.machine):
            shutil.rmtree(machine.seen("/run/lock/relaunch"), ignore_errors=True)

    def _end_all(self) -> None:
        spared = {who.lab_pid for who in self.standing}

        def left() -> list[Process]:
            found = [process for process in self.place.node.processes() if process.lab_pid not in spared]
            return [process for process in found if lives(process) and not _is_machine(process)]

        for process in left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.lab_pid, signal.SIGKILL)
        wait_until(lambda: not left(), timeout=20, what=f"end of what ran on {self.place.node.name}")


def outcome_of(job: Job, *, stop: bool = False) -> Outcome:
    """The job's state in the words of the table."""
    gate = job.open_gate
    text = f"{job.summary} {job.hint} {told(job) if job.state == JobState.ERRORED else ''}"
    if gate is not None:
        text = f"{gate.kind}: {gate.title} {gate.text} {gate.evidence} {text}"
    match job.state:
        case JobState.SUCCEEDED:
            notes = Check.objects.filter(step__job=job).values_list("detail", flat=True)
            return Outcome(STOPPED if stop else FREE, " ".join([told(job), *notes]))
        case JobState.WAITING if gate is not None and gate.kind == "not free" and not stop:
            return Outcome(UNMEASURED if "could not be measured" in gate.title else NOT_FREE, text)
        case JobState.WAITING:
            return Outcome(ASKS, text)
        case JobState.UNKNOWN:
            return Outcome(NO_CONTACT if stop else UNMEASURED, text)
        case JobState.FAILED:
            return Outcome(REFUSED, text)
        case _:
            return Outcome(job.state, text)


def pid_of(who: Bystander | Process) -> int:
    """As the machine or container itself numbers it."""
    return who.own_pid if isinstance(who, Process) else who.pid


def lives(who: Bystander | Process) -> bool:
    """The very same process, in whatever state, and not only waiting to be reaped."""
    try:
        fields = Path(f"/proc/{who.lab_pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return int(fields[19]) == who.started and not (fields[0] in "ZX" and int(fields[17]) <= 1)


def _is_held(context: state.Context) -> bool:
    if context.live or context.mode == "leak":
        return True
    if context.mode != "delay":
        return False
    return context.died_ns == 0 or time.monotonic_ns() < context.died_ns + context.delay * 1e9


def _targets(effect: Effect) -> list[tuple[int, int]]:
    if effect.kind == "watch":
        return []
    found = []
    for who in effect.target.get("processes", []):
        pid, started = who.split(":") if isinstance(who, str) else who
        found.append((int(pid), int(started)))
    return found


def _is_machine(process: Process) -> bool:
    """Init, what keeps a container alive, sshd, and the panel's own sessions."""
    return process.own_pid == 1 or process.title == MONITOR or process.title.startswith("sshd")
