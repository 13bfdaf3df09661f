"""Forecasts that can be worked out by hand, and those that must not depend on chance."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.situations import NOW, arrived, nodes, running, situation, waiting

from gsched.errors import DataError
from gsched.forecast.calibration import Calibration, PastForecast
from gsched.forecast.forecast import ForwardRun, forecast, what_if
from gsched.forecast.outlook import Change, ForecastOptions, Interval, Outlook
from gsched.forecast.situation import (
    Blocked,
    Demand,
    Field,
    PastArrival,
    Piece,
    Situation,
    WaitingJob,
)

FEW = ForecastOptions(samples=8)


def starts(outlook: Outlook) -> dict[str, float]:
    """Seconds from now to each median start (run times are drawn as logarithms)."""
    return {start.job_id: round(start.start.median - NOW, 6) for start in outlook.starts}


def widths(outlook: Outlook) -> list[float]:
    return [round(start.start.high - start.start.low, 6) for start in outlook.starts]


def exact(told: Situation) -> dict[str, float]:
    """The starts, after a look that nothing is uncertain about them."""
    outlook = forecast(told, FEW)
    assert widths(outlook) == [0.0] * len(outlook.starts)
    return starts(outlook)


class TestByHand:
    """Run times are known exactly: so are the starts."""

    def test_one_after_the_other(self) -> None:
        told = situation(
            nodes=nodes(4),
            running=(running("r", 500, 600, (0, 4)),),
            waiting=(waiting("b", 4, 2.0), waiting("a", 4, 1.0, total=70)),
        )
        assert exact(told) == {"a": 100.0, "b": 170.0}

    def test_whoever_fits_on_what_is_free_starts_now(self) -> None:
        told = situation(
            nodes=nodes(4), running=(running("r", 1, 51, (0, 3)),), waiting=(waiting("a", 1, 1.0),)
        )
        assert exact(told) == {"a": 0.0}

    def test_a_short_job_is_backfilled_by_its_limit_not_by_its_run_time(self) -> None:
        """The running job ends after 100 s and may last 200: until then the limits reckon."""
        told = situation(
            nodes=nodes(4),
            running=(running("r", 60, 160, (0, 2), limit_s=260),),
            waiting=(
                waiting("head", 4, 1.0),
                waiting("fits", 2, 2.0, total=50, limit_s=200),
                waiting("longer", 2, 3.0, total=50, limit_s=201),
            ),
        )
        assert exact(told) == {"head": 100.0, "fits": 0.0, "longer": 200.0}

    def test_backfill_looks_at_so_many_jobs(self) -> None:
        large = [waiting(f"large{number}", 4, 1.0 + number, total=10) for number in range(3)]
        told = situation(
            nodes=nodes(4),
            running=(running("r", 0, 100, (0, 2), limit_s=100),),
            waiting=(*large, waiting("small", 1, 9.0, total=10, limit_s=20)),
        )
        assert exact(told)["small"] == 0.0
        assert exact(replace(told, backfill_depth=2))["small"] == 130.0

    def test_where_jobs_run_decides_who_fits(self) -> None:
        """Two GPUs are free either way, but not on one node."""
        apart = (running("r", 0, 100, (0, 1)), running("s", 0, 50, (1, 1)))
        beside = (running("r", 0, 100, (0, 1)), running("s", 0, 50, (0, 1)))
        told = situation(nodes=nodes(2, 2), waiting=(waiting("a", 2, 1.0),))
        assert exact(replace(told, running=apart)) == {"a": 50.0}
        assert exact(replace(told, running=beside)) == {"a": 0.0}

    def test_so_many_nodes_as_asked_for(self) -> None:
        told = situation(
            nodes=nodes(4, 4),
            running=(running("r", 0, 100, (0, 4)),),
            waiting=(waiting("two", 2, 1.0, nodes=2), waiting("one", 2, 2.0, limit_s=100)),
        )
        assert exact(told) == {"two": 100.0, "one": 0.0}

    def test_a_job_whose_place_nobody_knows_is_placed(self) -> None:
        unknown = running("r", 0, 100, demands=(Demand(0, 3),))
        told = situation(nodes=nodes(4), running=(unknown,), waiting=(waiting("a", 2, 1.0),))
        assert exact(told) == {"a": 100.0}

    def test_a_job_on_more_than_there_is_holds_what_there_is(self) -> None:
        told = situation(
            nodes=nodes(4),
            running=(
                running("r", 0, 100, (0, 3)),
                running("s", 0, 50, (0, 3)),
                running("t", 0, 900, demands=(Demand(0, 2),)),
            ),
            waiting=(waiting("a", 1, 1.0),),
        )
        outlook = forecast(told, FEW)
        assert outlook.overcommitted == 4
        assert starts(outlook) == {"a": 50.0}

    def test_not_before_it_may_begin(self) -> None:
        later = waiting("later", 4, 1.0, eligible_at=NOW + 300)
        told = situation(nodes=nodes(4), waiting=(later, waiting("a", 4, 2.0, total=350)))
        assert exact(told) == {"later": 350.0, "a": 0.0}

    def test_fields_share_nothing(self) -> None:
        told = situation(
            fields=(Field("a", "GPU"), Field("b", "GPU")),
            nodes=(*nodes(4), *nodes(4, field=1)),
            running=(running("r", 0, 100, (0, 4)),),
            waiting=(waiting("a", 4, 1.0), waiting("b", 4, 2.0, field=1)),
        )
        assert exact(told) == {"a": 100.0, "b": 0.0}

    def test_what_cannot_fit_is_told_and_holds_up_nobody(self) -> None:
        told = situation(
            nodes=nodes(4, 4),
            waiting=(
                waiting("wide", 9, 1.0),
                waiting("one node", 5, 2.0, nodes=1),
                waiting("kind", 1, 3.0, kinds=("nowhere",)),
                waiting("a", 8, 4.0),
            ),
        )
        outlook = forecast(told, FEW)
        assert starts(outlook) == {"a": 0.0}
        assert [(one.job_id, one.reason) for one in outlook.no_starts] == [
            (name, "never-fits") for name in ("wide", "one node", "kind")
        ]

    def test_a_field_without_nodes_holds_nobody(self) -> None:
        outlook = forecast(situation(waiting=(waiting("a", 1, 1.0),)), FEW)
        assert [one.job_id for one in outlook.no_starts] == ["a"]

    def test_nobody_waits(self) -> None:
        assert forecast(situation(nodes=nodes(4)), FEW).starts == ()


class TestKinds:
    """Partitions that overlap, GPU types, features: some jobs may use some of the nodes."""

    TOLD = situation(
        nodes=(*nodes(4, kind="old"), *nodes(4, kind="new"), *nodes(4, kind="test")),
        running=(
            running("r", 0, 100, (0, 4)),
            running("s", 0, 200, (1, 4)),
            running("t", 0, 300, (2, 4)),
        ),
    )

    @pytest.mark.parametrize(
        ("kinds", "start"),
        [((), 100), (("new",), 200), (("test", "new"), 200), (("test",), 300), (("x", "old"), 100)],
    )
    def test_a_job_waits_for_the_nodes_that_it_may_use(
        self, kinds: tuple[str, ...], start: float
    ) -> None:
        told = replace(self.TOLD, waiting=(waiting("a", 4, 1.0, kinds=kinds),))
        assert exact(told) == {"a": float(start)}

    def test_several_nodes_of_several_kinds(self) -> None:
        told = replace(self.TOLD, waiting=(waiting("a", 8, 1.0, kinds=("old", "test")),))
        assert exact(told) == {"a": 300.0}

    def test_who_makes_room_next_is_told_by_kind(self) -> None:
        told = replace(
            self.TOLD,
            waiting=(waiting("any", 4, 1.0), waiting("new", 4, 2.0, kinds=("new", "test"))),
        )
        outlook = forecast(told, FEW)
        rows = [start.next_free for start in outlook.starts]
        assert rows == [0, 1]
        first, second = outlook.next_free
        assert (first.job_id, first.nodes, first.units) == ("r", ("old0",), 4)
        assert (second.job_id, second.nodes, second.end.median) == ("s", ("new0",), NOW + 200)


class TestOrder:
    def test_equals_come_as_they_were_submitted(self) -> None:
        told = situation(
            nodes=nodes(4),
            waiting=(
                waiting("young", 4, 1.0, total=10, waited_s=5),
                waiting("old", 4, 1.0, total=20, waited_s=50),
            ),
        )
        assert exact(told) == {"young": 20.0, "old": 0.0}

    def test_who_comes_later_stands_behind_by_what_the_others_gain(self) -> None:
        """Somebody comes in ten seconds, of an order that would pass the one who waits."""
        comes = arrived(86_400 - 10, 4, order=0.5, total=1_000)
        told = situation(
            nodes=nodes(4),
            running=(running("r", 0, 50, (0, 4)),),
            waiting=(waiting("a", 4, 1.0),),
            arrivals=(comes,),
            arrivals_from=NOW - 86_400,
        )
        assert exact(told) == {"a": 1_050.0}
        assert exact(replace(told, order_per_s=1.0)) == {"a": 50.0}

    def test_nobody_comes_after_the_horizon(self) -> None:
        told = situation(
            nodes=nodes(4),
            running=(running("r", 0, 50, (0, 4)),),
            waiting=(waiting("a", 4, 1.0),),
            arrivals=(arrived(86_400 - 10, 4, order=0.5, total=90_000),),
            arrivals_from=NOW - 86_400,
        )
        assert exact(told) == {"a": 50.0 + 7 * 90_000}
        days = ForecastOptions(samples=4, horizon_s=2 * 86_400)
        assert starts(forecast(told, days)) == {"a": 50.0 + 2 * 90_000}

    def test_who_starves_comes_first(self) -> None:
        told = situation(
            nodes=nodes(4),
            running=(running("r", 0, 100, (0, 4)),),
            waiting=(waiting("last", 4, 9.0, waited_s=950), waiting("first", 4, 1.0, total=30)),
        )
        assert exact(told) == {"last": 130.0, "first": 100.0}
        assert exact(replace(told, starvation_bound_s=1_000)) == {"last": 100.0, "first": 200.0}


class TestClosed:
    """A field that closes at 500 s and opens at 900 s."""

    TOLD = situation(
        fields=(Field("gpu", "GPU", NOW + 500, NOW + 900),),
        nodes=nodes(4),
        running=(running("r", 0, 100, (0, 4), limit_s=100),),
    )

    def test_jobs_start_if_they_end_in_time_by_their_limit(self) -> None:
        told = replace(
            self.TOLD,
            waiting=(
                waiting("long", 4, 1.0, total=10, limit_s=401),
                waiting("short", 4, 2.0, total=10, limit_s=400),
                waiting("endless", 4, 3.0, total=10),
            ),
        )
        assert exact(told) == {"long": 900.0, "short": 100.0, "endless": 910.0}

    def test_the_reservation_of_one_that_has_to_wait_for_the_opening_holds_nothing(self) -> None:
        """`wide` has to wait for the opening: until then it keeps nothing free."""
        told = replace(
            self.TOLD,
            running=(running("r", 0, 300, (0, 2), limit_s=300),),
            waiting=(
                waiting("wide", 4, 1.0, total=10, limit_s=300),
                waiting("narrow", 2, 2.0, total=10, limit_s=450),
            ),
        )
        assert exact(told) == {"wide": 900.0, "narrow": 0.0}

    def test_blocked_units_are_free_later(self) -> None:
        told = situation(
            nodes=nodes(4, 4),
            blocked=(Blocked((Piece(0, 4), Piece(1, 2)), NOW + 70),),
            waiting=(waiting("a", 4, 1.0), waiting("b", 2, 2.0, limit_s=60)),
        )
        assert exact(told) == {"a": 70.0, "b": 0.0}
        assert forecast(told, FEW).next_free == ()


class TestBeside:
    """GPU jobs hold CPUs of the same nodes, for which jobs without GPUs wait."""

    FIELDS = (Field("gpu", "GPU"), Field("gpu", "CPU"))
    BOTH = (Demand(0, 4), Demand(1, 12))

    def test_a_running_gpu_job_holds_its_cpus(self) -> None:
        told = situation(
            fields=self.FIELDS,
            nodes=(*nodes(4), *nodes(16, field=1)),
            running=(running("r", 0, 100, (0, 4), (1, 12)),),
            waiting=(waiting("cpu", 8, 1.0, field=1), waiting("few", 4, 2.0, field=1, limit_s=9)),
        )
        assert exact(told) == {"cpu": 100.0, "few": 0.0}

    def test_a_gpu_job_takes_its_cpus_when_it_starts(self) -> None:
        gpu = waiting("gpu", 0, 5.0, total=1_000, demands=self.BOTH)
        cpus = [
            waiting(f"cpu{number}", 16, 1.0 + number, total=70, field=1, limit_s=70)
            for number in range(3)
        ]
        told = situation(
            fields=self.FIELDS,
            nodes=(*nodes(4), *nodes(16, field=1)),
            running=(running("r", 0, 100, (0, 4)),),
            waiting=(gpu, *cpus),
        )
        assert exact(told) == {"gpu": 100.0, "cpu0": 0.0, "cpu1": 70.0, "cpu2": 1_140.0}
        (same,) = what_if(told, "cpu2", [Change("none", "", "", cpus[2])], FEW)
        assert same.start is not None
        assert same.start.median - NOW == pytest.approx(1_140)

    def test_a_gpu_job_to_come_takes_its_cpus_when_it_starts_not_when_it_comes(self) -> None:
        comes = PastArrival(NOW - 86_400 + 10, self.BOTH, 1.0, None, (1_000.0,) * 3)
        told = situation(
            fields=self.FIELDS,
            nodes=(*nodes(4), *nodes(16, field=1)),
            running=(running("r", 0, 100, (0, 4)), running("s", 0, 50, (1, 16))),
            waiting=(waiting("gpu", 4, 2.0), waiting("cpu", 16, 1.0, total=30, field=1)),
            arrivals=(comes,),
            arrivals_from=NOW - 86_400,
        )
        assert exact(told) == {"gpu": 1_100.0, "cpu": 50.0}

    def test_gpu_jobs_to_come_take_their_cpus_too(self) -> None:
        comes = PastArrival(NOW - 86_400 + 10, self.BOTH, 1.0, None, (86_400.0 * 9,) * 3)
        told = situation(
            fields=self.FIELDS,
            nodes=(*nodes(4), *nodes(16, field=1)),
            running=(running("r", 0, 50, (1, 8)),),
            waiting=(waiting("cpu", 16, 1.0, field=1),),
            arrivals=(comes,),
            arrivals_from=NOW - 86_400,
        )
        one_day = ForecastOptions(samples=4, horizon_s=86_400)
        assert starts(forecast(replace(told, arrivals=()), one_day)) == {"cpu": 50.0}
        later = starts(forecast(told, one_day))["cpu"]
        assert later == pytest.approx(50 + 86_400 * 9)


class TestChance:
    UNSURE = situation(
        nodes=nodes(4),
        running=(running("r", 0, (50, 100, 200), (0, 4)),),
        waiting=(waiting("a", 4, 1.0, total=(10, 30, 90)), waiting("b", 4, 2.0)),
        arrivals=tuple(arrived(900.0 * number, 1, 1.5, 600) for number in range(1, 400)),
        arrivals_from=NOW - 5 * 86_400,
    )

    def test_the_interval_is_that_of_the_run_time_ahead(self) -> None:
        start = forecast(self.UNSURE, ForecastOptions(samples=99)).starts[0].start
        assert start.median - NOW == pytest.approx(100, rel=0.02)
        assert start.low - NOW == pytest.approx(50, rel=0.05)
        assert start.high - NOW == pytest.approx(200, rel=0.05)

    def test_the_same_seed_tells_the_same_and_another_one_not(self) -> None:
        again = forecast(self.UNSURE, FEW)
        assert forecast(self.UNSURE, FEW) == again
        other = forecast(self.UNSURE, replace(FEW, seed=1))
        assert other.starts[1].raw != again.starts[1].raw
        quiet = replace(self.UNSURE, arrivals=())
        others = forecast(quiet, replace(FEW, seed=1)).starts[0]
        assert others.raw != forecast(quiet, FEW).starts[0].raw

    def test_who_else_waits_does_not_change_the_luck_of_a_job(self) -> None:
        """A job behind all others changes nothing for them, though the run draws for it as well."""
        behind = waiting("behind", 4, 9.0, total=(1, 50, 800))
        more = replace(self.UNSURE, waiting=(behind, *self.UNSURE.waiting))
        assert forecast(more, FEW).starts[1:] == forecast(self.UNSURE, FEW).starts

    def test_a_job_that_has_run_for_long_will_not_end_before_now(self) -> None:
        old = running("r", 150, (50, 100, 200), (0, 4))
        start = forecast(replace(self.UNSURE, running=(old,)), FEW).starts[0].start
        assert NOW < start.low <= start.median <= start.high

    def test_calibration_is_applied_and_told(self) -> None:
        past = [
            PastForecast(
                600.0 * n, Interval(*(600.0 * n + wait for wait in (60, 30, 90))), 600.0 * n + 600
            )
            for n in range(100)
        ]
        learnt = Calibration.learn(past, NOW)
        plain, told = forecast(self.UNSURE, FEW), forecast(self.UNSURE, FEW, learnt)
        assert told.starts[0].raw == plain.starts[0].raw == plain.starts[0].start
        assert told.starts[0].calibrated_on == 100
        assert told.starts[0].start == learnt.apply(NOW, plain.starts[0].raw)
        assert told.starts[0].start.median > plain.starts[0].start.median

    def test_nobody_is_told_to_start_before_its_begin_time(self) -> None:
        """Earlier jobs have started long before they were said to."""
        past = [
            PastForecast(
                600.0 * n, Interval(*(600.0 * n + wait for wait in (60, 30, 9_000))), 600.0 * n
            )
            for n in range(100)
        ]
        (job, *others) = self.UNSURE.waiting
        begins = replace(self.UNSURE, waiting=(replace(job, eligible_at=NOW + 3_600.0), *others))
        told = forecast(begins, FEW, Calibration.learn(past, NOW)).starts[0].start
        assert NOW + 3_600.0 <= told.low <= told.median <= told.high


class TestWhatIf:
    def tried(self, told: Situation, job_id: str, *jobs: WaitingJob) -> list[Interval | None]:
        changes = [Change("gpus", "--gres=gpu:n", "n", job) for job in jobs]
        found = what_if(told, job_id, changes, FEW)
        assert [(one.kind, one.option, one.value) for one in found] == [
            ("gpus", "--gres=gpu:n", "n")
        ] * len(jobs)
        return [one.start for one in found]

    def test_fewer_gpus_a_shorter_limit_and_another_field(self) -> None:
        told = situation(
            fields=(Field("a", "GPU"), Field("b", "GPU")),
            nodes=(*nodes(4), *nodes(4, field=1)),
            running=(
                running("r", 0, 100, (0, 2), limit_s=200),
                running("s", 0, 300, (1, 4), limit_s=400),
            ),
            waiting=(waiting("head", 4, 1.0, total=50), waiting("a", 4, 2.0, limit_s=300)),
        )
        assert exact(told)["a"] == 150.0
        found = self.tried(
            told,
            "a",
            waiting("a", 4, 2.0, limit_s=300),
            waiting("a", 2, 2.0, limit_s=200),
            waiting("a", 2, 2.0, limit_s=300),
            waiting("a", 4, 2.0, limit_s=300, field=1),
            waiting("a", 5, 2.0),
        )
        at = [None if one is None else one.median - NOW for one in found]
        assert at == [150.0, 0.0, 150.0, 300.0, None]

    def test_the_job_as_it_was_is_gone(self) -> None:
        told = situation(nodes=nodes(4), waiting=(waiting("a", 4, 1.0), waiting("b", 4, 3.0)))
        (found,) = self.tried(told, "a", waiting("a", 2, 2.0))
        assert found == Interval(NOW, NOW, NOW)

    def test_a_job_that_is_not_in_the_queue_yet(self) -> None:
        told = situation(nodes=nodes(4), running=(running("r", 0, 100, (0, 4)),))
        (found,) = self.tried(told, "new", waiting("new", 4, 1.0, waited_s=0))
        assert found == Interval(NOW + 100, NOW + 100, NOW + 100)

    def test_no_change_is_no_change(self) -> None:
        """Tried in the very same futures, whatever else waits and comes."""
        run = ForwardRun(TestChance.UNSURE, FEW)
        outlook = run.outlook()
        for start, job in zip(outlook.starts, TestChance.UNSURE.waiting, strict=True):
            (same,) = run.what_if(job.job_id, [Change("none", "", "", job)])
            assert same.start == start.start
        assert run.outlook() == outlook

    def test_it_can_be_asked_without_an_outlook(self) -> None:
        job = TestChance.UNSURE.waiting[1]
        change = [Change("none", "", "", job)]
        alone = what_if(TestChance.UNSURE, job.job_id, change, FEW)
        assert alone[0].start == forecast(TestChance.UNSURE, FEW).starts[1].start


def test_a_situation_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(DataError, match="'r' holds units of a node that is not there"):
        forecast(situation(nodes=nodes(4), running=(running("r", 0, 1, (1, 1)),)))
