"""One fleet and one panel for the whole table; each situation has a deployment and a port of its own."""

from collections.abc import Callable, Iterator

import pytest

from deployments.models import Launch
from hosts import links
from hosts.models import Gpu
from lab import namespaces
from lab.bystanders import Bystander, Bystanders
from lab.fleet import L40S, CardSpec, ContainerSpec, Fleet, HostSpec, NodeSpec
from tests.support.fixtures import short_directory
from tests.support.panel import Panel
from tests.support.story import Place, Story
from tests.verdicts.place import install_panel, opener
from tests.verdicts.scene import SERVER, Scene
from tests.verdicts.situation import LOCAL, PCT, SSH, Situation

NEIGHBOUR, MIG, UNIFIED, DESKTOP = 1, 3, 4, 5
"""Slots: the neighbour deployment's card, and the odd ones. 0 and 2 are plain and free."""
CARDS = [
    *[L40S] * 3,
    CardSpec(name="NVIDIA H200", memory_mib=143771, reserved_mib=614, mig=("3g.71gb", "1g.18gb")),
    CardSpec(name="NVIDIA GB10", memory_mib=122572, kind="unified", bus_id="0000000F:01:00.0"),
    CardSpec(name="NVIDIA GeForce RTX 4080 SUPER", memory_mib=16376, reserved_mib=434, kind="desktop"),
]


@pytest.fixture(scope="package")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A host, the panel's own machine, and a node with two containers that see the same cards."""
    if not namespaces.is_inside():
        pytest.fail("These tests need the simulated fleet: run them by `make verdicts`.", pytrace=False)
    directory = tmp_path_factory.mktemp("fleet")
    containers = {129: ContainerSpec(name="llm-gpu"), 131: ContainerSpec(name="other")}
    hosts = [HostSpec(name="gpu1", cards=CARDS), HostSpec(name="panel", cards=CARDS)]
    with Fleet(directory, hosts=hosts, nodes=[NodeSpec(name="pve", cards=CARDS, containers=containers)]) as running:
        yield running


@pytest.fixture(scope="package")
def story(fleet: Fleet, django_db_blocker: "pytest.FixtureRequest") -> Iterator[Story]:
    """A panel that knows all three places; this process is its only worker."""
    usual = links.POOL, links.borrow
    links.POOL = links.LinkPool(open_link=opener(fleet.host("panel")))
    links.borrow = links.POOL.borrow
    install_panel(fleet.host("panel"))
    with (
        Panel(short_directory("verdicts")) as panel,
        django_db_blocker.unblock(),  # type: ignore[attr-defined]
        panel.entered(),
    ):
        made = Story.begin()
        made.add_host(fleet.host("gpu1"))
        made.add_container(fleet.container(129))
        made.add_local(fleet.host("panel"))
        yield made
        links.POOL.close_all()
    links.POOL, links.borrow = usual


@pytest.fixture(scope="package")
def places(story: Story) -> dict[str, Place]:
    return {SSH: story.places["gpu1"], PCT: story.places["llm-gpu"], LOCAL: story.places["panel"]}


@pytest.fixture(scope="package")
def crowds(story: Story, places: dict[str, Place], fleet: Fleet) -> dict[str, tuple[Bystander, ...]]:
    """Who stands beside every situation: the same name and user, and a neighbour deployment's server with its mark."""
    return {where: tuple(crowd_of(story, place, fleet)) for where, place in places.items()}


def crowd_of(story: Story, place: Place, fleet: Fleet) -> Iterator[Bystander]:
    by = Bystanders(place.machine)
    yield by.start("same-name", f"exec {by.command('same-name', title=SERVER)}")
    yield neighbour(story, place, by)
    if place.machine is place.node:
        return
    node, other = Bystanders(place.node), Bystanders(fleet.container(131))
    inside = node.place.exec(
        ["pct", "exec", "129", "--", "sh", "-c", f"{by.command('same-exec')} >/dev/null 2>&1 &"], timeout=20
    )
    assert inside.returncode == 0, inside
    yield by.await_one("same-exec")
    yield other.start("other-container", f"exec {other.command('other-container', title=SERVER)}")
    yield node.start("on-node", f"exec {node.command('on-node', title=SERVER)}")


def neighbour(story: Story, place: Place, by: Bystanders) -> Bystander:
    """The server of another deployment, on a card of its own."""
    uuid = place.node.cards[NEIGHBOUR].uuid
    deployment = story.deploy_standin(place, cards=[place.host.gpus.get(uuid=uuid).index])
    launch = Launch.objects.create(
        deployment=deployment, revision=deployment.revision, host=place.host, state="serving"
    )
    env = {"RELAUNCH_LAUNCH_ID": str(launch.pk)}
    command = by.command("neighbour", title=SERVER, port=deployment.port, hold=(uuid, 20000), env=env)
    found = by.start("neighbour", f"exec {command}")
    Launch.objects.filter(pk=launch.pk).update(pid=found.pid, start_time=found.started)
    return found


@pytest.fixture
def scene_of(
    story: Story, fleet: Fleet, places: dict[str, Place], crowds: dict[str, tuple[Bystander, ...]]
) -> Iterator[Callable[[Situation, str], Scene]]:
    """A situation's scene at a place, set up; what it leaves behind is cleared away."""
    made: list[Scene] = []

    def make(row: Situation, where: str) -> Scene:
        place = places[where]
        know_baselines(place)
        elsewhere = {"node": Bystanders(place.node), "container": Bystanders(fleet.container(131))}
        scene = Scene(story, fleet, place, Bystanders(place.machine), crowds[where], elsewhere)
        scene.deploy(row.slots, **row.policy)
        made.append(scene)
        return scene

    yield make
    for scene in made:
        scene.clear()


def know_baselines(place: Place) -> None:
    """As if every card had been seen idle once."""
    for card in place.node.cards:
        known = None if card.kind == "unified" else card.baseline_mib
        Gpu.objects.filter(host=place.host, uuid=card.uuid).update(baseline_mib=known)
