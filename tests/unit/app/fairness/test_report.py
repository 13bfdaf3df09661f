"""`gsched fairness` over a past that can be reckoned by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fairness_past import HOUR_S, QUOTAS, T0, UNTIL, gpu_job, two_days
from support.history import batch, pending, running

from gsched.app.fairness import report as report_module
from gsched.app.fairness.cells import hours
from gsched.app.fairness.hours import close_hours
from gsched.app.fairness.page import page
from gsched.app.fairness.public import standing_of
from gsched.app.fairness.query import FairnessQuery
from gsched.app.fairness.received import received_gpu_s
from gsched.app.fairness.report import OwnJobsAloneError, fairness_report
from gsched.app.fairness.steps import MOST_STEPS, edges_of, step_of
from gsched.app.fairness.tables import job_table, metric_table, rule_table, step_words
from gsched.app.fairness.words import report_lines
from gsched.config.settings import DaemonSettings, FairnessSettings, Settings
from gsched.errors import ConfigError, UsageError
from gsched.explain.words import moment
from gsched.fairness.fading import HALF_LIVES, faded_gpu_s
from gsched.model.accounts import FairnessEntry, SiteQuotas
from gsched.model.history import Batch
from gsched.model.job import UNLIMITED_S
from gsched.model.jobid import parse_job_id
from gsched.model.times import DAY_S
from gsched_sql import History, maintenance


@pytest.fixture
def settings(tmp_path):
    made = Settings(state_dir=tmp_path, daemon=DaemonSettings(policy="ltgf"))
    History.create(made.database_url)
    return made


@pytest.fixture
def past(settings):
    with History.open(settings.database_url) as history:
        two_days(history)
    return settings


def told(settings, since=T0, until=UNTIL, **query):
    return fairness_report(settings, FairnessQuery(since, until, **query))


def by_name(report):
    return {one.tenant: one for one in report.tenants}


def test_the_metric_by_hand(past):
    found = by_name(told(past))
    lab2, greedy, idle = found["lab2"], found["greedy"], found["idle"]
    assert (lab2.received, lab2.entitled, lab2.demanded) == (48.0, 72.0, 96.0)
    assert lab2.r == pytest.approx(2 / 3)
    assert (lab2.jobs, lab2.loss_jobs, lab2.steps, lab2.unfair_steps) == (24, 24, 24, 24)
    assert (greedy.received, greedy.entitled) == (192.0, 144.0)
    assert greedy.r == pytest.approx(4 / 3)
    assert (greedy.jobs, greedy.loss_jobs, greedy.steps, greedy.unfair_steps) == (48, 0, 48, 0)
    assert (idle.r, idle.entitled, idle.jobs, idle.steps) == (None, 0.0, 0, 0)


def test_the_rule_by_hand(past):
    fixed = replace(past.daemon, knobs={"half_life_s": 3650 * DAY_S})
    found = by_name(told(replace(past, daemon=fixed)))
    # 240 GPU-h were received, of which 3/8, 3/8 and 2/8 were due
    assert found["lab2"].owed == pytest.approx(90 - 48, abs=0.1)
    assert found["greedy"].owed == pytest.approx(90 - 192, abs=0.1)
    assert found["idle"].owed == pytest.approx(60, abs=0.1)
    assert [one.due for one in found.values()] == [96.0, 144.0, 144.0]
    assert [one.tenant for one in told(past).tenants] == ["idle", "lab2", "greedy"]
    assert (found["greedy"].borrowed, found["greedy"].lent) == (48.0, 0.0)
    assert (found["lab2"].borrowed, found["lab2"].lent) == (12.0, 108.0)
    assert (found["idle"].borrowed, found["idle"].lent) == (0.0, 96.0)
    assert sum(one.owed for one in told(past).tenants) == pytest.approx(0.0, abs=1e-9)


def test_the_past_is_read_for_as_long_as_when_a_policy_begins(past):
    half_life_s = 7 * DAY_S
    report = told(past)
    assert report.known_since == UNTIL - HALF_LIVES * half_life_s
    with History.open(past.database_url) as history:
        seed = received_gpu_s(history, "lab", UNTIL, half_life_s, by_worth=True)
        close_hours(history, "lab", UNTIL, QUOTAS, None)
        public = {one["tenant"]: one for one in standing_of(history, "lab", past)["tenants"]}
    found, whole = by_name(report), sum(seed.values())
    for name, quota in QUOTAS.gpus.items():
        owed = (quota / 8 * whole - seed.get(name, 0.0)) / HOUR_S
        assert found[name].owed == pytest.approx(owed)
        assert public[name]["owed_gpu_hours"] == pytest.approx(owed, rel=1e-3)


def test_an_hour_counts_as_received_in_its_middle():
    entry = FairnessEntry("lab", "a", T0, HOUR_S, 7200.0, 0.0, 0.0, 0.0)
    assert faded_gpu_s(entry, T0 + 1800 + DAY_S, DAY_S) == 3600.0
    assert faded_gpu_s(entry, T0 + 1800 + DAY_S, math.inf) == 7200.0
    assert faded_gpu_s(entry, T0, DAY_S) == 0.0  # it is still to come


def test_what_ended_since_slurmdbd_was_read_is_not_known(past, monkeypatch):
    """A job that was seen running counts until then, not until now."""
    with History.open(past.database_url) as history:
        one = {"cluster": "lab", "tenant": "idle", "num_gpus": 2, "allocated": ()}
        seen = running(900, UNTIL - 7200, start_time=UNTIL - 7200, time_limit_s=UNLIMITED_S, **one)
        history.ingest(batch(seen), source_key=None)
        assert told(past, until=UNTIL + HOUR_S).told_until is None
        history.ingest(Batch((), (), 0, cursor=str(UNTIL)), source_key="sacct:lab")
        history.ingest(Batch((), (), 0, cursor="x"), source_key="sacct:other")
    for until in (UNTIL + 301, UNTIL + 30 * DAY_S):
        report = told(past, until=until)
        assert by_name(report)["idle"].received == 4.0
        document = report.document()
        assert (document["until"], document["known"]["told_until"]) == (UNTIL, UNTIL)
        assert f"Nothing after {moment(UNTIL)} is known" in "\n".join(report_lines(report))
    for until in (UNTIL - 1800, UNTIL + 300):
        report = told(past, until=until)
        assert report.query.until == min(until, UNTIL)
        assert "is known:" not in "\n".join(report_lines(report))
    for since, end in (
        (T0, "So the time ends there."),
        (UNTIL, "What has ended since then counts as if it still ran."),
    ):
        lines = list(report_lines(told(past, since=since, until=UNTIL + HOUR_S)))
        assert lines[1].endswith(end)
    monkeypatch.setattr("gsched_sql.ingest.time.time", lambda: UNTIL + 60.0)
    with History.open(past.database_url) as history:  # its jobs are told by jobcomp's file now
        history.ingest(Batch((), (), 0, cursor="y"), source_key="jobcomp:lab:/jobcomp")
    assert told(past, until=UNTIL + HOUR_S).query.until == UNTIL + HOUR_S


def test_worths_are_those_by_which_gpus_count(past):
    """Whatever this user's gsched.toml says of them."""
    other = replace(past, fairness=FairnessSettings(gpu_weights={"a100": 9.0}))
    alike = told(other)
    assert alike.document()["gpu_weights"] == {"a100": 9.0}  # the daemon has noted none yet
    with History.open(past.database_url) as history:
        worths = {"": 2.0, "a100": 3.0, "k80": 1.0}
        history.fairness().note("lab", T0, replace(QUOTAS, gpu_weights=worths))
    report = told(other)
    assert by_name(report)["lab2"].received == 2 * by_name(alike)["lab2"].received
    document = report.document()
    assert (document["gpu_weights"], document["known"]["weights_changed"]) == (
        {"": 2.0, "a100": 3.0},
        [],
    )
    lines = "\n".join(report_lines(report))
    assert "([fairness.gpu_weights]: (no type) 2, a100 3; others 1)." in lines
    with History.open(past.database_url) as history:
        history.fairness().note("lab", T0 + 24 * HOUR_S, QUOTAS)
    report = told(other)
    assert by_name(report)["lab2"].received == 1.5 * by_name(alike)["lab2"].received
    document = report.document()
    assert (document["gpu_weights"], document["known"]["weights_changed"]) == (
        {},
        [T0 + 24 * HOUR_S],
    )
    lines = "\n".join(report_lines(report))
    assert f"since {moment(T0 + 24 * HOUR_S)}: all 1); what was before, by those of then." in lines
    assert told(other, until=T0 + 20 * HOUR_S).document()["gpu_weights"] == {"": 2.0, "a100": 3.0}


def test_older_time_is_owed_less(past):
    def owed(half_life_s, until=UNTIL):
        knobs = replace(past.daemon, knobs={"half_life_s": half_life_s})
        return by_name(told(replace(past, daemon=knobs), until=until))["idle"].owed

    assert 0 < owed(3600.0) < owed(DAY_S) < owed(30 * DAY_S)
    assert owed(7200.0, UNTIL + 7200) == pytest.approx(owed(7200.0) / 2)


def test_a_window_that_is_not_the_beginning(past):
    found = by_name(told(past, since=T0 + 24 * HOUR_S + 1800))
    assert found["greedy"].received == 4 * 23.5
    assert found["lab2"].received == 24.0
    whole = by_name(told(past))
    assert {n: one.owed for n, one in found.items()} == pytest.approx(
        {n: one.owed for n, one in whole.items()}
    )


def test_jobs_of_an_account_a_user_and_one_by_its_id(past):
    of_lab2 = told(past, accounts=("lab2",))
    assert [one.tenant for one in of_lab2.tenants] == ["lab2"]
    assert {one.job for one in of_lab2.jobs} == {str(n) for n in range(101, 125)}
    assert {(one.received, one.entitled) for one in of_lab2.jobs} == {(2.0, 3.0)}
    assert {one.r for one in of_lab2.jobs} == {2.0 / 3.0}
    assert all(one.is_loss for one in of_lab2.jobs)
    assert (of_lab2.loss_jobs, len(of_lab2.job_r)) == (24, 24)
    of_ann = told(past, users=("ann",))
    assert ([one.tenant for one in of_ann.tenants], len(of_ann.jobs)) == (["greedy"], 48)
    assert not any(one.is_loss for one in of_ann.jobs)
    late = told(past, since=UNTIL - 2 * HOUR_S, users=("ann",))
    assert [one.job for one in late.jobs] == ["47", "48"]
    both = told(past, users=("ann", "bob"), accounts=("lab2", "greedy"))
    assert ([one.tenant for one in both.tenants], len(both.jobs)) == (["lab2", "greedy"], 72)
    assert [one.r for one in both.jobs] == sorted(one.r for one in both.jobs)
    (one,) = told(past, job=parse_job_id("103")).jobs
    assert (one.job, one.user, one.tenant) == ("103", "bob", "lab2")
    assert not told(past).jobs


def test_tasks_and_components_are_told_apart(settings):
    with History.open(settings.database_url) as history:
        jobs = [
            replace(gpu_job(9, "lab2", "bob", 0, 10, 3600), array_task=task) for task in (1, 2, 3)
        ]
        jobs += [
            replace(gpu_job(11, "lab2", "bob", 0, 10, 3600), het_offset=part) for part in (0, 1)
        ]
        history.ingest(batch(*jobs), source_key="a")
        history.fairness().note("lab", T0, QUOTAS)

    def named(text):
        return {one.job for one in told(settings, job=parse_job_id(text)).jobs}

    assert named("9") == {"9_1", "9_2", "9_3"}
    assert named("9_2") == {"9_2"}
    assert named("9_[2-3]") == {"9_2", "9_3"}
    assert named("11") == {"11+0", "11+1"}
    assert named("11+1") == {"11+1"}


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"accounts": ("lab3",)}, "no account 'lab3' asked for GPUs in this time"),
        ({"users": ("carl",)}, "no job of user 'carl'"),
        ({"job": parse_job_id("7000")}, "job 7000 is none that asked for GPUs"),
        ({"job": parse_job_id("101"), "accounts": ("greedy",)}, "job 101 is none"),
    ],
)
def test_whom_the_books_do_not_know(past, query, says):
    with pytest.raises(UsageError, match=says):
        told(past, **query)


def test_without_noted_quotas_those_of_now_count_and_it_is_said(settings, monkeypatch):
    with History.open(settings.database_url) as history:
        history.ingest(batch(gpu_job(1, "a", "ann", 0, 0, 3600)), source_key="a")
    monkeypatch.setattr(report_module, "slurm_client", lambda _: None)
    asked = []

    def quotas(site, client):
        asked.append(site.fairness.quotas)
        return SiteQuotas({"a": 2.0}, 8.0, "settings")

    monkeypatch.setattr(report_module, "quotas_of", quotas)
    report = told(settings, until=T0 + HOUR_S)
    assert asked == [{}]
    assert by_name(report)["a"].entitled == 2.0
    assert "Quotas are those of now, by [fairness.quotas] of gsched.toml" in words(report)


def test_noted_quotas_are_taken_without_asking_slurm(past, monkeypatch):
    monkeypatch.setattr(report_module, "slurm_client", None)
    assert "Quotas are as the daemon noted them since" in words(told(past))
    early = words(told(past, since=T0 - DAY_S))
    assert "For the time before, those that were noted first are taken." in early


def words(report):
    return "\n".join(report_lines(report))


def test_what_is_not_known_is_said(past):
    with History.open(past.database_url) as history:
        rows = [
            replace(pending(201, T0 + 100), cluster="lab", tenant="lab2"),
            replace(gpu_job(202, "lab2", "bob", 0, 10, 20), num_gpus=None, allocated=()),
            replace(gpu_job(203, "lab2", "bob", 0, 100, 20)),
        ]
        history.ingest(batch(*rows), source_key="b")
    report = told(past)
    assert "1 attempt not ended as far as known" in words(report)
    document = report.document()["known"]
    assert (document["open_attempts"], document["since"]) == (1, T0 + 48 * 3600 - 98 * DAY_S)
    assert (document["unknown_gpus"], document["odd_times"]) == (1, 1)
    assert "1 attempt of an unknown number of GPUs, left out" in words(report)
    assert "1 attempt that ended before it began, left out" in words(report)


def test_debts_in_words_are_those_of_reasons(past):
    said = words(told(past))
    assert "Account idle is owed 54.4 GPU-h." in said
    assert "Account greedy has had 92.6 GPU-h that were others'." in said
    assert "24 of 72 jobs (33 %)" in said
    assert "does not go by these accounts" not in said
    qssf = words(told(replace(past, daemon=DaemonSettings(policy="qssf"))))
    assert "The policy in the settings is qssf" in qssf


def test_gpus_count_by_worth_and_it_is_said(past):
    weighted = replace(past, fairness=FairnessSettings(gpu_weights={"a100": 2.0}))
    assert "[fairness.gpu_weights]: a100 2; others 1" in words(told(weighted))


def test_tables(past):
    report = told(past, accounts=("lab2",))
    assert metric_table(report).rows == [
        ("lab2", "0.67", "48.0", "72.0", "96.0", "24", "24", "24 of 24")
    ]
    assert metric_table(report).headings[-1] == "UNFAIR HOURS"
    assert rule_table(report).rows == [
        ("lab2", "3", "38.1", "144.0", "48.0", "12.0", "108.0")
    ]  # fmt: skip
    table = job_table(report)
    assert table.title == "Jobs, the least served first, 20 of 24 (GPU-h)"
    assert table.rows[0] == ("101", "bob", "lab2", "0.67", "2.0", "3.0", "yes")


def test_of_many_accounts_those_with_the_largest_debts_are_shown(past):
    with History.open(past.database_url) as history:
        small = [gpu_job(400 + n, f"s{n:02}", "eve", 0, 0, 60 + n, 1) for n in range(40)]
        history.ingest(batch(*small), source_key="c")
    report = told(past)
    assert len(report.tenants) == 43
    table = metric_table(report)
    assert table.title.startswith(
        "The metric: what of what was theirs have they received, 25 of 43"
    )
    assert [row[0] for row in table.rows[:2]] == ["idle", "lab2"]
    assert table.rows[-1][0] == "greedy"
    assert {row[0] for row in table.rows} == {row[0] for row in rule_table(report).rows}
    assert "s39" in {row[0] for row in table.rows}
    assert "s00" not in {row[0] for row in table.rows}
    assert len(report.document()["tenants"]) == 43


def test_the_course_step_by_step(past):
    course = told(past, accounts=("greedy", "lab2")).course
    lab2, greedy = course.gpus
    assert greedy.tolist() == [4.0] * 48
    assert lab2.tolist() == [2.0, 0.0] * 24
    assert course.r(0)[:2] == [pytest.approx(2 / 3), None]
    assert course.quota_gpus.tolist() == [[3.0] * 48] * 2


def test_the_page_is_the_same_each_time_and_holds_no_markup_of_others(past):
    evil = "<script>x</script>"
    with History.open(past.database_url) as history:
        history.ingest(batch(gpu_job(301, evil, "eve", 0, 0, 3600)), source_key="c")
    report = told(past, accounts=(evil, "lab2"))
    text = page(report)
    assert text == page(told(past, accounts=(evil, "lab2")))
    assert evil not in text
    assert "&lt;script&gt;x&lt;/script&gt;" in text
    assert text.count("<svg") == 3
    json.dumps(report.document(), allow_nan=False)


def test_an_empty_time_is_told(past):
    report = told(past, since=T0 - 30 * DAY_S, until=T0 - 20 * DAY_S)
    assert [one.received for one in report.tenants] == [0.0, 0.0, 0.0]
    assert "No job of these accounts was entitled to GPUs in this time." in words(report)
    assert page(report).count("<svg") == 0


def test_pruned_jobs_stay_in_the_accounts_by_the_hour(past):
    before = told(past, since=T0 - 1800)
    with History.open(past.database_url) as history:
        close_hours(history, "lab", UNTIL, QUOTAS, None)
        pruned_before = T0 + 30 * HOUR_S + 600
    assert maintenance.prune(past.database_url, pruned_before).counts["jobs"]
    after = told(past, since=T0 - 1800)
    assert after.known.pruned_before == pruned_before
    for one, again in zip(before.tenants, after.tenants, strict=True):
        assert replace(one, jobs=0, loss_jobs=0, owed=0.0) == replace(
            again, jobs=0, loss_jobs=0, owed=0.0, due=again.due + quota_of_half_an_hour(one),
            lent=again.lent + quota_of_half_an_hour(one),
        )  # fmt: skip
        assert again.owed == pytest.approx(one.owed, rel=1e-3)
        assert again.jobs < one.jobs or not one.jobs
    np.testing.assert_array_equal(before.course.received, after.course.received)
    # of hours that a window cuts nothing is counted
    half = T0 + 5 * HOUR_S + 1800
    for until, hours_left in ((T0 + 40 * HOUR_S + 1800, 34.5), (T0 + 20 * HOUR_S + 1800, 14)):
        assert by_name(told(past, since=half, until=until))["greedy"].received == 4 * hours_left
    assert "have been pruned" in words(after)
    assert "have been pruned" not in words(before)
    json.dumps(after.document(), allow_nan=False)


def quota_of_half_an_hour(one):
    """Hours before the first job are not closed, and of half an hour nothing is kept."""
    return one.quota_gpus / 2


def test_whoever_sees_the_own_jobs_alone_is_told_so(past, monkeypatch):
    monkeypatch.setattr(History, "sees_all_rows", lambda _: False)
    with pytest.raises(OwnJobsAloneError):
        told(past)
    with pytest.raises(ConfigError):
        told(replace(past, state_dir=past.state_dir / "none"))


@given(st.integers(1, 10**9), st.integers(0, 2 * 10**9))
def test_a_course_has_no_more_steps_than_fit_and_covers_the_time(length, since):
    edges = edges_of(since, since + length)
    assert (edges[0], edges[-1]) == (since, since + length)
    assert (np.diff(edges) > 0).all()
    assert len(edges) - 1 <= MOST_STEPS + 1
    assert len(edges) > 2 or step_of(length) >= length or length <= 2 * step_of(length)


def test_steps_begin_where_people_expect_them():
    assert edges_of(T0 + 100, T0 + 7200).tolist() == [T0 + 100, T0 + 3600, T0 + 7200]
    weeks = edges_of(T0 - 200 * DAY_S, T0 + DAY_S)
    assert step_of(201 * DAY_S) == 7 * DAY_S
    assert T0 in weeks
    said = [step_words(step_of(days * DAY_S)) for days in (1, 7, 30, 200, 1000)]
    assert said == ["hours", "steps of 3 h", "steps of 12 h", "weeks", "steps of 30 d"]


def test_hours_of_gpus():
    assert [hours(x) for x in (0.0, -0.001, 0.05, -0.5, 1.0, 1234.56)] == [
        "0.0", "0.0", "0.05", "-0.5", "1.0", "1,234.6",
    ]  # fmt: skip
