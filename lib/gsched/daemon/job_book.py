"""The jobs of the last look as values of the model; those that did not change are kept.

A job's view is made anew when its line in squeue changed, or whatever else its exclusions depend
on. All others are handed out as the same objects, by which the later steps of a round know them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from gsched.daemon.look import Look
from gsched.daemon.requests import RequestBook, Sighting
from gsched.model.cluster import Delta
from gsched.model.job import JobKey, JobView
from gsched.model.journal import Standing
from gsched.slurm.exclusions import Rules, exclusions
from gsched.slurm.from_queue import to_view
from gsched.slurm.records import FreeText, PriorityRow, QueueRow

CHANNEL = "site-factor"

EARLIER_VALUES = 8
"""So many values written earlier are still known as gsched's: slurmctld saves its state every five
seconds, and forgets what it was told since when it is killed."""

EpochLookup = Callable[[Sequence[QueueRow]], Sequence[int]]
"""First submit time of the logical job behind each row (the history knows requeued ones)."""

_NO_TEXT = FreeText("", "")


@dataclass(frozen=True, slots=True)
class Seen:
    """A job and what its view was made of. `priority` is its line of sprio, None without one."""

    key: JobKey
    row: QueueRow
    text: FreeText
    priority: PriorityRow | None
    ours: Standing | None
    is_cron: bool
    view: JobView
    earlier: tuple[int, ...] = ()
    """What gsched had written before `ours`, the last first."""

    @property
    def site_factor(self) -> int | None:
        """The value that Slurm shows; None where it cannot be read.

        sprio shows 0 for a job whose priority an admin has set, whatever its SiteFactor is.
        """
        shown = self.priority
        return None if shown is None or shown.is_manual else shown.site_factor


class JobBook:
    """Turns looks into `Seen` jobs, by raw id in squeue's own order."""

    def __init__(self, cluster: str, epochs: EpochLookup, requests: RequestBook) -> None:
        self._cluster = cluster
        self._epochs = epochs
        self._requests = requests
        self._keys: dict[tuple[int, int, int | None], JobKey] = {}
        self._rules: Rules | None = None
        self.jobs: dict[int, Seen] = {}

    def keys(self, look: Look) -> list[JobKey]:
        """The logical job behind each row.

        Of a job that Slurm has restarted the history may learn later when it was first submitted,
        so that it is asked again whenever the description of the cluster is read again. An array's
        record becomes its last task's, under the same number.
        """
        known = self._keys
        slots = [(r.raw_id, r.submit_time, r.task) for r in look.rows]
        new = [
            (slot, row)
            for slot, row in zip(slots, look.rows, strict=True)
            if slot not in known or (look.is_fresh and row.restarts)
        ]
        if new:
            epochs = self._epochs([row for _, row in new])
            for (slot, row), epoch in zip(new, epochs, strict=True):
                key = JobKey(self._cluster, row.job_id, row.task, row.het_offset, epoch)
                if known.get(slot) != key:
                    known[slot] = key
        keys = [known[slot] for slot in slots]
        if len(known) > 2 * len(keys):
            present = set(slots)
            self._keys = {slot: key for slot, key in known.items() if slot in present}
        return keys

    def update(
        self,
        look: Look,
        standing: Mapping[tuple[JobKey, str], Standing],
        rules: Rules,
        at: int,
    ) -> Delta:
        """Bring `jobs` up to the look; what came, went and changed its state since the last.

        Raises what the stores of epochs and requests raise; then nothing is changed.
        """
        keys, before = self.keys(look), self.jobs
        texts = [look.texts.get(row.raw_id, _NO_TEXT) for row in look.rows]
        others = rules != self._rules
        others |= self._see_requests(look, keys, texts, at)
        now: dict[int, Seen] = {}
        for key, row, text in zip(keys, look.rows, texts, strict=True):
            seen, priority = before.get(row.raw_id), look.priorities.get(row.raw_id)
            ours = standing.get((key, CHANNEL))
            is_cron = row.raw_id in look.description.cron
            if (
                seen is None
                or others
                or seen.row is not row
                or seen.key is not key
                or seen.text is not text
                or seen.priority is not priority
                or (seen.ours is not ours and seen.ours != ours)
                or seen.is_cron != is_cron
            ):
                earlier = _earlier(seen, key, ours)
                view = self._view(key, row, text, priority, ours, is_cron, rules, earlier)
                if seen is not None and seen.view == view:
                    view = seen.view
                seen = Seen(key, row, text, priority, ours, is_cron, view, earlier)
            now[row.raw_id] = seen
        self.jobs, self._rules = now, rules
        if look.is_fresh:
            self._requests.keep_only(keys)
        return _delta(before, now)

    def _see_requests(
        self, look: Look, keys: Sequence[JobKey], texts: Sequence[FreeText], at: int
    ) -> bool:
        """Read the comments of jobs that are new or changed; whether one asks for something new."""
        before = self.jobs
        sightings = [
            Sighting(key, row.user, text.comment)
            for key, row, text in zip(keys, look.rows, texts, strict=True)
            if (seen := before.get(row.raw_id)) is None
            or seen.key is not key
            or seen.text is not text
        ]
        return bool(sightings) and self._requests.look(sightings, at)

    def _view(
        self,
        key: JobKey,
        row: QueueRow,
        text: FreeText,
        priority: PriorityRow | None,
        ours: Standing | None,
        is_cron: bool,
        rules: Rules,
        earlier: Sequence[int],
    ) -> JobView:
        wants = self._requests.wants(key)
        found = exclusions(
            row,
            priority,
            rules,
            opted_out=wants.opt_out,
            is_cron=is_cron,
            is_foreign=priority is not None and is_foreign(priority.site_factor, ours, earlier),
            saves=wants.checkpoint,
        )
        return to_view(row, text.name, key, wants, found)


def is_foreign(value: int, ours: Standing | None, earlier: Sequence[int] = ()) -> bool:
    """Whether another hand has set this SiteFactor: then it is not gsched's to change.

    `earlier` are values that gsched wrote before: a slurmctld that was killed comes back with one.
    """
    if ours is None:
        return value != 0
    return value not in {ours.written, ours.found, *ours.may_be, *earlier}


def _earlier(seen: Seen | None, key: JobKey, ours: Standing | None) -> tuple[int, ...]:
    """What was written on the job before `ours`, as far as this process has seen."""
    if seen is None or seen.key != key or seen.ours is None or ours is None:
        return ()
    if seen.ours.written == ours.written:
        return seen.earlier
    return (seen.ours.written, *seen.earlier)[:EARLIER_VALUES]


def _delta(before: Mapping[int, Seen], now: Mapping[int, Seen]) -> Delta:
    """What lies between two looks, by key: an id may have become another job's."""
    arrived, departed, changed = set(), set(), set()
    for raw_id, seen in now.items():
        was = before.get(raw_id)
        if was is seen:
            continue
        if was is None or was.key != seen.key:
            arrived.add(seen.key)
        elif was.view.state is not seen.view.state:
            changed.add(seen.key)
    for raw_id, was in before.items():
        seen_now = now.get(raw_id)
        if seen_now is None or seen_now.key != was.key:
            departed.add(was.key)
    return Delta(frozenset(arrived - departed), frozenset(departed - arrived), frozenset(changed))
