"""The demo: the simulated fleet with models on its hosts, and the panel beside it, ready for a first restart.

Run by `make demo` as `python -m lab enter --listen HOST:PORT -- python -m lab demo`. Its data is kept in var/demo,
apart from that of a panel for real hosts.
"""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from lab.engines.tiny_gguf import write_tiny_gguf
from lab.fleet import Container, Fleet, Host, demo_specs
from lab.models import put_checkpoint

REPOSITORY = Path(__file__).resolve().parents[1]
DATA_DIRECTORY = REPOSITORY / "var/demo"

QWEN_27B = {
    "architectures": ["Qwen3ForCausalLM"],
    "num_hidden_layers": 64,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 262144,
    "lab": {"load_seconds": 4.0, "capture_seconds": 1.0},
}
QWEN_397B = {
    "architectures": ["Qwen3_5MoeForCausalLM"],
    "num_hidden_layers": 60,
    "full_attention_interval": 4,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "linear_num_value_heads": 64,
    "linear_num_key_heads": 16,
    "linear_value_head_dim": 128,
    "linear_key_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "num_experts": 512,
    "max_position_embeddings": 262144,
    "lab": {"load_seconds": 8.0},
}
CHECKPOINTS = (("qwen-27b", QWEN_27B, 26_800), ("qwen-397b", QWEN_397B, 393_500))
"""Name, config.json and MiB of weights: both in FP8."""


def run(directory: Path) -> int:
    """Start the fleet and the panel; returns the panel's exit status when it has ended."""
    data = Path(os.environ.setdefault("RELAUNCH_DATA_DIR", str(DATA_DIRECTORY)))
    data.mkdir(parents=True, exist_ok=True)
    hosts, nodes = demo_specs()
    with Fleet(directory, hosts=hosts, nodes=nodes) as fleet:
        cards = sum(len(machine.cards) for machine in fleet.machines)
        print(
            f"demo: {len(fleet.machines)} simulated machines with {cards} GPUs are up in {fleet.seconds:.2f} s",
            file=sys.stderr,
        )
        put_models(fleet, data)
        prepare_panel(fleet, data)
        return _run_panel()


def put_models(fleet: Fleet, data: Path) -> None:
    """Give every machine and container the model directories that the demo's profiles name."""
    gguf = data / "tiny.gguf"
    if not gguf.exists():
        write_tiny_gguf(gguf)
    containers = [box for node in fleet.nodes for box in node.containers.values() if box.is_running]
    places: list[Host | Container] = [*fleet.machines, *containers]
    for machine in places:
        models = machine.seen("/models")
        for name, config, weights_mib in CHECKPOINTS:
            put_checkpoint(models / name, config, weights_mib=weights_mib)
        (models / "tiny.gguf").write_bytes(gguf.read_bytes())


def prepare_panel(fleet: Fleet, data: Path) -> None:
    """The panel's tables, its key on every host, and, the first time, hosts and deployments to begin with."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "controlpanel.settings"
    import django

    django.setup()
    from django.conf import settings

    settings.CHANNEL_LAYERS = {}  # the broker is not up yet, and no page listens: nothing to say about lost hints
    from controlpanel import preparation
    from hosts.models import Host
    from hosts.panel_key import public_line

    preparation.migrate()
    if not public_line(data):
        from hosts.keys import panel_key_path

        panel_key_path(data)
    for machine in fleet.machines:
        machine.authorize(public_line(data))
    if not Host.objects.exists():
        from lab import demo_seed  # loads the SSH library, which a second start has no need of

        demo_seed.seed(fleet)
    end_what_ran()


def end_what_ran() -> None:
    """The fleet ended with the last demo, and its servers with it: that was no crash."""
    from django.utils import timezone

    from deployments.lifecycle import LIVE_LAUNCH, LaunchState, ServiceState
    from deployments.models import Deployment, Launch

    now, why = timezone.now(), "the demo was stopped"
    ran = Launch.objects.filter(state__in=LIVE_LAUNCH)
    Deployment.objects.filter(launches__in=ran).update(state=ServiceState.STOPPED, state_since=now, state_detail=why)
    ran.update(state=LaunchState.ENDED, ended_at=now, end_reason=why)


def _run_panel() -> int:
    """The panel on the socket that was opened outside; Ctrl-C and SIGTERM reach it and end it.

    As `manage.py panel` does it, without loading Django a second time.
    """
    from controlpanel import preparation

    listener = socket.socket(fileno=int(os.environ["LAB_WEB_FD"]))
    argv = preparation.prepare(listener, say=lambda text: print(text, file=sys.stderr, flush=True))
    panel = subprocess.Popen(argv, cwd=REPOSITORY, pass_fds=(listener.fileno(),), start_new_session=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: panel.terminate())
    return panel.wait()
