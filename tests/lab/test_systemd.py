"""Machines on which systemd is PID 1, and the docker look-alike there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import cgroups, namespaces
from lab.fleet import ContainerSpec, Fleet, Host, HostSpec, NodeSpec

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    if not namespaces.is_inside():
        pytest.fail("Run these tests by `python -m lab enter -- pytest tests/lab`.", pytrace=False)
    if why_not := cgroups.why_no_systemd():
        pytest.skip(f"no machine with systemd here: {why_not}")
    node = NodeSpec(name="pve", containers={131: ContainerSpec(name="inner", systemd=True)})
    with Fleet(tmp_path_factory.mktemp("units"), hosts=[HostSpec(name="units", systemd=True)], nodes=[node]) as running:
        yield running


def said(host: Host, script: str) -> str:
    done = host.exec(["sh", "-c", script], timeout=60)
    assert done.returncode == 0, (script, done.stdout, done.stderr)
    return done.stdout.decode()


def test_systemd_is_up_and_has_its_own_control_groups(units: Fleet) -> None:
    host = units.host("units")
    assert said(host, "cat /proc/1/comm; systemctl is-system-running").split() == ["systemd", "running"]
    assert said(host, "tail -n 1 /proc/1/cgroup").strip() == "0::/init.scope"
    before = Path("/proc/sys/fs/nr_open").read_text()
    assert host.exec(["sh", "-c", "echo 1 > /proc/sys/fs/nr_open"], timeout=10).returncode
    assert Path("/proc/sys/fs/nr_open").read_text() == before, "the settings of the kernel are not its own"


def test_what_pct_exec_starts_is_in_no_unit_of_the_container(units: Fleet) -> None:
    node = units.host("pve")
    assert said(node, "pct exec 131 -- tail -n 1 /proc/self/cgroup").strip() == "0::/.lxc"
    assert "0::/lxc/131/ns/init.scope" in said(node, "cat /proc/[0-9]*/cgroup 2> /dev/null || true")
    said(node, "pct stop 131 && pct start 131")
    up = "pct exec 131 -- systemctl is-active multi-user.target"
    assert said(node, f"until {up}; do sleep 0.05; done").split()[-1] == "active"


def test_it_boots_again(units: Fleet) -> None:
    host = units.host("units")
    units.faults.reboot(host)
    assert said(host, "systemctl is-active ssh").strip() == "active"


def test_docker_starts_again_what_was_killed_and_not_what_was_stopped(units: Fleet) -> None:
    host = units.host("units")
    said(host, "systemd-run --quiet --unit=docker dockerd; until [ -S /run/docker.sock ]; do sleep 0.02; done")
    long = said(host, "docker run -d --name keep --restart always image sleep 1000").strip()
    pid = "docker inspect -f '{{.State.Pid}}' keep"
    assert said(host, f"tail -n 1 /proc/$({pid})/cgroup").strip() == f"0::/docker/{long}"
    assert said(host, f"grep NSpid /proc/$({pid})/status").split()[-1] == "1"
    said(
        host, f"kill -9 $({pid}); until [ $(docker inspect -f '{{{{.RestartCount}}}}' keep) = 1 ]; do sleep 0.05; done"
    )
    said(host, "docker stop -t 1 keep")
    assert (
        said(host, "docker inspect -f '{{.State.Status}} {{.HostConfig.RestartPolicy.Name}}' keep") == "exited always\n"
    )
    said(host, "docker start keep; docker ps | grep keep")
    refused = host.exec(["docker", "stop", "nobody"], timeout=20)
    assert (refused.returncode, refused.stderr) == (1, b"Error response from daemon: No such container: nobody\n")
