"""A stage of a start, and by which text in the log it is known. PURE."""

from __future__ import annotations

import re
from dataclasses import dataclass

BAR = re.compile(r"\s(?P<done>\d{1,6})/(?P<total>\d{1,6})\b")
"""In a progress bar: ``41%|####      | 7/17 [00:01<00:02]``."""


@dataclass(frozen=True)
class Stage:
    """``texts``: the last of them in the log tells where the start is. ``count``: done and total, in the same line."""

    words: str
    texts: tuple[str, ...]
    count: re.Pattern[str] | None = None


def stage(words: str, *texts: str) -> Stage:
    """A stage without numbers."""
    return Stage(words, texts)


def counted(words: str, *texts: str) -> Stage:
    """A stage with a progress bar."""
    return Stage(words, texts, BAR)


DOWNLOADING = counted("downloading the model", "Fetching ", "Downloading shards:")
LOADING_SHARDS = counted("loading the weights", "checkpoint shards:", "loading shards:")
