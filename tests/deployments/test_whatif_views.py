"""What if: the panel of a profile's page. It works from what was read last, asks no host and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from controlpanel.models import AuditEntry
from deployments import services, tasks
from deployments.fit import store
from deployments.fit.files import ModelFiles
from deployments.models import Deployment, FlagCatalogue, ModelOnHost
from deployments.streams import ModelStream
from hosts import links
from hosts.models import Host
from hosts.probe.frames import Unknown
from tests.deployments.fit import models
from tests.deployments.fit.models import files
from tests.deployments.machine import idle_machine
from tests.deployments.support import FakeHost
from tests.factories import ARGV, make_deployment, make_gpu, make_launch, make_profile, make_revision

pytestmark = pytest.mark.django_db
ClientOf = Callable[[User], Client]
more = pytest.mark.jobs
"""Left to the ring that walks whole jobs: pages that are drawn several times."""
PATH = "/models/qwen-27b"


@pytest.fixture(autouse=True)
def rung_models(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The readings that were rung for."""
    bells: list[int] = []
    monkeypatch.setattr(tasks, "ring_model", bells.append)
    return bells


@pytest.fixture
def chat() -> Deployment:
    """A deployment on both cards of a host, of a command with 0.88 of the memory and a context of 128K."""
    return make_deployment(name="chat")


def know(host: Host, found: ModelFiles | Unknown | None = None) -> ModelOnHost:
    return store.keep(host, PATH, "", files(models.QWEN35_27B, 28e9) if found is None else found)


def page(client: Client, chat: Deployment, **settings: str) -> str:
    answer = client.get(f"/profiles/{chat.profile_id}/", settings)
    assert answer.status_code == 200
    return str(answer.content.decode())


def part(client: Client, chat: Deployment, **settings: str) -> str:
    answer = client.get(f"/profiles/{chat.profile_id}/whatif/", settings)
    assert answer.status_code == 200
    return str(answer.content.decode())


def requests_of(text: str, precision: str) -> float:
    """Requests of the longest kind, from the arithmetic; the table has the whole ones."""
    exact = re.search(rf"Requests of \S+ in {precision}</dt><dd>([\d.,]+)", text)
    row = re.search(rf'<th scope="row">{precision}\b.*?</tr>', text)
    assert exact is not None and row is not None, text
    found = float(exact[1].replace(",", ""))
    assert f'<td class="num">{int(found)}</td>' in row[0]
    return found


def test_nothing_is_known_yet_and_a_button_reads_it(client_of: ClientOf, operator: User, chat: Deployment) -> None:
    text = page(client_of(operator), chat)
    assert f"Nothing is known yet of the model {PATH} on {chat.placement.host}" in text
    assert "Read the model&#x27;s files" in text or "Read the model's files" in text


def test_who_may_only_look_sees_no_button(client_of: ClientOf, viewer: User, chat: Deployment) -> None:
    assert "Nothing is known yet" in page(client_of(viewer), chat)
    assert "whatif/read" not in page(client_of(viewer), chat)
    assert client_of(viewer).post(f"/profiles/{chat.profile_id}/whatif/read/").status_code == 403


@more
def test_a_reading_is_asked_for_once_and_followed(
    client_of: ClientOf, operator: User, chat: Deployment, rung_models: list[int],
    django_capture_on_commit_callbacks: Any,
) -> None:  # fmt: skip
    client = client_of(operator)
    address = f"/profiles/{chat.profile_id}/whatif/read/"
    with django_capture_on_commit_callbacks(execute=True):
        answer = client.post(address, {"revision": "1", "on": f"d{chat.pk}", "context": "64K"})
        client.post(address, {"revision": "1", "on": f"d{chat.pk}"})
    assert answer.headers["Location"].endswith("context=64K#whatif")
    row = ModelOnHost.objects.get()
    assert rung_models == [row.pk] and row.path == PATH and row.is_being_read
    assert AuditEntry.objects.get(action="read model").detail == {"path": PATH}
    assert f'data-stream="model:{row.pk}" data-refetch=".whatif-part"' in page(client, chat)


@more
def test_a_draft_model_is_read_too(
    client_of: ClientOf, operator: User, chat: Deployment, django_capture_on_commit_callbacks: Any
) -> None:
    make_revision(chat.profile, argv=[*ARGV, "--speculative-draft-model-path", "/models/draft"])
    with django_capture_on_commit_callbacks(execute=True):
        client_of(operator).post(f"/profiles/{chat.profile_id}/whatif/read/", {"revision": "2"})
    assert set(ModelOnHost.objects.values_list("path", flat=True)) == {PATH, "/models/draft"}


def test_what_was_read_is_worked_out_with_its_arithmetic(client_of: ClientOf, viewer: User, chat: Deployment) -> None:
    know(chat.placement.host)
    text = page(client_of(viewer), chat)
    assert "Too close to say" in text and "How this was worked out" in text and "32,768 bytes" in text
    assert "as long as nobody holds it" in text
    assert 'placeholder="131072"' in text and 'placeholder="0.88"' in text and 'placeholder="2"' in text


@more
def test_the_numbers_move_with_the_settings(client_of: ClientOf, viewer: User, chat: Deployment) -> None:
    know(chat.placement.host)
    client = client_of(viewer)
    usual = requests_of(part(client, chat), "bf16")
    assert requests_of(part(client, chat, context="64K"), "bf16") == pytest.approx(2 * usual, rel=0.05)
    assert requests_of(part(client, chat, fraction="0.6"), "bf16") < usual
    half = part(client, chat, kv="fp8")
    assert re.search(r"fp8 <span class=\"tag\">these flags", half) and "--kv-cache-dtype fp8_e4m3" in half
    assert "The flags keep the KV cache in fp8_e4m3." in half
    plain = page(client, chat, context="64K")
    assert requests_of(plain, "bf16") == requests_of(part(client, chat, context="64K"), "bf16")
    assert '<option value="d' in plain and 'value="64K"' in plain, "without JavaScript the same"


@more
def test_more_cards_than_the_deployment_has(client_of: ClientOf, viewer: User, chat: Deployment) -> None:
    host = chat.placement.host
    know(host)
    client = client_of(viewer)
    four = part(client, chat, cards="4")
    assert f"{host} has 2 cards. Worked out as if it had 4 of the same kind." in four
    assert requests_of(four, "bf16") > requests_of(part(client, chat), "bf16")
    for _ in range(2):
        make_gpu(host)
    assert f"with 2 more cards of {host} than the deployment has" in part(client, chat, cards="4")
    assert requests_of(part(client, chat, cards="4", on=f"h{host.pk}"), "bf16") == requests_of(four, "bf16")


@more
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"context": "long"}, "Write a number of tokens, as 131072 or 128K."),
        ({"fraction": "7"}, "less than or equal to 1"),
        ({"cards": "0"}, "greater than or equal to 1"),
        ({"kv": "moon"}, "moon is not one of the available choices"),
    ],
)
def test_a_setting_that_cannot_be_is_named_and_the_rest_stays(
    client_of: ClientOf, viewer: User, chat: Deployment, settings: dict[str, str], says: str
) -> None:
    know(chat.placement.host)
    text = part(client_of(viewer), chat, **settings)
    assert says in text and requests_of(text, "bf16") > 0


@more
def test_that_it_has_served_counts_only_for_the_settings_it_served_with(
    client_of: ClientOf, viewer: User, chat: Deployment
) -> None:
    know(chat.placement.host)
    make_launch(chat, memory_used=dict.fromkeys(chat.placement.gpu_uuids, 40_000), state="ended")
    client = client_of(viewer)
    assert "has served on these cards" in part(client, chat)
    assert "has served" not in part(client, chat, context="64K")


@more
def test_the_version_on_the_host_counts_where_there_is_one(client_of: ClientOf, viewer: User, chat: Deployment) -> None:
    host = chat.placement.host
    know(host)
    newer = "the version on the host may split memory"
    assert newer in part(client_of(viewer), chat)
    FlagCatalogue.objects.create(host=host, engine="sglang", key="a", program="python", version="0.5.11")
    assert newer not in part(client_of(viewer), chat)


@more
def test_what_could_not_be_read_says_why_and_shows_what_was_known(
    client_of: ClientOf, viewer: User, chat: Deployment
) -> None:
    know(chat.placement.host)
    know(chat.placement.host, Unknown("There is no model there."))
    text = part(client_of(viewer), chat)
    assert "There is no model there." in text and requests_of(text, "bf16") > 0


def test_where_nothing_can_be_worked_out_it_is_said_or_nothing_is_shown(client_of: ClientOf, viewer: User) -> None:
    client = client_of(viewer)
    custom = make_deployment(revision=make_profile(engine="custom").newest)
    assert "whatif" not in page(client, custom)
    hub = make_profile()
    make_revision(hub, argv=["python", "-m", "sglang.launch_server", "--model-path", "Qwen/Qwen3-8B"])
    assert "names the model Qwen/Qwen3-8B" in client.get(f"/profiles/{hub.pk}/").content.decode()


def test_without_a_host_there_is_nothing_to_try_it_on(client_of: ClientOf, viewer: User) -> None:
    assert "Add a host first." in client_of(viewer).get(f"/profiles/{make_profile().pk}/").content.decode()


@more
def test_a_worker_reads_once_and_tells_the_page(
    chat: Deployment, operator: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeHost(idle_machine(), model=models.QWEN35_27B)
    monkeypatch.setattr(links, "borrow", fake.borrow)
    monkeypatch.setattr(store, "close_old_connections", lambda: None)
    row = services.request_model(chat.placement.host, PATH, "", actor=operator, address="")
    stream = ModelStream()
    assert not stream.read(str(row.pk), None, operator).items
    store.run_reading(row.pk)
    store.run_reading(row.pk)
    row = ModelOnHost.objects.get()
    assert row.found is not None and row.found.config == models.QWEN35_27B and not row.is_being_read
    assert len(fake.transport.calls) == 1
    assert len(stream.read(str(row.pk), None, operator).items) == 1

    fake.reachable = False
    store.run_reading(services.request_model(chat.placement.host, PATH, "", actor=operator, address="").pk)
    row = ModelOnHost.objects.get()
    assert "does not answer" in row.problem and row.hint and row.found is not None, "what was known stays"
