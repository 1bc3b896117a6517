"""systemd as PID 1 of a simulated machine: its units, and the acts of the plan that it needs."""

from collections.abc import Sequence
from pathlib import Path

from lab.cgroups import SYSTEMD

LXC_GROUP = "/sys/fs/cgroup/lxc/{vmid}/ns"
"""Where a node keeps the control group of a container, in its own hierarchy; attach.c knows it too."""
UNITS = Path("/usr/lib/systemd/system")
KEPT = ("systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket")
"""Of what a boot would start. The rest would turn knobs of the kernel that the lab shares with its machine."""
USERS_OWN = """[Service]
User=%i
Type=notify
Slice=user-%i.slice
Delegate=yes
RuntimeDirectory=user/%i
RuntimeDirectoryMode=0700
Environment=XDG_RUNTIME_DIR=/run/user/%i
ExecStart={systemd} --user
"""
"""The real one needs PAM and systemd-logind."""
SSH = """[Unit]
Description=OpenBSD Secure Shell server

[Service]
ExecStart={command} -D
RuntimeDirectory=sshd
KillMode=process
"""


def control_group(group: str) -> list[str]:
    """The acts that put a machine into a control group of its own; its kernel's settings become read-only."""
    return [f"cgroup\t{group}\tsys/fs/cgroup", "robind\tproc/sys\tproc/sys"]


def become_systemd() -> list[str]:
    """The acts after which systemd is PID 1; `container` tells it where it is, as LXC does."""
    return ["env\tcontainer=lxc", f"become\t{SYSTEMD}"]


def write_systemd(root: Path, *, sshd: Sequence[str] = ()) -> None:
    """The units of a machine, on its disk: nothing but the journal and, with a command, its sshd."""
    units = root / "etc/systemd/system"
    wanted = units / "multi-user.target.wants"
    wanted.mkdir(parents=True, exist_ok=True)
    (root / "var/lib/systemd").mkdir(exist_ok=True)
    _link(units / "default.target", str(UNITS / "multi-user.target"))
    for unit in UNITS.glob("*.wants/*"):
        if unit.name not in KEPT and not unit.name.endswith(".target"):
            _link(units / unit.name, "/dev/null")
    (units / "user@.service").write_text(USERS_OWN.format(systemd=SYSTEMD))
    if sshd:
        (units / "ssh.service").write_text(SSH.format(command=" ".join(sshd)))
        _link(wanted / "ssh.service", "../ssh.service")


def _link(path: Path, text: str) -> None:
    if not path.is_symlink():
        path.symlink_to(text)
