"""Sealing: only the key file opens, only for whom it was sealed, and what is lost is said in words."""

import stat
from pathlib import Path

import pytest
from django.conf import LazySettings

from controlpanel.sealing import CannotUnseal, _create, key_path, seal, unseal

SECRET = "correct-horse-battery"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, settings: LazySettings) -> Path:
    settings.DATA_DIR = tmp_path
    return tmp_path


def test_what_is_sealed_comes_back_and_shows_nothing() -> None:
    sealed = seal(SECRET, owner="7 HF_TOKEN")
    assert SECRET not in sealed and sealed != seal(SECRET, owner="7 HF_TOKEN")
    assert unseal(sealed, owner="7 HF_TOKEN") == SECRET


def test_the_key_is_readable_by_the_panel_alone(directory: Path) -> None:
    seal(SECRET, owner="x")
    assert stat.S_IMODE(key_path().stat().st_mode) == 0o600
    assert stat.S_IMODE(key_path().parent.stat().st_mode) == 0o700
    assert [path.name for path in key_path().parent.iterdir()] == ["sealing.key"]


def test_two_who_make_it_at_once_use_the_same_key() -> None:
    """The second has found none either, and comes later."""
    sealed = seal(SECRET, owner="x")
    _create(key_path())
    assert unseal(sealed, owner="x") == SECRET
    assert [path.name for path in key_path().parent.iterdir()] == ["sealing.key"]


def test_a_row_copied_elsewhere_does_not_open() -> None:
    with pytest.raises(CannotUnseal, match="changed by hand"):
        unseal(seal(SECRET, owner="7 HF_TOKEN"), owner="8 HF_TOKEN")


def test_a_lost_key_is_said_and_none_is_made_for_it() -> None:
    sealed = seal(SECRET, owner="x")
    key_path().unlink()
    with pytest.raises(CannotUnseal, match=f"is missing: {key_path()}") as raised:
        unseal(sealed, owner="x")
    assert "backup" in raised.value.hint and not key_path().exists()


def test_another_key_is_said() -> None:
    sealed = seal(SECRET, owner="x")
    key_path().unlink()
    seal("something else", owner="x")
    with pytest.raises(CannotUnseal, match="another key"):
        unseal(sealed, owner="x")


@pytest.mark.parametrize("content", [b"", b"cut short"])
def test_a_damaged_key_is_said(content: bytes) -> None:
    sealed = seal(SECRET, owner="x")
    key_path().write_bytes(content)
    with pytest.raises(CannotUnseal, match="damaged"):
        unseal(sealed, owner="x")


def test_a_key_that_cannot_be_read_is_said() -> None:
    sealed = seal(SECRET, owner="x")
    key_path().unlink()
    key_path().mkdir()
    with pytest.raises(CannotUnseal, match="cannot be read"):
        unseal(sealed, owner="x")
