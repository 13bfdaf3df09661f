"""What gsched changed: shown where it was planted, not shown where there is nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.history import CLUSTER, attempt, batch, pending
from support.impact import BEGIN, TURN_DAYS, jobs_of, make_history, settings_of
from support.journal import change, round_info

from gsched.app.impact import Control, ImpactReport, ReportQuery, impact_report
from gsched.app.impact_words import figure_rows, report_lines, signed
from gsched.config.settings import Settings
from gsched.errors import UsageError
from gsched.model.decision import Reason
from gsched.model.history import AttemptRecord
from gsched.model.job import JobKey, JobState
from gsched.model.journal import ChangeState
from gsched.model.times import DAY_S
from gsched_sql import History

NOTHING = 1.0
HALF = 0.5


def query(
    control: Control | None = None, since: int | None = None, until: int | None = None
) -> ReportQuery:
    return ReportQuery(since, until, control, 3600)


def told_of(settings: Settings, **facts: Any) -> dict[str, Any]:
    return impact_report(settings, query(**facts)).document()


def difference(document: dict[str, Any], metric: str = "queueing_mean_s") -> dict[str, Any]:
    return next(one for one in document["differences"] if one["metric"] == metric)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_of(tmp_path)


@pytest.mark.parametrize("seed", range(4))
def test_where_gsched_does_nothing_nothing_is_shown(settings: Settings, seed: int) -> None:
    make_history(settings, jobs_of(40, NOTHING, seed), 40)
    document = told_of(settings)
    assert document["verdict"] == "not-shown"
    told = difference(document)
    assert told["low"] <= 0 <= told["high"]


def test_differences_in_words() -> None:
    assert signed("queueing_mean_s", -90.4) == "−1:30"
    assert signed("queueing_mean_s", 3725) == "+1:02:05"
    assert signed("queueing_mean_s", -0.2) == "0:00"
    assert signed("long_wait_share", -0.031) == "−3.1 points"
    assert signed("bounded_slowdown_mean", 0.5) == "+0.50"
    assert signed("jct_mean_s", None) == "unknown"


@pytest.mark.parametrize(("factor", "verdict"), [(HALF, "shorter"), (2.0, "longer")])
def test_a_planted_effect_is_shown(settings: Settings, factor: float, verdict: str) -> None:
    make_history(settings, jobs_of(40, factor, 7), 40)
    document = told_of(settings)
    assert document["verdict"] == verdict
    told = difference(document)
    assert told["acting"] / told["control"] == pytest.approx(factor, rel=0.35)
    assert told["difference"] == told["acting"] - told["control"]
    assert told["low"] < told["difference"] < told["high"]
    assert (difference(document, "long_wait_share")["difference"] < 0) is (factor < 1)


def test_figures_are_those_of_the_jobs(settings: Settings) -> None:
    records = jobs_of(2 * TURN_DAYS, HALF, 3)
    make_history(settings, records, 2 * TURN_DAYS)
    document = told_of(settings)
    acting, control = document["arms"]
    last = BEGIN + TURN_DAYS * DAY_S
    own = [r for r in records if r.submit_time < last]
    waits = sorted(r.start_time - r.submit_time for r in own)
    assert acting["jobs"] == len(own)
    assert acting["gpu_jobs"] == sum(r.num_gpus > 0 for r in own)
    assert acting["length_s"] == TURN_DAYS * DAY_S == control["length_s"]
    assert acting["gpu_time_s"] == sum(r.num_gpus * (r.end_time - r.start_time) for r in own)
    assert difference(document)["acting"] == pytest.approx(sum(waits) / len(waits))
    assert difference(document, "queueing_median_s")["acting"] == waits[(len(waits) + 1) // 2 - 1]
    jct = [r.end_time - r.submit_time for r in own]
    assert difference(document, "jct_mean_s")["acting"] == pytest.approx(sum(jct) / len(jct))
    slow = [(r.end_time - r.submit_time) / (r.end_time - r.start_time) for r in own]
    assert difference(document, "bounded_slowdown_mean")["acting"] == pytest.approx(
        sum(slow) / len(slow)
    )
    long_waits = sum(wait > 3600 for wait in waits) / len(waits)
    assert difference(document, "long_wait_share")["acting"] == pytest.approx(long_waits)
    assert acting["submitted_jobs_a_day"] == acting["submitted_jobs"] / TURN_DAYS


def test_too_few_days_are_no_ground_for_a_claim(settings: Settings) -> None:
    make_history(settings, jobs_of(12, HALF, 3), 12)
    report = impact_report(settings, query())
    document = report.document()
    assert [arm["days"] for arm in document["arms"]] == [6, 6]
    assert document["verdict"] == "too-few-days"
    assert {one["low"] for one in document["differences"]} == {None}
    assert "6 days acting, 6 days of control; 7 of each are needed" in "\n".join(
        report_lines(report)
    )
    assert {row[-1] for row in figure_rows(report)} == {"", "unknown"}


def test_who_is_left_out_is_counted_by_reason(settings: Settings) -> None:
    turn = BEGIN + TURN_DAYS * DAY_S
    odd = [
        attempt(90_001, BEGIN - 5000, start_time=BEGIN - 4000),
        attempt(90_002, turn - 100, start_time=turn + 100, end_time=turn + 200),
        pending(90_003, BEGIN + 50),
        pending(90_004, BEGIN + 60),
        pending(90_006, BEGIN + 65, eligible_time=None),
        attempt(90_005, BEGIN + 70, start_time=None, end_time=BEGIN + 90, state=JobState.CANCELLED),
    ]
    make_history(settings, odd, 4 * TURN_DAYS)
    document = told_of(settings, since=BEGIN - DAY_S)
    assert {k: v for k, v in document["left_out"].items() if v} == {
        "outside": 1,
        "held": 1,
        "waiting": 2,
        "never-started": 1,
    }
    assert [arm["jobs"] for arm in document["arms"]] == [1, 0]
    assert [arm["crossing_jobs"] for arm in document["arms"]] == [1, 0]
    assert document["arms"][0]["crossing_queueing_mean_s"] == 200
    assert [arm["waiting_jobs"] for arm in document["arms"]] == [2, 0]
    so_far = document["as_of"] - BEGIN - 55
    assert document["arms"][0]["waiting_mean_s"] == so_far
    assert [arm["submitted_jobs"] for arm in document["arms"]] == [5, 0]


ALTERNATING_DAYS = 20
LONG_S = 30 * 3600


def alternating(factor: float, extra: int, held: int = 0) -> list[AttemptRecord]:
    """Days in turn, 2,000 jobs in each arm, those of acting days with `factor` times the wait; on
    acting days `extra` more, which wait for LONG_S, and on the last of them `held` more which have
    not started yet.
    """
    random = np.random.default_rng(1)
    found = []
    for day in range(ALTERNATING_DAYS):
        is_acting = day % 2 == 0
        waits = (3600 * random.lognormal(0, 0.5, 200) * (factor if is_acting else 1)).tolist()
        waits += [LONG_S] * (extra // 10 if is_acting else 0)
        waits += [None] * (held if day == ALTERNATING_DAYS - 2 else 0)
        for wait_s in waits:
            submit = BEGIN + day * DAY_S + int(random.uniform(0, DAY_S / 2))
            number = len(found) + 1
            if wait_s is None:
                found.append(pending(number, submit))
                continue
            start = submit + int(wait_s)
            found.append(attempt(number, submit, start_time=start, end_time=start + 600))
    return found


def alternating_report(settings: Settings, records: list[AttemptRecord]) -> ImpactReport:
    History.create(settings.database_url)
    with History.open(settings.database_url) as history:
        history.ingest(batch(*records), source_key=None)
        for day in range(ALTERNATING_DAYS + 1):
            mode = "act" if day % 2 == 0 else "control"
            history.spans(CLUSTER).note(mode, "qssf", BEGIN + day * DAY_S, DAY_S)
    return impact_report(settings, query())


def test_jobs_that_wait_beyond_their_arm_count_in_it(settings: Settings) -> None:
    """Most jobs wait half as long while gsched acts, and one in five of them for 30 hours."""
    report = alternating_report(settings, alternating(HALF, extra=540))
    document = report.document()
    acting, control = document["arms"]
    assert (acting["jobs"], control["jobs"]) == (2540, 2000)
    assert acting["crossing_jobs"] == 540
    assert acting["crossing_queueing_mean_s"] == LONG_S
    assert difference(document)["acting"] > LONG_S * 540 / 2540
    assert document["verdict"] == "longer"
    lines = "\n".join(report_lines(report))
    assert "with its whole time in the queue, also beyond that arm's end" in lines
    assert ("waited on beyond the arm's time", "540", "0", "", "") in figure_rows(report)


def test_jobs_that_still_wait_forbid_a_verdict_that_they_could_turn_round(
    settings: Settings,
) -> None:
    report = alternating_report(settings, alternating(HALF, extra=0, held=540))
    document = report.document()
    assert difference(document)["high"] < 0  # of those that have started
    assert document["arms"][0]["waiting_jobs"] == 540
    assert document["verdict"] == "unknown"
    assert document["bounds"][0]["case"] == "acting-worst"
    assert document["bounds"][0]["difference"] > 0
    assert "Nothing can be said of an effect yet: jobs that still wait" in "\n".join(
        report_lines(report)
    )


@pytest.mark.parametrize(("factor", "verdict"), [(NOTHING, "not-shown"), (HALF, "shorter")])
def test_a_few_that_still_wait_leave_a_clear_verdict(
    settings: Settings, factor: float, verdict: str
) -> None:
    report = alternating_report(settings, alternating(factor, extra=0, held=3))
    assert report.verdict == verdict


def test_times_are_those_that_were_asked_for(settings: Settings) -> None:
    make_history(settings, jobs_of(8, HALF, 3), 8)
    document = told_of(settings, since=BEGIN + DAY_S, until=BEGIN + 3 * DAY_S)
    assert [arm["length_s"] for arm in document["arms"]] == [DAY_S, DAY_S]
    assert [arm["days"] for arm in document["arms"]] == [1, 1]


@pytest.mark.parametrize(("factor", "verdict"), [(NOTHING, "not-shown"), (HALF, "shorter")])
def test_partitions_that_are_held_back_are_a_control(
    tmp_path: Path, factor: float, verdict: str
) -> None:
    settings = settings_of(tmp_path, control_partitions=("quiet",))
    make_history(settings, jobs_of(40, factor, 5, ("gpu", "quiet")), 40)
    report = impact_report(settings, query())
    document = report.document()
    assert (document["control"], document["verdict"]) == ("partitions", verdict)
    assert [arm["days"] for arm in document["arms"]] == [20, 20]
    assert any("Partitions differ" in line for line in report_lines(report))
    by_time = told_of(settings, control="time")
    assert by_time["arms"][0]["jobs"] == document["arms"][0]["jobs"]
    assert by_time["left_out"]["other-partition"] > 0


def test_a_control_that_is_none(settings: Settings) -> None:
    make_history(settings, [], 4)
    with pytest.raises(UsageError, match="no partitions are a control"):
        told_of(settings, control="partitions")


def test_a_daemon_that_only_observed(settings: Settings) -> None:
    History.create(settings.database_url)
    with History.open(settings.database_url) as history:
        for at in range(BEGIN, BEGIN + DAY_S + 1, 3600):
            history.spans(CLUSTER).note("observe", "qssf", at, DAY_S)
        journal = history.journal()
        journal.begin_round(round_info("r1", acting=False, started_at=BEGIN))
        journal.record("r1", [change("c1", 0, 40)], ChangeState.OBSERVED, BEGIN)
    report = impact_report(settings, query())
    document = report.document()
    assert document["verdict"] == "never-acted"
    assert (document["would_move"]["up"], document["moved"]["up"]) == (1, 0)
    lines = "\n".join(report_lines(report))
    assert "Nothing can be said of an effect: gsched has not acted" in lines
    assert "Observing, gsched would have moved 1 job up and 0 down." in lines


def test_a_daemon_that_has_acted_from_its_first_day(settings: Settings) -> None:
    History.create(settings.database_url)
    with History.open(settings.database_url) as history:
        history.spans(CLUSTER).note("act", "qssf", BEGIN, DAY_S, writes=3)
    document = told_of(settings)
    assert document["verdict"] == "no-control"
    assert document["modes"] == {"act": {"length_s": 0, "rounds": 1, "writes": 3}}


def test_what_was_written_is_told_with_whose_it_was(settings: Settings) -> None:
    make_history(settings, jobs_of(4, NOTHING, 3), 4)
    keys = [JobKey(CLUSTER, r.job_id, epoch=r.submit_time) for r in jobs_of(4, NOTHING, 3)[:4]]
    starving = Reason("starving", {})
    changes = [
        change("c1", 0, 40, key=keys[0]),
        change("c2", 40, -20, key=keys[0]),  # the last word on the first job
        change("c3", 0, 60, key=keys[1], reason=starving),
        change("c4", 60, 0, key=keys[1], takes_back=True),
        change("c5", 0, 10, key=keys[3]),
        change("c6", 0, 10, key=keys[2]),
    ]
    with History.open(settings.database_url) as history:
        journal = history.journal()
        journal.begin_round(round_info("r1", started_at=BEGIN))
        journal.record("r1", changes, ChangeState.INTENT, BEGIN + 1)
        ended = [(c.change_id, ChangeState.CONFIRMED, "") for c in changes[:5]]
        journal.settle([*ended, ("c6", ChangeState.REJECTED, "no")], BEGIN + 2)
        counts = {"qos": 3, "fairshare": 1, "pairs": 40}
        journal.end_round("r1", BEGIN + 3, {"inversions": counts}, {})
    report = impact_report(settings, query())
    document = report.document()
    assert document["changes"] == {"confirmed": 5, "rejected": 1}
    assert document["taken_back"] == 1
    assert (document["moved"]["up"], document["moved"]["down"]) == (2, 1)
    assert document["moved"]["users"] == [
        {"name": "u0", "up": 1, "down": 1, "mean_points": -5.0},
        {"name": "u1", "up": 1, "down": 0, "mean_points": 60.0},
    ]
    assert document["moved"]["accounts"][0]["name"] == "lab1"
    assert document["inversions"] == {"counts": 1, "last": counts, "greatest_share": 0.075}
    assert document["starving_jobs"] == 1
    lines = "\n".join(report_lines(report))
    assert "u0 1 up 1 down (-5 points)" in lines
    assert "against QOS 3, against fair-share 1 of 40 pairs" in lines
