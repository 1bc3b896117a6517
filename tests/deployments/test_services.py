"""What people may do with profiles, deployments and jobs; each deed with its audit entry, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied

from controlpanel.models import AuditEntry
from deployments import services
from deployments.lifecycle import JobState
from deployments.models import Deployment, Job, Profile, Revision
from deployments.profilefile import read_file
from deployments.services import Refused
from hosts.models import Host
from tests.factories import make_deployment, make_gpu, make_host, make_job, make_launch, make_profile, make_revision

Ask = Callable[..., Job]
pytestmark = pytest.mark.django_db

REVISION: dict[str, Any] = {
    "argv": ["python", "-m", "sglang.launch_server", "--port", "31000"], "env": {"A": "1"}, "workdir": "",
    "port": 31000,
    "ready_pattern": "", "notes": "first",
}  # fmt: skip


def actions() -> list[str]:
    return list(AuditEntry.objects.order_by("number").values_list("action", flat=True))


# --- Profiles and deployments


def test_a_profile_comes_with_its_first_revision(administrator: User) -> None:
    profile = services.create_profile(
        name="qwen", engine="sglang", description="", actor=administrator, address="", **REVISION
    )
    assert (profile.newest.number, profile.newest.argv) == (1, REVISION["argv"])
    second = services.add_revision(profile, actor=administrator, address="", **(REVISION | {"notes": "second"}))
    assert second.number == 2
    assert actions() == ["add profile", "add revision", "add revision"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"argv": []}, "empty"),
        ({"env": {"HF_TOKEN": "x"}}, "secret"),
        ({"port": 1}, "The command says port 31000, the profile says 1."),
        ({"argv": ["python", "--api-key", "x"]}, "secret"),
    ],
)
def test_a_revision_that_cannot_be_right(administrator: User, values: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        services.add_revision(make_profile(), actor=administrator, address="", **(REVISION | values))
    assert actions() == []


def test_a_custom_command_must_say_when_it_is_ready(administrator: User) -> None:
    profile = make_profile(engine="custom")
    with pytest.raises(Refused, match="ready"):
        services.add_revision(profile, actor=administrator, address="", **REVISION)
    services.add_revision(profile, actor=administrator, address="", **(REVISION | {"ready_pattern": "Listening"}))


def test_names_and_engines(administrator: User) -> None:
    make_profile(name="qwen")
    values = REVISION | {"description": "", "actor": administrator, "address": ""}
    with pytest.raises(Refused, match="already a profile"):
        services.create_profile(name="qwen", engine="sglang", **values)
    with pytest.raises(Refused, match="no engine named 'x'"):
        services.create_profile(name="new", engine="x", **values)
    with pytest.raises(Refused, match="empty"):
        services.create_profile(name="new", engine="sglang", **(values | {"argv": []}))
    assert not Profile.objects.filter(name="new").exists(), "no profile without a revision"


def test_a_revision_never_changes() -> None:
    revision = make_profile().newest
    revision.notes = "other"
    with pytest.raises(TypeError, match="immutable"):
        revision.save()


def new_deployment(revision: Revision, name: str = "chat") -> Deployment:
    return Deployment(name=name, revision=revision)


def test_a_deployment_takes_profile_and_port_from_its_revision(administrator: User) -> None:
    host, revision = make_host(), make_profile().newest
    gpu = make_gpu(host)
    made = services.create_deployment(
        new_deployment(revision), host=host, gpu_uuids=[gpu.uuid], actor=administrator, address=""
    )
    assert (made.profile, made.port, made.placement.gpus) == (revision.profile, 30000, [gpu])
    assert actions() == ["add deployment"]


def test_places_that_are_refused(administrator: User) -> None:
    revision = make_profile().newest
    for host, uuids, words in (
        (make_host(look_only=True), [], "look-only"),
        (make_host(), ["GPU-x"], "has no card GPU-x"),
        (make_host(), [make_gpu(make_host()).uuid], "has no card"),
    ):
        with pytest.raises(Refused, match=words):
            services.create_deployment(
                new_deployment(revision), host=host, gpu_uuids=uuids, actor=administrator, address=""
            )


def update(deployment: Deployment, actor: User, host: Host | None = None) -> Deployment:
    place = deployment.placement
    return services.update_deployment(
        deployment, host=host or place.host, gpu_uuids=place.gpu_uuids if host is None else [], actor=actor, address=""
    )


def test_changing_a_deployment(administrator: User) -> None:
    deployment = make_deployment()
    deployment.drain_seconds = 5
    update(deployment, administrator)
    deployment.refresh_from_db()
    assert deployment.drain_seconds == 5
    job = make_job(deployment, state=JobState.WAITING)
    with pytest.raises(Refused, match=rf"Job {job.pk} has waited for an approval"):
        update(deployment, administrator)
    Job.objects.filter(pk=job.pk).update(state=JobState.FAILED)
    make_launch(deployment)
    with pytest.raises(Refused, match="still runs"):
        update(deployment, administrator, make_host())
    deployment.revision = make_revision(deployment.profile, port=30001)
    with pytest.raises(Refused, match="still runs on port 30000"):
        update(deployment, administrator)
    assert actions() == ["change deployment"]


def test_marking_a_launch_as_proven(approver: User) -> None:
    launch = make_launch(make_deployment())
    services.mark_proven(launch, actor=approver, address="")
    launch.deployment.refresh_from_db()
    assert launch.deployment.proven_revision == launch.revision
    never = make_launch(make_deployment(), ready_at=None)
    with pytest.raises(Refused, match="has served"):
        services.mark_proven(never, actor=approver, address="")
    assert actions() == ["mark proven"]


# --- Who may


@pytest.mark.parametrize("name", ["viewer", "stranger"])
def test_who_only_looks_changes_nothing(request: pytest.FixtureRequest, ask: Ask, name: str) -> None:
    somebody: User = request.getfixturevalue(name)
    deployment = make_deployment()
    job, launch = make_job(make_deployment()), make_launch(deployment)
    who: dict[str, Any] = {"actor": somebody, "address": ""}
    for deed in (
        lambda: ask(deployment, actor=somebody),
        lambda: services.cancel_job(job, **who),
        lambda: services.mark_proven(launch, **who),
        lambda: services.add_revision(deployment.profile, **REVISION, **who),
        lambda: services.create_profile(name="x", engine="sglang", description="", **REVISION, **who),
        lambda: services.create_deployment(new_deployment(deployment.revision), host=make_host(), gpu_uuids=[], **who),
        lambda: update(deployment, somebody),
    ):
        with pytest.raises(PermissionDenied):
            deed()
    assert actions() == []


def test_an_approver_does_not_ask_and_an_operator_edits_nothing(ask: Ask, approver: User, operator: User) -> None:
    with pytest.raises(PermissionDenied):
        ask(make_deployment(), actor=approver)
    with pytest.raises(PermissionDenied):
        services.add_revision(make_profile(), actor=operator, address="", **REVISION)


DOCKER = {"tool": "docker", "image": "img:1", "options": ["-p", "8000:31000"]}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "leads to port 8000 of the host, the profile says 31000"),
        (
            {"port": 8000, "container": DOCKER | {"options": ["-e", "HF_TOKEN=x"]}},
            "-e HF_TOKEN=... would show the secret",
        ),
        ({"container": DOCKER | {"options": ["-e", "RELAUNCH_LAUNCH_ID=x"]}}, "the panel's own"),
        ({"port": 8000, "container": DOCKER | {"options": ["-d", "-p", "8000:31000"]}}, "does not read back"),
        ({"container": DOCKER | {"options": ["--gpus"]}}, "needs a value"),
        ({"container": DOCKER | {"options": ["x"]}}, "is not an option of docker run"),
        ({"container": DOCKER | {"options": [1]}}, "its options are words"),
        ({"container": DOCKER | {"image": " "}}, "name of an image"),
        ({"container": DOCKER | {"tool": "rkt"}}, "docker or podman"),
        ({"container": DOCKER, "argv": ["a\nb"]}, "line break"),
        ({"container": DOCKER, "argv": ["a", "--api-key", "x"]}, "would show the secret"),
    ],
)
def test_a_container_that_cannot_be_right(administrator: User, values: dict[str, Any], words: str) -> None:
    given = REVISION | {"container": DOCKER} | values
    with pytest.raises(Refused, match=words):
        services.add_revision(make_profile(), actor=administrator, address="", **given)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["nohup", "python"], "does not read back"),
        (["sudo", "python"], "another user"),
        (["docker", "run", "img"], "does not read back"),
        (["bash", "-c", "python x"], "hides the command"),
    ],
)
def test_what_would_be_something_else_when_it_is_pasted_again(administrator: User, argv: list[str], words: str) -> None:
    with pytest.raises(Refused, match=words):
        services.add_revision(make_profile(), actor=administrator, address="", **(REVISION | {"argv": argv}))


def test_a_file_of_another_engine_adds_nothing_to_a_profile(administrator: User) -> None:
    text = "relaunch: 1\nprofile: p\nengine: vllm\nrevisions:\n- command: vllm serve /m\n  port: 8000\n"
    profile = make_profile(name="p", engine="sglang")
    with pytest.raises(Refused, match=r"p is for SGLang, the file for vLLM\."):
        services.import_profile(read_file(text), name="p", into=profile, actor=administrator, address="")
    assert actions() == [] and profile.revisions.count() == 1


def test_a_container_is_kept_and_its_port_is_the_hosts(administrator: User) -> None:
    given = REVISION | {"container": DOCKER, "port": 8000}
    made = services.add_revision(make_profile(), actor=administrator, address="", **given)
    made.refresh_from_db()
    assert (made.container, made.port) == (DOCKER, 8000)
    assert made.command_line.startswith("A=1 docker run -p 8000:31000 img:1 python -m sglang.launch_server")
