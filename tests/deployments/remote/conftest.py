"""A host for the scripts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deployments.remote.shell import Host, temporary_host


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with temporary_host(tmp_path) as made:
        yield made
