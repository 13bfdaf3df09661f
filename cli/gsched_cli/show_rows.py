"""`gsched show` as tables: facts by name, and attempts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gsched.explain.words import count, size
from gsched.model.job import UNLIMITED_S
from gsched_cli.attempt_rows import gpu_rows, log_rows
from gsched_cli.output import duration, local_time
from gsched_cli.progress_rows import progress_rows

if TYPE_CHECKING:
    from gsched.app.show import Shown

Row = tuple[str, str]
"""What a row is about, and what is known of it."""

_LABELS = {"slurm_start_time": "expects start"}
_IN_TABLE = {"job", "attempts", "state_text"}
_ANSWER = {"submit_time", "state", "rank", "reason", "excluded", "duration_s", "accepted",
           "request", "request_problem", "outcomes", "start", "no_start", "next_free", "changes",
           "limit_advice", "lease", "target"}  # fmt: skip
"""Keys of the daemon's answer that have words of their own, or none beside Slurm's."""
_REQUEST = {"job", "user", "token", "wants", "unknown", "first_seen"}


def fact_rows(shown: Shown) -> list[Row]:
    """What is known of the job itself: what it is called, and what it is."""
    document = shown.document
    rows = [("job", document["job"])]
    if len(document["parts"]) > 1:
        rows += [("part", _part(part)) for part in document["parts"]]
    unlimited = {"time_limit_s": UNLIMITED_S} if shown.is_unlimited else {}
    if document["slurm"]:
        rows += _facts("slurm", document["slurm"] | unlimited)
    else:
        past = document["history"][0] | unlimited
        rows += _facts("", {k: v for k, v in past.items() if k not in _IN_TABLE})
    if document["progress"]:
        rows += progress_rows(document["progress"], shown.at)
    rows += log_rows(document["attempts"])
    rows += gpu_rows(document["gpus"], shown.at)
    rows += _answer_rows(document["gsched"] or {}, shown.at, with_request=not document["requests"])
    if document["lease_end"]:
        rows.append(("lease", document["lease_end"]))
    for asked in document["requests"]:
        rows += _request_rows("asked", asked)
    return rows


def _part(part: dict[str, Any]) -> str:
    where = part["node_list"] or part["slurm_reason"]
    return f"{part['job']}: {part['state']}" + (f" ({where})" if where else "")


def _facts(prefix: str, facts: Mapping[str, Any]) -> Iterator[Row]:
    for key, value in facts.items():
        if isinstance(value, dict):
            yield from _facts(f"{prefix} {key.replace('_', ' ')}", value)
        elif value not in (None, "", []):
            label, shown = _shown(key, value)
            label = _LABELS.get(label) or label.replace("_", " ")
            yield f"{prefix} {label}".strip(), shown


def _shown(key: str, value: Any) -> Row:
    """A fact's name without its unit, and its value as people write it."""
    if isinstance(value, bool):
        return key, "yes" if value else "no"
    if isinstance(value, int | float):
        if key.endswith("_time"):
            return key, local_time(value)
        if key.endswith("_s"):
            return key.removesuffix("_s"), duration(value)
        if key.endswith("_bytes"):
            return key.removesuffix("_bytes"), size(value)
    return key, ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _answer_rows(answer: Mapping[str, Any], at: int, *, with_request: bool) -> Iterator[Row]:
    """The daemon's answer in the words of `gsched why` and of `gsched submit --gs-wait`."""
    from gsched.app.answers import outcome_words
    from gsched.explain.policy_reasons import caution_words, policy_reason, prediction_words

    if rank := answer.get("rank"):
        yield "gsched rank", f"{rank['position']} of {rank['of']} in {rank['queue']}"
    if reason := answer.get("reason"):
        yield "gsched reason", policy_reason(reason["code"], reason["params"])
    if excluded := answer.get("excluded"):
        yield "gsched leaves it alone", excluded["detail"]
    if predicted := answer.get("duration_s"):
        yield "gsched predicts", prediction_words(predicted)
        if words := caution_words(predicted):
            yield "gsched caution", words
    yield from _forecast_rows(answer, at)
    yield from _target_rows(answer.get("target") or {}, at)
    yield from _lease_rows(answer.get("lease") or {})
    if problem := answer.get("request_problem"):
        yield "gsched request", f"ignored: {problem}"
    if with_request and (request := answer.get("request")):
        yield from _request_rows("asked", request)
    for words in outcome_words(dict(answer)):
        yield "gsched answers", words
    yield from _facts("gsched", {k: v for k, v in answer.items() if k not in _ANSWER})


def _target_rows(target: Mapping[str, Any], at: int) -> Iterator[Row]:
    """How the promise of a deadline stands, and all that is known of it."""
    from gsched.explain import target_words as words

    if not target:
        return
    yield "deadline", words.deadlines_words(target, at)
    yield "target", words.target_words(target, at)
    for name, told in (
        ("risk", words.risk_words(target, at)),
        ("plan", words.plan_words(target, at)),
        ("estimate", words.estimate_words(target)),
        ("was promised", words.promise_words(target, at)),
    ):
        if told:
            yield f"target {name}", told
    if warned := target.get("warned"):
        yield "target warned", f"{warned['level']} at {local_time(warned['time'])}"


def _lease_rows(lease: Mapping[str, Any]) -> Iterator[Row]:
    """Until when nobody takes the job's GPUs, or for whom it has given them up."""
    from gsched.explain.lease_words import REQUEUED, gave_way_words, lease_words, unsaved_words

    if lease.get("state") == REQUEUED:
        yield "gave way", f"{local_time(lease['since'])}, {gave_way_words(lease)}"
    elif "end_time" in lease:
        yield "lease until", f"{local_time(lease['end_time'])}: {lease_words(lease)}"
    if words := unsaved_words(lease):
        yield "has kept", f"{local_time(lease['unsaved']['at'])}: {words}"


def _forecast_rows(answer: Mapping[str, Any], at: int) -> Iterator[Row]:
    """When the job should start, who makes room, and all that was tried, helpful or not."""
    from gsched.explain.helpful import tried_changes
    from gsched.explain.start_words import (
        change_words,
        end_words,
        enough_words,
        no_start_words,
        start_words,
    )

    if start := answer.get("start"):
        yield "gsched expects start", start_words(start, at)
        if number := start.get("calibrated_on"):
            yield "gsched interval", f"corrected by {count(number, 'earlier forecast')}"
    elif code := answer.get("no_start"):
        yield "gsched expects start", f"not known: {no_start_words(code)}"
    if free := answer.get("next_free"):
        words = f"{free['job']} {end_words(free, at)}"
        yield "next to free", f"{free['nodes']}: {words}"
    advice = answer.get("limit_advice")
    for change in tried_changes(answer):
        yield "gsched tried", change_words(change, advice, at)
    if advice:
        yield "limit advice", f"{duration(advice['time_limit_s'])}, {enough_words(advice)}"


def _request_rows(prefix: str, asked: Mapping[str, Any]) -> Iterator[Row]:
    """One request to gsched: who asked, in which words, and what that means."""
    if "user" in asked:
        yield f"{prefix} by", f"{asked['user']} for {asked['job']}"
    yield f"{prefix} token", asked["token"]
    yield f"{prefix} first seen", local_time(asked["first_seen"])
    for want, value in asked["wants"].items():
        yield f"{prefix} {want.replace('_', ' ')}", _wanted(want, value)
    if asked["unknown"]:
        yield f"{prefix} unknown here", count(asked["unknown"], "item")
    yield from _facts(prefix, {k: v for k, v in asked.items() if k not in _REQUEST})


def _wanted(want: str, value: Any) -> str:
    if want == "deadline":
        return local_time(value)
    if want == "soft_deadlines":
        return ", ".join(f"{local_time(when)} (reward {reward:g})" for when, reward in value)
    return _shown(want, value)[1]


def attempt_rows(past: dict[str, Any]) -> list[tuple[str, ...]]:
    """A row for each attempt of a job of the history."""
    return [
        (
            past["job"],
            str(number),
            local_time(attempt["submit_time"]),
            local_time(attempt["start_time"]),
            duration(attempt["duration_s"]),
            attempt["state_text"],
        )
        for number, attempt in enumerate(past["attempts"], 1)
    ]
