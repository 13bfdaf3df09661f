"""gsched-helper and nodes that are drained, down, waking or half forgotten, on a real Slurm."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest
from support.power_site import BIN, PowerSite

from gsched.daemon.helper_client import HelperClient
from gsched.engine.node_ports import BUSY
from gsched.errors import TryAgainError
from gsched.testbed.background import Background
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

SLOW = """#!/bin/sh
# Begins late, for as long as a test wants that.
echo "$1 $2" >>{folder}/began
while [ -e {folder}/slow-$1-$2 ]; do sleep 0.1; done
exec {folder}/quick "$@"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PowerSite]:
    made = PowerSite(tmp_path_factory.mktemp("power"))
    (made.folder / "switch").rename(made.folder / "quick")
    made.program("switch", SLOW.format(folder=made.folder))
    text = made.config.read_text()
    made.config.write_text(text.replace('"power-up"]', '"power-up", "drain", "resume"]'))
    with made.bed:
        yield made


@pytest.fixture(scope="module", autouse=True)
def helper(site: PowerSite) -> Iterator[Background]:
    with site.helper() as process:
        yield process


def reason(site: PowerSite, node: str) -> str:
    shown = site.bed.run(["scontrol", "-o", "show", "node", node]).stdout
    return shown.partition(" Reason=")[2].partition(" [")[0]


def update(site: PowerSite, node: str, *words: str) -> None:
    done = site.bed.run(["scontrol", "update", f"nodename={node}", *words])
    assert done.returncode == 0, done.stderr


def test_a_power_down_that_slurm_has_lost_is_told_and_can_be_mended(site: PowerSite) -> None:
    """A slurmctld that was killed knows of it nothing but the drain.

    The first test: no other node's reason is in what slurmctld keeps.
    """
    job = site.submit("-w", "gn04", "--wrap", "sleep 600")
    wait_for(lambda: site.job_state(job) == "RUNNING", "the job to run")
    assert site.client().power_down(["gn04"]).failed == {"gn04": BUSY}
    assert site.is_up("gn04")
    site.order("gn04", "power_down_asap")  # an administrator may
    kept = site.bed.spec.root / "state" / "node_state"
    wait_for(lambda: b"POWER_DOWN_ASAP" in kept.read_bytes(), "slurmctld to save the drain")
    site.bed.kill_slurmctld()
    site.bed.start_slurmctld()
    site.bed.cancel_jobs()
    wait_for(lambda: site.state("gn04") == "IDLE+DRAIN", "what is left of the power-down")
    assert "Slurm has lost its power-down" in site.client().power_up(["gn04"]).failed["gn04"]
    assert "Slurm has lost its power-down" in site.client().resume(["gn04"]).failed["gn04"]
    done = site.bed.run([str(BIN / "gsched"), "doctor", "--json"], extra_env=site.environment)
    (finding,) = [f for f in json.loads(done.stdout) if f["code"] == "power-lost-order"]
    assert finding["mend"].startswith("`scontrol update nodename=gn04 state=power_down_asap`")
    assert site.client().power_down(["gn04"]).done == ("gn04",)
    site.sleeps("gn04")
    assert site.client().power_up(["gn04"]).done == ("gn04",)
    wait_for(lambda: site.is_up("gn04"), "gn04 to wake")
    site.runs_on("gn04")


def test_what_an_administrator_has_drained_or_set_down_is_not_put_to_sleep(
    site: PowerSite,
) -> None:
    """Slurm would forget the drain, and give the node jobs when it has come back."""
    update(site, "gn01", "state=drain", "reason=bad RAM")
    update(site, "gn02", "state=down", "reason=dead")
    found = site.client().power_down(["gn01", "gn02"])
    assert found.done == ()
    assert "it is drained (bad RAM" in found.failed["gn01"]
    assert "it is DOWN (dead" in found.failed["gn02"]
    found = site.client().power_up(["gn01", "gn02"])
    assert (found.already, set(found.failed)) == (("gn01",), {"gn02"})
    assert (site.state("gn01"), reason(site, "gn01")) == ("IDLE+DRAIN", "bad RAM")
    update(site, "gn[01-02]", "state=resume")


def test_a_node_that_wakes_is_not_put_to_sleep(site: PowerSite) -> None:
    site.order("gn03", "power_down_asap")
    site.sleeps("gn03")
    slow = site.folder / "slow-resume-gn03"
    slow.touch()
    assert site.client().power_up(["gn03"]).done == ("gn03",)
    wait_for(lambda: "POWERING_UP" in site.state("gn03"), "gn03 to begin to wake")
    assert "it is waking" in site.client().power_down(["gn03"]).failed["gn03"]
    assert site.client().power_up(["gn03"]).already == ("gn03",)
    slow.unlink()
    wait_for(lambda: site.is_up("gn03"), "gn03 to wake")


def test_a_helper_that_stood_still_does_not_carry_out_what_nobody_waits_for(
    site: PowerSite, helper: Background
) -> None:
    """Jobs may have begun since, or the kill switch may be there."""
    hasty = HelperClient(site.folder / "helper.sock", 1.0)
    asleep, awake = ["gn03"], ["gn01", "gn02"]
    assert site.client().power_down(asleep).done == ("gn03",)
    site.sleeps("gn03")
    helper.signal(signal.SIGSTOP)
    try:
        for ask, nodes in ((hasty.power_down, awake), (hasty.power_up, asleep)):
            with pytest.raises(TryAgainError, match="no answer in time"):
                ask(nodes)
    finally:
        helper.signal(signal.SIGCONT)
    wait_for(lambda: helper.output().count("refused: too late") == 2, "both to be dropped")
    assert all(site.is_up(node) for node in awake)
    assert site.state("gn03") == "IDLE+POWERED_DOWN"
    assert hasty.power_up(asleep).done == ("gn03",)
    wait_for(lambda: site.is_up("gn03"), "gn03 to wake")
