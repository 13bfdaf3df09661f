"""The hours of the ledger: closed from the job history, and kept when the jobs are pruned.

An hour is closed once the history knows all that ended in it. Closing again changes nothing, unless
more has become known: the last day is closed anew each time, and so is what tasks of arrays waited
before they started, for the history knows them only then. So an hour that was missed, because no
daemon ran, is closed from the history as well as one that was not.
"""

from __future__ import annotations

import numpy as np

from gsched.app.fairness.books import fairness_books
from gsched.fairness.fading import HOUR_S
from gsched.fairness.hours import interval_sums
from gsched.model.accounts import FairnessEntry, SiteQuotas
from gsched.model.times import DAY_S
from gsched_sql import History

CLOSED_AGAIN_S = DAY_S
"""So much of what was closed is closed again."""

LONGEST_WAIT_S = 30 * DAY_S
"""Tasks of arrays that waited for longer are not asked for earlier hours any more."""

MOST_HOURS = 31 * 24
"""Hours closed by one call; where more is to be done, the next call goes on."""


def close_hours(
    history: History, cluster: str, told_until: int, site: SiteQuotas, fence: int | None
) -> int:
    """Close what can be; returns how many hours. Call it again where it is MOST_HOURS.

    The history knows all that ended before `told_until` (epoch). `site` counts where no quotas were
    ever noted. Raises LostLeadershipError where `fence` is no longer the newest.
    """
    ledger = history.fairness(fence)
    end = told_until // HOUR_S * HOUR_S
    begin = _begin(history, cluster, end)
    if begin is None or begin >= end:
        return 0
    end = min(end, begin + MOST_HOURS * HOUR_S)
    ledger.close(cluster, begin, hours_of(history, cluster, begin, end, site))
    return (end - begin) // HOUR_S


def hours_of(
    history: History, cluster: str, begin: int, end: int, site: SiteQuotas
) -> list[FairnessEntry]:
    """The entries of the hours in [begin, end), of tenants of whom there is something to tell."""
    books, _ = fairness_books(history, cluster, begin, end, site)
    edges = np.arange(begin, end + 1, HOUR_S, dtype=np.float64)
    told = interval_sums(books, edges)
    is_told = (told.received > 0) | (told.demanded > 0) | (told.due > 0)
    tenants, hours = np.nonzero(is_told)
    columns = [
        column[is_told].tolist()
        for column in (told.received, told.entitled, told.demanded, told.borrowed, told.due)
    ]
    return [
        FairnessEntry(cluster, books.tenants[tenant], begin + hour * HOUR_S, HOUR_S, *amounts)
        for tenant, hour, amounts in zip(
            tenants.tolist(), hours.tolist(), zip(*columns, strict=True), strict=True
        )
    ]


def _begin(history: History, cluster: str, end: int) -> int | None:
    """The first hour to be closed; None where nothing is known of the cluster.

    A clock that was ahead has closed hours that are still to come: they are closed again. Hours of
    which jobs have been pruned stay as they are.
    """
    ledger = history.fairness()
    closed, since = ledger.closed_until(cluster), ledger.closed_since(cluster)
    mark = ledger.pruned_before(cluster)
    if closed is None or since is None:
        begin = ledger.first_epoch(cluster)
    else:
        closed = min(closed, end)
        begin = max(closed - CLOSED_AGAIN_S, min(since, closed))
        asked = ledger.first_asked_by_tasks(cluster, begin)
        if asked is not None:
            begin = max(min(begin, asked), closed - LONGEST_WAIT_S)
    if begin is None:
        return None
    begin = begin // HOUR_S * HOUR_S
    return begin if mark is None else max(begin, -(-mark // HOUR_S) * HOUR_S)
