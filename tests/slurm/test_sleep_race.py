"""A job and the order to put its node to sleep, through gsched-helper, in the same seconds."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.power_site import PowerSite
from support.sleep_race import by_state, races

pytestmark = pytest.mark.slurm

ROUNDS = 2
SEED = 20261130


def test_a_job_of_the_same_seconds_as_its_nodes_sleep_always_runs(tmp_path: Path) -> None:
    site = PowerSite(tmp_path)
    with site.bed, site.helper():
        nodes = site.bed.spec.node_names
        tries = races(site, nodes, ROUNDS, SEED)
        print(by_state(tries), *tries, sep="\n")
        assert [each for each in tries if not each.ran] == []
        assert sum(each.ordered for each in tries) >= len(nodes)
        for node in nodes:
            assert "suspend" in site.calls(node)
            site.runs_on(node)
