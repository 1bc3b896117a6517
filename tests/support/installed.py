"""An engine that is installed on a simulated machine as a real one is: its source, its version, its command."""

from __future__ import annotations

import sys
from pathlib import Path

from lab import fleet as lab

VENV = "/srv/venv"
BASE = Path(sys.base_prefix) / "bin/python3"
SOURCE = """
import argparse
import torch

KV_CHOICES = ["auto", "bf16"]


class ServerArgs:
    model_path: str
    port: int = 30000

    @staticmethod
    def add_cli_args(parser: argparse.ArgumentParser):
        parser.add_argument("--model-path", "--model", type=str, required=True)
        parser.add_argument("--tp-size", type=int, default=1)
        parser.add_argument("--host", type=str)
        parser.add_argument("--port", type=int, default=ServerArgs.port)
        parser.add_argument("--context-length", type=int)
        parser.add_argument("--mem-fraction-static", type=float)
        parser.add_argument("--enable-metrics", action="store_true")
        parser.add_argument("--kv-cache-dtype", choices=KV_CHOICES, help="What the cache is kept as.")
"""


def install(machine: lab.Host | lab.Container) -> None:
    """Put SGLang 0.5.18 into a virtual environment at VENV; its source would need torch if anybody imported it."""
    venv = machine.seen(VENV)
    packages = venv / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    files = {
        venv / "pyvenv.cfg": f"home = {BASE.parent}\ninclude-system-site-packages = false\n",
        venv / "bin/sglang": f"#!{VENV}/bin/python3\nfrom sglang.cli.main import main\n",
        packages / "sglang/__init__.py": "raise ImportError('nobody imports this')\n",
        packages / "sglang/srt/server_args.py": SOURCE,
        packages / "sglang/cli/serve.py": "def _normalize_positional_model_path(argv): ...\n",
        packages / "sglang-0.5.18.dist-info/METADATA": "Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.18\n",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (venv / "bin/sglang").chmod(0o755)
    (venv / "bin/python3").unlink(missing_ok=True)
    (venv / "bin/python3").symlink_to(BASE)
