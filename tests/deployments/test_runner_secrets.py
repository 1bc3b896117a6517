"""Whole jobs of a deployment with secrets: what is sent and asked, and that nothing that is kept holds a value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core import serializers
from django.db.models import Model

from controlpanel.sealing import key_path
from deployments import services
from deployments.joblog import CHUNK_BYTES
from deployments.lifecycle import JobKind, JobState
from deployments.models import Launch
from deployments.plan.passing import API_KEY
from deployments.steps import registry
from tests.deployments.support import COMPLETION, READY, Story, Tunnel
from tests.factories import make_launch, make_profile

pytestmark = [pytest.mark.django_db, pytest.mark.jobs]
KEY, TOKEN, NEW_KEY = "plain-horse-battery-key", "plain-horse-battery-token", "plain-horse-battery-new"


@dataclass
class Locked(Tunnel):
    """The server's port: answers only who has the key, but for the pages that are open."""

    key: str = KEY
    open: tuple[str, ...] = ()

    def sendall(self, data: bytes) -> None:
        super().sendall(data)
        path = data.split()[1].decode()
        if f"Authorization: Bearer {self.key}\r\n".encode() not in data and path not in self.open:
            self._answer = b"HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture
def put(administrator: User) -> Callable[..., None]:
    def put(story: Story, *, name: str = API_KEY, value: str = KEY) -> None:
        services.set_secret(story.deployment, name=name, value=value, actor=administrator, address="")

    return put


Put = Callable[..., None]


@pytest.fixture
def locked(idle: Story, put: Put) -> Story:
    """An SGLang that wants its key, and a token for its model."""
    put(idle)
    put(idle, name="HF_TOKEN", value=TOKEN)
    idle.host.transport.ports[30000] = lambda _host, _port: Locked(idle.host.pages)
    return idle


def everything() -> str:
    """The database as text."""
    models: Iterator[type[Model]] = apps.get_models()
    return "".join(serializers.serialize("json", model._default_manager.all()) for model in models)


def launched(story: Story) -> str:
    """The script of the launch that was sent."""
    sent = [call.stdin.decode() for call in story.host.transport.calls if b"MODE_LAUNCH=start" in call.stdin]
    assert len(sent) == 1
    return sent[0]


def test_they_go_by_stdin_and_the_server_answers_with_its_key(locked: Story) -> None:
    locked.request(JobKind.START)
    assert locked.work().state == JobState.WAITING
    assert locked.job.plan is not None and locked.job.plan["launch"]["given"] == [API_KEY, "HF_TOKEN"]
    locked.answer("approve")
    assert locked.work().state == JobState.SUCCEEDED, locked.job.summary
    script = launched(locked)
    assert f"export HF_TOKEN={TOKEN}" in script and f'api-key: "{KEY}"' in script
    wrapper = script.partition("RUN=")[2].partition("\nTOKEN=")[0]
    assert TOKEN not in wrapper and KEY not in wrapper and '--config "$DIR/settings.yaml"' in wrapper
    assert not any(KEY in word or TOKEN in word for call in locked.host.transport.calls for word in call.argv)
    checks = locked.job.steps.get(name="check").checks
    assert (checks.get(key="api key").status, checks.get(key="api key").value) == ("ok", "status 401")
    assert KEY not in everything() and TOKEN not in everything()
    assert set(Launch.objects.get().requested["secrets"]) == {API_KEY, "HF_TOKEN"}


@pytest.mark.parametrize(("engine", "variable"), [("vllm", "VLLM_API_KEY"), ("llama_server", "LLAMA_API_KEY")])
def test_an_engine_with_a_variable_gets_the_key_by_it(locked: Story, engine: str, variable: str) -> None:
    profile = make_profile(engine=engine)
    locked.deployment.profile, locked.deployment.revision = profile, profile.newest
    locked.deployment.save()
    locked.host.log = "server is listening on x\nApplication startup complete.\n"
    locked.request(JobKind.START)
    locked.approve()
    assert locked.work().state == JobState.SUCCEEDED, locked.job.summary
    assert f"export {variable}={KEY}" in launched(locked) and "SETTINGS=''" in launched(locked)


def test_without_secrets_nothing_of_it_is_sent_or_asked(idle: Story) -> None:
    idle.request(JobKind.START)
    idle.approve()
    assert idle.work().state == JobState.SUCCEEDED
    script = launched(idle)
    assert "SECRETS=''\nSETTINGS=''" in script
    assert "--config" not in script and '. "$DIR/secrets"' not in script
    assert not idle.job.steps.get(name="check").checks.filter(key="api key").exists()


def test_a_server_that_has_not_taken_its_key_fails_its_check(locked: Story) -> None:
    locked.host.transport.ports[30000] = lambda _host, _port: Tunnel(locked.host.pages)
    locked.request(JobKind.START, way_back=False)
    locked.approve()
    assert locked.work().state == JobState.FAILED
    assert "answers without its API key" in locked.job.summary


def test_a_server_that_wants_a_key_we_do_not_have_says_so(idle: Story) -> None:
    idle.host.transport.ports[30000] = lambda _host, _port: Locked(idle.host.pages)
    idle.request(JobKind.START)
    idle.approve()
    assert idle.work().state == JobState.SUCCEEDED, idle.job.summary
    step = idle.job.steps.get(name="check")
    assert "Whether it answers is not known: it wants a key" in step.summary
    shown = step.checks.get(key="completion")
    assert shown.status == "unknown" and "status 401" in shown.detail and "deployment's page" in shown.detail


def test_a_server_that_refuses_its_own_key_does_not_answer_as_it_should(locked: Story) -> None:
    locked.host.pages["/v1/completions"] = (401, b'{"error": "Unauthorized"}')
    locked.request(JobKind.START, way_back=False)
    locked.approve()
    assert locked.work().state == JobState.FAILED
    assert "does not take the API key that it was given" in locked.job.summary


def test_what_serves_is_asked_with_the_key_it_was_started_with(serving: Story, put: Put) -> None:
    put(serving)
    launch = Launch.objects.get()
    launch.requested["secrets"] = {API_KEY: serving.deployment.secrets.get().pk}
    launch.save()
    put(serving, value=NEW_KEY)
    serving.host.transport.ports[30000] = lambda _host, _port: Locked(serving.host.pages)
    serving.host.pages["/metrics"] = (200, b"sglang:num_running_reqs 3.0\n")
    serving.request(JobKind.STOP)
    assert serving.work().state == JobState.WAITING
    assert serving.job.plan is not None and serving.job.plan["requests"] == 3
    launch.delete()
    serving.answer("discard")
    make_launch(serving.deployment, pid=100, start_time=1000, boot_id=serving.host.machine.boot)
    serving.request(JobKind.STOP)
    serving.work()
    assert "wants another API key" in serving.job.plan["requests_unknown"]  # type: ignore[index]


def test_values_are_hidden_wherever_the_server_writes_them(locked: Story) -> None:
    """Under no name and of no shape by which anybody could know them for secrets."""
    said = f"loading with {KEY}\nand {json.dumps(TOKEN)}\n"
    long_line = "x " * (CHUNK_BYTES // 2 - len(said)) + "x" * (len(said) - 7) + TOKEN + " y" * 100
    assert len(said + long_line.partition(TOKEN)[0]) < CHUNK_BYTES < len(said + long_line.partition(" y")[0])
    locked.host.log = said + long_line + f"\nsame: {KEY}\r" + READY
    locked.host.pages["/v1/completions"] = (200, COMPLETION.replace(b" Paris", f" {TOKEN}".encode()))
    locked.host.pages["/server_info"] = (200, json.dumps({"note": KEY, "tp": 2}).encode())
    locked.request(JobKind.START)
    locked.approve()
    assert locked.work().state == JobState.SUCCEEDED, locked.job.summary
    assert "loading with ********" in locked.log()
    assert "********, and" in Launch.objects.get().completion
    assert Launch.objects.get().effective["told"]["note"] == "********"
    assert KEY not in everything() and TOKEN not in everything()


def test_a_fault_of_ours_tells_none(
    locked: Story, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(ctx: object) -> None:
        secret = KEY
        raise RuntimeError(f"it broke at {secret!r}")

    monkeypatch.setitem(registry.STEPS, "launch", broken)
    locked.request(JobKind.START)
    locked.approve()
    assert locked.work().state == JobState.ERRORED
    assert "RuntimeError: it broke at '********'" in locked.job.traceback
    assert "it broke at '********'" in caplog.text and KEY not in caplog.text
    assert KEY not in everything()


def test_a_lost_key_is_said_before_anything_is_stopped(serving: Story, put: Put) -> None:
    put(serving)
    kept = key_path().rename(key_path().with_name("away"))
    try:
        serving.request()
        assert serving.work().state == JobState.FAILED
        assert "is missing" in serving.job.summary and "Nothing was touched" in serving.job.summary
        assert "backup" in serving.job.hint
        serving.request(JobKind.STOP)
        serving.approve()
        assert serving.work().state == JobState.SUCCEEDED, "what runs can be stopped all the same"
    finally:
        kept.rename(key_path())


def test_a_key_that_is_lost_after_the_plan_launches_nothing(locked: Story) -> None:
    locked.request(JobKind.START)
    locked.approve()
    away = key_path().with_name("away")
    locked.host.before["watch"] = lambda: key_path().rename(away) and None
    try:
        assert locked.work().state == JobState.FAILED
        assert "is missing" in locked.job.summary and "launch start" not in locked.host.sent
    finally:
        away.rename(key_path())


def test_a_command_that_would_lose_them_is_refused_before_anything_is_stopped(serving: Story, put: Put) -> None:
    put(serving)
    revision = serving.deployment.profile.revisions.create(
        number=9, argv=["bash", "-c", "python -m sglang.launch_server"], port=30000
    )
    serving.deployment.revision = revision
    serving.deployment.save()
    serving.request()
    assert serving.work().state == JobState.FAILED
    assert "cannot be passed on" in serving.job.summary and "Nothing was touched" in serving.job.summary
