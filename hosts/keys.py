"""Private keys: the panel's own, made once, and key files that a host's page names.

Only worker and monitor import this; the web process never opens a key, it shows the public line (panel_key.py).
"""

import os
import secrets
import socket
from pathlib import Path

import paramiko
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hosts.panel_key import PANEL_KEY
from hosts.transport.base import KeyFileError

MAX_KEY_BYTES = 64 * 1024
MIN_RSA_BITS = 2048


def panel_key_path(data_dir: Path) -> Path:
    """The panel's private key, made now if there is none yet. Safe to call from several processes at once."""
    path = data_dir / PANEL_KEY
    if not path.exists():
        _create_panel_key(path)
    public = path.with_suffix(".pub")
    if not public.exists():
        key = load_private_key(path)
        _write_new(public, _public_line(key.get_name(), key.get_base64()), mode=0o644)
    return path


def load_private_key(path: Path) -> paramiko.PKey:
    """The key of this file. Raises KeyFileError with the reason in plain words; never shows what is in it."""
    data = _read(path)
    _refuse_what_is_no_private_key(path, data)
    try:
        key = paramiko.PKey.from_path(str(path))
    except paramiko.PasswordRequiredException as error:
        raise _passphrase(path) from error
    except TypeError as error:  # cryptography's word for an encrypted key without its passphrase
        raise _passphrase(path) from error
    except Exception as error:  # a key file is foreign input, and its parser raises a dozen kinds
        raise KeyFileError(f"{path} is no private key that we can read.") from error
    if isinstance(key, paramiko.RSAKey) and key.get_bits() < MIN_RSA_BITS:
        raise KeyFileError(
            f"The RSA key {path} has only {key.get_bits()} bits.",
            hint="Make a new one: ssh-keygen -t ed25519.",
        )
    return key


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_KEY_BYTES + 1)
    except OSError as error:
        raise KeyFileError(
            f"The key file {path} cannot be read: {error.strerror}.",
            hint="Check the path, and that the panel's user may read it.",
        ) from error
    if len(data) > MAX_KEY_BYTES:
        raise KeyFileError(f"{path} is far too large for a private key.")
    return data


def _refuse_what_is_no_private_key(path: Path, data: bytes) -> None:
    if data.startswith(b"PuTTY-User-Key-File"):
        raise KeyFileError(f"{path} is a PuTTY key.", hint="Export it in PuTTYgen: Conversions, Export OpenSSH key.")
    if data.lstrip().startswith((b"ssh-", b"ecdsa-", b"sk-")) or b"BEGIN SSH2 PUBLIC" in data:
        raise KeyFileError(
            f"{path} is a public key.", hint="Give the private one: the same name without .pub, as a rule."
        )
    if b"BEGIN DSA PRIVATE KEY" in data:
        raise KeyFileError(f"{path} is a DSA key, which is not safe.", hint="Make an ed25519 key instead.")
    if b"PRIVATE KEY-----" not in data:
        raise KeyFileError(f"{path} is no private key.")


def _passphrase(path: Path) -> KeyFileError:
    return KeyFileError(
        f"The key {path} is protected by a passphrase.",
        hint="Use the SSH agent for this host, or a key without one that only the panel's user can read.",
    )


def _create_panel_key(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    if _write_new(path, private.decode(), mode=0o600):
        line = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        key_type, base64_text = line.decode().split()
        _write_new(path.with_suffix(".pub"), _public_line(key_type, base64_text), mode=0o644)


def _public_line(key_type: str, base64_text: str) -> str:
    return f"{key_type} {base64_text} relaunch@{socket.gethostname()}\n"


def _write_new(path: Path, text: str, *, mode: int) -> bool:
    """Write the whole file or nothing, and never over another process's; False when it was there."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(fd, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True
