"""Whether an error means that the database is busy or cannot be reached: that passes, and is no fault of ours."""

from typing import Any

from django.db import InterfaceError, OperationalError

RETRY_SECONDS = 5

_SQLITE_PASSES = frozenset({5, 6, 14})  # busy, locked, cannot open
_POSTGRES_PASSES = (
    "08",  # the connection
    "40",  # a deadlock, or two transactions in each other's way
    "53300",  # too many connections
    "55P03",  # a lock that others hold
    "57",  # shut down, starting up, stopped by a time-out
)


def passes(error: BaseException | None) -> bool:
    """Whether the same request may work in a moment."""
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    problem: Any = error.__cause__  # the driver's own error, which Django wraps
    code = getattr(problem, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in _SQLITE_PASSES
    if not hasattr(problem, "sqlstate"):
        return False
    # Without a state the server has not said anything: there was no connection, or it broke.
    return problem.sqlstate is None or problem.sqlstate.startswith(_POSTGRES_PASSES)
