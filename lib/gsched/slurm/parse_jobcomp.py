"""The text of jobcomp/filetxt → attempts of jobs. Pure; see ``jobcomp`` for how far to trust it.

A record is one line, were it not for names and folders: they stand in it as they are, line ends
included. So records are cut where one seems to begin, joined until their keys are complete, and
taken only when every key stands there once and in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from gsched.errors import DataError
from gsched.model.exitcode import parse_exit_code
from gsched.model.history import AttemptRecord, Reject
from gsched.model.job import JobState
from gsched.model.times import parse_printed_time
from gsched.model.units import UNSET, count_gres, parse_tres, tres_gres
from gsched.slurm.fields import time_limit
from gsched.slurm.sacct_values import tres_tuple
from gsched.slurm.states import parse_state

SOURCE = "jobcomp"

_KEYS = (
    "JobId", "UserId", "GroupId", "Name", "JobState", "Partition", "TimeLimit", "StartTime",
    "EndTime", "NodeList", "NodeCnt", "ProcCnt", "WorkDir", "ReservationName", "Tres", "Account",
    "QOS", "WcKey", "Cluster", "SubmitTime", "EligibleTime", "DerivedExitCode", "ExitCode",
)  # fmt: skip
_KEY = re.compile(rf"(?<!\S)({'|'.join(_KEYS)})=")
_START = re.compile(rb"^JobId=\d+ UserId=", re.MULTILINE)
_SEAM = re.compile(rb"JobId=\d+ UserId=")
_CUT_BYTES = (1023, 1024)
"""Slurm cuts a record there, its line end with it: the next begins in the same line."""
_END = re.compile(r" ExitCode=\d+:\d+ ?\n\Z", re.ASCII)
# Array tasks and het components carry these between EligibleTime and DerivedExitCode.
_EXTRA = re.compile(r" (?P<key>\w+)=(?P<value>\S*)")

_MAX_JOINED_BYTES = 16384
"""No name and folder are longer together: what is still incomplete then is no record."""


@dataclass(frozen=True, slots=True)
class JobcompText:
    """What a stretch of the file holds. `consumed`: bytes up to the first incomplete record."""

    records: tuple[AttemptRecord, ...]
    rejects: tuple[Reject, ...]
    consumed: int

    @property
    def rows_in(self) -> int:
        """Records seen, understood or not."""
        return len(self.records) + len(self.rejects)


def parse_jobcomp(data: bytes, cluster: str) -> JobcompText:
    """The attempts in `data`, of the cluster named `cluster` (the file itself says "unknown")."""
    records: list[AttemptRecord] = []
    rejects: list[Reject] = []
    consumed = 0
    for begin, end, problem in _stretches(data):
        consumed = end
        text = data[begin:end].decode("utf-8", "replace")
        try:
            if problem:
                raise DataError(problem)
            records.append(_attempt(_fields(text), cluster))
        except (DataError, ValueError) as error:
            number = len(records) + len(rejects) + 1
            rejects.append(Reject(SOURCE, number, str(error), text))
    return JobcompText(tuple(records), tuple(rejects), consumed)


def _stretches(data: bytes) -> Iterator[tuple[int, int, str]]:
    """(begin, end, problem) of each record; `problem` is empty for one that can be taken."""
    size = data.rfind(b"\n") + 1  # a line without its end is still being written
    starts, cuts = _starts(data, size)
    first = starts[0] if starts else size
    if first:
        yield 0, first, "no jobcomp record"
    begin: int | None = None
    for start, end in pairwise([*starts, size]):
        joined = begin is not None
        begin = start if begin is None else begin
        if end in cuts:
            yield begin, end, "cut short by Slurm, which writes 1023 bytes of a record"
            begin = None
            continue
        keys, is_complete = _keys(data[begin:end])
        if is_complete:
            is_plain = keys == _KEYS and not joined
            yield begin, end, "" if is_plain else "ambiguous: free text looks like a record"
            begin = None
        elif end - begin > _MAX_JOINED_BYTES:
            yield begin, end, "no jobcomp record, and too long to be one"
            begin = None


def _starts(data: bytes, size: int) -> tuple[list[int], set[int]]:
    """Where records seem to begin, and those of the places that follow on a record cut short."""
    starts: list[int] = []
    cuts: set[int] = set()
    lines = [match.start() for match in _START.finditer(data, 0, size)]
    for start, end in pairwise([*lines, size]):
        starts.append(start)
        while (seam := _seam(data, starts[-1], end)) is not None:
            starts.append(seam)
            cuts.add(seam)
    return starts, cuts


def _seam(data: bytes, start: int, end: int) -> int | None:
    for length in _CUT_BYTES:
        seam = start + length
        if seam < end and _SEAM.match(data, seam) and not _keys(data[start:seam])[1]:
            return seam
    return None


def _keys(stretch: bytes) -> tuple[tuple[str, ...], bool]:
    """The keys in the order in which they stand, and whether a record could end here."""
    text = stretch.decode("utf-8", "replace")
    keys = tuple(_KEY.findall(text))
    return keys, set(keys) == set(_KEYS) and _END.search(text[-64:]) is not None


def _fields(text: str) -> dict[str, str]:
    """Values by key of a record in which every key stands once."""
    found = list(_KEY.finditer(text))
    ends = [match.start() - 1 for match in found[1:]] + [len(text)]
    fields = {match[1]: text[match.end() : end] for match, end in zip(found, ends, strict=True)}
    eligible, space, extra = fields["EligibleTime"].partition(" ")
    fields["EligibleTime"] = eligible
    fields |= {match["key"]: match["value"] for match in _EXTRA.finditer(space + extra)}
    return fields


def _attempt(fields: Mapping[str, str], cluster: str) -> AttemptRecord:
    submit_time = parse_printed_time(fields["SubmitTime"])
    if submit_time is None:
        raise DataError("no submit time")
    state, _ = parse_state(fields["JobState"])
    if state is JobState.PENDING:  # Slurm has already set a requeued job back when it writes this
        state = JobState.REQUEUED
    node_list = _text(fields["NodeList"])
    tres = parse_tres(fields["Tres"])
    counts_gpus = "gres/gpu" in tres
    code, signal = parse_exit_code(fields["ExitCode"].strip())
    has_run = node_list is not None
    return AttemptRecord(
        cluster=cluster,
        job_id=int(fields.get("ArrayJobId") or fields.get("HetJobId") or fields["JobId"]),
        array_task=_number(fields.get("ArrayTaskId")),
        het_offset=_number(fields.get("HetJobOffset")),
        submit_time=submit_time,
        state=state,
        state_text=fields["JobState"],
        source=SOURCE,
        user=re.sub(r"\(\d+\)\Z", "", fields["UserId"]) or None,
        tenant=_text(fields["Account"]),
        partition=_text(fields["Partition"]),
        qos=_text(fields["QOS"]),
        name=fields["Name"],
        eligible_time=parse_printed_time(fields["EligibleTime"]),
        start_time=parse_printed_time(fields["StartTime"]) if has_run else None,
        end_time=parse_printed_time(fields["EndTime"]),
        time_limit_s=time_limit(fields["TimeLimit"]),
        num_nodes=int(fields["NodeCnt"]) or None,
        num_cpus=int(fields["ProcCnt"]) or None,
        num_gpus=count_gres(tres_gres(tres), "gpu")[0] if counts_gpus else None,
        requested=() if has_run else tres_tuple(tres),
        allocated=tres_tuple(tres) if has_run else (),
        node_list=node_list,
        exit_code=code,
        exit_signal=signal,
    )


def _text(value: str) -> str | None:
    return None if value in UNSET else value


def _number(value: str | None) -> int | None:
    return None if value is None else int(value)
