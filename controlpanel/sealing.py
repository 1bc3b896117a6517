"""Seals what the database must keep and nobody may read there. The key is a file of the data directory, made at first
use and readable by the panel alone; without that file no dump of the database opens anything.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

SEALING_KEY = Path("keys", "sealing.key")
BRING_IT_BACK = "Bring the file back from a backup, or enter what it had sealed once more."


class CannotUnseal(Exception):
    """The key is lost or is another one. ``message`` says which in plain words, ``hint`` what to do."""

    def __init__(self, message: str, *, hint: str = BRING_IT_BACK) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def seal(text: str, *, owner: str) -> str:
    """The text as only ``unseal`` with the same ``owner`` gives it back. Makes the key if there is none yet."""
    path = key_path()
    if not path.exists():
        _create(path)
    return _cipher(path).encrypt(f"{owner}\n{text}".encode()).decode()


def unseal(sealed: str, *, owner: str) -> str:
    """What was sealed for ``owner``. Raises CannotUnseal; never gives back anything else than what was sealed."""
    path = key_path()
    if not path.exists():
        raise CannotUnseal(f"The file that opens the panel's stored secrets is missing: {path}.")
    try:
        found, _, text = _cipher(path).decrypt(sealed.encode()).decode().partition("\n")
    except InvalidToken as error:
        raise CannotUnseal(
            f"The panel's stored secrets were sealed with another key than the one in {path}."
        ) from error
    if found != owner:
        raise CannotUnseal(
            "A stored secret belongs to something else than what it stands at: the database was changed by hand.",
            hint="Enter the secret once more.",
        )
    return text


def key_path() -> Path:
    """Where the key is, or will be."""
    return Path(settings.DATA_DIR) / SEALING_KEY


def _cipher(path: Path) -> Fernet:
    try:
        return Fernet(path.read_bytes().strip())
    except OSError as error:
        raise CannotUnseal(
            f"The file that opens the panel's stored secrets cannot be read: {path}: {error.strerror}.",
            hint="Let the panel's user own that file, with mode 0600.",
        ) from error
    except ValueError as error:
        raise CannotUnseal(f"The file that opens the panel's stored secrets is damaged: {path}.") from error


def _create(path: Path) -> None:
    """The whole key or nothing, and never over another process's."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(Fernet.generate_key())
        file.flush()
        os.fsync(file.fileno())
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
