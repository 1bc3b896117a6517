"""Masks whole texts, command lines and data. PURE."""

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from controlpanel.masking.colours import without_colours
from controlpanel.masking.names import PROSE, counts, is_secret_name
from controlpanel.masking.places import MASK, Secret, blocks, hidden, in_lines
from controlpanel.masking.values import NOTHING, NUMBER

SHORTEST_KNOWN = 4
MOST_PASSES = 8  # what a mask has made shorter may look otherwise; the second pass mostly finds nothing

_SIMPLE_NAME = re.compile(r"-*+[A-Za-z0-9_.][A-Za-z0-9_.-]*+")
_NAMING = ("name", "flag", "option", "variable", "header", "key")


def as_written(secret: str) -> set[str]:
    """A known secret in the ways in which programs write it: plain, in Python's and JSON's quotes, in an address, in
    base64.
    """
    plain = secret.encode(errors="surrogateescape")
    return {
        secret,
        repr(secret)[1:-1],
        json.dumps(secret)[1:-1],
        quote(plain, safe=""),
        base64.b64encode(plain).decode().rstrip("="),
        base64.urlsafe_b64encode(plain).decode().rstrip("="),
    }


def mask_text(text: str, *, known: Iterable[str] = ()) -> str:
    """Return `text` without secrets; text that holds none comes back unchanged."""
    text = _mask_known(text, known=usable(known))
    for _ in range(MOST_PASSES):
        masked = hidden(text, blocks(text))
        masked = hidden(masked, in_lines(masked))
        if masked == text:
            break
        text = masked
    return text


def mask_argv(argv: Sequence[str], *, known: Iterable[str] = ()) -> list[str]:
    """Return a command line whose secret values are masked: of `--api-key VALUE ...`, `--api-key=VALUE` and
    `NAME=VALUE`.
    """
    known, masked = usable(known), []
    option, values = "", 0  # the secret's option that is open, and how many values it has had
    for word in argv:
        name, equals, value = word.partition("=")
        named = _SIMPLE_NAME.fullmatch(name) is not None and is_secret_name(name)
        if option and not (values and word.startswith("-")):
            masked.append(word if counts(option) and NUMBER.fullmatch(word) else MASK)
            values += 1
            continue
        option, values = "", 0
        if equals and named and not (counts(name) and NUMBER.fullmatch(value)):
            masked.append(f"{name}={MASK}")
        else:
            masked.append(mask_text(word, known=known))
            option = word if word.startswith("-") and not equals and named else ""
    return masked


def mask_values(value: Any, *, known: Iterable[str] = ()) -> Any:
    """Return plain data (dicts, lists, text, numbers) with the secrets in it masked; sets become sorted
    lists.

    What stands under a secret's name is masked whole, and so is what stands beside it: the value of
    {"name": "HF_TOKEN", "value": ...} and of ["HF_TOKEN", ...].
    """
    known = usable(known)
    if isinstance(value, Mapping):
        members = {str(name): member for name, member in value.items()}
        naming = next((name for name in _NAMING if _names_secret(members.get(name))), "")
        return {
            name: mask_values(member, known=known)
            if name == naming
            else _mask_member(members[naming] if naming else name, member, known=known)
            for name, member in members.items()
        }
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple):
        if len(value) == 2 and _names_secret(value[0]):
            return [mask_text(value[0], known=known), _mask_member(value[0], value[1], known=known)]
        if all(isinstance(word, str) for word in value):
            return mask_argv(value, known=known)
        return [mask_values(member, known=known) for member in value]
    return mask_text(value, known=known) if isinstance(value, str) else value


def _names_secret(value: Any) -> bool:
    """Whether a text is a secret's name, such as HF_TOKEN, HF_TOKEN= or --api-key."""
    if not isinstance(value, str) or not _SIMPLE_NAME.fullmatch(value.removesuffix("=")):
        return False
    return is_secret_name(value) and value.lower() not in PROSE


def _mask_member(name: str, value: Any, *, known: Sequence[str]) -> Any:
    if is_secret_name(name) and _holds_something(value, counts=counts(name)):
        return MASK
    return mask_values(value, known=known)


def _holds_something(value: Any, *, counts: bool) -> bool:
    """Whether there is more in a secret's value than nothing, yes and no; or than numbers, if it `counts`."""
    if isinstance(value, Mapping):
        return any(_holds_something(member, counts=counts) for member in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return any(_holds_something(member, counts=counts) for member in value)
    if value is None or isinstance(value, bool):
        return False
    if isinstance(value, int | float):
        return not counts
    return not isinstance(value, str) or not NOTHING.fullmatch(value)


def usable(known: Iterable[str]) -> tuple[str, ...]:
    """Return the known secrets worth looking for, longest first, so that one inside another does not leave
    a rest.
    """
    if isinstance(known, tuple):
        return known if all(len(secret) >= SHORTEST_KNOWN for secret in known) else usable(list(known))
    return tuple(sorted({secret for secret in known if len(secret) >= SHORTEST_KNOWN}, key=lambda s: (-len(s), s)))


def _mask_known(text: str, *, known: Sequence[str]) -> str:
    for secret in known:
        text = text.replace(secret, MASK)
    plain, place = without_colours(text)
    if plain is text:
        return text
    found: list[Secret] = []
    for secret in known:  # a colour may stand inside
        at = plain.find(secret)
        while at >= 0:
            found.append(Secret(place(at), place(at), place(at + len(secret) - 1) + 1))
            at = plain.find(secret, at + len(secret))
    return hidden(text, found)
