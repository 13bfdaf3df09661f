"""Where the GPU-seconds of a trial of deadlines went: training, starting, giving way, idle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.deadline_site import STEP_S, DeadlineSite
from support.lease_site import Held, Step

BEST, TARGETS = "best effort", "with deadlines"


@dataclass
class Use:
    """What one kind of training made of the GPUs within a window.

    GPU-seconds: `trained` from the beginning of an attempt's first step to the end of its last one,
    `started` before that, `left` after it. `steps` as they were done, `again` of them not for the
    first time. `attempts` began within the window.
    """

    gpu_s: Counter[str] = field(default_factory=Counter)
    steps: int = 0
    again: int = 0
    attempts: int = 0

    def row(self) -> dict[str, Any]:
        """For tables."""
        told = {name: round(self.gpu_s[name]) for name in ("started", "trained", "left")}
        counted = {"steps": self.steps, "steps done again": self.again, "starts": self.attempts}
        return {**counted, **{f"GPU-seconds {name}": s for name, s in told.items()}}


def use_of(site: DeadlineSite, begin: float, length_s: float) -> dict[str, Any]:
    """Of all GPUs, from `begin` (epoch) on for so many seconds."""
    end = begin + length_s
    names = {handed.job: name for name, handed in site.handed.items()}
    steps = {name: site.steps(name) for name in site.handed}
    best = {name for name in names.values() if name.startswith("best-")}
    used = {BEST: Use(), TARGETS: Use()}
    held_s = 0.0
    for held in site.held():
        name = names[held.job]
        use = used[BEST if name in best else TARGETS]
        use.attempts += begin <= held.start < end
        for what, start, stop in _parts(held, steps[name]):
            seconds = max(0.0, min(stop, end) - max(start, begin))
            use.gpu_s[what] += seconds * held.gpus
            held_s += seconds * held.gpus
    for name, own in steps.items():
        use = used[BEST if name in best else TARGETS]
        use.steps += sum(begin <= step.at < end for step in own)
        use.again += _again(own, begin, end)
    idle_s = max(0.0, site.num_gpus * length_s - held_s)
    total: Mapping[str, Any] = {kind: use.row() for kind, use in used.items()}
    return {**total, "GPU-seconds idle": round(idle_s)}


def _parts(held: Held, steps: Sequence[Step]) -> list[tuple[str, float, float]]:
    """An attempt's time on its GPUs, cut up: what, from when, until when."""
    mine = [step.at for step in steps if held.start <= step.at <= held.end + 1]
    if not mine:
        return [("started", held.start, held.end)]
    first = max(held.start, mine[0] - STEP_S)
    last = min(held.end, mine[-1])
    return [
        ("started", held.start, first), ("trained", first, last), ("left", last, held.end),
    ]  # fmt: skip


def _again(steps: Sequence[Step], begin: float, end: float) -> int:
    """How many steps within a window had been done before."""
    seen, found = 0, 0
    for step in steps:
        found += step.step <= seen and begin <= step.at < end
        seen = max(seen, step.step)
    return found
