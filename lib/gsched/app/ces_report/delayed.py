"""Jobs that had to wait for their nodes to wake, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gsched.app.ces_report.pool_time import Ints, KnownTime
from gsched.model.node_power import WakeDelay


@dataclass(frozen=True)
class Delayed:
    """Durations in seconds; None: there are none, or it is not known.

    `jobs` were given nodes that slept; `gone` of them ended before these were awake. `jobs_started`
    are all jobs of the cluster that began in the known time.
    """

    jobs: int
    gone: int
    jobs_started: int | None
    delays_s: Ints

    @classmethod
    def of(cls, delays: Sequence[WakeDelay], starts: Ints | None, known: KnownTime) -> Delayed:
        """From what was kept, and the starts of all jobs (None: not known)."""
        seconds = [delay.delay_s for delay in delays if delay.delay_s is not None]
        started = None if starts is None else int(known.holds(starts).sum())
        return cls(
            jobs=len({(delay.job, delay.submit_time) for delay in delays}),
            gone=len(delays) - len(seconds),
            # a history that lacks jobs which were seen to begin is no denominator
            jobs_started=started if started is not None and started >= len(delays) else None,
            delays_s=np.array(seconds, dtype=np.int64),
        )

    def quantile(self, share: float) -> float | None:
        """The least delay that so large a share of the delayed jobs did not exceed."""
        if not len(self.delays_s):
            return None
        return float(np.quantile(self.delays_s, share, method="inverted_cdf"))

    @property
    def share(self) -> float | None:
        """Delayed jobs for each job that began."""
        return self.jobs / self.jobs_started if self.jobs_started else None

    def document(self) -> dict[str, Any]:
        """With units in the names."""
        started, total_s = self.jobs_started, int(self.delays_s.sum())
        return {
            "jobs": self.jobs,
            "gone_jobs": self.gone,
            "jobs_started": started,
            "delayed_share": self.share,
            "median_s": self.quantile(0.5),
            "p99_s": self.quantile(0.99),
            "max_s": self.quantile(1.0),
            "total_s": total_s,
            "mean_of_all_s": total_s / started if started else None,
        }
