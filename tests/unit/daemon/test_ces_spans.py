"""Spans of nodes' power: who has brought a node into a phase, how it ended, what nobody saw."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.queue import node

from gsched.daemon.ces_sight import NodeSight, power_of, sights_of
from gsched.daemon.ces_spans import SpanBook
from gsched.model.node_power import NodeVerb, PowerCause, PowerPhase, PowerSpan
from gsched.policy.ces_state import NodePower
from gsched.slurm import parse_config

AWAKE, FALLING, ASLEEP, WAKING = (
    NodePower.AWAKE, NodePower.FALLING, NodePower.ASLEEP, NodePower.WAKING
)  # fmt: skip
CES, SLURM, OTHERS = PowerCause.CES, PowerCause.SLURM, PowerCause.OTHERS
T = 10_000


def sight(power: NodePower = AWAKE, **facts) -> NodeSight:
    given = {
        "is_running": False, "is_down": False, "failed_to_wake": False, "boot_time": 1,
        "last_busy_time": T - 50,
    } | facts  # fmt: skip
    return NodeSight("n1", "pool", power, view=node("n1"), flags=frozenset(), **given)


class Story:
    """Looks at one node, 30 s apart."""

    def __init__(self, *spans: PowerSpan) -> None:
        self.book = SpanBook([s for s in spans if s.end is None], spans)
        self.now = T
        self.last: int | None = T - 30
        self.kept: dict[tuple[PowerPhase, int], PowerSpan] = {}
        self.by_slurm = 0

    def see(
        self, power: NodePower = AWAKE, order: NodeVerb | None = None, job="", still_on=(), **facts
    ):
        orders = {"n1": order} if order else {}
        jobs = {"n1": job} if job else {}
        sights = [sight(power, is_running=bool(job), **facts)]
        news = self.book.see(self.now, self.last, sights, orders, jobs, self.suspend_s, still_on)
        self.kept |= {(s.phase, s.start): s for s in news.spans}
        self.by_slurm += news.woken_by_slurm.get("pool", 0)
        self.last, self.now = self.now, self.now + 30
        return self

    suspend_s: int | None = 8_640_000

    @property
    def told(self) -> list[tuple]:
        return [
            (s.phase.value, s.start - T, s.end - T if s.end is not None else None, s.cause.value,
             s.outcome, s.job)
            for s in self.kept.values()
        ]  # fmt: skip


def test_from_an_order_to_sleep_to_an_order_to_wake():
    story = Story().see().see(FALLING, NodeVerb.SLEEP).see(FALLING).see(ASLEEP).see(ASLEEP)
    story.see(WAKING, NodeVerb.WAKE).see(AWAKE)
    assert story.told == [
        ("falling", 30, 90, "ces", "", ""),
        ("asleep", 90, 150, "ces", "", ""),
        ("waking", 150, 180, "ces", "awake", ""),
    ]
    assert story.book.open == {}
    assert story.book.wake_lead_s("pool", 300) == 300  # one wake-up says nothing
    assert story.book.power_cycles["n1"] == 1
    assert story.book.woken_at("n1") == (T + 180, CES)
    assert story.by_slurm == 0


def test_a_job_wakes_it():
    story = (
        Story().see(ASLEEP, NodeVerb.SLEEP).see(WAKING, job="7").see(WAKING, job="7").see(job="7")
    )
    assert story.told[-1] == ("waking", 30, 90, "slurm", "awake", "7")
    assert story.by_slurm == 1


def test_a_wake_up_that_began_and_ended_between_two_looks():
    story = Story().see(ASLEEP, NodeVerb.SLEEP).see(ASLEEP).see(AWAKE, job="8", boot_time=T + 40)
    assert story.told == [
        ("asleep", 0, 30, "ces", "", ""),
        ("waking", 30, 60, "slurm", "awake", "8"),
    ]
    assert story.by_slurm == 1
    assert story.see(AWAKE, job="8").by_slurm == 1


def test_a_node_that_was_told_to_sleep_and_did_not_has_not_woken():
    story = Story().see(FALLING, NodeVerb.SLEEP).see(AWAKE)
    assert story.told == [("falling", 0, 30, "ces", "", "")]
    booted = Story().see(FALLING, NodeVerb.SLEEP).see(AWAKE, boot_time=T + 20)
    assert booted.told[-1] == ("waking", 0, 30, "others", "awake", "")


def test_another_hand_puts_it_to_sleep_and_wakes_it():
    story = Story().see(FALLING).see(ASLEEP).see(WAKING).see(AWAKE)
    assert [each[3] for each in story.told] == ["others"] * 3
    assert story.book.woken_at("n1") == (T + 90, OTHERS)


def test_slurm_puts_it_to_sleep_where_it_has_been_idle_for_suspend_time():
    story = Story()
    story.suspend_s = 40
    assert story.see(FALLING).told[0][3] == "slurm"
    early = Story()
    early.suspend_s = 60
    assert early.see(FALLING).told[0][3] == "others"


@pytest.mark.parametrize("facts", [{"is_down": True}, {"is_down": True, "failed_to_wake": True}])
def test_a_wake_up_that_fails(facts):
    story = Story().see(ASLEEP, NodeVerb.SLEEP).see(WAKING, NodeVerb.WAKE).see(**facts)
    assert story.told[-1] == ("waking", 30, 60, "ces", "failed", "")
    assert story.book.failed(T, T + 60) == {"n1"}
    assert story.book.failed(T + 61, T + 99) == set()
    assert story.book.wake_lead_s("pool", 300) == 300


def test_a_node_that_has_woken_since_has_not_failed_any_more():
    story = Story().see(ASLEEP, NodeVerb.SLEEP).see(WAKING, NodeVerb.WAKE).see(is_down=True)
    assert story.book.failed_at("n1") == T + 60
    story.see(AWAKE).see(FALLING).see(ASLEEP)
    assert story.book.failed(0, T + 999) == {"n1"}  # resumed by hand it need not be mended
    story.see(WAKING).see(AWAKE)
    assert story.book.failed(0, T + 999) == set()
    assert story.book.failed_at("n1") is None
    read = SpanBook((), sorted(story.kept.values(), key=lambda s: s.start))
    assert read.failed(0, T + 999) == set()
    story.see(ASLEEP).see(WAKING).see(is_down=True)
    assert story.book.failed(0, T + 999) == {"n1"}


def test_a_wake_up_that_failed_between_two_looks_and_a_node_that_broke_asleep():
    story = Story().see(ASLEEP).see(is_down=True, failed_to_wake=True)
    assert story.told[-1][4] == "failed"
    broke = Story().see(ASLEEP).see(is_down=True)
    assert broke.told == [("asleep", 0, 30, "others", "", "")]
    assert broke.book.failed(0, T + 99) == set()


def test_what_nobody_saw_is_unknown_and_says_nothing_of_the_lead():
    story = Story(PowerSpan("n1", "pool", PowerPhase.WAKING, T - 9000, None, CES))
    story.last = None
    story.see(AWAKE, boot_time=T - 8900)
    assert story.told == [("waking", -9000, -8900, "ces", "unknown", "")]
    assert story.book.wake_lead_s("pool", 300) == 300
    slept = Story(PowerSpan("n1", "pool", PowerPhase.ASLEEP, T - 9000, None, CES))
    slept.last = None
    slept.see(AWAKE, boot_time=T - 8000)
    assert slept.told[0][:3] == ("asleep", -9000, -8000)
    still = Story(PowerSpan("n1", "pool", PowerPhase.ASLEEP, T - 9000, None, CES))
    still.last = None
    assert still.see(ASLEEP).told == []
    assert still.book.cause("n1") is CES


@pytest.mark.parametrize("power", [ASLEEP, WAKING])
def test_how_long_a_wake_up_took_is_not_known_where_nobody_looked_for_long(power):
    story = Story().see(power)
    story.now += 400
    story.see(AWAKE, boot_time=T + 200)
    assert story.told[-1][3:5] == ("others", "unknown")
    assert story.book.woken_at("n1") is None  # nobody's hand, as far as is known


STILL_ON = {"still_on": ("n1",)}


def test_a_node_that_has_not_gone_off_does_not_sleep():
    story = Story().see(FALLING, NodeVerb.SLEEP).see(ASLEEP, **STILL_ON).see(ASLEEP, **STILL_ON)
    assert story.told == [("falling", 0, None, "ces", "", "")]
    assert story.book.cause("n1") is CES
    assert story.see(AWAKE).told == [("falling", 0, 90, "ces", "", "")]  # and has not woken
    late = Story().see(FALLING, NodeVerb.SLEEP).see(ASLEEP, **STILL_ON).see(ASLEEP)
    assert late.told[-1] == ("asleep", 60, None, "ces", "", "")


def test_a_sleep_that_turns_out_to_be_none_is_taken_back():
    story = Story().see(ASLEEP, NodeVerb.SLEEP).see(ASLEEP).see(ASLEEP, **STILL_ON)
    assert story.told == [
        ("asleep", 0, 0, "ces", "", ""),
        ("falling", 0, None, "ces", "", ""),
    ]
    assert story.see(ASLEEP, **STILL_ON).see(WAKING, job="7").told[-2:] == [
        ("falling", 0, 120, "ces", "", ""),
        ("waking", 120, None, "slurm", "", "7"),
    ]


def test_a_node_that_slurm_knows_no_longer_ends_its_span():
    book = SpanBook([PowerSpan("n1", "pool", PowerPhase.WAKING, T - 60, None, CES)], [])
    news = book.see(T, T - 30, [], {}, {}, None)
    assert [(s.end, s.outcome) for s in news.spans] == [(T, "unknown")]
    assert book.open == {}


def test_a_clock_set_back_makes_no_span_that_ends_before_it_begins():
    story = Story().see(ASLEEP)
    story.now -= 5000
    story.see(WAKING)
    assert all(s.end is None or s.end >= s.start for s in story.kept.values())


def test_nine_of_ten_of_the_last_wake_ups():
    ended = [
        PowerSpan(f"n{i}", "pool", PowerPhase.WAKING, T + i, T + i + s, CES, "awake")
        for i, s in enumerate([9999] * 5 + list(range(1, 51)))
    ]
    assert SpanBook([], ended).wake_lead_s("pool", 300) == 45
    assert SpanBook([], ended[-10:]).wake_lead_s("pool", 300) == 49
    assert SpanBook([], ended[-9:]).wake_lead_s("pool", 300) == 300
    failed = [replace(span, outcome="failed") for span in ended]
    assert SpanBook([], failed).wake_lead_s("pool", 300) == 300


@pytest.mark.parametrize(
    ("flags", "is_running", "power"),
    [
        ("", False, AWAKE),
        ("powered_down", False, ASLEEP),
        ("powered_down cloud", False, ASLEEP),
        ("powered_down", True, WAKING),
        ("powered_down power_up", False, WAKING),
        ("not_responding powering_up", True, WAKING),
        ("drain power_down", False, FALLING),
        ("drain power_down", True, FALLING),
        ("powering_down power_up", False, FALLING),
        ("not_responding powering_down", False, FALLING),
        ("powered_down power_down", False, ASLEEP),
    ],
)
def test_what_slurms_flags_say(flags, is_running, power):
    assert power_of(frozenset(flags.split()), is_running) is power


LINE = (
    "NodeName=gn01 CPUAlloc=0 CPUTot=64 Gres=(null) RealMemory=1 AllocMem=0 State={state} "
    "Partitions=gpu BootTime={boot} SlurmdStartTime=5 LastBusyTime={busy} AllocTRES= "
    "Reason=ResumeTimeout reached State=IDLE BootTime=9 [slurm@77]"
)


def test_a_node_as_slurm_tells_of_it_in_the_time_of_the_clock():
    text = LINE.format(state="DOWN+POWERED_DOWN", boot=100, busy="Unknown") + "\n"
    (seen,) = sights_of(parse_config.parse_node_facts(text), lambda at: 2 * at)
    assert (seen.boot_time, seen.last_busy_time) == (200, None)
    assert (seen.is_down, seen.failed_to_wake, seen.is_running) == (True, True, False)
    text = LINE.format(state="FUTURE", boot="None", busy=0) + "\n"
    assert sights_of(parse_config.parse_node_facts(text), int) == ()
    text = LINE.format(state="IDLE+COMPLETING", boot="None", busy=7).replace("Resume", "x") + "\n"
    (seen,) = sights_of(parse_config.parse_node_facts(text), int)
    assert (seen.is_running, seen.boot_time, seen.last_busy_time) == (True, None, 7)
    assert not seen.failed_to_wake
