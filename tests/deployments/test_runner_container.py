"""A server in a container: its node sees the processes under other numbers, and sees those of others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
from django.contrib.auth.models import User

from deployments.lifecycle import EffectKind, JobKind, JobState
from deployments.models import Deployment, Effect, Job
from hosts import links
from hosts.models import Host
from hosts.transport.fake import FakeTransport
from tests.deployments.machine import Machine, Proc, serving_machine
from tests.deployments.support import FakeHost, Story, make_story
from tests.factories import make_deployment, make_host, make_launch

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]

ON_NODE = 5000
"""What a container's pid is more on the node."""


@dataclass
class Container:
    """A story in a container, and what its node is like."""

    story: Story
    node: FakeHost

    def mirror(self) -> None:
        """The container's processes, as the node sees them now; what was killed there is gone in here."""
        for pid in [pid for pid in self.story.host.machine.procs if pid + ON_NODE not in self.node.machine.procs]:
            self.story.host.end(pid)

    def on_node_too(self) -> None:
        """What ended in the container has ended on the node; what others hold there is in use."""
        inside = {pid + ON_NODE for pid in self.story.host.machine.procs}
        ours = {pid for pid in self.node.machine.procs if ON_NODE < pid < ON_NODE + 1000}
        for pid in ours - inside:
            del self.node.machine.procs[pid]
        held = dict.fromkeys(self.node.machine.cards, 4)
        for pid, proc in self.node.machine.procs.items():
            held |= {uuid: held[uuid] + proc.memory for _, uuid in self.node.machine.holds(pid)}
        self.node.machine.cards = {**held}
        self.story.host.machine.cards = {**held}


def as_seen_by_node(inside: Machine) -> Machine:
    outside = Machine(cards=inside.cards)
    for proc in inside.procs.values():
        pid = proc.pid + ON_NODE
        parent = proc.parent + ON_NODE if proc.parent > 1 else 1
        outside.add(replace(proc, pid=pid, parent=parent, pids=(pid, proc.pid), port=None))
    return outside


@pytest.fixture
def container(ask: Callable[..., Job], approver: User, monkeypatch: pytest.MonkeyPatch) -> Container:
    story = make_story(serving_machine(), ask, monkeypatch, serves=True)
    node = make_host(name="pve")
    Host.objects.filter(pk=story.deployment.placement.host_id).update(
        transport=Host.TransportKind.PCT, via=node, vmid=129
    )
    found = Container(story, FakeHost(as_seen_by_node(story.host.machine)))
    found.node.after["stop KILL"] = found.mirror

    @contextlib.contextmanager
    def borrow(host: Host) -> Iterator[FakeTransport]:
        with (found.node if host.pk == node.pk else story.host).borrow(host) as transport:
            yield transport

    monkeypatch.setattr(links, "borrow", borrow)
    story.deployment.term_seconds = story.deployment.kill_seconds = 0
    story.deployment.kill_from_node_by_itself = True
    story.deployment.save()
    story.host.deaf |= {"TERM", "KILL"}
    return found


def test_what_the_container_cannot_kill_is_killed_from_its_node_when_a_person_says_so(container: Container) -> None:
    story = container.story
    story.deployment.kill_from_node_by_itself = False
    story.deployment.save()
    story.request(JobKind.STOP)
    story.approve()
    assert story.work().state == JobState.WAITING
    assert "Kill it from pve?" in story.gate.title and len(container.node.machine.procs) == 4
    assert [row[0] for row in story.gate.evidence[0]["table"]["rows"]] == [100, 101, 102, 103]
    story.answer("wait")
    assert story.work().state == JobState.WAITING, "it was looked at again, and asked again"
    story.answer("kill")
    assert story.work().state == JobState.SUCCEEDED, story.job.summary
    killed = Effect.objects.get(kind=EffectKind.NODE_KILL).target["processes"]
    assert killed == [[5100, 1000], [5101, 1001], [5102, 1002], [5103, 1003]]


def test_a_person_may_leave_what_the_container_cannot_kill(container: Container) -> None:
    story = container.story
    story.deployment.kill_from_node_by_itself = False
    story.deployment.save()
    story.request()
    story.approve()
    story.work()
    story.answer("leave")
    assert story.work().state == JobState.FAILED
    assert "decided not to kill" in story.job.summary and len(container.node.machine.procs) == 4
    assert "launch start" not in story.host.sent


def test_what_waits_in_the_kernel_is_not_killed_from_the_node_either(container: Container) -> None:
    story = container.story
    for pid, proc in story.host.machine.procs.items():
        story.host.machine.procs[pid] = replace(proc, state="D")
    story.request(JobKind.STOP)
    story.approve()
    assert story.work().state == JobState.FAILED
    assert "100 waits inside the kernel (D): no signal reaches it, in uvm_wait" in story.job.summary
    assert "pve a reboot" in story.job.hint
    assert not Effect.objects.filter(kind=EffectKind.NODE_KILL)


def test_a_process_that_the_node_does_not_show_is_not_called_gone(container: Container) -> None:
    story = container.story
    story.request(JobKind.STOP)
    story.approve()
    del container.node.machine.procs[5102]
    container.node.after["stop KILL"] = lambda: [story.host.machine.procs.pop(pid) for pid in (100, 101, 103)] and None
    assert story.work().state == JobState.FAILED
    assert "Process 102 of" in story.job.summary and "cannot be found on pve" in story.job.summary
    killed = Effect.objects.get(kind=EffectKind.NODE_KILL).target["processes"]
    assert killed == [[5100, 1000], [5101, 1001], [5103, 1003]]


@pytest.mark.parametrize("ended", [(100, 101, 102, 103), (102,)])
def test_who_ends_just_before_the_node_is_looked_at_is_gone(container: Container, ended: tuple[int, ...]) -> None:
    story, node = container.story, container.node
    story.request(JobKind.STOP)
    story.approve()

    def end() -> None:
        if "stop KILL" in story.host.sent:
            for pid in ended:
                story.host.end(pid)
                node.machine.procs.pop(pid + ON_NODE, None)

    node.before["probe"] = end
    node.after["stop KILL"] = lambda: [story.host.end(pid) for pid in (100, 101, 103)] and None
    assert story.work().state == JobState.SUCCEEDED, story.job.summary
    assert Effect.objects.filter(kind=EffectKind.NODE_KILL).count() == (len(ended) == 1)


def test_who_lives_and_is_not_on_the_node_is_signalled_nowhere(container: Container) -> None:
    story = container.story
    story.request(JobKind.STOP)
    story.approve()
    container.node.machine.procs.clear()
    assert story.work().state == JobState.FAILED
    assert "Processes 100, 101, 102, 103 of" in story.job.summary
    assert not Effect.objects.filter(kind=EffectKind.NODE_KILL)


def ends_inside(container: Container) -> None:
    """The container's server ends on SIGTERM, as the node sees too."""
    container.story.host.deaf.clear()
    container.story.host.after["stop TERM"] = container.node.machine.procs.clear


def test_who_is_only_seen_once_on_the_node_does_not_hold_a_card(container: Container) -> None:
    """A question of the panel's own, caught between its fork and its name."""
    story, node = container.story, container.node
    ends_inside(container)
    looks = iter([True])

    def pass_by() -> None:
        node.machine.procs.pop(9000, None)
        if story.host.sent[-1:] == ["watch"] and next(looks, False):
            node.machine.add(Proc(9000, 90, "timeout", "nvidia-smi -i 1", cards=(0,)))

    node.before["probe"] = pass_by
    story.request(JobKind.STOP)
    story.approve()
    assert story.work().state == JobState.SUCCEEDED, story.job.summary
    assert next(looks, None) is None, "nobody passed by"


def test_who_stays_on_the_node_holds_a_card(container: Container) -> None:
    story = container.story
    ends_inside(container)
    story.request(JobKind.STOP)
    story.approve()
    story.host.before["watch"] = lambda: container.node.machine.procs.update(
        {9000: Proc(9000, 90, "trainer", "train.py", cards=(0,), memory=700)}
    )
    assert story.work().state == JobState.WAITING
    assert "On the node: train.py (pid 9000" in str(story.gate.evidence)
    (row,) = next(piece["table"]["rows"] for piece in story.gate.evidence if "table" in piece)
    assert row[0] == "9000 on the node" and row[4] == "700 MiB" and row[5]["at"], row
    assert "Whoever has a number of the node only is not offered" in str(story.gate.evidence)
    assert "kill" not in [choice["key"] for choice in story.gate.choices]


def test_only_this_containers_processes_are_killed_from_the_node(container: Container) -> None:
    """Another container's process of the same number, and one that a container engine in ours gave a number."""
    story = container.story
    story.request(JobKind.STOP)
    story.approve()
    container.node.machine.add(
        Proc(7101, 999, "other", pids=(7101, 101)),
        Proc(8000, 1000, "docker", pids=(8000, 300, 100)),
    )
    assert story.work().state == JobState.SUCCEEDED, story.job.summary
    assert container.node.machine.procs.keys() == {7101, 8000}


# --- Co-tenants, some of which only the node sees


@pytest.fixture
def beside(container: Container) -> Container:
    """An embedder in another container holds GPU 1 too; it may."""
    story = container.story
    story.host.deaf.clear()
    place = story.deployment.placement
    other = make_deployment(host=place.host, gpus=[place.gpus[1]], name="embedder")
    launch = make_launch(other)
    container.node.machine.add(Proc(8009, 90, "embed", cards=(1,), pids=(8009, 9), log=str(launch.pk), memory=5_000))
    story.deployment.shares_with.add(other)
    Deployment.objects.filter(pk=story.deployment.pk).update(
        shared_need_mib=40_000, memory_seconds=0, stuck_seconds=0, port_seconds=0
    )
    story.host.after["stop TERM"] = container.on_node_too
    story.request(JobKind.RESTART)
    return container


def test_a_co_tenant_that_only_the_node_sees(beside: Container) -> None:
    story = beside.story
    story.approve()
    assert story.work().state == JobState.SUCCEEDED, story.job.summary
    (row,) = story.job.plan["co_tenants"]  # type: ignore[index]
    assert (row["pid"], row["inner"], row["deployment"]) == (8009, 9, "embedder")
    assert 8009 in beside.node.machine.procs


@pytest.fixture
def replaced(beside: Container) -> Container:
    """After the stop the embedder is another process than in the plan: the job asks."""
    beside.story.approve()

    def another() -> None:
        beside.on_node_too()
        embed = beside.node.machine.procs.pop(8009)
        beside.node.machine.add(replace(embed, pid=8011, start=95, pids=(8011, 11)))

    beside.story.host.after["stop TERM"] = another
    assert beside.story.work().state == JobState.WAITING
    return beside


def test_one_more_or_less_on_the_node_is_not_free(replaced: Container) -> None:
    story = replaced.story
    told = str(story.gate.evidence)
    assert "On the node: embed (pid 8011, root, of deployment embedder) holds GPU 1" in told.replace("python", "embed")
    assert "(pid 8009, of deployment embedder) shared the cards when the plan was made" in told
    assert [choice["key"] for choice in story.gate.choices] == ["again", "accept", "leave", "anyway"]
    story.answer("accept")
    assert story.work().state == JobState.SUCCEEDED, story.job.summary


@pytest.mark.parametrize("trouble", ["a card has failed", "nobody is seen"])
def test_launch_anyway_is_not_for_what_the_node_has_seen_since(replaced: Container, trouble: str) -> None:
    if trouble == "nobody is seen":
        replaced.node.machine.partial = True
    else:
        xid = "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
        replaced.node.machine.kernel = [f"[ 999990.000000] {xid}"]
    replaced.story.host.sent.clear()
    replaced.story.answer("anyway")
    assert replaced.story.work().state == JobState.WAITING and "launch start" not in replaced.story.host.sent


def test_where_the_node_cannot_be_seen_a_shared_card_is_not_called_free(beside: Container) -> None:
    story = beside.story
    story.approve()

    def blind() -> None:
        beside.on_node_too()
        beside.node.machine.partial = True

    story.host.after["stop TERM"] = blind
    assert story.work().state == JobState.WAITING
    assert story.gate.title == "Whether the cards are free could not be measured"


def test_locks_on_the_node_are_recorded_first_and_given_back_when_another_has_a_card(container: Container) -> None:
    story = container.story
    story.request()
    story.approve()
    container.node.sent.clear()
    container.node.locked_by = "other|7|3|eve|t"
    known: list[tuple[str, bool]] = []
    container.node.before["locks take"] = lambda: known.extend(Effect.objects.values_list("kind", "job__touched"))
    assert story.work().state == JobState.FAILED
    assert known == [(EffectKind.TAKE_CARDS, True)]
    effect = Effect.objects.get()
    assert effect.finished_at is not None and "locked by eve" in effect.outcome
    assert "locked by eve" in story.job.summary and "Nothing was stopped." in story.job.summary
    assert container.node.sent[-1] == "locks release"


def test_a_node_that_has_become_look_only_gets_neither_locks_nor_signals(container: Container) -> None:
    story = container.story
    story.request(JobKind.STOP)
    story.approve()
    Host.objects.filter(name="pve").update(look_only=True)
    assert story.work().state == JobState.FAILED
    assert "pve has been made look-only" in story.job.summary
    assert not {"locks take", "locks release", "stop KILL"} & {*container.node.sent, *story.host.sent}


def test_a_node_that_cannot_write_the_locks_ends_the_job_and_nothing_is_stopped(container: Container) -> None:
    story = container.story
    story.request()
    story.approve()
    container.node.told_of_locks = ["refused cannot write below /tmp: the disk may be full"]
    assert story.work().state == JobState.FAILED, story.job.summary
    assert "the disk may be full" in story.job.summary and len(story.host.machine.procs) == 4
    assert Effect.objects.get().finished_at is not None
