"""Fits of traces and of the own history, and synthetic traces drawn from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsched.app.convert_trace import writing
from gsched.app.signals import ending_by_signals
from gsched.app.trace_formats import TraceOptions, in_reading_order, reader_of
from gsched.app.wiring import open_history
from gsched.config.settings import Settings
from gsched.errors import DataError, UsageError
from gsched.files import read_bounded, writing_whole
from gsched.model.history import AttemptRecord
from gsched.model.past import HistoryJob, logical_jobs
from gsched.model.progress import Progress
from gsched.synth.columns import PastRun, TraceJobs, trace_jobs
from gsched.synth.compare import distances, facts
from gsched.synth.draw import Drawn
from gsched.synth.fit import Fit, parse_fit
from gsched.synth.measure import fit
from gsched.synth.trace import as_jobs, attempts
from gsched.traces.source import STDIN, open_trace

MAX_FIT_BYTES = 16 * 2**20


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fit; `jobs` are those of its source where it was read just now, `notes` what to know."""

    fit: Fit
    jobs: TraceJobs | None = None
    notes: tuple[str, ...] = ()


def fit_files(files: Sequence[str], options: TraceOptions, told: Progress) -> Fitted:
    """Fit the jobs of some files.

    Raises DataError for a file that is cut off, is not of the format, or tells of fewer than two
    jobs that ran.
    """
    if list(files).count(STDIN) > 1:
        raise UsageError("standard input can be read once only")
    seen: dict[str, Any] = {}
    records: list[AttemptRecord] = []
    notes: dict[str, None] = {}
    rejected = 0
    counts_gpus = options.counts_gpus(files)
    for name in in_reading_order(options.format, files):
        with open_trace(name) as stream:
            chunks = reader_of(options.format)(stream, options.for_file(name, seen, counts_gpus))
            for chunk in chunks:
                records += chunk.attempts.records()
                rejected += len(chunk.rejects)
                notes.update(dict.fromkeys(chunk.notes))
                told(f"reading {name}, rows", len(records))
            if stream.damage:
                raise DataError(stream.damage, "get the whole file; nothing is fitted")
    if rejected:
        notes[f"{rejected:,} rows were not understood and are left out"] = None
    names = ", ".join("standard input" if name == STDIN else Path(name).name for name in files)
    return _fitted(records, options.format, f"{options.format}: {names}", tuple(notes))


def fit_history(settings: Settings, cluster: str | None, told: Progress) -> Fitted:
    """Fit the jobs of the history, or of one cluster of it."""
    records: list[AttemptRecord] = []
    with open_history(settings) as history:
        for part in history.export(cluster):
            records += part.records()
            told("reading the history, attempts", len(records))
    where = "all clusters" if cluster is None else f"cluster {cluster}"
    return _fitted(records, "history", f"the history, {where}", ())


def read_fit(path: Path) -> Fitted:
    """A fit that `write_fit` has written. Raises DataError for anything else."""
    try:
        data = read_bounded(path, MAX_FIT_BYTES + 1)
    except OSError as e:
        raise DataError(f"cannot read {path}: {e.strerror}") from e
    if len(data) > MAX_FIT_BYTES:
        raise DataError(f"{path} is larger than a fit of a trace is")
    return Fitted(parse_fit(data.decode("utf-8", errors="replace"), str(path)))


def write_fit(made: Fit, path: Path, *, force: bool) -> None:
    """Write a fit as JSON; `force` replaces a file that is there."""
    with writing_whole(path, 0o644, replace=force) as file:
        file.write(made.text().encode())


def write_trace(drawn: Drawn, made: Fit, cluster: str, output: str, *, force: bool) -> None:
    """Write a drawn trace in gsched's own format, all or nothing (``-``: to standard output)."""
    with ending_by_signals(), writing(output, force) as write:
        for part in attempts(drawn, made, cluster):
            write(part)


def comparison(fitted: Fitted, drawn: Drawn) -> dict[str, Any]:
    """Figures of the source and of the drawn trace, and their distances where both are at hand."""
    jobs = as_jobs(drawn, fitted.fit)
    found = facts(jobs)
    return {
        "facts": {
            name: {"source": told, "drawn": found[name]} for name, told in fitted.fit.facts.items()
        },
        "distances": None if fitted.jobs is None else distances(fitted.jobs, jobs),
    }


def _fitted(
    records: Sequence[AttemptRecord], name: str, source: str, notes: tuple[str, ...]
) -> Fitted:
    jobs = trace_jobs(_jobs(records))
    if jobs.left_out:
        notes += (f"{jobs.left_out:,} jobs are left out: they did not run, or on no {jobs.unit}",)
    return Fitted(fit(jobs, name, (source,)), jobs, notes)


def _jobs(records: Sequence[AttemptRecord]) -> Iterator[PastRun]:
    """Logical jobs; most have one attempt, which is the job."""
    by_slot: dict[tuple[object, ...], list[AttemptRecord]] = {}
    for record in records:
        slot = (record.cluster, record.job_id, record.array_task, record.het_offset)
        by_slot.setdefault(slot, []).append(record)
    several: list[AttemptRecord] = []
    for attempts_of_slot in by_slot.values():
        if len(attempts_of_slot) == 1:
            yield _run(attempts_of_slot[0], attempts_of_slot[0].submit_time)
        else:
            several += attempts_of_slot
    yield from (_run(job, job.key.epoch) for job in logical_jobs(several))


def _run(job: AttemptRecord | HistoryJob, submit_time: int) -> PastRun:
    others = {name: getattr(job, name) for name in PastRun._fields if name != "submit_time"}
    return PastRun(submit_time=submit_time, **others)
