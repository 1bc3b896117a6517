"""The colours that programs write into their text for a terminal. PURE."""

import re
from bisect import bisect_right
from collections.abc import Callable

COLOUR = re.compile(r"\x1b(?:\[[0-9;:?]{0,32}[ -/]{0,4}[@-~]|[()*+][ -~])")


def without_colours(text: str) -> tuple[str, Callable[[int], int]]:
    """Return the text that a terminal would show, and what tells where a place in it was."""
    colours = list(COLOUR.finditer(text)) if "\x1b" in text else []
    if not colours:
        return text, lambda at: at
    parts, starts, shifts, position, length = [], [0], [0], 0, 0
    for colour in colours:
        parts.append(text[position : colour.start()])
        length += colour.start() - position
        position = colour.end()
        starts.append(length)
        shifts.append(position - length)
    parts.append(text[position:])
    return "".join(parts), lambda at: at + shifts[bisect_right(starts, at) - 1]
