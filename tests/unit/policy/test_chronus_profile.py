"""A deadline of a job that its profile runs alone speak for: it is answered after them."""

from __future__ import annotations

from dataclasses import replace

from support.jobs import T0, snapshot, view

from gsched.model.cluster import NodeView
from gsched.model.decision import Admit, Refuse
from gsched.model.job import Prediction, PredictionKind, Wants
from gsched.policy.chronus import Chronus

NOW = T0 + 100
HOUR = 3600
KNOBS = {"lease_s": 100, "grace_s": 0, "margin_s": 0, "profile_s": 0, "room": 0, "quantile": 0.9}


def asks(*, profile_s=None, awaits=False, predicted_s=None):
    """A job of four GPUs with a limit of a day, that is to have ended in six hours."""
    job = view(7, gpus=4, time_limit_s=24 * HOUR, duration_s=predicted_s)
    wants = Wants(deadline=NOW + 6 * HOUR, checkpoint=True, profiles=(21,))
    told = ()
    if profile_s is not None:
        told = (
            Prediction(PredictionKind.SPEED, 1.0, (), "profile", "profile", 0, NOW),
            Prediction(PredictionKind.ITERATIONS, profile_s, (), "profile", "profile", 0, NOW),
        )
    made = (*job.predictions, *told)
    return replace(job, wants=wants, predictions=made, awaits_profile=awaits)


def answers(job):
    node = NodeView("n0", "idle", (), 64, 0, (("", 8),), ("gpu",))
    state = replace(snapshot([job]), nodes=(node,), as_of=NOW)
    decision = Chronus(**KNOBS).decide(state, {}, NOW)
    found = [a for a in decision.actions if isinstance(a, Admit | Refuse)]
    return found, decision


def test_it_is_not_answered_before_they_are_over():
    found, decision = answers(asks(awaits=True))
    assert found == []
    assert decision.memory["targets"] == decision.memory["refused"] == {}
    (key,) = decision.order  # it stands among the others meanwhile
    assert decision.reasons[key].code == "chronus.awaits-profile"


def test_their_speed_makes_a_promise_that_its_limit_would_not():
    (refused,), _ = answers(asks())
    assert isinstance(refused, Refuse)
    (promised,), _ = answers(asks(profile_s=2.0 * HOUR))
    assert isinstance(promised, Admit)
    assert 4 * 2 * HOUR < promised.budget_gpu_s < 4 * 4 * HOUR


def test_history_goes_before_a_profile():
    (refused,), _ = answers(asks(profile_s=60.0, predicted_s=10.0 * HOUR))
    assert isinstance(refused, Refuse)
