"""Letters that chat programs and web pages put in place of those of a command line. PURE.

Between quotes they are somebody's text and stay. Outside, blanks that are none and letters that do not show are put
right, for there is one thing they can mean; quotes and dashes are named, for there are several.
"""

from __future__ import annotations

import re
import unicodedata

QUOTES = "“”„‟‘’‚‛«»‹›″′"
DASHES = "‐‑‒–—―−﹣－"
BLANKS = re.compile(r"[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
UNSEEN = re.compile(r"[\u200b-\u200f\u2060\ufeff\u00ad\u202a-\u202e\u2066-\u2069]")
LINE_ENDS = re.compile(r"[\u2028\u2029\u0085]")
PIECES = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.|[^'\"\\]+|.", re.S)
"""A quoted piece, or one between quotes. A quote that is not closed stands alone."""


def tidy(text: str) -> tuple[str, list[str]]:
    """The text with blanks and unseen letters outside its quotes put right, and sentences that say so."""
    notes: dict[str, None] = {}
    pieces = PIECES.findall(text)
    for place, piece in enumerate(pieces):
        if piece[0] in "'\"\\" and len(piece) > 1:
            continue
        right = LINE_ENDS.sub("\n", BLANKS.sub(" ", UNSEEN.sub("", piece)))
        for letter in dict.fromkeys(piece):
            if BLANKS.match(letter):
                notes[f"It held a {named(letter)}, as chat programs make it; a blank was put there."] = None
            elif UNSEEN.match(letter):
                notes[f"It held a letter that does not show ({named(letter)}); that was left out."] = None
        pieces[place] = right
    return "".join(pieces), list(notes)


def named(letter: str) -> str:
    """How people look a letter up: its name and number."""
    usual = {"\u00a0": "non-breaking space", "\ufeff": "byte order mark"}
    name = usual.get(letter, "") or unicodedata.name(letter, "without a name")
    return f"{name.lower()}, U+{ord(letter):04X}"


def trouble(letter: str, *, first: bool) -> str:
    """Why a letter outside quotes cannot be meant; empty where it can. ``first``: it begins its word."""
    if letter in QUOTES:
        return (
            f"{letter} is a typographic quote ({named(letter)}), as chat programs make it. Write ' or \" in its place, "
            "or put straight quotes around the word if it is really meant."
        )
    if first and letter in DASHES:
        return (
            f"{letter} at the beginning of a word is a typographic dash ({named(letter)}), as chat programs make it. "
            "Write - or -- in its place."
        )
    if unicodedata.category(letter) == "Cc":
        return f"The command holds a control character ({named(letter)}). Remove it."
    return ""
