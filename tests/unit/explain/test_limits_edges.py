"""Limits at their very edge, and whose they are."""

from __future__ import annotations

import pytest
from support.queue import row

from gsched.explain.limits import QosOrder, limit_facts
from gsched.explain.slurm_reasons import explain_reason
from gsched.model.history import Tres
from gsched.slurm.parse_limits import LimitRecord, LimitValue


def of_account(account: str = "lab1", user: str = "", **values: dict[str, LimitValue]):
    return LimitRecord("", account, user, None, "", "root", values)


def facts(code, *records, **asks):
    tres = tuple(Tres(name.replace("_", "/"), count) for name, count in asks.items())
    job = row(1, user="games", tenant="lab1", tres=tres, time_limit_s=3600)
    name = explain_reason(code).limit
    assert name is not None
    return limit_facts(name, job, records, 5, None, QosOrder("gpu", ("normal",)))


@pytest.mark.parametrize(("gpus", "is_reached"), [(1, False), (2, True)])
def test_a_job_that_just_fits_is_not_held_back(gpus, is_reached):
    (fact,) = facts(
        "AssocGrpGRES", of_account(GrpTRES={"gres/gpu": LimitValue(4, 3)}), gres_gpu=gpus
    )
    assert (fact.is_reached, fact.is_hopeless) == (is_reached, False)


def test_of_several_limits_those_that_are_reached_are_told():
    full = of_account(GrpTRES={"gres/gpu": LimitValue(4, 4)})
    free = of_account("lab2", GrpTRES={"gres/gpu": LimitValue(9, 0)})
    found = facts("AssocGrpGRES", free, full, gres_gpu=1)
    assert [fact.owner for fact in found] == ["account lab1"]
    # none is reached any more since Slurm has looked: any of them may be meant
    spare = of_account(GrpTRES={"gres/gpu": LimitValue(4, 1)})
    assert len(facts("AssocGrpGRES", free, spare, gres_gpu=1)) == 2


def test_a_users_limit_in_another_account_is_not_the_jobs():
    limit = {"": LimitValue(3, 3)}
    assert facts("AssocMaxJobsLimit", of_account("lab2", "games", MaxJobs=limit)) == ()
    (fact,) = facts("AssocMaxJobsLimit", of_account("lab1", "games", MaxJobs=limit))
    assert fact.owner == "user games in account lab1"


def test_the_wall_time_of_a_group_counts_what_was_used_alone():
    (fact,) = facts("AssocGrpWallLimit", of_account(GrpWall={"": LimitValue(600, 60)}))
    assert (fact.asked, fact.is_hopeless, fact.is_reached) == (None, False, False)
