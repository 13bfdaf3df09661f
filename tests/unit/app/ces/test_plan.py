"""What energy saving would do now: decided as the daemon does, with what can be learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from support.saving import TABLE
from support.sleeping_slurm import SleepingSlurm

from gsched.app.ces import plan as plan_module
from gsched.app.ces.plan import plan
from gsched.config.settings import Settings
from gsched.errors import TryAgainError
from gsched.model.decision import Reason
from gsched.model.journal import ChangeState
from gsched.model.node_power import NodeOrder, NodeVerb
from gsched_sql import History


class Client(SleepingSlurm):
    """A slurmctld that knows everything but its topology."""

    node_facts = SleepingSlurm.read_nodes

    def switches(self) -> Mapping[str, str]:
        raise TryAgainError("scontrol show topology took too long")

    def pinned_jobs(self) -> frozenset[int]:
        return frozenset()


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client(4)

    class Looks:
        def __init__(self, client: Client, _: object) -> None:
            self.look = client.look

    monkeypatch.setattr(plan_module, "slurm_client", lambda _: made)
    monkeypatch.setattr(plan_module, "Looker", Looks)
    monkeypatch.setattr(plan_module, "now", made.clock)
    return made


def site(folder: Path) -> Settings:
    helper = replace(Settings().helper, nodes=("gn[01-04]",))
    settings = replace(Settings(), ces=TABLE, helper=helper, state_dir=folder)
    History.create(settings.database_url)
    return settings


def test_a_topology_that_is_not_known_ends_no_plan(slurm: Client, tmp_path: Path) -> None:
    made = plan(site(tmp_path), with_forecast=False)
    told = "the topology is not known: scontrol show topology took too long"
    assert told in made["notes"]
    assert len(made["nodes"]) == 4


def test_an_order_that_misses_its_node_is_taken_in(slurm: Client, tmp_path: Path) -> None:
    settings = site(tmp_path)
    with History.open(settings.database_url) as history:
        log = history.power_log("alpha")
        order = NodeOrder(
            "o1", "gn01", "p", NodeVerb.SLEEP, Reason("ces.woken"), slurm.time - 40, slurm.time
        )
        log.record([order], ChangeState.INTENT)
        log.settle([("o1", ChangeState.SENT, "")], slurm.time - 39)
        made = plan(settings, with_forecast=False)
        by_name = {row["node"]: row for row in made["nodes"]}
        assert by_name["gn01"]["reason"]["code"] == "ces.order-failed-lately"
        assert [entry.state for entry in log.unsettled()] == [ChangeState.SENT]  # nothing is kept
