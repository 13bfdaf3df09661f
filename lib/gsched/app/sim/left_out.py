"""Jobs that are not simulated: why, how many, and which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SHOWN = 3
"""So many jobs of each kind that is left out are named."""

MUCH = 0.05
"""Where more than such a part of the GPU time is left out, that is a warning."""

LEFT_OUT = {
    "rejected": "that could not be understood",
    "impossible-time": "with times before 1970 or centuries ahead",
    "no-gpus": "without GPUs",
    "gpus-unknown": "of which nobody tells how many GPUs they had",
    "not-ended": "still waiting or running, or of which nobody tells an end",
    "never-ran": "that never ran",
    "ended-before-start": "with an end before the start",
    "zero-duration": "that ran for less than a second",
    "no-such-pool": "of a pool that the cluster does not have",
    "larger-than-pool": "too large for the pool",
}
"""Why a job is not simulated, in the order in which it is asked; the first that holds counts."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Jobs that are not simulated; `gpu_time_s` sums what is known of GPUs times run time.

    `examples` name the first SHOWN of them (lines of the file for rejected rows).
    """

    reason: str
    jobs: int
    gpu_time_s: float = 0.0
    examples: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """For people: ``12 jobs without GPUs``."""
        named = f" ({', '.join(self.examples)}{', …' if self.jobs > len(self.examples) else ''})"
        what = "row" if self.reason == "rejected" else "job"
        several = "" if self.jobs == 1 else "s"
        return (
            f"{self.jobs:,} {what}{several} {LEFT_OUT[self.reason]}{named if self.examples else ''}"
        )

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "reason": self.reason,
            "jobs": self.jobs,
            "gpu_time_s": self.gpu_time_s,
            "examples": list(self.examples),
        }


def much_left_out(left_out: Sequence[LeftOut], total_s: float) -> str:
    """A warning where much of the jobs' GPU time is not simulated, "" where little is.

    `total_s` is the GPU time of all jobs as recorded, of those that are left out too.
    """
    missing_s = sum(left.gpu_time_s for left in left_out)
    share = missing_s / total_s if missing_s else 0.0
    if share <= MUCH:
        return ""
    reasons = sorted((left for left in left_out if left.gpu_time_s), key=lambda o: -o.gpu_time_s)
    return (
        f"{share:.1%} of the jobs' GPU time is not simulated: "
        f"{'; '.join(left.words for left in reasons)}"
    )
