"""One workload on five real clusters at once: who orders the queue is all that differs.

plain        Slurm's own order
GPU count    gsched acting, fewest GPUs first: the control for "it is only the job's size"
shuffled     gsched acting, its model trained on the same history with the run times shuffled
gsched       gsched acting, its model trained on the history as it was
oracle       gsched acting, told the true run times
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from gsched.model.history import PastJob
from gsched.predict import store
from gsched.predict.model import DurationModel
from gsched.testbed.trial import WaitFigures, figures, queue_up
from gsched.testbed.wait import wait_for
from gsched.testbed.workload import Workload, make_workload
from gsched_sql import History
from support.site import Site, fresh_site

PLAIN, BY_COUNT, SHUFFLED, GSCHED, ORACLE = "plain", "GPU count", "shuffled", "gsched", "oracle"
ARMS = (PLAIN, BY_COUNT, SHUFFLED, GSCHED, ORACLE)
NUM_SCRIPTS, RUNS_EACH, NUM_JOBS = 10, 2, 100


@dataclass(frozen=True)
class Trial:
    """Figures by arm, and the states in which the jobs of all arms ended."""

    workload: Workload
    figures: dict[str, WaitFigures]
    states: dict[str, set[str]]

    def gain(self, arm: str) -> float:
        """Share of the mean wait that the oracle saves which `arm` saves."""
        plain, oracle = self.figures[PLAIN].mean_s, self.figures[ORACLE].mean_s
        return (plain - self.figures[arm].mean_s) / (plain - oracle)

    def table(self) -> str:
        head = f"{'order by':<12}{'mean s':>8}{'median s':>10}{'p90 s':>8}{'gain':>7}{'rank r':>8}"
        rows = [
            f"{arm:<12}{f.mean_s:>8.1f}{f.median_s:>10.1f}{f.p90_s:>8.1f}"
            f"{self.gain(arm):>7.2f}{f.order_correlation:>8.2f}"
            for arm, f in self.figures.items()
        ]
        return "\n".join([head, *rows])


def run_trial(seed: int) -> Trial:
    """History first, then all five queues side by side. About 90 s."""
    workload = make_workload(seed, NUM_SCRIPTS, RUNS_EACH, NUM_JOBS)
    with ExitStack() as open_sites:
        sites = {
            arm: open_sites.enter_context(fresh_site(num_nodes=8, cluster=arm.split()[0].lower()))
            for arm in ARMS
        }
        _teach(sites, workload, seed)
        queue = workload.queue
        with _daemons(sites):
            queue_up([s.arm for s in sites.values()], queue)
            for arm, site in sites.items():
                if arm != PLAIN:
                    wait_for(lambda s=site: _is_ordered(s), f"the queue of {arm} to be ordered")
            for site in sites.values():
                site.arm.open_gate()
            for arm, site in sites.items():
                wait_for(site.arm.is_done, f"the jobs of {arm} to end", timeout_s=240)
        results = {arm: site.arm.results(queue) for arm, site in sites.items()}
        return Trial(
            workload,
            {arm: figures(r) for arm, r in results.items()},
            {arm: {job.state for job in r} for arm, r in results.items()},
        )


def _teach(sites: dict[str, Site], workload: Workload, seed: int) -> None:
    """Run the history on one cluster; give each arm what it may know."""
    school = sites[GSCHED]
    school.arm.submit(workload.history)
    wait_for(school.arm.is_done, "the history to end", timeout_s=120)
    school.ok("db", "ingest")
    school.ok("predict", "train")
    with History.open(f"sqlite:///{school.state / 'history.db'}") as history:
        past = history.past_jobs(GSCHED, 0, 2**40).jobs
    assert len(past) == len(workload.history)
    as_of = max(job.end_time for job in past) + 1
    model = DurationModel.fit(shuffled(past, seed), as_of, trained_at=as_of)
    store.save(model, sites[SHUFFLED].state / "models" / "duration.gsmodel")
    sites[BY_COUNT].configure("daemon", policy='"fewest-gpus"')
    table = sites[ORACLE].bed.spec.root / "etc" / "durations.csv"
    rows = [f"{s.user},{s.name},{s.duration_s}" for s in workload.scripts]
    table.write_text("\n".join(["user,name,duration_s", *rows, ""]))
    sites[ORACLE].configure("predict", estimator='"table"', table=f'"{table}"')


def shuffled(past: Sequence[PastJob], seed: int) -> list[PastJob]:
    """The same jobs with their run times dealt out anew."""
    durations = [job.duration_s for job in past]
    random.Random(seed).shuffle(durations)
    return [
        replace(job, end_time=job.start_time + duration)
        for job, duration in zip(past, durations, strict=True)
    ]


@contextmanager
def _daemons(sites: dict[str, Site]) -> Iterator[None]:
    with ExitStack() as running:
        for arm, site in sites.items():
            if arm != PLAIN:
                running.enter_context(site.daemon("--act", "--interval", "1"))
        yield


def _is_ordered(site: Site) -> bool:
    """Every waiting job has been ranked and no further write is due."""
    status = site.json("daemon", "status")
    summary = status["summary"] or {}
    return summary.get("ranked") == NUM_JOBS and summary.get("changes") == 0
