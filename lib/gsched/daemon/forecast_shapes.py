"""Whether what a document says of a job's start has the shape of ``forecast_book``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gsched.daemon.forecast_book import KEYS
from gsched.daemon.shapes import is_number


def is_foreseen(job: dict[str, Any]) -> bool:
    """Whether all parts of a forecast that a job's document has are sound; it may have none."""
    for key in KEYS.intersection(job):  # noqa: SIM110 - a generator takes longer
        if not _PARTS[key](job[key]):
            return False
    return True


def _is_start(value: Any) -> bool:
    return (
        _is_interval(value)
        and is_number(value.get("as_of"))
        and is_number(value.get("coverage"))
        and is_number(value.get("calibrated_on"))
        and ("left_out" not in value or _is_list_of(value["left_out"], _is_text))
    )


def _is_next_free(value: Any) -> bool:
    return _is_interval(value) and _is_text(value.get("job")) and _is_text(value.get("nodes"))


def _is_changes(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and is_number(value.get("as_of"))
        and _is_list_of(value.get("tried"), _is_tried)
    )


def _is_tried(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and all(_is_text(value.get(key)) for key in ("kind", "option", "value"))
        and _is_interval(value.get("start"))
    )


def _is_advice(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and is_number(value.get("time_limit_s"))
        and is_number(value.get("probability"))
        and is_number(value.get("asked_s"))
    )


def _is_interval(value: Any) -> bool:
    return (  # each by itself: `queue` reads thousands of them before it shows anything
        isinstance(value, dict)
        and is_number(value.get("median"))
        and is_number(value.get("low"))
        and is_number(value.get("high"))
    )


def _is_list_of(value: Any, is_sound: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and all(map(is_sound, value))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_PARTS: dict[str, Callable[[Any], bool]] = {
    "start": _is_start,
    "no_start": _is_text,
    "next_free": _is_next_free,
    "changes": _is_changes,
    "limit_advice": _is_advice,
}
