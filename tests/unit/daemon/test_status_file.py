"""What the daemon says of a job, and which attempt it is about."""

from __future__ import annotations

from dataclasses import replace

from support.jobs import T0, view

from gsched.daemon.status_file import job_document
from gsched.model.decision import Decision, Rank, Reason
from gsched.model.job import Capability, Exclusion

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
