"""Microsoft Philly, as published: ``cluster_job_log``, a JSON list of jobs with their attempts.

Repository msr-fiddle/philly-traces (see `gsched.traces.philly` for the paper). Of a job: ``jobid``,
``user``, ``vc`` (virtual cluster → tenant), ``status`` (Pass, Killed or Failed), ``submitted_time``
and ``attempts``, each with ``start_time``, ``end_time`` and, in ``detail``, the ``ip`` and ``gpus``
of every server. Other members stay in `extra`.

Each attempt is a row; a job that was never scheduled is one, without a start. An attempt but the
last was tried again: REQUEUED; the next one is submitted when it ends. As the publication says, a
job whose last attempt has no end was still running. Ids are hashed and so have nothing in common
with those of the CSV: a history should hold one of the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, BinaryIO

from gsched.errors import DataError
from gsched.json_stream import read_elements
from gsched.model.history import AttemptRecord, Reject
from gsched.model.job import JobState
from gsched.model.trace import ReadOptions, TraceChunk, columns_of
from gsched.traces.cells import Clock, check_order, json_rows, shown, state_of
from gsched.traces.csv_rows import shortened
from gsched.traces.identity import job_id_of_text

_SOURCE = "philly"
_KNOWN = ("jobid", "user", "vc", "status", "submitted_time", "attempts")
_state = state_of({"pass": JobState.COMPLETED, "killed": JobState.CANCELLED})


def read_log(stream: BinaryIO, options: ReadOptions) -> Iterator[TraceChunk]:
    """The attempts of one file. Raises DataError where it is no JSON list."""
    clock = Clock(options.timezone)
    jobs = enumerate(_elements(stream, options), start=1)
    while taken := list(islice(jobs, options.chunk_rows)):
        records: list[AttemptRecord] = []
        rejects: list[Reject] = []
        end = taken[-1][1]
        for number, job in taken[:-1] if isinstance(end, DataError) else taken:
            try:
                records += _attempts(job, clock, options.cluster or _SOURCE)
            except DataError as e:
                raw = shortened(json.dumps(job))
                rejects.append(Reject(f"{_SOURCE}:{options.file_name}", number, e.message, raw))
        yield TraceChunk(columns_of(records), tuple(rejects), len(records) + len(rejects))
        if isinstance(end, DataError):
            raise end


def _elements(stream: BinaryIO, options: ReadOptions) -> Iterator[Any]:
    """The jobs and, last, what ended them early: those before it are to be handed on first."""
    try:
        yield from read_elements(stream)
    except DataError as e:
        yield DataError(f"{options.file_name}: {e.message}", e.hint)


def _attempts(job: Any, clock: Clock, cluster: str) -> list[AttemptRecord]:
    if not isinstance(job, Mapping):
        raise DataError("no job: not an object")
    told = {name: _text(job, name) for name in _KNOWN[:-1]}
    if not told["jobid"] or not told["submitted_time"]:
        raise DataError("no jobid or submitted_time")
    runs = _objects(job, "attempts")
    spans = [(_time(clock, run, "start_time"), _time(clock, run, "end_time")) for run in runs]
    submits = _submits(_time(clock, job, "submitted_time") or 0, spans)
    check_order(submits[: len(spans)], *([span[i] for span in spans] for i in (0, 1)))
    others = {_storable(name): [json.dumps(job[name])] for name in job if name not in _KNOWN}
    status = _state(told["status"] or "")
    records = []
    for place, submit_time in enumerate(submits):
        run = runs[place] if runs else {}
        start, end = spans[place] if spans else (None, None)
        is_last = place == len(submits) - 1
        state = status if is_last else JobState.REQUEUED
        if is_last and start is not None and end is None:
            state = JobState.RUNNING
        record = AttemptRecord(
            cluster=cluster,
            job_id=job_id_of_text(told["jobid"]),
            array_task=None,
            het_offset=None,
            submit_time=submit_time,
            state=state,
            state_text=told["status"] or "" if is_last else "",
            source=_SOURCE,
            user=told["user"] or None,
            tenant=told["vc"] or None,
            start_time=start,
            end_time=end,
            restarts=place,
            source_id=told["jobid"],
            extra=json_rows(others, 1)[0],
            **_servers(run),
        )
        records.append(record)
    return records


def _submits(submitted: int, spans: Sequence[tuple[int | None, int | None]]) -> list[int]:
    """When each attempt was submitted: after the first, when the one before ended."""
    submits = [submitted]
    for (_, end), (start, _) in pairwise(spans):
        known = [time for time in (end, start) if time is not None]
        submits.append(max(submits[-1] + 1, min(known, default=0)))
    return submits


def _servers(run: Mapping[str, Any]) -> dict[str, Any]:
    """Where an attempt ran, and on how many GPUs."""
    servers = _objects(run, "detail")
    gpus = [server.get("gpus") for server in servers]
    if not servers:
        return {}
    if not all(isinstance(listed, list) for listed in gpus):
        raise DataError("detail: gpus is not a list")
    names = [_text(server, "ip") for server in servers]
    return {
        "num_nodes": len(servers),
        "num_gpus": sum(map(len, filter(None, gpus))),
        "node_list": ",".join(filter(None, names)) or None,
    }


def _objects(holder: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    listed = holder.get(name) or []
    if not isinstance(listed, list) or not all(isinstance(item, Mapping) for item in listed):
        raise DataError(f"{name}: not a list of objects")
    return listed


def _text(holder: Mapping[str, Any], name: str) -> str:
    """A text; "" for none."""
    value = holder.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{name}: not a text: {shown(str(value))}")
    return _storable(value.strip())


def _storable(text: str) -> str:
    """Without NUL and half characters, which databases do not take."""
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def _time(clock: Clock, holder: Mapping[str, Any], name: str) -> int | None:
    try:
        return clock.time(_text(holder, name))
    except DataError as e:
        raise DataError(f"{name}: {e.message}") from None
