"""Whatever happens to a cluster, in any order: what energy saving must never do, and always does.

Random lives: jobs come and go, administrators switch nodes, orders are lost, clocks are set, the
daemon is killed between any two steps.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.saving import INTERVAL_S, Killed, Saving
from support.sleeping_slurm import BOOT_S, SleepingSlurm

from gsched.engine.faults import CES_POINTS, FaultPoint
from gsched.errors import TryAgainError, UnavailableError
from gsched.model.node_power import NodeVerb, PowerPhase

NODES = 5

events = st.one_of(
    st.tuples(st.just("rounds"), st.integers(1, 40)),
    st.tuples(st.just("submit"), st.integers(1, 3)),
    st.tuples(st.just("end"), st.integers(0, 9)),
    st.tuples(st.just("admin-down"), st.integers(0, NODES - 1)),
    st.tuples(st.just("admin-up"), st.integers(0, NODES - 1)),
    st.tuples(st.just("drain"), st.integers(0, NODES - 1)),
    st.tuples(st.just("undrain"), st.integers(0, NODES - 1)),
    st.tuples(st.just("breaks"), st.integers(0, NODES - 1)),
    st.tuples(st.just("loses"), st.integers(0, NODES - 1)),
    st.tuples(st.just("clock"), st.sampled_from((-100_000, -3600, 3600, 100_000))),
    st.tuples(st.just("kill"), st.integers(0, len(CES_POINTS) - 1)),
    st.tuples(st.just("restart"), st.just(0)),
    st.tuples(st.just("helper"), st.sampled_from((0, 1, 2))),
    st.tuples(st.just("halt"), st.booleans()),
)


class Life:
    def __init__(self) -> None:
        self.saving = Saving(SleepingSlurm(NODES), min_idle_s=120, hold_s=300, period_s=60)
        self.slurm = self.saving.slurm
        self.names = list(self.slurm.machines)
        self.by_others: set[str] = set()
        self.saving.helper.before = self._check_request

    def _check_request(self) -> None:
        """What is asked of the helper is nobody else's, and never needless."""
        verb, nodes = self.saving.helper.asked[-1]
        assert self.saving.may_act
        for name in nodes:
            machine = self.slurm.machines[name]
            assert "DRAIN" not in machine.flags
            assert name not in self.by_others, (verb, name)
            assert machine.job is None
            assert machine.power == ("up" if verb == "power-down" else "off")
        for entry in self.saving.log.unsettled():
            if entry.order.node in nodes:  # written down before it is sent
                break
        else:
            raise AssertionError("sent without an intent")

    def do(self, what: str, number: int) -> None:
        getattr(self, what.replace("-", "_"))(number)

    def rounds(self, number: int) -> None:
        for _ in range(number):
            try:
                self.saving.round()
            except Killed:
                self.saving.on_point = lambda _point: None
                self.saving.restart()
            self.slurm.pass_time(INTERVAL_S)
            self._others()

    def _others(self) -> None:
        """A node that another hand put to sleep is that hand's until it is up again."""
        self.by_others = {n for n in self.by_others if self.slurm.machines[n].power != "up"}

    def submit(self, nodes: int) -> None:
        self.slurm.submit(nodes)

    def end(self, number: int) -> None:
        if jobs := sorted(self.slurm.rows):
            self.slurm.end(jobs[number % len(jobs)])

    def admin_down(self, number: int) -> None:
        name = self.names[number]
        if self.slurm.machines[name].power == "up":
            self.slurm.order([name], "power_down_asap")
            if self.slurm.machines[name].power == "told":
                self.by_others.add(name)

    def admin_up(self, number: int) -> None:
        self.slurm.order([self.names[number]], "power_up")

    def drain(self, number: int) -> None:
        self.slurm.machines[self.names[number]].flags = ("DRAIN",)

    def undrain(self, number: int) -> None:
        self.slurm.machines[self.names[number]].flags = ()

    def breaks(self, number: int) -> None:
        self.slurm.machines[self.names[number]].breaks = True

    def loses(self, number: int) -> None:
        self.slurm.loses ^= {self.names[number]}

    def clock(self, by_s: int) -> None:
        self.slurm.set_by += by_s

    def kill(self, number: int) -> None:
        def kill(point: FaultPoint) -> None:
            if point is CES_POINTS[number]:
                raise Killed

        self.saving.on_point = kill

    def restart(self, _: int) -> None:
        self.saving.restart()

    def helper(self, number: int) -> None:
        errors = (None, UnavailableError("no helper"), TryAgainError("no answer"))
        self.saving.helper.error = errors[number]

    def halt(self, is_halted: bool) -> None:
        self.saving.may_act = not is_halted


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(events, max_size=30))
def test_any_life(story):
    life = Life()
    for what, number in story:
        life.do(what, number)
    saving, slurm = life.saving, life.slurm
    assert saving.saver.document().get("problem", "") == ""
    # all is well again, and quiet for long
    saving.helper.error, saving.may_act, slurm.loses = None, True, set()
    saving.on_point = lambda _point: None
    for machine in slurm.machines.values():
        machine.breaks, machine.flags = False, ()
        if machine.power == "down":
            machine.power, machine.reason, machine.job = "up", "", None
    for job in list(slurm.rows):
        slurm.end(job)
    life.rounds(3 * 86400 // (INTERVAL_S * 20))
    assert saving.saver.document()["problem"] == ""
    assert not saving.log.unsettled()
    _check_log(saving)
    # jobs still get all nodes that there are: Slurm wakes what sleeps
    slurm.submit(NODES)
    life.rounds(2 + 2 * BOOT_S // INTERVAL_S)
    assert slurm.powers() == "U" * NODES


def _check_log(saving: Saving) -> None:
    spans = saving.log.spans(0, 2**40)
    assert all(s.end is None or s.end >= s.start for s in spans)
    still_open = Counter(s.node for s in saving.log.open_spans())
    assert not still_open or max(still_open.values()) == 1
    powers = {
        "off": PowerPhase.ASLEEP, "falling": PowerPhase.FALLING,
        "told": PowerPhase.FALLING, "rising": PowerPhase.WAKING,
    }  # fmt: skip
    at_last = {s.node: s.phase for s in saving.log.open_spans()}
    saving.round()
    at_last = {s.node: s.phase for s in saving.log.open_spans()}
    shown = {n: powers[m.power] for n, m in saving.slurm.machines.items() if m.power in powers}
    assert at_last == shown
    last = [e.order for e in saving.orders() if e.order.verb is NodeVerb.WAKE]
    assert len(last) <= 200
