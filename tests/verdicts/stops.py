"""Whom does a stop signal? Its own, each with what it should get, and nobody else, whoever stands beside."""

from __future__ import annotations

import shlex
import threading
from typing import Any

from django.contrib.auth.models import Group, User

from controlpanel.identity import panel_id
from deployments.models import Gate, Launch
from hosts.models import Host
from lab.bystanders import Bystander
from lab.host import wait_until
from tests.verdicts.looks import odd
from tests.verdicts.scene import SERVER, Scene
from tests.verdicts.situation import ASKS, LOCAL, NO_CONTACT, PCT, REFUSED, SSH, STOPPED, Outcome, Table

TERM = 15
SOON = {
    "term_seconds": 1,
    "kill_seconds": 1,
    "drain_seconds": 0,
    "memory_seconds": 2,
    "stuck_seconds": 2,
    "port_seconds": 2,
}
TABLE = Table(policy=SOON)
row = TABLE.row


# --- The server and what belongs to it


@row("one process, which ends on SIGTERM", STOPPED, sample=True)
def plain(s: Scene) -> Outcome:
    s.expected.append((s.serve(), [TERM]))
    return s.stop()


@row("one process, which is deaf to SIGTERM", STOPPED)
def deaf(s: Scene) -> Outcome:
    s.expected.append((s.serve(ends=False), [TERM]))
    return s.stop()


@row("deaf to SIGTERM, and the policy asks before SIGKILL", ASKS, "kill", policy={"kill_own_by_itself": False})
def asks_first(s: Scene) -> Outcome:
    server = s.serve(ends=False)
    s.expected.append((server, [TERM]))
    outcome = s.stop()
    assert server.lives, "killed without an answer"
    return outcome


@row("deaf to SIGTERM, and a person has said kill", STOPPED, policy={"kill_own_by_itself": False})
def killed_when_asked(s: Scene) -> Outcome:
    s.serve(ends=False)
    job = s.planned()
    s.answer(job, "approve")
    return s.answer(job, "kill")


@row("workers of other names outlive the server: each is killed", STOPPED, slots=(0, 2))
def workers(s: Scene) -> Outcome:
    holding = [{"comm": f"VLLM::Worker_TP{n}"[:15], "hold": (card.uuid, 8000)} for n, card in enumerate(s.cards)]
    server, *below = s.tree(s.launch(), *holding, hold=None)
    s.expected += [(server, [TERM]), *((worker, []) for worker in below)]
    return s.stop()


@row("a worker has left the tree; it carries the launch's mark", STOPPED)
def left_the_tree(s: Scene) -> Outcome:
    launch = s.launch()
    member(s, launch)
    record(s, launch)
    return s.stop()


@row("a worker has left the tree and shed its mark; it writes to the launch's log", STOPPED)
def writes_to_log(s: Scene) -> Outcome:
    launch = s.launch()
    name = s.name("worker")
    folder = f"/root/.relaunch/{panel_id()}/{s.deployment.pk}/launches/{launch.pk}"
    command = s.by.command(name, comm="sglang::schedul", hold=(s.cards[0].uuid, 5000))
    s.members.append(s.by.start(name, f"mkdir -p {folder}; exec {command} > {folder}/log 2>&1"))
    record(s, launch, hold=None)
    return s.stop()


@row("the server has crashed; a marked worker still holds the card", STOPPED)
def only_a_worker(s: Scene) -> Outcome:
    launch = s.launch()
    worker = member(s, launch)
    server = record(s, launch, hold=None)
    s.kill(server)
    s.expected.append((worker, [TERM]))
    return s.stop()


@row("a worker of a launch before that one still holds the card", STOPPED)
def of_an_earlier_launch(s: Scene) -> Outcome:
    earlier = s.launch(state="ended")
    member(s, earlier)
    record(s, s.launch(), hold=None)
    return s.stop()


@row("the server's first thread has ended, another holds the card", STOPPED)
def zombie_leader_stop(s: Scene) -> Outcome:
    launch = s.launch()
    s.record(launch, odd(s, "zombie-leader", 5000))
    return s.stop()


@row("the server cannot be killed at all", REFUSED, "cannot be killed")
def cannot_be_killed(s: Scene) -> Outcome:
    """Where the kernel holds it, the node has no longer arm: it is not asked to reach in."""
    launch = s.launch()
    s.faults._stuck(s.machine, s.cards[0], 4000, 3600)
    s.record(launch, s.process("gpu-odd stuck"))
    return s.stop()


@row("nothing runs any more", STOPPED)
def nothing(s: Scene) -> Outcome:
    s.kill(s.serve())
    return s.stop()


# --- A server that the panel has not started


@row("not started by the panel, but it is this engine on this port", STOPPED)
def adopted(s: Scene) -> Outcome:
    s.expected.append((s.serve(adopted=True), [TERM]))
    return s.stop()


@row("not started by the panel; another of the same kind serves on the next port", STOPPED)
def adopted_beside(s: Scene) -> Outcome:
    s.bystander("twin", title=SERVER, port=s.deployment.port + 20000)
    s.serve(adopted=True)
    return s.stop()


@row("something else listens on the port", ASKS, "listens on")
def not_this_engine(s: Scene) -> Outcome:
    s.bystander("listener", port=s.deployment.port)
    return s.stop()


# --- Who stands beside


@row("the recorded number belongs to another process now", STOPPED, sample=True)
def number_again(s: Scene) -> Outcome:
    server = s.serve(port=0)
    s.instead_of(server)
    return s.stop()


@row("the record is of the boot before; number and start time are the same", STOPPED)
def boot_before(s: Scene) -> Outcome:
    found = s.bystander("survivor", title=SERVER)
    s.launch(boot_id="11111111-2222-3333-4444-555555555555", pid=found.pid, start_time=found.started)
    return s.stop()


@row("started from the same prompt: one session, one shell above both", STOPPED)
def same_session(s: Scene) -> Outcome:
    beside(s, "exec bash --norc -c {script}")
    return s.stop()


@row("one process group, without job control", STOPPED)
def same_group(s: Scene) -> Outcome:
    beside(s, "exec sh -c {script}")
    return s.stop()


@row("in the same tmux", STOPPED)
def same_tmux(s: Scene) -> Outcome:
    s.shell("mkdir -p /run/lab-scripts")
    beside(s, "exec gpu-odd tmux -- sh {file}")
    return s.stop()


@row("both started through one pct exec", STOPPED, on=(PCT,))
def same_exec(s: Scene) -> Outcome:
    launch, server, other = s.launch(), s.name("server"), s.name("beside")
    script = f"{s.by.command(server, **s.options(launch))} & {s.by.command(other, title=SERVER)} & sleep 0.1"
    s.elsewhere["node"].shell(f"pct exec {s.machine.vmid} -- sh -c {shlex.quote(script)} > /dev/null 2>&1")
    await_both(s, launch, server, other)
    return s.stop()


@row("a stranger holds the same card", ASKS, "holds")
def stranger_beside(s: Scene) -> Outcome:
    s.serve()
    s.stranger(0, 3000)
    return s.stop()


@row("the server of another deployment holds the same card", ASKS, "holds")
def neighbour_beside(s: Scene) -> Outcome:
    s.serve()
    mine = s.deployment
    s.deploy((0,))
    launch, s.deployment = s.launch(), mine
    s.stranger(0, 3000, env={"RELAUNCH_LAUNCH_ID": str(launch.pk)}, title=SERVER)
    return s.stop()


@row("another container holds the same card, under the same number", ASKS, "On the node", on=(PCT,))
def other_container_beside(s: Scene) -> Outcome:
    server = s.serve(ends=False)
    there = s.elsewhere["container"]
    there.shell(f"echo {server.pid - 1} > /proc/sys/kernel/ns_last_pid")
    s.stranger(0, 10, there=there, title=SERVER)
    return s.stop()


@row("a process of the node holds the same card", ASKS, "On the node", on=(PCT,))
def node_beside(s: Scene) -> Outcome:
    s.serve(ends=False)
    s.stranger(0, 10, there=s.elsewhere["node"], title=SERVER)
    return s.stop()


@row("on the node, the number of a deaf server is another process", STOPPED, on=(PCT,))
def number_on_node(s: Scene) -> Outcome:
    server = s.serve(ends=False)
    s.bystander("same-number", there=s.elsewhere["node"], pid=free_number(s, server), title=SERVER)
    return s.stop()


@row("while the ladder waits, a number changes hands", STOPPED, policy={"term_seconds": 3})
def number_meanwhile(s: Scene) -> Outcome:
    server, worker, other = s.tree(s.launch(), {}, {}, hold=None)
    job = s.planned()

    def change_hands() -> None:
        wait_until(lambda: server.signals, timeout=20, what="SIGTERM")
        s.kill(other)
        s.bystanders.append(
            s.by.start("meanwhile-" + other.name, s.by.command("meanwhile-" + other.name, pid=other.pid))
        )

    meanwhile = threading.Thread(target=change_hands)
    meanwhile.start()
    outcome = s.answer(job, "approve")
    meanwhile.join()
    assert s.bystanders, "nobody got the number"
    s.expected.append((worker, []))
    return outcome


# --- A stranger, after its own confirmation


@row("a stranger was named and confirmed: that one, and not the other", ASKS, "holds")
def confirmed(s: Scene) -> Outcome:
    s.serve()
    first = s.stranger(0, 3000)
    job = s.planned()
    s.answer(job, "approve")
    s.approved.append(first)
    s.bystanders.remove(first)
    s.stranger(0, 2000)
    outcome = s.answer(job, "kill", comment="Its owner has agreed.")
    assert not first.lives
    return outcome


@row("the confirmed stranger's number belongs to another by now", STOPPED)
def confirmed_too_late(s: Scene) -> Outcome:
    s.serve()
    first = s.stranger(0, 3000)
    job = s.planned()
    s.answer(job, "approve")
    s.bystanders.remove(first)
    s.approved.append(first)
    s.kill(first)
    s.bystander("successor", pid=first.pid)
    return s.answer(job, "kill", comment="Its owner has agreed.")


# --- Not to be stopped after all: nobody gets anything


@row("the plan was discarded", "rejected")
def discarded(s: Scene) -> Outcome:
    untouched(s, s.serve())
    return s.answer(s.planned(), "discard")


@row("a marked worker came after the plan was made", ASKS, "out of date")
def changed_since(s: Scene) -> Outcome:
    launch = s.launch()
    untouched(s, record(s, launch))
    job = s.planned()
    untouched(s, member(s, launch, mib=100))
    return s.answer(job, "approve")


@row("the server was restarted by hand after the plan was made", ASKS, "out of date")
def another_since(s: Scene) -> Outcome:
    first = s.serve(adopted=True)
    job = s.planned()
    s.kill(first)
    untouched(s, s.serve(adopted=True))
    return s.answer(job, "approve")


@row("who approved may not approve any more", ASKS, "out of date|Approve")
def lost_the_right(s: Scene) -> Outcome:
    untouched(s, s.serve())
    job = s.planned()
    other, _ = User.objects.get_or_create(username="gone")
    other.groups.set([Group.objects.get(name="viewer")])
    gate = job.open_gate
    assert gate is not None
    s.story.answer(gate, "approve")
    Gate.objects.filter(pk=gate.pk).update(answered_by=other)
    return s.after(job)


@row("the host has seen a newer worker", REFUSED, "has seen newer work")
def fenced(s: Scene) -> Outcome:
    untouched(s, s.serve())
    job = s.planned()
    folder = f"/root/.relaunch/{panel_id()}/{s.deployment.pk}"
    s.shell(f"mkdir -p {folder}/launches; echo 900 > {folder}/fence")
    return s.answer(job, "approve")


@row("another panel works on the card", REFUSED, "is locked by bob")
def locked(s: Scene) -> Outcome:
    untouched(s, s.serve())
    lock = f"/run/lock/relaunch/{s.cards[0].uuid}"
    node = s.elsewhere["node"]
    node.shell(f"mkdir -p -m 1777 /run/lock/relaunch; echo 'other|7|9|bob|2026-01-01T00:00:00Z' > {lock}")
    return s.stop()


@row("the host was made look-only after the approval", REFUSED, "look-only")
def look_only(s: Scene) -> Outcome:
    untouched(s, s.serve())
    job = s.planned()
    Host.objects.filter(pk=s.place.host.pk).update(look_only=True)
    s.way_back.append(lambda: Host.objects.filter(pk=s.place.host.pk).update(look_only=False))
    return s.answer(job, "approve")


@row("the machine has booted since the plan", ASKS, "out of date", on=(SSH, LOCAL))
def booted(s: Scene) -> Outcome:
    untouched(s, s.serve(adopted=True))
    job = s.planned()
    s.faults.boot_id_change(s.place.node)
    return s.answer(job, "approve")


@row("the machine is out of reach when the stop begins", REFUSED, on=(SSH, PCT))
def out_of_reach(s: Scene) -> Outcome:
    untouched(s, s.serve())
    job = s.planned()
    s.faults.link_down(s.place.node)
    s.way_back.append(lambda: s.faults.link_up(s.place.node))
    return s.answer(job, "approve")


@row("contact is lost while the ladder waits; it goes on by itself", STOPPED, on=(SSH, PCT))
def lost_meanwhile(s: Scene) -> Outcome:
    server = s.serve(ends=False)
    job = s.planned()
    cut = threading.Thread(target=lambda: cut_when(s, server))
    cut.start()
    first = s.answer(job, "approve")
    cut.join()
    if first.verdict != NO_CONTACT:
        return first
    assert set(server.signals) == {TERM}  # again, if the host's answer was cut before it had said that it was sent
    return s.after(job)


# --- What the situations share


def member(s: Scene, launch: Launch, *, mib: int = 5000) -> Bystander:
    """A worker in a session of its own that carries the launch's mark."""
    name = s.name("worker")
    env = {"RELAUNCH_LAUNCH_ID": str(launch.pk)}
    found = s.by.start(name, f"exec {s.by.command(name, comm='VLLM::EngineCor', hold=(s.cards[0].uuid, mib), env=env)}")
    s.members.append(found)
    return found


def record(s: Scene, launch: Launch, **options: Any) -> Bystander:
    """The server itself, recorded as what this launch has started."""
    name = s.name("server")
    found = s.by.start(name, f"exec {s.by.command(name, **s.options(launch, **options))}")
    s.record(launch, found)
    s.members.append(found)
    return found


def untouched(s: Scene, who: Bystander) -> None:
    """A member that must get nothing either."""
    s.expected.append((who, []))


def beside(s: Scene, start: str) -> None:
    """The server and a bystander, started by one shell; ``start`` runs {script}, or the {file} that holds it."""
    launch, server, other = s.launch(), s.name("server"), s.name("beside")
    script = f"{s.by.command(server, **s.options(launch))} & {s.by.command(other, title=SERVER)} & wait"
    file = f"/run/lab-scripts/{server}.sh"
    if "{file}" in start:
        s.shell(f"cat > {file} << 'END'\n{script}\nEND")
    s.detach(start.format(script=shlex.quote(script), file=file))
    await_both(s, launch, server, other)


def await_both(s: Scene, launch: Launch, server: str, other: str) -> None:
    found = s.by.await_one(server)
    s.record(launch, found)
    s.members.append(found)
    s.bystanders.append(s.by.await_one(other))


def free_number(s: Scene, who: Bystander) -> int:
    """The server's number in its container, if it is free on the node; else the test proves nothing."""
    assert all(process.pid != who.pid for process in s.place.node.processes()), "the number is taken on the node"
    return who.pid


def cut_when(s: Scene, server: Bystander) -> None:
    wait_until(lambda: server.signals, timeout=20, what="SIGTERM")
    s.faults.sessions_drop(s.place.node)
