"""Secrets of a deployment: who sets them, what of them is seen, and until when they are kept."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.core import serializers
from django.core.exceptions import PermissionDenied
from django.test import Client

from controlpanel.models import AuditEntry
from controlpanel.sealing import CannotUnseal, key_path
from deployments import secrets, services
from deployments.lifecycle import JobState, LaunchState
from deployments.models import Deployment, Secret
from deployments.plan.passing import API_KEY
from deployments.services import Refused
from tests.factories import make_deployment, make_job, make_launch, make_profile

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]
VALUE, OTHER_VALUE = "plain-horse-battery-1", "plain-horse-battery-2"


@pytest.fixture
def deployment() -> Deployment:
    return make_deployment()


def put(deployment: Deployment, actor: User, *, name: str = "HF_TOKEN", value: str = VALUE) -> bool:
    return services.set_secret(deployment, name=name, value=value, actor=actor, address="10.1.2.3")


def of_engine(engine: str) -> Deployment:
    return make_deployment(revision=make_profile(engine=engine).newest)


# --- Setting


def test_a_secret_is_kept_sealed_and_its_audit_entry_does_not_tell_it(
    deployment: Deployment, administrator: User
) -> None:
    assert put(deployment, administrator) is False
    row = deployment.secrets.get()
    assert (row.name, row.set_by_name, row.open()) == ("HF_TOKEN", "administrator", VALUE)
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target_name, entry.address) == ("set secret", deployment.name, "10.1.2.3")
    assert entry.detail_json == '{"variable":"HF_TOKEN"}'
    assert VALUE not in serializers.serialize("json", [*Secret.objects.all(), *AuditEntry.objects.all()])


def test_a_new_value_replaces_the_one_in_use(deployment: Deployment, administrator: User) -> None:
    put(deployment, administrator)
    assert put(deployment, administrator, value=OTHER_VALUE) is True
    assert deployment.secrets.get(retired_at=None).open() == OTHER_VALUE
    assert AuditEntry.objects.order_by("-number")[0].action == "replace secret"


def test_it_is_removed_with_an_entry(deployment: Deployment, administrator: User) -> None:
    put(deployment, administrator)
    services.remove_secret(deployment, name="HF_TOKEN", actor=administrator, address="")
    assert secrets.versions(deployment) == {}
    assert AuditEntry.objects.order_by("-number")[0].action == "remove secret"
    with pytest.raises(Refused, match="no secret of that name"):
        services.remove_secret(deployment, name="HF_TOKEN", actor=administrator, address="")


def test_only_administrators_set_and_remove(
    deployment: Deployment, administrator: User, person: Callable[..., User]
) -> None:
    put(deployment, administrator)
    ana = person("ana", "viewer", "operator", "approver")
    with pytest.raises(PermissionDenied):
        put(deployment, ana)
    with pytest.raises(PermissionDenied):
        services.remove_secret(deployment, name="HF_TOKEN", actor=ana, address="")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("hf token", "not a name"),
        ("LD_PRELOAD", "how every program is loaded"),
        ("RELAUNCH_LAUNCH_ID", "the panel's own"),
        ("CUDA_VISIBLE_DEVICES", "sets it to the deployment's cards"),
        ("X" * 65, "too long"),
    ],
)
def test_names_under_which_nothing_is_passed(deployment: Deployment, administrator: User, name: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        put(deployment, administrator, name=name)


@pytest.mark.parametrize("value", ["", "short12", "with a space in it", "line\nbreak-line", "größe-größe", "x" * 4097])
def test_values_that_could_not_be_hidden_are_refused_without_being_repeated(
    deployment: Deployment, administrator: User, value: str
) -> None:
    with pytest.raises(Refused, match="cannot be the value of HF_TOKEN") as raised:
        put(deployment, administrator, value=value)
    assert not value or value not in f"{raised.value.message} {raised.value.hint}"
    assert not Secret.objects.exists()


def test_each_engine_takes_its_key_in_its_own_way(administrator: User) -> None:
    for engine, variable in (("vllm", "VLLM_API_KEY"), ("llama_server", "LLAMA_API_KEY")):
        made = of_engine(engine)
        with pytest.raises(Refused, match="the key of the server's API"):
            put(made, administrator, name=variable)
        put(made, administrator, name=API_KEY)
    put(of_engine("sglang"), administrator, name=API_KEY)
    with pytest.raises(Refused, match="does not know how"):
        put(of_engine("custom"), administrator, name=API_KEY)
    with pytest.raises(Refused, match="taken for a flag"):
        put(of_engine("sglang"), administrator, name=API_KEY, value="-looks-like-a-flag")


def test_those_of_a_server_that_is_replaced_are_hidden_too(deployment: Deployment, administrator: User) -> None:
    put(deployment, administrator)
    job = make_job(make_deployment(), state=JobState.RUNNING, replaces=deployment)
    assert VALUE in secrets.values_to_hide(job.pk)
    with pytest.raises(Refused, match="not changed while a job"):
        put(deployment, administrator, value=OTHER_VALUE)


def test_they_stay_while_a_job_goes_on(deployment: Deployment, administrator: User) -> None:
    put(deployment, administrator)
    make_job(deployment, state=JobState.UNKNOWN)
    with pytest.raises(Refused, match="not changed while a job"):
        put(deployment, administrator, value=OTHER_VALUE)
    with pytest.raises(Refused, match="not changed while a job"):
        services.remove_secret(deployment, name="HF_TOKEN", actor=administrator, address="")


def test_a_key_file_that_cannot_be_used_is_said(deployment: Deployment, administrator: User) -> None:
    put(deployment, administrator)
    kept = key_path().read_bytes()
    try:
        key_path().write_bytes(b"damaged")
        with pytest.raises(Refused, match="damaged"):
            put(deployment, administrator)
    finally:
        key_path().write_bytes(kept)


# --- Which version a server has


def test_a_launch_keeps_the_versions_it_was_intended_with(deployment: Deployment, administrator: User) -> None:
    put(deployment, administrator, name=API_KEY)
    launch = make_launch(deployment, requested={"secrets": secrets.versions(deployment)})
    put(deployment, administrator, name=API_KEY, value=OTHER_VALUE)
    assert [(secret.name, secret.value) for secret in secrets.passed_to(launch)] == [(API_KEY, VALUE)]
    assert secrets.api_key(deployment, launch) == VALUE, "the server that runs knows no other"
    assert secrets.api_key(deployment, None) == OTHER_VALUE
    assert VALUE not in repr(secrets.passed_to(launch))


def test_what_a_live_server_has_is_hidden_after_it_was_replaced(deployment: Deployment, administrator: User) -> None:
    put(deployment, administrator)
    launch = make_launch(deployment, requested={"secrets": secrets.versions(deployment)})
    put(deployment, administrator, value=OTHER_VALUE)
    secrets.forget_retired()
    job = make_job(deployment, state=JobState.QUEUED)
    assert {VALUE, OTHER_VALUE} <= set(secrets.values_to_hide(job.pk))
    job.state, launch.state = JobState.SUCCEEDED, LaunchState.ENDED
    launch.save()
    secrets.forget_retired()
    assert VALUE in secrets.values_to_hide(job.pk), "a job goes on"
    job.save()
    secrets.forget_retired()
    assert VALUE not in secrets.values_to_hide(job.pk) and Secret.objects.count() == 1


def test_a_version_that_is_gone_is_never_replaced_by_nothing(deployment: Deployment, administrator: User) -> None:
    put(deployment, administrator)
    launch = make_launch(deployment, requested={"secrets": {"HF_TOKEN": 999_999}})
    with pytest.raises(CannotUnseal, match="removed meanwhile"):
        secrets.passed_to(launch)


def test_a_lost_key_hides_and_asks_for_nothing_but_says_so(deployment: Deployment, administrator: User) -> None:
    put(deployment, administrator, name=API_KEY)
    launch = make_launch(deployment, requested={"secrets": secrets.versions(deployment)})
    kept = key_path().rename(key_path().with_name("away"))
    try:
        assert secrets.api_key(deployment, launch) == ""
        assert secrets.values_to_hide(make_job(deployment).pk) == ()
        assert "is missing" in str(secrets.why_not_opened(deployment))
        with pytest.raises(CannotUnseal):
            secrets.passed_to(launch)
    finally:
        kept.rename(key_path())
    assert secrets.why_not_opened(deployment) is None


# --- Pages


def test_the_form_sets_one_and_no_page_shows_it(
    deployment: Deployment, administrator: User, viewer: User, client_of: ClientOf
) -> None:
    client = client_of(administrator)
    address = f"/deployments/{deployment.pk}/secrets/"
    answer = client.post(address, {"what": "HF_TOKEN", "name": "", "value": f" {VALUE}\n"}, follow=True)
    assert "HF_TOKEN is set." in answer.content.decode()
    assert deployment.secrets.get().open() == VALUE, "what is pasted with a line end is meant without it"
    for person in (administrator, viewer):
        page = client_of(person).get(f"/deployments/{deployment.pk}/").content.decode()
        assert "HF_TOKEN" in page and "by administrator" in page and VALUE not in page
        assert ("Set, replace or remove" in page) == (person == administrator)
    assert VALUE not in client.get(address).content.decode()


def test_a_refused_form_keeps_all_but_the_value(
    deployment: Deployment, administrator: User, client_of: ClientOf
) -> None:
    client = client_of(administrator)
    address = f"/deployments/{deployment.pk}/secrets/"
    for sent, why, status in (
        ({"what": "other", "name": "wandb key", "value": VALUE}, "not a name for an environment variable", 422),
        ({"what": "other", "name": "", "value": VALUE}, "Write the name of the variable", 422),
        ({"what": "other", "name": "WANDB_API_KEY", "value": ""}, "Paste the value", 422),
        ({"what": "other", "name": "WANDB_API_KEY", "value": "too short"}, "cannot be the value", 409),
    ):
        answer = client.post(address, sent)
        page = answer.content.decode()
        assert answer.status_code == status and why in page
        assert f'value="{sent["name"]}"' in page or not sent["name"]
        assert VALUE not in page and "too short" not in page
    assert not Secret.objects.exists()


def test_replace_opens_the_form_for_that_one(deployment: Deployment, administrator: User, client_of: ClientOf) -> None:
    client = client_of(administrator)
    address = f"/deployments/{deployment.pk}/secrets/"
    assert '<option value="HF_TOKEN" selected>' in client.get(address, {"name": "HF_TOKEN"}).content.decode()
    page = client.get(address, {"name": "WANDB_API_KEY"}).content.decode()
    assert '<option value="other" selected>' in page and 'value="WANDB_API_KEY"' in page


def test_without_its_key_a_server_is_open_which_is_said(
    deployment: Deployment, administrator: User, client_of: ClientOf
) -> None:
    put(deployment, administrator, name=API_KEY)
    address = f"/deployments/{deployment.pk}/secrets/remove/"
    answer = client_of(administrator).post(address, {"name": API_KEY}, follow=True)
    assert "it answers whoever reaches its port" in answer.content.decode()


def test_remove_is_a_post(deployment: Deployment, administrator: User, client_of: ClientOf) -> None:
    put(deployment, administrator)
    client = client_of(administrator)
    address = f"/deployments/{deployment.pk}/secrets/remove/"
    assert client.get(address).status_code == 405 and deployment.secrets.filter(retired_at=None).exists()
    assert "HF_TOKEN is removed" in client.post(address, {"name": "HF_TOKEN"}, follow=True).content.decode()
    assert client.post(address, {"name": "HF_TOKEN"}).status_code == 409
    assert not deployment.secrets.filter(retired_at=None).exists()


@pytest.mark.parametrize("path", ["", "remove/"])
def test_others_get_no_form(
    deployment: Deployment, person: Callable[..., User], client_of: ClientOf, path: str
) -> None:
    client = client_of(person("ana", "viewer", "operator", "approver"))
    address = f"/deployments/{deployment.pk}/secrets/{path}"
    assert client.post(address, {"what": "HF_TOKEN", "name": "HF_TOKEN", "value": VALUE}).status_code == 403
    assert not Secret.objects.exists()


def test_the_page_says_what_the_engine_itself_shows(administrator: User, client_of: ClientOf) -> None:
    client = client_of(administrator)
    for engine, said in (("sglang", True), ("vllm", False)):
        page = client.get(f"/deployments/{of_engine(engine).pk}/secrets/").content.decode()
        assert ("/server_info" in page) == said
        assert '<option value="API key">' in page
