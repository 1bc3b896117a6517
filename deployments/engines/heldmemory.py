"""What a log says about memory that others held, beside what was measured before the start. PURE.

"Left over" and "does not fit" are never mixed up; where log and measurement contradict each other, that is said.
"""

from __future__ import annotations

import re

GIB = {"M": 1 / 1024, "G": 1.0, "T": 1024.0}
LITTLE_GIB = 1.0
"""What others may hold of a card without being worth a word: contexts of a monitoring tool, a display."""

# torch: "GPU 0 has a total capacity of 47.37 GiB of which 1.20 GiB is free. [Process 71 has 40.00 GiB memory in use.]
# Including non-PyTorch memory, this process has 6.17 GiB memory in use."
TORCH = re.compile(
    r"GPU (?P<card>\d+) has a total capacity of (?P<total>[\d.]+) (?P<total_in>[MGT])iB of which (?P<free>[\d.]+) "
    r"(?P<free_in>[MGT])iB is free.*?this process has (?P<own>[\d.]+) (?P<own_in>[MGT])iB memory in use"
)
VLLM = re.compile(r"Free memory on device (?:cuda:)?(?P<card>\d+)? ?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\)")
SGLANG = re.compile(r"min_per_gpu_memory=(?P<least>[\d.]+), local_gpu_memory=(?P<own>[\d.]+)")


def held_by_others(line: str) -> tuple[float, str] | None:
    """GiB that others held when this line was written, and that in words; None when the line does not tell."""
    if found := TORCH.search(line):
        total, free, own = (float(found[name]) * GIB[found[f"{name}_in"]] for name in ("total", "free", "own"))
        held = max(0.0, total - free - own)
        return held, f"others held {held:.1f} GiB of the {total:.1f} GiB of its card {found['card']}"
    if found := VLLM.search(line):
        total, free = float(found["total"]), float(found["free"])
        card = f"its card {found['card']}" if found["card"] else "a card"
        return total - free, f"of the {total:.1f} GiB of {card} only {free:.1f} GiB were free before it took any"
    if found := SGLANG.search(line):
        least, own = float(found["least"]), float(found["own"])
        return abs(own - least), f"one card had {least:.1f} GiB free, another {own:.1f} GiB"
    return None


def memory_words(about_memory: bool, clean: bool | None, shared: bool, line: str) -> str:
    """What the memory before the start says about this failure. ``clean``: every card was measured at its baseline,
    None if that is not known. ``shared``: some had co-tenants, and as much memory free as was to be needed.
    """
    told = held_by_others(line) if about_memory else None
    log_says = f"Its log says: {told[1]}." if told else ""
    if clean is None:
        return f"Whether the cards were free before this start is not known. {log_says}".strip()
    if not clean:
        return f"The cards were not at their baseline before this start: something else held memory. {log_says}".strip()
    if shared:
        words = "Before this start the shared cards had as much memory free as it was to need"
        return f"{words}: it took more than that. {log_says}".strip() if about_memory else f"{words}."
    if told and told[0] > LITTLE_GIB:
        return (
            f"{log_says} That contradicts what was measured just before the start, when every card was at its "
            "baseline: somebody took the memory in between, or it used a card that is not this deployment's."
        )
    if about_memory:
        return "The cards were at their baseline before the start: the model does not fit; nothing was left over."
    return "The cards were at their baseline before the start."


def fix_words(fix: str, *, about_memory: bool, clean: bool | None) -> str:
    """The usual fix; smaller flags help little while something else holds the memory."""
    if not about_memory or clean is not False:
        return fix
    return f"First free the cards: something else held memory. If it fails again on free cards: {fix}"
