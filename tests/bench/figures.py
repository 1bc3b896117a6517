"""How a benchmark prints what it has measured."""

from collections.abc import Sequence
from statistics import median


def tell(name: str, value: float, unit: str, *, goal: str, peer: str, ok: bool) -> None:
    """One line: ``BENCH name value unit goal=... peer=... ok|short``."""
    shown = f"{value:.0f}" if float(value).is_integer() else f"{value:.2f}"
    print(f"BENCH {name} {shown} {unit} goal={goal} peer={peer} {'ok' if ok else 'short'}", flush=True)


def spread(values: Sequence[float]) -> str:
    """``median (least-most, n)`` in seconds."""
    return f"{median(values):.2f} s ({min(values):.2f}-{max(values):.2f}, n={len(values)})"
