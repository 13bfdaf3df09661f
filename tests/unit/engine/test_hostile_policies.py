"""Policies that raise, loop or answer with nonsense: the last order stands, and rounds go on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.rounds import JOBS, backend_with, order, runner_for

from gsched.daemon.time_limit import time_limit
from gsched.engine.deciding import RoundRules
from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.validate import MEMORY_BYTES, PARAM_BYTES
from gsched.errors import GschedError
from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue, Rank, Reason
from gsched.model.job import JobKey
from gsched.model.jobtable import JobTable
from gsched.model.journal import ChangeState
from gsched.model.ranks import RankTable, ReasonGroup, ReasonTable
from gsched.policy.fifo import Fifo
from gsched.policy.qssf import Qssf
from gsched.policy.scoped import Scoped

GOOD = [2, 4, 3, 1]
"""QSSF's order of JOBS, which stands before each of these policies is asked."""

Answer = Callable[[ClusterState, Decision], Any]


class Hostile(Fifo):
    """Answers with whatever it is told to make of a sound decision."""

    name = "site-own"

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        sound = super().decide(state, memory, now)
        return self.answer(state, sound)  # type: ignore[no-any-return]


class Looping(dict[JobKey, Any]):
    """A mapping that has no end."""

    def items(self) -> Any:
        while True:
            pass


class Failing(Mapping[JobKey, Any]):
    """A mapping that fails on every use."""

    def __getitem__(self, key: JobKey) -> Any:
        raise OSError("gone")

    def __iter__(self) -> Iterator[JobKey]:
        raise OSError("gone")

    def __len__(self) -> int:
        raise OSError("gone")


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def raising(error: BaseException) -> Answer:
    def answer(_state: ClusterState, _sound: Decision) -> Any:
        raise error

    return answer


def forever(_state: ClusterState, _sound: Decision) -> Any:
    while True:
        pass


def deaf_forever(_state: ClusterState, _sound: Decision) -> Any:
    while True:
        with suppress(Exception):
            forever(_state, _sound)


def deaf_once(_state: ClusterState, _sound: Decision) -> Any:
    try:
        forever(_state, _sound)
    except BaseException:
        forever(_state, _sound)


def deep(_state: ClusterState, sound: Decision) -> Any:
    def fall(depth: int) -> int:
        return fall(depth + 1) + 1

    return fall(0)


def writes_into_the_table(state: ClusterState, sound: Decision) -> Any:
    state.jobs.reorderable[:] = True
    return sound


def ranks_twice(state: ClusterState, sound: Decision) -> Any:
    order = RankTable.of(sound.order, state.jobs)
    return replace(sound, order=order.take(np.array([0, 0])))


def ranks_no_job(state: ClusterState, sound: Decision) -> Any:
    order = RankTable.of(sound.order, state.jobs)
    return replace(sound, order=replace(order, rows=order.rows - 2))


def reasons_for_nobody(state: ClusterState, sound: Decision) -> Any:
    group = ReasonGroup("x", np.array([99]), {})
    return replace(sound, reasons=ReasonTable(state.jobs, (group,)))


FAILS: dict[str, tuple[Answer, str]] = {
    "raises": (raising(RuntimeError("no")), "failed: RuntimeError: no"),
    "raises what cannot be shown": (raising(UnspeakableError()), "failed: UnspeakableError"),
    "exits": (raising(SystemExit(0)), "failed: SystemExit"),
    "raises no exception": (raising(GeneratorExit()), "failed: GeneratorExit"),
    "raises gsched's own": (raising(GschedError("not now")), "failed: GschedError: not now"),
    "has no memory left": (raising(MemoryError()), "failed: MemoryError"),
    "recurses": (deep, "failed: RecursionError"),
    "loops": (forever, "has not decided within"),
    "loops and ignores exceptions": (deaf_forever, "has not decided within"),
    "loops and ignores once everything": (deaf_once, "has not decided within"),
    "answers None": (lambda _s, _d: None, "NoneType, no Decision"),
    "answers with a dict": (lambda _s, d: dict(d.order), "dict, no Decision"),
    "answers with a class": (lambda _s, _d: Decision, "type, no Decision"),
    "has no order": (lambda _s, d: replace(d, order=None), "failed: AttributeError"),
    "orders by a list": (lambda _s, d: replace(d, order=list(d.order)), "failed: AttributeError"),
    "has no reasons": (lambda _s, d: replace(d, reasons=None), "failed: AttributeError"),
    "has no actions": (lambda _s, d: replace(d, actions=None), "failed: TypeError"),
    "has an endless order": (lambda _s, d: replace(d, order=Looping(a=1)), "has not decided"),
    "has endless reasons": (lambda _s, d: replace(d, reasons=Looping(a=1)), "has not decided"),
    "has a failing order": (lambda _s, d: replace(d, order=Failing()), "failed: OSError: gone"),
    "has failing reasons": (lambda _s, d: replace(d, reasons=Failing()), "failed: OSError: gone"),
    "writes into the table": (writes_into_the_table, "failed: ValueError"),
    "ranks a job twice": (ranks_twice, "ranked twice"),
    "ranks rows that there are not": (ranks_no_job, "row is outside"),
    "has reasons for nobody": (reasons_for_nobody, "row is outside"),
}


@pytest.mark.parametrize("acting", [True, False])
@pytest.mark.parametrize("what", FAILS)
def test_a_policy_that_fails_ends_its_round_and_the_last_order_stands(
    what: str, acting: bool
) -> None:
    answer, message = FAILS[what]
    backend, journal = backend_with(JOBS), MemoryJournal()
    limit_s = 0.05 if "not decided" in message else 60.0
    runner = runner_for(backend, JOBS, journal, time_limit=time_limit)
    runner.run(acting=True)
    runner.rules = RoundRules(decide_limit_s=limit_s)
    before = dict(journal.entries)
    runner.policy = Hostile(answer)
    with pytest.raises(GschedError, match=f"policy site-own .*{message}") as caught:
        runner.run(acting)
    assert "Slurm keeps the last order" in caught.value.hint
    assert order(backend) == GOOD
    assert journal.entries == before
    assert journal.unsettled("c") == []
    runner.policy, runner.rules = Fifo(), RoundRules()  # another one is chosen, and all goes on
    assert runner.run(acting=True).count(ChangeState.CONFIRMED) == 4
    assert order(backend) == [1, 2, 3, 4]


def test_one_of_several_policies_that_fails_is_as_bad() -> None:
    backend = backend_with(JOBS)
    runner = runner_for(backend, JOBS)
    runner.run(acting=True)
    runner.policy = Scoped(Qssf(), {"gpu": Hostile(raising(RuntimeError("no")))})
    with pytest.raises(GschedError, match=r"policy qssf\+site-own failed: RuntimeError: no"):
        runner.run(acting=True)
    assert order(backend) == GOOD


# -- nonsense that is dropped -----------------------------------------------------------------


def with_rank(**facts: Any) -> Answer:
    """The first job's rank has these values."""

    def answer(_state: ClusterState, sound: Decision) -> Decision:
        ranks = dict(sound.order)
        first = next(key for key in ranks if key.job_id == 1)
        ranks[first] = replace(ranks[first], **facts)
        return replace(sound, order=ranks)

    return answer


def with_reason(reason: Any) -> Answer:
    def answer(_state: ClusterState, sound: Decision) -> Decision:
        first = next(key for key in sound.order if key.job_id == 1)
        return replace(sound, reasons={**sound.reasons, first: reason})

    return answer


def with_key(key: Any) -> Answer:
    def answer(_state: ClusterState, sound: Decision) -> Decision:
        rank = Rank("gpu", 1, 1, 0.0, 0.0)
        first = next(key for key in sound.order if key.job_id == 1)
        order = {**sound.order, key: rank}
        del order[first]
        return replace(sound, order=order, reasons={**sound.reasons, key: Reason("x")})

    return answer


def with_column(**columns: Any) -> Answer:
    """The first job's element of a column has another value."""

    def answer(state: ClusterState, sound: Decision) -> Decision:
        table = RankTable.of(sound.order, state.jobs)
        first = [key.job_id for key in table].index(1)
        changed = {}
        for name, value in columns.items():
            changed[name] = getattr(table, name).copy()
            changed[name][first] = value
        return replace(sound, order=replace(table, **changed))

    return answer


def with_reason_column(value: Any) -> Answer:
    def answer(state: ClusterState, sound: Decision) -> Decision:
        rows = np.arange(len(state.jobs))
        column = np.array(["text"] * len(rows), dtype=np.object_)
        column[[v.key.job_id for v in state.jobs.views].index(1)] = value
        group = ReasonGroup("x", rows, {"p": column})
        return replace(sound, reasons=ReasonTable(state.jobs, (group,)))

    return answer


class Odd:
    """No value of JSON."""


DROPPED: dict[str, Answer] = {
    "level nan": with_rank(level=math.nan),
    "level 2": with_rank(level=2.0),
    "level a text": with_rank(level="high"),
    "level none": with_rank(level=None),
    "level complex": with_rank(level=1j),
    "key inf": with_rank(key=math.inf),
    "key a list": with_rank(key=[1]),
    "key a huge number": with_rank(key=10**400),
    "position 0": with_rank(position=0),
    "position a text": with_rank(position="1"),
    "position beyond": with_rank(position=9),
    "queue unknown": with_rank(queue="tpu"),
    "queue a list": with_rank(queue=[]),
    "no rank": lambda _s, d: replace(
        d, order={key: (3 if key.job_id == 1 else rank) for key, rank in d.order.items()}
    ),
    "key of a job of another cluster": with_key(JobKey("d", 1, epoch=100)),
    "key a number": with_key(1),
    "key a text": with_key("1"),
    "reason a text": with_reason("because"),
    "reason none": with_reason(None),
    "reason with nan": with_reason(Reason("x", {"p": math.nan})),
    "reason with an object": with_reason(Reason("x", {"p": Odd()})),  # type: ignore[dict-item]
    "reason too long": with_reason(Reason("x", {"p": "a" * (PARAM_BYTES + 1)})),
    "reason with a long list": with_reason(Reason("x", {"p": ["a"] * PARAM_BYTES})),
    "reason with too many values": with_reason(Reason("x", {str(i): i for i in range(99)})),
    "reason with numbers for names": with_reason(Reason("x", {1: 1})),  # type: ignore[dict-item]
    "reason without params": with_reason(Reason("x", None)),  # type: ignore[arg-type]
    "code empty": with_reason(Reason("")),
    "code with a newline": with_reason(Reason("x\ny")),
    "code too long": with_reason(Reason("x" * 1000)),
    "code a number": with_reason(Reason(7)),  # type: ignore[arg-type]
    "column level nan": with_column(level=math.nan),
    "column level 2": with_column(level=-2.0),
    "column key inf": with_column(key=math.inf),
    "column position 0": with_column(position=0),
    "column position beyond": with_column(position=9),
    "reason column with nan": with_reason_column(math.nan),
    "reason column with an object": with_reason_column(Odd()),
    "reason column too long": with_reason_column("a" * (PARAM_BYTES + 1)),
}


@pytest.mark.parametrize("what", DROPPED)
def test_nonsense_about_one_job_is_dropped_told_and_costs_the_others_nothing(what: str) -> None:
    backend, journal = backend_with(JOBS), MemoryJournal()
    runner = runner_for(backend, JOBS, journal, policy=Hostile(DROPPED[what]))
    result = runner.run(acting=True)
    assert {c.key.job_id for c in result.changes} == {2, 3, 4}
    assert result.count(ChangeState.CONFIRMED) == 3
    assert len(result.problems) == 1
    assert journal.summaries[result.info.round_id][1]["problems"] == 1
    assert {key.job_id for key in result.decision.order} == {2, 3, 4}


@pytest.mark.parametrize(
    "memory",
    [
        {"x": "y" * MEMORY_BYTES},
        {str(i): i for i in range(MEMORY_BYTES // 8)},
        {"x": math.nan},
        {"x": Odd()},
        {("a", "b"): 1},
        [1, 2],
        "text",
        None,
        7,
    ],
    ids=lambda value: type(value).__name__,
)
def test_memory_that_cannot_be_kept_is_forgotten(memory: Any) -> None:
    journal = MemoryJournal()
    policy = Hostile(lambda _s, d: replace(d, memory=memory))
    runner = runner_for(backend_with(JOBS), JOBS, journal, policy=policy)
    result = runner.run(acting=True)
    assert result.count(ChangeState.CONFIRMED) == 4
    assert journal.memory("c", "site-own") == {}
    (problem,) = result.problems
    assert problem.key is None
    assert "memory" in problem.what


def test_memory_within_itself_is_forgotten() -> None:
    knot: dict[str, Any] = {}
    knot["me"] = knot
    policy = Hostile(lambda _s, d: replace(d, memory=knot))
    result = runner_for(backend_with(JOBS), JOBS, policy=policy).run(acting=True)
    assert result.decision.memory == {}


def test_a_policy_cannot_change_what_the_journal_remembers() -> None:
    class Scribbling(Fifo):
        def decide(
            self, state: ClusterState, memory: Mapping[str, JsonValue], now: int
        ) -> Decision:
            if isinstance(memory, dict):
                memory.setdefault("list", []).append(now)
            return replace(super().decide(state, memory, now), memory={"list": [1]})

    journal = MemoryJournal()
    runner = runner_for(backend_with(JOBS), JOBS, journal, policy=Scribbling())
    for _ in range(3):
        runner.run(acting=True)
    assert journal.memory("c", "fifo") == {"list": [1]}


def test_a_policy_that_fails_has_changed_nothing_deep_in_its_memory() -> None:
    class Scribbling(Fifo):
        fails = False

        def decide(
            self, state: ClusterState, memory: Mapping[str, JsonValue], now: int
        ) -> Decision:
            if self.fails:
                memory["level"]["seen"].append(now)  # type: ignore[index, union-attr]
                raise ValueError("after scribbling")
            return replace(super().decide(state, memory, now), memory={"level": {"seen": [1]}})

    journal, policy = MemoryJournal(), Scribbling()
    runner = runner_for(backend_with(JOBS), JOBS, journal, policy=policy)
    runner.run(acting=True)
    policy.fails = True
    with pytest.raises(GschedError, match="after scribbling"):
        runner.run(acting=True)
    assert journal.memory("c", "fifo") == {"level": {"seen": [1]}}


@pytest.mark.parametrize("action", [None, 7, "drain", Odd(), Decision, {"needs": "power"}])
def test_an_action_that_is_none_is_dropped(action: Any) -> None:
    policy = Hostile(lambda _s, d: replace(d, actions=(action,)))
    result = runner_for(backend_with(JOBS), JOBS, policy=policy).run(acting=True)
    assert result.decision.actions == ()
    assert len(result.problems) == 1


def test_an_order_over_another_table_is_taken_by_its_jobs() -> None:
    """A policy that ranks a table of its own makes no row of it count as one of the snapshot's."""

    def answer(state: ClusterState, sound: Decision) -> Decision:
        own = replace(state, jobs=JobTable.from_views(reversed(state.jobs.views)))
        return Fifo().decide(own, {}, 0)

    result = runner_for(backend_with(JOBS), JOBS, policy=Hostile(answer)).run(acting=True)
    assert result.problems == ()
    by_position = sorted(result.decision.order.items(), key=lambda item: item[1].position)
    assert [key.job_id for key, _ in by_position] == [1, 2, 3, 4]
    assert {r.code for r in result.decision.reasons.values()} == {"fifo.first-submit"}
