"""Reading the environment: typed, from files where a secret should not stand in it, and loud when wrong.

Every function takes the name of a variable, says in one sentence what is wrong with its value, and raises
`ImproperlyConfigured`, so that a panel with a bad setting never starts.
"""

import hashlib
import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

_env = environ.FileAwareEnv()
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LONGEST_SOCKET_PATH = 107  # bytes; the kernel's limit for a unix socket


def text(name: str, *, default: str = "") -> str:
    """Return the value of `name`, or the content of the file named by `<name>_FILE`, without white space
    around it.
    """
    try:
        # Straight from the mapping: the library would take a secret that begins with $ for another variable's name.
        return str(_env.ENVIRON.get(name, default)).strip() or default
    except OSError as problem:
        raise ImproperlyConfigured(f"{name}_FILE names a file that cannot be read ({problem.strerror}).") from problem


def switch(name: str, *, default: str) -> bool:
    """Return a yes or no."""
    value = text(name, default=default).lower()
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"", "0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name} is {value!r}; it must be yes or no.")


def number(name: str, *, default: int, least: int, most: int) -> int:
    """Return a whole number between `least` and `most`."""
    value = text(name, default=str(default))
    if not (value.isascii() and value.isdigit() and len(value) < 10 and least <= int(value) <= most):
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be a whole number from {least} to {most}.")
    return int(value)


def words(name: str, *, default: str) -> list[str]:
    """Return a comma-separated list."""
    return [word.strip() for word in text(name, default=default).split(",") if word.strip()]


def choice(name: str, *, default: str, choices: tuple[str, ...]) -> str:
    """Return one of `choices`, in capitals."""
    value = text(name, default=default).upper()
    if value not in choices:
        raise ImproperlyConfigured(f"{name} is {value!r}; it must be one of {', '.join(choices)}.")
    return value


def panel_url(name: str) -> SplitResult | None:
    """Return the address at which browsers reach the panel from elsewhere, or None: this machine alone.

    Plain HTTP would carry passwords and cookies readable through the network: it is refused except on this machine.
    """
    given = text(name).rstrip("/")
    if not given:
        return None
    parts = urlsplit(given)
    try:
        well_formed = bool(parts.hostname) and f"{parts.scheme}://{parts.netloc}" == given and parts.port != 0
    except ValueError:  # a port that is no number
        well_formed = False
    if parts.scheme not in {"http", "https"} or not well_formed or "@" in parts.netloc:
        raise ImproperlyConfigured(f"{name} is {given!r}; write the full origin, such as https://panel.example.com.")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        raise ImproperlyConfigured(
            f"{name} is {given!r}, and plain http would show passwords to everybody in between. Put a proxy that "
            f"speaks TLS in front of the panel (docs/reaching.md has recipes) and write https://{parts.netloc}."
        )
    return parts


def data_directory(name: str, *, default: Path) -> Path:
    """Return the directory for everything the panel keeps; it is made, and closed to other users of the
    machine.
    """
    directory = Path(text(name, default=str(default))).expanduser().absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if directory.stat().st_uid == os.getuid():
            directory.chmod(0o700)
    except OSError as problem:
        raise ImproperlyConfigured(
            f"{name} is {directory}, which cannot be used as a directory ({problem.strerror})."
        ) from problem
    return directory


def secret_key(name: str, *, directory: Path) -> str:
    """Return the secret of this panel: from the environment, else from a 0600 file made at the first
    start.
    """
    given = text(name)
    if given:
        if len(given) < 32:
            raise ImproperlyConfigured(f"{name} is too short to be a secret; it needs 32 characters or more.")
        return given
    path = directory / "secret-key"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _stored_secret(path)
    with os.fdopen(handle, "w") as file:
        file.write(secrets.token_urlsafe(50))
    return path.read_text()


def _stored_secret(path: Path) -> str:
    stored = path.read_text().strip()
    if len(stored) < 32:
        raise ImproperlyConfigured(f"{path} is empty or cut short; remove it and everyone signs in again.")
    return stored


def database(name: str, *, directory: Path) -> dict[str, object]:
    """Return Django's settings of the database at the URL `name`, or of SQLite in `directory`."""
    # Kept open: to open it anew costs a job more than its writes, and there is no server whose connections run out.
    sqlite = {"CONN_MAX_AGE": None, "OPTIONS": SQLITE_OPTIONS, "TEST": {"NAME": str(directory / "test.sqlite3")}}
    url = text(name)
    if not url:
        return sqlite | {"ENGINE": SQLITE, "NAME": str(directory / "relaunch.sqlite3")}
    if urlsplit(url).scheme not in {"postgres", "postgresql", "sqlite"}:
        raise ImproperlyConfigured(f"{name} must be a postgres:// or sqlite:/// URL.")
    try:
        found: dict[str, Any] = dict(_env.db_url_config(url))
    except (ValueError, ImproperlyConfigured) as problem:
        raise ImproperlyConfigured(f"{name} is not a database URL ({problem}).") from problem
    if found["ENGINE"] == SQLITE:
        return found | sqlite
    options = {"connect_timeout": 5} | found.get("OPTIONS", {})
    return found | {"OPTIONS": options, "CONN_HEALTH_CHECKS": True}


SQLITE = "django.db.backends.sqlite3"

# IMMEDIATE: a transaction that reads and then writes waits for its turn instead of failing with "database is
# locked". The cache is per connection, and a worker has up to 64 of them; mmap already serves the reads.
SQLITE_OPTIONS = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": (
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-8000;"
        "PRAGMA mmap_size=134217728; PRAGMA journal_size_limit=67108864; PRAGMA temp_store=MEMORY;"
    ),
}


def redis_url(name: str, *, socket: Path) -> str:
    """Return the URL of the broker: from the environment, else the unix `socket` of the embedded one."""
    url = text(name)
    if not url:
        return f"unix://{socket}"
    if urlsplit(url).scheme not in {"redis", "rediss", "unix"}:
        raise ImproperlyConfigured(f"{name} must be a redis://, rediss:// or unix:// URL.")
    return url


def valkey_socket(*, directory: Path) -> Path:
    """Return the path of the embedded broker's socket.

    It lies in the data directory where the kernel's limit for socket paths allows it, else in a short one of
    this user.
    """
    inside = directory / "valkey" / "valkey.sock"
    if len(os.fsencode(inside)) <= _LONGEST_SOCKET_PATH:
        return inside
    base = Path(text("XDG_RUNTIME_DIR", default="/tmp"))
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]
    return base / f"relaunch-{os.getuid()}-{digest}" / "valkey.sock"
