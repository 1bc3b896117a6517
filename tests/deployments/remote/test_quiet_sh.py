"""What a failed launch had a unit or container start is stopped before the way back; what others started is not."""

from pathlib import Path
from uuid import uuid4

import pytest

from tests.deployments.remote.shell import Host, said_of

pytestmark = pytest.mark.process


def quiet(host: Host, command: str, *, ordered: bool = True) -> list[str]:
    launch = str(uuid4())
    directory = host.base / "launches" / launch
    directory.mkdir(parents=True)
    if ordered:
        (directory / "ordered").touch()
    return said_of(host.run(host.script("quiet", launch=launch, through=command, seconds_max=5)), "quiet")


@pytest.mark.parametrize("ordered", [True, False])
def test_only_what_this_launch_has_started_is_stopped(host: Host, tmp_path: Path, ordered: bool) -> None:
    assert quiet(host, f"touch {tmp_path}/stopped", ordered=ordered)[0].split() == ["0"]
    assert (tmp_path / "stopped").exists() == ordered


def test_why_it_could_not_be_stopped_is_told(host: Host) -> None:
    assert quiet(host, "echo Unit is masked; exit 4") == ["4 Unit is masked"]


@pytest.mark.parametrize("says", ["Error response from daemon: No such container: chat", "Error: no such container"])
def test_a_container_that_is_not_there_starts_nothing(host: Host, says: str) -> None:
    assert quiet(host, f"echo '{says}'; exit 1")[0].startswith("0 ")
