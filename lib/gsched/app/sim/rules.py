"""What a command line assumes of a simulated cluster → ``gsched.sim.rules.SimRules``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from gsched.errors import DataError, UsageError
from gsched.model.job import Capability
from gsched.model.times import DAY_S
from gsched.policy.base import Policy
from gsched.sim.colocation import classes_of, drawn_classes, read_colocation
from gsched.sim.core.reservation import NO_LIMIT_S
from gsched.sim.jobs import ANY, SimJobs
from gsched.sim.rules import (
    Costs,
    Failures,
    Placement,
    Power,
    Scheduler,
    Sharing,
    SimRules,
    Sleep,
)

USUAL_SAMPLE_S = 600
MAX_SAMPLES = 20_000
SHORTEST_MTBF_S = 60


@dataclass(frozen=True, slots=True)
class RulesOrder:
    """The options, in seconds. None: that does not happen here.

    `sharing` is a file of measured speeds, `sharing_gpu` the part of it, and with `sharing_drawn`
    each job gets one of its classes by chance, else by its name. Raises UsageError for nodes that
    fail all the time, and for parts of a second where whole ones count.
    """

    placement: str = "consolidated"
    slurm: bool = False
    seed: int = 0
    launch_s: float = 0.0
    cleanup_s: float = 0.0
    checkpoint_s: float = 0.0
    restart_s: float = 0.0
    restart_wide_s: float | None = None
    restart_one_gpu_s: float | None = None
    round_s: float = 0.0
    starvation_bound_s: float = 0.0
    mtbf_s: float | None = None
    repair_s: float = 3600.0
    checkpoint_every_s: float = 0.0
    sharing: str | None = None
    sharing_gpu: str = "v100"
    sharing_drawn: bool = False
    min_speed: float = 0.5
    sleep_after_s: float | None = None
    wake_s: float = 300.0
    keep_awake: int = 0
    power: Power = field(default_factory=Power)

    def __post_init__(self) -> None:
        if self.mtbf_s is not None and self.mtbf_s < SHORTEST_MTBF_S:
            raise UsageError(
                f"--mtbf: nodes that fail more often than every {SHORTEST_MTBF_S} s do no work"
            )
        for option, seconds in (
            ("--round", self.round_s),  # multiples of parts of a second are not exact
            ("--starvation-bound", self.starvation_bound_s),
        ):
            if seconds % 1:
                raise UsageError(f"{option}: {seconds:g} s are not whole seconds")

    @property
    def has_chance(self) -> bool:
        """Whether another seed gives another result."""
        return self.mtbf_s is not None or self.sharing_drawn

    def check(self, policy: Policy) -> None:
        """Raises UsageError for a policy that these options take something away from."""
        if self.slurm and Capability.PREEMPT in policy.requires:
            raise UsageError(
                f"policy {policy.name} needs {Capability.PREEMPT.value}, and with --slurm no job "
                "is preempted",
                "leave --slurm out, or choose a policy without `checkpoint` among its needs: "
                "`gsched policy list`",
            )
        if self.starvation_bound_s and Capability.PREEMPT in policy.requires:
            raise UsageError(
                f"policy {policy.name} preempts: it gives GPUs by a rule of its own, whoever has "
                "waited beyond --starvation-bound",
                "leave the bound out, or choose a policy without `checkpoint` among its needs: "
                "`gsched policy list`",
            )

    def rules(self, jobs: SimJobs, sharing: Sharing | None) -> SimRules:
        """The rules for these jobs. Samples lie further apart where the jobs span many years."""
        wide = self.restart_s if self.restart_wide_s is None else self.restart_wide_s
        span_s = float(jobs.submit_s[-1] + jobs.duration_s.max())
        return SimRules(
            placement=Placement(self.placement),
            scheduler=Scheduler.SLURM if self.slurm else Scheduler.PLAIN,
            seed=self.seed,
            costs=Costs(
                self.launch_s,
                self.cleanup_s,
                self.checkpoint_s,
                self.restart_s,
                wide,
                self.restart_one_gpu_s,
            ),
            failures=None
            if self.mtbf_s is None
            else Failures(self.mtbf_s, self.repair_s, self.checkpoint_every_s),
            sharing=sharing,
            sleep=None
            if self.sleep_after_s is None
            else Sleep(self.sleep_after_s, self.wake_s, self.keep_awake),
            power=self.power,
            sample_s=USUAL_SAMPLE_S * max(1.0, np.ceil(span_s / USUAL_SAMPLE_S / MAX_SAMPLES)),
            round_s=self.round_s,
            starvation_bound_s=int(self.starvation_bound_s),
        )

    def pairs(self) -> Sharing | None:
        """The measured pairs, None without. Raises what `read_colocation` raises."""
        if self.sharing is None:
            if self.sharing_drawn:
                raise UsageError("--sharing-drawn needs --sharing FILE")
            return None
        return read_colocation(self.sharing, self.sharing_gpu, self.min_speed)

    def shared(self, jobs: SimJobs, sharing: Sharing | None, seed: int) -> tuple[SimJobs, str]:
        """The jobs with their classes, and in words how they got them.

        Raises DataError where no job has one.
        """
        if sharing is None:
            return jobs, ""
        if self.sharing_drawn:
            classes = drawn_classes(sharing, jobs.num_gpus, seed)
            how = "drawn by chance among those measured with as many GPUs"
        else:
            names = [jobs.names[code] if code >= 0 else "" for code in jobs.name.tolist()]
            classes = classes_of(sharing, names, jobs.num_gpus)
            how = "by job name"
        known = int((classes != ANY).sum())
        if not known:
            raise DataError(
                f"{self.sharing} measured none of the {len(jobs):,} jobs", self._unmeasured(jobs)
            )
        words = f"Sharing: {self.sharing}, classes {how}; {known:,} of {len(jobs):,} jobs have one."
        return replace(jobs, share_class=classes), words

    def _unmeasured(self, jobs: SimJobs) -> str:
        """A hint where no job has a class."""
        sharing = self.pairs()
        example = sharing.classes[0] if sharing else ""
        if self.sharing_drawn:
            return f"no job has as many GPUs as any class was measured with ({example[:60]!r})"
        if not jobs.names:
            return "these jobs tell no names: --sharing-drawn gives them classes by chance"
        return (
            f"a class is {example[:60]!r}, and a job is called {jobs.names[0][:60]!r}: they have "
            "to be the same name, or --sharing-drawn gives classes by chance"
        )


def limit_words(jobs: SimJobs) -> str:
    """What the time limits that backfill goes by are worth, in words."""
    has_none = np.isnan(jobs.time_limit_s)
    untold = int(has_none.sum())
    overdue = int((jobs.duration_s > jobs.time_limit_s).sum())
    words = (
        f"Time limits for backfill: {untold:,} of {len(jobs):,} jobs have none and count as "
        f"{NO_LIMIT_S / DAY_S:g} days"
    )
    if untold == len(jobs):
        return f"{words}."
    return (
        f"{words}; {overdue:,} of the {len(jobs) - untold:,} others run for longer than their "
        "limit: Slurm would end them, here they run on and count as if they might end at any "
        "moment."
    )
