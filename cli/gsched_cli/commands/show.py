"""`gsched show`: everything known of a job."""

from __future__ import annotations

from typing import Any

import click

from gsched_cli.options import json_option, load_settings
from gsched_cli.output import duration, emit_json, emit_table, local_time, say


@click.command()
@click.argument("job")
@json_option
def show(job: str, as_json: bool) -> None:
    """Show what Slurm, the daemon and the history know of JOB.

    JOB is an id as squeue prints it: 48211, 48211_3, 48211+1.

    \b
    Example:
      gsched show 48211

    \b
    JSON:
      job, slurm, gsched, history, history_note
      history[]: job, cluster, user, account, partition, qos, name, state, state_text,
        num_gpus, num_cpus, num_nodes, time_limit_s, submit_time, start_time, end_time,
        queueing_s, duration_s, gpu_time_s, attempts
    """
    from gsched.app.job import show_document

    document = show_document(load_settings(), job)
    if as_json:
        emit_json(document)
        return
    rows = [("job", document["job"])]
    rows += _facts("slurm", document["slurm"])
    rows += _facts("gsched", document["gsched"])
    emit_table(["WHAT", "IS"], rows)
    for past in document["history"]:
        print()
        emit_table(["ATTEMPT", "SUBMIT", "START", "RUN", "STATE"], _attempts(past), right={0, 3})
    if document["history_note"]:
        say(document["history_note"])


def _facts(prefix: str, facts: dict[str, Any] | None) -> list[tuple[str, str]]:
    rows = []
    for key, value in (facts or {}).items():
        if isinstance(value, dict):
            rows += _facts(f"{prefix} {key}", value)
        elif value not in (None, "", []):
            rows.append((f"{prefix} {key.replace('_', ' ')}", _shown(key, value)))
    return rows


def _shown(key: str, value: Any) -> str:
    if key.endswith("_time"):
        return local_time(value)
    if key.endswith("_s") and isinstance(value, (int, float)):
        return duration(value)
    return str(value)


def _attempts(past: dict[str, Any]) -> list[tuple[str, ...]]:
    return [
        (
            str(number),
            local_time(attempt["submit_time"]),
            local_time(attempt["start_time"]),
            duration(attempt["duration_s"]),
            attempt["state"],
        )
        for number, attempt in enumerate(past["attempts"], 1)
    ]
