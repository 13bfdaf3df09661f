"""What a command line assumes of a simulated cluster → ``gsched.sim.rules.SimRules``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from gsched.errors import UsageError
from gsched.sim.colocation import classes_of, drawn_classes, read_colocation
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
    fail all the time.
    """

    placement: str = "consolidated"
    slurm: bool = False
    seed: int = 0
    launch_s: float = 0.0
    cleanup_s: float = 0.0
    checkpoint_s: float = 0.0
    restart_s: float = 0.0
    restart_wide_s: float | None = None
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

    @property
    def has_chance(self) -> bool:
        """Whether another seed gives another result."""
        return self.mtbf_s is not None or self.sharing_drawn

    def rules(self, jobs: SimJobs, sharing: Sharing | None) -> SimRules:
        """The rules for these jobs. Samples lie further apart where the jobs span many years."""
        wide = self.restart_s if self.restart_wide_s is None else self.restart_wide_s
        span_s = float(jobs.submit_s[-1] + jobs.duration_s.max())
        return SimRules(
            placement=Placement(self.placement),
            scheduler=Scheduler.SLURM if self.slurm else Scheduler.PLAIN,
            seed=self.seed,
            costs=Costs(self.launch_s, self.cleanup_s, self.checkpoint_s, self.restart_s, wide),
            failures=None
            if self.mtbf_s is None
            else Failures(self.mtbf_s, self.repair_s, self.checkpoint_every_s),
            sharing=sharing,
            sleep=None
            if self.sleep_after_s is None
            else Sleep(self.sleep_after_s, self.wake_s, self.keep_awake),
            power=self.power,
            sample_s=USUAL_SAMPLE_S * max(1.0, np.ceil(span_s / USUAL_SAMPLE_S / MAX_SAMPLES)),
        )

    def pairs(self) -> Sharing | None:
        """The measured pairs, None without. Raises what `read_colocation` raises."""
        if self.sharing is None:
            if self.sharing_drawn:
                raise UsageError("--sharing-drawn needs --sharing FILE")
            return None
        return read_colocation(self.sharing, self.sharing_gpu, self.min_speed)

    def shared(self, jobs: SimJobs, sharing: Sharing | None, seed: int) -> tuple[SimJobs, str]:
        """The jobs with their classes, and in words how they got them."""
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
        words = f"Sharing: {self.sharing}, classes {how}; {known:,} of {len(jobs):,} jobs have one."
        return replace(jobs, share_class=classes), words
