"""What a look tells the job history that it has not been told yet."""

from __future__ import annotations

from dataclasses import dataclass

from gsched.model.history import AttemptRecord, Batch
from gsched.slurm.from_queue import to_attempt
from gsched.slurm.records import FreeText, QueueListing, QueueRow


@dataclass(frozen=True, slots=True)
class _Told:
    row: QueueRow
    text: FreeText | None
    record: AttemptRecord


class Sightings:
    """The attempts in squeue's listings, each as often as something of it is new.

    Much of a row (its priority, its announced start) is nothing that the history keeps.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._told: dict[int, _Told] = {}
        self._rejects: frozenset[str] = frozenset()
        self._next: tuple[dict[int, _Told], frozenset[str]] = ({}, frozenset())

    def fresh(self, listing: QueueListing) -> Batch:
        """What is new in `listing`, names and phases included."""
        now: dict[int, _Told] = {}
        records = []
        for row in listing.rows:
            told, text = self._told.get(row.raw_id), listing.texts.get(row.raw_id)
            if told is None or told.row is not row or told.text is not text:
                record = to_attempt(row, text, self._cluster)
                if record is None:
                    continue
                if told is None or told.record != record:
                    records.append(record)
                told = _Told(row, text, record)
            now[row.raw_id] = told
        rejects = tuple(r for r in listing.rejects if r.raw not in self._rejects)
        self._next = (now, frozenset(r.raw for r in listing.rejects))
        return Batch(tuple(records), rejects, rows_in=len(records) + len(rejects))

    def kept(self) -> None:
        """The history has what `fresh` gave last."""
        self._told, self._rejects = self._next
