"""What the daemon tells everybody of how accounts stand, and what comes of it without database."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from support.fairness_past import HOUR_S, QUOTAS, T0, UNTIL, two_days

from gsched.app.fairness.hours import close_hours
from gsched.app.fairness.public import (
    TOLD_S,
    standing_document,
    standing_of,
    standing_row,
    standing_words,
    told_standing,
)
from gsched.app.fairness.query import FairnessQuery
from gsched.app.fairness.report import fairness_report
from gsched.config.settings import DaemonSettings, Settings
from gsched.daemon.fairness_told import fairness_for_everybody
from gsched.errors import PermissionDeniedError, UnavailableError, UsageError
from gsched.fairness.fading import faded_gpu_s
from gsched.model.accounts import FairnessEntry
from gsched.model.jobid import parse_job_id
from gsched.model.times import DAY_S
from gsched.slurm.records import SlurmConfig
from gsched_sql import History

QUERY = FairnessQuery(T0, UNTIL)
FIGURES = (
    "r", "received_gpu_hours", "entitled_gpu_hours", "due_gpu_hours", "demanded_gpu_hours",
    "borrowed_gpu_hours", "lent_gpu_hours", "quota_gpus",
)  # fmt: skip


@pytest.fixture
def settings(tmp_path):
    made = Settings(state_dir=tmp_path, daemon=DaemonSettings(policy="ltgf"))
    History.create(made.database_url)
    return made


def closed(settings):
    with History.open(settings.database_url) as history:
        two_days(history)
        close_hours(history, "lab", UNTIL, QUOTAS, None)
        return standing_of(history, "lab", settings)


def test_it_is_what_the_report_says_of_the_same_time(settings):
    told = closed(settings)
    report = fairness_report(settings, FairnessQuery(told["since"], told["until"]))
    assert (told["since"], told["until"]) == (UNTIL - TOLD_S, UNTIL)
    assert (told["quota_source"], told["half_life_s"]) == ("shares", 7 * 86400)
    assert [row["tenant"] for row in told["tenants"]] == ["idle", "lab2", "greedy"]
    for row, one in zip(told["tenants"], report.tenants, strict=True):
        whole = one.document()
        for name in FIGURES:
            if name in ("due_gpu_hours", "lent_gpu_hours"):  # no hour before the first job is kept
                continue
            assert row[name] == pytest.approx(whole[name]), name
        # by hours: as if all of one were received in its middle
        assert row["owed_gpu_hours"] == pytest.approx(whole["owed_gpu_hours"], rel=1e-3)


def test_nothing_is_told_before_an_hour_is_closed(settings):
    with History.open(settings.database_url) as history:
        assert standing_of(history, "lab", settings) == {}


def test_old_hours_are_owed_for_but_not_told():
    def entry(begin, received):
        return FairnessEntry("lab", "a", begin, HOUR_S, received, 1800.0, 7200.0, 0.0, 3600.0)

    until = T0 + TOLD_S
    old, new = entry(T0 - HOUR_S, 7200.0), entry(T0, 3600.0)
    quotas = {"a": 1.0, "b": 3.0}
    told = standing_document([old, new], quotas, "settings", until, 1e12)
    rows = {row["tenant"]: row for row in told["tenants"]}
    assert rows["a"]["received_gpu_hours"] == 1.0
    assert (rows["a"]["r"], rows["b"]["r"]) == (2.0, None)
    assert rows["a"]["owed_gpu_hours"] == pytest.approx(3 / 4 - 3)
    assert rows["b"]["owed_gpu_hours"] == pytest.approx(3 / 4 * 3)
    nobody = standing_document([new], {}, "equal", until, 1e12)["tenants"]
    assert [(row["tenant"], row["owed_gpu_hours"]) for row in nobody] == [("a", 0.0)]


def hour(tenant, begin, gpu_s, **more):
    amounts = {"entitled_gpu_s": 0.0, "demanded_gpu_s": 0.0, "borrowed_gpu_s": 0.0} | more
    return FairnessEntry("lab", tenant, begin, HOUR_S, gpu_s, **amounts)


@pytest.mark.parametrize(
    ("half_life_d", "days", "received"), [(7, 20, 0.0), (0.25, 6, 2.0)], ids=["long", "short"]
)
def test_debts_reach_back_as_far_as_the_policy_and_figures_as_far_as_they_are_told(
    settings, half_life_d, days, received
):
    settings = replace(settings, daemon=DaemonSettings(knobs={"half_life_s": half_life_d * DAY_S}))
    old = UNTIL - days * DAY_S
    with History.open(settings.database_url) as history:
        history.fairness().note("lab", T0, QUOTAS)
        entries = [hour("lab2", old, 7200.0), hour("greedy", UNTIL - HOUR_S, 0.0)]
        history.fairness().keep(entries)
        told = standing_of(history, "lab", settings)
    (lab2,) = [row for row in told["tenants"] if row["tenant"] == "lab2"]
    counts = faded_gpu_s(entries[0], UNTIL, half_life_d * DAY_S) / HOUR_S
    assert (counts > 0.25) is (days == 20)
    assert lab2["owed_gpu_hours"] == pytest.approx((3 / 8 - 1) * counts)
    assert lab2["received_gpu_hours"] == received


def test_an_account_that_lost_its_quota_is_not_told_any_more(settings):
    with History.open(settings.database_url) as history:
        history.fairness().note("lab", T0, QUOTAS)
        history.fairness().note("lab", T0 + 5, replace(QUOTAS, gpus={"lab2": 3.0}))
        history.fairness().keep([hour("lab2", T0, 3600.0)])
        told = standing_of(history, "lab", settings)
    assert [row["tenant"] for row in told["tenants"]] == ["lab2"]


def test_nobody_has_lent_less_than_nothing():
    """Sums of many hours are off by the last bit."""
    entry = hour("a", T0, 3600.1, due_gpu_s=3600.0)
    (row,) = standing_document([entry], {"a": 1.0}, "equal", T0 + HOUR_S, 1e9)["tenants"]
    assert row["lent_gpu_hours"] == 0.0


def publish(settings, fairness):
    document = {"version": 1, "as_of": time.time(), "interval_s": 30.0, "jobs": {}}
    document |= {"cluster": "lab", "policy": "ltgf", "fairness": fairness}
    settings.status_file.write_text(json.dumps(document))


def ask(settings, query=QUERY, **more):
    return told_standing(settings, query, "no history database on this host", **more)


def test_without_database_the_status_file_tells(settings):
    publish(settings, closed(settings))
    told = ask(settings, narrowed=False)
    assert (told["told_by"], told["cluster"], told["policy"]) == ("daemon", "lab", "ltgf")
    assert standing_row(told["tenants"][1])[:4] == ("lab2", "0.67", "48.0", "72.0")
    assert "shares of the accounts" in "\n".join(standing_words(told))
    one = ask(settings, FairnessQuery(T0, UNTIL, accounts=("lab2",)), narrowed=False)
    assert [row["tenant"] for row in one["tenants"]] == ["lab2"]
    with pytest.raises(UsageError, match="nothing of an account 'lab9'"):
        ask(settings, FairnessQuery(T0, UNTIL, accounts=("lab9",)), narrowed=False)


def test_more_than_everybody_is_told_is_refused(settings):
    publish(settings, closed(settings))
    for query, narrowed in (
        (FairnessQuery(T0, UNTIL, users=("bob",)), False),
        (FairnessQuery(T0, UNTIL, job=parse_job_id("7")), False),
        (QUERY, True),
    ):
        with pytest.raises(PermissionDeniedError, match="only the accounts of the last 7 days"):
            ask(settings, query, narrowed=narrowed)


def test_a_cluster_that_hides_usage_tells_nobody(settings):
    told = closed(settings)
    for private in ("none", "", "(null)", "nodes,reservations"):
        assert fairness_for_everybody(told, SlurmConfig({"PrivateData": private})) == told
    assert fairness_for_everybody(told, SlurmConfig({})) == told
    for private in ("usage", "jobs", "Accounts,nodes", "cloud, usage"):
        config = SlurmConfig({"PrivateData": private})
        assert fairness_for_everybody(told, config) == {"private": True}
    publish(settings, {"private": True})
    with pytest.raises(PermissionDeniedError, match="hides who uses what"):
        ask(settings, narrowed=False)


def test_where_nobody_tells_it_is_said(settings):
    with pytest.raises(UnavailableError, match="no gsched daemon tells how accounts stand"):
        ask(settings, narrowed=False)
    sound = closed(settings)
    row = sound["tenants"][0]
    for fairness in (
        {}, None, [], {"tenants": 3}, sound | {"since": "x"}, sound | {"until": True},
        sound | {"tenants": [3]}, sound | {"tenants": [row | {"r": "x"}]},
        sound | {"tenants": [row | {"tenant": 3}]}, sound | {"tenants": [row | {"quota_gpus": []}]},
    ):  # fmt: skip
        publish(settings, fairness)
        with pytest.raises(UnavailableError, match="does not tell how accounts stand"):
            ask(settings, narrowed=False)
