"""A made-up site with habits, and public traces, as sources of fits."""

from __future__ import annotations

import numpy as np
import pytest
from support.shipped_fits import read_sources

from gsched.app.synth_trace import Fitted
from gsched.model.job import JobState
from gsched.synth.columns import PastRun, TraceJobs, trace_jobs
from gsched.synth.fit import Fit
from gsched.synth.measure import fit

MONDAY = 1_735_516_800  # 2024-12-30 00:00 UTC
WEEKS = 8


def habits() -> list[PastRun]:
    """Thirty users on two partitions, each with a few scripts of a run time of their own.

    They work from 8 to 18 on weekdays, submit in bursts, and short runs fail more often. It shares
    no code with what is tested.
    """
    random = np.random.default_rng(7)
    runs = []
    for user in range(30):
        scripts = [
            (f"train{'abcdef'[k]}", random.lognormal(7, 1.5), 2 ** random.integers(0, 4))
            for k in range(int(random.integers(1, 6)))
        ]
        for day in range(7 * WEEKS):
            if day % 7 >= 5 or random.random() < 0.4:
                continue
            name, typical_s, gpus = scripts[int(random.integers(len(scripts)))]
            at = MONDAY + day * 86_400 + int(random.uniform(8, 18) * 3600)
            for number in range(1 + int(random.geometric(0.3))):
                at += int(random.exponential(60))
                ran_s = max(1, int(typical_s * random.lognormal(0, 0.4)))
                failed = random.random() < (0.4 if ran_s < 600 else 0.05)
                state = JobState.FAILED if failed else JobState.COMPLETED
                runs.append(
                    PastRun(
                        cluster="site",
                        submit_time=at,
                        start_time=at + 50,
                        end_time=at + 50 + ran_s,
                        state=state,
                        state_text=state.value,
                        user=f"u{user}",
                        tenant=f"lab{user % 3}",
                        partition=("small", "large")[user % 2],
                        name=f"{name}_{number}",
                        time_limit_s=(3_600, 86_400, 604_800)[
                            int(np.searchsorted([3_000, 80_000], ran_s))
                        ],
                        num_cpus=4,
                        num_gpus=int(gpus),
                    )
                )
    return runs


@pytest.fixture(scope="session")
def site() -> TraceJobs:
    return trace_jobs(habits())


@pytest.fixture(scope="session")
def site_fit(site: TraceJobs) -> Fit:
    return fit(site, "site", ("made up",))


@pytest.fixture(scope="session")
def public() -> dict[str, Fitted]:
    """The fits of public traces, read once."""
    return read_sources()


@pytest.fixture(scope="session")
def philly(public: dict[str, Fitted]) -> Fitted:
    return public["philly"]


@pytest.fixture(scope="session")
def atlas(public: dict[str, Fitted]) -> Fitted:
    return public["atlas"]
