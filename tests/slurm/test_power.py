"""Slurm's power saving through `gsched power`, on a real Slurm whose nodes are slurmd processes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from support.power_site import BIN, TRIES, PowerSite

from gsched.power.state import Store
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PowerSite]:
    made = PowerSite(tmp_path_factory.mktemp("power"))
    with made.bed:
        yield made


def test_nodes_go_off_and_come_back_for_a_job(site: PowerSite) -> None:
    site.order("gn[01-02]", "power_down_asap")
    site.sleeps("gn01")
    site.sleeps("gn02")
    assert site.slurmds() == {"gn03", "gn04"}
    assert site.outcome("gn01") == ("suspend", "done")
    site.runs_on("gn01")
    assert site.outcome("gn01") == ("resume", "done")
    assert site.slurmds() == {"gn01", "gn03", "gn04"}
    site.order("gn02", "power_up")
    wait_for(lambda: site.is_up("gn02"), "gn02 to wake")
    assert (site.calls("gn01"), site.calls("gn02")) == (["suspend", "resume"],) * 2


def test_a_node_with_a_job_goes_off_when_the_job_has_ended(site: PowerSite) -> None:
    job = site.submit("-w", "gn03", "--wrap", "while [ ! -e go ]; do sleep 0.1; done")
    wait_for(lambda: site.job_state(job) == "RUNNING", "the job to run")
    site.order("gn03", "power_down_asap")
    wait_for(lambda: "POWER_DOWN" in site.state("gn03"), "the order to be known")
    assert "gn03" in site.slurmds()
    (site.bed.layout.home("games") / "go").touch()
    site.completes(job)
    site.sleeps("gn03")
    assert site.calls("gn03") == ["suspend"]
    site.runs_on("gn03")


MOMENTS = {"gn01": "", "gn02": "POWER_DOWN", "gn03": "POWERING_DOWN", "gn04": "POWERED_DOWN"}


def test_a_job_for_a_node_that_is_just_put_to_sleep_runs_in_the_end(site: PowerSite) -> None:
    jobs = {}
    before = {node: site.calls(node) for node in MOMENTS}
    for node, moment in MOMENTS.items():
        site.order(node, "power_down_asap")
        if moment:
            wait_for(lambda n=node, m=moment: m in site.state(n).split("+"), f"{node} {moment}")
        jobs[node] = site.job(node)
    for node, job in jobs.items():
        site.completes(job)
        assert site.is_up(node)
        assert site.calls(node) == [*before[node], "suspend", "resume"]


def test_a_node_whose_suspend_fails_is_tried_again_and_left_and_restarted(site: PowerSite) -> None:
    fails = site.folder / "fails-suspend-gn01"
    fails.touch()
    before = len(site.calls("gn01"))
    site.order("gn01", "power_down_asap")
    site.sleeps("gn01")  # as Slurm believes
    wait_for(lambda: site.outcome("gn01") == ("suspend", "failed"), "the suspend to be given up")
    assert site.calls("gn01")[before:] == ["suspend"] * TRIES
    assert "gn01" in site.slurmds()
    site.runs_on("gn01")  # with a resume alone Slurm would wait for a new boot
    assert site.calls("gn01")[before:] == ["suspend"] * TRIES + ["restart"]
    fails.unlink()
    site.order("gn01", "power_down_asap")
    wait_for(lambda: site.outcome("gn01") == ("suspend", "refused"), "the suspend to be refused")
    assert site.calls("gn01")[before:] == ["suspend"] * TRIES + ["restart"]
    site.gsched("power", "clear", "gn01")
    site.sleeps("gn01")
    site.runs_on("gn01")


def test_a_node_that_does_not_wake_is_tried_again_reported_and_left(site: PowerSite) -> None:
    site.order("gn02", "power_down_asap")
    site.sleeps("gn02")
    fails = site.folder / "fails-resume-gn02"
    fails.touch()
    before = len(site.calls("gn02"))
    job = site.job("gn02")
    wait_for(lambda: "DOWN" in site.state("gn02").split("+"), "Slurm to give gn02 up")
    wait_for(lambda: len(site.failures("gn02")) == 2, "Slurm's own word of it")
    assert "gn02 does not obey" in site.failures("gn02")[0]
    assert "ResumeTimeout" in site.failures("gn02")[1]
    assert site.calls("gn02")[before:] == ["resume"] * TRIES
    # an administrator has mended it
    fails.unlink()
    site.gsched("power", "clear", "gn02")
    site.gsched("power", "resume", "gn02")
    print("after a mend:", site.state("gn02"))
    wait_for(lambda: site.is_up("gn02"), "gn02 to be taken back")
    site.completes(job)
    assert site.failures("gn02") == []


def test_after_too_many_failures_nothing_is_suspended_and_all_is_resumed(site: PowerSite) -> None:
    site.order("gn02", "power_down_asap")
    site.sleeps("gn02")
    for node in ("gn90", "gn91", "gn92", "gn93"):
        (site.folder / f"fails-suspend-{node}").touch()
    many = [str(BIN / "gsched-suspend"), "gn[90-93]"]
    done = site.bed.run(many, extra_env=site.environment)
    assert done.returncode == 69
    assert "CRITICAL: no node is suspended any more: 4 failures of 4 nodes" in done.stderr
    before = len(site.calls("gn03"))
    site.order("gn03", "power_down_asap")
    wait_for(lambda: site.outcome("gn03") == ("suspend", "refused"), "the suspend to be refused")
    site.sleeps("gn03")  # as Slurm believes
    assert {"gn01", "gn03"} <= site.slurmds()
    site.runs_on("gn02")
    site.runs_on("gn03")
    assert site.calls("gn03")[before:] == ["restart"]
    site.gsched("power", "clear")
    site.order("gn03", "power_down_asap")
    site.sleeps("gn03")
    assert site.outcome("gn03") == ("suspend", "done")


def by_hand(site: PowerSite, *words: str) -> tuple[int, str]:
    done = site.bed.run([str(BIN / "gsched"), "power", *words], extra_env=site.environment)
    return done.returncode, done.stderr


def test_by_hand_no_power_is_cut_under_a_job(site: PowerSite) -> None:
    job = site.submit("-w", "gn04", "--no-requeue", "--wrap", "sleep 300")
    wait_for(lambda: site.job_state(job) == "RUNNING", "the job to run")
    before = site.calls("gn04")
    for verb in ("suspend", "restart"):
        status, said = by_hand(site, verb, "gn04")
        assert (status, "it is MIXED" in said) == (3, True), said
    assert site.calls("gn04") == before
    # a suspend that the node itself has refused: it may be on, and yet is not restarted
    for verb in ("suspend", "resume"):
        (site.folder / f"fails-{verb}-gn04").touch()
    assert by_hand(site, "suspend", "gn04", "--force")[0] == 69
    assert by_hand(site, "resume", "gn04")[0] == 69
    assert site.calls("gn04")[len(before) :] == ["suspend"] * TRIES + ["resume"] * TRIES
    assert site.job_state(job) == "RUNNING"
    for verb in ("suspend", "resume"):
        (site.folder / f"fails-{verb}-gn04").unlink()
    site.bed.run(["scancel", str(job)])
    site.gsched("power", "clear", "gn04")
    wait_for(lambda: site.state("gn04") == "IDLE", "the node to be free")
    assert by_hand(site, "suspend", "gn[03,90]") == (
        2,
        "gsched: error: Slurm has no node gn90\nhint: sinfo -N lists its nodes\n",
    )


def test_a_configuration_that_is_wrong_costs_no_job(site: PowerSite) -> None:
    site.runs_on("gn03")
    right = site.config.read_text()
    site.config.write_text(f"{right}\n[daemon]\nintervall_s = 5\n")
    site.order("gn04", "power_down_asap")
    site.sleeps("gn04")
    wait_for(lambda: "gn04" not in site.slurmds(), "gn04 to go off")
    site.config.write_text(f"{right}\n[daemon\n")
    before = site.calls("gn03")
    site.order("gn03", "power_down_asap")
    store = Store(site.folder / "gsched" / "power")
    wait_for(lambda: store.read().orders["gn03"].outcome == "refused", "the refusal")
    site.sleeps("gn03")  # as Slurm believes
    assert "gn03" in site.slurmds()
    site.runs_on("gn04")
    site.runs_on("gn03")
    assert site.calls("gn03") == [*before, "restart"]
    site.config.write_text(right)


def test_a_suspend_that_begins_late_leaves_a_node_that_was_woken(site: PowerSite) -> None:
    before, outcome = site.calls("gn04"), site.outcome("gn04")
    assert site.is_up("gn04")
    late = [str(BIN / "gsched-suspend"), "gn04"]
    done = site.bed.run(late, extra_env=site.environment)
    assert (done.returncode, "Slurm has not powered it down: it is IDLE" in done.stderr) == (
        3,
        True,
    )
    assert (site.calls("gn04"), site.outcome("gn04")) == (before, outcome)


def test_doctor_knows_the_programs_and_sees_that_slurm_does_not_wait_for_them(
    site: PowerSite,
) -> None:
    done = site.bed.run([str(BIN / "gsched"), "doctor", "--json"], extra_env=site.environment)
    found = {finding["code"]: finding["found"] for finding in json.loads(done.stdout)}
    assert "SuspendTimeout is 2 s, and a call of gsched's may take 8 s" in found["power-limit"]
    assert {code for code in found if code.startswith("power-")} == {
        "power-back-ends",
        "power-limit",
    }
