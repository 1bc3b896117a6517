from pathlib import Path

VERSION = "0.5.23"
__path__.append(str(Path(__file__).resolve().parents[4] / "site/sglang/srt"))
