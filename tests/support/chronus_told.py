"""What is told of simulated jobs beside their deadlines: wrong run times, heartbeats, soft ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gsched.engine.round import WithProgress
from gsched.model.cluster import ClusterState
from gsched.model.job import JobState, JobView, Prediction, PredictionKind
from gsched.model.jobtable import JobTable
from gsched.policy.base import Policy
from gsched.sim.jobs import Floats, SimJobs

SOFT = ((1.0, 100.0), (1.1, 80.0), (1.2, 50.0), (1.5, 20.0))
"""Times of the first deadline, counted from the submission → reward: the paper's."""


def errors_of(jobs: SimJobs, sigma: float, seed: int) -> Floats:
    """True run times × a normal number of mean 1, of which no job is told less than a tenth."""
    draw = np.random.default_rng(seed)
    return jobs.duration_s * np.maximum(0.1, draw.normal(1.0, sigma, len(jobs)))


def with_soft_deadlines(jobs: SimJobs, seed: int) -> SimJobs:
    """Every second job with a deadline, by lot, has SOFT ones."""
    draw = np.random.default_rng(seed)
    rows = np.flatnonzero(~np.isnan(jobs.deadline_s))
    rows = rows[draw.random(len(rows)) < 0.5]
    soft = {}
    for row in rows.tolist():
        submit_s = float(jobs.submit_s[row])
        until_s = float(jobs.deadline_s[row]) - submit_s
        soft[row] = tuple((float(int(submit_s + part * until_s)), reward) for part, reward in SOFT)
    return replace(jobs, soft_deadlines=soft)


def heartbeats(jobs: SimJobs, start_s: float) -> WithProgress:
    """Running jobs tell truly how many iterations of a second are left, and that they do 1 ± 0.02
    a second. Each start takes `start_s` without progress.
    """

    def heard(state: ClusterState, _policy: Policy) -> ClusterState:
        views = [_telling(jobs, view, state.as_of, start_s) for view in state.jobs.views]
        return replace(state, jobs=JobTable.from_views(views, state.jobs))

    return heard


def _telling(jobs: SimJobs, view: JobView, now: int, start_s: float) -> JobView:
    if view.state is not JobState.RUNNING or view.attained_gpu_s is None:
        return view
    done_s = view.attained_gpu_s / view.request.gpus.minimum - start_s * (view.restarts + 1)
    left_s = max(1.0, float(jobs.duration_s[view.key.job_id - 1]) - max(0.0, done_s))
    speeds = ((0.05, 0.98), (0.5, 1.0), (0.95, 1.02))
    told = (
        Prediction(PredictionKind.ITERATIONS, left_s, (), "heartbeat", "heartbeat", 0, now),
        Prediction(PredictionKind.SPEED, 1.0, speeds, "heartbeat", "heartbeat", 0, now),
    )
    return replace(view, predictions=(*view.predictions, *told))
