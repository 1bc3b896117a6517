"""Two real monitors of one panel, on a simulated fleet."""

from __future__ import annotations

from pathlib import Path

import pytest

from hosts.models import Gpu, Host
from lab.fleet import L40S, ContainerSpec, Fleet, HostSpec, NodeSpec
from lab.gpus import state
from tests.support.panel import Panel
from tests.support.story import Story
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def owners() -> dict[str, str]:
    """The process that reads each host, without the number of the round in which it took it."""
    rows = Host.objects.values_list("name", "monitor_owner")
    return {name: owner.rpartition(":")[0] for name, owner in rows}


def test_two_monitors_share_the_hosts_and_one_takes_over_from_the_other(tmp_path: Path) -> None:
    nodes = [NodeSpec(name="pve", cards=[L40S] * 2, containers={129: ContainerSpec(name="llm")})]
    with (
        Fleet(tmp_path / "fleet", hosts=[HostSpec(name="gpu1", cards=[L40S])], nodes=nodes) as fleet,
        Panel(tmp_path / "data") as panel,
        panel.entered(),
    ):
        story = Story.begin()
        story.add_host(fleet.host("gpu1"))
        inside = story.add_container(fleet.container(129)).host
        for name in ("one", "two"):
            panel.start("monitor", name=name)
        until(lambda: len({*owners().values()} - {""}) == 2, seconds=60, what="two monitors", tell=owners)

        def used() -> set[int | None]:
            return set(Gpu.objects.filter(host=inside).values_list("used_mib", flat=True))

        until(lambda: used() == {0}, seconds=60, what="the container's cards", tell=used)
        # Whoever asked inside of it would be told something else.
        state.set_fault_here(fleet.container(129).seen("/run"), "cell * memory.used 1111")
        state.set_fault(fleet.node("pve").gpu_state, "cell * memory.used 4321\ncell * memory.free 100")
        until(lambda: used() == {4321}, seconds=30, what="the container's cards, read on its node", tell=used)
        panel.kill("one")
        until(lambda: len({*owners().values()}) == 1, seconds=60, what="one monitor for all", tell=owners)
        Gpu.objects.update(used_mib=None)
        until(lambda: not Gpu.objects.filter(used_mib=None).exists(), seconds=30, what="every card read again")
