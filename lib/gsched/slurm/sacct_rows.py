"""Rows of sacct(1), read live or from a file, as attempts and steps. Pure.

Column by column, each different text once: most fields of a long listing hold few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from gsched.errors import DataError
from gsched.model.exitcode import parse_exit_code
from gsched.model.history import StepRecord
from gsched.model.jobid import JobId, parse_job_id
from gsched.model.trace import AttemptColumns, Cells, Constant
from gsched.model.units import parse_elapsed
from gsched.slurm.fields import time_limit
from gsched.slurm.sacct_arrays import array_tasks, expanded
from gsched.slurm.sacct_times import Clock
from gsched.slurm.sacct_values import (
    Amounts,
    ReadTime,
    amounts,
    count,
    extra_json,
    gres_gpus,
    memory_amounts,
    node_list,
    phase_of_comment,
    requested_memory,
    step_record,
)
from gsched.slurm.states import parse_state

SOURCE = "sacct"

NEEDED = (("JobID", "JobIDRaw"), ("Submit",), ("State",))
"""Of each of these a row must have one."""

_MOST_TEXTS = 50_000  # of one field, kept with what they mean
_TEXTS = {"User": "user", "Account": "tenant", "Partition": "partition", "QOS": "qos"}
_PLAIN_ID = re.compile(r"[1-9]\d{0,8}", re.ASCII)
_TAKEN = frozenset(
    {
        "JobID", "JobIDRaw", "Cluster", *_TEXTS, "JobName", "State", "Submit", "Eligible", "Start",
        "End", "Timelimit", "TimelimitRaw", "NNodes", "AllocNodes", "NCPUS", "AllocCPUS",
        "ReqTRES", "AllocTRES", "ExitCode", "NodeList",
    }
)  # fmt: skip
"""Fields that have a place of their own; the others of a file go into `extra`."""

Row = Sequence[str]
Parse = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class _Bad:
    """Stands for a text that is not understood."""

    reason: str


@dataclass(frozen=True, slots=True)
class Understood:
    """What some rows gave. Each row is an attempt, in `bad` (its place and why), or skipped.

    One that stands for tasks that ended together is as many attempts.
    """

    attempts: AttemptColumns
    steps: tuple[StepRecord, ...]
    bad: tuple[tuple[int, str], ...]
    skipped: int
    lost_steps: int
    """Steps, among the skipped rows, whose job does not stand before them."""


@dataclass
class RowReader:
    """Understands rows with the fields `names` (as ``sacct_fields.spelt`` has them), in any order.

    `read_time` reads a time; with a `clock`, times that come twice are told apart. `cluster` is
    that of rows that name none, or of all with `is_named`. `counts_gpus`: the cluster accounts for
    gres/gpu, so that a job without it has none; else `num_gpus` is None. `keeps_extra` puts fields
    that have no place of their own into `extra`. Steps follow their job, as sacct prints them, and
    rows must be read in that order.
    """

    names: Sequence[str]
    read_time: ReadTime
    counts_gpus: bool
    cluster: str = ""
    is_named: bool = False
    clock: Clock | None = None
    keeps_extra: bool = False
    keeps_steps: bool = False
    _meanings: dict[str, dict[str, Any]] = field(default_factory=dict)
    _job: tuple[str, JobId, int] | None = None  # the job that the next step may belong to

    def read(self, rows: Sequence[Row]) -> Understood:
        """What the rows, each with as many fields as there are names, say.

        A row for tasks that ended together, and never ran, is an attempt of each.
        """
        rows, places = expanded(self.names, rows)
        told = dict(zip(self.names, zip(*rows, strict=True), strict=True)) if rows else {}
        ids = self._each("JobID" if "JobID" in told else "JobIDRaw", told, _job_id)
        states = self._each("State", told, _state)
        is_job = [_is_job(job, state) for job, state in zip(ids, states, strict=True)]
        jobs = [place for place, wanted in enumerate(is_job) if wanted]
        if len(jobs) == len(rows):
            mine: Mapping[str, Sequence[str]] = told
        else:
            mine = {name: _pick(values, jobs) for name, values in told.items()}
        columns = self._columns(mine, _pick(ids, jobs), _pick(states, jobs))
        bad = _bad_rows(columns, jobs)
        if bad:
            good = [n for n, place in enumerate(jobs) if place not in bad]
            columns = {name: _pick_cells(cells, good) for name, cells in columns.items()}
        attempts = AttemptColumns(len(jobs) - len(bad), columns)
        steps, lost = self._steps(told, ids, is_job, bad) if self.keeps_steps else ((), 0)
        if places is not None:
            bad = {places[place]: reason for place, reason in bad.items()}
        return Understood(attempts, steps, tuple(sorted(bad.items())), len(rows) - len(jobs), lost)

    # -- attempts ---------------------------------------------------------------------------

    def _columns(
        self, told: Mapping[str, Sequence[str]], ids: Sequence[Any], states: Sequence[Any]
    ) -> dict[str, Cells]:
        columns: dict[str, Cells] = {"source": Constant(SOURCE), "state": states}
        columns["state_text"] = told.get("State", ())
        columns |= _id_columns(ids)
        columns["cluster"] = self._clusters(told)
        for name, column in _TEXTS.items():
            if name in told:
                columns[column] = [text or None for text in told[name]]
        if "JobName" in told:
            columns["name"] = told["JobName"]
        columns |= self._times(told, states)
        if "Timelimit" in told:
            columns["time_limit_s"] = self._each("Timelimit", told, time_limit)
        elif "TimelimitRaw" in told:
            columns["time_limit_s"] = self._each("TimelimitRaw", told, time_limit)
        columns |= self._resources(told)
        if "NodeList" in told:
            columns["node_list"] = self._each("NodeList", told, node_list)
        if "ExitCode" in told:
            codes = self._each("ExitCode", told, parse_exit_code)
            columns["exit_code"] = [c if type(c) is _Bad else c.status for c in codes]
            columns["exit_signal"] = [c if type(c) is _Bad else c.signal for c in codes]
        if self.keeps_extra:
            columns |= self._extras(told, ids)
        else:
            columns["extra"] = list(map(_extra_of_id, ids))
        return columns

    def _clusters(self, told: Mapping[str, Sequence[str]]) -> Cells:
        if self.is_named or "Cluster" not in told:
            return Constant(self.cluster)
        named = set(told["Cluster"])
        if len(named) == 1:
            return Constant(named.pop() or self.cluster)
        return [text or self.cluster for text in told["Cluster"]]

    def _times(self, told: Mapping[str, Sequence[str]], states: Sequence[Any]) -> dict[str, Cells]:
        found: dict[str, list[Any]] = {
            f"{name.lower()}_time": self._each(name, told, self.read_time)
            for name in ("Submit", "Eligible", "Start", "End")
            if name in told
        }
        found["submit_time"] = [
            _Bad("no submit time") if moment is None else moment
            for moment in found.get("submit_time", ())
        ]
        if self.clock is not None and self.clock.comes_twice:
            self._settle(told, found)
        if "start_time" in found and "NodeList" in told:  # without nodes, "start" is the end again
            found["start_time"] = [
                None if not nodes and type(state) is not _Bad and state.is_terminal else moment
                for moment, nodes, state in zip(
                    found["start_time"],
                    self._each("NodeList", told, node_list),
                    states,
                    strict=True,
                )
            ]
        return dict(found)

    def _settle(self, told: Mapping[str, Sequence[str]], found: Mapping[str, list[Any]]) -> None:
        """Choose between the moments of a local time that comes twice."""
        clock = self.clock
        none = [""] * len(found["submit_time"])
        texts = [told.get(name, none) for name in ("Eligible", "Start", "End")]
        elapsed = told.get("ElapsedRaw", told.get("Elapsed", none))
        for place, row in enumerate(zip(*texts, strict=True)):
            moments = [found[n][place] for n in _MOVABLE if n in found]
            submit = found["submit_time"][place]
            if clock is None or any(type(m) is _Bad for m in (submit, *moments)):
                continue
            if any(clock.other(text) is not None for text in row):
                settled = clock.settled(submit, row, _seconds(elapsed[place]))
                for name, moment in zip(_MOVABLE, settled, strict=True):
                    if name in found:
                        found[name][place] = moment

    def _resources(self, told: Mapping[str, Sequence[str]]) -> dict[str, Cells]:
        nothing = [Amounts()] * len(told.get("State", ()))
        requested = self._each("ReqTRES", told, amounts) if "ReqTRES" in told else nothing
        allocated = self._each("AllocTRES", told, amounts) if "AllocTRES" in told else nothing
        nodes = self._counts(told, "NNodes", "AllocNodes")
        cpus = self._counts(told, "NCPUS", "AllocCPUS")
        if "ReqMem" in told and not all(map(_tres, requested)):
            memory = self._each("ReqMem", told, requested_memory)
            requested = [
                r if _tres(r) or _Bad in map(type, asked) else memory_amounts(*asked)
                for r, *asked in zip(requested, memory, nodes, cpus, strict=True)
            ]
        both = list(zip(allocated, requested, strict=True))
        columns: dict[str, Cells] = {
            "requested": [_tres(r) for r in requested],
            "allocated": [_tres(a) for a in allocated],
            "num_nodes": nodes,
            # 24.11 on counts no CPUs for a job that never started, 22.05 those that it asked for
            "num_cpus": [
                c if c != 0 else None if type(r) is _Bad else r.num_cpus
                for c, r in zip(cpus, requested, strict=True)
            ],
        }
        if self.counts_gpus:
            columns["num_gpus"] = self._gpus(told, both)
        return columns

    def _gpus(
        self, told: Mapping[str, Sequence[str]], both: Sequence[tuple[Any, Any]]
    ) -> list[int]:
        counted = [
            next((t.num_gpus for t in pair if type(t) is not _Bad and t.tres), 0) for pair in both
        ]
        if "AllocGRES" not in told:
            return counted
        gres = self._each("AllocGRES", told, gres_gpus)
        return [n or g for n, g in zip(counted, gres, strict=True)]

    def _counts(self, told: Mapping[str, Sequence[str]], *names: str) -> Sequence[Any]:
        name = next((name for name in names if name in told), None)
        if name is None:
            return [None] * len(told.get("State", ()))
        return self._each(name, told, count)

    def _extras(self, told: Mapping[str, Sequence[str]], ids: Sequence[Any]) -> dict[str, Cells]:
        names = sorted(name for name in told if name not in _TAKEN)
        columns: dict[str, Cells] = {}
        if "Comment" in told:
            columns["phase"] = self._each("Comment", told, phase_of_comment)
        others = zip(*(told[name] for name in names), strict=True) if names else [()] * len(ids)
        columns["extra"] = [
            extra_json({n: v for n, v in zip(names, values, strict=True) if v} | _tasks_of(job))
            for values, job in zip(others, ids, strict=True)
        ]
        return columns

    # -- steps ------------------------------------------------------------------------------

    def _steps(
        self,
        told: Mapping[str, Sequence[str]],
        ids: Sequence[Any],
        is_job: Sequence[bool],
        bad: Mapping[int, str],
    ) -> tuple[tuple[StepRecord, ...], int]:
        clusters = self._clusters(told)
        found: list[StepRecord] = []
        lost = 0
        for place, job in enumerate(ids):
            if is_job[place]:
                cluster = clusters.value if isinstance(clusters, Constant) else clusters[place]
                is_good = place not in bad
                submit = self.read_time(told["Submit"][place]) if is_good else None
                self._job = (cluster, job, submit) if submit is not None else None
            elif job.step:
                row = {name: values[place] for name, values in told.items()}
                step = self._step(row, job)
                lost += step is None
                found += [] if step is None else [step]
        return tuple(found), lost

    def _step(self, row: Mapping[str, str], job: JobId) -> StepRecord | None:
        """A step of the job before it; None for one of another job, or of no sense."""
        if self._job is None:
            return None
        cluster, owner, submit_time = self._job
        if (job.job_id, job.array_task, job.het_offset) != (
            owner.job_id,
            owner.array_task,
            owner.het_offset,
        ):
            return None
        try:
            return step_record(row, job, cluster, submit_time, self.read_time)
        except (DataError, ValueError):
            return None

    def _each(self, name: str, told: Mapping[str, Sequence[str]], parse: Parse) -> list[Any]:
        """What each text of a field means, a `_Bad` for those that mean nothing."""
        known = self._meanings.setdefault(name, {})
        values = told.get(name, ())
        if len(known) > _MOST_TEXTS:
            known.clear()
        for text in set(values).difference(known):
            try:
                known[text] = parse(text)
            except (DataError, ValueError, OverflowError) as error:
                known[text] = _Bad(str(error))
        return [known[text] for text in values]


_MOVABLE = ("eligible_time", "start_time", "end_time")


def _job_id(text: str) -> JobId:
    return JobId(int(text)) if _PLAIN_ID.fullmatch(text) else parse_job_id(text)


def _state(text: str) -> Any:
    if not text.strip():
        raise DataError("no state")
    return parse_state(text)[0]


def _is_job(job: Any, state: Any) -> bool:
    """Whether a row is an attempt; not a step, and not tasks that wait together."""
    if type(job) is _Bad:
        return True  # and bad
    if job.step or type(state) is _Bad:
        return not job.step
    return job.array_tasks is None or bool(state.is_terminal)


def _id_columns(ids: Sequence[Any]) -> dict[str, Cells]:
    columns: dict[str, Cells] = {"job_id": [j if type(j) is _Bad else j.job_id for j in ids]}
    for name in ("array_task", "het_offset"):
        columns[name] = [None if type(j) is _Bad else getattr(j, name) for j in ids]
    return columns


def _tasks_of(job: Any) -> dict[str, str]:
    tasks = None if type(job) is _Bad else job.array_tasks
    return {} if tasks is None else array_tasks(tasks)


def _extra_of_id(job: Any) -> str | None:
    return extra_json(_tasks_of(job))


def _tres(amounts: Any) -> Any:
    return amounts if type(amounts) is _Bad else amounts.tres


def _seconds(elapsed: str) -> float | None:
    if elapsed.isdecimal():
        return float(elapsed)
    try:
        return parse_elapsed(elapsed)
    except DataError:
        return None


def _pick(values: Sequence[Any], places: Sequence[int]) -> Sequence[Any]:
    if len(places) == len(values):
        return values
    if len(places) < 2:  # itemgetter gives one value bare
        return [values[place] for place in places]
    picked: Sequence[Any] = itemgetter(*places)(values)
    return picked


def _pick_cells(cells: Cells, places: Sequence[int]) -> Cells:
    return cells if isinstance(cells, Constant) else _pick(cells, places)


def _bad_rows(columns: Mapping[str, Cells], places: Sequence[int]) -> dict[int, str]:
    """Why which rows (by their place among all) are not understood; the first reason of each."""
    bad: dict[int, str] = {}
    for cells in columns.values():
        if isinstance(cells, Constant) or _Bad not in set(map(type, cells)):
            continue
        for place, value in zip(places, cells, strict=True):
            if type(value) is _Bad:
                bad.setdefault(place, value.reason)
    return bad
