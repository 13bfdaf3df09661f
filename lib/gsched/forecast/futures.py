"""The futures in which a forecast is made: for each sample who runs how long, and who comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gsched.forecast.arrivals import Arrivals, PastDays
from gsched.forecast.outlook import ForecastOptions
from gsched.forecast.queue_columns import run_times
from gsched.forecast.sampling import Floats, name_hashes, stratified, uniform
from gsched.forecast.situation import RunningJob, Situation, WaitingJob


@dataclass(frozen=True, eq=False)
class Future:
    """One sample: seconds that running jobs have left and that waiting ones will run, by their rows
    in the situation, and who comes for how long.
    """

    remaining_s: Floats
    duration_s: Floats
    arrivals: Arrivals
    arrivals_s: Floats


class Futures:
    """All samples of a situation, drawn once.

    `remaining_s` of running jobs and `duration_s` of waiting ones have a column for each sample.
    """

    def __init__(self, situation: Situation, options: ForecastOptions) -> None:
        self._situation, self._options = situation, options
        self.remaining_s = self._remaining()
        self.duration_s = self.durations(situation.waiting)
        past = situation.arrivals
        days = PastDays(
            situation.as_of,
            np.array([arrival.submitted_at for arrival in past], dtype=np.float64),
            situation.arrivals_from,
        )
        times = run_times(situation, past)
        self.each = [
            Future(
                remaining_s=self.remaining_s[:, sample],
                duration_s=self.duration_s[:, sample],
                arrivals=arrivals,
                arrivals_s=times.of(arrivals.rows).draw(uniform(arrivals.numbers)[:, None])[:, 0],
            )
            for sample, arrivals in enumerate(
                days.draw(options.samples, options.horizon_s, options.seed)
            )
        ]

    def durations(self, jobs: Sequence[WaitingJob]) -> Floats:
        """(job, sample): what each of some jobs would run; the same name, the same luck."""
        return run_times(self._situation, jobs).draw(self._chances(jobs))

    def _remaining(self) -> Floats:
        running = self._situation.running
        elapsed_s = np.array([self._situation.as_of - job.started_at for job in running])
        times = run_times(self._situation, running)
        return times.draw_remaining(self._chances(running), elapsed_s)

    def _chances(self, jobs: Sequence[WaitingJob | RunningJob]) -> Floats:
        hashes = name_hashes([job.job_id for job in jobs], self._options.seed)
        return stratified(hashes, self._options.samples)
