"""`gsched queue --plan`: its columns, and the calendar as a chart in plain characters."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from support.queue import row

from gsched.app.pool_plan import PoolPlan
from gsched.app.queue import QueueView
from gsched.app.queued_job import QueuedJob
from gsched.app.target_calendar import TargetCalendar
from gsched.explain.words import short_time
from gsched.model.job import JobState
from gsched.slurm.records import FreeText
from gsched_cli.plan_chart import COLUMNS, plan_chart
from gsched_cli.queue_columns import COLUMNS as QUEUE_COLUMNS
from gsched_cli.queue_columns import DEFAULT, PLAN, with_told_columns
from gsched_cli.tables import Layout, choose_columns

NAMED = {column.name: column for column in QUEUE_COLUMNS}
AT = 1_796_634_000  # Monday, 2026-12-07T09:00 UTC
MIDNIGHT = 1_796_601_600
HOUR = 3600


@pytest.fixture(autouse=True)
def zone(monkeypatch):
    """Switches the time zone; UTC at first."""

    def switch(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    switch("UTC")
    yield switch
    monkeypatch.undo()
    time.tzset()


def target(*plan, deadlines=(AT + 50 * 60,), state="on-target", **facts):
    rewards = (100.0, 50.0, 20.0)
    return {
        "state": state,
        "deadlines": [[time, reward] for time, reward in zip(deadlines, rewards, strict=False)],
        "finish_time": plan[-1][1] if plan else AT,
        "probability": 0.934,
        "num_gpus": 4,
        "plan": [list(part) for part in plan],
        **facts,
    }


def job(raw_id, answer=None, **facts):
    return QueuedJob(row(raw_id, **facts), FreeText("train", ""), answer or {}, AT)


def calendar(*targets, pools=()):
    jobs = tuple(job(40 + n, {"target": each}, num_gpus=4) for n, each in enumerate(targets))
    return TargetCalendar.of(QueueView(jobs, "", "alpha", "chronus", AT, AT), pools)


def cells(line):
    """What a line of the chart shows, without its label."""
    return line[-COLUMNS:]


def test_a_column_a_minute_with_plan_and_deadline():
    one = target((AT, AT + 600, 4), (AT + 1200, AT + 1201, 4))
    heading, line, legend = plan_chart(calendar(one))
    assert heading.split() == ["09:00", "09:20", "09:40"]
    assert heading.index("09:20") - heading.index("09:00") == 20
    assert line.startswith("40  4 GPUs  ##########")
    assert cells(line) == "#" * 10 + "." * 10 + "#" + "." * 29 + "|" + "." * 9
    assert heading.index("09:00") == len(line) - COLUMNS
    assert legend.startswith("(a column is 1:00; #")
    assert "tenths" not in legend


def test_soft_deadlines_before_the_last_have_their_own_sign():
    soft = target((AT, AT + 60, 4), deadlines=(AT + 600, AT + 1200, AT + 1800))
    _, line, _ = plan_chart(calendar(soft))
    assert cells(line) == "#" + "." * 9 + ":" + "." * 9 + ":" + "." * 9 + "|" + "." * 29
    assert cells(line).index("|") == 60 - 60 * 0 - 60 or "|" in cells(line)


def test_the_chart_reaches_to_the_last_deadline_of_all():
    near = target((AT, AT + 60, 4))
    far = target((AT + 30 * HOUR, AT + 40 * HOUR, 4), deadlines=(AT + 45 * HOUR,))
    _, first, second, legend = plan_chart(calendar(near, far))
    assert "(a column is 1:00:00;" in legend
    assert cells(first).startswith("|")
    assert cells(second) == "." * 30 + "#" * 10 + "." * 5 + "|" + "." * 14


def test_columns_of_days_where_deadlines_are_months_away():
    far = target((AT, AT + 60, 4), deadlines=(AT + 100 * 24 * HOUR,))
    _, line, legend = plan_chart(calendar(far))
    assert "(a column is 2-00:00:00;" in legend
    assert "|" in cells(line)


STEPS = (
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 14400, 21600, 43200,
    86400, 172800, 259200,
)  # fmt: skip


@pytest.mark.parametrize("late_s", [0, 86399])  # how far the first column is over
@pytest.mark.parametrize(("step", "longer"), [*pairwise(STEPS)])
def test_the_finest_columns_that_show_all_are_taken(step, longer, late_s, monkeypatch):
    """Begun anywhere within its first column, the last deadline is still in the chart."""
    monkeypatch.setattr(f"{__name__}.AT", MIDNIGHT + late_s)
    for span, expected in ((59 * step, step), (59 * step + 1, longer)):
        at_end = target((AT, AT + 1, 4), deadlines=(AT + span,))
        *_, line, legend = plan_chart(calendar(at_end))
        assert legend.startswith(f"(a column is {short_time(expected)};")
        assert "|" in cells(line)


def test_a_plan_beyond_the_deadline_is_shown_whole():
    late = target((AT + 55 * 60, AT + 58 * 60, 4), deadlines=(AT + 60,))
    _, line, _ = plan_chart(calendar(late))
    assert cells(line) == "." + "|" + "." * 53 + "###" + ".."


def test_columns_begin_at_full_steps_of_local_time(zone):
    zone("Asia/Kolkata")  # 5:30 from UTC
    heading, *_ = plan_chart(calendar(target((AT, AT + 60, 4), deadlines=(AT + 45 * HOUR,))))
    assert heading.split()[0] == "14:00"


def test_what_is_left_of_each_pool_in_tenths():
    free = ((AT, 16), (AT + 600, 4), (AT + 1200, 0), (AT + 1830, 7))
    found = calendar(target((AT, AT + 60, 4)), pools=[PoolPlan("gpu", 16, free)])
    *_, line, legend = plan_chart(found)
    assert line.startswith("free in gpu  of 16  9")
    assert cells(line) == "9" * 10 + "2" * 10 + "0" * 11 + "4" * 29
    assert "tenths" in legend


def test_hostile_names_of_pools_stay_on_their_line():
    pools = [PoolPlan("g\x1b[31m\n" + "x" * 99, 0, ((AT, 1),))]
    lines = plan_chart(calendar(target((AT, AT + 60, 4)), pools=pools))
    assert all(line.isprintable() and len(line) < 200 for line in lines)


def test_no_target_no_chart():
    assert plan_chart(calendar()) == []


# -- columns ---------------------------------------------------------------------------------------


def shown(name, one):
    return NAMED[name].cell(one), NAMED[name].raw(one)


def test_the_columns_of_a_target():
    plan = ((AT, AT + HOUR, 4), (AT + 2 * HOUR, AT + 3 * HOUR, 4))
    one = job(7, {"target": target(*plan, deadlines=(AT + 24 * HOUR,), finish_time=AT + 9)})
    assert shown("deadline", one) == ("Tue 09:00", AT + 24 * HOUR)
    assert shown("target", one) == ("on target 0.93", "on-target")
    assert shown("planned_end", one) == ("12:00", AT + 3 * HOUR)
    assert shown("probability", one) == ("0.93", 0.934)
    assert shown("plan", one) == (
        "4 GPUs now–10:00, then 11:00–12:00",
        f"{AT}-{AT + HOUR}:4,{AT + 2 * HOUR}-{AT + 3 * HOUR}:4",
    )


def test_the_columns_of_jobs_without_a_promise():
    refusal = {"want": "deadline", "outcome": "refused", "reason": "no"}
    one = job(7, {"outcomes": [refusal], "request": {"wants": {"deadline": AT + HOUR}}})
    assert shown("target", one) == ("refused", "refused")
    assert shown("deadline", one) == ("10:00", AT + HOUR)
    for name in ("planned_end", "probability", "plan"):
        assert shown(name, one) == ("-", None)
    for name in ("deadline", "target"):
        assert shown(name, job(8)) == ("-", None)


def test_a_late_target_tells_no_chance_and_colours_say_it_again():
    late = job(7, {"target": target(state="late", deadlines=(AT - 60,))})
    assert shown("target", late) == ("late", "late")
    risky = job(7, {"target": target(state="at-risk")})
    sound = job(7, {"target": target()})
    assert [NAMED["target"].style(each) for each in (late, risky, sound, job(8))] == [
        "red", "yellow", None, None,
    ]  # fmt: skip


def test_deadlines_stand_in_the_usual_table_only_where_there_are_some():
    usual = Layout(choose_columns(QUEUE_COLUMNS, DEFAULT, DEFAULT))
    promised = job(7, {"target": target()})
    names = [column.name for column in with_told_columns(usual, [job(8), promised]).columns]
    assert names[names.index("expected") :] == ["expected", "deadline", "target", "time", "why"]
    assert with_told_columns(usual, [job(8)]) == usual
    for_programs = Layout(usual.columns, parsable=True)
    assert with_told_columns(for_programs, [promised]) == for_programs


def test_the_usual_columns_of_a_plan_exist():
    assert len(choose_columns(QUEUE_COLUMNS, PLAN, PLAN)) == len(PLAN.split(","))


def test_a_running_target_has_all_its_columns():
    one = job(7, {"target": target((AT, AT + HOUR, 4))}, state=JobState.RUNNING, start_time=AT - 9)
    assert shown("target", one)[1] == "on-target"
    assert shown("plan", one)[0] == "4 GPUs now–10:00"
