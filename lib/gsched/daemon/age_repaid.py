"""The age that a requeue has cost a job, given back: Slurm counts it anew with each attempt.

A job that gave way at the end of its lease had waited for its GPUs before, perhaps for long. What
Slurm's age factor had given it for that is put into its SiteFactor as long as it waits again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gsched.daemon.job_book import Seen
from gsched.daemon.site_factor import SiteFactorScale
from gsched.daemon.site_factor_plan import Targets
from gsched.model.decision import Reason
from gsched.model.job import JobKey
from gsched.slurm.records import SlurmConfig


@dataclass(frozen=True, slots=True)
class Repayment:
    """What is owed: `waited_s` by job, the seconds that its earlier attempts waited.

    `weight` and `max_age_s` are PriorityWeightAge and PriorityMaxAge.
    """

    weight: int = 0
    max_age_s: int = 1
    waited_s: Mapping[JobKey, int] = field(default_factory=dict)

    @classmethod
    def of(cls, config: SlurmConfig, waited_s: Mapping[JobKey, int]) -> Repayment:
        """By Slurm's configuration. Without slurmdbd Slurm counts no age, and nothing is lost."""
        weight = config.weights().get("age", 0) if config.has_slurmdbd else 0
        return cls(weight, config.max_age_s, waited_s)

    def points(self, key: JobKey) -> int:
        """What Slurm's age factor had given the job; 0 where nothing is owed."""
        return int(self.weight * min(1.0, max(0, self.waited_s.get(key, 0)) / self.max_age_s))


NOTHING_OWED = Repayment()


def repay(
    found: Targets, jobs: Sequence[Seen], owed: Repayment, scale: SiteFactorScale
) -> tuple[Targets, dict[JobKey, int]]:
    """`found` with what is owed, in whole quanta, and how many points each such job has got.

    No job comes before the first of the order by it, nor out of the range: whom GPUs are being
    freed for stays in front.
    """
    if not owed.weight or not owed.waited_s or not len(found.rows):
        return found, {}
    top = min(int(found.target.max()), scale.max_shift)
    target, got = found.target.copy(), {}
    for place, row in enumerate(found.rows.tolist()):
        key = jobs[row].key
        points = owed.points(key) // scale.quantum * scale.quantum
        paid = min(points, top - int(target[place]))
        if found.movable[place] and paid > 0:
            target[place] += paid
            got[key] = paid
    return replace(found, target=np.asarray(target)), got


def told(reason: Reason, points: int, waited_s: int) -> Reason:
    """The reason of a job that got something back, with how much and for what."""
    more = {"repaid_points": points, "repaid_wait_s": waited_s}
    return replace(reason, params={**reason.params, **more})
