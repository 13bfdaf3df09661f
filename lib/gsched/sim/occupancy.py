"""How the GPUs were used over a stretch of time.

Use is exact, from the stretches in which jobs held GPUs; a GPU with two jobs counts once. What is
free, fragmented and wanted comes from samples of the cluster (`SimRules.sample_s` apart). All
shares are of all GPUs of the cluster, those of sleeping and failed nodes included.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from gsched.sim.jobs import Floats
from gsched.sim.result import SimResult


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Means over `length_s` seconds; None where there is no sample, or no time.

    `fragmented_share` are GPUs that are free on nodes which are not wholly free;
    `fragmented_share_of_free` is of the free ones. `free_while_wanted_share` is the lesser of what
    was free and what waiting jobs asked for: what a better packing could have used at most.
    """

    length_s: float
    utilisation: float | None
    fragmented_share: float | None
    fragmented_share_of_free: float | None
    free_while_wanted_share: float | None
    gpus_wanted: float | None
    jobs_waiting: float | None
    nodes_asleep: float | None
    nodes_down: float | None

    def document(self) -> dict[str, float | None]:
        """With the names of the fields as keys."""
        return asdict(self)


def horizon_s(result: SimResult) -> float:
    """The last moment of which the result tells something: the last end, if all have ended."""
    known = [result.jobs.submit_s[:1], result.segments.start_s[-1:], _ends(result)]
    if not result.finished.all():
        known.append(result.samples.time_s[-1:])
    return float(np.concatenate([*known, result.end_s[result.finished]]).max())


def occupancies(result: SimResult) -> tuple[Occupancy, Occupancy]:
    """From the first submission to the last end, and to the last submission only.

    The second leaves out the time in which no work comes any more and the cluster runs empty. An
    interrupted simulation is told up to where it came.
    """
    first = float(result.jobs.submit_s[0])
    until = horizon_s(result)
    last = min(float(result.jobs.submit_s[-1]), until)
    return _occupancy(result, first, until), _occupancy(result, first, last)


def busy_gpu_s(result: SimResult, begin_s: float, end_s: float) -> float:
    """GPU-seconds in use between two moments; a shared GPU counts once."""
    segments = result.segments
    stop_s = np.where(np.isnan(segments.end_s), horizon_s(result), segments.end_s)
    held_s = _within(segments.start_s, stop_s, begin_s, end_s)
    twice_s = _beside_others(result, stop_s, begin_s, end_s)
    gpus = result.jobs.num_gpus[segments.job]
    return float(np.sum((held_s - twice_s) * gpus))


def _occupancy(result: SimResult, begin_s: float, end_s: float) -> Occupancy:
    samples = result.samples
    gpu_s = (end_s - begin_s) * result.cluster.num_gpus
    used = busy_gpu_s(result, begin_s, end_s) / gpu_s if gpu_s else None
    rows = (samples.time_s >= begin_s) & (samples.time_s <= end_s)
    if not rows.any():
        return Occupancy(end_s - begin_s, used, *([None] * 7))
    free = samples.gpus_free[rows].astype(np.float64)
    whole = samples.gpus_free_whole[rows].astype(np.float64)
    wanted = samples.gpus_wanted[rows].astype(np.float64)
    fragmented = float((free - whole).mean())
    return Occupancy(
        length_s=end_s - begin_s,
        utilisation=used,
        fragmented_share=fragmented / result.cluster.num_gpus,
        fragmented_share_of_free=fragmented / float(free.mean()) if free.any() else None,
        free_while_wanted_share=float(np.minimum(free, wanted).mean()) / result.cluster.num_gpus,
        gpus_wanted=float(wanted.mean()),
        jobs_waiting=float(samples.jobs_waiting[rows].mean()),
        nodes_asleep=float(samples.nodes_asleep[rows].mean()),
        nodes_down=float(samples.nodes_down[rows].mean()),
    )


def _within(start_s: Floats, stop_s: Floats, begin_s: float, end_s: float) -> Floats:
    """How much of each stretch lies between two moments."""
    found: Floats = np.maximum(np.minimum(stop_s, end_s) - np.maximum(start_s, begin_s), 0.0)
    return found


def _beside_others(result: SimResult, stop_s: Floats, begin_s: float, end_s: float) -> Floats:
    """How much of each stretch ran on GPUs of a job that was there before it."""
    segments = result.segments
    found = np.zeros(len(stop_s))
    joined = np.flatnonzero(segments.shared >= 0)
    if not len(joined):
        return found
    latest: dict[int, int] = {}  # row of a job → its last segment so far
    partner = np.full(len(stop_s), -1)
    jobs, beside = segments.job.tolist(), segments.shared.tolist()
    for place, (job, other) in enumerate(zip(jobs, beside, strict=True)):
        if other >= 0:
            partner[place] = latest.get(other, -1)
        latest[job] = place
    joined = joined[partner[joined] >= 0]
    together = np.minimum(stop_s[joined], stop_s[partner[joined]])
    found[joined] = _within(segments.start_s[joined], together, begin_s, end_s)
    return found


def _ends(result: SimResult) -> Floats:
    ends = result.segments.end_s
    return ends[~np.isnan(ends)]
