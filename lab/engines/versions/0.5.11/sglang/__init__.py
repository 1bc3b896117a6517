from pathlib import Path

from .srt import VERSION

__version__ = VERSION
# What this version has in common with the others is beside them.
__path__.append(str(Path(__file__).resolve().parents[3] / "site/sglang"))
