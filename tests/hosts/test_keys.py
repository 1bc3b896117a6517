"""Key files, good and bad."""

import subprocess
from pathlib import Path

import pytest

from hosts.keys import load_private_key, panel_key_path
from hosts.panel_key import public_line
from hosts.transport.base import KeyFileError
from tests.hosts.conftest import make_key

pytestmark = pytest.mark.process


def test_the_panel_makes_its_key_once(tmp_path: Path) -> None:
    path = panel_key_path(tmp_path)
    first = path.read_bytes()
    assert panel_key_path(tmp_path).read_bytes() == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_private_key(path).get_name() == "ssh-ed25519"


def test_the_public_line_fits_the_private_key(tmp_path: Path) -> None:
    assert public_line(tmp_path) == "", "the web process never makes the key"
    key = load_private_key(panel_key_path(tmp_path))
    key_type, key_base64, comment = public_line(tmp_path).split()
    assert (key_type, key_base64) == (key.get_name(), key.get_base64())
    assert comment.startswith("relaunch@")


def test_a_lost_public_file_is_made_again(tmp_path: Path) -> None:
    panel_key_path(tmp_path).with_suffix(".pub").unlink()
    panel_key_path(tmp_path)
    key = load_private_key(panel_key_path(tmp_path))
    assert public_line(tmp_path).split()[1] == key.get_base64()


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_the_usual_kinds_are_read(tmp_path: Path, kind: str) -> None:
    expected = make_key(tmp_path / "key", "-t", kind)
    assert load_private_key(tmp_path / "key").get_base64() == expected.key_base64


def test_a_pem_key_with_windows_line_ends_is_read(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    text = (tmp_path / "key").read_bytes().replace(b"\n", b"\r\n")
    (tmp_path / "crlf").write_bytes(text)
    assert load_private_key(tmp_path / "crlf").get_name() == "ssh-ed25519"


def refusal(path: Path) -> str:
    with pytest.raises(KeyFileError) as caught:
        load_private_key(path)
    assert caught.value.hint
    return str(caught.value)


def test_a_public_key_is_told(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    assert "public" in refusal(tmp_path / "key.pub")


def test_a_passphrase_is_told(tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", tmp_path / "key"], check=True)
    assert "passphrase" in refusal(tmp_path / "key")


def test_a_passphrase_in_the_old_form_is_told(tmp_path: Path) -> None:
    command = ["ssh-keygen", "-q", "-t", "rsa", "-m", "PEM", "-N", "secret", "-f", tmp_path / "key"]
    subprocess.run(command, check=True)
    assert "passphrase" in refusal(tmp_path / "key")


def test_a_small_rsa_key_is_told(tmp_path: Path) -> None:
    make_key(tmp_path / "key", "-t", "rsa", "-b", "1024")
    assert "1024 bits" in refusal(tmp_path / "key")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"PuTTY-User-Key-File-3: ssh-ed25519\n", "PuTTY"),
        (b"-----BEGIN DSA PRIVATE KEY-----\nAAAA\n-----END DSA PRIVATE KEY-----\n", "DSA"),
        (b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n", "no private key"),
        (b"hello", "no private key"),
        (b"", "no private key"),
        (b"x" * 2_000_000, "too large"),
    ],
)
def test_what_is_no_key_is_told(tmp_path: Path, content: bytes, word: str) -> None:
    (tmp_path / "key").write_bytes(content)
    assert word in refusal(tmp_path / "key")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(tmp_path / "nowhere")
