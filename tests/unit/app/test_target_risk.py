"""How a promise stands while its job is in the queue, and who is warned when."""

from __future__ import annotations

import pytest
from support.jobs import T0
from support.target_site import DEADLINE, PLAN, opened

from gsched.app.daemon_targets import BLIP_ROUNDS
from gsched.daemon.target_document import NOTHING_TOLD
from gsched.model.decision import Reason
from gsched.model.job import MAX_DEADLINE, Capability
from gsched.model.target_records import Risk, TargetState


@pytest.fixture
def site(tmp_path, sqlite_template):
    with opened(tmp_path, sqlite_template) as made:
        yield made


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


def test_who_is_late_while_the_daemon_only_observes_is_warned(site):
    site.queue(7)
    site.round(site.admit())
    for now in (DEADLINE, DEADLINE + 1, DEADLINE + 31):
        site.now = now
        site.round(acting=False)
    assert site.events() == ["standing", "late"]
    assert site.record().risk is Risk.LATE


def test_who_is_at_risk_is_warned_once(site):
    site.queue(7)
    site.round(site.admit())
    for _ in range(3):
        site.now += 400
        site.round(site.admit(probability=0.5))
    assert site.record().risk is Risk.AT_RISK
    assert site.events() == ["standing", "at-risk"]
    assert site.told()["target"]["warned"] == {"level": "at-risk", "time": T0 + 400}


def test_a_warning_tells_when_the_plan_ends_and_not_the_deadline_it_is_to_keep(site):
    site.queue(7)
    site.round(site.admit())
    site.now += 400
    site.round(site.admit(probability=0.5, finish_time=DEADLINE))
    event = site.history.targets().events(site.record())[-1]
    assert (event.what, event.finish_time) == ("at-risk", PLAN[-1].end_time)
    site.now += 2000
    site.round(site.admit(probability=0.95, finish_time=DEADLINE))
    site.now += 2000
    site.round(site.admit(probability=0.0, finish_time=MAX_DEADLINE, plan=()))
    event = site.history.targets().events(site.record())[-1]
    assert (event.what, event.finish_time) == ("at-risk", None)


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
