"""When waiting jobs will start: the simulator run forward, once a seeded sample.

Each sample is one future (`futures`): how long jobs run, who comes. In each field the simulator
carries it on from now as Slurm would, until all that wait have started. Changes of a job are tried
in the same futures, so that what differs is the change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gsched.forecast.calibration import NO_CALIBRATION, Calibration
from gsched.forecast.field_run import FieldRun, Flags
from gsched.forecast.futures import Futures
from gsched.forecast.next_free import NextFrees, intervals
from gsched.forecast.outlook import (
    NEVER_FITS,
    Change,
    ChangedStart,
    ForecastOptions,
    NoStart,
    Outlook,
    Start,
)
from gsched.forecast.queue_columns import InField, in_field
from gsched.forecast.sampling import Floats
from gsched.forecast.situation import Situation, check


def forecast(
    situation: Situation,
    options: ForecastOptions | None = None,
    calibration: Calibration = NO_CALIBRATION,
) -> Outlook:
    """The outlook of all waiting jobs. Raises DataError for a situation that is none."""
    return ForwardRun(situation, options or ForecastOptions()).outlook(calibration)


def what_if(
    situation: Situation,
    job_id: str,
    changes: Sequence[Change],
    options: ForecastOptions | None = None,
    calibration: Calibration = NO_CALIBRATION,
) -> tuple[ChangedStart, ...]:
    """When a job would start after each of some changes; see `ForwardRun.what_if`."""
    return ForwardRun(situation, options or ForecastOptions()).what_if(job_id, changes, calibration)


class ForwardRun:
    """A situation with its futures, to ask as often as needed."""

    def __init__(self, situation: Situation, options: ForecastOptions) -> None:
        """Raises DataError for a situation that contradicts itself."""
        check(situation)
        self._situation, self._options = situation, options
        self._futures = Futures(situation, options)
        self._fields = [FieldRun(situation, field) for field in range(len(situation.fields))]
        self._waiting = [
            in_field(situation.waiting, field, run, situation.as_of)
            for field, run in enumerate(self._fields)
        ]
        self._arriving = [
            in_field(situation.arrivals, field, run, situation.as_of)
            for field, run in enumerate(self._fields)
        ]
        self._start_s = np.full((len(situation.waiting), options.samples), np.nan)
        self._came_s = [future.arrivals.submit_s.copy() for future in self._futures.each]
        self._fields_done = 0

    def outlook(self, calibration: Calibration = NO_CALIBRATION) -> Outlook:
        """All waiting jobs, in their order in the situation."""
        situation, options = self._situation, self._options
        self._run_fields(len(situation.fields))
        next_free = NextFrees(situation, self._fields, self._futures.remaining_s, options.coverage)
        starts, no_starts = [], []
        told = intervals(situation.as_of + self._start_s, options.coverage)
        for job, raw in zip(situation.waiting, told, strict=True):
            if math.isnan(raw.median):
                no_starts.append(NoStart(job.job_id, NEVER_FITS))
                continue
            starts.append(
                Start(
                    job_id=job.job_id,
                    start=calibration.apply(job.begins_at(situation.as_of), raw),
                    raw=raw,
                    calibrated_on=calibration.learnt_from,
                    next_free=next_free.row_for(job.demands[0]),
                )
            )
        return Outlook(
            as_of=situation.as_of,
            samples=options.samples,
            seed=options.seed,
            coverage=options.coverage,
            starts=tuple(starts),
            no_starts=tuple(no_starts),
            next_free=tuple(next_free.found),
            overcommitted=sum(field.overcommitted for field in self._fields),
        )

    def what_if(
        self, job_id: str, changes: Sequence[Change], calibration: Calibration = NO_CALIBRATION
    ) -> tuple[ChangedStart, ...]:
        """When `job_id` would start after each change; it need not wait yet (a job about to be
        submitted).
        """
        return tuple(self._changed(job_id, change, calibration) for change in changes)

    # -- samples ----------------------------------------------------------------------------

    def _run_fields(self, end: int) -> None:
        """The fields before `end`, once: who starts there holds something in later ones."""
        for field in range(self._fields_done, end):
            queue = self._waiting[field]
            self._fields_done = field + 1
            awaited = queue.waits & queue.fits
            if not awaited.any():
                continue
            for sample in range(self._options.samples):
                duration_s = self._futures.duration_s[queue.rows, sample]
                start_s, came_s = self._run(field, queue, duration_s, awaited, sample)
                self._start_s[queue.rows[awaited], sample] = start_s[awaited]
                started = ~np.isnan(came_s)
                self._came_s[sample][started] = came_s[started]

    def _run(
        self, field: int, queue: InField, duration_s: Floats, awaited: Flags, sample: int
    ) -> tuple[Floats, Floats]:
        """When those in the queue and those to come start in one field; NaN: not seen."""
        future, run = self._futures.each[sample], self._fields[field]
        submit_s = queue.comers.submit_s.copy()
        beside = ~queue.waits
        submit_s[beside] = self._start_s[queue.rows[beside], sample]
        is_there = queue.fits & ~np.isnan(submit_s)
        arrivals, arriving = future.arrivals, self._arriving[field]
        place = arriving.place_of(arrivals.rows)
        comes = np.flatnonzero(place >= 0)
        place = place[comes]
        comes, place = comes[arriving.fits[place]], place[arriving.fits[place]]
        come_s = np.where(
            arriving.waits[place], arrivals.submit_s[comes], self._came_s[sample][comes]
        )
        later = arriving.comers.of(place)
        later = replace(
            later, submit_s=come_s, order=later.order + self._situation.order_per_s * come_s
        )
        comers = replace(queue.comers, submit_s=submit_s).of(is_there).and_then(later)
        order = np.argsort(comers.submit_s, kind="stable")
        lasting_s = np.concatenate((duration_s[is_there], future.arrivals_s[comes]))
        waits = np.concatenate((awaited[is_there], np.zeros(len(comes), dtype=np.bool_)))
        found = np.full(len(order), np.nan)
        found[order] = run.run(
            future.remaining_s[run.holders], comers.of(order), lasting_s[order], waits[order]
        )
        start_s = np.full(len(queue.rows), np.nan)
        start_s[is_there] = found[: is_there.sum()]
        came_s = np.full(len(arrivals.rows), np.nan)
        came_s[comes] = found[is_there.sum() :]
        return start_s, came_s

    def _changed(self, job_id: str, change: Change, calibration: Calibration) -> ChangedStart:
        situation = self._situation
        field = change.job.demands[0].field
        changed = in_field((change.job,), field, self._fields[field], situation.as_of)
        if not changed.fits[0]:
            return ChangedStart(change.kind, change.option, change.value, None)
        self._run_fields(field)
        row = next((r for r, job in enumerate(situation.waiting) if job.job_id == job_id), None)
        queue = self._waiting[field].changed(row, changed, len(situation.waiting))
        duration_s = np.vstack((self._futures.duration_s, self._futures.durations((change.job,))))
        awaited = queue.rows == len(situation.waiting)
        starts = [
            self._run(field, queue, duration_s[queue.rows, sample], awaited, sample)[0][awaited]
            for sample in range(self._options.samples)
        ]
        start_s = np.concatenate(starts)[np.newaxis]
        (raw,) = intervals(situation.as_of + start_s, self._options.coverage)
        start = calibration.apply(change.job.begins_at(situation.as_of), raw)
        return ChangedStart(change.kind, change.option, change.value, start)
