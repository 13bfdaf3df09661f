"""A status file that others have written: nothing in it can make a reader fail."""

from __future__ import annotations

import json
import math

import pytest

from gsched.daemon import status_file
from gsched.daemon.status_file import parse_status, read_status, silent_s

DURATION = {"mean": 60.0, "quantiles": [[0.1, 30.0], [0.9, 90.0]], "source": "s", "similar_jobs": 3}
REQUEST = {"token": "gs1{share}", "first_seen": 1000, "unknown": 0, "wants": {"shareable": True}}
WHOLE = {"version": 1, "as_of": 1000, "interval_s": 30.0}


def read(job, **head):
    document = WHOLE | head | {"jobs": {"7": {"submit_time": 1000, "state": "PENDING", **job}}}
    found = parse_status(json.dumps(document))
    return None if found is None else list(found["jobs"])


def test_what_the_daemon_writes_is_read():
    assert read({"duration_s": DURATION, "request": REQUEST}) == ["7"]
    wants = {"none": True, "deadline": 2000, "soft_deadlines": [[2000, 1.5]], "phases": ["eval"],
             "shareable": True, "checkpoint": True, "number": 3, "profiles": [41]}  # fmt: skip
    assert read({"request": REQUEST | {"wants": wants}}) == ["7"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_no_document_of_ours_has_such_numbers(value):
    assert read({"duration_s": DURATION | {"mean": value}}) is None
    assert read({"anything": [value]}) is None
    text = json.dumps({**WHOLE, "jobs": {}, "x": 5}).replace("5}", "1e999}")
    assert parse_status(text) is None


@pytest.mark.parametrize("value", [10**400, 2**37, -1, "60", None, []])
def test_a_mean_that_is_no_time_makes_the_answer_none(value):
    assert read({"duration_s": DURATION | {"mean": value}}) == []
    assert read({"submit_time": value}) == []
    assert read({}, as_of=value) is None


@pytest.mark.parametrize(
    "request_",
    [
        None,
        [],
        "gs1{share}",
        {},
        *({**REQUEST, "wants": wants} for wants in (
            None, [], {"deadline": "soon"}, {"deadline": [1]}, {"soft_deadlines": 5},
            {"soft_deadlines": [5]}, {"soft_deadlines": [[1, "x"]]}, {"phases": "eval"},
            {"phases": [5]}, {"none": "x"}, {"number": {}}, {"profiles": 4}, {"profiles": ["4"]},
        )),
        *({**REQUEST, key: {}} for key in ("token", "first_seen", "unknown")),
    ],
)  # fmt: skip
def test_a_request_of_another_shape_makes_the_answer_none(request_):
    assert read({"request": request_}) == []


def test_a_lease_of_another_shape_makes_the_answer_none():
    assert read({"lease": {"state": "granted", "since": 1000, "end_time": 4600}}) == ["7"]
    for lease in (None, [], {}, {"state": "granted"}, {"state": "granted", "since": "now"}):
        assert read({"lease": lease}) == []


def test_a_file_may_be_so_large_and_no_larger(tmp_path, monkeypatch):
    path = tmp_path / "status.json"
    path.write_text(json.dumps({**WHOLE, "jobs": {}}))
    monkeypatch.setattr(status_file, "MAX_BYTES", path.stat().st_size)
    assert read_status(path) is not None
    monkeypatch.setattr(status_file, "MAX_BYTES", path.stat().st_size - 1)
    assert read_status(path) is None


def test_a_daemon_is_silent_after_ten_rounds():
    assert silent_s(WHOLE, 1300) == 0
    assert silent_s(WHOLE, 1301) == 301
