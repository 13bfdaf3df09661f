"""The named points of rounds, orders to nodes, accounts and changes of model, for tests that kill.

At each of them what lies on disk and in Slurm is a state from which the next round, or the next
fit, recovers by itself.
"""

from __future__ import annotations

import enum
from collections.abc import Callable


class FaultPoint(enum.Enum):
    """Where work can be cut off; `value` is the name that the environment gives."""

    SNAPSHOT_TAKEN = "snapshot-taken"
    DECIDED = "decided"
    INTENT_RECORDED = "intent-recorded"
    CHUNK_SENT = "chunk-sent"
    ALL_SENT = "all-sent"
    CONFIRMED = "confirmed"
    ROUND_ENDED = "round-ended"
    LEASE_GRANTED = "lease-granted"
    LEASE_ENDING = "lease-ending"
    LEASE_SIGNAL_SENT = "lease-signal-sent"
    LEASE_SIGNALLED = "lease-signalled"
    LEASE_SAVED = "lease-saved"
    LEASE_REQUEUE_SENT = "lease-requeue-sent"
    LEASE_REQUEUED = "lease-requeued"
    LEASE_REGRANTED = "lease-regranted"
    CES_DECIDED = "ces-decided"
    CES_INTENT_RECORDED = "ces-intent-recorded"
    CES_SENT = "ces-sent"
    CES_ALL_SENT = "ces-all-sent"
    FAIRNESS_NOTED = "fairness-noted"
    FAIRNESS_CLOSED = "fairness-closed"
    TARGETS_KEPT = "targets-kept"
    TARGETS_MAILED = "targets-mailed"
    RESERVATION_NOTED = "reservation-noted"
    RESERVATION_MADE = "reservation-made"
    RESERVATION_USED = "reservation-used"
    RESERVATION_EMPTIED = "reservation-emptied"
    RESERVATION_REMOVED = "reservation-removed"
    MODEL_KEPT = "model-kept"
    MODEL_RECORDED = "model-recorded"
    MODEL_IN_USE = "model-in-use"


MODEL_POINTS = tuple(p for p in FaultPoint if p.value.startswith("model-"))
"""Those between the steps in which a fitted, or an older, model is put in use."""

LEASE_POINTS = tuple(p for p in FaultPoint if p.value.startswith("lease-"))
"""Those between the steps of a lease; a round without leases does not come to them."""

CES_POINTS = tuple(p for p in FaultPoint if p.value.startswith("ces-"))
"""Those between the steps of an order that puts nodes to sleep or wakes them."""

FAIRNESS_POINTS = tuple(p for p in FaultPoint if p.value.startswith("fairness-"))
"""Those after the steps that keep up the ledger of tenants; only a service comes to them."""

TARGET_POINTS = tuple(p for p in FaultPoint if p.value.startswith("targets-"))
"""Those after deadlines were kept, and after one was warned of; others do not come to them."""

RESERVATION_POINTS = tuple(p for p in FaultPoint if p.value.startswith("reservation-"))
"""Those between the steps in which nodes are reserved for a deadline, and given back."""

_OTHERS = (
    *TARGET_POINTS,
    *RESERVATION_POINTS,
    *LEASE_POINTS,
    *CES_POINTS,
    *FAIRNESS_POINTS,
    *MODEL_POINTS,
)
ROUND_POINTS = tuple(p for p in FaultPoint if p not in _OTHERS)
"""Those that an acting round with something to write comes to."""

FaultHook = Callable[[FaultPoint], None]


def no_faults(_point: FaultPoint) -> None:
    """The hook of normal life."""
