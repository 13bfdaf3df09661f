"""A fit as JSON: what is written is read, and anything else is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.shared import needs_shared
from support.shipped_fits import make

from gsched.app.synth_trace import Fitted
from gsched.errors import DataError
from gsched.model.job import JobState
from gsched.synth.columns import PastRun, trace_jobs
from gsched.synth.draw import draw
from gsched.synth.fit import Fit, parse_fit
from gsched.synth.measure import fit
from gsched.synth.shipped import SHIPPED, shipped


def test_reading_gives_back_what_was_written(site_fit: Fit) -> None:
    assert parse_fit(site_fit.text(), "x") == site_fit


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_fits_name_their_sources_and_licence(name: str) -> None:
    made = shipped(name)
    assert made.name == name
    assert any("github.com" in source for source in made.sources)
    assert any("Parallel Workloads Archive" in source for source in made.sources)
    assert made.people is not None
    assert made.people.names is not None
    assert len(draw(made, 1, days=2)) == round(2 * made.arrivals.jobs_a_day)


@needs_shared
def test_shipped_fits_are_what_their_traces_give(public: dict[str, Fitted]) -> None:
    assert {name: shipped(name) for name in SHIPPED} == make(public)


def test_a_fit_holds_no_user_job_name_or_single_job(site_fit: Fit) -> None:
    text = site_fit.text()
    assert "train" not in text
    assert '"u1' not in text
    assert "small" in text  # pools keep their names


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("version",), 2, "no fit of version 1"),
        (("unit",), "tpus", "is none of gpus, cpus"),
        (("arrivals", "by_hour"), [1.0] * 23, "24 weights are needed"),
        (("arrivals", "by_weekday"), [0.0] * 7, "not all 0"),
        (("arrivals", "jobs_a_day"), float("nan"), "nan is not between"),
        (("arrivals", "gap_s", "values"), [3.0, 1.0], "finite values"),
        (("classes",), [], "an empty list"),
        (("pools", 0, "sizes"), [], "a pool without jobs"),
        (("pools", 0, "duration_s"), [], "for each size class"),
        (("alike", "recipe"), 1.5, "1.5 is not between 0 and 1"),
        (("people", "num_users"), 0, "0 is not between 1"),
        (("states", 0), {"DONE": 1.0}, "DONE"),
        (("limits", "shares"), [[60, 0.0]], "shares that are all 0"),
    ],
)
def test_nonsense_is_named(site_fit: Fit, place: tuple[Any, ...], value: Any, words: str) -> None:
    document = json.loads(site_fit.text())
    target = document
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = value
    with pytest.raises(DataError, match=words):
        parse_fit(json.dumps(document), "site.json")


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_damaged_fit_is_refused_or_can_be_drawn(site_fit: Fit, data: st.DataObject) -> None:
    """Hostile files: any value replaced by any other never gives anything but DataError."""
    document = json.loads(site_fit.text())
    target, step = document, data.draw(st.sampled_from(sorted(document)))
    while isinstance(target[step], dict | list) and target[step] and data.draw(st.booleans()):
        target = target[step]
        keys = sorted(target) if isinstance(target, dict) else range(len(target))
        step = data.draw(st.sampled_from(list(keys)))
    target[step] = data.draw(
        st.none() | st.floats() | st.integers() | st.text() | st.lists(st.floats(), max_size=3)
    )
    try:
        read = parse_fit(json.dumps(document), "x")
    except DataError:
        return
    assert len(draw(read, 1, jobs=50, days=3.0)) == 50


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", "[" * 100_000, '{"version": 1}'])
def test_what_is_no_fit_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"x is no fit"):
        parse_fit(text, "x")


def run(**told: Any) -> PastRun:
    plain: dict[str, Any] = dict.fromkeys(PastRun._fields)
    plain |= {"cluster": "c", "submit_time": 0, "start_time": 0, "end_time": 10, "num_gpus": 1}
    plain |= {"state": JobState.COMPLETED, "state_text": ""}
    return PastRun(**(plain | told))


def test_two_jobs_are_the_fewest() -> None:
    one = fit(trace_jobs([run(), run(submit_time=5, start_time=5, end_time=9)]), "two", ())
    assert len(draw(one, 1, jobs=10)) == 10
    with pytest.raises(DataError, match="fewer than two jobs ran"):
        trace_jobs([run(), run(end_time=0), run(num_gpus=0), run(start_time=None)])


def test_what_cannot_be_is_left_out_and_counted() -> None:
    fine = [run(submit_time=t, start_time=t, end_time=t + 10) for t in (1, 2, 3)]
    odd = [
        run(submit_time=-5),
        run(start_time=5, end_time=2),
        run(end_time=2**60),
        run(num_gpus=2**61),
        run(num_gpus=-1),
        run(submit_time=2**62, start_time=2**62, end_time=2**62 + 5),
    ]
    jobs = trace_jobs([*odd, *fine])
    assert (len(jobs), jobs.left_out) == (3, len(odd))


def test_a_trace_without_gpus_is_fitted_by_cpus() -> None:
    told = [
        run(submit_time=t, start_time=t, end_time=t + 9, num_gpus=None, num_cpus=32)
        for t in range(0, 9_000, 30)
    ]
    made = fit(trace_jobs(told), "cpus", ())
    assert made.unit == "cpus"
    assert {s.size for s in made.pools[0].sizes} == {32}


def test_the_order_of_the_input_does_not_matter() -> None:
    told = [
        run(
            submit_time=t % 500,
            start_time=t % 500,
            end_time=t % 500 + 3 + t % 70,
            num_gpus=1 + t % 4,
        )
        for t in range(0, 5_000, 7)
    ]
    assert fit(trace_jobs(told), "a", ()) == fit(trace_jobs(told[::-1]), "a", ())
