"""What goes to the forecast's process and comes back is read strictly."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.situations import NOW, arrived, nodes, running, situation, waiting

from gsched.errors import DataError
from gsched.forecast.calibration import NO_CALIBRATION, Calibration, PastForecast
from gsched.forecast.codec import from_json, to_json
from gsched.forecast.outlook import (
    Change,
    ForecastOptions,
    Interval,
    NextFree,
    NoStart,
    Outlook,
    Start,
)
from gsched.forecast.situation import Blocked, Demand, Field, Piece, Situation, read_situation

WHOLE = situation(
    fields=(Field("gpu", "GPU", NOW + 5, NOW + 9.5), Field("gpu", "CPU")),
    nodes=(*nodes(8, 8, kind="a100"), *nodes(64, field=1)),
    running=(
        running("7_3", 10, (5, 6, 7), (0, 8), (2, 3), limit_s=60),
        running("8", 0, 1, demands=(Demand(1, 4),)),
    ),
    waiting=(
        waiting("9", 4, -1.5, kinds=("a100", "h\u00e9\n\ud7ff"), limit_s=3, eligible_at=NOW + 1),
        waiting("10+1", 0, 2.0, demands=(Demand(0, 8, 2), Demand(1, 16))),
    ),
    blocked=(Blocked((Piece(1, 8),), NOW + 60),),
    arrivals=(arrived(100, 2, 0.5, 60, limit_s=90),),
    arrivals_from=NOW - 3_600,
    order_per_s=0.25,
    starvation_bound_s=60,
)
OUTLOOK = Outlook(
    as_of=NOW,
    samples=8,
    seed=1,
    coverage=0.8,
    starts=(Start("9", Interval(3.0, 1.0, 4.0), Interval(2.0, 1.0, 4.0), 70, 0),),
    no_starts=(NoStart("10", "never-fits"),),
    next_free=(NextFree("7_3", ("n0", "n1"), 16, Interval(1.0, 1.0, 1.0)),),
    overcommitted=2,
)


def test_a_situation_comes_back_as_it_went() -> None:
    assert read_situation(to_json(WHOLE)) == WHOLE


@pytest.mark.parametrize(
    "value",
    [
        OUTLOOK,
        ForecastOptions(seed=3),
        NO_CALIBRATION,
        Change("gpus", "--gres=gpu:2", "2", WHOLE.waiting[0]),
        PastForecast(NOW, Interval(1.0, 2.0, 3.0), None),
    ],
)
def test_so_does_all_that_is_told(value: object) -> None:
    assert from_json(type(value), to_json(value)) == value


def test_whole_numbers_may_stand_for_others_but_nothing_else() -> None:
    options = from_json(ForecastOptions, b"[32, 0, 1, 60]")
    assert (options.coverage, type(options.coverage)) == (1.0, float)
    for wrong in (b"[32.0,0,1,60]", b"[true,0,1,60]", b'["32",0,1,60]', b"[32,0,1,null]"):
        with pytest.raises(DataError, match="ForecastOptions"):
            from_json(ForecastOptions, wrong)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"{",
        b"null",
        b"{}",
        b"[1,2,3]",
        b"\xff",
        b"[32,0,NaN,60]",
        b"[32,0,1e999,60]",
        b"[99999999999999999999,0,1,60]",
        b"[" * 100_000,
    ],
)
def test_what_is_no_document_is_refused(document: bytes) -> None:
    with pytest.raises(DataError):
        from_json(ForecastOptions, document)


@given(st.data())
def test_a_document_with_one_value_replaced_is_read_right_or_refused(data: st.DataObject) -> None:
    """Whatever is put in anywhere: a situation that holds together comes out, or an error."""
    loaded = json.loads(to_json(WHOLE))
    at = loaded
    while True:
        place = data.draw(st.integers(0, len(at) - 1))
        if not isinstance(at[place], list) or not at[place] or data.draw(st.booleans()):
            break
        at = at[place]
    junk = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=3),
        st.just([]),
        st.just([[]]),
        st.just({}),
    )
    at[place] = data.draw(junk)
    try:
        read = read_situation(json.dumps(loaded).encode())
    except DataError:
        return
    assert isinstance(read, Situation)
    assert read_situation(to_json(read)) == read


def test_numbers_that_are_none_are_not_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        to_json(Interval(float("nan"), 0.0, 0.0))


class TestCheck:
    def refused(self, match: str, **wrong: object) -> None:
        with pytest.raises(DataError, match=match):
            read_situation(to_json(replace(WHOLE, **wrong)))

    def test_levels(self) -> None:
        for levels in ((), (0.0, 0.5, 0.9), (0.5, 0.5, 0.9), (0.1, 0.5, 1.0)):
            self.refused("levels", levels=levels)

    def test_nodes_and_fields(self) -> None:
        self.refused("node", nodes=nodes(8, field=2))
        self.refused("node", nodes=nodes(0))
        self.refused("never opens", fields=(Field("a", "GPU", NOW, None), Field("b", "CPU")))
        self.refused("never opens", fields=(Field("a", "GPU", NOW, NOW), Field("b", "CPU")))
        self.refused("backfill", backfill_depth=0)
        self.refused("bound", starvation_bound_s=-1)

    def test_running_jobs(self) -> None:
        self.refused("not there", running=(running("r", 0, 1, (3, 1)),))
        self.refused("not there", running=(running("r", 0, 1, (0, 0)),))
        self.refused("holds nothing", running=(running("r", 0, 1),))
        self.refused("not started", running=(running("r", -1, 1, (0, 1)),))
        self.refused("time limit", running=(running("r", 0, 1, (0, 1), limit_s=0),))
        self.refused("free already", blocked=(Blocked((Piece(0, 1),), NOW),))
        self.refused("blocked", blocked=(Blocked((Piece(9, 1),), NOW + 1),))

    def test_waiting_jobs(self) -> None:
        job = WHOLE.waiting[0]
        self.refused("twice", waiting=(job, job))
        self.refused("asks for nothing", waiting=(replace(job, demands=()),))
        self.refused("future", waiting=(replace(job, submitted_at=NOW + 1),))
        self.refused("less than one", waiting=(waiting("a", 0, 1.0),))
        self.refused("field", waiting=(waiting("a", 1, 1.0, field=2),))
        self.refused("field", waiting=(waiting("a", 1, 1.0, demands=(Demand(1, 1), Demand(0, 1))),))
        for quantiles_s in ((), (1.0, 2.0), (3.0, 2.0, 1.0), (-1.0, 0.0, 1.0)):
            self.refused("run times", waiting=(replace(job, quantiles_s=quantiles_s),))

    def test_arrivals(self) -> None:
        self.refused("arrivals", arrivals_from=None)
        self.refused("arrivals_from", arrivals_from=NOW - 99)


def test_the_daemon_loads_no_simulator_for_it() -> None:
    """The parent of the forecast's process writes and reads all this, and must stay small."""
    asked = (
        "import sys, gsched.forecast.situation, gsched.forecast.outlook, gsched.forecast.codec\n"
        "import gsched.forecast.calibration\n"
        "print([m for m in ('numba', 'llvmlite', 'numpy', 'scipy') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


def test_calibrations_survive_the_way_as_well() -> None:
    past = [
        PastForecast(n * 600.0, Interval(n * 600.0 + 5, n * 600.0, n * 600.0 + 9), None)
        for n in range(99)
    ]
    learnt = Calibration.learn(past, NOW)
    assert learnt != NO_CALIBRATION
    assert from_json(Calibration, to_json(learnt)) == learnt
