"""What must be true before the panel's processes start: tables and static files up to date, a socket
to listen on.
"""

import errno
import fcntl
import hashlib
import ipaddress
import socket
import sys
from collections.abc import Callable
from pathlib import Path

from django.apps import apps
from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from whitenoise.storage import MissingFileError

from controlpanel import signin

_BACKLOG = 512
_SMALL_BYTES = 64 * 1024 * 1024


def migrate() -> bool:
    """Bring the tables up to date. Returns whether there was anything to do."""
    if _migrations_on_disk() <= set(MigrationRecorder(connection).applied_migrations()):
        return False
    call_command("migrate", interactive=False, verbosity=0)
    return True


def analyse() -> bool:
    """Let SQLite count what its indexes are good for: without, it takes a poor one of two in a long history. Returns
    whether it did. A small database needs no such figures, and they would mislead once it has grown; PostgreSQL keeps
    its own.
    """
    if connection.vendor != "sqlite":
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
        if cursor.fetchone()[0] < _SMALL_BYTES:
            return False
        cursor.execute("PRAGMA analysis_limit = 1000")  # some ten milliseconds, however many rows there are
        cursor.execute("ANALYZE")
    return True


def _migrations_on_disk() -> set[tuple[str, str]]:
    """Return app and name of all migrations by their files alone: loading them costs a second at each start."""
    places = ((app.label, Path(app.path) / "migrations") for app in apps.get_app_configs())
    return {(label, file.stem) for label, place in places for file in place.glob("[0-9]*.py")}


def collect_static() -> bool:
    """Collect, compress and hash the static files where one has changed. Returns whether there was
    anything to do.
    """
    root = Path(settings.STATIC_ROOT)
    root.mkdir(parents=True, exist_ok=True)
    stamp, wanted = root / ".relaunch-stamp", _fingerprint()
    with (root / ".relaunch-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two panels may start at the same time from one checkout
        if stamp.exists() and stamp.read_text() == wanted:
            return False
        try:
            call_command("collectstatic", interactive=False, verbosity=0)
        except MissingFileError as problem:
            raise CommandError(f"A static file is missing; run `make setup`. {problem}") from problem
        stamp.write_text(wanted)
    return True


def _fingerprint() -> str:
    """Return a digest of the names, sizes and times of all static files."""
    digest = hashlib.sha256()
    for finder in get_finders():
        for name, storage in finder.list(ignore_patterns=[]):
            facts = Path(storage.path(name)).stat()
            digest.update(f"{name}\0{facts.st_size}\0{facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def listen(*, host: str, port: int) -> socket.socket:
    """Return a listening socket; raises `CommandError` with a sentence that says what to do."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
    except socket.gaierror as problem:
        raise CommandError(f"--host {host} is not an address of this machine ({problem.strerror}).") from problem
    if not settings.HTTPS and not ipaddress.ip_address(address[0]).is_loopback:
        raise CommandError(
            f"The panel speaks plain http, so it listens on {host} only behind a proxy that speaks TLS. Set PANEL_URL "
            "to the https address that browsers use (docs/reaching.md has recipes), or leave HOST at 127.0.0.1."
        )
    listener = socket.socket(family, kind)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
    except OSError as problem:
        listener.close()
        raise CommandError(_bind_trouble(problem, host=host, port=port)) from problem
    listener.listen(_BACKLOG)
    return listener


def _bind_trouble(problem: OSError, *, host: str, port: int) -> str:
    if problem.errno == errno.EADDRINUSE:
        return (
            f"Port {port} on {host} is in use by another program (maybe another panel). "
            f"End it, or choose another port: make run PORT={port + 1} (or manage.py panel --port {port + 1})"
        )
    if problem.errno == errno.EACCES:
        return f"This user may not listen on port {port}; choose one above 1023: make run PORT=8000"
    return f"Cannot listen on {host} port {port}: {problem.strerror}."


def prepare(listener: socket.socket, *, always_link: bool = False, say: Callable[[str], object]) -> list[str]:
    """Do what must be done before the processes start; returns the command that starts and keeps them.

    Prints a sign-in link when nobody can sign in yet, or `always_link`.
    """
    if collect_static():
        say("panel: static files collected")
    analyse()
    url = settings.PANEL_URL.geturl() if settings.PANEL_URL else _url_of(listener)
    if always_link or not signin.somebody_can_sign_in():
        say(
            f"panel: create the first administrator or sign in here, once, within 24 hours:\n"
            f"       {url}{signin.make_link().path}"
        )
    argv = [sys.executable, "-m", "controlpanel.supervisor", "--fd", str(listener.fileno()), "--url", url]
    if settings.EMBEDDED_VALKEY:
        argv += ["--valkey-socket", str(settings.VALKEY_SOCKET), "--valkey-data", str(settings.DATA_DIR / "valkey")]
    return argv


def _url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "localhost", "::": "localhost"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"
