"""Cluster energy saving through the daemon and gsched-helper, on nodes that really go off.

The tests follow each other on one testbed: the last one leaves a node that counts as failed.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from support.ces_site import CALM_S, SPARE, CesSite, begin_a_step
from support.power_site import BIN

from gsched.engine.faults import CES_POINTS, FaultPoint
from gsched.model.journal import ChangeState
from gsched.model.node_power import NodeVerb
from gsched.testbed.background import Background
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

TAKES_S = 330
"""These tests together, where other tests run beside them."""
QUIET_ROUNDS = 5
"""So many rounds last longer than a node has to be idle before it is put to sleep."""


@pytest.fixture(scope="module")
def cold_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CesSite]:
    """Without its helper."""
    begin_a_step(TAKES_S)
    made = CesSite(tmp_path_factory.mktemp("ces"))
    with made.bed:
        yield made


@pytest.fixture(scope="module")
def helper(cold_site: CesSite) -> Iterator[Background]:
    with cold_site.helper() as process:
        yield process


@pytest.fixture(scope="module")
def site(cold_site: CesSite, helper: Background) -> CesSite:
    return cold_site


@pytest.fixture(scope="module")
def acting(site: CesSite) -> Iterator[CesSite]:
    """With a daemon that goes on from test to test."""
    with site.daemon():
        yield site


def status(site: CesSite) -> Any:
    """What the daemon tells of sleeping nodes."""
    return json.loads(site.gsched("ces", "status", "--json"))


def test_without_its_helper_the_daemon_goes_on_and_says_so(cold_site: CesSite) -> None:
    with cold_site.daemon():
        cold_site.rounds(1, "act")
        wait_for(lambda: "helper.sock" in status(cold_site).get("why", ""), "it to be told", CALM_S)
        cold_site.rounds(QUIET_ROUNDS, "act")
        assert cold_site.are_up()


def test_killed_at_any_point_jobs_run_and_the_next_daemon_settles(site: CesSite) -> None:
    # the one that leaves orders of which nobody knows whether they were sent comes last
    for point in sorted(CES_POINTS, key=lambda each: each is FaultPoint.CES_INTENT_RECORDED):
        with site.daemon({"GSCHED_FAULT_POINT": point.value}) as daemon:
            wait_for(lambda d=daemon: not d.is_running(), f"a kill at {point.value}", CALM_S)
            assert daemon.process.returncode == -signal.SIGKILL
        site.run_on_all()  # by Slurm's own resume
    left = {each.order.order_id for each in site.unsettled()}
    assert left
    with site.daemon():
        wait_for(lambda: not site.unsettled(), "no order to be open")
        wait_for(site.asleep, "a node to be put to sleep", CALM_S)
    ends = [each.state for each in site.orders() if each.order.order_id in left]
    assert set(ends) == {ChangeState.VOID}
    site.run_on_all()


def test_idle_nodes_go_off_and_come_back_for_a_job(acting: CesSite) -> None:
    before = len(acting.orders())
    acting.fall_asleep()
    assert len(acting.slurmds()) == SPARE
    wait_for(lambda: status(acting)["pools"][0]["asleep"] == 3, "the daemon to see them asleep")
    assert acting.unsettled() == []
    sleeps = acting.orders()[before:]
    assert {(e.order.verb, e.state) for e in sleeps} == {(NodeVerb.SLEEP, ChangeState.CONFIRMED)}
    assert {each.order.node for each in sleeps} >= acting.asleep()
    (pool,) = status(acting)["pools"]
    assert (pool["nodes"], pool["running"], pool["idle"]) == (4, 0, 1)
    plan = acting.gsched("ces", "plan")
    assert all(node in plan for node in acting.nodes)
    acting.run_on_all()
    report = json.loads(acting.gsched("ces", "report", "--since", "1h", "--json"))
    assert report


def test_a_halt_and_the_kill_switch_stop_it_at_once(acting: CesSite) -> None:
    off = acting.folder / "off"
    acting.gsched("daemon", "clear")
    stays_awake(acting, "halted")
    acting.gsched("daemon", "clear", "--lift-halt")
    acting.fall_asleep()
    off.touch()
    stays_awake(acting, "off")
    off.unlink()


def test_nothing_is_carried_out_after_the_kill_switch_by_a_helper_that_stood_still(
    acting: CesSite, helper: Background
) -> None:
    off = acting.folder / "off"
    off.touch()
    acting.rounds(1, "off")
    acting.run_on_all()
    wait_for(acting.are_up, "all nodes to be awake")
    wait_for(lambda: not acting.unsettled(), "no order to be open")
    helper.signal(signal.SIGSTOP)
    try:
        off.unlink()
        wait_for(acting.unsettled, "an order to be on its way", CALM_S)
        off.touch()
        acting.rounds(1, "off")
    finally:
        helper.signal(signal.SIGCONT)
    wait_for(lambda: "too late" in helper.output(), "the order to be dropped")
    acting.rounds(QUIET_ROUNDS, "off")
    assert acting.are_up()
    off.unlink()


def test_a_name_that_slurm_does_not_know_is_refused(acting: CesSite) -> None:
    text = acting.config.read_text()
    acting.config.write_text(text.replace("[ces]", '[ces]\nexclude_nodes = ["gn1"]'))
    words = [str(BIN / "gsched"), "daemon", "reload"]
    done = acting.bed.run(words, extra_env=acting.environment)
    acting.config.write_text(text)
    assert done.returncode == 78
    assert "ces.exclude_nodes: Slurm knows no node gn1" in done.stderr


def stays_awake(site: CesSite, mode: str) -> None:
    """In this mode Slurm wakes nodes for a job, and nobody puts them to sleep again."""
    site.rounds(1, mode)
    before = len(site.orders())
    site.run_on_all()
    wait_for(site.are_up, "all nodes to be awake")
    site.rounds(QUIET_ROUNDS, mode)
    assert site.are_up()
    sent = [e for e in site.orders()[before:] if e.state is not ChangeState.OBSERVED]
    assert sent == []


def test_a_node_that_does_not_wake_is_left_and_no_other_is_put_to_sleep(acting: CesSite) -> None:
    acting.fall_asleep()
    broken, *others = sorted(acting.asleep())
    (acting.folder / f"fails-resume-{broken}").touch()
    job = acting.job(broken)
    wait_for(lambda: "DOWN" in acting.state(broken).split("+"), "Slurm to give it up")
    wait_for(lambda: status(acting)["wake_failures"], "the daemon to count it")
    acting.bed.run(["scancel", str(job)])
    words = ("srun", f"-N{len(others)}", "-w", ",".join(others), "true")
    assert acting.bed.run(words).returncode == 0
    acting.rounds(QUIET_ROUNDS, "act")
    assert acting.asleep() <= {broken}
    (pool,) = status(acting)["pools"]
    assert pool["reason"]["code"] in ("ces.nodes-failed-to-wake", "ces.suspending-stopped")
    # what gsched's power program and Slurm say of it is the administrator's to clear
    assert "does not obey" in acting.failures(broken)[0]


def test_a_node_that_was_mended_and_cleared_ends_the_stop(acting: CesSite) -> None:
    (broken,) = {failure["node"] for failure in acting.status()["failures"]}
    (acting.folder / f"fails-resume-{broken}").unlink()
    acting.order(broken, "resume")
    acting.gsched("power", "clear", broken)
    wait_for(lambda: status(acting)["wake_failures"] == 0, "the daemon to forget it")
    acting.run_on_all()
    acting.fall_asleep()
