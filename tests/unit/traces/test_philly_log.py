"""Philly's log as published: jobs with attempts in JSON. The jobs here are made up."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.traces import read_bytes

from gsched.errors import DataError
from gsched.model.job import JobState
from gsched.model.trace import ReadOptions
from gsched.traces import philly


def epoch(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def run(start: str | None, end: str | None, **servers: int) -> dict[str, Any]:
    detail = [{"ip": ip, "gpus": [f"gpu{i}" for i in range(n)]} for ip, n in servers.items()]
    return {"start_time": start, "end_time": end, "detail": detail}


def job(status: str, *attempts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "status": status, "vc": "ee9", "jobid": "application_1", "attempts": list(attempts),
        "submitted_time": "2017-10-07 01:00:00", "user": "ce2", **more,
    }  # fmt: skip


def test_attempts_of_a_job_belong_together() -> None:
    first = run("2017-10-07 01:01:00", "2017-10-07 01:02:00", m47=8)
    last = run("2017-10-07 01:02:30", "2017-10-07 05:00:00", m47=4, m412=4)
    read = read_bytes("philly", "\n" + json.dumps([job("Pass", first, last, tag=7)], indent=1))
    assert [(r.state, r.state_text, r.restarts) for r in read.records] == [
        (JobState.REQUEUED, "", 0),
        (JobState.COMPLETED, "Pass", 1),
    ]
    assert [r.submit_time for r in read.records] == [
        epoch("2017-10-07 01:00:00"), epoch("2017-10-07 01:02:00"),
    ]  # fmt: skip
    assert len({(r.cluster, r.job_id, r.source_id) for r in read.records}) == 1
    done = read.records[1]
    assert (done.user, done.tenant, done.num_gpus, done.num_nodes, done.node_list) == (
        "ce2", "ee9", 8, 2, "m47,m412",
    )  # fmt: skip
    assert json.loads(done.extra or "") == {"tag": "7"}


def test_attempts_of_no_length_stay_and_each_has_a_time_of_its_own() -> None:
    at = "2017-10-07 01:00:00"
    read = read_bytes("philly", json.dumps([job("Pass", run(at, at), run(at, at), run(at, None))]))
    first = epoch(at)
    assert read.rejects == []
    assert [r.submit_time for r in read.records] == [first, first + 1, first + 2]
    assert [r.start_time for r in read.records] == [first, first + 1, first + 2]
    assert [r.end_time for r in read.records] == [first, first + 1, None]


def test_attempts_in_no_order_are_rejected() -> None:
    late, early = (
        run("2017-10-07 03:00:00", "2017-10-07 04:00:00"),
        run("2017-10-07 02:00:00", None),
    )
    read = read_bytes("philly", json.dumps([job("Pass", late, late, early)]))
    assert [reject.line for reject in read.rejects] == [1]


def test_times_that_come_twice_are_put_in_order() -> None:
    """On 5 November 2017 California's clocks go from 02:00 back to 01:00, at 09:00 UTC."""
    runs = [run("2017-11-05 01:50:00", "2017-11-05 01:20:00"), run("2017-11-05 01:30:00", None)]
    told = job("Pass", *runs, submitted_time="2017-11-05 01:40:00")
    zone = ZoneInfo("America/Los_Angeles")
    read = read_bytes("philly", json.dumps([told]), timezone=zone)
    assert read.rejects == []
    nine = epoch("2017-11-05 09:00:00")
    assert [(r.submit_time - nine, r.start_time - nine) for r in read.records] == [
        (-1200, -600),
        (1200, 1800),
    ]  # fmt: skip
    assert read.records[0].end_time == nine + 1200


def test_jobs_that_never_ran_and_jobs_that_still_run() -> None:
    jobs = [job("Killed"), job("Failed", run("2017-10-07 01:01:00", "None", m1=1))]
    waited, running = read_bytes("philly", json.dumps(jobs)).records
    assert (waited.state, waited.start_time, waited.num_gpus) == (JobState.CANCELLED, None, None)
    assert (running.state, running.state_text, running.end_time) == (
        JobState.RUNNING,
        "Failed",
        None,
    )


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (5, "not an object"),
        ({}, "no jobid"),
        (job("Pass", submitted_time="soon"), "submitted_time: not a time"),
        (job("Pass", run("2017-10-07 00:59:59", None)), "starts before"),
        (job("Pass", run("2017-10-07 01:59:59", "2017-10-07 01:59:58")), "ends before"),
        (job("Pass", attempts={}) | {"attempts": 3}, "not a list"),
        (job("Pass", user=3), "user: not a text"),
        (job("Pass", {"detail": [{"ip": "m", "gpus": 3}]}), "gpus is not a list"),
    ],
)
def test_what_is_no_job_is_rejected_with_its_place(wrong: Any, reason: str) -> None:
    read = read_bytes("philly", json.dumps([job("Pass"), wrong, job("Killed")]), chunk_rows=2)
    (reject,) = read.rejects
    assert (reject.source, reject.line) == ("philly:t.csv", 2)
    assert reason in reject.reason
    assert (len(read.records), read.rows_in) == (2, 3)


def test_a_log_that_ends_early_is_an_error_that_names_the_file() -> None:
    text = json.dumps([job("Pass"), job("Killed")])
    chunks = philly.read(io.BytesIO(text[:-1].encode()), ReadOptions("t.csv"))
    assert next(chunks).attempts.count == 2
    with pytest.raises(DataError, match=r"t\.csv: .*ends"):
        next(chunks)


values = st.recursive(
    st.none() | st.text(max_size=4) | st.integers() | st.just("2017-10-07 01:00:00"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["start_time", "end_time", "detail", "ip", "gpus"]), inner
        )
    ),
    max_leaves=8,
)


@given(st.lists(st.dictionaries(st.sampled_from(list(job("Pass"))), values), max_size=4))
def test_any_objects_are_attempts_or_rejects(jobs: list[dict[str, Any]]) -> None:
    read = read_bytes("philly", json.dumps([job("Pass"), *jobs]))
    assert len({reject.line for reject in read.rejects}) == len(read.rejects)
    assert len(read.records) + len(read.rejects) == read.rows_in >= len(jobs) + 1
    for record in read.records:
        "".join(filter(None, (record.user, record.tenant, record.node_list))).encode()
