"""What looks after a server, from its control group and its ancestors."""

import math
from dataclasses import replace

import pytest

from deployments.plan.manager import Manager, ManagerKind, beside, find_manager, launch_waited_for, scheduler_of
from deployments.plan.manager_answers import Told, read_told
from deployments.plan.serving import NOTHING, Serving
from hosts.probe.facts import HostFacts
from hosts.probe.frames import Unknown
from tests.deployments.machine import SGLANG, Machine, Proc, idle_machine

ID = "0123456789abcdef" * 4
USERS = "/user.slice/user-1000.slice/user@1000.service"


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
        (
            "/system.slice/sglang.service",
            Manager(ManagerKind.UNIT, "sglang.service", group="/system.slice/sglang.service"),
        ),
        (
            "/system.slice/system-vllm.slice/vllm@chat.service/inner",
            Manager(ManagerKind.UNIT, "vllm@chat.service", group="/system.slice/system-vllm.slice/vllm@chat.service"),
        ),
        (
            f"{USERS}/app.slice/chat.service",
            Manager(
                ManagerKind.UNIT,
                "chat.service",
                user=1000,
                become=("setpriv", "--reuid=1000", "--clear-groups"),
                group=f"{USERS}/app.slice/chat.service",
            ),
        ),
        (
            f"/system.slice/docker-{ID}.scope",
            Manager(ManagerKind.CONTAINER, ID[:12], "docker", group=f"/system.slice/docker-{ID}.scope"),
        ),
        (f"/docker/{ID}/inner", Manager(ManagerKind.CONTAINER, ID[:12], "docker", group=f"/docker/{ID}")),
        (
            f"/machine.slice/libpod-{ID}.scope/container",
            Manager(ManagerKind.CONTAINER, ID[:12], "podman", group=f"/machine.slice/libpod-{ID}.scope"),
        ),
        (
            f"/system.slice/cri-containerd-{ID}.scope",
            Manager(ManagerKind.CONTAINER, ID[:12], "", group=f"/system.slice/cri-containerd-{ID}.scope"),
        ),
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
        (("supervisord",), Manager(ManagerKind.SUPERVISOR, "supervisord", "supervisorctl", pid=50, child=100)),
        (("supervisord", "bash"), Manager(ManagerKind.SUPERVISOR, "supervisord", "supervisorctl", pid=50, child=51)),
        (("runsv",), Manager(ManagerKind.SUPERVISOR, "runit", pid=50, child=100)),
        (("slurmstepd", "bash"), Manager(ManagerKind.SCHEDULER, "Slurm")),
        (("tmux: server", "bash"), Manager(ManagerKind.SHELL, "bash (pid 51) in tmux", pid=51)),
        (("tmux: server", "bash", "timeout", "conda"), Manager(ManagerKind.SHELL, "bash (pid 51) in tmux", pid=51)),
        (("sh",), Manager(ManagerKind.SHELL, "sh (pid 50)", pid=50)),
        (("sshd", "watchdog.py"), Manager(ManagerKind.PARENT, "watchdog.py (pid 51)", pid=51)),
        (("watchdog.py", "vllm"), Manager(ManagerKind.PARENT, "watchdog.py (pid 50)", pid=50)),
    ],
)
def test_by_ancestors(ancestors: tuple[str, ...], manager: Manager) -> None:
    assert found(server("/system.slice/supervisor.service", *ancestors)) == manager
    assert found(server("/system.slice/chat.service", *ancestors)) == (
        manager if manager.is_certain else Manager(ManagerKind.UNIT, "chat.service", group="/system.slice/chat.service")
    )


@pytest.mark.parametrize("ancestors", [("sshd",), ("tmux: server",), ("SCREEN",), ("sshd", "sudo"), ("vllm",)])
def test_who_starts_what_is_asked_for_once_restarts_nothing(ancestors: tuple[str, ...]) -> None:
    assert found(server("/", *ancestors)) is None


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
    assert found(server(f"{pod}/system.slice/chat.service", init=pod)) == Manager(
        ManagerKind.UNIT, "chat.service", group=f"{pod}/system.slice/chat.service"
    )


def test_nobody_serves_or_nobody_could_be_seen() -> None:
    assert find_manager(idle_machine().facts(), NOTHING) is None
    root = server("/")
    facts = root.facts()
    assert not isinstance(facts.processes, Unknown)
    blind = HostFacts(facts.measured_at)
    assert isinstance(find_manager(blind, Serving(facts.processes.by_pid[100], (), "")), Unknown)


def argv(manager: Manager) -> tuple[list[str], list[str]]:
    return manager.stop_argv(seconds=20, sudo=True), manager.start_argv(sudo=False)


def test_how_each_is_asked() -> None:
    unit = Manager(ManagerKind.UNIT, "chat.service")
    assert unit.can_be_asked
    assert argv(unit) == (["sudo", "-n", "systemctl", "stop", "chat.service"], ["systemctl", "start", "chat.service"])
    own = ["env", "XDG_RUNTIME_DIR=/run/user/7", "systemctl", "--user", "stop", "chat.service"]
    assert replace(unit, user=7).stop_argv(seconds=20, sudo=True) == own, "as the login itself, which owns it"
    become = ("setpriv", "--reuid=7", "--clear-groups")
    assert replace(unit, user=7, become=become).stop_argv(seconds=9, sudo=True) == ["sudo", "-n", *become, *own]
    box = Manager(ManagerKind.CONTAINER, "0123456789ab", "podman")
    assert argv(box)[0] == ["sudo", "-n", "podman", "stop", "-t", "20", "0123456789ab"]
    program = Manager(ManagerKind.SUPERVISOR, "supervisord", "supervisorctl", told=Told(name="g:chat", settings="/s"))
    assert argv(program)[1] == ["supervisorctl", "-c", "/s", "start", "g:chat"]


@pytest.mark.parametrize(
    "manager",
    [
        Manager(ManagerKind.CONTAINER, "0123456789ab"),
        Manager(ManagerKind.SUPERVISOR, "supervisord", "supervisorctl"),
        Manager(ManagerKind.SUPERVISOR, "runit"),
        Manager(ManagerKind.SHELL, "sh (pid 50)"),
        Manager(ManagerKind.PARENT, "watchdog.py (pid 50)"),
        Manager(ManagerKind.SCHEDULER, "Slurm"),
    ],
)
def test_who_cannot_be_asked_gets_no_command(manager: Manager) -> None:
    assert argv(manager) == ([], []) and not manager.can_be_asked


def test_what_the_tools_say() -> None:
    told = read_told([("unit", "Restart=always"), ("unit", "UnitFileState=enabled"), ("member", "7")], child=None)
    assert told == Told(restart="always", at_boot=True, members=(7,))
    assert read_told([("unit", "TriggeredBy=chat.socket chat.timer")], child=None).triggers == (
        "chat.socket",
        "chat.timer",
    )
    assert read_told([("container", "/chat always")], child=None) == Told(name="chat", restart="always", at_boot=True)
    assert read_told([("container", "/chat unless-stopped")], child=None).at_boot is False
    assert read_told([("container", "chat always")], child=None, tool="podman").at_boot is None
    assert read_told([("trouble", "permission denied (exit status 1)")], child=None).trouble.startswith("permission")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *[("1min 30s", 90), ("20s", 20), ("2min 5s 250ms", 125.25), ("infinity", math.inf), ("1h", 3600)],
        *[("90", None), ("", None), ("soon", None), ("5s ?", None)],
    ],
)
def test_how_long_a_unit_waits(text: str, seconds: float | None) -> None:
    assert read_told([("unit", f"TimeoutStopUSec={text}")], child=None).stop_seconds == seconds


@pytest.mark.parametrize(
    ("state", "at_boot"),
    [("enabled", True), ("enabled-runtime", False), ("disabled", False), ("static", None), ("generated", None)],
)
def test_whether_a_unit_starts_at_boot(state: str, at_boot: bool | None) -> None:
    assert read_told([("unit", f"UnitFileState={state}")], child=None).at_boot is at_boot


def test_the_program_of_supervisord_is_the_one_with_the_servers_process() -> None:
    lines = [("program", "other RUNNING pid 99, uptime 0:00:05"), ("program", "g:chat RUNNING pid 100, uptime 1 day")]
    lines += [("program", "third STOPPED Nov 30 09:56 AM"), ("settings", "/etc/s.conf")]
    assert read_told(lines, child=100) == Told(name="g:chat", settings="/etc/s.conf")
    assert read_told(lines, child=55).name == "", "of none of them: not known how to stop it"


def test_who_else_is_in_the_unit() -> None:
    machine = server("/system.slice/chat.service", "start.sh")
    machine.add(Proc(101, 1001, parent=100), Proc(200, 1, "tail"), Proc(201, 1, "dead", state="Z"))
    facts = machine.facts()
    assert not isinstance(facts.processes, Unknown)
    serving = Serving(facts.processes.by_pid[100], facts.processes.tree(100), "")
    unit = Manager(ManagerKind.UNIT, "chat.service", told=Told(members=(50, 100, 101, 200, 201, 999)))
    assert [process.pid for process in beside(facts, serving, unit)] == [200]
    assert beside(facts, serving, None) == ()


@pytest.mark.parametrize(
    ("above", "also"),
    [
        (("jupyter-lab", "bash"), ["jupyter-lab"]),
        (("code-server", "node", "sh", "timeout"), ["code-server", "node"]),
        (("tmux: server", "bash"), ["tmux: server"]),
        (("start.sh", "bash", "conda", "vllm"), []),
        (("tini", "nvidia_entry.sh"), []),
    ],
)
def test_a_program_above_the_server_has_work_of_its_own_and_a_wrapper_has_not(
    above: tuple[str, ...], also: list[str]
) -> None:
    machine = server("/system.slice/jupyter.service", *above)
    facts = machine.facts()
    assert not isinstance(facts.processes, Unknown)
    members = tuple(machine.procs)
    unit = Manager(ManagerKind.UNIT, "jupyter.service", told=Told(members=members))
    found = beside(facts, Serving(facts.processes.by_pid[100], facts.processes.tree(100), ""), unit)
    assert [process.comm for process in found] == also


@pytest.mark.parametrize(("comm", "name"), [("slurmd", "Slurm"), ("kubelet", "Kubernetes"), ("sh", "")])
def test_a_node_of_a_scheduler_is_known_by_its_daemon(comm: str, name: str) -> None:
    assert scheduler_of(idle_machine().add(Proc(60, 60, comm)).facts()) == name
    assert scheduler_of(idle_machine().add(Proc(60, 60, comm, state="Z")).facts()) == ""


LAUNCH = "65d33ad4-ded1-46d1-a7f5-a92fbb0766f0"
LAUNCHES = "/home/llm/.relaunch/f4b06f0378a8/1/launches"


@pytest.mark.parametrize(
    ("command", "launch"),
    [
        (f"sh {LAUNCHES}/{LAUNCH}/run {LAUNCHES}/{LAUNCH}", LAUNCH),
        (f"sh {LAUNCHES}/{LAUNCH}/run {LAUNCHES}/{LAUNCH} relaunch-{LAUNCH}.service ", LAUNCH),
        (f"bash -c while true; do sh {LAUNCHES}/{LAUNCH}/run {LAUNCHES}/{LAUNCH}; done", ""),
        (f"sh {LAUNCHES}/{LAUNCH}/run {LAUNCHES}/another", ""),
        (f"sh /srv/launches/{LAUNCH}/run /srv/launches/{LAUNCH}", ""),
        ("sh /root/serve.sh", ""),
        ("", ""),
    ],
)
def test_the_wrapper_of_a_launch_is_no_loop(command: str, launch: str) -> None:
    assert launch_waited_for(command) == launch
