"""The detokenizer process: no card, no work, but a name and a place in the tree."""

import signal
import time
from multiprocessing.connection import Connection

from .process import die_with_parent
from .settings import Hints, scaled


def run_detokenizer(hints: Hints, pipe: Connection) -> None:
    """Main function of the process: lives until the parent is gone."""
    time.sleep(scaled(hints.import_seconds))
    import setproctitle

    setproctitle.setproctitle("sglang::detokenizer")
    die_with_parent()
    if hints.has("ignore-sigterm"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        pipe.send("ready")
        pipe.recv()
    except (EOFError, OSError):
        return
