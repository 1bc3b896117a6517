"""The script that asks a manager's own tools, for real."""

import os
from pathlib import Path

import pytest

from deployments.remote.script import Said
from tests.deployments.remote.shell import Host, said_of, words

pytestmark = pytest.mark.process

NOBODY = {"name": "", "tool": "", "owner": "", "become": "", "group": "", "above": "", "as_root": ""}


def ask(host: Host, kind: str, **values: object) -> list[Said]:
    return host.run(host.script("manager", kind=kind, **(NOBODY | values)))


def test_a_units_properties_are_told_one_a_line(host: Host) -> None:
    host.program("systemctl", 'echo "$@" > "$HOME/asked"; printf "Restart=always\\nUnitFileState=enabled\\n"')
    said = ask(host, "unit", name="chat.service")
    assert said_of(said, "unit") == ["Restart=always", "UnitFileState=enabled"]
    asked = (host.home / "asked").read_text().split()
    assert asked[1:-2][1::2] == ["Restart", "UnitFileState", "TriggeredBy", "TimeoutStopUSec"]
    assert asked[0] == "show" and asked[-2:] == ["--", "chat.service"]


def test_a_logins_own_systemd_is_asked_in_its_own_place(host: Host) -> None:
    host.program("systemctl", 'echo "Restart=$XDG_RUNTIME_DIR $1 $AS"')
    said = ask(host, "unit", name="chat.service", owner=7, become="env AS=seven", as_root="env")
    assert said_of(said, "unit") == ["Restart=/run/user/7 --user seven"]


def test_a_tool_that_refuses_is_told_with_its_last_words(host: Host) -> None:
    host.program("docker", "echo first; echo 'permission denied' >&2; exit 1")
    said = ask(host, "container", tool="docker", name="abc")
    assert said_of(said, "trouble") == ["permission denied (exit status 1)"] and "container" not in words(said)


def test_a_tool_that_is_not_there_is_told(host: Host) -> None:
    said = ask(host, "container", tool="no-such-tool", name="abc")
    assert "no-such-tool" in said_of(said, "trouble")[0]


def test_a_container_by_name_and_policy(host: Host) -> None:
    host.program("docker", 'echo "/chat always"')
    assert said_of(ask(host, "container", tool="docker", name="abc"), "container") == ["/chat always"]
    assert words(ask(host, "container", name="abc")) == ["end"], "no tool is known: nothing is asked"


def test_the_container_that_publishes_a_port(host: Host) -> None:
    host.program("docker", 'echo "$*" > "$HOME/asked"; echo "chat (0123456789ab)"')
    assert said_of(ask(host, "published", name=30000), "published") == ["chat (0123456789ab)"]
    asked = (host.home / "asked").read_text()
    assert asked.startswith("ps --filter publish=30000 --format {{.Names}}")
    host.program("docker", "exit 1")
    assert "published" not in words(ask(host, "published", name=30000))


@pytest.mark.parametrize("options", [["-c", "/etc/lab.conf"], ["-c/etc/lab.conf"], ["--configuration=/etc/lab.conf"]])
def test_supervisord_is_asked_by_its_own_settings(host: Host, options: list[str]) -> None:
    host.program("supervisorctl", 'echo "chat RUNNING pid 7, uptime $2"; exit 3')
    program = host.program("supervisord", "sleep 60; :")
    above = host.spawn(str(program), *options)
    said = ask(host, "supervisor", tool="supervisorctl", above=above)
    assert said_of(said, "settings") == ["/etc/lab.conf"]
    assert said_of(said, "program") == ["chat RUNNING pid 7, uptime /etc/lab.conf"], "3: another one does not run"


def test_the_command_of_a_parent(host: Host) -> None:
    above = host.spawn("sh", "-c", "while true; do sleep 60; done", "loop")
    assert said_of(ask(host, "waiting", above=above), "command") == ["sh -c while true; do sleep 60; done loop"]


def test_the_members_of_a_group_are_its_processes(host: Host) -> None:
    line = Path("/proc/self/cgroup").read_text().splitlines()[0].split(":", 2)[2]
    assert str(os.getpid()) in said_of(ask(host, "unit", group=line, name="x"), "member")
    assert "member" not in words(ask(host, "unit", group="/no/such.service", name="x"))
