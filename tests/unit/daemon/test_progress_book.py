"""What jobs have behind and before them, on the views that a policy with deadlines gets."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from support.heartbeats import record, tell
from support.jobs import T0, snapshot, view

from gsched.daemon.heartbeat_sweep import Asked, HeartbeatSweep
from gsched.daemon.progress_book import ProgressBook
from gsched.errors import UnavailableError
from gsched.model.job import Allocation, CountRange, JobState, PredictionKind, Wants
from gsched.policy.remaining import remaining

NOW = T0 + 1000


def runs(job_id=7, gpus=2, restarts=0, start=T0 + 400, **options):
    job = view(job_id, gpus=gpus, duration_s=3600.0, **options)
    return replace(
        job,
        state=JobState.RUNNING,
        allocation=Allocation(("n1",), (gpus,), start),
        restarts=restarts,
    )


def waits_again(job_id=7, restarts=1):
    return replace(view(job_id, gpus=2), restarts=restarts, attempt=T0 + 900)


def beat(**facts):
    usual = {
        "started_time": T0 + 410.0, "written_time": NOW - 1.0, "step_time": NOW - 1.0, "pace_s": 1.0
    }  # fmt: skip
    return record(**(usual | facts))


class Book:
    """A book over a folder of this user's heartbeats. `ran` are seconds of earlier attempts."""

    def __init__(self, folder=Path("/nowhere"), ran=None, wait_s=60.0, number_of=None):
        self.ran = ran or {}
        self.asked = []
        self.folder = str(folder)
        self.now = float(NOW)
        self.profiles = True
        number_of = number_of or (lambda name: os.getuid() if name == "ann" else None)
        sweep = HeartbeatSweep(number_of, lambda: self.now, wait_s)
        self.book = ProgressBook(sweep, self._before)

    def _before(self, present):
        self.asked.append(dict(present))
        if isinstance(self.ran, Exception):
            raise self.ran
        return {key: self.ran[key.slurm_id] for key in present if key.slurm_id in self.ran}

    def fill(self, *views, at=NOW):
        self.now = float(at)
        state = replace(snapshot(views), as_of=at)
        return self.book.fill(state, self.folder, goes_by_profiles=self.profiles)


def test_a_running_job_has_its_speed_and_what_is_left_beside_its_predicted_duration(tmp_path):
    tell(tmp_path, beat())
    quiet = runs(8)
    state = Book(tmp_path).fill(runs(), quiet)
    told = state.jobs.view(runs().key)
    kinds = [p.kind for p in told.predictions]
    assert kinds == [PredictionKind.DURATION, PredictionKind.SPEED, PredictionKind.ITERATIONS]
    assert told.prediction(PredictionKind.ITERATIONS).mean == 600
    assert told.progress.iterations_done == 400
    assert state.jobs.view(quiet.key) is quiet
    assert state.jobs.predicted_duration_s.tolist() == [3600.0, 3600.0]


def test_names_of_files_are_those_that_jobs_give_themselves(tmp_path):
    tell(tmp_path, beat(job="9_3"))
    tell(tmp_path, beat(job="12"))
    task = runs(9, array_task=3)
    part = replace(runs(10), key=replace(runs(10).key, het_offset=2))
    unsplit = replace(
        runs(12), state=JobState.PENDING, allocation=None, restarts=1, waiting_tasks=5
    )
    state = Book(tmp_path).fill(task, part, unsplit)
    told = {v.key.slurm_id: v.progress is not None for v in state.jobs.views}
    assert told == {"9_3": True, "10+2": True, "12": False}


def test_a_file_of_another_user_or_a_damaged_one_tells_nothing(tmp_path):
    tell(tmp_path, beat())
    foreign = runs(user="bob")
    state = Book(tmp_path).fill(foreign)
    assert state.jobs.view(foreign.key) is foreign
    path = tell(tmp_path, beat())
    path.write_bytes(b"\xff" * 9000)
    assert Book(tmp_path).fill(runs()).jobs.views[0].progress is None
    path.unlink()
    path.symlink_to("/etc/passwd")
    assert Book(tmp_path).fill(runs()).jobs.views[0].progress is None


def test_without_a_folder_nobody_is_asked(tmp_path):
    tell(tmp_path, beat())
    book = Book("")
    given = snapshot([runs()])
    assert book.book.fill(given, "") is given


def test_a_folder_that_hangs_does_not_stop_the_rounds(tmp_path):
    """The first round waits for a moment and knows nothing; later ones do not wait, and no other
    thread begins; when it answers again all is known."""
    tell(tmp_path, beat())
    goes_on, entered = threading.Event(), []

    def number_of(_name):
        entered.append(threading.get_ident())
        assert goes_on.wait(60)
        return os.getuid()

    book = Book(tmp_path, wait_s=0.01, number_of=number_of)
    for _ in range(5):
        assert book.fill(runs()).jobs.views[0].progress is None
    assert len(entered) == 1
    goes_on.set()
    book.book._sweep._thread.join(60)
    assert book.fill(runs()).jobs.views[0].progress is not None


def test_what_was_read_before_is_gone_on_with_while_a_sweep_is_under_way(tmp_path):
    tell(tmp_path, beat())
    hangs, goes_on = [], threading.Event()

    def number_of(_name):
        if hangs:
            assert goes_on.wait(60)
        return os.getuid()

    book = Book(tmp_path, wait_s=60, number_of=number_of)
    assert book.fill(runs()).jobs.views[0].progress is not None
    hangs.append(True)
    book.book._sweep._wait_s = 0.01
    assert book.fill(runs(), at=NOW + 5).jobs.views[0].progress is not None
    # but not for ever: it has become too old to say anything of a job that runs
    assert book.fill(runs(), at=NOW + 500).jobs.views[0].progress is None
    goes_on.set()
    book.book._sweep._thread.join(60)


def test_many_heartbeats_are_one_sweep(tmp_path):
    views = []
    for job_id in range(1, 1001):
        tell(tmp_path, beat(job=str(job_id)))
        views.append(runs(job_id))
    book = Book(tmp_path)
    state = book.fill(*views)
    assert sum(v.progress is not None for v in state.jobs.views) == 1000
    again = book.fill(*views)
    assert all(a is b for a, b in zip(state.jobs.views, again.jobs.views, strict=True))


def test_a_requeued_job_has_the_gpu_time_of_its_attempts_before(tmp_path):
    book = Book(tmp_path, {"7": 300, "8": 500})
    waits = waits_again(7)
    again = replace(runs(8, restarts=1), attempt=T0 + 350)
    first = runs(9)
    state = book.fill(waits, again, first)
    assert [v.attained_gpu_s for v in state.jobs.views] == [600.0, 2 * (500 + 600.0), None]
    assert state.jobs.attained_gpu_s.tolist()[:2] == [600.0, 2200.0]
    assert book.asked == [{waits.key: T0 + 900, again.key: T0 + 350}]


def test_the_history_is_asked_again_for_a_while_as_it_learns_late(tmp_path):
    book = Book(tmp_path, {})
    for after_s in range(0, 2000, 10):
        if after_s == 130:
            book.ran = {"7": 300}
        state = book.fill(waits_again(), at=NOW + after_s)
        known = state.jobs.views[0].attained_gpu_s
        assert known == (600.0 if after_s >= 180 else None)
    assert len(book.asked) == 11


def test_a_history_that_does_not_answer_is_told_once_and_stops_nothing(tmp_path, caplog):
    book = Book(tmp_path, UnavailableError("the database does not answer"))
    for after_s in (0, 100, 200):
        assert book.fill(waits_again(), at=NOW + after_s).jobs.views[0].attained_gpu_s is None
    assert caplog.text.count("the database does not answer") == 1


def test_a_contradiction_is_told_once_and_ends_with_the_job(tmp_path, caplog):
    book = Book(tmp_path)
    tell(tmp_path, beat())
    book.fill(runs())
    tell(tmp_path, beat(step=900_000, total_steps=10**6, written_time=NOW + 60.0, seq=1))
    for after_s in (61, 62, 90):
        assert book.fill(runs(), at=NOW + after_s).jobs.views[0].progress is None
    assert caplog.text.count("job 7 is not believed: ") == 1
    book.fill()
    assert not book.book._watches
    assert not book.book._doubts


@pytest.mark.parametrize("many", [1, 9])
def test_what_restarts_cost_is_no_single_users_word(tmp_path, many):
    """A user with many jobs that claim a huge cost counts as one."""
    costs = {"ann": 40.0, "eve": 60.0, "mallory": 1500.0}
    views = []
    for user, cost_s in costs.items():
        for number in range(many if user == "mallory" else 1):
            job_id = 100 * len(views) + number + 1
            views.append(runs(job_id, restarts=1, user=user))
            tell(
                tmp_path,
                beat(
                    job=str(job_id), restart=1, step=1, started_time=T0 + 400 + cost_s,
                    step_time=T0 + 401.0 + cost_s, written_time=T0 + 1950.0,
                ),
            )  # fmt: skip
    book = Book(tmp_path, number_of=lambda _name: os.getuid())
    assert book.book.restart_s is None
    book.fill(*views, at=T0 + 1960)
    assert book.book.restart_s == pytest.approx(60, abs=1)


def test_who_is_asked_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("gsched.daemon.heartbeat_sweep.MOST_JOBS", 1)
    for job in ("7", "8"):
        tell(tmp_path, beat(job=job))
    asked = [Asked(runs(n).key, str(n), "ann") for n in (7, 8)]
    read = HeartbeatSweep(lambda _: os.getuid(), wait_s=60).read(str(tmp_path), asked)
    assert [key.job_id for key in read] == [7]


# -- profile runs ----------------------------------------------------------------------------------


def unseen(profiles=(21,), nodes=1):
    job = replace(view(30, gpus=8, time_limit_s=86400), wants=Wants(profiles=profiles))
    return replace(job, request=replace(job.request, nodes=CountRange(nodes, nodes)))


def profile(job, step_s=0.5, total=7200, world=8, **facts):
    usual = {
        "job": str(job), "started_time": T0 + 500.0, "step_time": T0 + 800.0,
        "written_time": T0 + 800.0, "ended_time": T0 + 800.0, "step": 300, "total_steps": total,
        "iteration_s": step_s, "pace_s": 2 * step_s, "world_size": world,
    }  # fmt: skip
    return record(**(usual | facts))


def predicted(book, *views, at=NOW):
    found = book.fill(*views, at=at).jobs.view(unseen().key)
    told = {p.kind: p.mean for p in found.predictions}
    return told.get(PredictionKind.SPEED), told.get(PredictionKind.ITERATIONS), found.awaits_profile


def test_the_profile_run_of_a_job_that_nobody_has_seen_speaks_for_it(tmp_path):
    tell(tmp_path, profile(21))
    assert predicted(Book(tmp_path), unseen()) == (2.0, 7200, False)


def test_it_is_waited_for_while_it_is_in_the_queue_and_shortly_after(tmp_path):
    book = Book(tmp_path)
    waits = replace(view(21), name="gs-profile")
    assert predicted(book, unseen(), waits) == (None, None, True)
    tell(tmp_path, profile(21, ended_time=None))
    assert predicted(book, unseen(), runs(21, start=T0 + 400)) == (None, None, True)
    assert predicted(book, unseen()) == (2.0, 7200, False)
    empty = Book(tmp_path / "elsewhere")  # it has left the queue, and told nothing
    assert predicted(empty, unseen(), at=NOW) == (None, None, True)
    assert predicted(empty, unseen(), at=NOW + 59) == (None, None, True)
    assert predicted(empty, unseen(), at=NOW + 60) == (None, None, False)
    # somebody else's job of that number is not waited for
    stranger = replace(waits, user="bob")
    fresh = Book(tmp_path)
    assert predicted(fresh, unseen(), stranger) == (2.0, 7200, False)


def test_one_node_and_two_speak_for_many(tmp_path):
    """t_n = t_1 + log2(n)·(t_2 − t_1): 0.5 and 0.6 s make 0.8 s on eight nodes."""
    tell(tmp_path, profile(21, 0.5))
    tell(tmp_path, profile(22, 0.6, world=16))
    rate, left, _ = predicted(Book(tmp_path), unseen((21, 22), nodes=8))
    assert 1 / rate == pytest.approx(0.8)
    assert left == 7200
    # where two nodes need half as many steps of the same data, eight need an eighth
    tell(tmp_path, profile(22, 0.6, total=3600, world=16, seq=1))
    rate, left, _ = predicted(Book(tmp_path), unseen((21, 22), nodes=8))
    assert left == 900


@pytest.mark.parametrize(
    "facts",
    [
        {"step": 2},  # no profile yet
        {"total_steps": None},
        {"iteration_s": None, "pace_s": None},
        {"step": 9000, "first_step": 0, "total_steps": 10_000},  # 4500 s within 300
        {"started_time": T0 - 8 * 86400.0, "step_time": T0 - 8 * 86400.0 + 300},
        {"step_time": NOW + 2000.0, "written_time": NOW + 2000.0},
    ],
)
def test_a_profile_run_that_has_told_too_little_or_too_much_says_nothing(tmp_path, facts):
    tell(tmp_path, profile(21, **facts))
    book = Book(tmp_path)
    assert predicted(book, unseen()) == (None, None, True)
    assert predicted(book, unseen(), at=NOW + 60) == (None, None, False)


def test_two_runs_that_are_not_one_node_and_two_say_nothing(tmp_path):
    tell(tmp_path, profile(21))
    tell(tmp_path, profile(22, world=8))
    assert predicted(Book(tmp_path), unseen((21, 22), nodes=8))[:2] == (None, None)
    assert predicted(Book(tmp_path), unseen((21, 99), nodes=8))[:2] == (None, None)


def test_what_a_job_tells_itself_goes_before_its_profile(tmp_path):
    tell(tmp_path, profile(21))
    tell(tmp_path, beat(job="30", step=400, total_steps=1000, committed_step=400))
    again = replace(unseen(), restarts=1, attempt=T0 + 900)
    rate, left, awaits = predicted(Book(tmp_path), again)
    assert (rate, left, awaits) == (1.0, 600, False)
    found = Book(tmp_path).fill(again).jobs.view(again.key)
    assert {p.source for p in found.predictions} == {"heartbeat"}  # what it did is not in a profile


def test_nothing_is_asked_of_the_owner_of_another_job(tmp_path):
    """The numbers in a request lead to files of the requester's own folder alone."""
    tell(tmp_path, profile(21))
    book = Book(tmp_path)
    foreign = replace(unseen(), user="bob")
    assert predicted(book, foreign, at=NOW + 60) == (None, None, True)
    assert predicted(book, foreign, at=NOW + 120) == (None, None, False)


def test_a_site_that_does_not_go_by_profile_runs_neither_reads_nor_awaits_them(tmp_path):
    tell(tmp_path, profile(21))
    book = Book(tmp_path)
    book.profiles = False
    job = unseen()
    assert book.fill(job, replace(view(21))).jobs.view(job.key) is job


def test_the_profile_holds_while_the_job_itself_has_not_come_far(tmp_path):
    """A target that runs has its profile until its own heartbeats come, and both from then on:
    its own word makes it no shorter in the eyes of others, and counts for its own plan.
    """
    tell(tmp_path, profile(21))
    book = Book(tmp_path)
    job = runs(30, gpus=8, start=NOW - 100, time_limit_s=86400)
    job = replace(job, wants=Wants(profiles=(21,)), predictions=())
    loads = book.fill(job).jobs.view(job.key)
    assert remaining(loads, NOW).source == "profile"
    assert remaining(loads, NOW).mean_s == pytest.approx(3500)
    tell(tmp_path, beat(job="30", step=100, total_steps=7200, pace_s=0.25, started_time=NOW - 90.0))
    told = book.fill(job).jobs.view(job.key)
    assert remaining(told, NOW).mean_s == pytest.approx(3500)
    own = remaining(told, NOW, may_lower=True)
    assert (own.source, own.mean_s) == ("heartbeat", pytest.approx(1775, abs=1))


def test_profile_runs_are_read_once_and_not_again(tmp_path, monkeypatch):
    """Also where they said nothing: a user with ten thousand requests has not so many files read
    in each round.
    """
    tell(tmp_path, profile(21))
    asked = []
    read = HeartbeatSweep.read

    def noted(self, folder, jobs):
        asked.append(sorted(job.file_job for job in jobs))
        return read(self, folder, jobs)

    monkeypatch.setattr(HeartbeatSweep, "read", noted)
    book = Book(tmp_path)
    nothing = replace(unseen((99,)), key=replace(unseen().key, job_id=31))
    for at in (NOW, NOW + 30, NOW + 60, NOW + 90):
        found = book.fill(unseen(), nothing, at=at)
        assert len(found.jobs.view(unseen().key).predictions) == 2
    assert asked == [["21", "99"], ["99"], ["99"], []]
    # another request is asked for anew
    other = replace(unseen((21,)), key=nothing.key)
    assert len(book.fill(other, at=NOW + 100).jobs.view(other.key).predictions) == 2
