"""Deadlines in the daemon: what is kept in SQL and told, round by round, whatever happens."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from support.history import CLUSTER, attempt, batch, url_of
from support.jobs import T0, view
from support.requests import MemoryRequests

from gsched.app.daemon_targets import BLIP_ROUNDS, LOST_S, Targets
from gsched.config.deadlines import DeadlineSettings
from gsched.config.settings import Settings
from gsched.daemon.requests import RequestBook, Sighting
from gsched.daemon.status_file import RoundNews, describe, parse_status
from gsched.daemon.target_document import NOTHING_TOLD
from gsched.engine.faults import FaultHook, FaultPoint, no_faults
from gsched.engine.round import RoundResult
from gsched.errors import LostLeadershipError
from gsched.explain.target_words import planned_end
from gsched.model.cluster import ClusterState
from gsched.model.decision import Admit, Alternative, Decision, PlannedRun, Reason, Refuse
from gsched.model.job import MAX_DEADLINE, Capability, JobKey, JobState, JobView
from gsched.model.jobtable import JobTable
from gsched.model.journal import RoundInfo
from gsched.model.target_records import Promise, PromiseUse, Risk, TargetState
from gsched.policy.chronus_memory import Asked, Book, Refusal, Target, Used, name_of
from gsched.policy.registry import load
from gsched.slurm.records import SlurmConfig
from gsched_sql import History

DEADLINE = T0 + 10_000
ADMITS = frozenset({Capability.REORDER, Capability.ADMIT})
PRIVATE = SlurmConfig({"PrivateData": "jobs"})
NO_ROOM = Reason("chronus.refused-no-room", {"jobs": ["8", "9"], "needed_gpu_s": 40.0})
PLAN = (PlannedRun(T0 + 100, T0 + 300, 4), PlannedRun(T0 + 500, T0 + 800, 4))


class Site:
    """One daemon's record over a real database, and a queue that a test sets."""

    def __init__(self, path: Any, fence: int | None = None) -> None:
        self.now = T0
        self.settings = Settings(deadlines=DeadlineSettings(warn_probability=0.8))
        self.requests = RequestBook(MemoryRequests())
        self.history = History.open(url_of(path))
        self.views: list[JobView] = []
        self.fence = fence
        self.restart()

    def restart(self, on_point: FaultHook = no_faults) -> None:
        """The daemon has been killed and started anew."""
        self.targets = Targets(
            self.history, CLUSTER, self.fence, lambda: self.settings, self.requests,
            lambda: self.now, on_point,
        )  # fmt: skip

    def queue(self, *jobs: int, comment: str = f"gs1{{deadline={DEADLINE}}}", **facts: Any) -> None:
        """Jobs in the queue, which ask for a deadline."""
        self.views = []
        for number in jobs:
            job = view(number, **facts)
            job = replace(job, key=replace(job.key, cluster=CLUSTER))
            self.requests.look([Sighting(job.key, job.user, comment)], self.now)
            self.views.append(replace(job, wants=self.requests.wants(job.key)))

    def round(self, *actions: Any, reasons: Any = None, **facts: Any) -> Any:
        """A round that decides this; what is told."""
        keeps, config = facts.pop("requires", ADMITS), facts.pop("config", SlurmConfig({}))
        decision = Decision({}, actions, reasons or {}, facts.pop("memory", {}))
        table = JobTable.from_views(self.views)
        state = ClusterState(CLUSTER, self.now, 1, (), (), (), table)
        given = {"policy": "chronus", "acting": True, "model_id": "m"} | facts
        result = RoundResult(
            RoundInfo("r", CLUSTER, self.now, seq=1, **given), state, decision, (), (), {}, 0
        )
        told = self.targets.after_round(result, keeps, config)
        news = RoundNews(30.0, "act", targets=told)
        self.bulletin = describe(result, config, news, self.requests)
        return told

    def key(self, job: int) -> JobKey:
        return replace(view(job).key, cluster=CLUSTER)

    def admit(self, job: int = 7, **facts: Any) -> Admit:
        given = {"finish_time": T0 + 800, "probability": 0.95, "plan": PLAN, "budget_gpu_s": 2e3}
        given |= {"admitted_time": T0} | facts
        return Admit("a", self.key(job), T0, 0, T0 + 600, None, **given)

    def refuse(self, job: int = 7, **facts: Any) -> Refuse:
        options = (Alternative("fewer-gpus", T0 + 9000, 2, 0.91),)
        given = {"earliest": T0 + 20_000, "alternatives": options} | facts
        return Refuse("r", self.key(job), T0, 0, T0 + 600, None, **given)

    def record(self, job: int = 7) -> Any:
        return self.history.targets().latest(CLUSTER, [self.key(job)])[self.key(job)]

    def events(self, job: int = 7) -> list[str]:
        return [event.what for event in self.history.targets().events(self.record(job))]

    def leave(self, job: int = 7, end: int = 800, state: JobState = JobState.COMPLETED) -> None:
        """The job has left the queue, and the history knows."""
        self.views = [v for v in self.views if v.key != self.key(job)]
        ended = attempt(job, T0, start_time=T0 + 1, end_time=T0 + end, state=state)
        self.history.ingest(batch(ended), source_key=None)

    def told(self, job: int = 7) -> dict[str, Any]:
        """The job's entry as somebody reads it."""
        document = parse_status(self.bulletin.public())
        assert document is not None
        return dict(document["jobs"][str(job)])


@pytest.fixture
def site(tmp_path, sqlite_template):
    path = tmp_path / "history.db"
    path.write_bytes(sqlite_template.read_bytes())
    made = Site(path)
    yield made
    made.history.close()


def test_a_promise_is_kept_and_told(site):
    site.queue(7)
    told = site.round(site.admit())
    record = site.record()
    assert record.state is TargetState.STANDING
    assert record.promise == Promise(T0, T0 + 800, 0.95, 2e3)
    assert (record.plan, record.steps.times, record.user) == (PLAN, (DEADLINE,), view(7).user)
    assert site.events() == ["standing"]
    assert told.head["num_standing"] == 1
    assert site.told()["target"] == {
        "state": "on-target",
        "deadlines": [[DEADLINE, 100.0]],
        "finish_time": T0 + 800,
        "probability": 0.95,
        "promised": {"finish_time": T0 + 800, "probability": 0.95, "time": T0},
        "budget_gpu_s": 2000.0,
        "num_gpus": record.num_gpus,
        "plan": [[T0 + 100, T0 + 300, 4], [T0 + 500, T0 + 800, 4]],
    }
    assert site.told()["accepted"] is True


def test_the_end_that_is_promised_is_that_of_the_plan_that_was_told(site):
    """The deadline that it keeps is another, later time."""
    site.queue(7)
    site.round(site.admit(finish_time=DEADLINE))
    assert site.record().promise == Promise(T0, T0 + 800, 0.95, 2e3)
    assert site.told()["target"]["promised"]["finish_time"] == planned_end(site.told()["target"])
    assert site.record().risk is Risk.ON_TARGET
    site.queue(8)
    site.round(site.admit(8, finish_time=DEADLINE, plan=()))
    assert site.record(8).promise == Promise(T0, DEADLINE, 0.95, 2e3)


def test_the_promise_stays_what_it_was_while_plans_change(site):
    site.queue(7)
    site.round(site.admit())
    site.now = T0 + 100
    site.round(site.admit(finish_time=T0 + 900, probability=0.9, plan=PLAN[1:], budget_gpu_s=5.0))
    record = site.record()
    assert record.promise == Promise(T0, T0 + 800, 0.95, 2e3)
    assert (record.finish_time, record.probability, record.plan) == (T0 + 900, 0.9, PLAN[1:])
    assert site.events() == ["standing"]


def test_a_plan_that_changes_each_second_is_not_written_each_second(site):
    site.queue(7)
    site.round(site.admit())
    for second in range(1, 59):
        site.now = T0 + second
        told = site.round(site.admit(finish_time=T0 + 800 + second))
        assert told.jobs["7"]["finish_time"] == T0 + 800 + second
    assert site.record().finish_time == T0 + 800
    site.now = T0 + 61
    site.round(site.admit(finish_time=T0 + 858))  # as the round before: it is written all the same
    assert site.record().finish_time == T0 + 858


def test_a_refusal_is_told_with_why_and_what_could_be(site):
    site.queue(7)
    site.round(site.refuse(), reasons={site.key(7): NO_ROOM})
    record = site.record()
    assert (record.state, record.earliest) == (TargetState.REFUSED, T0 + 20_000)
    assert (record.why, record.params) == (NO_ROOM.code, NO_ROOM.params)
    (outcome,) = site.told()["outcomes"]
    assert outcome == {
        "want": "deadline",
        "outcome": "refused",
        "reason": "policy chronus cannot keep it",
        "earliest": T0 + 20_000,
        "why": {"code": NO_ROOM.code, "params": dict(NO_ROOM.params)},
        "alternatives": [
            {"kind": "fewer-gpus", "finish_time": T0 + 9000, "num_gpus": 2, "probability": 0.91}
        ],
    }
    assert site.told()["accepted"] is False
    assert "target" not in site.told()


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("reason", [None, Reason("chronus.spot", {"remaining_s": 5.0})])
def test_why_a_job_that_runs_was_refused_is_what_the_policy_remembers(site, several, reason):
    site.queue(7)
    asked = Asked(0, (DEADLINE,), (100.0,))
    refusal = Refusal(asked, NO_ROOM.code, NO_ROOM.params)
    memory: Any = Book(refused={name_of(site.key(7)): refusal}).document()
    if several:
        memory = {"version": 1, "policies": {"fifo": {}, "chronus": memory}}
    site.round(site.refuse(), reasons={site.key(7): reason} if reason else {}, memory=memory)
    assert (site.record().why, site.record().params) == (NO_ROOM.code, NO_ROOM.params)


def test_the_first_answer_to_a_request_stays_the_answer(site):
    site.queue(7)
    site.round(site.refuse(), reasons={site.key(7): NO_ROOM})
    site.now += 100
    site.restart()
    site.round(site.refuse(earliest=T0 + 99_000, alternatives=()))
    assert site.record().earliest == T0 + 20_000
    assert site.told()["outcomes"][0]["why"]["code"] == NO_ROOM.code


def test_on_a_private_cluster_nobody_is_told_of_anothers_job(site):
    site.queue(7, 8)
    site.round(
        site.refuse(),
        site.admit(8, probability=0.1),
        reasons={site.key(7): NO_ROOM, site.key(8): NO_ROOM},
        config=PRIVATE,
    )
    jobs = site.bulletin.jobs
    assert jobs["7"]["outcomes"][0]["why"]["params"] == {"needed_gpu_s": 40.0}
    assert jobs["7"]["reason"]["params"] == {"needed_gpu_s": 40.0}
    assert jobs["8"]["target"]["risk"]["params"] == {"needed_gpu_s": 40.0}
    assert site.record().params == {"needed_gpu_s": 40.0}  # which its owner may read
    site.round(site.refuse(), reasons={site.key(7): NO_ROOM})
    assert site.bulletin.jobs["7"]["reason"]["params"] == dict(NO_ROOM.params)


def test_a_job_that_ends_in_time_has_kept_its_deadline(site):
    site.queue(7)
    site.round(site.admit())
    site.leave(end=790)
    site.now = T0 + 900
    told = site.round()
    record = site.record()
    assert (record.state, record.end_time, record.reward) == (TargetState.KEPT, T0 + 790, 100.0)
    assert record.plan == ()
    assert site.events() == ["standing", "kept"]
    assert told.head["outcomes"] == {"kept": 1}
    assert told.head["num_standing"] == 0
    assert site.targets.facts().outcomes == {"kept": 1}
    site.restart()
    assert site.round().head["outcomes"] == {"kept": 1}


@pytest.mark.parametrize(
    ("end", "state", "outcome", "reward"),
    [
        (10_000, JobState.COMPLETED, TargetState.KEPT, 100.0),
        (10_001, JobState.COMPLETED, TargetState.MISSED, 1.0),
        (9000, JobState.CANCELLED, TargetState.WITHDRAWN, None),
        (10_001, JobState.CANCELLED, TargetState.MISSED, 0.0),
        (9000, JobState.FAILED, TargetState.FAILED, None),
        (9000, JobState.TIMEOUT, TargetState.FAILED, None),
        (9000, JobState.OUT_OF_MEMORY, TargetState.FAILED, None),
        (9000, JobState.NODE_FAIL, TargetState.MISSED, 0.0),
    ],
)
def test_what_an_end_means_for_the_deadline(site, end, state, outcome, reward):
    site.queue(7)
    site.round(site.admit())
    site.leave(end=end, state=state)
    site.now = T0 + 20_000
    site.round()
    assert (site.record().state, site.record().reward) == (outcome, reward)


def test_of_soft_deadlines_each_has_its_worth(site):
    site.queue(7, comment=f"gs1{{soft={T0 + 500}:10,soft={DEADLINE}:5}}")
    site.round(site.admit())
    site.leave(end=800)
    site.now = T0 + 900
    site.round()
    assert (site.record().state, site.record().reward) == (TargetState.KEPT, 50.0)


def test_a_job_whose_end_nobody_has_told_yet_is_waited_for(site):
    site.queue(7)
    site.round(site.admit())
    site.views = []
    site.now = T0 + 500
    site.round()
    assert site.record().state is TargetState.STANDING
    site.queue(7)  # it is there again: Slurm had hidden it
    site.round(site.admit())
    site.views = []
    site.now += 10
    site.round()
    site.now += LOST_S - 1
    site.round()
    assert site.record().state is TargetState.STANDING
    site.now += 1
    site.round()
    assert site.record().state is TargetState.UNKNOWN


def test_a_daemon_that_starts_anew_each_day_gives_up_what_nobody_tells_of(site):
    site.queue(7)
    site.round(site.admit())
    site.views = []
    for day in (0, LOST_S // 2, LOST_S - 1):
        site.now = T0 + 500 + day
        site.restart()
        site.round()
        assert site.record().state is TargetState.STANDING
    site.now = T0 + 500 + LOST_S
    site.restart()
    site.round()
    assert site.record().state is TargetState.UNKNOWN


@pytest.mark.parametrize("is_refused", [False, True])
def test_who_was_missed_in_the_queue_and_came_back_is_missed_anew(site, is_refused):
    site.queue(7)
    site.round(site.admit())
    site.views = []
    site.now = T0 + 500
    site.round()
    assert site.record().gone_time == T0 + 500
    site.queue(7)
    site.now += 10
    site.round(*([site.refuse()] if is_refused else []))  # nobody plans it
    assert site.record().gone_time is None
    site.views = []
    site.now = T0 + 500 + LOST_S
    site.round()
    assert site.record().state is TargetState.STANDING


@pytest.mark.parametrize("state", [JobState.COMPLETED, JobState.NODE_FAIL])
def test_what_has_come_of_a_promise_stays_when_its_job_is_queued_again(site, state):
    site.queue(7)
    site.round(site.admit())
    site.leave(end=700, state=state)
    site.now = T0 + 900
    site.round()
    first = site.record()
    assert first.state in (TargetState.KEPT, TargetState.MISSED)
    for restarts in range(3):
        site.now += 100
        if restarts == 2:
            site.restart()
        site.queue(7)
        site.round(site.admit(admitted_time=T0 + 1000))
    again, before = site.history.targets().asked(CLUSTER)
    assert before == first
    assert (again.state, again.asked_time) == (TargetState.STANDING, T0 + 1000)
    assert again.promise.time == T0 + 1000
    assert site.told()["target"]["state"] == "on-target"


def test_a_job_that_is_queued_again_after_its_outcome_may_be_refused(site):
    site.queue(7)
    site.round(site.admit())
    site.leave(end=700)
    site.now = T0 + 900
    site.round()
    for _ in range(2):
        site.now += 100
        site.queue(7)
        site.round(site.refuse())
    states = [record.state for record in site.history.targets().asked(CLUSTER)]
    assert states == [TargetState.REFUSED, TargetState.KEPT]


@pytest.mark.parametrize("several", [False, True])
def test_what_a_promise_has_used_is_kept_and_so_is_when_it_was_made(site, several):
    asked = Asked(0, (DEADLINE,), (100.0,))
    used = Used(T0 - 50, -100.0, 350.0)
    goal = Target(asked, DEADLINE, 2e3, T0, 0.95, 3, used)
    memory: Any = Book(targets={name_of(site.key(7)): goal}).document()
    if several:
        memory = {"version": 1, "policies": {"fifo": {}, "chronus": memory}}
    site.queue(7)
    site.views = [replace(site.views[0], restarts=3)]
    site.round(site.admit(), memory=memory)
    assert site.record().used == PromiseUse(250.0, T0 - 50, 350.0)
    assert site.record().promise.restarts == 3
    site.now += 100
    site.views = [replace(site.views[0], restarts=4)]
    site.round(site.admit(finish_time=T0 + 900))
    assert site.record().used == PromiseUse(250.0, T0 - 50, 350.0)
    assert site.record().promise.restarts == 3


def test_a_daemon_that_was_away_learns_what_has_become_of_its_promises(site):
    site.queue(7, 8)
    site.round(site.admit(7), site.admit(8))
    site.leave(7, end=700)
    site.restart()
    site.now = T0 + 900
    site.round(site.admit(8, finish_time=T0 + 950))
    assert site.record(7).state is TargetState.KEPT
    assert site.record(8).promise == Promise(T0, T0 + 800, 0.95, 2e3)
    assert site.events(8) == ["standing"]


def test_another_request_takes_the_place_of_a_promise(site):
    site.queue(7)
    site.round(site.admit())
    site.now = T0 + 100
    site.queue(7, comment=f"gs1{{deadline={T0 + 50}}}")
    site.round(site.refuse())
    found = {r.asked_time: r.state for r in site.history.targets().asked(CLUSTER)}
    assert found == {T0: TargetState.WITHDRAWN, T0 + 100: TargetState.REFUSED}
    assert "target" not in site.told()
    site.now += 10
    site.queue(7, comment="gs1{none}")
    site.round()
    assert site.record().state is TargetState.REFUSED


def test_a_request_that_is_taken_back_withdraws_the_promise(site):
    site.queue(7)
    site.round(site.admit())
    site.now += 10
    site.queue(7, comment="gs1{none}")
    told = site.round()
    assert site.record().state is TargetState.WITHDRAWN
    assert told.head["num_standing"] == 0
    site.round()
    assert site.events() == ["standing", "withdrawn"]


def test_a_promise_that_nobody_plans_any_more_is_at_risk(site):
    site.queue(7)
    site.round(site.admit())
    for _ in range(BLIP_ROUNDS - 1):
        site.now += 30
        site.round(requires=frozenset({Capability.REORDER}), policy="fifo")
        assert site.record().risk is Risk.ON_TARGET
    site.now += 30
    told = site.round(requires=frozenset({Capability.REORDER}), policy="fifo")
    assert (site.record().risk, site.record().plan) == (Risk.AT_RISK, ())
    assert told == NOTHING_TOLD
    site.now = T0 + 2000
    site.round(site.admit())
    assert site.record().risk is Risk.ON_TARGET


def test_a_promise_is_not_refused_afterwards(site):
    site.queue(7)
    site.round(site.admit())
    site.now += 30
    site.round(site.refuse())
    assert site.record().state is TargetState.STANDING
    assert site.told()["target"]["state"] == "at-risk"


def test_a_daemon_that_only_observes_promises_nothing(site):
    site.queue(7)
    assert site.round(site.admit(), acting=False) == NOTHING_TOLD
    assert site.history.targets().asked(CLUSTER) == []
    site.round(site.admit())
    site.leave()
    site.now = T0 + 900
    site.round(acting=False)
    assert site.record().state is TargetState.KEPT  # which is seen, not done


def test_who_is_late_while_the_daemon_only_observes_is_warned(site):
    site.queue(7)
    site.round(site.admit())
    for now in (DEADLINE, DEADLINE + 1, DEADLINE + 31):
        site.now = now
        site.round(acting=False)
    assert site.events() == ["standing", "late"]
    assert site.record().risk is Risk.LATE


def test_without_deadlines_nothing_is_written_and_nothing_told(site):
    site.queue(7, comment="")
    told = site.round(requires=frozenset({Capability.REORDER}), policy="fifo")
    assert told == NOTHING_TOLD
    assert site.history.stats().rows["targets"] == 0
    assert "target" not in site.told()


# -- risk ----------------------------------------------------------------------------------------


def test_who_is_at_risk_is_warned_once(site):
    site.queue(7)
    site.round(site.admit())
    for _ in range(3):
        site.now += 400
        site.round(site.admit(probability=0.5))
    assert site.record().risk is Risk.AT_RISK
    assert site.events() == ["standing", "at-risk"]
    assert site.told()["target"]["warned"] == {"level": "at-risk", "time": T0 + 400}


def test_a_probability_about_the_bound_does_not_flutter(site):
    site.queue(7)
    site.round(site.admit())
    for step in range(8):
        site.now += 1000
        site.round(site.admit(probability=0.81 if step % 2 else 0.79, finish_time=T0 + 9000))
    assert site.events() == ["standing", "at-risk"]
    site.now += 1000
    site.round(site.admit(probability=0.9, finish_time=T0 + 9600))
    assert site.events() == ["standing", "at-risk", "on-target"]


def test_who_was_warned_just_now_is_not_warned_again_at_once(site):
    site.queue(7)
    site.round(site.admit())
    for step in range(1, 30):
        site.now = T0 + 30 * step
        site.round(site.admit(probability=0.95 if step % 2 else 0.5))
    assert site.events() == ["standing", "at-risk"]


def test_a_promise_for_which_nothing_can_be_planned_has_no_end(site):
    site.queue(7)
    site.round(site.admit())
    site.now += 30
    site.round(site.admit(finish_time=MAX_DEADLINE, probability=0.0, plan=()))
    assert (site.record().finish_time, site.record().risk) == (None, Risk.AT_RISK)
    assert "finish_time" not in site.told()["target"]
    assert "finish_time" not in site.told()["outcomes"][0]
    assert site.told()["target"]["promised"]["finish_time"] == T0 + 800
    site.now += 30
    site.round(site.admit(finish_time=T0 + 900))
    assert site.record().finish_time == T0 + 900


def test_a_plan_that_ends_after_the_promised_deadline_is_at_risk(site):
    site.queue(7, comment=f"gs1{{soft={T0 + 1000}:10,soft={DEADLINE}:5}}")
    site.round(site.admit())
    site.now += 30
    site.round(site.admit(finish_time=T0 + 1001))
    assert site.record().risk is Risk.AT_RISK


def test_a_promise_for_the_second_deadline_is_on_target_by_it(site):
    site.queue(7, comment=f"gs1{{soft={T0 + 500}:10,soft={DEADLINE}:5}}")
    site.round(site.admit(finish_time=T0 + 900))
    site.round(site.admit(finish_time=T0 + 2000))
    assert site.record().risk is Risk.ON_TARGET


def test_who_is_late_is_warned_at_once_and_missed_in_the_end(site):
    site.queue(7)
    site.round(site.admit())
    site.now = DEADLINE - 10
    site.round(site.admit(probability=0.2))
    site.now = DEADLINE + 1
    site.round(site.admit(probability=0.0, finish_time=DEADLINE + 100))
    assert site.record().risk is Risk.LATE
    site.leave(end=10_100)
    site.now = DEADLINE + 200
    site.round()
    assert site.events() == ["standing", "at-risk", "late", "missed"]


def test_while_at_risk_the_policys_reason_tells_why(site):
    site.queue(7)
    why = Reason("chronus.risk-nodes", {"lost_gpus": 4, "remaining_s": 90.0, "quantile": 0.95})
    site.round(site.admit(probability=0.3), reasons={site.key(7): why})
    told = site.told()["target"]
    assert told["risk"] == {"code": why.code, "params": dict(why.params)}
    assert told["remaining"] == {"safe_s": 90.0, "quantile": 0.95}
    site.now += 2000
    site.round(site.admit(), reasons={site.key(7): why})
    assert "risk" not in site.told()["target"]


# -- what may go wrong ---------------------------------------------------------------------------


def test_a_round_that_could_not_be_kept_is_kept_by_the_next(site, monkeypatch):
    site.queue(7)
    keep = site.targets._store.keep

    def broken(*_: Any) -> None:
        raise LostLeadershipError("gone")

    monkeypatch.setattr(site.targets._store, "keep", broken)
    with pytest.raises(LostLeadershipError):
        site.round(site.admit())
    monkeypatch.setattr(site.targets._store, "keep", keep)
    site.round(site.admit())
    assert site.events() == ["standing"]


def test_a_kill_right_after_deadlines_were_kept_changes_nothing(site):
    class KilledError(Exception):
        pass

    def die(point: FaultPoint) -> None:
        assert point is FaultPoint.TARGETS_KEPT
        raise KilledError

    site.queue(7, 8)
    for step in range(3):
        if step == 2:
            site.leave(7, end=700)
            site.now = T0 + 900
        given = [site.refuse(8)] if step == 2 else [site.admit(), site.refuse(8)]
        site.restart(die)
        if step != 1:  # nothing is new in the second round
            with pytest.raises(KilledError):
                site.round(*given)
        site.restart()
        site.round(*given)
    assert site.events(7) == ["standing", "kept"]
    assert site.events(8) == ["refused"]
    assert len(site.history.targets().asked(CLUSTER)) == 2


def test_a_daemon_that_does_not_lead_any_more_tells_nothing(site):
    leadership = site.history.leadership(CLUSTER)
    site.fence = leadership.take("h1", "m1", os.getpid(), 60, 1000)
    site.restart()
    site.queue(7)
    leadership.take("h2", "m1", os.getpid(), 60, 2000)
    with pytest.raises(LostLeadershipError):
        site.round(site.admit())
    assert site.history.targets().asked(CLUSTER) == []


def test_a_promise_follows_its_job_to_an_earlier_first_submit(site):
    site.queue(7)
    site.round(site.admit())
    key = site.key(7)
    site.history.ingest(batch(attempt(7, T0, restarts=1)), source_key=None)
    earlier = attempt(7, T0 - 500, start_time=T0 - 400, end_time=T0 - 10, state=JobState.REQUEUED)
    site.history.ingest(batch(earlier), source_key=None)
    site.views = []
    for _ in range(3):
        site.now += LOST_S
        site.round()
    assert site.history.targets().latest(CLUSTER, [key]) == {}
    assert len(site.history.targets().asked(CLUSTER)) == 1


def test_a_promise_that_the_policy_has_forgotten_is_told_to_it_once(site):
    policy = load("chronus")
    site.queue(7)
    assert site.targets.seed(policy, {}) == {}
    site.round(site.admit())
    site.restart()
    site.queue(7)
    memory: Any = site.targets.seed(policy, {})
    assert set(memory["targets"]) == {name_of(site.key(7))}
    assert site.targets.seed(policy, {}) == memory  # the round to which it was given has failed
    assert site.targets.seed(policy, memory) is memory
    assert site.targets.seed(policy, {"version": 1}) == {"version": 1}  # it knows better by now


def test_how_plans_were_made_is_counted(site):
    site.queue(7)
    memory: Any = {"version": 1, "last": {"way": "greedy", "gap": 0.0}}
    told = site.round(site.admit(), memory=memory)
    assert told.head["solver"] == {"way": "greedy"}
    site.round(site.admit(), memory={"version": 1, "policies": {"chronus": memory}})
    assert site.targets.facts().rounds == {"greedy": 2}
