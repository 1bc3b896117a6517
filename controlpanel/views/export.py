"""Rows as a file that other programs read: CSV or JSON, row by row, as they are stored."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from typing import Any, Literal

from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse

from controlpanel.views.streaming import streamed

Kind = Literal["csv", "json"]


def exported(
    request: HttpRequest,
    rows: QuerySet[Any],
    *,
    kind: Kind,
    name: str,
    columns: Sequence[str],
    values: Callable[[Any], Sequence[Any]],
) -> StreamingHttpResponse:
    """``rows`` as ``name.csv`` or ``name.json`` (a list of objects); ``values(row)`` in the order of ``columns``."""
    if kind == "csv":
        return streamed(
            request, rows, write=lambda row: csv_line(values(row)), name=f"{name}.csv", content_type="text/csv",
            head=csv_line(columns),
        )  # fmt: skip
    return streamed(
        request, rows, write=lambda row: _object(columns, values(row)), name=f"{name}.json",
        content_type="application/json", head="[\n", between=",\n", tail="\n]\n",
    )  # fmt: skip


def csv_line(values: Sequence[Any]) -> str:
    """One line of CSV in which no cell can be taken for a formula by a spreadsheet program."""
    line = io.StringIO()
    csv.writer(line).writerow([_harmless(value) for value in values])
    return line.getvalue()


def _harmless(value: object) -> str:
    text = "" if value is None else str(_plain(value))
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _object(columns: Sequence[str], values: Sequence[Any]) -> str:
    return json.dumps(dict(zip(columns, values, strict=True)), ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    """A moment in ISO form; of what is no text or number, its words."""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
