"""What forecasts say of jobs in documents, and whether a document has that shape."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from gsched.daemon.forecast_book import NOTHING_FORESEEN, OFF, PENDING, Edition
from gsched.daemon.status_file import parse_status

INTERVAL = {"median": 2000, "low": 1900, "high": 2500}
START = {"as_of": 1000, **INTERVAL, "coverage": 0.8, "calibrated_on": 12, "left_out": ["licences"]}
TRIED = {"kind": "gpus", "option": "--gres=gpu:2", "value": "2", "start": INTERVAL}
WHOLE: dict[str, Any] = {
    "start": START,
    "no_start": "held",
    "next_free": {"job": "3", "nodes": "gn[1-2]", **INTERVAL},
    "changes": {"as_of": 900, "tried": [TRIED]},
    "limit_advice": {"time_limit_s": 3600, "probability": 0.98, "asked_s": 86400.0},
}
WAITS = {"submit_time": 10, "state": "PENDING"}


def test_a_waiting_job_has_what_is_known_of_its_attempt_or_why_nothing_is() -> None:
    edition = Edition(1, PENDING, {("7", 10): {"start": START}, ("8", 10): {"no_start": "held"}})
    assert edition.of(("7", 10)) == {"start": START}
    assert edition.of(("8", 10)) == {"no_start": "held"}
    assert edition.of(("7", 99)) == {"no_start": "pending"}  # another attempt
    assert edition.has_start(("8", 10))
    assert not edition.has_start(("7", 99))
    assert Edition(2, OFF).of(("7", 10)) == {"no_start": "off"}
    assert NOTHING_FORESEEN.of(("7", 10)) == {}


def test_a_newer_forecast_takes_the_place_of_what_a_document_had() -> None:
    edition = Edition(2, PENDING, {("7", 10): {"no_start": "held"}})
    assert edition.into("7", WAITS | WHOLE) == {**WAITS, "no_start": "held"}
    assert edition.into("7", {**WAITS, "state": "RUNNING", **WHOLE}) == {
        **WAITS,
        "state": "RUNNING",
    }
    assert edition.into("9", WAITS) == {**WAITS, "no_start": "pending"}


def read(parts: dict[str, Any]) -> list[str]:
    document = {"version": 1, "as_of": 1000, "interval_s": 30.0, "jobs": {"7": WAITS | parts}}
    found = parse_status(json.dumps(document))
    return [] if found is None else list(found["jobs"])


def test_what_the_daemon_says_is_read() -> None:
    assert read(WHOLE) == ["7"]
    assert read({}) == ["7"]
    for key, part in WHOLE.items():
        assert read({key: part}) == ["7"]
    assert read({"start": {k: v for k, v in START.items() if k != "left_out"}}) == ["7"]


def spoilt(value: Any) -> Iterator[Any]:
    """`value` with one thing in it made wrong, each in turn."""
    yield {"x": 1} if isinstance(value, str) else "x"
    yield None
    if isinstance(value, dict):
        for key in value:
            for wrong in spoilt(value[key]):
                yield {**copy.deepcopy(value), key: wrong}
    if isinstance(value, list):
        for index, item in enumerate(value):
            for wrong in spoilt(item):
                yield [*value[:index], wrong, *value[index + 1 :]]
    if isinstance(value, int | float):
        yield -1
        yield 2**37


@pytest.mark.parametrize("key", WHOLE)
def test_whatever_has_another_shape_is_no_answer(key: str) -> None:
    cases = list(spoilt(WHOLE[key]))
    assert len(cases) >= 2
    for wrong in cases:
        assert read({key: wrong}) == [], wrong
