"""Estimates of a start that need no forecast: what the forecast is measured against.

``queue-length``: the number of waiting jobs ahead ÷ the jobs that started in the last day; of the
last seven days, where none has started in one. (Nobody ahead: now.) It is the estimate of who looks
at squeue and knows how quickly the queue moves.
``site-wait``: the median wait of the last SITE_WAITS jobs that have started.
``user-wait``: the same of the user's last USER_WAITS; of all where the user has none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from support.forecast_state import Known

DAY_S = 86_400.0
SITE_WAITS = 100
USER_WAITS = 20

NAMES = ("queue-length", "site-wait", "user-wait")


def starts(known: Known) -> dict[str, float]:
    """The expected start by name; NaN where nothing has started yet."""
    started = known.started()
    if not len(started):
        return dict.fromkeys(NAMES, np.nan)
    log = known.log
    waits = log.start[started] - log.submit[started]
    own_waits = waits[log.user[started] == log.user[known.row]][-USER_WAITS:]
    site_wait = float(np.median(waits[-SITE_WAITS:]))
    return {
        "queue-length": known.now + _queue_wait_s(known, log.start[started]),
        "site-wait": known.now + site_wait,
        "user-wait": known.now + (float(np.median(own_waits)) if len(own_waits) else site_wait),
    }


def _queue_wait_s(known: Known, started_at: NDArray[np.float64]) -> float:
    ahead = len(known.ahead())
    if not ahead:
        return 0.0
    for span_s in (DAY_S, 7 * DAY_S):
        number = int(np.count_nonzero(started_at >= known.now - span_s))
        if number:
            return ahead * span_s / number
    return np.nan
