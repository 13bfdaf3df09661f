"""Microsoft Philly, as published: ``cluster_job_log``, a JSON list of jobs with their attempts.

Repository msr-fiddle/philly-traces (see `gsched.traces.philly` for the paper). Of a job: ``jobid``,
``user``, ``vc`` (virtual cluster → tenant), ``status`` (Pass, Killed or Failed), ``submitted_time``
and ``attempts``, each with ``start_time``, ``end_time`` and, in ``detail``, the ``ip`` and ``gpus``
of every server. Other members stay in `extra`.

Each attempt is a row; a job that was never scheduled is one, without a start. An attempt but the
last was tried again: REQUEUED; the next one is submitted when it ends. Attempts are told apart by
their submit times: one that would be submitted in the second of the one before is submitted, and if
need be started, a second later. As the publication says, a job whose last attempt has no end was
still running. Ids are hashed and so have nothing in common with those of the CSV: a history should
hold one of the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice, pairwise
from typing import Any, BinaryIO

from gsched.errors import DataError
from gsched.json_stream import read_elements
from gsched.model.history import AttemptRecord, Reject
from gsched.model.job import JobState
from gsched.model.trace import ReadOptions, TraceChunk, columns_of
from gsched.text_lines import shortened
from gsched.traces.cells import Clock, check_order, json_rows, shown, state_of
from gsched.traces.identity import job_id_of_text

_SOURCE = "philly"
_KNOWN = ("jobid", "user", "vc", "status", "submitted_time", "attempts")
_Span = tuple[int | None, int | None]
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
    submitted = _time(clock, job, "submitted_time") or 0
    told_spans = [(_time(clock, run, "start_time"), _time(clock, run, "end_time")) for run in runs]
    submits, spans = _distinct(*_in_order(submitted, told_spans, clock))
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


def _in_order(submitted: int, told: Sequence[_Span], clock: Clock) -> tuple[list[int], list[_Span]]:
    """When each attempt was submitted (after the first: when the one before ended) and ran.

    A local time that occurs twice is the second one where the first is too early. Raises DataError
    where the attempts are in no order.
    """
    spans: list[_Span] = []
    latest = submitted
    for start, end in told:
        start = _not_before(latest, start, clock)
        latest = latest if start is None else start
        end = _not_before(latest, end, clock)
        latest = latest if end is None else end
        spans.append((start, end))
    submits = [submitted]
    for (_, end), (start, _) in pairwise(spans):
        known = [time for time in (end, start) if time is not None]
        submits.append(min(known, default=submits[-1]))
    check_order(submits[: len(spans)], *([span[i] for span in spans] for i in (0, 1)))
    if any(later < earlier for earlier, later in pairwise(submits)):
        raise DataError("an attempt starts before the one before it is submitted")
    return submits, spans


def _not_before(earliest: int, moment: int | None, clock: Clock) -> int | None:
    second = clock.other(moment)
    is_too_early = moment is not None and moment < earliest
    return second if is_too_early and second is not None and second >= earliest else moment


def _distinct(submits: Sequence[int], spans: Sequence[_Span]) -> tuple[list[int], list[_Span]]:
    """The attempts, moved by a second where two would have been submitted in the same."""
    apart = list(accumulate(submits, lambda before, submit: max(before + 1, submit)))
    moved: list[_Span] = []
    for (start, end), submit in zip(spans, apart, strict=False):
        start = start if start is None else max(start, submit)
        end = end if end is None else max(end, submit if start is None else start)
        moved.append((start, end))
    return apart, moved


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
