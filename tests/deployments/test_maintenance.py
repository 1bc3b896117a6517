"""No job begins on a host that is in maintenance, nor in a container whose node is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controlpanel.refusal import Refused
from deployments.models import Job
from hosts.models import Host
from tests.factories import make_deployment, make_host

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("where", ["host", "node"])
def test_no_job_begins_where_somebody_works_on_the_machine(ask: Callable[..., Job], where: str) -> None:
    node = make_host(name="pve")
    host = make_host(transport="pct", via=node, vmid=101) if where == "node" else node
    deployment = make_deployment(host=host)
    Host.objects.filter(pk=node.pk).update(maintenance="new driver")
    with pytest.raises(Refused, match="pve is in maintenance: new driver"):
        ask(deployment)
    Host.objects.update(maintenance="")
    deployment.refresh_from_db()
    assert ask(type(deployment).objects.get(pk=deployment.pk)).pk
