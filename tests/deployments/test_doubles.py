"""One machine that was added twice, under two names."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from controlpanel.refusal import Refused
from deployments import services
from deployments.lifecycle import JobKind
from deployments.models import Deployment, Job
from hosts import testing
from hosts.doubles import same_machine
from hosts.models import Host, HostKey
from tests.deployments.machine import idle_machine
from tests.factories import make_deployment, make_gpu, make_host, make_profile
from tests.hosts.test_testing import run

pytestmark = pytest.mark.django_db
CARD = "GPU-11111111-aaaa-bbbb-cccc-1234567890ab"


def twice(**values: object) -> tuple[Host, Host]:
    """Two hosts with one card."""
    first, second = make_host(name="gpu1"), make_host(name="spare-gpu", **values)
    for host in (first, second):
        make_gpu(host, uuid=CARD)
    return first, second


def pin(host: Host, fingerprint: str = "SHA256:same") -> None:
    HostKey.objects.create(
        host=host, key_type="ssh-ed25519", key_base64="x", fingerprint=fingerprint, pinned_at=timezone.now()
    )


def test_a_card_is_in_one_machine() -> None:
    first, second = twice()
    assert same_machine(first) == [second] and same_machine(second) == [first]
    second.gpus.update(present=False)
    assert same_machine(first) == same_machine(second) == []


def test_one_that_is_only_looked_at_is_no_double_for_jobs() -> None:
    first, _ = twice(look_only=True)
    assert same_machine(first) == []


def test_a_card_may_have_come_from_a_machine_that_does_not_answer_any_more() -> None:
    first, second = twice(boot_id="boot-b", reach=Host.Reach.UNREACHABLE)
    first.boot_id = "boot-a"
    assert same_machine(first) == []
    second.boot_id = "boot-a"
    second.save()
    assert same_machine(first) == [second], "the same boot: it is this very machine"


def test_containers_share_the_cards_of_their_node() -> None:
    node = make_host()
    inside = [make_host(transport=Host.TransportKind.PCT, via=node, vmid=vmid) for vmid in (101, 102)]
    for host in (node, *inside):
        make_gpu(host, uuid=CARD)
    assert [same_machine(host) for host in (node, *inside)] == [[], [], []]


@pytest.mark.parametrize(
    ("boot", "name", "key", "same"),
    [
        ("boot-a", "gpu1", "SHA256:same", True),
        ("boot-b", "gpu1", "SHA256:same", False),
        ("boot-a", "gpu2", "SHA256:same", False),
        ("boot-a", "gpu1", "SHA256:other", False),
    ],
)
def test_without_cards_it_is_boot_name_and_key_together(boot: str, name: str, key: str, same: bool) -> None:
    """Cloned images have one key."""
    first = make_host(boot_id="boot-a", hostname="gpu1")
    second = make_host(boot_id=boot, hostname=name)
    pin(first)
    pin(second, key)
    assert same_machine(second) == ([first] if same else [])


def test_the_connection_test_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "close_old_connections", lambda: None)
    first = make_host(name="gpu1")
    make_gpu(first, uuid=next(iter(idle_machine().cards)))
    found = run(monkeypatch, idle_machine())["Known already"]
    assert found["status"] == "not ok" and found["detail"] == "This is the same machine as gpu1."
    assert "Remove one of" in found["hint"]
    assert Host.objects.exclude(pk=first.pk).get().hostname == "gpu-machine"


def test_its_page_says_it(client_of: Callable[[User], Client], viewer: User) -> None:
    first, second = twice()
    page = client_of(viewer).get(f"/hosts/{second.pk}/").content.decode()
    assert "This is the same machine as gpu1." in page
    first.delete()
    assert "same machine" not in client_of(viewer).get(f"/hosts/{second.pk}/").content.decode()


def test_no_deployment_is_made_on_it(administrator: User) -> None:
    _, second = twice()
    unsaved = Deployment(name="new", revision=make_profile().newest)
    with pytest.raises(Refused, match="spare-gpu is the same machine as gpu1"):
        services.create_deployment(unsaved, host=second, gpu_uuids=[CARD], actor=administrator, address="")
    assert not Deployment.objects.exists()


def test_no_job_begins_on_either_until_one_is_removed(ask: Callable[..., Job]) -> None:
    first, second = twice()
    deployment = make_deployment(host=first, gpus=list(first.gpus.all()))
    with pytest.raises(Refused, match="gpu1 is the same machine as spare-gpu") as refused:
        ask(deployment, kind=JobKind.RESTART)
    assert "Remove one of" in refused.value.hint
    second.delete()
    assert ask(deployment, kind=JobKind.RESTART).is_active
