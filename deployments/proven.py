"""What a proven launch ran with beside its flags, and what of that has moved since. PURE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Data = Mapping[str, Any]


def ran_with(*, effective: Data, requested: Data, model: Data, cards: Sequence[Data]) -> dict[str, Any]:
    """Of one launch, as it is kept; ``engine`` and ``image`` are empty where nobody told."""
    return {
        "engine": str(effective.get("version") or ""),
        "image": str((requested.get("container") or {}).get("image") or ""),
        "model": dict(model),
        "cards": [dict(card) for card in cards],
    }


def moved(then: Data, now: Data) -> list[str]:
    """What is not as it was, in sentences. What one of the two does not tell is not said to have moved."""
    found = []
    if _differ(then, now, "engine"):
        found.append(f"The engine was {then['engine']} when it was proven; it is {now['engine']} now.")
    if _differ(then, now, "image"):
        found.append(f"It was proven with the image {then['image']}; it is {now['image']} now.")
    was, is_now = then.get("model") or {}, now.get("model") or {}
    if was.get("path") == is_now.get("path") and _differ(was, is_now, "print"):
        found.append(f"The files of the model at {was['path']} are not those with which it was proven.")
    if then.get("cards") and now.get("cards") and _uuids(then) != _uuids(now):
        found.append(f"It was proven on {cards_in_words(then)}; it has {cards_in_words(now)} now.")
    return found


def not_known(kept: Data) -> list[str]:
    """What was not told when it was marked, in words: of that nobody can say whether it has moved."""
    model = kept.get("model") or {}
    found = [] if kept.get("engine") or kept.get("image") else ["the engine's version"]
    if not model.get("print"):
        reason = str(model.get("unknown") or "its model is not a path on the host").rstrip(".")
        found.append(f"the model's files ({reason})")
    return found


def cards_in_words(kept: Data) -> str:
    """``GPU 0, GPU 1 (NVIDIA L40S)``."""
    cards = kept.get("cards") or []
    names = ", ".join(dict.fromkeys(card["name"] for card in cards if card.get("name")))
    return ", ".join(card["label"] for card in cards) + (f" ({names})" if names else "")


def _differ(then: Data, now: Data, name: str) -> bool:
    return bool(then.get(name) and now.get(name) and then[name] != now[name])


def _uuids(kept: Data) -> list[str]:
    return sorted(card["uuid"] for card in kept["cards"])
