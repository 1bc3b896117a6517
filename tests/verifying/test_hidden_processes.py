"""A machine whose /proc hides other users' processes from the panel's login: what cannot be seen has not ended."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from deployments.lifecycle import JobKind
from deployments.models import Check, Effect
from deployments.remote.script import Said, build
from hosts.probe.facts import HostFacts
from hosts.probe.holders import OpenFiles
from hosts.probe.probe import SERVING, probe
from hosts.transport.factory import open_transport
from lab import tree
from lab.fleet import Fleet
from lab.processes import Process
from tests.support.story import Place, Story, told
from tests.verifying.test_plain_login import lives, roots_server, with_sudo

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(240),
    pytest.mark.skipif("tree.one_user_only()", reason="there is no second login where the lab has one user id only"),
]
AS_LOGIN = ["setpriv", f"--reuid={tree.LOGIN_ID}", f"--regid={tree.LOGIN_ID}", "--clear-groups"]


@pytest.fixture(params=[pytest.param("1", marks=pytest.mark.slow), "2"])
def desk(request: pytest.FixtureRequest, story: Story, fleet: Fleet) -> Iterator[Place]:
    """Reached as the plain login; its own /proc, not that of the machine that the tests run on, hides."""
    machine = fleet.host("desk")
    machine.allow_sudo()
    place = story.add_host(machine, user=tree.LOGIN)
    remount(machine, request.param)
    yield place
    remount(machine, "0")
    machine.allow_sudo()


def remount(machine: object, level: str) -> None:
    done = machine.exec(["mount", "-o", f"remount,hidepid={level}", "/proc"], timeout=20)  # type: ignore[attr-defined]
    assert done.returncode == 0, done


def stop_script(place: Place, server: Process, *, sudo: str) -> list[Said]:
    """The script itself, as the login."""
    word = f"{server.own_pid}:{server.started}"
    known = {"SIGNAL": "TERM", "TARGETS": word, "WATCHED": word, "THROUGH": "", "ANSWER": "", "SECONDS_MAX": 3}
    known |= {"PANEL": "ab", "DEPLOYMENT": "7", "FENCE": "1", "BOOT": "", "CARDS": "", "SUDO": sudo}
    script = build("signal", "stop", values={**known, "HOME": "/home/llm"})
    done = place.machine.exec([*AS_LOGIN, *script.argv], stdin=script.stdin, timeout=30)
    return list(script.reader().feed(done.stdout))


def test_a_server_that_only_root_can_see_is_stopped_by_sudo_and_its_end_is_seen(story: Story, desk: Place) -> None:
    desk.node.allow_sudo(tree.LOGIN)
    with_sudo(desk)
    deployment, server = roots_server(story, desk)
    job = story.run_job(deployment, JobKind.STOP)
    assert not lives(desk, server)
    sent = [effect.result["sent"] for effect in Effect.objects.filter(job=job, kind="signal TERM") if effect.result]
    assert sent == [[server.own_pid]], told(job)
    assert Check.objects.get(step__job=job, key="processes").value.startswith("0 of ")


def test_without_sudo_it_is_not_said_to_be_gone_and_gets_no_signal(story: Story, desk: Place) -> None:
    _, server = roots_server(story, desk)
    said = stop_script(desk, server, sudo="")
    assert [line.word for line in said] == ["hidden", "end"]
    assert said[0].rest == (str(server.own_pid),)
    said = stop_script(desk, server, sudo="1")
    assert [line.word for line in said] == ["hidden", "end"] and "password" in said[0].text
    assert lives(desk, server)


def test_who_holds_the_cards_is_not_known_there(story: Story, desk: Place, fleet: Fleet) -> None:
    fleet.faults.gpu_hold(desk.node, 0, 10)
    assert files_of(look(desk)).partial
    desk.node.allow_sudo(tree.LOGIN)
    files = files_of(look(desk, sudo=True))
    assert files.holders and not files.partial


def look(place: Place, *, sudo: bool = False) -> HostFacts:
    with closing(open_transport(place.host, timeout=20)) as transport:
        return probe(transport, sections=SERVING, timeout=30, sudo=sudo)


def files_of(facts: HostFacts) -> OpenFiles:
    assert isinstance(facts.files, OpenFiles)
    return facts.files
