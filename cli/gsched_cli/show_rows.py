"""`gsched show` as tables: facts by name, and attempts."""

from __future__ import annotations

from typing import Any

from gsched.explain.words import size
from gsched_cli.output import duration, local_time

_IN_TABLE = {"job", "attempts", "state_text"}


def fact_rows(document: dict[str, Any]) -> list[tuple[str, str]]:
    """What is known of the job itself: what it is called, and what it is."""
    rows = [("job", document["job"])]
    if len(document["parts"]) > 1:
        rows += [("part", _part(part)) for part in document["parts"]]
    rows += _facts("slurm", document["slurm"])
    if not document["slurm"]:
        rows += _facts("", {k: v for k, v in document["history"][0].items() if k not in _IN_TABLE})
    rows += _facts("gsched", document["gsched"])
    for asked in document["requests"]:
        rows += _facts("asked", asked)
    return rows


def _part(part: dict[str, Any]) -> str:
    where = part["node_list"] or part["slurm_reason"]
    return f"{part['job']}: {part['state']}" + (f" ({where})" if where else "")


def _facts(prefix: str, facts: dict[str, Any] | None) -> list[tuple[str, str]]:
    rows = []
    for key, value in (facts or {}).items():
        if isinstance(value, dict):
            rows += _facts(f"{prefix} {key}", value)
        elif value not in (None, "", []):
            rows.append((f"{prefix} {key.replace('_', ' ')}".strip(), _shown(key, value)))
    return rows


def _shown(key: str, value: Any) -> str:
    if key.endswith("_time"):
        return local_time(value)
    if key.endswith("_s") and isinstance(value, (int, float)):
        return duration(value)
    if key.endswith("_bytes"):
        return size(value)
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


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
