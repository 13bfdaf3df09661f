"""The daemon's model learns from what ends, and falls back when the world changes under it."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest
from support.changing_world import LIMITS_S, USERS, World, mean_of, with_regressions_of
from support.jobs import past_job, view

from gsched.app.watched_model import LATE_S, WatchedModel, words
from gsched.model.job import JobState
from gsched.predict.model import DurationModel
from gsched.predict.store import decode, encode
from gsched.predict.watch_file import read_watch


@pytest.fixture(scope="module")
def stored() -> tuple[World, bytes]:
    """A world of four hundred jobs, and the model that they made."""
    world = World(1).live(400)
    return world, encode(world.fit())


class Site:
    def __init__(self, stored: tuple[World, bytes], folder: Path) -> None:
        world, data = stored
        self.world = World(2)
        self.world.now, self.world.ended = world.now, list(world.ended)
        self.model: DurationModel = decode(data, folder / "model")
        self.file = folder / "drift.json"

    def watched(self, model: DurationModel | None = None) -> WatchedModel:
        return WatchedModel(model or self.model, self.file, self.world.past_jobs, self.world.now)


@pytest.fixture
def site(stored: tuple[World, bytes], tmp_path: Path) -> Site:
    return Site(stored, tmp_path)


# -- drift ---------------------------------------------------------------------------------------


def test_in_a_world_that_stays_the_same_it_does_not_fall_back(site: Site) -> None:
    watched = site.watched()
    assert site.world.watched(site.model, watched, 150) == []
    judged = watched.watch.judgements["gpu"]
    assert judged.off_by["model"] < judged.off_by["rolling"]  # it is worth having
    assert watched.model_id == site.model.info.model_id


def test_when_all_jobs_become_ten_times_longer_it_falls_back_and_a_refit_returns(
    site: Site,
) -> None:
    world, watched = site.world, site.watched()
    world.factors = dict.fromkeys(USERS, 10.0)
    (fall,) = world.watched(site.model, watched, 60)
    assert fall.falls_back
    assert "the rolling estimate predicts jobs with GPUs" in words(fall)
    assert watched.model_id == f"{site.model.info.model_id}+rolling"
    job, _ = world.next_job()
    parts = site.model.parts([job], world.now)
    assert mean_of(watched.predict([job], world.now)[0]) >= parts["rolling"][0]
    assert parts["model"][0] != parts["rolling"][0]  # the model goes on unseen
    world.live(400)
    model = world.fit()
    refitted = site.watched(model)
    assert refitted.model_id == f"{model.info.model_id}+rolling"  # it has to prove itself
    (back,) = world.watched(model, refitted, 60)
    assert not back.falls_back
    assert "the model predicts jobs with GPUs again" in words(back)
    assert refitted.model_id == model.info.model_id


def test_a_bad_regression_is_found_out_and_the_good_one_returns(site: Site) -> None:
    world = site.world
    wrong = World(3)
    wrong.of_limit = dict(zip(LIMITS_S, (6, 1), strict=True))  # it has learnt the contrary
    bad = with_regressions_of(site.model, wrong.live(200).fit())
    watched = site.watched(bad)
    (fall,) = world.watched(bad, watched, 60)
    assert fall.falls_back
    (back,) = world.watched(site.model, site.watched(site.model), 60)
    assert not back.falls_back


def test_a_restart_stays_with_the_rolling_estimate(site: Site) -> None:
    watched = site.watched()
    site.world.factors = dict.fromkeys(USERS, 10.0)
    site.world.watched(site.model, watched, 60)
    again = site.watched()
    assert again.model_id.endswith("+rolling")
    assert again.watch.judgements == watched.watch.judgements
    site.file.write_text("{")
    assert not site.watched().model_id.endswith("+rolling")


def test_a_watch_that_cannot_be_kept_goes_on(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watched = WatchedModel(
        site.model, tmp_path / "file" / "drift.json", site.world.past_jobs, site.world.now
    )
    (tmp_path / "file").write_text("no folder")
    assert site.world.watched(site.model, watched, 2) == []
    assert caplog.text.count("what is known of the model's drift is not kept") == 2
    assert len(watched.watch.windows["gpu"]) == 2


# -- learning ------------------------------------------------------------------------------------


def rolling_s(watched: WatchedModel, user: str, now: int) -> float:
    job = view(999_999, submit=now, user=user, name="sh", time_limit_s=86400)
    return float(watched.model.parts([job], now)["rolling"][0])


def test_what_ends_is_learnt_from_at_once_and_once(site: Site) -> None:
    world, watched = site.world, site.watched()
    end = world.now + 100
    world.ended.append(past_job(5000, 50, end=end, user="new", name="sh"))
    watched.take_in(end + 1, end + 1)
    assert rolling_s(watched, "new", end + 2) == 50
    world.ended.append(past_job(5001, 100, end=end + 50, user="new", name="sh"))
    before = rolling_s(watched, "new", end + 60)
    watched.take_in(end + 60, end + 60)
    after = rolling_s(watched, "new", end + 60)
    assert 50 == before < after < 100
    for later in (61, 62, 30, 63):  # the same jobs are told again, also by a clock set back
        watched.take_in(end + later, end + later)
    assert rolling_s(watched, "new", end + 64) == after


def test_an_end_that_is_told_late_is_learnt_from(site: Site) -> None:
    world, watched = site.world, site.watched()
    now = world.now + 10_000
    watched.take_in(now, now)
    world.ended.append(past_job(5000, 50, end=now - LATE_S + 5, user="late", name="sh"))
    watched.take_in(now + 1, now + 1)
    assert rolling_s(watched, "late", now + 2) == 50


def test_no_pause_loses_a_job(site: Site) -> None:
    world, watched = site.world, site.watched()
    watched.take_in(world.now, world.now)
    end = world.now + 3600
    world.ended.append(past_job(5000, 50, end=end, user="new", name="sh"))
    later = world.now + 10 * 86400  # Slurm or the daemon's host was away
    watched.take_in(later, later)
    assert rolling_s(watched, "new", end + 1) == 50


def test_what_ended_while_accounting_was_away_is_learnt_from(site: Site) -> None:
    world, watched = site.world, site.watched()
    began = world.now
    watched.take_in(began, began)
    for away_s in range(60, 901, 60):  # longer than the end of a job is looked for
        watched.take_in(began + away_s, began)
    world.ended.append(past_job(5000, 50, end=began + 30, user="new", name="sh"))
    watched.take_in(began + 930, began + 930)
    assert rolling_s(watched, "new", began + 931) == 50


def test_what_is_told_after_a_start_without_accounting_is_learnt_from(site: Site) -> None:
    world = site.world
    world.now += 3600
    watched = site.watched()
    watched.take_in(world.now, None)
    world.ended.append(past_job(5000, 50, end=world.now - 3000, user="new", name="sh"))
    watched.take_in(world.now + 30, world.now + 30)
    assert rolling_s(watched, "new", world.now + 31) == 50


def test_a_fit_while_accounting_is_away_loses_no_job(site: Site) -> None:
    world = site.world
    world.now += 3600
    refitted = site.watched(world.fit())  # of what ended an hour ago and before
    ended = past_job(5000, 50, end=world.now - 3000, user="new", name="sh")
    refitted.take_in(world.now, world.now - 3600)
    world.ended.append(ended)
    refitted.take_in(world.now + 30, world.now + 30)
    assert rolling_s(refitted, "new", world.now + 31) == 50
    world.ended.append(replace(ended, job_id=5001, user="late"))  # told just before it is loaded
    again = site.watched(decode(encode(refitted.model), site.file.with_name("m")))
    assert rolling_s(again, "late", world.now + 31) == 50


def test_a_clock_that_is_set_back_an_hour_teaches_nothing_twice(site: Site) -> None:
    world, watched = site.world, site.watched()
    end = world.now + 100
    for number, duration_s in enumerate((50, 100)):
        ended = past_job(5000 + number, duration_s, end=end + number, user="new", name="sh")
        world.ended.append(ended)
    watched.take_in(end + 60, end + 60)
    watched.take_in(end + 3600, end + 3600)
    taught = rolling_s(watched, "new", end + 3600)
    for later in (60, 90, 120):
        watched.take_in(end + later, end + later)
    assert rolling_s(watched, "new", end + 3600) == taught


def test_after_a_start_it_knows_what_ended_since_the_fit(site: Site) -> None:
    world = site.world
    as_of = site.model.info.as_of
    world.ended += [
        past_job(5000, 50, end=as_of, user="new", name="sh"),
        past_job(5001, 7000, end=as_of + 1, user="new", name="sh", state=JobState.NODE_FAIL),
        past_job(5002, 5000, end=as_of - 1, user="seen", name="sh"),
    ]
    watched = WatchedModel(site.model, site.file, world.past_jobs, as_of + 86400)
    assert rolling_s(watched, "new", as_of + 86400) == 50  # what the cluster ended says nothing
    others = rolling_s(watched, "nobody", as_of + 86400)
    assert rolling_s(watched, "seen", as_of + 86400) == others  # the fit had its jobs
    before = rolling_s(watched, "new", as_of + 86401)
    watched.take_in(as_of + 86401, as_of + 86401)
    assert rolling_s(watched, "new", as_of + 86401) == before


def test_only_what_may_be_new_is_asked_for(site: Site) -> None:
    world, watched = site.world, site.watched()
    now = world.now + 10_000
    watched.take_in(now, now)
    world.asked.clear()
    watched.take_in(now + 30, now + 30)
    assert world.asked == [(now - LATE_S, now + 31)]


def test_a_job_that_was_never_seen_says_nothing_of_the_model(site: Site) -> None:
    watched = site.watched()
    site.world.live(5)
    watched.take_in(site.world.now, site.world.now)
    assert watched.watch.windows == {}


def test_the_watch_is_kept_for_the_next_start(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    watched = site.watched()
    site.world.watched(site.model, watched, 3)
    kept = read_watch(site.file, site.model.info.model_id)
    assert kept.windows == watched.watch.windows
    assert (site.file.stat().st_mode & 0o777) == 0o640  # it holds names of jobs
    assert caplog.text == ""
