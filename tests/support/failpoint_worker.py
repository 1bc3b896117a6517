"""A worker of the product that dies or freezes at a chosen point. The product itself knows no failpoints.

    python -m tests.support.failpoint_worker [--at POINT=kill|freeze] [--lease SECONDS] [--no-sweeper]

The act happens once in a process. Leases, sweeps and retries are made short, so that a test of them is.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlpanel.settings")

import django

SIGNALS = {"kill": signal.SIGKILL, "freeze": signal.SIGSTOP}
SWEEP_SECONDS = 0.5
RETRY = timedelta(seconds=1)


class Act:
    """What is to happen, once."""

    def __init__(self, name: str) -> None:
        self._signal = SIGNALS[name]
        self._done = False

    def __call__(self) -> None:
        if not self._done:
            self._done = True
            os.kill(os.getpid(), self._signal)


def before(act: Act, owner: object, name: str, *, only: Callable[..., bool] = lambda *_, **__: True) -> None:
    """Act before each call of ``owner.name`` whose arguments are wanted."""
    inner = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if only(*args, **kwargs):
            act()
        return inner(*args, **kwargs)

    setattr(owner, name, wrapped)


def install(point: str, act: Act) -> None:
    """Arm one point of a restart."""
    from deployments import joblog, runner
    from deployments.remote import run as remote
    from deployments.steps import launch, signals, stop, verify
    from deployments.steps.registry import STEPS

    match point:
        case "launch-intended":  # the intent is stored, nothing is sent
            before(act, remote, "run")
        case "launch-sent":  # the host has started it, nothing of that is stored
            before(act, launch, "_settle")
        case "stop-intended":
            before(act, signals, "_watch")
        case "stop-sent":  # the signal is out, its result is not stored
            before(act, stop, "_show")
        case "stopped":  # between stop and verify
            STEPS["verify"] = _acting(act, verify.verify)
        case "log-stored":  # a part of the server's log is stored, the rest is not
            before(act, joblog.ServerLog, "feed", only=lambda log, *_: log.offset > 0)
        case "ending":  # all steps are done, the card locks are about to be given back
            before(act, runner, "release_cards")
        case _:
            raise SystemExit(f"no such failpoint: {point}")


def _acting(act: Act, step: Callable[[Any], None]) -> Callable[[Any], None]:
    def wrapped(context: Any) -> None:
        act()
        step(context)

    return wrapped


def shorten(lease: float) -> None:
    """Leases of ``lease`` seconds; sweeps and retries to match."""
    from deployments import sweeper
    from deployments.decisions import recovery
    from deployments.models import job

    job.LEASE = timedelta(seconds=lease)
    sweeper.EVERY_SECONDS = SWEEP_SECONDS
    recovery.FIRST_RETRY = RETRY


def main() -> None:
    """Arm the points, then be the product's worker."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--at", default="")
    parser.add_argument("--lease", type=float, default=0.0)
    parser.add_argument("--no-sweeper", action="store_true")
    options = parser.parse_args()
    django.setup()
    if options.lease:
        shorten(options.lease)
    if options.at:
        point, _, act = options.at.partition("=")
        install(point, Act(act))
    if options.no_sweeper:
        from deployments import sweeper

        sweeper.sweep = lambda: None

    from controlpanel.celery import app
    from controlpanel.supervisor import children

    own = list(next(child.argv for child in children(fd=0) if child.name == "worker"))
    app.start(argv=own[own.index("controlpanel") + 1 :])
    sys.exit(0)


if __name__ == "__main__":
    main()
