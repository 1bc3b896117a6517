"""What a machine's root looks like: the files written before it starts, and the plan its init carries out."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab import init
from lab.build import LAB
from lab.cgroups import one_user_only
from lab.engines import environment
from lab.paths import FleetPaths, python_prefixes

PATH = "/lab/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOGIN, LOGIN_ID = "llm", 1000
NODES = ("null", "zero", "full", "random", "urandom", "tty")
COPIED = (
    "ld.so.cache",
    "ld.so.conf",
    "nsswitch.conf",
    "login.defs",
    "profile",
    "localtime",
    "protocols",
    "services",
)
SHARED = ("alternatives", "ssl", "ld.so.conf.d", "terminfo")
BOOT_ID = "proc/sys/kernel/random/boot_id"
PROC_DRIVER = "proc/driver"


DIRECTORIES = {
    "etc": 0o755,
    "root": 0o711,  # passed through by the plain login on its way to a Python that lives below it
    "var/log": 0o755,
    "var/lib": 0o755,
    "var/tmp": 0o1777,
    "home": 0o755,
    "opt": 0o755,
}


def write_etc(root: Path, *, name: str, hosts: str) -> None:
    """The machine's own /etc, its homes and its /var."""
    for directory, mode in DIRECTORIES.items():
        (root / directory).mkdir(parents=True, exist_ok=True)
        (root / directory).chmod(mode)
    for directory in ("bin", "sbin", "lib", "lib64", "lib32"):
        if Path("/", directory).is_symlink():
            _link(root / directory, f"usr/{directory}")
    _link(root / "etc/os-release", "../usr/lib/os-release")
    for version in environment.VERSIONS:
        home = environment.HOME.format(version=version).lstrip("/")
        _link(root / home, f"/lab/src/{environment.environment_of(version).relative_to(LAB.parent)}")
    contents = {
        **_accounts(root),
        "hostname": f"{name}\n",
        "hosts": hosts,
        "machine-id": f"{name.encode().hex():0<32.32}\n",
    }
    for file, text in contents.items():
        (root / "etc" / file).write_text(text)
    for file in COPIED:
        if Path("/etc", file).is_file():
            shutil.copy(Path("/etc", file), root / "etc" / file)


def _link(path: Path, text: str) -> None:
    if not path.is_symlink():
        path.symlink_to(text)


def _accounts(root: Path) -> dict[str, str]:
    """passwd, group and shadow; a second login only where a second id exists."""
    single = one_user_only()
    daemon = "0:0" if single else "110:65534"
    users = f"root:x:0:0:root:/root:/bin/bash\nsshd:x:{daemon}::/run/sshd:/usr/sbin/nologin\n"
    groups = "root:x:0:\n"
    if not single:
        users += "nobody:x:65534:65534::/:/usr/sbin/nologin\n"
        users += f"{LOGIN}:x:{LOGIN_ID}:{LOGIN_ID}::/home/{LOGIN}:/bin/bash\n"
        groups += f"tty:x:5:\nvideo:x:44:\nnogroup:x:65534:\n{LOGIN}:x:{LOGIN_ID}:\n"
        home = root / "home" / LOGIN
        home.mkdir(mode=0o755, exist_ok=True)
        os.chown(home, LOGIN_ID, LOGIN_ID)
    locked = "".join(f"{line.split(':')[0]}:*:19000:0:99999:7:::\n" for line in users.splitlines())
    return {"passwd": users, "group": groups, "shadow": locked}


def write_sshd(root: Path, *, host_key: Path) -> None:
    """Configuration and host key of the machine's sshd."""
    directory = root / "etc/ssh"
    directory.mkdir(exist_ok=True)
    options = [
        "Port 22",
        "HostKey /etc/ssh/ssh_host_ed25519_key",
        "PermitRootLogin prohibit-password",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "UsePAM no",
        "UseDNS no",
        "MaxStartups 500:30:1000",
        "PidFile /run/sshd.pid",
        "AcceptEnv LANG LC_*",
        f"SetEnv PATH={PATH}",
        "Subsystem sftp internal-sftp",
    ]
    if _ssh_version() >= (9, 8):
        options.append("PerSourcePenalties no")
    (directory / "sshd_config").write_text("\n".join(options) + "\n")
    install_host_key(root, host_key=host_key)


def install_host_key(root: Path, *, host_key: Path) -> None:
    """Put a key pair where sshd looks for it; takes effect when sshd starts next."""
    for source, mode in ((host_key, 0o600), (host_key.with_suffix(".pub"), 0o644)):
        target = root / "etc/ssh" / f"ssh_host_ed25519_key{source.suffix}"
        shutil.copyfile(source, target)
        target.chmod(mode)


def _ssh_version() -> tuple[int, int]:
    text = subprocess.run(["ssh", "-V"], capture_output=True, text=True, check=True).stderr
    major, _, minor = text.removeprefix("OpenSSH_").partition("p")[0].partition(".")
    return int(major), int(minor)


def authorize(root: Path, line: str) -> None:
    """Let the owner of a public key log in, as root and, where it exists, as the plain login."""
    for home, owner in ((root / "root", 0), (root / "home" / LOGIN, LOGIN_ID)):
        if not home.is_dir():
            continue
        directory = home / ".ssh"
        directory.mkdir(mode=0o700, exist_ok=True)
        keys = directory / "authorized_keys"
        known = keys.read_text().splitlines() if keys.exists() else []
        if line.strip() not in known:
            keys.write_text("\n".join([*known, line.strip()]) + "\n")
        keys.chmod(0o600)
        for path in (directory, keys):
            os.chown(path, owner, owner)


def _devices(source: str, names: Sequence[str], *, made: bool) -> list[str]:
    """Device files. Those of cards are plain files, made here or bound from `source`: `/proc/PID/fd` names them."""
    lines = ["tmpfs\tmode=755,size=4m\tdev"]
    lines += [f"bind\t{source}/{node}\tdev/{node}" for node in NODES]
    lines += [f"file\t666\tdev/{name}" if made else f"bind\t{source}/{name}\tdev/{name}" for name in names]
    group = "" if one_user_only() else ",gid=5"
    lines += [
        f"devpts\tnewinstance,ptmxmode=0666,mode=620{group}\tdev/pts",
        "link\tpts/ptmx\tdev/ptmx",
        "link\t/proc/self/fd\tdev/fd",
        "tmpfs\tmode=1777\tdev/shm",
    ]
    return lines + [f"link\t/proc/self/fd/{n}\tdev/{name}" for n, name in enumerate(("stdin", "stdout", "stderr"))]


def _common(*, boot_id: str, driver: str, usr: Sequence[str], lab: Sequence[tuple[str, str]]) -> list[str]:
    if len(usr) == 1:
        lines = [f"robind\t{usr[0]}\tusr"]
    else:
        layers = ":".join(layer.replace(":", "\\:").replace(",", "\\,") for layer in usr)
        lines = [f"overlay\tlowerdir={layers}\tusr"]
    lines += [f"robind\t/etc/{name}\tetc/{name}" for name in SHARED if Path("/etc", name).is_dir()]
    lines += ["proc\tproc", "robind\t/sys\tsys", f"bind\t{boot_id}\t{BOOT_ID}"]
    lines += [f"robind\t{driver}\t{PROC_DRIVER}"]  # the kernel's: in a container it names every card, too
    lines += ["tmpfs\tmode=1777\ttmp", "tmpfs\tmode=755\trun", "dir\t1777\trun/lock", "dir\t755\trun/sshd"]
    lines += [f"robind\t{source}\t{target}" for source, target in lab]
    return lines + [f"robind\t{prefix}\t{str(prefix)[1:]}" for prefix in python_prefixes()]


def host_plan(
    paths: FleetPaths,
    *,
    name: str,
    devices: Sequence[str],
    layers: Sequence[Path],
    node: bool,
    group: Path | None = None,
    systemd: bool = False,
) -> str:
    """The plan of a host or node, carried out in the lab's mount namespace. `layers` lie over /usr.

    `group`: a control group of its own, which `systemd` needs.
    """
    machine = paths.machine(name)
    lab = [
        (str(paths.bin), "lab/bin"),
        (str(paths.libexec), "lab/libexec"),
        (str(Path(__file__).parent), "lab/src/lab"),
    ]
    if node:
        lab += [("/usr", "lab/base/usr"), (str(paths.driver), "lab/driver"), (str(paths.docker), "lab/docker")]
    lines = [f"root\t{machine / 'rootfs'}"]
    usr, driver = [*map(str, layers), "/usr"], str(machine / "driver")
    lines += _common(boot_id=str(machine / "boot_id"), driver=driver, usr=usr, lab=lab)
    lines += _devices("/dev", devices, made=True)
    lines += [f"bind\t{machine / 'fakegpu'}\tvar/lib/fakegpu"]
    lines += init.control_group(str(group)) if group is not None else []
    lines += [f"hostname\t{name}", "loopback", "enter", *(init.become_systemd() if systemd else _sshd_start())]
    return "\n".join(lines) + "\n"


def container_plan(*, vmid: int, name: str, devices: Sequence[str], systemd: bool = False) -> str:
    """The plan of a container, carried out in its node's mount namespace; for `systemd` the node has a group, too."""
    home = f"/var/lib/lxc/{vmid}"
    lab = [(f"/lab/{part}", f"lab/{part}") for part in ("bin", "src")]
    usr = [*(["/lab/driver"] if devices else []), *(["/lab/docker"] if systemd else []), "/lab/base/usr"]
    shared = _common(boot_id=f"{home}/boot_id", driver=f"/{PROC_DRIVER}", usr=usr, lab=lab)
    lines = [f"root\t{home}/rootfs", *shared]
    lines += _devices("/dev", devices, made=False)
    lines += ["bind\t/var/lib/fakegpu\tvar/lib/fakegpu"]
    lines += init.control_group(init.LXC_GROUP.format(vmid=vmid)) if systemd else []
    lines += [f"hostname\t{name}", "loopback", "enter", *(init.become_systemd() if systemd else ())]
    return "\n".join(lines) + "\n"


def sshd_command() -> list[str]:
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin:/sbin")
    return [sshd or "/usr/sbin/sshd", "-E", "/var/log/sshd.log"]


def sshd_environment() -> dict[str, str]:
    """With one id only sshd must not insist on dropping groups."""
    return {"LD_PRELOAD": "/lab/libexec/nogroups.so"} if one_user_only() else {}


def _sshd_start() -> list[str]:
    environment = sshd_environment()
    return [
        *(f"env\t{name}={value}" for name, value in environment.items()),
        "\t".join(["run", *sshd_command()]),
        *(f"unenv\t{name}" for name in environment),
    ]
