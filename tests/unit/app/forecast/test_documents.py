"""What of an answer is told of each job, and what is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from support.queue import node, row
from support.scenes import NOW, predicted, running, scene, view_of

from gsched.app.forecast.documents import changes_tried, documents, kept_forecasts
from gsched.app.forecast.messages import Answer, Tried
from gsched.app.forecast.situation import Scene
from gsched.forecast.outlook import (
    NEVER_FITS,
    ChangedStart,
    Interval,
    NextFree,
    NoStart,
    Outlook,
    Start,
)
from gsched.model.job import JobView, Prediction, PredictionKind

HORIZON_S = 7 * 86400.0
SHOWN, RAW = Interval(NOW + 60.4, NOW - 5.0, NOW + 90.0), Interval(NOW + 50.0, NOW, NOW + 70.0)
FREE = NextFree("3", ("gn1", "gn2"), 8, Interval(NOW + 10.0, NOW + 5.0, NOW + 20.0))
ATTEMPT = ("7", 1000)


def scene_with(*facts: dict[str, Any], **cluster: Any) -> tuple[Scene, dict[str, JobView]]:
    """The scene of job 7 and others, and all that wait."""
    jobs = [(row(7, time_limit_s=86400), predicted(100.0))]
    jobs += [(row(**{"raw_id": 8, **more}), predicted(100.0)) for more in facts]
    found = scene([(row(**running(3, "gn1", user="bob")), None), *jobs], **cluster)
    return found, {view.key.slurm_id: view for view in (view_of(*job) for job in jobs)}


def answer(*starts: Start, **parts: Any) -> Answer:
    outlook = Outlook(float(NOW), 32, 0, 0.8, starts, (), (FREE,))
    outlook = replace(outlook, **parts)
    return Answer(outlook, (), 1.0, 0.5)


def told(
    found: Answer, seen: tuple[Scene, dict[str, JobView]], owners: Any = None, changes: Any = None
) -> dict[tuple[str, int], dict[str, Any]]:
    return documents(found, *seen, changes or {}, HORIZON_S, owners)


def test_a_start_is_told_in_whole_seconds_and_never_before_now() -> None:
    found = told(answer(Start("7", SHOWN, RAW, 40, 0)), scene_with())
    assert found == {
        ATTEMPT: {
            "start": {
                "as_of": NOW, "median": NOW + 60, "low": NOW, "high": NOW + 90,
                "coverage": 0.8, "calibrated_on": 40,
            },
            "next_free": {
                "job": "3", "nodes": "gn[1-2]",
                "median": NOW + 10, "low": NOW + 5, "high": NOW + 20,
            },
            "limit_advice": {"time_limit_s": 240, "probability": 0.98, "asked_s": 86400},
        }
    }  # fmt: skip


def test_what_is_left_out_of_account_is_said() -> None:
    seen = scene_with({"licences": "matlab"})
    found = told(answer(Start("8", SHOWN, RAW)), seen)
    assert found["8", 1000]["start"]["left_out"] == ["licences"]


def test_who_cannot_start_has_a_reason_and_no_start() -> None:
    seen = scene_with({"priority": 0}, {"raw_id": 9, "num_gpus": 99})
    later = Start("7", Interval(NOW + HORIZON_S, NOW, NOW + HORIZON_S), RAW)
    found = told(answer(later, no_starts=(NoStart("9", NEVER_FITS),)), seen)
    assert {name: doc for (name, _), doc in found.items()} == {
        "7": {"no_start": "beyond-horizon"},
        "8": {"no_start": "held"},
        "9": {"no_start": "never"},
    }


def test_who_does_not_fit_while_nodes_are_down_is_not_lost() -> None:
    nodes = [node("gn1"), replace(node("gn2"), state="down")]
    seen = scene_with(nodes=nodes)
    found = told(answer(no_starts=(NoStart("7", NEVER_FITS),)), seen)
    assert found == {ATTEMPT: {"no_start": "unknown-nodes"}}


def test_other_tasks_of_an_array_are_nobody() -> None:
    assert told(answer(Start("7#1", SHOWN, RAW)), scene_with()) == {}


def test_where_jobs_are_hidden_others_are_not_named() -> None:
    start = answer(Start("7", SHOWN, RAW, 0, 0))
    assert "next_free" in told(start, scene_with(), {"3": "alice"})[ATTEMPT]
    for owners in ({"3": "bob"}, {}):
        assert "next_free" not in told(start, scene_with(), owners)[ATTEMPT]


def test_changes_that_were_tried_are_told_with_their_time() -> None:
    tried = (
        ChangedStart("gpus", "--gres=gpu:1", "1", SHOWN),
        ChangedStart("partition", "--partition=x", "x", None),  # it would never fit there
    )
    seen = scene_with()
    found = replace(answer(Start("7", SHOWN, RAW)), tried=(Tried("7", tried), Tried("55", tried)))
    changes = changes_tried(found, seen[0])
    assert changes == {
        ATTEMPT: {
            "as_of": NOW,
            "tried": [
                {
                    "kind": "gpus", "option": "--gres=gpu:1", "value": "1",
                    "start": {"median": NOW + 60, "low": NOW, "high": NOW + 90},
                }
            ],
        }
    }  # fmt: skip
    assert told(found, seen, changes=changes)[ATTEMPT]["changes"] == changes[ATTEMPT]


def test_the_first_forecast_of_an_attempt_is_kept_as_shown_and_raw() -> None:
    seen, _ = scene_with({"is_unsplit_array": True, "array_tasks": "0-3"})
    found = answer(Start("7", SHOWN, RAW, 40), Start("8", SHOWN, RAW), Start("8#1", SHOWN, RAW))
    key = seen.waiting["7"].key
    kept = kept_forecasts(found, seen, set())
    assert kept == [
        (key, 1000, prediction(SHOWN, "forecast")), (key, 1000, prediction(RAW, "forecast-raw")),
    ]  # fmt: skip
    assert kept_forecasts(found, seen, {(key, 1000)}) == []


def test_of_a_job_that_begins_later_nothing_is_kept_to_learn_from() -> None:
    seen, _ = scene_with({"reason": "BeginTime", "start_time": NOW + 3600})
    found = answer(Start("7", SHOWN, RAW), Start("8", SHOWN, RAW))
    assert {key.slurm_id for key, _, _ in kept_forecasts(found, seen, set())} == {"7"}


def prediction(interval: Interval, model: str) -> Prediction:
    spread = ((0.1, interval.low), (0.5, interval.median), (0.9, interval.high))
    return Prediction(PredictionKind.START, interval.median, spread, "forward-run", model, 40, NOW)
