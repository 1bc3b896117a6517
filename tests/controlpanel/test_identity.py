"""Who holds a job or a host is named so that the name fits, on machines with long names too."""

import socket

import pytest

from controlpanel.identity import process_name
from deployments.models import Job
from hosts.models import Host

LONGEST_REST = 16
"""What follows it: a random piece, the number of a round."""


@pytest.mark.parametrize("name", ["gpu1", "a" * 64, "rack-12.hall-3." * 10])
def test_a_long_hostname_is_cut_and_the_process_still_told(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: name)
    monkeypatch.setattr("os.getpid", lambda: 4_194_304)
    said = process_name()
    assert said.startswith(name[:20]) and said.endswith(":4194304")
    for field in Job._meta.get_field("owner"), Host._meta.get_field("monitor_owner"):
        assert field.max_length is not None and len(said) + LONGEST_REST <= field.max_length
