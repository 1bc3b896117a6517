"""Promise 9 on real machines: a secret is planted, a server is started and restarted with it, and everything that is
written, shown, sent or listed anywhere is searched for it.

The values look like nothing, so that only who knows them can hide them. The server itself writes them into its log.
"""

import io
import json
import os
import re
import stat
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.test import Client

from controlpanel.live.protocol import encode
from controlpanel.live.streams import find
from deployments.models import Check, Deployment, Job
from deployments.plan.passing import API_KEY
from lab.fleet import Container
from lab.processes import Process
from lab.tree import LOGIN_ID, one_user_only
from tests.support.panel import REPOSITORY, Panel
from tests.support.story import HASTE, Place, Story, launch_of, log_of, one_server, sglang, told

pytestmark = [pytest.mark.lab, pytest.mark.timeout(400)]

KEY, TOKEN, NEW_TOKEN = "plain-horse-battery-1", "plain-horse-battery-2", "plain-horse-battery-3"
VALUES = tuple(value.encode() for value in (KEY, TOKEN, NEW_TOKEN))
ROLES = ("viewer", "operator", "approver", "administrator")
TALK = '#!/bin/sh\necho "talks of $HF_TOKEN"\nprintf \'{"again": "%s"}\\r\' "$HF_TOKEN"\nexec "$@"\n'
STOP = "/dev/shm/enough"
WATCHER = f"""
import glob, json, os, sys, time
values = [value.encode() for value in json.load(sys.stdin)]
rounds, read, found = 0, 0, set()
while not os.path.exists({STOP!r}):
    for path in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ"):
        try:
            data = open(path, "rb").read()
        except OSError:
            continue
        read += 1
        found |= {{path for value in values if value in data}}
    for top in ("/root/.relaunch", "/tmp", "/run", "/dev/shm") if rounds % 8 == 0 else ():
        for folder, below, names in os.walk(top):
            below[:] = [name for name in below if os.path.join(folder, name) != {str(REPOSITORY)!r}]
            for name in names:
                try:
                    if any(value in open(os.path.join(folder, name), "rb").read(1 << 20) for value in values):
                        found.add(os.path.join(folder, name))
                except OSError:
                    pass
    rounds += 1
    time.sleep(0.05)
print(json.dumps([rounds, read, sorted(found)]))
"""
"""Another user of the host: reads whatever command line, environment or file it may, until it is told to stop."""


@contextmanager
def another_user_looks(place: Place) -> Iterator[None]:
    """On the host, and on the node of a container too."""
    machines = [place.machine, *([place.node] if isinstance(place.machine, Container) else [])]
    said: list[Any] = []
    command = ["setpriv", f"--reuid={LOGIN_ID}", f"--regid={LOGIN_ID}", "--clear-groups", "/lab/bin/python", "-c"]
    if one_user_only():
        command = ["/lab/bin/python", "-c"]
    values = json.dumps([value.decode() for value in VALUES]).encode()

    def look(machine: Any) -> None:
        done = machine.exec([*command, WATCHER], timeout=300, stdin=values)
        said.append(json.loads(done.stdout) if not done.returncode else done.stderr.decode())

    threads = [threading.Thread(target=look, args=(machine,)) for machine in machines]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for machine in machines:
            machine.seen(STOP).touch()
        for thread in threads:
            thread.join()
        for machine in machines:
            machine.seen(STOP).unlink()
    for rounds, read, found in said:
        assert rounds > 5 and read > 50, said
        assert not found or one_user_only(), said


@contextmanager
def root_looks_at_command_lines() -> Iterator[None]:
    """At those of the whole lab: of the hosts, of the panel, and of whatever either of them starts for an instant."""
    enough, found, rounds = threading.Event(), set[str](), [0]

    def look() -> None:
        while not enough.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    data = path.read_bytes()
                except OSError:
                    continue
                if any(value in data for value in VALUES):
                    found.add(data.decode(errors="replace"))
            rounds[0] += 1

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        enough.set()
        thread.join()
    assert rounds[0] > 5 and not found, found


@contextmanager
def broker_is_listened_to(panel: Panel) -> Iterator[None]:
    """Every command that anybody sends to it: doorbells, and the hints of the channel layer."""
    heard: list[str] = []
    with redis.Redis(unix_socket_path=str(panel.broker_socket)) as client, client.monitor() as monitor:

        def listen() -> None:
            for command in monitor.listen():
                heard.append(str(command["command"]))
                if "ENOUGH" in heard[-1]:
                    return

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield
        finally:
            client.echo("ENOUGH")
            thread.join(30)
    assert any("jobs" in command for command in heard), "the doorbell was heard"
    assert not any(value.decode() in command for command in heard for value in VALUES)


def written_in(path: Path) -> bytes:
    """What the file holds, without its holes: the lab's weights are a hundred GB of them on a container's root."""
    parts, at = [], 0
    with path.open("rb", buffering=0) as file:
        while (size := os.fstat(file.fileno()).st_size) > at:
            try:
                begins = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break  # only a hole is left
            at = min(os.lseek(file.fileno(), begins, os.SEEK_HOLE), size)
            parts.append(os.pread(file.fileno(), at - begins, begins))
    return b"".join(parts)


def files_with_a_value(*tops: Path) -> list[Path]:
    """Every file below that holds one, the database and its journals included."""
    found = []
    for path in (path for top in tops for path in top.rglob("*")):
        try:
            data = written_in(path) if path.is_file() and not path.is_symlink() else b""
        except OSError:
            continue  # gone meanwhile
        if any(value in data for value in VALUES):
            found.append(path)
    return found


def pages_of(user: User, *, first: Iterable[str]) -> dict[str, str]:
    """The pages at ``first``, the overview, and what links lead to from there, the near ones before the far ones."""
    client, pages, todo = Client(), dict[str, str](), deque([*first, "/"])
    client.force_login(user)
    while todo:
        address = todo.popleft()
        if address in pages or len(pages) > 50:
            continue
        answer = client.get(address)
        body = b"".join(answer) if answer.streaming else answer.content  # type: ignore[attr-defined]
        pages[address] = f"{answer.status_code} {answer.headers} {body.decode(errors='replace')}"
        links = re.findall(r'(?:href|hx-get|src)="(/[^"#]*)"', pages[address])
        todo += [link.replace("&amp;", "&") for link in links if not link.startswith(("/static/", "/sign-out"))]
    return pages


def frames(user: User, job: Job) -> str:
    """All that a page of the job would be sent."""
    text = ""
    for name in (f"job:{job.pk}", f"joblog:{job.pk}", f"readings:{job.pk}", "gpus", "overview"):
        reader, key = find(name)
        assert reader is not None
        cursor, more = None, True
        while more:
            batch = reader.read(key, cursor, user)
            text += encode({"s": name, "items": batch.items, "cursor": batch.cursor})
            cursor, more = batch.cursor, batch.more
    return text


def set_by_form(story: Story, deployment: Deployment, *, what: str, value: str) -> None:
    """As an administrator does it, in the browser."""
    client = Client()
    client.force_login(story.actor)
    form = {"what": what, "name": "", "value": value}
    answer = client.post(f"/deployments/{deployment.pk}/secrets/", form)
    assert answer.status_code == 302, answer.content.decode()
    after = client.get(answer["Location"]).content.decode()
    assert f"{what} is " in after and value not in f"{answer.headers} {answer.cookies} {after}"


def environment_of(process: Process) -> bytes:
    return Path(f"/proc/{process.lab_pid}/environ").read_bytes()


def test_a_secret_is_seen_by_nobody_but_the_server(story: Story, place: Place, panel: Panel) -> None:
    talk = place.machine.seen("/root/talk.sh")
    talk.write_text(TALK)
    talk.chmod(0o755)
    argv = ["/root/talk.sh", *sglang("--enable-metrics", cards=2)]
    deployment = story.deploy(place, argv, engine="sglang", env=HASTE)
    with ExitStack() as watching:
        watching.enter_context(another_user_looks(place))
        watching.enter_context(root_looks_at_command_lines())
        watching.enter_context(broker_is_listened_to(panel))
        set_by_form(story, deployment, what=API_KEY, value=KEY)
        set_by_form(story, deployment, what="HF_TOKEN", value=TOKEN)
        job = story.start(deployment)
        the_server_has_them(place, deployment, job, token=TOKEN)
        set_by_form(story, deployment, what="HF_TOKEN", value=NEW_TOKEN)
        job = story.run_job(deployment)
        the_server_has_them(place, deployment, job, token=NEW_TOKEN)
    nothing_is_left_on_the_host(place, job)
    nothing_is_kept_or_shown(story, panel, deployment)


def the_server_has_them(place: Place, deployment: Deployment, job: Job, *, token: str) -> None:
    """Or all that follows would prove nothing."""
    server = one_server(place, deployment.port).process
    assert f"HF_TOKEN={token}\0".encode() in environment_of(server)
    assert Check.objects.get(step__job=job, key="api key").value == "status 401", told(job)
    log = place.machine.seen(launch_of(job).log_path).read_text()
    assert f"talks of {token}" in log and f"api_key='{KEY}'" in log, "the engine itself writes them"
    said = log_of(job, source="server")
    assert "talks of ********" in said and '{"again": "********"}' in said and "api_key='********'" in said


def nothing_is_left_on_the_host(place: Place, job: Job) -> None:
    directory = place.machine.seen(launch_of(job).directory)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {path.name for path in directory.iterdir()} == {"begun", "log", "record", "run"}
    tops = ("/root", "/home", "/tmp", "/run", "/var", "/etc", "/dev/shm")
    machines = [place.machine, *([place.node] if isinstance(place.machine, Container) else [])]
    left = files_with_a_value(*(machine.seen(top) for machine in machines for top in tops))
    assert left and {path.name for path in left} == {"log"}, left
    assert {stat.S_IMODE(path.stat().st_mode) for path in left} == {0o600}


def nothing_is_kept_or_shown(story: Story, panel: Panel, deployment: Deployment) -> None:
    dump = io.StringIO()
    call_command("dumpdata", stdout=dump)
    assert "set secret" in dump.getvalue() and "sealed" in dump.getvalue()
    texts = {"dump": dump.getvalue()}
    jobs = list(Job.objects.filter(deployment=deployment))
    ours = [f"/deployments/{deployment.pk}/", *(f"/jobs/{job.pk}/" for job in jobs)]
    people = [story.actor]
    for role in ROLES:
        user, _ = User.objects.get_or_create(username=f"only-{role}")
        user.groups.set([Group.objects.get(name=role)])
        people.append(user)
    for person in people:
        pages = pages_of(person, first=ours)
        assert {*ours} <= pages.keys()
        texts |= {f"{person} {address}": text for address, text in pages.items()}
        texts |= {f"{person} frames of {job}": frames(person, job) for job in jobs}
    assert any("talks of ********" in text for name, text in texts.items() if "frames" in name)
    assert [name for name, text in texts.items() if any(value.decode() in text for value in VALUES)] == []
    assert files_with_a_value(panel.directory) == [], "database, journals, keys, the logs of worker and monitor"


def test_llama_server_takes_its_key_from_its_environment(story: Story, gpu1: Place) -> None:
    """The real llama.cpp."""
    argv = ["/lab/bin/llama-server", "-m", "/models/tiny.gguf", "--host", "0.0.0.0", "--port", "{port}", "--metrics"]
    deployment = story.deploy(gpu1, argv, engine="llama_server", cards=(0,))
    set_by_form(story, deployment, what=API_KEY, value=KEY)
    job = story.start(deployment)
    assert Check.objects.get(step__job=job, key="api key").status == "ok"
    requests = restart_plan(story, deployment)
    assert requests == 0, "its metrics want the key too"


def restart_plan(story: Story, deployment: Deployment) -> int | None:
    """How many requests the plan of a restart says to run."""
    job = story.ask(deployment)
    gate = story.gate(job, "plan")
    story.answer(gate, "discard")
    story.wait_for_end(job)
    plan = job.plan or {}
    assert plan["requests"] is not None, plan["requests_unknown"]
    count: int = plan["requests"]
    return count
