"""What `why`, `queue` and `show` make of the daemon's forecast, from written status files."""

from __future__ import annotations

import grp
import json
import os
import pwd
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.queue import StandInSlurm, node, partition, row

from gsched.app import wiring
from gsched.app.queue import view_queue
from gsched.app.show import show_job
from gsched.app.why import Why, explain_job
from gsched.config.settings import Settings
from gsched.explain.start_words import clock
from gsched.model.cluster import PartitionView
from gsched.model.job import JobState
from gsched.slurm.records import SlurmConfig
from gsched_cli.show_rows import fact_rows

HOUR = 3600


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path)


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> StandInSlurm:
    made = StandInSlurm(row(9))
    monkeypatch.setattr("gsched.app.job.slurm_client", lambda _: made)
    return made


@pytest.fixture(autouse=True)
def noon(monkeypatch: pytest.MonkeyPatch) -> int:
    """The time of day is such that nothing here lies beyond midnight."""
    at = int(time.mktime((2026, 12, 2, 12, 0, 0, 0, 0, -1)))
    for module in ("wiring", "queue", "why", "show"):
        monkeypatch.setattr(f"gsched.app.{module}.now", lambda: at)
    return at


def start(median: int, low: int | None = None, high: int | None = None) -> dict[str, Any]:
    low, high = low or median - 600, high or median + 2100
    return {"as_of": wiring.now(), "median": median, "low": low, "high": high, "coverage": 0.8,
            "calibrated_on": 41}  # fmt: skip


def change(kind: str, option: str, value: str, median: int) -> dict[str, Any]:
    found = {"median": median, "low": median, "high": median + 60}
    return {"kind": kind, "option": option, "value": value, "start": found}


def tried(*changes: dict[str, Any]) -> dict[str, Any]:
    return {"as_of": wiring.now(), "tried": list(changes)}


def publish(settings: Settings, **answer: Any) -> None:
    job = {"submit_time": 1000, "state": "PENDING", **answer}
    head = {"version": 1, "cluster": "alpha", "policy": "qssf", "as_of": wiring.now(),
            "interval_s": 30, "acting": True}  # fmt: skip
    settings.status_file.write_text(json.dumps({**head, "jobs": {"9": job}}))


def what(answer: Why) -> dict[str, str]:
    return {line.what: line.words for line in answer.lines}


def at(epoch: int) -> str:
    return clock(epoch, wiring.now())


def test_the_whole_answer(settings, slurm, noon):
    slurm.rows = (row(9, start_time=noon + 20 * HOUR), row(8, priority=5, user="bob"))
    slurm.rows += (row(7, state=JobState.RUNNING, end_time=noon + 9 * HOUR, node_list="n1"),)
    expected = start(noon + 2 * HOUR)
    free = {"job": "7", "nodes": "n1", "median": noon + HOUR, "low": noon, "high": noon + 2 * HOUR}
    changes = (
        change("time-limit", "--time=3:00:00", "10800", noon + HOUR),
        change("gpus", "--gres=gpu:2", "2", noon),
        change("gpus", "--gres=gpu:7", "7", noon + 2 * HOUR),
    )
    advice = {"time_limit_s": 10800, "probability": 0.98, "asked_s": 172_800}
    publish(
        settings, start=expected, next_free=free, changes=tried(*changes), limit_advice=advice
    )  # fmt: skip
    answer = explain_job(settings, "9")
    lines = what(answer)
    assert lines["next to free"] == "n1: 7 should end 13:00 (80 %: now–14:00)"
    assert "next to end" not in lines
    assert lines["expected start"] == (
        "14:00 (80 %: 13:50–14:35); Slurm's own estimate: Thu 08:00 (reckons with time limits)"
    )
    assert lines["would help"] == (
        "--gres=gpu:2 → now; --time=3:00:00 → 13:00 (long enough with probability 0.98)"
    )
    assert "Slurm expects" not in lines
    document = answer.document()
    assert document["expected_start"] == expected
    assert (document["no_start"], document["next_to_free"]) == (None, free)
    assert [c["option"] for c in document["would_help"]] == ["--gres=gpu:2", "--time=3:00:00"]
    assert document["would_help"][0] == changes[1]
    assert document["limit_advice"] == advice
    assert document["slurm_start_time"] == noon + 20 * HOUR
    assert document["gsched"]["changes"]["tried"] == list(changes)


def test_without_a_daemon_slurms_own_estimate_stays(settings, slurm, noon):
    slurm.rows = (row(9, start_time=noon + HOUR),)
    answer = explain_job(settings, "9")
    (line,) = [line for line in answer.lines if line.what == "Slurm expects"]
    assert line.at == noon + HOUR
    assert not {"expected start", "would help", "next to free"} & set(what(answer))
    document = answer.document()
    told = [document[k] for k in ("expected_start", "no_start", "next_to_free", "limit_advice")]
    assert (told, document["would_help"]) == ([None] * 4, [])


def test_what_can_never_start_says_so_first_whatever_was_forecast(settings, slurm, noon):
    slurm.rows = (row(9, num_gpus=99, start_time=noon + HOUR),)
    helps = change("gpus", "--gres=gpu:2", "2", noon)
    publish(settings, start=start(noon + HOUR), changes=tried(helps))
    answer = explain_job(settings, "9")
    assert answer.verdict == "never"
    assert answer.lines[0].words.startswith("9 can never start: it asks for 99 GPUs")
    assert not {"expected start", "would help", "Slurm expects"} & set(what(answer))
    document = answer.document()
    assert (document["expected_start"], document["no_start"]) == (None, "never")
    assert document["would_help"] == []


def test_a_held_job_has_no_start_whatever_was_forecast(settings, slurm, noon):
    slurm.rows = (row(9, priority=0, reason="JobHeldUser"),)
    publish(settings, start=start(noon + HOUR))
    answer = explain_job(settings, "9")
    assert "expected start" not in what(answer)
    document = answer.document()
    assert (document["expected_start"], document["no_start"]) == (None, "held")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("dependency", "nobody knows when the jobs that it depends on will have ended"),
        ("beyond-horizon", "it lies beyond what the forecast looks ahead"),
        ("of-a-later-version", "of-a-later-version"),
    ],
)
def test_why_there_is_no_forecast(settings, slurm, noon, code, words):
    slurm.rows = (row(9, start_time=noon + HOUR),)
    publish(settings, no_start=code)
    answer = explain_job(settings, "9")
    own = f"Slurm's own estimate: {at(noon + HOUR)} (reckons with time limits)"
    assert what(answer)["expected start"] == f"not known: {words}; {own}"
    assert answer.document()["no_start"] == code


def test_where_forecasts_are_switched_off_slurms_own_estimate_stays(settings, slurm, noon):
    slurm.rows = (row(9, start_time=noon + HOUR),)
    publish(settings, no_start="off")
    lines = {line.what: line.at for line in explain_job(settings, "9").lines}
    assert lines["Slurm expects"] == noon + HOUR
    assert "expected start" not in lines


def test_the_earliest_start_that_was_asked_for_is_no_estimate_of_slurms(settings, slurm, noon):
    slurm.rows = (row(9, reason="BeginTime", start_time=noon + HOUR),)
    publish(settings, start=start(noon + 2 * HOUR))
    lines = what(explain_job(settings, "9"))
    assert lines["not before"] == "its earliest start"
    assert lines["expected start"] == "14:00 (80 %: 13:50–14:35)"


def test_that_nothing_helps_is_said_when_something_was_tried(settings, slurm, noon):
    publish(settings, start=start(noon + HOUR), changes=tried())
    assert "would help" not in what(explain_job(settings, "9"))
    late = [change("gpus", f"--gres=gpu:{n}", str(n), noon + HOUR) for n in (1, 2)]
    publish(settings, start=start(noon + HOUR), changes=tried(*late))
    answer = explain_job(settings, "9")
    told = "nothing that was tried (--gres=gpu:1, --gres=gpu:2)"
    assert what(answer)["would help"] == told
    assert answer.document()["would_help"] == []


def test_an_array_is_forecast_by_the_part_that_is_explained(settings, slurm, noon):
    slurm.rows = (
        row(9, is_unsplit_array=True, array_tasks="4-9", reason="JobArrayTaskLimit"),
        row(702, job_id=9, array_task=2, reason="Resources"),
    )
    job = {"submit_time": 1000, "state": "PENDING", "start": start(noon + HOUR)}
    publish(settings)
    document = json.loads(settings.status_file.read_text())
    settings.status_file.write_text(json.dumps(document | {"jobs": {"9_2": job}}))
    answer = explain_job(settings, "9")
    assert what(answer)["expected start"] == "13:00 (80 %: 12:50–13:35)"
    assert answer.document()["expected_start"]["median"] == noon + HOUR


# -- changes that the user could not make -------------------------------------------------------


OTHER = "--partition=other"


def helpful(settings: Settings, slurm: StandInSlurm, other: PartitionView) -> list[str]:
    moved = change("partition", OTHER, "other", wiring.now())
    publish(settings, start=start(wiring.now() + HOUR), changes=tried(moved))
    slurm.partitions = lambda: (partition(), other)  # type: ignore[method-assign]
    nodes = node("n1"), node("n2"), node("n3", partition="other")
    slurm.nodes = lambda: nodes  # type: ignore[method-assign]
    found = explain_job(settings, "9").document()["would_help"]
    return [str(c["option"]) for c in found]


ASSOCIATIONS = {"ClusterName": "alpha", "AccountingStorageType": "accounting_storage/slurmdbd",
                "AccountingStorageEnforce": "associations,limits"}  # fmt: skip


class Record:
    """An association, as far as accounts go."""

    qos = ""

    def __init__(self, account: str) -> None:
        self.account = account


@pytest.mark.parametrize(
    ("facts", "takes"),
    [
        ({}, True),
        ({"allow_qos": ("normal",)}, True),
        ({"allow_qos": ("high",)}, False),
        ({"deny_qos": ("normal",)}, False),
        ({"allow_accounts": ("lab1",)}, True),
        ({"allow_accounts": ("lab2",)}, False),
        ({"deny_accounts": ("lab1",)}, False),
        ({"max_time_s": 60}, True),
        ({"max_time_s": 59}, False),
        ({"max_nodes": 0}, False),
        ({"is_up": False}, False),
        ({"nodes": ("n3", "n4")}, True),  # a node that is not shown silences the answer
        ({"name": "another"}, False),  # hidden from this user
    ],
)
def test_a_partition_that_does_not_take_the_job_helps_nobody(
    settings, slurm, monkeypatch, facts, takes
):
    monkeypatch.setattr(slurm, "config", lambda: SlurmConfig(ASSOCIATIONS))
    records = [Record("root"), Record("lab1")]
    monkeypatch.setattr(slurm, "limits", lambda *_: records, raising=False)
    monkeypatch.setattr(slurm, "qos_flags", lambda _: frozenset(), raising=False)
    whole = {"nodes": ("n3",), "name": "other"} | facts
    other = PartitionView(is_default=False, **({"is_up": True} | whole))
    assert helpful(settings, slurm, other) == ([OTHER] if takes else [])


def test_a_partition_whose_nodes_are_too_small_helps_nobody(settings, slurm):
    slurm.rows = (row(9, num_gpus=9, min_nodes=2, max_nodes=2),)
    assert helpful(settings, slurm, partition("other", ("n3",))) == []


def test_the_groups_of_a_partition_are_those_of_the_jobs_user(settings, slurm):
    user = pwd.getpwuid(os.getuid()).pw_name
    slurm.rows = (row(9, user=user),)
    mine = grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name
    groups = {(mine, "nobody-s"): [OTHER], ("nobody-s",): []}
    for allowed, found in groups.items():
        closed = replace(partition("other", ("n3",)), allow_groups=allowed)
        assert helpful(settings, slurm, closed) == found
    slurm.rows = (row(9, user="no-such-user"),)
    assert (
        helpful(settings, slurm, replace(partition("other", ("n3",)), allow_groups=(mine,))) == []
    )


# -- queue and show ------------------------------------------------------------------------------


DURATION = {"mean": 3000.0, "quantiles": [[0.1, 1500.0], [0.5, 2400.0], [0.9, 4200.0]],
            "source": "similar-name", "similar_jobs": 31}  # fmt: skip


def test_the_queue_has_the_expected_start_and_the_median_run(settings, slurm, noon):
    expected = start(noon + HOUR)
    publish(settings, start=expected, duration_s=DURATION)
    view = view_queue(settings, [row(9), row(10)], {}, "alpha")
    with_it, without = (job.document() for job in view.jobs)
    keys = ("expected_start_time", "expected_low_time", "expected_high_time", "no_start")
    told = [noon + HOUR, noon + HOUR - 600, noon + HOUR + 2100, None]
    assert [with_it[k] for k in keys] == told
    assert [without[k] for k in keys] == [None] * 4
    predicted = ("predicted_duration_s", "predicted_low_s", "predicted_high_s")
    assert [with_it[k] for k in predicted] == [2400.0, 1500.0, 4200.0]
    (held,) = view_queue(settings, [row(9, priority=0)], {}, "alpha").jobs
    assert held.document()["expected_start_time"] is None
    assert view.jobs[0].mean_duration_s == 3000.0  # what is ahead is summed by means


def test_what_is_ahead_is_summed_by_means(settings, slurm):
    publish(settings, duration_s=DURATION)
    slurm.rows = (row(9, priority=5), row(10))
    ahead = explain_job(settings, "10").document()["ahead"]
    assert ahead["predicted_gpu_time_s"] == 2 * 3000.0


def test_show_tells_all_that_was_tried(settings, slurm, noon):
    helps = change("gpus", "--gres=gpu:2", "2", noon)
    late = change("time-limit", "--time=30:00", "1800", noon + HOUR)
    free = {"job": "7", "nodes": "n1", "median": noon + HOUR, "low": noon, "high": noon + 2 * HOUR}
    publish(
        settings, start=start(noon + HOUR), next_free=free, changes=tried(helps, late),
        duration_s=DURATION,
        limit_advice={"time_limit_s": 1800, "probability": 0.9, "asked_s": 7200},
    )  # fmt: skip
    shown = fact_rows(show_job(settings, "9"))
    rows = dict(shown)
    assert rows["gsched expects start"] == "13:00 (80 %: 12:50–13:35)"
    assert rows["gsched interval"] == "corrected by 41 earlier forecasts"
    assert rows["next to free"] == "n1: 7 should end 13:00 (80 %: now–14:00)"
    assert [value for name, value in shown if name == "gsched tried"] == [
        "--gres=gpu:2 → now",
        "--time=30:00 → 13:00 (long enough with probability 0.90)",
    ]
    assert rows["limit advice"] == "30:00, long enough with probability 0.90"
    assert rows["gsched predicts"] == (
        "40:00 (80 %: 25:00–1:10:00, from 31 similar jobs of this user)"
    )
    assert not any("median" in value or "{" in value for value in rows.values())
    publish(settings, no_start="held")
    assert dict(fact_rows(show_job(settings, "9")))["gsched expects start"] == (
        "not known: it is held"
    )
