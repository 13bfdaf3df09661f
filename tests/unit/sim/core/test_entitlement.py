"""What the loop counts of a job's share, and of whom."""

from __future__ import annotations

from support.sim_jobs import sim_jobs

from gsched.policy.ltgf import Ltgf
from gsched.sim.cluster import SimCluster
from gsched.sim.core.build import make_sim
from gsched.sim.core.steps import run_until
from gsched.sim.rules import SimRules
from gsched.sim.table import job_table

SIX_GPUS = SimCluster.uniform({"p": 1}, gpus_a_node=6)


def test_a_share_is_counted_from_the_first_gpu_time_on() -> None:
    """Until then it is the one of the moment, since the submission: as if the job had just come."""
    jobs = sim_jobs([0, 100, 300], [200, 900, 1], num_gpus=6)
    form = Ltgf(lease_s=1000.0).order_form(job_table(jobs, SIX_GPUS, oracle=False))
    sim = make_sim(jobs, SIX_GPUS, form, SimRules(round_s=10.0))
    run_until(sim, 100.0)
    assert sim.jobs["entitled_gpu_s"].tolist() == [3 * 100, -1, -1]
    run_until(sim, 200.0)  # the second has waited beside the first, and starts alone
    assert sim.jobs["entitled_gpu_s"][1] == -1
    run_until(sim, 300.0)
    assert sim.jobs["entitled_gpu_s"].tolist()[1:] == [3 * 200, -1]
