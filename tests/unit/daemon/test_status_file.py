"""What the daemon says of a job, and which attempt it is about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.jobs import T0, view
from support.requests import MemoryRequests

from gsched.daemon.forecast_book import NOTHING_FORESEEN, Edition
from gsched.daemon.requests import RequestBook, Sighting
from gsched.daemon.status_file import Bulletin, RoundNews, describe, job_document
from gsched.daemon.target_document import TargetsTold
from gsched.engine.round import RoundResult
from gsched.model.cluster import ClusterState
from gsched.model.decision import Admit, Decision, JsonValue, Rank, Reason
from gsched.model.job import Capability, Exclusion, JobState, Prediction
from gsched.model.jobtable import JobTable
from gsched.model.journal import RoundInfo
from gsched.model.ranks import RankTable, ReasonGroup, ReasonTable
from gsched.slurm.records import SlurmConfig

NOTHING = Decision(order={}, actions=(), reasons={}, memory={})


def test_a_job_of_which_nothing_is_said_has_its_attempt_alone():
    assert job_document(view(7), NOTHING) == {"submit_time": T0, "state": "PENDING"}


def test_the_attempt_is_the_present_one_not_the_jobs_first():
    requeued = replace(view(7), attempt=T0 + 500)
    assert requeued.first_submit == T0
    assert job_document(requeued, NOTHING)["submit_time"] == T0 + 500


def test_rank_reason_prediction_and_exclusion():
    kept_out = Exclusion(Capability.REORDER, "opted-out", "its owner asks for it")
    job = view(7, duration_s=40.0, exclusions=(kept_out,))
    rank, reason = Rank("gpu", 2, 3, key=1.0, level=0.0), Reason("why", {"n": 1})
    decision = replace(NOTHING, order={job.key: rank}, reasons={job.key: reason})
    assert job_document(job, decision) == {
        "submit_time": T0,
        "state": "PENDING",
        "rank": {"queue": "gpu", "position": 2, "of": 3},
        "reason": {"code": "why", "params": {"n": 1}},
        "excluded": {"code": "opted-out", "detail": "its owner asks for it"},
        "duration_s": {"mean": 40.0, "quantiles": [], "source": "test", "similar_jobs": 3},
    }


# -- a round that says the same ------------------------------------------------------------------


class Rounds:
    """Rounds over one and the same table of jobs, of which a test changes one thing at a time."""

    def __init__(self) -> None:
        self.table = JobTable.from_views([view(7), view(8, duration_s=40.0)])
        self.requests = RequestBook(MemoryRequests())
        self.comment("gs1{share}")
        self.rank = {"queue": [0, 0], "position": [1, 2], "out_of": [2, 2]}
        self.levels = [0.5, -0.5]
        self.why, self.seconds = "why", 1.0
        self.actions: tuple[Admit, ...] = ()
        self.facts: dict[str, Any] = {"policy": "qssf", "acting": True, "model_id": "m"}
        self.forecast = NOTHING_FORESEEN
        self.leases: dict[str, dict[str, JsonValue]] = {}
        self.fairness: dict[str, JsonValue] = {}
        self.targets = TargetsTold()
        self.config = SlurmConfig({})
        self.before: Bulletin | None = None

    def comment(self, text: str) -> None:
        """The comment of job 7."""
        self.requests.look([Sighting(view(7).key, "ann", text)], T0 + 9)

    def round(self) -> Bulletin:
        rows = np.arange(2)
        columns = {name: np.array(column) for name, column in self.rank.items()}
        levels = np.array(self.levels)
        order = RankTable(jobs=self.table, rows=rows, key=levels, level=levels, **columns)
        group = ReasonGroup(self.why, rows, {"n": np.full(2, self.seconds)})
        reasons = ReasonTable(self.table, (group,))
        decision = Decision(order, self.actions, reasons, {})
        state = ClusterState("c", T0, 1, (), (), (), self.table)
        info = RoundInfo("r", "c", T0, seq=1, **self.facts)
        result = RoundResult(info, state, decision, (), (), {}, 0)
        news = RoundNews(
            30.0, "act", leases=self.leases, fairness=self.fairness, targets=self.targets
        )
        self.before = describe(result, self.config, news, self.requests, self.before, self.forecast)
        return self.before


def test_a_round_that_says_the_same_makes_no_text_anew() -> None:
    rounds = Rounds()
    first = rounds.round()
    rounds.comment("gs1{share}")
    assert rounds.round().answers is first.answers


def _promise(rounds: Rounds) -> None:
    rounds.actions = (
        Admit(
            "a", view(7).key, attempt=T0, after_seq=0, valid_until=T0, undo=None,
            finish_time=T0 + 60, probability=0.9,
        ),
    )  # fmt: skip


CHANGES: dict[str, Callable[[Rounds], Any]] = {
    "a token that cannot be read": lambda r: r.comment("gs1{share} gs1{none}"),
    "another token of the same wants": lambda r: r.comment("gs1{share,new}"),
    "the jobs": lambda r: setattr(r, "table", JobTable.from_views([view(7), view(9)])),
    "a place": lambda r: r.rank.update(position=[2, 1]),
    "the number of places": lambda r: r.rank.update(out_of=[3, 3]),
    "a queue": lambda r: r.rank.update(queue=[1, 1]),
    "a reason": lambda r: setattr(r, "why", "other"),
    "the values of a reason": lambda r: setattr(r, "seconds", 2.0),
    "an action": _promise,
    "the policy": lambda r: r.facts.update(policy="fifo"),
    "the mode": lambda r: r.facts.update(acting=False),
    "a forecast": lambda r: setattr(r, "forecast", Edition(5, "pending")),
    "the model": lambda r: r.facts.update(model_id="n"),
    "a lease": lambda r: setattr(r, "leases", {"7": {"state": "requeued", "since": 5}}),
    "a target": lambda r: setattr(r, "targets", TargetsTold(jobs={"7": {"state": "late"}})),
    "what the cluster hides": lambda r: setattr(r, "config", SlurmConfig({"PrivateData": "jobs"})),
}


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_an_answer_is_made_of_makes_it_anew(what: str) -> None:
    rounds = Rounds()
    first = rounds.round()
    CHANGES[what](rounds)
    now = rounds.round()
    assert now.answers is not first.answers
    rounds.before = None
    assert now.jobs == rounds.round().jobs  # as if there had been no round before


def test_a_lease_is_told_with_its_job():
    rounds = Rounds()
    rounds.leases = {
        "8": {"state": "requeued", "since": 5},
        "99": {"state": "granted", "since": 5, "end_time": 9},  # is not in the queue any more
    }
    told = rounds.round().jobs
    assert told["8"]["lease"] == rounds.leases["8"]
    assert "lease" not in told["7"]
    assert set(told) == {"7", "8"}


def test_a_target_is_told_with_its_job_and_all_of_them_in_the_head():
    rounds = Rounds()
    documents = {"8": {"state": "late"}, "99": {"state": "late"}}  # 99 has left the queue
    rounds.targets = TargetsTold({"num_late": 2}, documents)
    bulletin = rounds.round()
    assert bulletin.head["targets"] == {"num_late": 2}
    assert bulletin.jobs["8"]["target"] == {"state": "late"}
    assert "target" not in bulletin.jobs["7"]
    assert set(bulletin.jobs) == {"7", "8"}


def test_a_reason_that_names_jobs_does_not_where_the_cluster_hides_them():
    reason = Reason("why", {"jobs": ["9"], "n": 1})
    decision = replace(NOTHING, reasons={view(7).key: reason})
    told = job_document(view(7), decision)["reason"]
    assert told == {"code": "why", "params": {"jobs": ["9"], "n": 1}}
    told = job_document(view(7), decision, private=True)["reason"]
    assert told == {"code": "why", "params": {"n": 1}}


def test_waiting_jobs_are_told_when_they_will_start_and_others_are_not() -> None:
    rounds = Rounds()
    runs = replace(view(8), state=JobState.RUNNING)
    rounds.table = JobTable.from_views([view(7), runs])
    start = {"start": {"median": T0 + 60}}
    rounds.forecast = Edition(5, "pending", {("7", T0): start, ("8", T0): start})
    told = rounds.round().jobs
    assert told["7"]["start"] == start["start"]
    assert "start" not in told["8"]
    assert "no_start" not in told["8"]


def test_of_a_run_time_people_see_median_and_interval_and_a_caution_that_counts() -> None:
    levels = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
    job = view(7, duration_s=40.0)
    known = replace(job.predictions[0], quantiles=tuple((p, 100 * p) for p in levels))

    def told(prediction: Prediction) -> Any:
        return job_document(replace(job, predictions=(prediction,)), NOTHING)["duration_s"]

    assert told(known)["quantiles"] == [[0.1, 10.0], [0.5, 50.0], [0.9, 90.0]]
    assert "caution" not in told(known)
    assert told(replace(known, caution=1.234))["caution"] == 1.23


def test_a_wrong_token_is_told_and_taken_back_though_the_job_is_the_same() -> None:
    rounds = Rounds()
    assert "request_problem" not in rounds.round().jobs["7"]
    rounds.comment("gs1{share} gs1{none}")
    assert rounds.round().jobs["7"]["request_problem"] == "more than one token"
    rounds.comment("gs1{share}")
    assert "request_problem" not in rounds.round().jobs["7"]


def test_how_accounts_stand_is_told_unless_the_cluster_hides_usage() -> None:
    rounds = Rounds()
    rounds.fairness = {"until": T0, "tenants": []}
    for private, head in (("none", rounds.fairness), ("usage,users", {"private": True})):
        rounds.config = SlurmConfig({"PrivateData": private})
        assert rounds.round().head["fairness"] == head


@pytest.mark.parametrize("private", ["jobs", "Jobs, usage", "usage, jobs"])
def test_however_private_data_is_spelt_jobs_are_hidden(private: str) -> None:
    rounds = Rounds()
    rounds.config = SlurmConfig({"PrivateData": private})
    head = rounds.round().head
    assert (head["private"], head["fairness"]) == (True, {"private": True})
