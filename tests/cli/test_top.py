"""The live view: what it shows of a feed made by hand, and how it obeys keys."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from dataclasses import replace

import pytest
from support.queue import node, row

from gsched.app.daemon_note import NO_DAEMON
from gsched.app.queue import QueueView
from gsched.app.queue_filter import QueueFilter
from gsched.app.queued_job import QueuedJob
from gsched.app.watch import Look, QueueWatch, count_nodes
from gsched.config.settings import Settings
from gsched.errors import TryAgainError
from gsched.model.cluster import NodeView
from gsched.model.job import JobState
from gsched.slurm.records import FreeText, QueueListing
from gsched_cli.output import display_width
from gsched_cli.top import view
from gsched_cli.top.app import JobList, Page, TopApp

HOSTILE = "x\x1b[2J\n[bold]模\u202e|"


def job(raw_id, name="train", **facts):
    return QueuedJob(row(raw_id, **facts), FreeText(name, ""), {}, 5000)


def look(*jobs, note=""):
    queue = QueueView(jobs, note, "alpha", "qssf", 4990, 5000)
    down = NodeView("n3", "down", (), 64, 2**39, (("", 8),), ("gpu",))
    return Look(queue, count_nodes([node("n1"), replace(node("n2"), gpus_used=3), down]))


JOBS = (
    job(1, "alpha-train", user="alice", num_gpus=1, submit_time=1000),
    job(2, "beta-eval", user="bob", num_gpus=8, submit_time=3000),
    job(3, HOSTILE, user="carol", num_gpus=4, submit_time=2000),
    job(4, "gone", state=JobState.RUNNING, state_text="RUNNING", start_time=4000, node_list="n1"),
)


class Feed:
    """What Slurm would say, call by call; the last answer stays."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = 0

    def __call__(self):
        self.calls += 1
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def drive(script, feed=None, size=(80, 24), delay_s=1000):
    """Run `script(pilot, app)` on a view of that size; returns the application."""
    app = TopApp(feed or Feed(look(*JOBS)), delay_s, "bob")

    async def run():
        async with app.run_test(size=size) as pilot:
            await shows(pilot, lambda: app._look or app._error)
            await script(pilot, app)

    asyncio.run(run())
    return app


async def shows(pilot, wanted):
    """Let the application work until `wanted()`."""
    for _ in range(2000):
        if wanted():
            return
        await pilot.pause(0.005)
    raise AssertionError("the view never came to the state that was waited for")


def lines(app):
    """The screen as text."""
    shown = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip).rstrip() for strip in shown]


def listed(app):
    return [j.raw_id for j in app.screen_stack[0].query_one(JobList).jobs]


def test_it_shows_the_cluster_the_jobs_and_the_keys():
    async def script(pilot, app):
        shown = lines(app)
        assert shown[0] == (
            "alpha: 3 nodes (1 down), GPUs 3/24 used, 8 down   1 running, 3 pending"
        )
        assert "order of qssf, 0:10 old" in shown[1]
        assert shown[2].split() == ["JOBID", "PARTITION", "NAME", "USER", "STATE", "GPUS", "TIME"]
        assert shown[3].split()[:3] == ["1", "gpu", "alpha-train"]
        assert "q quit" in shown[23]
        assert all(display_width(line) <= 80 for line in shown)

    drive(script)


def test_hostile_names_are_text():
    async def script(pilot, app):
        text = "\n".join(lines(app))
        assert "x\\x1b[2J\\n[bold]模" in text
        assert "\x1b" not in text
        assert "\u202e" not in text
        await pilot.press("down", "down", "enter")
        assert "[bold]" in "\n".join(lines(app))

    drive(script)


def test_keys_sort_filter_and_choose():
    async def script(pilot, app):
        await pilot.press("u")
        assert listed(app) == [2]
        await pilot.press("u", "s")
        assert listed(app) == [2, 3, 4, 1]  # by GPUs
        await pilot.press("s")
        assert listed(app) == [1, 3, 2, 4]  # by time: what waits longest
        await pilot.press("slash", "slash", *"EVAL")
        assert listed(app) == []
        await pilot.press("home", "delete")
        assert listed(app) == [2]
        await pilot.press("enter", "s")  # the keys work again, the text stays
        assert listed(app) == [2]
        assert "with 'EVAL'" in lines(app)[-1]
        await pilot.press("escape")
        assert len(listed(app)) == 4

    drive(script)


def test_the_cursor_moves_and_stays_on_its_job():
    many = [job(n) for n in range(1, 101)]
    feed = Feed(look(*many))

    async def script(pilot, app):
        jobs = app.query_one(JobList)
        await pilot.press("end")
        assert jobs.current.raw_id == 100
        assert lines(app)[22].split()[0] == "100"
        await pilot.press("pageup")
        assert jobs.current.raw_id == 80
        await pilot.press("home", "up", "down", "pagedown")
        assert jobs.current.raw_id == 22
        jobs.show(many[5:])
        assert jobs.current.raw_id == 22
        jobs.show([])
        assert jobs.current is None
        await pilot.press("down", "enter")
        assert not isinstance(app.screen, Page)

    drive(script, feed)


def test_details_and_help_are_pages_that_close():
    async def script(pilot, app):
        await pilot.press("down", "enter")
        assert isinstance(app.screen, Page)
        assert any("beta-eval" in line for line in lines(app))
        await pilot.press("q")
        assert not isinstance(app.screen, Page)
        await pilot.press("question_mark")
        assert any("PgUp PgDn" in line for line in lines(app))
        await pilot.press("escape")
        assert app.is_running

    drive(script)


@pytest.mark.parametrize("size", [(200, 50), (80, 24), (60, 10), (40, 8), (20, 5), (8, 3)])
def test_it_fits_any_terminal(size):
    async def script(pilot, app):
        shown = lines(app)
        assert len(shown) <= size[1]
        assert all(display_width(line) <= size[0] for line in shown)
        if size[0] >= 20:
            assert any(line.split()[:1] == ["1"] for line in shown)
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert any("alpha-train" in line for line in lines(app))

    drive(script, size=size)


def test_columns_go_in_the_order_of_need():
    def named(width, has_ranks=True, has_forecasts=True):
        return [column.name for column, _ in view.columns_for(width, has_ranks, has_forecasts)]

    assert named(130) == [
        "rank", "jobid", "partition", "name", "user", "state", "gpus", "predicted", "expected",
        "time", "why",
    ]  # fmt: skip
    assert named(130, has_forecasts=False) == [n for n in named(130) if n != "expected"]
    assert named(129)[-2:] == ["expected", "time"]
    assert named(80) == ["rank", "jobid", "name", "user", "state", "gpus", "predicted", "time"]
    assert named(80, has_ranks=False, has_forecasts=False)[:3] == ["jobid", "partition", "name"]
    assert named(50) == ["jobid", "name", "state", "gpus", "time"]
    assert named(5) == ["jobid"]
    for width in range(10, 200):
        columns = view.columns_for(width, True, True)
        assert sum(w + 1 for _, w in columns) - 1 <= width


def test_while_slurm_gives_no_answer_the_last_one_stays_with_its_time():
    feed = Feed(look(*JOBS), TryAgainError("squeue gave\nno answer"), look(*JOBS[:1]))
    ends = asyncio.Event()

    async def script(pilot, app):
        await shows(pilot, lambda: app._error)
        shown = lines(app)
        assert shown[1].startswith("no answer since ")
        assert shown[1].endswith("squeue gave\\nno answer")
        assert listed(app) == [1, 2, 3, 4]
        await shows(pilot, lambda: not app._error)
        assert listed(app) == [1]
        assert "no answer" not in lines(app)[1]
        ends.set()

    drive(script, feed, delay_s=0.5)
    assert ends.is_set()


def test_no_key_asks_slurm():
    feed = Feed(look(*JOBS))

    async def script(pilot, app):
        await pilot.press("s", "u", "slash", "x", "escape", "down", "enter", "escape", "p", "p")
        assert feed.calls == 1

    drive(script, feed)


def test_a_pause_lasts_until_it_is_ended():
    feed = Feed(look(*JOBS))

    async def script(pilot, app):
        await shows(pilot, lambda: feed.calls > 2)
        await pilot.press("p")
        assert lines(app)[1].startswith("PAUSED at ")
        quiet, calls = 0, feed.calls

        def is_quiet():
            nonlocal quiet, calls
            quiet = quiet + 1 if calls == feed.calls else 0
            calls = feed.calls
            return quiet > 50

        await shows(pilot, is_quiet)
        await pilot.press("p")
        await shows(pilot, lambda: feed.calls > calls)

    drive(script, feed, delay_s=0.01)


@pytest.mark.parametrize(("key", "code"), [("q", 0), ("ctrl+c", 130)])
def test_it_ends_by_key(key, code):
    stopped = []
    app = TopApp(Feed(look(*JOBS)), 1000, "bob", lambda: stopped.append(True))

    async def run():
        async with app.run_test() as pilot:
            await pilot.press(key)

    asyncio.run(run())
    assert (app.return_value, stopped) == (code, [True])


def test_a_signal_ends_it_as_a_key_does():
    async def script(pilot, app):
        os.kill(os.getpid(), signal.SIGTERM)
        await shows(pilot, lambda: app._exit)

    assert drive(script).return_value == 143


def test_a_fault_of_gsched_ends_it_and_is_kept_for_the_caller():
    app = TopApp(Feed(ZeroDivisionError("by zero")), 1000, "bob")

    async def run():
        async with app.run_test() as pilot:
            await shows(pilot, lambda: app.failure)

    with pytest.raises(Exception, match="by zero"):
        asyncio.run(run())
    assert "by zero" in str(app.failure)


def test_the_note_about_the_daemon_is_shown():
    lines_ = view.header(look(*JOBS, note=NO_DAEMON), "", 5003.0, False)
    assert lines_[1].endswith(f"(3 s ago)   {NO_DAEMON}")
    assert view.header(None, "no way", 0, False) == ["", "no way"]


def test_a_watch_asks_slurm_once_a_look_and_filters(tmp_path, monkeypatch):
    class Slurm:
        calls: list[str] = []  # noqa: RUF012

        def config(self):
            from gsched.slurm.records import SlurmConfig

            self.calls.append("config")
            return SlurmConfig({"ClusterName": "alpha"})

        def queue(self, states, *, with_texts, all_partitions):
            self.calls.append(f"queue {states} {with_texts} {all_partitions}")
            return QueueListing((row(1), row(2, user="bob")), (), {1: FreeText("n", "")})

        def nodes(self):
            self.calls.append("nodes")
            return (node("n1"),)

    monkeypatch.setattr("gsched.app.watch.slurm_client", lambda *_, **__: Slurm())
    watch = QueueWatch(Settings(state_dir=tmp_path), QueueFilter(users=("alice",)))
    for _ in range(2):
        found = watch.look()
        assert [(j.raw_id, j.name) for j in found.queue.jobs] == [(1, "n")]
    look_ = ["queue live True False", "nodes"]
    assert Slurm.calls == ["config", *look_, *look_]


@pytest.mark.parametrize(
    ("environ", "said"),
    [({}, "not all a terminal"), ({"TERM": "dumb"}, "not all a terminal")],
)
def test_without_a_terminal_it_says_what_to_use(gsched, environ, said):
    done = gsched("top", environ=environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "hint: `gsched queue` prints the queue once" in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_a_delay_below_a_second_is_refused(gsched):
    assert gsched("top", "-d", "0.5").returncode == 2


def test_every_fact_of_the_document_is_in_the_details():
    text = "\n".join(view.details(JOBS[3], ""))
    for word in ("RUNNING", "n1", "gone", "alice", "lab1"):
        assert word in text
    assert json.dumps(JOBS[3].document())
