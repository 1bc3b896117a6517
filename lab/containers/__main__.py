"""`docker ...` and `dockerd` of a simulated machine."""

import sys
from pathlib import Path

from lab.containers import cli, daemon

if __name__ == "__main__":
    name, words = Path(sys.argv[1]).name, sys.argv[2:]
    sys.exit(daemon.serve() if name == "dockerd" else cli.main(words))
