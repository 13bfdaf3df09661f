"""The report's time day by day (UTC)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from gsched.app.ces_report.pool_time import Floats, Ints, KnownTime
from gsched.demand.energy import EnergyAssumptions, energy_saved
from gsched.model.times import DAY_S


@dataclass(frozen=True, slots=True)
class DayFigures:
    """One day from `begin` (epoch seconds), as far as it lies in the report's time.

    `asleep_node_hours` and `kwh` are of nodes that CES put to sleep, None where nothing is known of
    the day; `wake_ups` it decided on; `nodes_woken` by anybody, by cause.
    """

    begin: int
    known_share: float
    asleep_node_hours: float | None
    kwh: float | None
    wake_ups: int
    nodes_woken: Mapping[str, int]
    jobs_delayed: int

    def document(self) -> dict[str, object]:
        """With the names of the fields as keys."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Moments:
    """When things happened: epoch seconds. `charged`: nodes woken whose waking costs energy."""

    wake_ups: Sequence[int]
    nodes_woken: Mapping[str, Sequence[int]]
    charged: Sequence[int]
    delays: Sequence[int]


def day_edges(since: int, until: int) -> Ints:
    """The report's two ends, and each midnight between."""
    midnights = range(since - since % DAY_S + DAY_S, until, DAY_S)
    return np.array([since, *midnights, until], dtype=np.int64)


def day_figures(
    edges: Ints,
    known: KnownTime,
    asleep_s: Floats,
    moments: Moments,
    assumptions: EnergyAssumptions,
) -> list[DayFigures]:
    """A day between each two edges, with the node-seconds that CES let nodes sleep in it."""
    known_s = known.within(edges[:-1], edges[1:])
    wake_ups, charged, delays = (
        _by_day(found, edges) for found in (moments.wake_ups, moments.charged, moments.delays)
    )
    woken = {cause: _by_day(found, edges) for cause, found in moments.nodes_woken.items()}
    return [
        DayFigures(
            begin=int(begin),
            known_share=float(known_s[day] / (edges[day + 1] - begin)),
            asleep_node_hours=float(asleep_s[day] / 3600) if known_s[day] else None,
            kwh=(
                float(energy_saved(asleep_s[day] / 3600, charged[day], assumptions).kwh)
                if known_s[day]
                else None
            ),
            wake_ups=wake_ups[day],
            nodes_woken={cause: found[day] for cause, found in woken.items()},
            jobs_delayed=delays[day],
        )
        for day, begin in enumerate(edges[:-1].tolist())
    ]


def _by_day(moments: Sequence[int], edges: Ints) -> list[int]:
    """How many of the moments lie between each two edges."""
    counted = np.diff(np.searchsorted(np.sort(np.array(moments, dtype=np.int64)), edges))
    return [int(number) for number in counted]
