"""What `gsched db check` can find: each kind with how bad it is, what it means and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

MAX_EXAMPLES = 5
"""Of each kind so many are shown; all are counted."""

_RESTORE = "keep a copy of the database, then restore a backup made before the damage"
_BUG = "a fault of gsched, or rows changed by hand: report it; `gsched db restore` undoes it"


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind of finding means and what to do. Errors are damage, others are worth knowing."""

    is_error: bool
    meaning: str
    advice: str


KINDS: dict[str, Kind] = {
    "file": Kind(True, "the file is damaged", f"see to the disk; {_RESTORE}"),
    "schema": Kind(
        True,
        "the tables are not those of this gsched",
        "undo what was changed by hand, or back up and restore into an empty database",
    ),
    "reference": Kind(True, "rows refer to rows that are not there", _RESTORE),
    "state": Kind(True, "states that gsched does not have", _BUG),
    "claims": Kind(True, "claims of attempts that cannot be read", _BUG),
    "json": Kind(True, "JSON that cannot be read", _BUG),
    "job": Kind(True, "logical jobs that are not what their attempts make", _BUG),
    "no-attempts": Kind(True, "logical jobs without attempts", _BUG),
    "epoch": Kind(
        True, "predictions or changes that name a job by another epoch than it has", _BUG
    ),
    "digest": Kind(True, "texts whose key is not theirs", _BUG),
    "parts": Kind(True, "lists whose nodes or resources are not kept as they are written", _BUG),
    "usage": Kind(True, "sums of pruned jobs that cannot be", _BUG),
    "samples": Kind(True, "blocks of samples that cannot be read", _RESTORE),
    "audit": Kind(
        True, "changes whose transitions do not lead from their beginning to their state", _BUG
    ),
    "spans": Kind(True, "spans of the daemon's rounds that cannot be", _BUG),
    "power": Kind(True, "orders to nodes, and what was seen of them, that cannot be", _BUG),
    "lease": Kind(True, "leases whose state is not that of their last transition", _BUG),
    "fairness": Kind(
        True, "hours of tenants' accounts, quotas, or worths of GPUs that cannot be", _BUG
    ),
    "target": Kind(True, "deadlines, and what became of them, that cannot be", _BUG),
    "derived": Kind(
        False,
        "phases or groups of names made by other rules than those in force",
        "run `gsched db upgrade`",
    ),
    "unused": Kind(
        False,
        "texts to which nothing refers",
        "`gsched db prune` takes them away (on PostgreSQL, run as the owner of the tables)",
    ),
    "prunable": Kind(
        False,
        "jobs that ended before the time up to which was pruned: their end was told later, or "
        "the prune was broken off",
        "the next `gsched db prune` takes them",
    ),
    "unknown-job": Kind(
        False,
        "predictions or changes of jobs that nobody has told of",
        "run `gsched db ingest`; what is old goes with `gsched db prune`",
    ),
    "times": Kind(
        False,
        "attempts with times that cannot be, as their source told them",
        "look at the source, and at the clocks of the cluster",
    ),
    "conflicts": Kind(
        False,
        "values that equally good sources told otherwise than what is kept",
        "`gsched history --json -j JOB` shows what is kept of a job; see which source is wrong",
    ),
    "rejects": Kind(
        False, "rows that no reader has understood", "`gsched db stats --rejects` shows them"
    ),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """How often something was found, and the first places of it."""

    kind: str
    count: int
    examples: tuple[str, ...]

    @property
    def is_error(self) -> bool:
        """Whether it is damage."""
        return KINDS[self.kind].is_error


class Findings:
    """Findings as they are met, in bounded memory."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._examples: dict[str, list[str]] = {}

    def add(self, kind: str, example: str, count: int = 1) -> None:
        """Note `count` of a kind."""
        self._counts[kind] = self._counts.get(kind, 0) + count
        examples = self._examples.setdefault(kind, [])
        if len(examples) < MAX_EXAMPLES:
            examples.append(example)

    def add_all(self, kind: str, examples: Iterable[str]) -> None:
        """Note one of a kind for each example."""
        for example in examples:
            self.add(kind, example)

    def has(self, kind: str) -> bool:
        """Whether something of a kind has been met."""
        return kind in self._counts

    def listed(self) -> tuple[Finding, ...]:
        """What was found, errors first."""
        return tuple(
            Finding(kind, self._counts[kind], tuple(self._examples[kind]))
            for kind in KINDS
            if kind in self._counts
        )
