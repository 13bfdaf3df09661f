"""Which limit a reason code means, and whether waiting can help."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.queue import row

from gsched.explain.limits import QosOrder, limit_facts
from gsched.explain.slurm_reasons import explain_reason
from gsched.model.history import Tres
from gsched.model.job import UNLIMITED_S
from gsched.slurm.parse_limits import LimitRecord, LimitValue, NodeDemand, parse_limits

DATA = Path(__file__).parents[2] / "data" / "slurm" / "22.05" / "views" / "assoc_mgr.txt"
RECORDS = parse_limits(DATA.read_text())


def job(**facts):
    asks = {"cpu": 1, "mem": 2**30, "node": 1, "gres/gpu": 2}
    asks |= facts.pop("asks", {})
    tres = tuple(Tres(name, count) for name, count in asks.items())
    return row(1, user="games", tenant="lab1", tres=tres, **({"time_limit_s": 3600} | facts))


def facts(code, the_job, records=RECORDS, qos=("normal",)):
    name = explain_reason(code).limit
    assert name is not None
    order = QosOrder("gpu", qos)
    return limit_facts(name, the_job, records, 5, NodeDemand(8, 2**30, None), order)


def test_a_limit_of_the_account_that_is_reached():
    (fact,) = facts("AssocGrpGRES", job())
    assert (fact.owner, fact.tres, fact.limit, fact.used, fact.asked) == (
        "account lab1", "gres/gpu", 4, 3, 2,
    )  # fmt: skip
    assert (fact.is_reached, fact.is_hopeless) == (True, False)
    assert fact.words == (
        "account lab1 may have 4 GPUs (GrpTRES); 3 GPUs in use; it asks for 2 GPUs"
    )


def test_a_job_that_alone_is_beyond_a_limit():
    (fact,) = facts("AssocGrpGRES", job(asks={"gres/gpu": 5}))
    assert fact.is_hopeless


@pytest.mark.parametrize(
    ("code", "asks", "words", "hopeless"),
    [
        ("AssocMaxJobsLimit", {}, "user games in account lab1 may have 3 jobs (MaxJobs)", False),
        (
            "QOSMaxNodePerUserLimit",
            {"node": 3},
            "user games in QOS normal may have 2 nodes (MaxTRESPU); 1 node in use",
            True,
        ),
        ("QOSMaxGRESPerJob", {"gres/gpu": 9}, "one job of QOS normal may have 8 GPUs", True),
        (
            "AssocMaxCpuPerNode",
            {},
            "one node of a job of user games in account lab1 may have 4 CPUs (MaxTRESPN); "
            "it asks for 8 CPUs",
            True,
        ),
        ("AssocGrpWallLimit", {}, "account lab1 may have 1:40:00 (GrpWall); 1:02 in use", False),
    ],
)
def test_other_kinds(code, asks, words, hopeless):
    fact = facts(code, job(asks=asks))[0]
    assert fact.words.startswith(words)
    assert fact.is_hopeless is hopeless


def test_time_of_one_job():
    (fact,) = facts("QOSMaxWallDurationPerJobLimit", job(time_limit_s=86401))
    assert (fact.limit, fact.asked, fact.is_hopeless) == (86400, 86401, True)
    (fact,) = facts("QOSMaxWallDurationPerJobLimit", job(time_limit_s=86400))
    assert not fact.is_hopeless


def test_minutes_of_running_jobs_are_asked_for_with_the_time_limit():
    (fact,) = facts("QOSGrpGRESRunMinutes", job(time_limit_s=7200))
    assert fact.asked == 2 * 7200
    assert "10000 GPU-minutes" in fact.words


def test_too_little_for_a_qos():
    record = LimitRecord(
        "normal", "", "", None, "", "", {"MinTRESPJ": {"cpu": LimitValue(2, None)}}
    )
    (fact,) = facts("QOSMinCpuNotSatisfied", job(), [record])
    assert fact.is_hopeless
    assert fact.words == "QOS normal demands at least 2 CPUs (MinTRESPJ); it asks for 1 CPU"
    (fact,) = facts("QOSMinCpuNotSatisfied", job(asks={"cpu": 2}), [record])
    assert not fact.is_hopeless


def test_a_type_that_the_job_does_not_name_is_not_known():
    record = LimitRecord(
        "", "lab1", "", None, "", "root", {"GrpTRES": {"gres/gpu:a100": LimitValue(1, 0)}}
    )
    (fact,) = facts("AssocGrpGRES", job(), [record])
    assert (fact.asked, fact.is_hopeless) == (None, False)


def test_limits_of_others_are_not_shown():
    other = [r for r in RECORDS if r.user == "news" or r.uid == 9]
    assert len(other) == 2
    for code in ("AssocMaxJobsLimit", "QOSMaxNodePerUserLimit"):
        assert facts(code, job(), other) == ()


@pytest.mark.parametrize("code", ["QOSMaxWallDurationPerJobLimit", "QOSGrpGRESRunMinutes"])
def test_a_job_without_a_limit_asks_for_all_time(code):
    (fact, *_) = facts(code, job(time_limit_s=UNLIMITED_S))
    assert fact.is_hopeless
    assert fact.words.endswith("it asks for UNLIMITED")
    assert fact.document()["asked"] is None


def of_qos(qos, limit, tres="gres/gpu", uid=5):
    values = {"MaxTRESPU": {tres: LimitValue(limit, 0.0)}}
    return LimitRecord(qos, "", "", uid, "", "", values)


def test_of_two_qos_the_first_that_has_a_limit_counts_for_each_resource():
    both = [of_qos("normal", 1.0), of_qos("small", 4.0)]
    code, asks = "QOSMaxGRESPerUser", job(asks={"gres/gpu": 5})
    (fact,) = facts(code, asks, both, ("small", "normal"))
    assert (fact.owner, fact.limit) == ("user games in QOS small of partition gpu", 4.0)
    (fact,) = facts(code, asks, both, ("normal", "small"))
    assert (fact.owner, fact.limit) == ("user games in QOS normal", 1.0)
    without = [of_qos("small", None), of_qos("normal", 1.0)]
    (fact,) = facts(code, asks, without, ("small", "normal"))
    assert fact.owner == "user games in QOS normal"


def test_a_qos_that_is_not_shown_may_be_the_one_that_is_meant():
    known = [of_qos("normal", 1.0), of_qos("small", 4.0, uid=6)]
    assert facts("QOSMaxGRESPerUser", job(), known, ("small", "normal")) == ()


def test_a_most_of_an_account_is_that_of_its_users_unless_they_have_another():
    values = {"MaxTRESPJ": {"gres/gpu": LimitValue(1.0, None)}}
    account = LimitRecord("", "lab1", "", None, "", "root", values)
    assert facts("AssocMaxGRESPerJob", job(), [account]) == ()
    user = LimitRecord("", "lab1", "games", 5, "", "", values)
    (fact,) = facts("AssocMaxGRESPerJob", job(), [account, user])
    assert fact.owner == "user games in account lab1"
