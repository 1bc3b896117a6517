"""The arithmetic in rows that a page can show. PURE."""

from __future__ import annotations

from dataclasses import dataclass

from deployments.fit.span import GIB, MIB, Span

FORMULA, MEASURED, FILES, FLAGS = "formula", "measured", "files", "flags"


@dataclass(frozen=True)
class Row:
    """``how``: the arithmetic in words, with its numbers. ``source``: where the value is from."""

    label: str
    value: str
    how: str = ""
    source: str = FORMULA


def size(amount: float) -> str:
    """Bytes in the unit that people compare them in."""
    if abs(amount) >= GIB / 10:
        return f"{amount / GIB:,.1f} GiB"
    return f"{amount / MIB:,.1f} MiB" if abs(amount) >= MIB / 10 else f"{amount:,.0f} bytes"


def sizes(span: Span) -> str:
    """With its bounds, where they differ in what is shown."""
    low, likely, high = size(span.low), size(span.likely), size(span.high)
    return likely if low == high else f"{likely} ({low} to {high})"


def tokens(count: float) -> str:
    """1.28 M, 328 K, 900."""
    if count >= 1e6:
        return f"{count / 1e6:.2f} M"
    return f"{count / 1e3:,.0f} K" if count >= 1e4 else f"{count:,.0f}"


def context(count: int) -> str:
    """128K for 131,072; other numbers in full."""
    return f"{count // 1024}K" if count >= 1024 and count % 1024 == 0 else f"{count:,}"


def requests(count: float) -> str:
    """One decimal below ten, where it decides; what is not quite one request is not called one."""
    if count < 1:
        return f"{int(count * 10) / 10:g}"
    return f"{count:.1f}".removesuffix(".0") if count < 9.95 else f"{int(count + 1e-9):,}"


def whole_requests(count: float) -> str:
    """Those that are served from their beginning to their end: whole ones. What is nearly one is none."""
    return f"{int(count + 1e-9):,}"


def request_words(count: float) -> str:
    """1 request, 22 requests, 0.6 requests."""
    if count < 1:
        return f"{requests(count)} requests"
    found = whole_requests(count)
    return f"{found} request{'' if found == '1' else 's'}"


def measured_or(span: Span) -> str:
    """The source of a value that is exact only when it was measured."""
    return MEASURED if span.is_exact else FORMULA
