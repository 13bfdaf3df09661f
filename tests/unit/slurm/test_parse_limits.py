"""Limits and their use as scontrol shows them, and what each node must give."""

from __future__ import annotations

import pytest

from gsched.errors import DataError
from gsched.slurm.parse_limits import (
    LimitValue,
    NodeDemand,
    parse_demand,
    parse_licences,
    parse_limits,
)


@pytest.fixture(scope="module")
def records(recorded):
    return parse_limits(recorded("views/assoc_mgr.txt"))


def one(records, **wanted):
    (found,) = [r for r in records if all(getattr(r, k) == v for k, v in wanted.items())]
    return found


def test_an_account_has_its_limits_in_seconds_and_its_parent(records):
    account = one(records, account="lab1", user="", qos="")
    assert account.parent == "root"
    assert account.values["GrpTRES"]["gres/gpu"] == LimitValue(4, 3)
    assert account.values["GrpTRES"]["mem"] == LimitValue(None, 4000 * 2**20)
    assert account.values["GrpWall"][""] == LimitValue(6000, pytest.approx(61.8))
    assert account.values["GrpTRESRunMins"]["gres/gpu"] == LimitValue(None, 15 * 60)
    assert "MaxJobs" not in account.values


def test_a_user_of_an_account_has_its_own(records):
    games = one(records, account="lab1", user="games")
    assert games.uid == 5
    assert games.values["MaxJobs"][""] == LimitValue(3, 4)
    assert games.values["MaxWallPJ"][""] == LimitValue(86400, None)
    assert games.values["MaxTRESPN"]["cpu"] == LimitValue(4, None)


def test_a_qos_counts_for_accounts_and_users(records):
    qos = one(records, qos="normal", account="", uid=None)
    assert qos.values["MaxTRESPJ"] == {"gres/gpu": LimitValue(8, None)}
    assert qos.values["MinTRESPJ"] == {"cpu": LimitValue(1, None)}
    assert qos.values["GrpTRESRunMins"]["gres/gpu"] == LimitValue(10000 * 60, 900)
    assert one(records, qos="normal", account="lab1").values["MaxJobsPA"][""] == LimitValue(20, 4)
    assert one(records, qos="normal", uid=5).values["MaxTRESPU"]["node"] == LimitValue(2, 1)
    assert one(records, qos="normal", uid=9).values["MaxTRESPU"]["node"] == LimitValue(2, 0)


@pytest.mark.parametrize("whose", ["5", "games(5)", "(null)(5)", "7(5)"])
def test_a_user_of_a_qos_is_a_number_or_has_one(whose):
    """22.05 shows ``5``, 24.11 ``games(5)``: text recorded from both."""
    text = (
        "QOS=tight(2)\n    UsageRaw=0.000000\n    Account Limits\n      lab1\n"
        "        MaxJobsPA=N(0) MaxJobsAccruePA=N(0) MaxSubmitJobsPA=N(1)\n"
        f"    User Limits\n      {whose}\n"
        "        MaxJobsPU=N(0) MaxJobsAccruePU=N(0) MaxSubmitJobsPU=N(1)\n"
        "        MaxTRESPU=cpu=N(0),mem=N(0),gres/gpu=2(0),gres/gpu:a100=N(0)\n"
    )
    (user,) = [r for r in parse_limits(text) if r.uid is not None]
    assert (user.qos, user.uid, user.account) == ("tight", 5, "")
    assert user.values["MaxTRESPU"]["gres/gpu"] == LimitValue(2, 0)


def test_nothing_and_nonsense():
    assert parse_limits("Current Association Manager state\n") == ()
    with pytest.raises(DataError, match="not a limit: GrpTRES cpu='x'"):
        parse_limits("QOS=a(1)\n    GrpTRES=cpu=x\n")


def test_licences():
    text = "LicenseName=matlab Total=4 Used=0 Free=4\nLicenseName=a@b Total=0 Used=0\n"
    assert parse_licences(text) == {"matlab": 4, "a@b": 0}
    assert parse_licences("No licenses configured in Slurm.\n") == {}


def test_what_each_node_must_give(separator):
    s = separator
    text = f"50{s}1{s}600G{s}0:00{s}\n51{s}4{s}2G{s}59:00{s}\n53{s}1{s}0{s}0:00{s}\n"
    assert parse_demand(text, s, 50) == NodeDemand(1, 600 * 2**30, None)
    assert parse_demand(text, s, 51) == NodeDemand(4, 2 * 2**30, 59 * 60)
    assert parse_demand(text, s, 53) == NodeDemand(1, 0, None)
    assert parse_demand(text, s, 5) is None
