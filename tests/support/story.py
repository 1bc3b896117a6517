"""What people do with a panel, told in the words of a story; every wait has a deadline."""

import itertools
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User

from deployments import services
from deployments.benchmark.wanted import Wanted
from deployments.lifecycle import ENDED, JobKind, JobState
from deployments.models import Benchmark, Deployment, Gate, Job, Launch, LogChunk, Revision
from hosts import links, testing
from hosts import services as host_services
from hosts.keys import panel_key_path
from hosts.models import Host, HostKey, HostTest
from hosts.transport.base import PublicHostKey
from lab import fleet as lab
from lab import ledger
from tests.support.waiting import until

PATIENCE = 90.0
"""Seconds until a wait fails: a laptop with a browser and a compiler at work must not fail a test."""
STANDIN = "/lab/bin/standin"
READY_STANDIN = "standin ready"
HASTE = {"LAB_TIME_SCALE": "0.1"}
Machine = lab.Host | lab.Container

_ports = itertools.count(21000)
_names = itertools.count(1)


@dataclass(frozen=True)
class Place:
    """A host as the panel knows it, and the machine of the lab that it is."""

    host: Host
    machine: Machine

    @property
    def node(self) -> lab.Host:
        """The machine that has the cards."""
        return self.machine.node if isinstance(self.machine, lab.Container) else self.machine

    def servers(self, port: int | None = None) -> list[ledger.Server]:
        """The engines that live there, by ledger and process table."""
        found = ledger.live_servers(self.machine)
        return [server for server in found if port is None or server.entry.port == port]

    def starts(self, port: int) -> list[ledger.Entry]:
        """Every start of an engine on this port."""
        return [entry for entry in ledger.entries(self.machine) if entry.port == port]


@dataclass
class Story:
    """One person with all roles, and what this person does."""

    actor: User
    places: dict[str, Place] = field(default_factory=dict)

    @classmethod
    def begin(cls) -> "Story":
        """Make the person; call it inside ``Panel.entered``."""
        actor, made = User.objects.get_or_create(username="ana")
        if made:
            for role in ("viewer", "operator", "approver", "administrator"):
                actor.groups.add(Group.objects.get_or_create(name=role)[0])
        return cls(actor)

    # --- Hosts

    def add_host(self, machine: lab.Host, **login: Any) -> Place:
        """Add a machine, trust the key it really has, and test it. ``login``: fields of the host other than usual."""
        panel_key_path(Path(settings.DATA_DIR))
        machine.authorize(host_services.panel_public_key())
        usual = {"name": machine.name, "address": machine.address, "port": machine.port, "user": machine.user}
        row = Host(**(usual | login))
        host = host_services.register_host(row, actor=self.actor, address="")
        key_type, key_base64 = machine.host_key_line.split()
        fingerprint = PublicHostKey(key_type, key_base64).fingerprint
        key = HostKey.objects.create(host=host, key_type=key_type, key_base64=key_base64, fingerprint=fingerprint)
        host_services.trust_key(key, typed_fingerprint=fingerprint, actor=self.actor, address="")
        return self._tested(host, machine)

    def add_container(self, container: lab.Container) -> Place:
        """Add a container; its node is added with it."""
        node = self.places.get(container.node.name) or self.add_host(container.node)
        row = Host(name=f"ct{container.vmid}", transport=Host.TransportKind.PCT, via=node.host, vmid=container.vmid)
        return self._tested(host_services.register_host(row, actor=self.actor, address=""), container)

    def add_local(self, machine: lab.Host) -> Place:
        """Add the panel's own machine; whoever calls makes links lead there."""
        row = Host(name=f"{machine.name}-local", transport=Host.TransportKind.LOCAL)
        return self._tested(host_services.register_host(row, actor=self.actor, address=""), machine)

    def _tested(self, host: Host, machine: Machine) -> Place:
        test = HostTest.objects.create(host=host)
        testing.run_test(test.pk)
        links.POOL.close_all()
        test.refresh_from_db()
        assert test.findings[0]["status"] == "ok", test.findings
        place = self.places[machine.name] = Place(Host.objects.select_related("via").get(pk=host.pk), machine)
        return place

    # --- Deployments

    def deploy(
        self,
        place: Place,
        argv: Sequence[str],
        *,
        engine: str = "custom",
        cards: Sequence[int] = (0, 1),
        ready: str = "",
        env: Mapping[str, str] | None = None,
        port: int | None = None,
        **policy: Any,
    ) -> Deployment:
        """A new profile and deployment on a port of their own; ``{port}`` in a word of ``argv`` becomes it."""
        port = port or next(_ports)
        name = f"service-{next(_names)}"
        profile = services.create_profile(
            name=name,
            engine=engine,
            description="",
            argv=[word.replace("{port}", str(port)) for word in argv],
            env=dict(env or {}),
            workdir="",
            port=port,
            ready_pattern=ready,
            notes="",
            actor=self.actor,
            address="",
        )
        usual = {"requester_may_approve": True, "clean_start_by_itself": False}  # stories approve each plan
        made = Deployment(name=name, revision=profile.revisions.get(), **(usual | policy))
        uuids = [place.host.gpus.get(index=index).uuid for index in cards]
        return services.create_deployment(made, host=place.host, gpu_uuids=uuids, actor=self.actor, address="")

    def deploy_standin(self, place: Place, *options: str, cards: Sequence[int] = (0,), **more: Any) -> Deployment:
        """The plain stand-in engine on the first of ``cards``, with its further ``options``."""
        argv = [STANDIN, "--port", "{port}", "--gpu", ",".join(map(str, cards)), "--mib", "20000", *options]
        return self.deploy(place, argv, cards=cards, ready=READY_STANDIN, **more)

    def deploy_sglang(
        self, place: Place, *flags: str, cards: Sequence[int] = (0, 1), model: str = "qwen-27b", **more: Any
    ) -> Deployment:
        """The simulated SGLang over all of ``cards``, its waits a tenth of what they are."""
        env = {**HASTE, **more.pop("env", {})}
        argv = sglang(*flags, cards=len(cards), model=model)
        return self.deploy(place, argv, engine="sglang", cards=cards, env=env, **more)

    def add_revision(
        self, deployment: Deployment, argv: Sequence[str], *, env: Mapping[str, str] | None = None
    ) -> Revision:
        """The next revision of a deployment's profile."""
        before = deployment.revision
        return services.add_revision(
            deployment.profile,
            argv=[word.replace("{port}", str(before.port)) for word in argv],
            env=dict(before.env if env is None else env),
            workdir="",
            port=before.port,
            ready_pattern=before.ready_pattern,
            notes="",
            actor=self.actor,
            address="",
        )

    # --- Jobs

    def ask(
        self,
        deployment: Deployment,
        kind: JobKind = JobKind.RESTART,
        *,
        revision: Revision | None = None,
        way_back: bool = False,
    ) -> Job:
        """Ask for a job."""
        return services.request_job(
            deployment,
            kind=kind,
            revision=revision,
            reason="",
            way_back=way_back,
            request_key=uuid.uuid4(),
            actor=self.actor,
            address="",
        )

    def wait_for(self, job: Job, *states: JobState, seconds: float = PATIENCE) -> Job:
        """Until the job is in one of ``states``; fails at once when it ends in another."""

        def look() -> bool:
            job.refresh_from_db()
            assert job.state in states or job.state not in ENDED, f"{job.state}\n{told(job)}"
            return job.state in states

        until(look, seconds=seconds, what=f"{job} becomes {' or '.join(states)}", tell=lambda: told(job))
        return job

    def wait_for_end(self, job: Job, *, seconds: float = PATIENCE) -> Job:
        """Until the job has ended, however."""
        return self.wait_for(job, *ENDED, seconds=seconds)

    def gate(self, job: Job, kind: str, *, seconds: float = PATIENCE) -> Gate:
        """The open gate of this kind, once the job waits at it; fails when it waits at another or ends."""
        self.wait_for(job, JobState.WAITING, seconds=seconds)
        gate = job.open_gate
        assert gate is not None and gate.kind == kind, told(job)
        return gate

    def answer(self, gate: Gate, choice: str, *, comment: str = "") -> None:
        """Answer a gate. A plan that is known not to fit is approved with a reason only."""
        if gate.kind == "plan" and not comment:
            comment = next(
                ("To see it fail." for one in gate.choices if one["key"] == choice and one["needs_reason"]), ""
            )
        services.answer_gate(
            gate, choice=choice, comment=comment, plan_hash=gate.plan_hash, actor=self.actor, address=""
        )

    def approve(self, job: Job) -> Job:
        """Wait for the plan and approve it."""
        self.answer(self.gate(job, "plan"), "approve")
        return job

    def begin_job(self, deployment: Deployment, kind: JobKind = JobKind.RESTART, **more: Any) -> Job:
        """Ask and approve."""
        return self.approve(self.ask(deployment, kind, **more))

    def run_job(self, deployment: Deployment, kind: JobKind = JobKind.RESTART, **more: Any) -> Job:
        """Ask, approve, and wait for a success without any further question."""
        return self.succeeded(self.begin_job(deployment, kind, **more))

    def measure(self, deployment: Deployment, *at_once: int, tokens: int = 64) -> Benchmark:
        """A benchmark that must succeed, no user being served."""
        job = services.request_benchmark(
            deployment,
            wanted=Wanted(at_once, tokens),
            reason="",
            request_key=uuid.uuid4(),
            actor=self.actor,
            address="",
        )
        return Benchmark.objects.get(job=self.succeeded(job))

    def start(self, deployment: Deployment) -> Job:
        """A start that must succeed."""
        return self.run_job(deployment, JobKind.START)

    def succeeded(self, job: Job, *, seconds: float = PATIENCE) -> Job:
        """Until the job has succeeded; fails when it ends otherwise or asks something."""

        def look() -> bool:
            job.refresh_from_db()
            assert job.state != JobState.WAITING, told(job)
            return job.state in ENDED

        until(look, seconds=seconds, what=f"end of {job}", tell=lambda: told(job))
        assert job.state == JobState.SUCCEEDED, told(job)
        return job

    def wait_for_log(self, job: Job, text: str, *, seconds: float = PATIENCE) -> None:
        """Until the job's log holds ``text``."""
        until(
            lambda: text in log_of(job), seconds=seconds, what=f"{text!r} in the log of {job}", tell=lambda: told(job)
        )


def sglang(*flags: str, cards: int, model: str = "qwen-27b") -> list[str]:
    """The command of the simulated SGLang; its port is ``{port}``."""
    return [
        "/lab/bin/python",
        *("-m", "sglang.launch_server"),
        *("--model-path", f"/models/{model}"),
        *("--tp-size", str(cards)),
        *("--host", "0.0.0.0", "--port", "{port}"),
        *flags,
    ]


def log_of(job: Job, *, source: str = "") -> str:
    """The job's log as one text."""
    chunks = LogChunk.objects.filter(job=job).order_by("seq")
    return "".join((chunks.filter(source=source) if source else chunks).values_list("text", flat=True))


def told(job: Job) -> str:
    """All that helps to understand a job that went another way."""
    job.refresh_from_db()
    steps = "\n".join(f"  {step.name}: {step.state} {step.summary}" for step in job.steps.all())
    gates = "\n".join(f"  {gate.kind}: {gate.title} {gate.evidence} -> {gate.answer}" for gate in job.gates.all())
    return f"{job}: {job.state} {job.summary} {job.hint}\n{job.traceback}\n{steps}\n{gates}\n{log_of(job)}"


def launch_of(job: Job) -> Launch:
    """The job's newest launch."""
    return job.launches.order_by("-intended_at")[0]


def stored_log(launch: Launch) -> bytes:
    """The server's log as stored; fails on a gap, a repeat, or bytes declared dropped."""
    text, wanted = "", 0
    for chunk in launch.log.order_by("offset", "seq"):
        assert chunk.offset == wanted, (
            f"byte {wanted} is missing or came twice: the next chunk begins at {chunk.offset}"
        )
        assert not chunk.dropped
        wanted += chunk.length
        text += chunk.text
    assert len(text.encode()) == wanted
    return text.encode()


def one_server(place: Place, port: int) -> ledger.Server:
    """The only server on the port, by the ledger, the process table and the kernel's sockets."""
    servers = place.servers(port)
    assert len(servers) == 1, servers
    owners = ledger.listeners(place.machine, port)
    assert any(_is_part_of(owner.lab_pid, servers[0].process.lab_pid) for owner in owners), (servers, owners)
    return servers[0]


def _is_part_of(pid: int, server: int) -> bool:
    """Is it this process, or one that descends from it?"""
    while pid > 1:
        if pid == server:
            return True
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        pid = int(fields[1])
    return False
