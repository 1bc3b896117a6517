"""Letting go, for real: what is ours goes, the server lives on, and what it needs stays."""

from pathlib import Path

import pytest

from deployments.remote.script import Said
from tests.deployments.remote.shell import Host, lives, record, said_of, start_time, wait_for, words

pytestmark = pytest.mark.process

SLEEPER = ["sleep", "300"]


def release(host: Host, *, fence: int = 9, written: str = "") -> list[Said]:
    return host.run(host.script("release", fence=fence, written=written, as_root=""))


def files(host: Host) -> list[str]:
    """All below the home but the tests' own programs."""
    found = (path.relative_to(host.home) for path in host.home.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.parts[0] != "bin")


def test_a_host_without_anything_of_ours_stays_so(host: Host) -> None:
    assert words(release(host)) == ["released", "end"]
    assert not (host.home / ".relaunch").exists()


def test_what_ended_is_taken_away_whole(host: Host) -> None:
    host.launch(["true"])
    wait_for(lambda: list(host.base.glob("launches/*/exit")), what="its end")
    said = release(host)
    assert said_of(said, "removed") == [str(host.base)] and not said_of(said, "kept")
    assert not (host.home / ".relaunch").exists()


def test_a_server_that_we_have_started_lives_on_and_keeps_its_log(host: Host) -> None:
    pid = int(record(host.launch([*SLEEPER], launch="11111111-2222-3333-4444-555555555555"))["pid"])
    log = host.base / "launches/11111111-2222-3333-4444-555555555555/log"
    parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
    said = release(host)
    assert lives(pid) and lives(int(parent))
    assert said_of(said, "kept") == [f"shell {parent}", f"log {log}"]
    assert files(host) == [str(log.relative_to(host.home))]


def test_the_follower_of_a_unit_is_ended_and_the_units_server_is_not(host: Host) -> None:
    launch = host.base / "launches/22222222-3333-4444-5555-666666666666"
    launch.mkdir(parents=True)
    server = host.spawn(*SLEEPER)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (launch / "record").write_text(f"pid {server}\nstart {start_time(server)}\nboot {boot}\n")
    (launch / "log").write_text("copied")
    (launch / "run").write_text("sleep 301 &\nwait\n")
    follower = host.spawn("sh", str(launch / "run"), str(launch))
    children = Path(f"/proc/{follower}/task/{follower}/children")
    wait_for(lambda: children.read_text().split(), what="its child")
    child = int(children.read_text().split()[0])
    said = release(host)
    assert not said_of(said, "kept") and said_of(said, "removed") == [str(host.base)]
    wait_for(lambda: not lives(follower) and not lives(child), what="the follower ends")
    assert lives(server)


def test_the_key_that_is_bound_into_a_container_stays(host: Host) -> None:
    launch = host.base / "launches/33333333-3333-4444-5555-666666666666"
    launch.mkdir(parents=True)
    server = host.spawn(*SLEEPER)
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (launch / "record").write_text(f"pid {server}\nstart {start_time(server)}\nboot {boot}\n")
    for name in ("log", "run", "inside.yaml"):
        (launch / name).write_text("x")
    said = release(host)
    assert said_of(said, "kept") == [f"written {launch / 'inside.yaml'}"]
    assert files(host) == [str((launch / "inside.yaml").relative_to(host.home))]


def test_who_only_names_the_wrapper_is_left_alone(host: Host) -> None:
    pid = int(record(host.launch([*SLEEPER], launch="33333333-3333-4444-5555-666666666666"))["pid"])
    run = host.base / "launches/33333333-3333-4444-5555-666666666666/run"
    reader = host.spawn("tail", "-f", str(run))
    release(host)
    assert lives(reader) and lives(pid)


def test_what_is_written_for_a_unit_is_told(host: Host) -> None:
    there, gone = host.home / "drop in.conf", host.home / "gone.conf"
    there.write_text("[Service]\n")
    said = release(host, written=f"{there}\n{gone}")
    assert said_of(said, "kept") == [f"written {there}"] and there.exists()


def test_an_older_panel_takes_nothing_away(host: Host) -> None:
    host.launch(["true"], launch="44444444-3333-4444-5555-666666666666")
    host.run(host.script("locks", mode="release", cards=[], holder="panel|7|1|a|b", fence=12))
    assert "fenced" in words(release(host, fence=9))
    assert host.base.exists()


def test_another_deployment_of_the_panel_keeps_its_own(host: Host) -> None:
    other = host.base.parent / "8"
    other.mkdir(parents=True)
    (other / "fence").write_text("3\n")
    host.launch(["true"])
    wait_for(lambda: list(host.base.glob("launches/*/exit")), what="its end")
    release(host)
    assert files(host) == [str((other / "fence").relative_to(host.home))]
