"""Every reason code of Slurm has words; limits follow their grammar; unknown ones are shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsched.explain.slurm_reasons import LimitName, explain_reason, is_held

DATA = Path(__file__).parents[2] / "data" / "slurm"


@pytest.mark.parametrize("release", ["22.05", "24.11"])
def test_every_code_of_a_release_is_known(release):
    codes = (DATA / release / "views" / "reasons.txt").read_text().split()
    assert len(codes) > 190
    unknown = [code for code in codes if not explain_reason(code).is_known]
    assert unknown == []


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("AssocGrpGRES", LimitName("association", "total", "gres", "", "")),
        ("AssocGrpCPURunMinutesLimit", LimitName("association", "total", "cpu", "run-minutes", "")),
        ("QOSGrpMemoryMinutes", LimitName("qos", "total", "mem", "minutes", "")),
        ("QOSMaxNodePerUserLimit", LimitName("qos", "most", "node", "", "user")),
        ("MaxGRESRunMinsPerAccount", LimitName("qos", "most", "gres", "run-minutes", "account")),
        ("AssocMaxJobsLimit", LimitName("association", "most", "jobs", "", "")),
        ("QOSMaxSubmitJobPerUserLimit", LimitName("qos", "most", "submit", "", "user")),
        (
            "QOSMaxWallDurationPerJobLimit",
            LimitName("qos", "most", "wall", "", "job"),
        ),
        ("QOSMinCpuNotSatisfied", LimitName("qos", "least", "cpu", "", "")),
        ("AssocMaxBBPerNode", LimitName("association", "most", "bb", "", "node")),
    ],
)
def test_limits_are_taken_apart(code, name):
    assert explain_reason(code).limit == name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("AssocGrpGRES", "has reached its limit of GPUs or other generic resources"),
        ("QOSMaxGRESPerUser", "its user has reached the limit of GPUs"),
        ("QOSMaxWallDurationPerJobLimit", "than its QOS may have for one job: wall-clock time"),
        ("QOSMinGRES", "less than its QOS demands"),
        ("ReqNodeNotAvail, UnavailableNodes:gn[01-02]", "(unavailable: gn[01-02])"),
        ("ReqNodeNotAvail, Reserved for maintenance", "reserved"),
        (
            "(Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority "
            "partitions)",
            "down, drained",
        ),
        (
            "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_"
            "partitions",
            "down, drained",
        ),
        (
            "Job's account not permitted to use this partition (a allows b not c)",
            "does not take jobs of its account (a allows b not c)",
        ),
        ("launch failed requeued held", "could not be launched"),
        ("", "not looked at"),
    ],
)
def test_texts_with_details(text, words):
    found = explain_reason(text)
    assert found.is_known
    assert words in found.words


def test_the_nodes_that_slurm_names_are_kept():
    assert explain_reason("ReqNodeNotAvail, UnavailableNodes:gn[01-02]").nodes == "gn[01-02]"
    assert explain_reason("Resources").nodes == ""


def test_an_unknown_code_is_shown_as_it_is():
    found = explain_reason("MoonPhase, waxing")
    assert (found.is_known, found.words) == (False, "Slurm says MoonPhase, waxing")


def test_who_has_to_release_a_held_job():
    assert is_held(explain_reason("JobHeldUser"))
    assert "scontrol release" in explain_reason("JobHeldUser").advice
    assert "administrator" in explain_reason("JobHeldAdmin").advice
    assert not is_held(explain_reason("Resources"))
