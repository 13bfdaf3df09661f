"""The report in sentences: what it is of, what is assumed, what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gsched.app.ces_report.report import CesReport
from gsched.app.ces_report.tables import tenths, told
from gsched.app.ces_report.wakes import NOT_TOLD
from gsched.config.node_settings import EnergySettings
from gsched.explain.words import count, moment, percent, short_time
from gsched.model.node_power import MAX_GAP_S, PowerCause
from gsched.model.times import DAY_S

_DID = {
    "acted": "CES put nodes to sleep and woke them",
    "observed": "CES observed only: it told what it would do, and did nothing",
    "nothing": "CES did nothing in this time",
}
_DECIDED_BY = {
    "ces.arrival": "jobs waited for nodes",
    "ces.demand-expected": "demand was expected",
    "ces.reserved-soon": "a reservation was about to begin",
    "ces.surplus": "more nodes were idle than are kept as a spare",
    NOT_TOLD: "the reason was not kept",
}


def report_lines(report: CesReport) -> Iterator[str]:
    """What was done, what is known, what is assumed, and what the figures mean."""
    since, until = moment(report.query.since), moment(report.query.until)
    yield f"Cluster {report.cluster} from {since} to {until}: {_DID[report.did]}."
    yield from _known(report)
    yield from _orders(report)
    yield from _sleepers(report)
    yield from _saving(report)
    yield from _meaning(report)


def _known(report: CesReport) -> Iterator[str]:
    if not report.known.length_s:
        yield "Nothing is known of this time: the daemon has kept no counts of nodes ([ces] mode)."
        return
    yield (
        f"{percent(report.known_share)} of this time is known "
        f"({short_time(report.known.length_s)}), from {moment(int(report.known.begin[0]))} to "
        f"{moment(int(report.known.end[-1]))}. Where two counts of nodes are more than "
        f"{short_time(MAX_GAP_S)} apart nothing is known of the time between, and nothing is made "
        "up for it: it is in no mean, and no energy is saved in it."
    )
    if report.known.length_s < DAY_S:
        yield "Less than a day is known: nothing is told a day."


def _orders(report: CesReport) -> Iterator[str]:
    if report.woken_because:
        yield f"CES woke nodes because {_counted(report.woken_because)}."
    if report.slept_because:
        yield f"It put nodes to sleep because {_counted(report.slept_because)}."
    if report.orders:
        told_of = ", ".join(
            f"{number} to {verb} {state}" for (verb, state), number in sorted(report.orders.items())
        )
        yield f"Orders to single nodes: {told_of}."
    if any(state == "observed" for _, state in report.orders):
        yield (
            "While CES observes nothing comes of an order, so that it is decided anew: observed "
            "orders are more than there would be nodes."
        )


def _counted(decisions: Mapping[str, int]) -> str:
    most = sorted(decisions.items(), key=lambda each: (-each[1], each[0]))
    return "; ".join(
        f"{_DECIDED_BY.get(code, code)} ({count(number, 'time')})" for code, number in most
    )


def _sleepers(report: CesReport) -> Iterator[str]:
    """Whose the time asleep is: the use of nodes is of all, the saving of CES' alone."""
    hours = report.asleep_node_hours
    others = hours[PowerCause.SLURM] + hours[PowerCause.OTHERS]
    if others:
        yield (
            f"Nodes also slept for {hours[PowerCause.SLURM]:,.1f} node-hours by Slurm's own "
            f"SuspendTime and for {hours[PowerCause.OTHERS]:,.1f} by others' hands: that is not "
            "among what CES saved."
        )


def _saving(report: CesReport) -> Iterator[str]:
    energy, assumed = report.energy, report.assumptions
    pue = 1 + assumed.cooling_factor
    is_own = assumed.idle_w == EnergySettings().idle_w
    built_in = " (gsched's own figure, of a DGX-1: set idle_w to your nodes')" if is_own else ""
    waking = "seen" if report.wake_s_is_seen else "assumed"
    yield (
        f"Assumed, in [energy]: a node uses {assumed.idle_w:g} W awake and idle{built_in}, "
        f"{assumed.asleep_w:g} W asleep, {assumed.waking_w:g} W while it wakes, for which it takes "
        f"{assumed.wake_s:.0f} s on average ({waking})."
    )
    yield (
        f"Assumed: cooling and supply add {assumed.cooling_factor:g} times the servers' energy "
        f"(PUE {pue:g}), a kWh costs {assumed.price_a_kwh:g} {assumed.currency} and emits "
        f"{assumed.co2_g_a_kwh:g} g of CO2."
    )
    yield (
        "No energy was metered. It is counted against the same nodes awake and idle, while they "
        "are asleep alone, not while they go to sleep; what they used beyond idle ones while they "
        f"woke, {energy.nodes_woken:,.0f} times ({energy.waking_kwh:,.1f} kWh), is taken off. "
        "Asleep are those of which Slurm says so, but for those whose suspend failed, where "
        "`gsched power` switches them and the daemon could read what it keeps; with power programs "
        "of the site's own it is by Slurm's word alone. Nobody has asked whether power was off."
    )


def _meaning(report: CesReport) -> Iterator[str]:
    yield (
        "USED OF ALL: the time of nodes with jobs over that of all nodes, as it would be if none "
        "slept; USED OF AWAKE: over that of nodes that were not asleep. Means are over known time; "
        "nodes that CES may not change (excluded) are in none of them."
    )
    yield (
        "WAKE-UPS by CES are decisions (the parts of a staggered one are one), by Slurm jobs that "
        "it woke nodes for. NOT KNOWN: nodes that still wake, or at which nobody looked when they "
        "came up."
    )
    if not report.of_all_users:
        yield (
            "The database shows you your own jobs alone: delays are of these, and of Slurm's "
            "wake-ups only the nodes are counted well. An auditor sees all."
        )
    yield _delay_words(report)


def _delay_words(report: CesReport) -> str:
    delayed = report.delayed
    if report.query.pools:
        of = "how many jobs began in these pools is not known"
    elif delayed.jobs_started is None:
        of = "how many jobs began is not known: see `gsched db ingest`"
    else:
        whose = "of the whole cluster" if report.of_all_users else "of your own"
        of = f"{delayed.jobs_started:,} jobs {whose} began in the known time"
        if delayed.jobs_started:
            of += f", so that {told(delayed.share, tenths)} waited for nodes"
    return (
        "A job is delayed from when Slurm has given it nodes until all of them are awake; the "
        f"quantiles are of delayed jobs alone, and {of}."
    )
