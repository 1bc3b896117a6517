"""Under which address a server is reached, by its command and its host."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from deployments.address import address_of
from deployments.engines.registry import ENGINES
from tests.factories import make_deployment, make_host, make_profile, make_revision


@pytest.mark.parametrize(
    ("engine", "flags", "machine", "in_image", "url", "remark"),
    [
        ("sglang", "--host 0.0.0.0", "10.0.0.1", False, "http://10.0.0.1:30000/v1", ""),
        ("sglang", "", "10.0.0.1", False, "http://127.0.0.1:30000/v1", "from gpu1 itself alone"),
        ("sglang", "--host=localhost", "10.0.0.1", False, "http://127.0.0.1:30000/v1", "--host 0.0.0.0 opens it"),
        ("llama_server", "", "10.0.0.1", True, "http://10.0.0.1:30000/v1", ""),
        ("vllm", "", "fe80::1", False, "http://[fe80::1]:30000/v1", ""),
        ("custom", "", "gpu.lan", False, "http://gpu.lan:30000", ""),
        ("vllm", "", "", False, "", "port 30000 of gpu1, whose address"),
    ],
)
def test_an_address_and_who_reaches_it(
    engine: str, flags: str, machine: str, in_image: bool, url: str, remark: str
) -> None:
    found = address_of(
        ENGINES[engine], ["x", *flags.split()], machine=machine, host="gpu1", port=30000, in_image=in_image
    )
    assert found.url == url and (remark in found.remark if remark else not found.remark)


@pytest.mark.django_db
def test_the_page_of_a_deployment_has_it(client_of: Callable[[User], Client], viewer: User) -> None:
    profile = make_profile()
    revision = make_revision(profile, argv=["python", "-m", "sglang.launch_server", "--host", "0.0.0.0"])
    made = make_deployment(host=make_host(address="10.9.9.9"), revision=revision)
    page = client_of(viewer).get(f"/deployments/{made.pk}/").content.decode()
    assert "<code>http://10.9.9.9:30000/v1</code>" in page
