"""A whole simulation with an order that never changes, and its result by column."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gsched.model.progress import Progress
from gsched.policy.order_form import OrderForm
from gsched.sim.cluster import SimCluster
from gsched.sim.core.effects import energy_wh
from gsched.sim.core.static_loop import StaticLoop, make_loop, run_until
from gsched.sim.jobs import ANY, Floats, Ints, SimJobs
from gsched.sim.result import Samples, Segments, SimResult
from gsched.sim.rules import SimRules

_ARRIVALS = 1 << 16  # between two looks at what the person at the keyboard wants


def run_static(
    jobs: SimJobs,
    cluster: SimCluster,
    form: OrderForm,
    rules: SimRules,
    policy: str,
    told: Progress,
) -> SimResult:
    """What the static order `form` would have done; the part so far after Ctrl-C."""
    loop = make_loop(jobs, cluster, form.constant)
    interrupted = False
    try:
        for until_s in _windows(jobs.submit_s):
            run_until(loop, rules, until_s)
            ended = int(loop.progress["ended"][0])
            told("jobs ended", ended)
            if ended == len(jobs):
                break
    except KeyboardInterrupt:
        interrupted = True
    return _result(loop, jobs, cluster, rules, policy, interrupted)


def _windows(submit_s: Floats) -> Iterator[float]:
    """Times up to which to go: so many arrivals each, then twice as long each time, for ever."""
    if len(submit_s) == 0:
        return
    last_s = float(submit_s[-1])
    yield from submit_s[_ARRIVALS::_ARRIVALS].tolist()
    further_s = 1.0 + (last_s - float(submit_s[0])) / (1 + len(submit_s) // _ARRIVALS)
    while True:
        yield last_s
        last_s += further_s
        further_s *= 2.0


def _result(
    loop: StaticLoop,
    jobs: SimJobs,
    cluster: SimCluster,
    rules: SimRules,
    policy: str,
    interrupted: bool,
) -> SimResult:
    """The columns of what has happened so far."""
    first_s = float(jobs.submit_s[0]) if len(jobs) else 0.0
    last_s = float(np.nanmax(loop.free_s, initial=first_s))
    ended = ~np.isnan(loop.free_s)
    if not ended.all():
        last_s = max(last_s, float(loop.progress["reached_s"][0]))
    samples = _samples(loop, cluster, rules.sample_s, first_s, last_s)
    segments = _segments(loop)
    run_s = np.nan_to_num(np.where(ended, loop.free_s, last_s) - loop.start_s)
    end_s = np.where(ended, loop.start_s + rules.costs.launch_s + jobs.duration_s, np.nan)
    used_gpu_s = float(run_s @ jobs.num_gpus)
    none = np.zeros(len(jobs), dtype=np.int32)
    return SimResult(
        policy=policy,
        jobs=jobs,
        cluster=cluster,
        rules=rules,
        start_s=loop.start_s,
        end_s=end_s,
        run_s=run_s,
        lost_s=np.maximum(np.where(ended, run_s - jobs.duration_s, 0.0), 0.0),
        preemptions=none,
        failures=none.copy(),
        segments=segments,
        samples=samples,
        energy_wh=energy_wh(rules.power, cluster.num_nodes * (last_s - first_s), 0.0, used_gpu_s),
        wakes=0,
        path="static",
        interrupted=interrupted,
    )


def _segments(loop: StaticLoop) -> Segments:
    order = np.argsort(loop.start_s, kind="stable")
    job = order[: np.count_nonzero(~np.isnan(loop.start_s))].astype(np.int32)
    return Segments(
        job=job,
        start_s=loop.start_s[job],
        end_s=loop.free_s[job],
        node=loop.node[job],
        shared=np.full(len(job), ANY, dtype=np.int32),
    )


def _samples(
    loop: StaticLoop, cluster: SimCluster, sample_s: float, first_s: float, last_s: float
) -> Samples:
    """The cluster right after whatever happens up to each time, from what each job changes."""
    many = int(np.ceil((last_s - first_s) / sample_s)) + 1 if len(loop.submit_s) else 0
    steps = np.full(many, sample_s)
    steps[:1] = first_s
    time_s = np.cumsum(steps)  # step by step, as a clock goes
    # the first sample at or after each moment; behind the last where there is none, or NaN
    submitted = np.searchsorted(time_s, loop.submit_s)
    started = np.searchsorted(time_s, loop.start_s)
    freed = np.searchsorted(time_s, loop.free_s)

    def summed(sample: NDArray[np.int64], amount: Ints | None = None) -> NDArray[np.float64]:
        return np.cumsum(np.bincount(sample, amount, minlength=many + 1)[:many])

    gpus_started, jobs_started = summed(started, loop.num_gpus), summed(started)
    used = gpus_started - summed(freed, loop.num_gpus)
    whole = summed(freed, loop.whole_at_end) - summed(started, loop.whole_at_start)

    def counted(values: NDArray[np.float64]) -> Ints:
        return values.astype(np.int32)

    none = np.zeros(many, dtype=np.int32)
    return Samples(
        time_s=time_s,
        gpus_used=counted(used),
        gpus_free=counted(cluster.num_gpus - used),
        gpus_free_whole=counted(cluster.num_gpus + whole),
        gpus_wanted=counted(summed(submitted, loop.num_gpus) - gpus_started),
        jobs_waiting=counted(summed(submitted) - jobs_started),
        jobs_running=counted(jobs_started - summed(freed)),
        nodes_asleep=none,
        nodes_down=none.copy(),
    )
