"""Energy saving where something goes wrong: lost orders, dead helpers, set clocks, kills."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from support.saving import INTERVAL_S, Killed, Saving, asleep
from support.sleeping_slurm import HelperOf, SleepingSlurm

from gsched.engine.faults import CES_POINTS, FaultPoint
from gsched.errors import (
    LostLeadershipError,
    PermissionDeniedError,
    TryAgainError,
    UnavailableError,
)
from gsched.model.journal import ChangeState
from gsched.model.node_power import PowerCause, PowerPhase
from gsched.power import records
from gsched.power.state import Failure, Stopped, Store

CONFIRMED, VOID = ChangeState.CONFIRMED, ChangeState.VOID


# -- what goes wrong --------------------------------------------------------------------------


def test_an_order_that_slurm_forgets_is_lost_and_tried_again_with_longer_pauses_and_a_bound():
    saving = Saving(spare=7, failure_memory_s=86400)
    names = list(saving.slurm.machines)
    saving.slurm.loses = set(names)
    saving.rounds(3 * 3600)
    tries = {name: saving.slurm.machines[name].orders for name in names}
    assert max(map(len, tries.values())) == 5
    assert {state for *_, state in saving.told()} == {"void"}
    times = [e.order.decided_at for e in saving.orders() if e.order.node == "gn01"]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert gaps == sorted(gaps)
    assert "gn01" in saving.saver.document()["given_up"]
    assert sum(map(len, tries.values())) <= 5 * len(names)


def test_a_wake_that_is_lost_is_given_again_and_the_job_gets_its_node():
    saving = asleep()
    saving.slurm.loses = set(saving.slurm.machines)
    saving.slurm.submit(nodes=1)
    saving.slurm.submit(nodes=1)
    saving.round()  # the first has the spare, the second wakes a node: CES wakes another spare
    saving.rounds(90)
    lost = saving.told(VOID)
    assert [verb for verb, *_ in lost] == ["wake"]
    saving.slurm.loses = set()
    saving.rounds(600)
    assert saving.told(CONFIRMED)[-1][0] == "wake"
    assert saving.slurm.powers().count("U") == 3


def test_a_node_that_does_not_wake_is_left_and_after_too_many_nothing_sleeps():
    saving = asleep(max_failures=2, hold_s=60)
    for name in ("gn01", "gn02"):
        saving.slurm.machines[name].breaks = True
    number = saving.slurm.submit()
    saving.slurm.run(number, ["gn01", "gn02"])
    saving.rounds(300)
    assert saving.slurm.powers().startswith("DD")
    assert saving.saver.document()["wake_failures"] == 2
    failed = [s for s in saving.log.spans(0, 2**40) if s.outcome == "failed"]
    assert {s.node for s in failed} == {"gn01", "gn02"}
    asked = len(saving.helper.asked)
    for machine in saving.slurm.machines.values():  # an administrator has mended all
        machine.power, machine.breaks, machine.reason, machine.job = "up", False, "", None
    saving.slurm.rows.clear()
    saving.rounds(3000)
    assert len(saving.helper.asked) == asked
    assert saving.pool["reason"]["code"] == "ces.nodes-failed-to-wake"
    assert saving.pool["excluded"] == 2


def broken_pair() -> Saving:
    """Two nodes have failed to wake, which is the limit; an administrator has mended them."""
    saving = asleep(max_failures=2, hold_s=60)
    for name in ("gn01", "gn02"):
        saving.slurm.machines[name].breaks = True
    saving.slurm.run(saving.slurm.submit(), ["gn01", "gn02"])
    saving.rounds(300)
    for machine in saving.slurm.machines.values():
        machine.power, machine.breaks, machine.reason, machine.job = "up", False, "", None
    saving.slurm.rows.clear()
    saving.rounds(60)
    assert saving.saver.document()["wake_failures"] == 2
    return saving


def test_an_administrator_who_clears_failures_ends_the_stop():
    for is_restarted in (False, True):
        saving = broken_pair()
        saving.power_state = records.cleared(saving.power_state, {"gn02"}, at=saving.slurm.time)
        if is_restarted:
            saving.restart()
        saving.rounds(3000)
        assert saving.saver.document()["wake_failures"] == 1
        assert saving.slurm.powers().startswith("UO")  # the other one is still left alone
        saving.power_state = records.cleared(saving.power_state, None, at=saving.slurm.time)
        saving.rounds(3000)
        assert saving.saver.document()["wake_failures"] == 0
        assert saving.slurm.powers().count("O") == 7


def test_where_suspending_goes_on_failed_nodes_are_left_and_count_no_more():
    saving = broken_pair()
    saving.power_state = records.going_on(saving.power_state, saving.slurm.time)
    saving.rounds(3000)
    assert saving.saver.document()["wake_failures"] == 0
    assert saving.slurm.powers().startswith("UU")
    assert saving.slurm.powers().count("O") == 5


def test_a_helper_that_hangs_is_no_fault_of_the_nodes():
    saving = Saving()
    saving.helper.error = TryAgainError("no answer in time")
    saving.rounds(12 * 3600)
    assert len(saving.helper.asked) > 6
    assert {state for *_, state in saving.told()} == {"void"}
    assert saving.saver.document()["given_up"] == {}
    saving.helper.error = None
    saving.rounds(3900)
    assert saving.slurm.powers().count("O") == 7


def test_a_node_that_came_back_after_a_failed_order_is_left_and_counts_no_more():
    saving = asleep(max_failures=1, hold_s=60)
    saving.slurm.run(saving.slurm.submit(), ["gn01"])
    saving.round()
    failure = Failure("gn01", "resume", saving.slurm.time, 3, "no answer")
    saving.power_state = replace(saving.power_state, failures=(failure,))
    saving.rounds(10)
    assert saving.saver.document()["wake_failures"] == 1
    saving.rounds(120)
    assert saving.slurm.powers()[0] == "U"
    assert (saving.saver.document()["wake_failures"], saving.pool["excluded"]) == (0, 1)


def test_a_failure_after_the_clearing_counts():
    saving = asleep(max_failures=1, hold_s=60)
    saving.power_state = records.cleared(saving.power_state, None, at=saving.slurm.time)
    saving.slurm.machines["gn01"].breaks = True
    saving.slurm.run(saving.slurm.submit(), ["gn01"])
    saving.rounds(300)
    assert saving.saver.document()["wake_failures"] == 1


def test_where_what_gsched_power_keeps_cannot_be_read_nothing_is_put_to_sleep(tmp_path, caplog):
    saving = asleep(hold_s=60)
    saving.slurm.submit(nodes=3)
    saving.rounds(300)
    saving.slurm.rows.clear()
    for machine in saving.slurm.machines.values():
        machine.job = None
    store = Store(tmp_path)
    failure = Failure("gn01", "suspend", saving.slurm.time, 3, "no answer")
    store.change(lambda state: replace(state, failures=(failure,)))
    saving.read_power = store.glance
    saving.round()
    before = saving.slurm.powers()
    assert before.count("U") >= 3
    good = store.file.read_bytes()
    store.file.write_text("{")
    saving.rounds(3000)
    assert saving.slurm.powers() == before
    assert "cannot be read" in saving.saver.document()["stopped"]
    assert saving.pool["reason"]["code"] == "ces.suspending-stopped"
    assert saving.pool["excluded"] == 1  # what was known of failures stays
    assert caplog.text.count("cannot be read") == 1
    store.file.write_bytes(good)
    saving.rounds(3000)
    assert saving.saver.document()["stopped"] == ""
    assert saving.slurm.powers().count("O") == 6


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"exclude_nodes": ("gn[07-10]",)}, "ces.exclude_nodes: Slurm knows no node gn09, gn10"),
        ({"partitions": ("gpu", "gpus")}, "ces.partitions: Slurm knows no partition gpus"),
        ({"least_idle": {"debgu": 2}}, "ces.least_idle: Slurm knows no partition debgu"),
    ],
)
def test_while_a_name_is_unknown_nothing_is_ordered(caplog, table, why):
    saving = Saving(**table)
    saving.rounds(600)
    assert not saving.helper.asked
    told = saving.saver.document()
    assert (told["why"], told["acting"]) == (why, False)
    assert caplog.text.count(why) == 1
    assert {(verb, state) for verb, _, state in saving.told()} == {("sleep", "observed")}
    saving.configure(exclude_nodes=(), partitions=(), least_idle={})
    saving.rounds(600)
    assert saving.saver.document()["why"] == ""
    assert saving.slurm.powers().count("O") == 7


def test_a_job_that_begins_after_the_look_keeps_its_node_and_is_no_fault_of_it():
    saving = Saving(spare=0, max_sleep=1, period_s=30)
    began: list[int] = []

    def begin() -> None:  # another one each time, on the node that is asked for
        verb, (name,) = saving.helper.asked[-1]
        assert verb == "power-down"
        began.append(saving.slurm.submit())
        saving.slurm.run(began[-1], [name])

    saving.helper.before = begin
    saving.round()
    assert saving.slurm.powers() == "U" * 8
    for _ in range(8):  # it is idle again, and again gets a job within the moment
        for number in began:
            saving.slurm.end(number)
        began.clear()
        saving.slurm.pass_time(700)
        saving.round()
    assert saving.told(ChangeState.REJECTED)
    assert saving.saver.document()["given_up"] == {}
    assert not any(machine.orders for machine in saving.slurm.machines.values())


def test_what_gsched_power_has_given_up_is_left_alone_and_its_stop_stops_all():
    saving = Saving(spare=0)
    failure = Failure("gn02", "suspend", saving.slurm.time, 3, "no answer")
    saving.power_state = replace(saving.power_state, failures=(failure,))
    saving.rounds(120)
    assert saving.slurm.powers() == "OUOOOOOO"
    stopped = Saving(spare=0)
    stopped.power_state = replace(stopped.power_state, stopped=Stopped(0.0, "5 failures"))
    stopped.rounds(120)
    assert not stopped.helper.asked
    assert stopped.pool["reason"] == {
        "code": "ces.suspending-stopped",
        "params": {"why": "5 failures"},
    }


def test_a_helper_that_is_gone_is_asked_less_and_less_often_and_told_of_once(caplog):
    saving = Saving()
    saving.helper.error = UnavailableError("no helper runs")
    saving.rounds(3600)
    assert 3 <= len(saving.helper.asked) <= 8
    assert caplog.text.count("no helper runs") == 1
    assert {state for *_, state in saving.told()} == {"rejected"}
    assert saving.saver.document()["why"] == "gsched-helper: no helper runs"
    saving.helper.error = None
    saving.rounds(3900)
    assert saving.slurm.powers().count("O") == 7
    assert saving.saver.document()["why"] == ""


def test_a_helper_that_refuses_does_not_count_against_the_nodes():
    saving = Saving(period_s=30)
    saving.helper.error = PermissionDeniedError("helper.verbs does not allow power-down")
    saving.rounds(4 * 3600)
    saving.helper.error = None
    saving.rounds(4000)
    assert saving.slurm.powers().count("O") == 7


def test_an_answer_that_came_too_late_is_settled_by_looking():
    saving = Saving()
    saving.helper.error = TryAgainError("the helper gave no answer")
    saving.helper.before = lambda: saving.slurm.order(["gn01", "gn02"], "power_down_asap")
    saving.round()
    assert {state for *_, state in saving.told()} == {"intent"}
    saving.helper.before, saving.helper.error = (lambda: None), None
    saving.slurm.pass_time(INTERVAL_S)
    saving.rounds(60)
    assert [(n, s) for _, n, s in saving.told()][:7] == [
        *((f"gn0{n}", "confirmed") for n in (1, 2)),
        *((f"gn0{n}", "void") for n in range(3, 8)),
    ]
    assert {saving.log.open_spans()[i].cause for i in (0, 1)} == {PowerCause.CES}


def test_a_process_that_stood_still_does_not_send_what_it_decided():
    saving = Saving()
    saving.on_point = lambda point: (
        saving.slurm.pass_time(600) if point is FaultPoint.CES_DECIDED else None
    )
    saving.round()
    assert not saving.helper.asked
    assert {e.detail for e in saving.orders()} == {"not sent: it was decided too long ago"}


def test_a_clock_that_is_set_back_between_decision_and_order_voids_it():
    saving = Saving()

    def set_back(point: FaultPoint) -> None:
        if point is FaultPoint.CES_INTENT_RECORDED:
            saving.slurm.set_by = -5000

    saving.on_point = set_back
    saving.round()
    assert not saving.helper.asked


def test_a_halt_is_obeyed_before_every_request():
    saving = Saving()

    def halt(point: FaultPoint) -> None:
        saving.may_act = saving.may_act and point is not FaultPoint.CES_INTENT_RECORDED

    saving.on_point = halt
    saving.rounds(600)
    assert not saving.helper.asked
    assert saving.told(VOID)
    assert saving.saver.document()["why"] == "the daemon does not act"


def test_another_leader_ends_it():
    saving = Saving()
    saving.round()
    saving.log.is_lost = True
    saving.slurm.pass_time(INTERVAL_S)
    with pytest.raises(LostLeadershipError):
        saving.round()


def test_a_slurm_that_does_not_answer_is_told_of_once_and_rounds_go_on(caplog):
    saving = Saving()
    nodes = saving.slurm.read_nodes
    saving.slurm.read_nodes = lambda: (_ for _ in ()).throw(UnavailableError("no slurmctld"))
    saving.restart()
    saving.rounds(300)
    assert caplog.text.count("no slurmctld") == 1
    told = {"mode": "act", "acting": False, "problem": "no slurmctld"}
    assert saving.saver.document() == told
    saving.slurm.read_nodes = nodes
    saving.restart()
    saving.rounds(60)
    assert saving.saver.document()["problem"] == ""


def test_a_fault_of_ours_does_not_end_the_rounds(monkeypatch, caplog):
    saving = Saving()
    saving.round()
    monkeypatch.setattr(saving.demand, "outlook", lambda *_: 1 / 0)
    saving.rounds(90)
    assert "ZeroDivisionError" in saving.saver.document()["problem"]
    assert caplog.text.count("a fault of gsched") == 1


# -- clocks, restarts, changes of the cluster ---------------------------------------------------


@pytest.mark.parametrize("by_s", [7200, -7200, 10**8, -(10**8)])
def test_no_node_is_taken_for_idle_for_long_because_the_clock_was_set(by_s):
    saving = Saving(spare=0)
    for machine in saving.slurm.machines.values():
        machine.last_busy = saving.slurm.time - 10
    saving.round()
    saving.slurm.pass_time(INTERVAL_S)
    saving.slurm.set_by = by_s
    saving.rounds(300)
    assert not saving.helper.asked
    if by_s > 0:
        saving.rounds(900)
        assert saving.slurm.powers() == "O" * 8


def test_a_clock_that_was_ahead_holds_nothing_for_long():
    saving = asleep(hold_s=600)
    saving.slurm.set_by = 10**8
    saving.slurm.submit(nodes=3)
    saving.rounds(120)
    saving.slurm.end(1)
    saving.slurm.set_by = 0
    saving.rounds(3000)
    assert saving.slurm.powers().count("O") == 7


@pytest.mark.parametrize("point", CES_POINTS)
@pytest.mark.parametrize("verb", ["sleep", "wake"])
def test_killed_at_any_point_the_next_process_goes_on(point, verb):
    saving = Saving() if verb == "sleep" else asleep()
    if verb == "wake":
        saving.slurm.submit(nodes=3)

    def kill(at: FaultPoint) -> None:
        if at is point:
            raise Killed

    saving.on_point = kill
    with pytest.raises(Killed):
        saving.round()
    saving.on_point = lambda _point: None
    saving.slurm.pass_time(INTERVAL_S)
    saving.restart()
    saving.rounds(600)
    assert not saving.log.unsettled()
    if verb == "sleep":
        assert saving.slurm.powers().count("O") == 7
        assert {s.cause for s in saving.log.open_spans()} == {PowerCause.CES}
    else:
        assert saving.slurm.powers().count("U") == 4
    for machine in saving.slurm.machines.values():  # nobody was told twice
        assert len(machine.orders) <= 2


def test_a_restart_knows_who_put_nodes_to_sleep_and_how_long_they_take():
    saving = asleep()
    number = saving.slurm.submit(nodes=3)
    saving.rounds(120)
    saving.slurm.end(number)
    before = saving.pool["wake_lead_s"]
    saving.restart()
    saving.rounds(300)
    assert saving.pool["wake_lead_s"] == before <= 60
    assert saving.pool["excluded"] == 0
    assert saving.pool["reason"]["code"] == "ces.held-after-wake-up"


def test_a_damaged_memory_is_begun_anew(caplog):
    saving = Saving()
    saving.log.remember({"last_wake": ["no table"]})
    saving.rounds(120)
    assert "what was remembered is not used" in caplog.text
    assert saving.slurm.powers().count("O") == 7


def test_nodes_come_and_go_with_slurm_conf():
    saving = asleep()
    for name in ("gn01", "gn02"):
        del saving.slurm.machines[name]
    saving.rounds(60)
    assert saving.pool["nodes"] == 6
    assert len(saving.log.open_spans()) == 7  # as yet one answer may have been incomplete
    saving.rounds(900)
    ended = [s for s in saving.log.spans(0, 2**40) if s.node in ("gn01", "gn02")]
    assert all(s.end is not None for s in ended)
    more = SleepingSlurm(2, prefix="new")
    saving.slurm.machines |= more.machines
    saving.settings = replace(saving.settings, helper_nodes=frozenset(saving.slurm.machines))
    saving.helper = HelperOf(saving.slurm)
    saving.restart()
    saving.rounds(700)
    assert saving.slurm.machines["new01"].power == "off"


def test_a_node_that_vanished_under_an_order_voids_it():
    saving = Saving()
    saving.round()
    del saving.slurm.machines["gn01"]
    saving.slurm.pass_time(INTERVAL_S)
    saving.rounds(60)
    assert ("sleep", "gn01", "void") in saving.told()
    assert not saving.log.unsettled()


def test_names_that_no_node_can_have_are_never_sent():
    slurm = SleepingSlurm(2)
    odd = SleepingSlurm(1, prefix="-x;reboot").machines
    slurm.machines |= odd
    saving = Saving(spare=0)
    saving.slurm.machines |= odd
    saving.settings = replace(saving.settings, helper_nodes=None)
    saving.restart()
    saving.rounds(120)
    assert not any("reboot" in node for _, nodes in saving.helper.asked for node in nodes)
    assert saving.slurm.powers() == "OOOOOOOOU"


def test_long_lists_go_in_parts_that_the_helper_takes():
    slurm = SleepingSlurm(60, prefix="a-node-with-quite-a-long-name-in-a-rack-")
    saving = Saving(slurm, spare=0)
    saving.rounds(120)
    assert len(saving.helper.asked) > 1
    assert slurm.powers() == "O" * 60


def test_without_a_forecast_nothing_sleeps_and_jobs_still_wake_nodes():
    saving = Saving()
    saving.demand.has_forecast = False
    saving.rounds(300)
    assert not saving.helper.asked
    assert saving.pool["reason"]["code"] == "ces.no-forecast"


@pytest.mark.parametrize("verb", ["sleep", "wake"])
def test_an_order_that_slurm_does_not_show_yet_is_not_given_again(verb):
    saving = Saving(spare=7) if verb == "sleep" else asleep()
    saving.slurm.loses = set(saving.slurm.machines)
    if verb == "wake":
        saving.slurm.submit(nodes=3)
    given = []
    for _ in range(3):  # within confirm_s
        saving.round()
        given.append(sum(e.order.verb.value == verb for e in saving.orders()))
        saving.slurm.pass_time(10)
        saving.configure(period_s=1)
    assert given == [1, 1, 1]
    state = "falling" if verb == "sleep" else "waking"
    assert saving.pool[state] == 1


def test_who_put_nodes_to_sleep_is_known_also_after_a_log_that_failed(monkeypatch):
    saving = Saving()
    saving.round()
    saving.slurm.pass_time(INTERVAL_S)

    def fail(_spans: object) -> None:
        raise UnavailableError("the database does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(saving.log, "keep_spans", fail)
        saving.round()
    assert not saving.log.open_spans()
    saving.slurm.pass_time(INTERVAL_S)
    saving.round()
    assert {s.cause for s in saving.log.open_spans()} == {PowerCause.CES}
    assert saving.told(CONFIRMED)


def test_half_an_answer_of_slurm_makes_nobody_a_stranger():
    saving = asleep()
    machines = dict(saving.slurm.machines)
    for name in ("gn01", "gn02", "gn03"):
        del saving.slurm.machines[name]
    saving.round()
    saving.slurm.pass_time(INTERVAL_S)
    saving.slurm.machines = machines
    saving.round()
    assert (saving.pool["asleep"], saving.pool["excluded"]) == (7, 0)


def test_jobs_that_can_begin_on_nodes_that_are_left_alone_wake_nobody():
    saving = Saving(spare=0, exclude_nodes=("gn[07-08]",))
    saving.rounds(120)
    assert saving.slurm.powers() == "OOOOOOUU"
    saving.slurm.submit(nodes=2)
    saving.saver.after_round(saving.slurm.look(), saving.slurm.config(), lambda: True)
    assert saving.pool["wanted"] == 0
    assert not [order for order in saving.told() if order[0] == "wake"]
    saving.slurm.submit(nodes=1)
    saving.slurm.pass_time(INTERVAL_S)
    saving.saver.after_round(saving.slurm.look(), saving.slurm.config(), lambda: True)
    assert saving.pool["wanted"] == 1
    assert len([order for order in saving.told() if order[0] == "wake"]) == 1


@pytest.mark.parametrize(("age_s", "counts"), [(60, 1), (86401, 0), (-60, 0)])
def test_failures_of_gsched_power_count_for_as_long_as_the_site_says(age_s, counts):
    saving = Saving()
    at = saving.slurm.time - age_s
    failures = (
        Failure("gn01", "resume", at, 3, "no answer"),
        Failure("gn02", "suspend", at, 3, ""),
    )
    saving.power_state = replace(saving.power_state, failures=failures)
    saving.round()
    assert saving.saver.document()["wake_failures"] == counts
    assert saving.pool["excluded"] == 2  # until an administrator has looked


def test_a_wake_up_that_a_short_restart_hid_is_known_to_be_over():
    saving = asleep()
    saving.slurm.submit(nodes=3)
    saving.round()
    saving.restart()
    saving.slurm.pass_time(INTERVAL_S)
    saving.round()
    woken = [s for s in saving.log.spans(0, 2**40) if s.phase is PowerPhase.WAKING]
    assert {s.outcome for s in woken} == {"awake"}
    late = asleep()
    late.slurm.submit(nodes=3)
    late.round()
    late.restart()
    late.slurm.pass_time(901)
    late.round()
    woken = [s for s in late.log.spans(0, 2**40) if s.phase is PowerPhase.WAKING]
    assert {s.outcome for s in woken} == {"unknown"}


def test_a_daemon_whose_clock_lies_before_the_nodes_boots_goes_on():
    saving = Saving()
    saving.slurm.set_by = -(10**8)
    saving.rounds(60)
    assert saving.saver.document()["problem"] == ""
    assert not saving.helper.asked
