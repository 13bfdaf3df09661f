"""The report from records: wake-ups, delays, energy and days, by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.ces_report import POOL, T0, a_night, counted, delayed, ordered, records, span

from gsched.app.ces_report.records import CesQuery, CesRecords
from gsched.app.ces_report.report import CesReport, report_of
from gsched.app.ces_report.tables import day_table, delay_table, saving_table, use_table, wake_table
from gsched.app.ces_report.words import report_lines
from gsched.config.node_settings import EnergySettings
from gsched.errors import ConfigError, UsageError
from gsched.model.decision import Reason
from gsched.model.journal import ChangeState
from gsched.model.node_power import NodeVerb, PowerCause, PowerPhase
from gsched.model.times import DAY_S

ENERGY = EnergySettings()
ASLEEP, WAKING = PowerPhase.ASLEEP, PowerPhase.WAKING
SLURM, OTHERS = PowerCause.SLURM, PowerCause.OTHERS
KNOWN_DAY = [counted(at, idle=4) for at in range(0, DAY_S + 1, 900)]


def told(kept: CesRecords, length: int = DAY_S, energy: EnergySettings = ENERGY, **query: object):
    return report_of(kept, CesQuery(T0, T0 + length, **query), energy)


def wakes_of(report: CesReport, cause: PowerCause):
    return next(wakes for wakes in report.wakes if wakes.cause is cause)


def test_a_wake_up_in_parts_is_one() -> None:
    orders = [
        ordered("n1", NodeVerb.WAKE, 100, "ces.arrival"),
        ordered("n2", NodeVerb.WAKE, 100, "ces.arrival"),
        ordered("n3", NodeVerb.WAKE, 160, "ces.staggered"),
        ordered("n4", NodeVerb.WAKE, 900, "ces.demand-expected", ChangeState.SENT),
        ordered("n1", NodeVerb.WAKE, 950, "ces.arrival", ChangeState.REJECTED),
        ordered("n1", NodeVerb.WAKE, 980, "ces.arrival", ChangeState.OBSERVED),
        ordered("n9", NodeVerb.WAKE, 900, "", pool="other"),
        ordered("n1", NodeVerb.SLEEP, 5000, "ces.surplus"),
    ]
    held = ordered("n5", NodeVerb.WAKE, 7000)
    reserved = Reason("ces.reserved-soon", {"reservation": "r"})  # of the node itself
    orders.append(replace(held, order=replace(held.order, reason=reserved)))
    report = told(records(KNOWN_DAY, orders=orders))
    because = {"ces.arrival": 1, "ces.demand-expected": 1, "ces.reserved-soon": 1, "not-told": 1}
    assert report.woken_because == because
    assert report.slept_because == {"ces.surplus": 1}
    assert wakes_of(report, PowerCause.CES).wake_ups == 4
    assert report.orders["wake", "rejected"] == 1
    assert report.did == "acted"


def test_who_woke_nodes_and_how_that_ended() -> None:
    spans = [
        span("n1", WAKING, 100, 160, outcome="awake"),
        span("n2", WAKING, 100, 400, outcome="failed"),
        span("n3", WAKING, 100, 190, outcome="awake"),
        span("n4", WAKING, 100, 700, outcome="unknown"),
        span("n5", WAKING, 80_000, None),
        span("n6", WAKING, 500, 530, SLURM, outcome="awake", job="7"),
        span("n7", WAKING, 501, 545, SLURM, outcome="awake", job="7"),
        span("n6", WAKING, 900, 930, SLURM, outcome="awake", job="8"),
        span("n8", WAKING, 900, 930, OTHERS, outcome="awake"),
        span("n9", WAKING, -10, 50, outcome="awake"),  # began before
        span("n1", ASLEEP, 0, 100),
    ]
    report = told(records(KNOWN_DAY, spans))
    by_ces, by_slurm = wakes_of(report, PowerCause.CES), wakes_of(report, SLURM)
    assert by_ces.nodes == 5
    assert by_ces.outcomes == {"awake": 2, "failed": 1, "still-waking": 1, "unknown": 1}
    assert (by_ces.quantile(0.5), by_ces.quantile(0.9)) == (60, 90)
    assert (by_slurm.wake_ups, by_slurm.nodes) == (2, 3)
    assert (wakes_of(report, OTHERS).wake_ups, wakes_of(report, OTHERS).nodes) == (1, 1)
    row = wake_table(report).rows[0]
    assert row == ("CES", "0", "0.0", "5", "5.0", "2", "1", "2", "1:00", "1:30")


def test_time_asleep_counts_where_it_is_known_and_by_who_brought_it_about() -> None:
    counts = [counted(at, asleep=1) for at in (0, 900, 1800, 5000, 5900)]
    spans = [
        span("n1", ASLEEP, -100, 1000),  # from 0 on: 1000
        span("n2", ASLEEP, 1000, 5400),  # 800 before the gap, 400 after it
        span("n3", ASLEEP, 5000, None),  # still asleep: 900 to the last count
        span("n4", ASLEEP, 0, 60, SLURM),
        span("n5", ASLEEP, 0, 90, OTHERS),
        span("n6", ASLEEP, 900, 9999, pool="named otherwise"),  # 900 and 900
        span("n7", PowerPhase.FALLING, 0, 900),
    ]
    report = told(records(counts, spans))
    assert report.asleep_node_hours[PowerCause.CES] == pytest.approx((3100 + 1800) / 3600)
    assert report.asleep_node_hours[SLURM] == pytest.approx(60 / 3600)
    assert report.asleep_node_hours[OTHERS] == pytest.approx(90 / 3600)
    assert any("0.0 node-hours by Slurm's own" in line for line in report_lines(report))


def test_energy_is_of_nodes_that_ces_put_to_sleep_whoever_woke_them() -> None:
    spans = [
        span("n1", ASLEEP, 0, 36_000),
        span("n1", WAKING, 36_000, 36_100, SLURM, outcome="awake", job="7"),
        span("n2", ASLEEP, 0, 36_000),
        span("n2", WAKING, 36_000, 36_300, outcome="failed"),
        span("n3", ASLEEP, 0, 36_000, OTHERS),
        span("n3", WAKING, 36_000, 36_900, outcome="awake"),
    ]
    energy = EnergySettings(
        idle_w=500, asleep_w=20, waking_w=700, cooling_factor=0.5, price_a_kwh=0.2, co2_g_a_kwh=300
    )
    report = told(records(KNOWN_DAY, spans), energy=energy)
    # 20 h · 480 W · 1.5 = 14.4 kWh; two wakes of 200 s on average · 200 W more · 1.5 = 33.3 Wh
    assert report.assumptions.wake_s == 200
    assert report.energy.waking_kwh == pytest.approx(2 * 200 * 200 / 3600 * 1.5 / 1000)
    assert report.energy.kwh == pytest.approx(14.4 - 0.0333333, abs=1e-6)
    assert report.energy.money == pytest.approx(report.energy.kwh * 0.2)
    assert report.energy.co2_kg == pytest.approx(report.energy.kwh * 0.3)
    text = " ".join(report_lines(report))
    for words in (
        "500 W awake", "20 W asleep", "700 W while it wakes", "200 s on average (seen)",
        "0.5 times", "PUE 1.5", "0.2 USD", "300 g of CO2",
    ):  # fmt: skip
        assert words in text
    assert sum(day.kwh for day in report.days) == pytest.approx(report.energy.kwh)
    assert saving_table(report).rows[1] == ("energy", "14.4 kWh", "14.4 kWh")


def test_a_sleep_that_was_none_saves_nothing_and_its_end_costs_nothing() -> None:
    spans = [span("n1", ASLEEP, 600, 600), span("n1", WAKING, 900, 1000, SLURM, outcome="awake")]
    report = told(records(KNOWN_DAY, spans))
    assert (report.energy.kwh, report.energy.nodes_woken) == (0, 0)


def test_small_figures_are_told_with_digits_that_say_something() -> None:
    spans = [span("n1", ASLEEP, 0, 129)]
    rows = saving_table(told(records(KNOWN_DAY, spans))).rows
    assert [row[1] for row in rows[:2]] == ["0.036 node-h", "0.043 kWh"]
    one = told(records(KNOWN_DAY, delays=[delayed("1", 5, 9)], job_starts=[5]))
    assert delay_table(one).rows[0][2] == "100 %"


def test_a_figure_that_nobody_has_set_is_told_as_such() -> None:
    kept = a_night()
    assert "set idle_w to your nodes'" in " ".join(report_lines(told(kept)))
    mine = told(kept, energy=EnergySettings(idle_w=180.0))
    assert "set idle_w" not in " ".join(report_lines(mine))


def test_a_wake_of_which_no_time_is_known_takes_what_is_assumed() -> None:
    spans = [span("n1", ASLEEP, 0, 600), span("n1", WAKING, 600, None)]
    report = told(records(KNOWN_DAY, spans))
    assert (report.assumptions.wake_s, report.wake_s_is_seen) == (300, False)
    assert any("300 s on average (assumed)" in line for line in report_lines(report))


def test_assumptions_that_cannot_be_are_told() -> None:
    with pytest.raises(ConfigError, match="energy"):
        told(records(KNOWN_DAY), energy=replace(ENERGY, asleep_w=900.0))


def test_delays_and_the_jobs_that_they_are_of() -> None:
    delays = [delayed(str(n), 1000 + n, n) for n in range(1, 201)]
    delays += [delayed("300", 5000, None), delayed("301", 6000, 0)]
    starts = [*range(1000, 1250), -5, DAY_S + 2000]  # the last one after the known time
    report = told(records(KNOWN_DAY, delays=delays, job_starts=starts))
    found = report.delayed
    assert (found.jobs, found.gone, found.jobs_started) == (202, 1, 250)
    assert (found.quantile(0.5), found.quantile(0.99), found.quantile(1.0)) == (100, 198, 200)
    document = found.document()
    assert document["total_s"] == 20_100
    assert document["mean_of_all_s"] == pytest.approx(20_100 / 250)
    assert document["delayed_share"] == pytest.approx(202 / 250)
    assert delay_table(report).rows[0][:6] == ("202", "250", "81 %", "1:40", "3:18", "3:20")


@pytest.mark.parametrize("starts", [[], [10]])
def test_a_history_that_lacks_the_delayed_jobs_is_no_denominator(starts: list[int]) -> None:
    delays = [delayed("1", 100, 30), delayed("2", 100, 30)]
    report = told(records(KNOWN_DAY, delays=delays, job_starts=starts))
    assert report.delayed.jobs_started is report.delayed.share is None
    assert any("gsched db ingest" in line for line in report_lines(report))


def test_a_reader_is_told_that_delays_are_of_own_jobs() -> None:
    kept = records(KNOWN_DAY, delays=[delayed("1", 100, 30)], job_starts=[100, 200])
    text = " ".join(report_lines(told(replace(kept, of_all_users=False))))
    assert "2 jobs of your own began" in text
    assert "your own jobs alone" in text
    assert "your own" not in " ".join(report_lines(told(kept)))


def test_one_pool_alone() -> None:
    kept = records(
        [*KNOWN_DAY, *(counted(at, "gpu", running=2) for at in (0, 600))],
        [
            span("g1", WAKING, 10, 20, pool="gpu", outcome="awake"),
            span("n1", WAKING, 10, 20),
            span("g2", ASLEEP, 60, 7260, pool="gpu"),
            span("n2", ASLEEP, 0, 7200),
        ],
        [ordered("g1", NodeVerb.WAKE, 10, pool="gpu"), ordered("n1", NodeVerb.WAKE, 11)],
        [delayed("1", 10, 5, pool="gpu"), delayed("2", 10, 7)],
        [10, 10],
    )
    report = told(kept, pools=("gpu",))
    assert [pool.pool for pool in report.pools] == ["gpu"]
    assert report.known.length_s == 600
    assert wakes_of(report, PowerCause.CES).nodes == wakes_of(report, PowerCause.CES).wake_ups == 1
    assert (report.delayed.jobs, report.delayed.jobs_started) == (1, None)
    assert report.asleep_node_hours[PowerCause.CES] == 2
    both = told(kept)
    assert [row[0] for row in use_table(both).rows] == [POOL, "gpu", "all"]
    assert both.delayed.jobs_started == 2
    with pytest.raises(UsageError) as refused:
        told(kept, pools=("gpus",))
    assert refused.value.hint == f"there are: {POOL}, gpu"


def test_nothing_kept_is_told_as_nothing_known() -> None:
    report = told(records())
    assert (report.did, report.known_share) == ("nothing", 0.0)
    assert report.overall.utilisation is None
    lines = list(report_lines(report))
    assert any(line.startswith("Nothing is known of this time") for line in lines)
    assert use_table(report).rows[0][1:8] == ("-", "-", "-", "-", "0.0", "-", "-")
    document = json.loads(json.dumps(report.document(), allow_nan=False))
    (day,) = document["days"]
    assert document["energy"]["kwh"] is day["kwh"] is day["asleep_node_hours"] is None
    assert document["energy"]["assumptions"]["idle_w"] == 800
    assert saving_table(report).rows[1] == ("energy", "-", "-")


def test_less_than_a_day_gives_no_rate() -> None:
    almost = [counted(at, idle=1) for at in range(0, DAY_S - 899, 900)]
    assert told(records(almost)).a_day(3) is None
    assert told(records(KNOWN_DAY)).a_day(3) == 3


def test_observing_is_not_saving() -> None:
    orders = [ordered("n1", NodeVerb.SLEEP, 10, "ces.surplus", ChangeState.OBSERVED)]
    report = told(records(KNOWN_DAY, orders=orders))
    assert report.did == "observed"
    assert (report.energy.kwh, report.slept_because) == (0, {})
    assert any("decided anew" in line for line in report_lines(report))


@pytest.mark.parametrize("state", [ChangeState.REJECTED, ChangeState.VOID, ChangeState.INTENT])
def test_an_order_that_came_to_nothing_is_no_act(state: ChangeState) -> None:
    report = told(records(KNOWN_DAY, orders=[ordered("n1", NodeVerb.SLEEP, 10, "", state)]))
    assert report.did == "nothing"
    assert f"Orders to single nodes: 1 to sleep {state.value}." in report_lines(report)


def test_days_are_cut_at_midnight() -> None:
    report = told(a_night(2), 2 * DAY_S)
    first, second = report.days
    assert (first.begin, second.begin) == (T0, T0 + DAY_S)
    # two nodes from 20:00 to midnight, then to 6:00 and again from 20:00
    assert first.asleep_node_hours == pytest.approx(8)
    assert second.asleep_node_hours == pytest.approx(12 + 8)
    assert first.kwh == pytest.approx(8 * 0.8 * 1.5)
    assert (first.wake_ups, second.wake_ups) == (0, 1)
    assert second.nodes_woken == {"ces": 2, "slurm": 0, "others": 0}
    assert first.known_share == second.known_share == 1.0
    assert report.overall.asleep_node_hours == pytest.approx(28)
    assert report.asleep_node_hours[PowerCause.CES] == pytest.approx(28)
    assert report.overall.utilisation == pytest.approx(0.25)
    assert report.overall.awake_utilisation == pytest.approx(48 / (4 * 48 - 28))
    assert day_table(report).rows[0][:4] == ("2024-10-04 00:00", "100 %", "8.0", "9.6")


def test_a_window_from_noon_to_noon_has_two_halves() -> None:
    noon = T0 + 12 * 3600
    report = report_of(a_night(2), CesQuery(noon, noon + DAY_S), ENERGY)
    assert [day.begin for day in report.days] == [noon, T0 + DAY_S]
    assert [day.asleep_node_hours for day in report.days] == pytest.approx([8, 12])
    assert [day.known_share for day in report.days] == [1.0, 1.0]


def test_a_window_within_a_day_has_one_short_day() -> None:
    kept = a_night(1)
    report = report_of(kept, CesQuery(T0 + 21 * 3600, T0 + 22 * 3600), ENERGY)
    (day,) = report.days
    assert (day.begin, day.known_share) == (T0 + 21 * 3600, 1.0)
    assert day.asleep_node_hours == pytest.approx(2)


def test_the_document_is_json_with_the_same_figures() -> None:
    report = told(a_night(2), 2 * DAY_S)
    document = json.loads(json.dumps(report.document(), allow_nan=False))
    assert document["overall"]["asleep_nodes"] == pytest.approx(28 / 48)
    assert document["energy"]["assumptions"]["idle_w"] == 800
    assert document["course"]["step_s"] == 1200
    assert len(document["course"]["awake_nodes"]) == 144
    assert document["wake_ups"][0]["nodes_a_day"] == 1.0
