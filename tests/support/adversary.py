"""A user who games the predictions, and a daemon's rounds that learn from what ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gsched.engine.deciding import RoundRules
from gsched.model.history import PastJob
from gsched.model.job import JobState, JobView, Prediction
from gsched.policy.qssf import Qssf
from gsched.predict.model import DurationModel
from gsched.sim.backend import SimBackend
from gsched.sim.replay import replay
from support.sim import SimJob, simulated, started


class Learning:
    """The model as the daemon has it: it takes in what has ended before each prediction.

    With `caution` off its predictions go without it, for comparison.
    """

    def __init__(self, model: DurationModel, backend: SimBackend, caution: bool) -> None:
        self.model_id = model.model_id
        self._model, self._backend, self._caution = model, backend, caution
        self._seen: set[int] = set()
        self.predicted_s: dict[int, float] = {}  # by job id

    def predict(self, jobs: Sequence[JobView], now: int) -> list[Prediction | None]:
        self._observe()
        found = [p for p in self._model.predict(jobs, now) if p is not None]
        if not self._caution:
            found = [replace(p, mean=p.mean / p.caution) for p in found]
        self.predicted_s |= {j.key.job_id: p.mean for j, p in zip(jobs, found, strict=True)}
        return list(found)

    def _observe(self) -> None:
        result = self._backend.result("")
        ended = [row for row in result.finished.nonzero()[0].tolist() if row not in self._seen]
        for row in sorted(ended, key=lambda row: result.end_s[row]):
            view = self._backend.records[row]
            start, end = int(result.start_s[row]), int(result.end_s[row])
            self._model.observe(past_of(view, start, end))
            self._seen.add(row)


def past_of(view: JobView, start: int, end: int) -> PastJob:
    """A job of a simulation with origin 0, once it has run."""
    return PastJob(
        cluster=view.key.cluster,
        job_id=view.key.job_id,
        submit_time=view.first_submit,
        start_time=start,
        end_time=end,
        user=view.user,
        tenant=view.tenant,
        partition=view.partitions[0],
        name=view.name,
        num_gpus=view.request.gpus.minimum,
        num_cpus=view.request.num_cpus,
        num_nodes=view.request.nodes.minimum,
        time_limit_s=view.time_limit_s,
        state=JobState.COMPLETED,
    )


def waits(
    model: DurationModel, jobs: Sequence[SimJob], bound_s: int = 0, caution: bool = True
) -> tuple[dict[int, int], Learning]:
    """For how long each job waits on one node of 8 GPUs under QSSF, by its id; and who predicted.

    The daemon's own rounds, at each event.
    """
    columns, cluster, rules, views = simulated(jobs)
    backend = SimBackend(columns, cluster, replace(rules, starvation_bound_s=bound_s), views)
    predictor = Learning(model, backend, caution)
    replay(backend, Qssf(), predictor, RoundRules(starvation_bound_s=bound_s))
    starts = started(backend)
    assert len(starts) == len(jobs)
    return {key.job_id: start - key.epoch for key, start in starts.items()}, predictor
