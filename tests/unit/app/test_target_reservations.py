"""Reservations for deadlines, step by step, whatever others do to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from support.history import CLUSTER, url_of
from support.jobs import T0, view
from support.queue import node, row

from gsched.app.target_reservations import (
    AGAIN_S,
    LIFE_MIN,
    MISUSED_S,
    MOST_A_ROUND,
    UNUSED_S,
    Reservations,
)
from gsched.config.deadlines import DeadlineSettings
from gsched.config.settings import Settings
from gsched.engine.faults import FaultPoint, no_faults
from gsched.engine.round import RoundResult
from gsched.errors import LostLeadershipError, TryAgainError
from gsched.model.cluster import ClusterState, ReservationView
from gsched.model.decision import Admit, Decision, Reason
from gsched.model.job import Allocation, JobState, JobView, Lease, LeaseState
from gsched.model.jobtable import JobTable
from gsched.model.journal import RoundInfo
from gsched.model.target_records import Promise, TargetRecord, TargetState
from gsched.model.targets import Steps
from gsched_sql import History

NAME = "gsched_target_7"


class Slurm:
    """Reservations in memory; `refuses` answers a verb, `silent` verbs are not answered."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.there: dict[str, ReservationView] = {}
        self.inside: dict[str, str] = {}
        self.refuses: dict[str, str] = {}
        self.silent: set[str] = set()
        self.calls: list[str] = []

    def _asked(self, verb: str) -> str:
        self.calls.append(verb)
        if verb in self.silent:
            raise TryAgainError("no answer")
        return self.refuses.get(verb, "")

    def shown(self) -> Mapping[str, ReservationView]:
        self._asked("shown")
        return dict(self.there)

    def make(self, name: str, user: str, nodes: Sequence[str], minutes: int) -> str:
        if not (said := self._asked("make")):
            now = self.site.now
            ends = now + 60 * minutes
            self.there[name] = ReservationView(name, tuple(nodes), now, ends, (user,))
        return said

    def last(self, name: str, minutes: int) -> str:
        self._asked("last")
        one = self.there[name]
        self.there[name] = replace(one, end_time=one.start_time + 60 * minutes)
        return ""

    def move(self, name: str, nodes: Sequence[str]) -> str:
        self._asked("move")
        self.there[name] = replace(self.there[name], nodes=tuple(nodes))
        return ""

    def put_in(self, slurm_id: str) -> str:
        if not (said := self._asked("put_in")):
            self.inside[slurm_id] = f"gsched_target_{slurm_id}"
        return said

    def take_out(self, slurm_id: str) -> str:
        self._asked("take_out")
        self.inside.pop(slurm_id, None)
        return ""

    def remove(self, name: str) -> str:
        said = self._asked("remove")
        if name in self.inside.values():
            return "Requested reservation is in use"
        self.there.pop(name, None)
        return said


class Site:
    """A database, a Slurm in memory, and jobs that have been promised something."""

    def __init__(self, path: Any) -> None:
        self.now = T0
        self.allowed = True
        self.history = History.open(url_of(path))
        self.slurm = Slurm(self)
        self.views: list[JobView] = []
        self.due: set[int] = set()
        self.nodes = (node("n1"), node("n2"), node("n3"))
        self.owned: frozenset[str] = frozenset()
        self.restart()

    def restart(self, on_point: Any = no_faults, fence: int | None = None) -> None:
        backend = SimpleNamespace(
            cluster=CLUSTER, look=lambda: None, last_look=SimpleNamespace(rows=[]),
            own_reservations=lambda names: setattr(self, "owned", names),
        )  # fmt: skip
        self.backend = backend
        self.keeper = Reservations(
            self.history, backend, self.slurm, fence,  # type: ignore[arg-type]
            lambda: Settings(deadlines=DeadlineSettings(reservations=self.allowed)),
            lambda: self.now, on_point,
        )  # fmt: skip

    def promise(self, *jobs: int) -> None:
        for number in jobs:
            job = replace(view(number, gpus=8), pending_reason="Resources")
            job = replace(job, key=replace(job.key, cluster=CLUSTER))
            self.views.append(job)
            self.due.add(number)
            record = TargetRecord(
                job.key, T0, job.user, Steps((T0 + 9000 + number,), (100.0,)), 8,
                TargetState.STANDING, T0, Promise(T0, T0 + 900, 0.9),
            )  # fmt: skip
            self.history.targets().keep(CLUSTER, [(record, ())])

    def round(self, after_s: int = 1, extra: Sequence[Any] = ()) -> None:
        self.now += after_s
        admits = tuple(Admit("a", v.key, T0, 0, T0, None, T0 + 900, 0.9) for v in self.views)
        reasons = {
            v.key: Reason("chronus.target", {"is_due": v.key.job_id in self.due})
            for v in self.views
        }
        table = JobTable.from_views(self.views)
        state = ClusterState(CLUSTER, self.now, 1, self.nodes, (), (), table)
        self.look(extra)
        info = RoundInfo("r", CLUSTER, self.now, "chronus", True, 1, "m")
        made = Decision({}, admits, reasons, {})
        self.keeper.after_round(RoundResult(info, state, made, (), (), {}, 0))

    def look(self, extra: Sequence[Any] = ()) -> None:
        shown = [
            row(v.key.job_id, state=v.state, reservation=self.slurm.inside.get(v.key.slurm_id, ""))
            for v in self.views
        ]
        self.backend.last_look = SimpleNamespace(rows=[*shown, *extra])

    def known(self) -> list[int]:
        return [r.key.job_id for r in self.history.targets().reserved(CLUSTER)]

    def events(self, job: int = 7) -> list[str]:
        key = next(v.key for v in self.views if v.key.job_id == job)
        record = self.history.targets().latest(CLUSTER, [key])[key]
        return [event.what for event in self.history.targets().events(record)]

    def is_clean(self) -> bool:
        return not self.slurm.there and not self.slurm.inside and not self.known()


@pytest.fixture
def site(tmp_path, sqlite_template):
    path = tmp_path / "history.db"
    path.write_bytes(sqlite_template.read_bytes())
    made = Site(path)
    yield made
    made.history.close()


def test_it_stands_while_its_job_waits_and_goes_when_it_runs(site):
    site.promise(7)
    site.round()
    assert site.slurm.there[NAME].users == (site.views[0].user,)
    assert site.slurm.inside == {"7": NAME}
    assert (site.owned, site.known()) == ({NAME}, [7])
    before = len(site.slurm.calls)
    site.round()
    assert site.slurm.calls[before:] == ["shown"]
    site.views = [replace(site.views[0], state=JobState.RUNNING)]
    site.round()
    assert site.is_clean()
    assert site.events() == ["reserved", "unreserved"]


@pytest.mark.parametrize("why", ["not due", "forbidden", "gone"])
def test_it_goes_when_there_is_no_reason_for_it_any_more(site, why):
    site.promise(7)
    site.round()
    views = site.views
    if why == "not due":
        site.due.clear()
    elif why == "forbidden":
        site.allowed = False
    else:
        site.views, site.slurm.inside = [], {}
    site.round()
    site.views = views
    assert site.is_clean()


def test_nothing_is_asked_where_nothing_is_to_be_done(site):
    site.allowed = False
    site.promise(7)
    site.round()
    assert site.slurm.calls == []


def test_one_that_sql_does_not_know_is_an_administrators(site):
    theirs = ReservationView(NAME, ("n1",), T0, T0 + 9000, ("ann",))
    site.slurm.there[NAME] = theirs
    site.promise(7)
    site.round()
    site.round(AGAIN_S + 1)
    assert site.slurm.there == {NAME: theirs}
    assert set(site.slurm.calls) == {"shown"}


def test_one_that_another_users_name_is_on_is_left_alone(site):
    site.promise(7)
    site.round()
    theirs = replace(site.slurm.there[NAME], users=("root",))
    site.slurm.there[NAME], site.allowed = theirs, False
    site.round()
    assert site.slurm.there == {NAME: theirs}
    assert site.known() == []


@pytest.mark.parametrize("named", [NAME, f"{NAME},{NAME}", f"course,{NAME}"])
def test_another_job_of_its_user_in_it_ends_it(site, named):
    site.promise(7)
    site.round()
    site.slurm.inside["8"] = NAME
    site.round(extra=[row(8, reservation=named)])
    assert site.is_clean()
    site.round(AGAIN_S + 1)
    assert site.is_clean()
    site.round(MISUSED_S)
    assert NAME in site.slurm.there


@pytest.mark.parametrize("what", ["out", "elsewhere", "removed"])
def test_others_words_stand(site, what):
    site.promise(7)
    site.round()
    site.round()
    site.slurm.inside.clear()
    if what == "elsewhere":
        site.slurm.inside["7"] = "course"
    if what == "removed":
        del site.slurm.there[NAME]
    site.round()
    assert site.slurm.inside.get("7") == ("course" if what == "elsewhere" else None)
    site.slurm.inside.clear()
    site.round()
    assert site.is_clean()
    site.round(AGAIN_S)
    assert NAME in site.slurm.there


def test_it_is_made_longer_while_it_is_needed_and_made_again_when_it_has_ended(site):
    site.promise(7)
    site.round()
    begun = site.now
    site.round(LIFE_MIN * 30 + 60)
    assert site.slurm.there[NAME].end_time >= site.now + LIFE_MIN * 60
    assert site.slurm.there[NAME].start_time == begun
    site.now += LIFE_MIN * 60
    site.slurm.there.clear()
    site.slurm.inside.clear()
    site.round()
    assert site.slurm.inside == {"7": NAME}
    assert site.events() == ["reserved", "unreserved", "reserved"]


@pytest.mark.parametrize("is_free", [True, False])
def test_nodes_that_are_free_and_of_no_use_to_its_job_are_given_back(site, is_free):
    """As where it asks for others by name."""
    site.promise(7)
    if not is_free:
        site.nodes = tuple(replace(one, gpus_used=1) for one in site.nodes)
    for after_s in (1, 1, UNUSED_S - 10, 20):
        site.round(after_s)
    assert site.is_clean() is is_free
    site.round(AGAIN_S)
    assert site.is_clean() is is_free


def test_a_node_that_is_lost_is_replaced(site):
    site.promise(7)
    site.round()
    assert site.slurm.there[NAME].nodes == ("n1",)
    site.nodes = (replace(node("n1"), state="down"), node("n2"), node("n3"))
    site.round()
    assert site.is_clean()
    site.round()
    assert site.slurm.there[NAME].nodes == ("n2",)
    assert site.slurm.inside == {"7": NAME}


def test_it_follows_the_nodes_that_are_freed_for_its_job(site):
    site.promise(7)
    site.round()
    assert site.slurm.there[NAME].nodes == ("n1",)
    leaves = replace(
        view(3, gpus=8, state=JobState.RUNNING),
        allocation=Allocation(("n2",), (8,), T0),
        lease=Lease("l", LeaseState.ENDING, T0, 600, "7"),
    )
    site.views.append(leaves)
    site.nodes = (replace(node("n1"), gpus_used=8), node("n2"), node("n3"))
    holds = replace(
        view(4, gpus=8, state=JobState.RUNNING), allocation=Allocation(("n1", "n3"), (8, 8), T0)
    )
    site.views.append(holds)
    site.round()
    assert site.slurm.there[NAME].nodes == ("n2",)
    assert site.slurm.inside == {"7": NAME}


def test_each_has_nodes_of_its_own_and_the_first_deadline_comes_first(site):
    site.promise(9, 8, 7, 6)
    site.round()
    nodes = {name: one.nodes for name, one in site.slurm.there.items()}
    assert nodes == {f"gsched_target_{j}": (f"n{j - 5}",) for j in (6, 7, 8)}


def test_only_a_few_in_a_round(site):
    site.nodes = tuple(node(f"n{i:02}") for i in range(MOST_A_ROUND + 3))
    site.promise(*range(1, MOST_A_ROUND + 4))
    site.round()
    assert len(site.slurm.there) == MOST_A_ROUND
    site.round()
    assert len(site.slurm.there) == MOST_A_ROUND + 3


@pytest.mark.parametrize("verb", ["make", "put_in"])
def test_what_slurm_refuses_is_not_tried_in_each_round(site, verb):
    site.slurm.refuses[verb] = "Invalid user id"
    site.promise(7)
    site.round()
    assert site.is_clean()
    site.round()
    assert site.slurm.calls.count(verb) == 1
    site.slurm.refuses.clear()
    site.round(AGAIN_S)
    assert site.slurm.inside == {"7": NAME}


@pytest.mark.parametrize("verb", ["make", "put_in", "shown", "take_out", "remove"])
def test_a_slurm_that_does_not_answer_is_no_reason_to_end_a_round(site, verb):
    site.promise(7)
    site.slurm.silent = {verb}
    site.round()
    site.allowed = False
    site.round()
    site.slurm.silent = set()
    site.round()
    assert site.is_clean()


@pytest.mark.parametrize("point", [p for p in FaultPoint if p.value.startswith("reservation-")])
def test_killed_anywhere_the_next_daemon_settles_it(site, point):
    class Killed(BaseException):
        pass

    def kill(at):
        if at is point:
            raise Killed

    def until_killed():
        site.round()
        site.allowed = False
        site.round()

    site.promise(7)
    site.restart(kill)
    site.keeper.recall()
    with pytest.raises(Killed):
        until_killed()
    assert site.known() == [7]
    site.restart()
    site.keeper.recall()
    assert site.owned == {NAME}
    site.round()
    site.allowed = True
    site.round()
    assert (site.slurm.inside, site.known()) == ({"7": NAME}, [7])
    site.allowed = False
    site.round()
    assert site.is_clean()


def test_clear_removes_all_that_sql_knows(site):
    site.promise(7, 8)
    site.round()
    theirs = ReservationView("gsched_target_9", ("n3",), T0, T0 + 9000, ("ann",))
    site.slurm.there["gsched_target_9"] = theirs
    site.restart()
    site.look()
    assert site.keeper.release_all("clear") == (NAME, "gsched_target_8")
    assert site.slurm.there == {"gsched_target_9": theirs}
    assert (site.slurm.inside, site.known()) == ({}, [])


def test_a_daemon_that_has_lost_the_lead_makes_none(site):
    site.promise(7)
    site.restart(fence=1)
    with pytest.raises(LostLeadershipError):
        site.round()
    assert site.is_clean()
