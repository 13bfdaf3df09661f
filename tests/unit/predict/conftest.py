from __future__ import annotations

from dataclasses import replace

import pytest
from support.jobs import T0, past_job

from gsched.predict.model import DurationModel

USERS = ("ann", "bob")


def recurring_history(runs: int = 3):
    """Twelve (user, name) pairs, each of its own duration whatever the GPUs: rolling knows best."""
    jobs = []
    for run in range(runs):
        for i in range(12):
            end = T0 + 100 * (12 * run + i)
            name = f"{'abcdefghijkl'[i] * 6}"
            jobs.append(
                past_job(
                    len(jobs), 2 + 3 * i + run % 2, end=end, user=USERS[i % 2], name=name, gpus=1
                )
            )
    return jobs


LIMITS_S = (3600, 86400)


def unnamed_history(count: int = 240):
    """Durations follow user and time limit, names tell nothing: the regression knows best."""
    jobs = []
    for i in range(count):
        user, limit_s = USERS[i % 2], LIMITS_S[i // 2 % 2]
        duration_s = (20 if user == "ann" else 320) * (4 if limit_s > 3600 else 1) + i % 3
        jobs.append(
            past_job(i, duration_s, end=T0 + 2000 * i, user=user, time_limit_s=limit_s, name="sh")
        )
    return jobs


@pytest.fixture(scope="session")
def recurring_model():
    return DurationModel.fit(recurring_history(), as_of=T0 + 10**6, trained_at=T0 + 10**6)


@pytest.fixture(scope="session")
def regression_model():
    return DurationModel.fit(unnamed_history(), as_of=T0 + 10**6, trained_at=T0 + 10**6)


def with_kind(model, **changes):
    """The same model, with other values in what is recorded of its jobs with GPUs."""
    kinds = {"gpu": replace(model.info.kinds["gpu"], **changes)}
    info = replace(model.info, kinds=kinds)
    return DurationModel(info, model.memory, model.encoder, model.regressions)


@pytest.fixture(scope="session")
def blended_model(regression_model):
    """As if validation had chosen λ = 0.4."""
    return with_kind(regression_model, lam=0.4)
