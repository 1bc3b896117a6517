"""What looks after a server, from its control group and its ancestors."""

import pytest

from deployments.plan.manager import Manager, ManagerKind, find_manager
from deployments.plan.serving import NOTHING, Serving
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from tests.deployments.machine import SGLANG, Machine, Proc, idle_machine

ID = "0123456789abcdef" * 4


def found(machine: Machine) -> Manager | Unknown | None:
    facts = machine.facts()
    assert not isinstance(facts.processes, Unknown)
    return find_manager(facts, Serving(facts.processes.by_pid[100], (), "test"))


def server(cgroup: str, *above: str, init: str = "/init.scope") -> Machine:
    """A server with these ancestors, from init down."""
    machine = idle_machine()
    machine.cgroups = {1: init, 100: cgroup}
    parent = 1
    for pid, comm in enumerate(above, start=50):
        machine.add(Proc(pid, pid, comm, parent=parent))
        parent = pid
    return machine.add(Proc(100, 1000, command=SGLANG, parent=parent))


@pytest.mark.parametrize(
    ("cgroup", "manager"),
    [
        ("/system.slice/sglang.service", Manager(ManagerKind.UNIT, "sglang.service")),
        ("/system.slice/system-vllm.slice/vllm@chat.service", Manager(ManagerKind.UNIT, "vllm@chat.service")),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/chat.service",
            Manager(ManagerKind.UNIT, "chat.service", user=True),
        ),
        (f"/system.slice/docker-{ID}.scope", Manager(ManagerKind.CONTAINER, ID[:12])),
        (f"/docker/{ID}", Manager(ManagerKind.CONTAINER, ID[:12])),
        (f"/machine.slice/libpod-{ID}.scope/container", Manager(ManagerKind.CONTAINER, ID[:12])),
        (
            f"/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope",
            Manager(ManagerKind.SCHEDULER, "Kubernetes"),
        ),
        ("/system.slice/slurmstepd.scope/job_7/step_0/user/task_0", Manager(ManagerKind.SCHEDULER, "Slurm")),
    ],
)
def test_by_control_group(cgroup: str, manager: Manager) -> None:
    assert found(server(cgroup)) == manager


@pytest.mark.parametrize(
    ("ancestors", "manager"),
    [
        (("supervisord",), Manager(ManagerKind.SUPERVISOR, "supervisord")),
        (("supervisord", "bash"), Manager(ManagerKind.SUPERVISOR, "supervisord")),
        (("runsv",), Manager(ManagerKind.SUPERVISOR, "runit")),
        (("slurmstepd", "bash"), Manager(ManagerKind.SCHEDULER, "Slurm")),
        (("tmux: server", "bash"), Manager(ManagerKind.SHELL, "bash (pid 51) in tmux")),
        (("sh",), Manager(ManagerKind.SHELL, "sh (pid 50)")),
    ],
)
def test_by_ancestors(ancestors: tuple[str, ...], manager: Manager) -> None:
    assert found(server("/system.slice/supervisor.service", *ancestors)) == manager
    assert found(server("/system.slice/chat.service", *ancestors)) == (
        manager if manager.kind != ManagerKind.SHELL else Manager(ManagerKind.UNIT, "chat.service")
    )


@pytest.mark.parametrize(
    "cgroup",
    [
        "/",
        "",
        "/.lxc",
        "/user.slice/user-0.slice/session-3.scope",
        "/system.slice/ssh.service",
        "/system.slice/sshd@4-10.0.0.1:22-10.0.0.2:55.service",
        "/system.slice/cron.service",
        "/user.slice/user-1000.slice/user@1000.service",
        "/system.slice/docker.service",
    ],
)
def test_what_a_person_started_by_hand_has_no_manager(cgroup: str) -> None:
    assert found(server(cgroup, "sshd", "nohup")) is None


def test_what_is_above_process_1_is_not_the_machines_own_affair() -> None:
    pod = f"/kubepods/pod1/{ID}"
    assert found(server(f"{pod}/system.slice/ssh.service", init=f"{pod}/init.scope")) is None
    assert found(server(pod, init=pod)) is None
    assert found(server(f"{pod}/system.slice/chat.service", init=pod)) == Manager(ManagerKind.UNIT, "chat.service")


def test_nobody_serves_or_nobody_could_be_seen() -> None:
    assert find_manager(idle_machine().facts(), NOTHING) is None
    root = server("/")
    facts = root.facts()
    assert not isinstance(facts.processes, Unknown)
    blind = HostFacts(facts.measured_at)
    assert isinstance(find_manager(blind, Serving(facts.processes.by_pid[100], (), "")), Unknown)
