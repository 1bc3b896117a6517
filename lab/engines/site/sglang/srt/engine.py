"""The parent: checks, starts the workers, waits for all of them, and only then opens the port."""

import multiprocessing
import os
import signal
import sys
from argparse import Namespace
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from lab.engines.ledger import note_start
from lab.gpus import hold

from . import logs, traits
from .detokenizer import run_detokenizer
from .memory import fill_defaults
from .model import Model, ModelPathError, read_model
from .process import kill_tree
from .resolve import resolve
from .scheduler import Assignment, is_orphan, run_scheduler
from .settings import Hints, read_hints

POLL_SECONDS = 0.1


@dataclass
class Workers:
    """The processes of the server and the line to each scheduler."""

    processes: list[BaseProcess]
    lines: list[Connection]
    spared: list[int]
    """Pids that the end of the server does not reach (mode orphan-worker)."""
    report: dict[str, Any]
    """What rank 0 found: pool sizes, dtypes."""
    kept: list[Connection]
    """Ends that must stay open. Versions before 0.5.10 keep even their copies of the workers' own ends, so they never
    notice a worker that is killed while it loads."""


def launch(args: Namespace) -> None:
    """Serve until stopped; does not return normally."""
    note_start("sglang", port=args.port)
    model = _check_model(args)
    hints = read_hints(model.path)
    cards = _choose_cards(args)
    rooms = [hold.room(card) for card in cards]
    fill_defaults(args, card_mib=min(room.total for room in rooms))
    if hints.has("ignore-sigterm"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if args.random_seed is None:
        args.random_seed = int.from_bytes(os.urandom(4)) // 4
    logs.log(f"server_args={_printed(args)}")
    signal.signal(signal.SIGQUIT, _child_failed)
    workers = _start_workers(args, model, hints, cards, free=tuple(room.free for room in rooms))

    from .server import serve  # asyncio only now: the workers never need it

    serve(args, model, hints, workers)


def _printed(args: Namespace) -> str:
    """The arguments as this version prints them."""
    if traits.DICT_ARGUMENTS:
        return repr(vars(args))
    return f"ServerArgs({', '.join(f'{name}={value!r}' for name, value in vars(args).items())})"


def _check_model(args: Namespace) -> Model:
    """Exits 1, as an uncaught exception does, when the model cannot be used with these flags."""
    try:
        model = read_model(Path(args.model_path))
    except ModelPathError as error:
        logs.raw("Traceback (most recent call last):\n")
        logs.raw(f"huggingface_hub.errors.HFValidationError: {error}\n")
        sys.exit(1)
    problem = _find_contradiction(args, model) or resolve(args, model)
    if problem:
        logs.raw(f"Traceback (most recent call last):\n{problem}\n")
        sys.exit(1)
    return model


def _find_contradiction(args: Namespace, model: Model) -> str:
    if args.context_length and args.context_length > model.max_context:
        return (
            f"ValueError: User-specified context_length ({args.context_length}) is greater than the derived "
            f"context_length ({model.max_context}). This may lead to incorrect model outputs or CUDA errors. "
            "To allow overriding this maximum, set the env var SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1"
        )
    if args.language_only and not args.encoder_urls:
        return "ValueError: requires at least one encoder urls to be set via --encoder-urls"
    if ":" in args.served_model_name:
        return "AssertionError: served_model_name cannot contain a colon"
    return ""


def _choose_cards(args: Namespace) -> list[int]:
    visible = hold.visible_cards()
    wanted = [args.base_gpu_id + rank * args.gpu_id_step for rank in range(args.tp_size)]
    if not visible or wanted[-1] >= len(visible):
        logs.raw("Traceback (most recent call last):\nRuntimeError: CUDA error: invalid device ordinal\n")
        sys.exit(1)
    return [visible[index] for index in wanted]


def _start_workers(args: Namespace, model: Model, hints: Hints, cards: list[int], *, free: tuple[int, ...]) -> Workers:
    spawn = multiprocessing.get_context("spawn")
    workers = Workers([], [], [], {}, [])
    for rank, card in enumerate(cards):
        near, far = spawn.Pipe()
        assigned = Assignment(rank=rank, card=card, free_mib=free)
        process = spawn.Process(target=run_scheduler, args=(args, model, hints, assigned, far))
        process.start()
        workers.processes.append(process)
        workers.lines.append(near)
        workers.kept.append(far)
        if is_orphan(args, hints, rank):
            workers.spared.append(process.pid or 0)
    near, far = spawn.Pipe()
    detokenizer = spawn.Process(target=run_detokenizer, args=(hints, far))
    detokenizer.start()
    workers.processes.append(detokenizer)
    workers.kept += [near, far]
    reports = [_wait_for(workers, rank) for rank in range(len(workers.lines))]
    near.recv()
    workers.report = reports[0]
    return workers


def _wait_for(workers: Workers, rank: int) -> dict[str, Any]:
    """What a scheduler says when it is ready; newer versions look meanwhile whether it still lives."""
    while traits.WATCHES_CHILDREN and not workers.lines[rank].poll(POLL_SECONDS):
        for number, process in enumerate(workers.processes[: len(workers.lines)]):
            if process.exitcode is not None:
                _died_while_loading(number, process.exitcode)
    report: dict[str, Any] = workers.lines[rank].recv()
    return report


def _died_while_loading(rank: int, code: int) -> None:
    logs.raw(
        f"Traceback (most recent call last):\nRuntimeError: Rank {rank} scheduler died during initialization (exit "
        f"code: {code}). If exit code is -9 (SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i "
        "oom` to check.\n"
    )
    kill_tree(itself=False)
    sys.stdout.flush()
    os._exit(1)  # no exit handlers: multiprocessing would wait for what was just killed


def _child_failed(signum: int, frame: object) -> None:
    logs.log("Received sigquit from a child process. It usually means the child failed.", prefix="")
    kill_tree()
