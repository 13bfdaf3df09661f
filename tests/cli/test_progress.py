"""Progress as people see it: rows and plot of `gsched show`, columns of `queue` and `top`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.heartbeats import record
from support.queue import row

from gsched.app.job_progress import JobProgress
from gsched.app.queued_job import QueuedJob
from gsched.app.told_progress import Told
from gsched.explain.start_words import clock
from gsched.model.job import JobState
from gsched.slurm.records import FreeText
from gsched.telemetry.loss_curve import Attempt, LossCurve, Point
from gsched_cli.output import local_time
from gsched_cli.progress_rows import PLOT_COLUMNS, loss_plot, progress_rows
from gsched_cli.queue_columns import COLUMNS, DEFAULT, with_told_columns
from gsched_cli.tables import Layout, choose_columns
from gsched_cli.top import view

NAMED = {column.name: column for column in COLUMNS}
AT = 5000
TWO_ATTEMPTS = LossCurve(
    [Point(0, 9.0, 1), Point(63, 5.0, 1), Point(126, 1.0, 1)],
    [Attempt(0, 0, 100, 4000.0, 4100.0), Attempt(1, 40, 126, 4500.0, 5000.0)],
)


def document(curve=None, ranks=(), **facts):
    told = record(**facts)
    progress = JobProgress(told, AT, is_running=True)
    return Told(progress, curve or LossCurve(), [told, *ranks]).document()


def job(told=None, raw_id=7, **facts):
    progress = JobProgress(told, AT, is_running=True) if told else None
    running = row(raw_id, state=JobState.RUNNING, state_text="RUNNING", start_time=4000, **facts)
    return QueuedJob(running, FreeText("train", ""), {}, AT, progress)


# -- show ------------------------------------------------------------------------------------------


def test_all_that_is_told_has_a_row():
    behind = record(rank=1, world_size=2, host="gn02", step=390, step_time=4990.0)
    told = document(
        TWO_ATTEMPTS, [behind], world_size=2, step=18_240, total_steps=50_000, loss=2.3456789,
        bad_losses=3, iteration_s=0.25, tokens_per_s=12_345.6, checkpoint_dir="/scratch/ck",
        committed_step=18_200, committed_time=4900.0,
    )  # fmt: skip
    rows = dict(progress_rows(told, AT))
    done = rows.pop("should be done")
    assert done.endswith(", in 4:24:40 (0.5 s a step of late)")
    assert rows == {
        "progress": f"step 18,240 of 50,000 steps (36 %) at {local_time(5000)}",
        "loss": "2.34568",
        "loss now": "not finite (3 looks in a row)",
        "iteration": "0.25 s, 12,346 tokens/s",
        "checkpoints": "/scratch/ck",
        "newest checkpoint": f"step 18,200 at {local_time(4900)}",
        "ranks": "2 of 2 are heard; for longest not: rank 1 on gn02, at step 390 at "
        f"{local_time(4990)}",
        "attempt 1": f"steps 0 to 100, begun {local_time(4000)}; 60 of them were done again",
        "attempt 2": f"steps 40 to 126, begun {local_time(4500)}",
    }


def test_a_job_that_tells_little_has_one_row():
    told = document(total_steps=None, pace_s=None)
    assert dict(progress_rows(told, AT)) == {"progress": f"step 400 at {local_time(5000)}"}


def test_a_job_whose_steps_no_longer_end_gets_no_time():
    told = document(step_time=AT - 720.0, written_time=AT - 30.0)
    assert dict(progress_rows(told, AT))["should be done"] == (
        "not known: no step has ended for 12:00; the process was last heard 0:30 ago"
    )


def test_the_loss_of_two_attempts_is_one_plot():
    blank = " " * 5 + "|"
    assert loss_plot(document(TWO_ATTEMPTS)) == [
        "",
        "loss",
        "   9 |*",
        blank,
        blank,
        blank,
        blank + " " * 32 + "*",
        blank,
        blank,
        "   1 |" + " " * 63 + "*",
        "     +" + "-" * 20 + "^" + "-" * 43,
        "step  0" + " " * 60 + "126",
    ]


@pytest.mark.parametrize("losses", [[], [1.0]], ids=len)
def test_less_than_two_points_are_no_plot(losses):
    curve = LossCurve([Point(step, loss, 1) for step, loss in enumerate(losses)])
    assert loss_plot(document(curve)) == []
    assert loss_plot({}) == []


@pytest.mark.parametrize("ends", [(2.0, 2.0), (-1.7e308, 1.7e308), (5e-324, 0.0)], ids=str)
def test_no_losses_break_the_plot(ends):
    curve = LossCurve([Point(1, ends[0], 1), Point(2**53, ends[1], 1)])
    lines = loss_plot(document(curve))
    assert len(lines) == 12
    assert sum(line.count("*") for line in lines) == 2
    assert all(len(line) <= PLOT_COLUMNS + 20 for line in lines)


# -- queue and top ---------------------------------------------------------------------------------


def cells(told, *names):
    return [NAMED[name].cell(job(told)) for name in names]


def values(told, *names):
    return [NAMED[name].raw(job(told)) for name in names]


def test_cells_of_a_job_that_tells_all():
    names = ("progress", "eta", "step", "steps", "loss")
    told = record(step=999, total_steps=1000, loss=0.123456, pace_s=1000.0)
    assert cells(told, *names)[0] == "99 %"
    assert cells(told, *names)[2:] == ["999", "1,000", "0.1235"]
    assert values(told, *names) == [0.999, 6000, 999, 1000, 0.123456]


def test_cells_of_a_job_that_tells_little_or_nothing():
    names = ("progress", "eta", "step", "steps", "loss")
    little = record(total_steps=None, step=18_240)
    assert cells(little, *names) == ["step 18,240", "-", "18,240", "-", "-"]
    assert values(little, *names) == [None, None, 18_240, None, None]
    assert cells(None, *names) == ["-"] * 5
    assert values(None, *names) == [None] * 5


def test_what_is_less_than_a_minute_away_is_said_to_the_second():
    soon_done = {"step": 969, "total_steps": 1000, "pace_s": 1.0, "step_time": float(AT)}
    assert cells(record(**soon_done), "eta") == ["in 0:31"]
    rows = dict(progress_rows(document(**soon_done), AT))
    assert rows["should be done"] == "in 0:31 (1 s a step of late)"
    assert cells(record(**soon_done | {"step": 1000}), "eta") == ["now"]


def test_silence_is_said_in_the_place_of_an_end():
    silent = record(step_time=AT - 720.0)
    assert cells(silent, "eta") == ["silent 12:00"]
    assert NAMED["eta"].style(job(silent)) == "yellow"
    assert NAMED["eta"].style(job(record())) is None


def test_columns_come_where_some_job_tells_its_progress():
    usual = Layout(choose_columns(COLUMNS, DEFAULT, DEFAULT))
    silent, talking = job(), job(record())
    names = [column.name for column in with_told_columns(usual, [silent, talking]).columns]
    assert [n for n in names if n not in DEFAULT.split(",")] == ["progress", "eta"]
    assert names[names.index("eta") + 1] == "time"
    assert with_told_columns(usual, [silent]) == usual
    for asked in (replace(usual, parsable=True), Layout(usual.columns[:3])):
        assert with_told_columns(asked, [talking]) == asked


def test_the_live_view_has_the_columns_where_there_is_room():
    def named(width, has_progress):
        columns = view.columns_for(width, True, True, has_progress)
        return {column.name for column, _ in columns}

    assert named(160, True) - named(160, False) == {"progress", "eta"}
    assert {"progress", "eta"} <= named(80, True)
    assert named(68, True) & {"progress", "eta"} == {"progress"}


def test_the_live_view_has_deadlines_where_a_job_has_asked_for_one():
    def named(width, has_deadlines):
        columns = view.columns_for(width, True, True, False, has_deadlines)
        return {column.name for column, _ in columns}

    assert named(200, True) - named(200, False) == {"deadline", "target"}
    assert {"deadline", "target"} <= named(90, True)
    assert named(60, True) & {"deadline", "target"} == {"target"}


def test_the_live_view_tells_the_state_of_a_deadline_and_its_chance():
    target = {"state": "at-risk", "deadlines": [[AT + 3600, 100.0]], "finish_time": AT + 3000,
              "probability": 0.4, "plan": [[AT, AT + 3000, 1]]}  # fmt: skip
    columns = view.columns_for(200, False, False, False, True)
    line = view.job_line(replace(job(), answer={"target": target}), columns)
    assert "at risk 0.40" in line
    assert clock(AT + 3600, AT) in line


def test_the_details_of_the_live_view_have_the_units_right():
    told = record(iteration_s=0.25, tokens_per_s=12_345.6, loss=2.5)
    lines = view.details(job(told), "")
    assert "iteration            0.25 s" in lines
    assert "tokens per           12,346 a second" in lines
    assert "loss                 2.5" in lines
