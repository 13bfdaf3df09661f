"""Small simulations for property tests: few jobs, crowded nodes, many ties."""

from __future__ import annotations

from hypothesis import strategies as st

from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import SimJobs
from gsched.sim.rules import Placement
from support.sim_jobs import sim_jobs

placements = st.sampled_from(list(Placement))


@st.composite
def workloads(
    draw: st.DrawFn,
    most: int = 14,
    sizes: tuple[int, ...] = (1, 1, 2, 3, 4, 8, 12, 16),
    shortest_s: int = 1,
) -> tuple[SimJobs, SimCluster]:
    """Jobs with whole-second times on one or two pools of two nodes of 8 GPUs each."""
    count = draw(st.integers(1, most))
    pools = draw(st.integers(1, 2))

    def column(values: st.SearchStrategy[int]) -> list[int]:
        return draw(st.lists(values, min_size=count, max_size=count))

    durations = column(st.integers(shortest_s, 40))
    factors = column(st.integers(1, 4))
    jobs = sim_jobs(
        sorted(column(st.integers(0, 30))),
        durations,
        num_gpus=column(st.sampled_from(sizes)),
        pool=column(st.integers(0, pools - 1)),
        tenant=column(st.integers(0, 2)),
        predicted_duration_s=[d * f for d, f in zip(durations, factors, strict=True)],
        deadline_s=column(st.integers(20, 120)),
        time_limit_s=[2 * d + 3 for d in durations],
    )
    cluster = SimCluster.uniform({f"p{n}": 2 for n in range(pools)}, 8, nodes_a_switch=1)
    return jobs, cluster
