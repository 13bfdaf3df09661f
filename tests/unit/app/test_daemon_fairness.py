"""The ledger in the daemon: what it notes, closes and seeds, and that kill -9 loses none of it."""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.history import CLUSTER, attempt, batch, running
from support.rounds import JOBS, backend_with, runner_for

from gsched.app.daemon_fairness import ACTIVE_S, QUOTAS_INTERVAL_S, FairnessUpkeep
from gsched.app.fairness.received import received_gpu_s
from gsched.app.fairness.site import site_facts
from gsched.config.settings import DaemonSettings, FairnessSettings, Settings
from gsched.engine.faults import FAIRNESS_POINTS, FaultPoint, no_faults
from gsched.engine.memory_journal import MemoryJournal
from gsched.errors import LostLeadershipError, TryAgainError
from gsched.model.accounts import FairnessEntry, QuotaChange, SiteQuotas
from gsched.model.job import UNLIMITED_S
from gsched.model.phases import NO_RULES
from gsched.policy.registry import SiteFacts, load
from gsched.slurm.records import SlurmConfig
from gsched_sql import History, maintenance

HOUR_S = 3600
T0 = 1000 * HOUR_S
QUOTAS = {"lab1": 4.0, "lab2": 2.0}


class Cluster:
    """What `quotas_of` asks of a Slurm without accounts."""

    def __init__(self) -> None:
        self.asked = 0
        self.error: Exception | None = None

    def nodes(self) -> Any:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return (SimpleNamespace(gpus=(("a100", 8),)),)

    def config(self) -> SlurmConfig:
        return SlurmConfig({"ClusterName": CLUSTER, "AccountingStorageType": "(null)"})


def settings_of(quotas: dict[str, float], **more: Any) -> Settings:
    return Settings(fairness=FairnessSettings(quotas=quotas, **more))


@dataclass
class Site:
    """A daemon's part, its history and its clock."""

    history: History
    settings: Settings = field(default_factory=lambda: settings_of(QUOTAS))
    cluster: Cluster = field(default_factory=Cluster)
    now: int = T0
    fence: int | None = None
    told: list[Any] = field(default_factory=list)

    def begin(self, on_point: Callable[[FaultPoint], None] = no_faults) -> FairnessUpkeep:
        client: Any = self.cluster
        upkeep = FairnessUpkeep(
            self.settings, client, self.history, CLUSTER, self.fence, lambda: self.now, on_point
        )
        upkeep.on_quotas = self.told.append
        return upkeep

    def quotas(self) -> list[tuple[int, str, float]]:
        changes = self.history.fairness().quotas(CLUSTER)
        return [(c.since_time, c.tenant, c.gpus) for c in changes]

    def hours(self) -> list[FairnessEntry]:
        return self.history.fairness().read(CLUSTER, 0, 2**40)


@pytest.fixture
def path(sqlite_template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(sqlite_template, tmp_path / "history.db"))


@pytest.fixture
def site(path: Path):
    with History.open(f"sqlite:///{path}") as history:
        yield Site(history)


def test_quotas_are_asked_for_now_and_then_and_kept_when_they_change(site: Site) -> None:
    upkeep = site.begin()
    for seconds in (0, 1, QUOTAS_INTERVAL_S - 1):
        site.now = T0 + seconds
        upkeep.note_quotas()
    assert (site.cluster.asked, site.told) == (1, [])
    site.now = T0 + QUOTAS_INTERVAL_S
    upkeep.note_quotas()
    assert site.cluster.asked == 2
    assert site.quotas() == [(T0, "lab1", 4.0), (T0, "lab2", 2.0)]
    upkeep.configure(settings_of({"lab1": 3.0, "lab2": 2.0}))
    site.now += 1
    upkeep.note_quotas()
    assert [quotas.gpus for quotas in site.told] == [{"lab1": 3.0, "lab2": 2.0}]
    assert site.quotas()[2:] == [(site.now, "lab1", 3.0)]


def test_a_daemon_that_begins_again_notes_what_has_changed_meanwhile(site: Site) -> None:
    site.begin().note_quotas()
    site.now, site.settings = T0 + 90_000, settings_of({"lab2": 2.0}, gpu_weights={"a100": 2.0})
    site.begin().note_quotas()
    assert site.quotas()[2:] == [(site.now, "lab1", 0.0)]
    assert [w.weight for w in site.history.fairness().weights(CLUSTER)] == [2.0]
    assert site.told == []  # its policy was made by these


def test_quotas_noted_last_give_way_to_those_that_slurm_tells(site: Site) -> None:
    """The daemon begins while Slurm does not answer: its policy goes by what was noted."""
    noted = SiteQuotas({"lab1": 8.0}, 8.0, "settings", {"a100": 2.0})
    site.history.fairness().note(CLUSTER, T0 - 5, noted)
    site.settings = replace(site.settings, daemon=DaemonSettings(policy="ltgf"))
    site.cluster.error = TryAgainError("slurmctld is away")
    facts = site_facts(site.settings, site.cluster, site.history, CLUSTER)  # type: ignore[arg-type]
    assert (facts.quotas, facts.gpu_weights) == (noted.gpus, noted.gpu_weights)
    upkeep = site.begin()
    upkeep.decides_by = facts
    site.cluster.error = None
    for n in range(2):
        site.now = T0 + n * QUOTAS_INTERVAL_S
        upkeep.note_quotas()
    assert [quotas.gpus for quotas in site.told] == [QUOTAS]  # once
    assert upkeep.decides_by == SiteFacts(QUOTAS, {})


def test_quotas_by_which_the_policy_was_made_are_no_news(site: Site) -> None:
    upkeep = site.begin()
    upkeep.decides_by = SiteFacts(QUOTAS, {})
    upkeep.note_quotas()
    assert site.told == []


def test_a_clock_that_goes_back_asks_again(site: Site) -> None:
    upkeep = site.begin()
    site.now = T0 + 9999
    upkeep.note_quotas()
    site.now = T0
    upkeep.note_quotas()
    both = [("lab1", 4.0), ("lab2", 2.0)]
    assert site.quotas() == [(at, *one) for at in (T0, T0 + 9999) for one in both]


def test_where_nobody_names_quotas_those_who_asked_lately_have_equal_ones(site: Site) -> None:
    old = T0 - ACTIVE_S - 1
    told = [
        attempt(1, old - 200, tenant="gone"),
        attempt(2, old - 200, end_time=T0 - 5, tenant="lab1"),
        running(3, T0 - 100, tenant="lab2"),
    ]
    site.history.ingest(batch(*told), source_key=None)
    site.settings = settings_of({})
    upkeep = site.begin()
    upkeep.note_quotas()
    assert site.history.fairness().quotas(CLUSTER) == [
        QuotaChange("lab1", T0, 4.0, "equal"),
        QuotaChange("lab2", T0, 4.0, "equal"),
    ]
    site.history.ingest(batch(running(4, T0, tenant="lab3")), source_key=None)
    site.now += QUOTAS_INTERVAL_S
    upkeep.note_quotas()
    assert [gpus for _, _, gpus in site.quotas()[2:]] == [8 / 3] * 3
    assert site.told == []  # the site says the same as before


def test_an_account_that_the_settings_forget_is_named(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.history.ingest(
        batch(attempt(1, T0 - 10, tenant="Lab1"), attempt(2, T0 - 10, tenant="lab2")),
        source_key=None,
    )
    upkeep = site.begin()
    upkeep.note_quotas()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.message.endswith("which come last (1 accounts): 'Lab1'")
    site.now += QUOTAS_INTERVAL_S
    upkeep.note_quotas()
    assert len(caplog.records) == 1  # told once


def test_slurm_that_does_not_answer_is_asked_again_later_and_no_hour_is_lost(site: Site) -> None:
    one = running(1, T0, start_time=T0, time_limit_s=UNLIMITED_S)
    site.history.ingest(batch(one), source_key=None)
    site.cluster.error = TryAgainError("slurmctld is away")
    upkeep = site.begin()
    with pytest.raises(TryAgainError):
        upkeep.note_quotas()
    upkeep.note_quotas()
    upkeep.close_hours(T0 + 2 * HOUR_S)
    assert (site.cluster.asked, site.hours()) == (1, [])
    site.cluster.error = None
    site.now += QUOTAS_INTERVAL_S
    upkeep.note_quotas()
    upkeep.close_hours(T0 + 2 * HOUR_S)
    received = [entry.received_gpu_s for entry in site.hours() if entry.tenant == "lab1"]
    assert received == [7200.0, 7200.0]


def test_an_hour_is_closed_once_all_of_it_is_told(site: Site) -> None:
    passed: list[FaultPoint] = []
    one = running(1, T0, start_time=T0, time_limit_s=UNLIMITED_S)
    site.history.ingest(batch(one), source_key=None)
    upkeep = site.begin(passed.append)
    upkeep.note_quotas()
    upkeep.close_hours(None)  # nothing is known to be told
    assert passed == [FaultPoint.FAIRNESS_NOTED]
    for told_until in (T0 + HOUR_S, T0 + HOUR_S + 60, T0 + 2 * HOUR_S - 1, T0 + 2 * HOUR_S):
        upkeep.close_hours(told_until)
    assert passed[1:] == [FaultPoint.FAIRNESS_CLOSED] * 2
    assert {entry.begin_time for entry in site.hours()} == {T0, T0 + HOUR_S}
    assert upkeep.standing["until"] == T0 + 2 * HOUR_S


def test_a_daemon_that_was_away_closes_what_it_missed(site: Site, monkeypatch) -> None:
    monkeypatch.setattr("gsched.app.daemon_fairness.MOST_HOURS", 30)
    monkeypatch.setattr("gsched.app.fairness.hours.MOST_HOURS", 30)
    site.begin().note_quotas()
    told = [attempt(n + 1, T0 + n * HOUR_S, start_time=T0 + n * HOUR_S) for n in range(100)]
    site.history.ingest(batch(*told), source_key=None)
    upkeep = site.begin()
    upkeep.note_quotas()
    for _ in range(30):
        upkeep.close_hours(T0 + 100 * HOUR_S + 5)
    received = [entry.received_gpu_s for entry in site.hours() if entry.tenant == "lab1"]
    assert received == [220.0] * 100


def test_who_no_longer_leads_writes_nothing(site: Site) -> None:
    leadership = site.history.leadership(CLUSTER)
    site.fence = leadership.take("h1", "m1", os.getpid(), 60, T0)
    upkeep = site.begin()
    upkeep.note_quotas()
    leadership.release(site.fence, T0 + 1)
    leadership.take("h2", "m1", os.getpid(), 60, T0 + 2)
    site.history.ingest(batch(attempt(1, T0)), source_key=None)
    with pytest.raises(LostLeadershipError):
        upkeep.close_hours(T0 + HOUR_S)
    upkeep.configure(settings_of({"lab1": 1.0}))
    with pytest.raises(LostLeadershipError):
        upkeep.note_quotas()
    assert (site.hours(), len(site.quotas())) == ([], 2)


WEEK_S = 7 * 86400


def test_a_policy_begins_with_what_the_history_tells(site: Site) -> None:
    """It decided nothing for a week, or another policy did."""
    now = T0 + 2 * WEEK_S
    held = attempt(1, T0, start_time=now - WEEK_S - 3600, end_time=now - WEEK_S)
    still = running(2, T0, tenant="lab2", start_time=now - 1800, time_limit_s=UNLIMITED_S)
    site.history.ingest(batch(held, still), source_key=None)
    upkeep, policy = site.begin(), load("ltgf")
    told = {"version": 1, "as_of": T0, "received_gpu_s": {"lab9": 77.0}, "entitled": {"1@5": [1]}}
    asked = iter([False, True])
    assert upkeep.seed(policy, told, now, lambda: next(asked)) is told
    seeded = upkeep.seed(policy, told, now, lambda: next(asked))
    assert seeded["received_gpu_s"] == pytest.approx({"lab1": 3600.0, "lab2": 3600.0}, rel=0.01)
    assert {name: seeded[name] for name in ("as_of", "received_as_of", "entitled")} == {
        "as_of": T0,
        "received_as_of": now,
        "entitled": {"1@5": [1]},
    }
    kept = {**seeded, "as_of": now + 30}
    assert upkeep.seed(policy, kept, now, lambda: next(asked)) is kept  # once
    assert upkeep.seed(policy, told, now, lambda: next(asked)) is told  # it was kept, whatever came
    faster = load("ltgf", half_life_s=86400.0)
    seeded = upkeep.seed(faster, told, now, lambda: True)
    assert seeded["received_gpu_s"]["lab1"] == pytest.approx(7200 / 2**7, rel=0.02)
    fifo = load("fifo")
    assert upkeep.seed(fifo, {"a": 1}, now, lambda: True) == {"a": 1}


def test_a_round_that_fails_before_its_memory_is_kept_does_not_lose_the_past(site: Site) -> None:
    """slurmctld goes away in the midst, or the journal is locked."""
    held = attempt(1, T0, start_time=T0, end_time=T0 + 3600)
    site.history.ingest(batch(held), source_key=None)
    upkeep, policy = site.begin(), load("ltgf")
    for memory in ({}, {"version": 1, "as_of": T0, "received_gpu_s": {"lab1": 0.0}}):
        upkeep = site.begin()
        for _ in range(3):
            told: Any = upkeep.seed(policy, dict(memory), T0 + 3600, lambda: True)
            assert told["received_gpu_s"]["lab1"] == pytest.approx(7200, rel=0.01)
    fifo, untold = load("fifo"), {"a": 1}
    assert upkeep.seed(fifo, untold, T0, lambda: True) is untold
    assert upkeep.seed(fifo, untold, T0, lambda: pytest.fail("asked again")) is untold


def test_the_past_is_kept_by_the_first_round_that_ends(site: Site) -> None:
    held = attempt(1, T0, start_time=T0, end_time=T0 + 3600)
    site.history.ingest(batch(held), source_key=None)
    upkeep, backend, journal = site.begin(), backend_with(JOBS), MemoryJournal()
    runner = runner_for(
        backend, JOBS, journal, policy=load("ltgf"),
        seed=lambda policy, memory, _: upkeep.seed(policy, memory, T0 + 3600, lambda: True),
    )  # fmt: skip
    plan, answers = backend.plan, iter([False, True, True])

    def planned(*of: Any) -> Any:
        if not next(answers):
            raise TryAgainError("slurmctld is away")
        return plan(*of)

    backend.plan = planned  # type: ignore[method-assign]
    with pytest.raises(TryAgainError):
        runner.run(acting=False)
    assert journal.memory(backend.cluster, "ltgf") == {}
    for _ in range(2):
        runner.run(acting=False)
        kept: Any = journal.memory(backend.cluster, "ltgf")
        assert kept["received_gpu_s"]["lab1"] == pytest.approx(7200, rel=0.01)
        assert "received_as_of" not in kept


def test_a_history_that_cannot_be_read_leaves_the_memory_as_it_is(site: Site, caplog) -> None:
    upkeep, policy = site.begin(), load("ltgf")
    memory: dict[str, Any] = {}
    history: Any = SimpleNamespace(fairness=lambda: Broken())
    upkeep._history = history
    with caplog.at_level(logging.WARNING, "gsched.daemon"):
        for _ in range(2):
            assert upkeep.seed(policy, memory, T0, lambda: True) is memory
    assert caplog.messages == ["what tenants have received is not known: locked"]


class Broken:
    """A ledger of a database that is locked."""

    def pruned_before(self, _cluster: str) -> None:
        raise TryAgainError("locked")


def test_what_was_received_is_known_after_a_prune_as_well(site: Site, path: Path) -> None:
    told = [attempt(n + 1, T0 + n * 900, start_time=T0 + n * 900 + 5) for n in range(40)]
    site.history.ingest(batch(*told), source_key=None)
    upkeep = site.begin()
    upkeep.note_quotas()
    upkeep.close_hours(T0 + 10 * HOUR_S)
    at = T0 + 10 * HOUR_S + 700
    before = received_gpu_s(site.history, CLUSTER, at, WEEK_S, by_worth=True)
    maintenance.prune(f"sqlite:///{path}", T0 + 5 * HOUR_S + 1000)
    after = received_gpu_s(site.history, CLUSTER, at, WEEK_S, by_worth=True)
    assert after == pytest.approx(before, rel=1e-3)
    assert before["lab1"] == pytest.approx(40 * 2 * 105, rel=0.1)


def test_a_job_that_outlives_a_prune_is_not_received_twice(site: Site, path: Path) -> None:
    """Its hours before the prune are in the ledger, and its attempt in the history."""
    end = T0 + 8 * HOUR_S
    told = [attempt(1, T0, start_time=T0, end_time=end)]
    told += [attempt(n + 2, T0, start_time=T0 + n * HOUR_S, tenant="lab2") for n in range(8)]
    site.history.ingest(batch(*told), source_key=None)
    upkeep = site.begin()
    upkeep.note_quotas()
    upkeep.close_hours(T0 + 9 * HOUR_S)
    before = received_gpu_s(site.history, CLUSTER, end + 100, WEEK_S, by_worth=True)
    assert before["lab1"] == pytest.approx(2 * 8 * HOUR_S, rel=0.05)
    assert maintenance.prune(f"sqlite:///{path}", T0 + 5 * HOUR_S).counts["jobs"]
    after = received_gpu_s(site.history, CLUSTER, end + 100, WEEK_S, by_worth=True)
    assert after == pytest.approx(before, rel=1e-2)


# -- kill -9 ----------------------------------------------------------------------------------

HISTORY = [
    attempt(n + 1, T0 + n * 1500, tenant=f"lab{n % 2 + 1}", end_time=T0 + n * 1500 + 4000)
    for n in range(14)
]
AFTERNOON = settings_of({"lab1": 1.0, "lab2": 5.0})
DAY = [T0 + n * HOUR_S // 2 for n in range(14)]
NOON = DAY[7]


def live_through(site: Site, on_point: Callable[[FaultPoint], None] = no_faults) -> None:
    """A daemon's day from `site.now` on: told all, with quotas that change at noon."""
    upkeep = site.begin(on_point)
    for now in [moment for moment in DAY if moment >= site.now]:
        site.now = now
        if now >= NOON and site.settings != AFTERNOON:
            site.settings = AFTERNOON
            upkeep.configure(AFTERNOON)
        upkeep.note_quotas()
        upkeep.close_hours(now)


@pytest.mark.parametrize("point", FAIRNESS_POINTS)
def test_a_daemon_killed_at_a_point_and_begun_again_tells_the_same(
    point: FaultPoint, sqlite_template: Path, tmp_path: Path
) -> None:
    told = []
    for name in ("killed", "spared"):
        url = f"sqlite:///{shutil.copy(sqlite_template, tmp_path / name)}"
        with History.open(url) as history:
            history.ingest(batch(*HISTORY), source_key=None)
        if name == "killed":
            for begin in DAY:
                assert end_of_a_day(url, begin, point) == signal.SIGKILL
        with History.open(url) as history:
            live_through(Site(history, now=DAY[-1] if name == "killed" else T0))
            site = Site(history)
            told.append((site.quotas(), site.hours()))
        assert not maintenance.check(url, NO_RULES, DAY[-1]).is_damaged
    assert told[0] == told[1]
    assert len(told[0][1]) == 2 * 6


def end_of_a_day(url: str, begin: int, point: FaultPoint) -> int:
    """The signal that ends a daemon which is killed when it first comes to `point`."""
    child = os.fork()
    if child == 0:
        try:
            with History.open(url) as history:
                site = Site(history, now=begin)
                live_through(site, lambda p: os.kill(os.getpid(), 9) if p is point else None)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status)


CHILD = f"""
import itertools, sys
from gsched.app.fairness.hours import close_hours
from gsched.model.accounts import SiteQuotas
from gsched_sql import History

with History.open(sys.argv[1]) as history:
    for n in itertools.count():
        gpus = {{"lab1": 1.0 + n % 3, "lab2": 5.0 - n % 3}}
        site = SiteQuotas(gpus, 6.0, "settings")
        history.fairness().note({CLUSTER!r}, {T0} + n, site)
        close_hours(history, {CLUSTER!r}, {T0} + 6 * 3600, site, None)
        print(n, flush=True)
"""


def test_killed_at_any_moment_an_hour_is_there_as_a_whole_or_not_at_all(path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    url = f"sqlite:///{path}"
    with History.open(url) as history:
        history.ingest(batch(*HISTORY), source_key=None)
    environment = {"PYTHONPATH": ":".join(sys.path)}
    for _ in range(4):
        argv = [sys.executable, "-c", CHILD, url]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as child:
            assert child.stdout is not None
            told = [child.stdout.readline() for _ in range(dice.randint(1, 9))]
            child.kill()
        assert all(told)
        with History.open(url) as history:
            site = Site(history)
            tenants = {}
            for entry in site.hours():
                tenants.setdefault(entry.begin_time, []).append(entry.tenant)
            assert list(tenants.values()) == [["lab1", "lab2"]] * 6
            for since, _, gpus in site.quotas():
                both = [g for moment, _, g in site.quotas() if moment == since]
                assert sum(both) == 6.0 or len(both) == 1, (since, gpus)
            assert all(one <= other for one, other in pairwise(c[0] for c in site.quotas()))
