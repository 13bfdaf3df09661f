"""One look at the cluster: its queue and priorities, and now and then what changes seldom.

A look is one squeue and one sprio. sprio is asked first: whatever it lists and squeue, asked after
it, does not, is an array task that squeue hides and no job that came in between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from gsched.errors import UnavailableError
from gsched.model.cluster import NodeView, PartitionView, ReservationView
from gsched.model.job import JobState
from gsched.slurm.client import SlurmClient
from gsched.slurm.records import FreeText, PriorityRow, QueueListing, QueueRow

DESCRIPTION_LIFE_S = 60.0
"""Nodes, partitions, reservations and hidden array tasks are read again after so many seconds; in
the next look already while slurmctld, just started, still finds its nodes."""
NODES_LIFE_S = 10.0
"""Nodes are read again after so many seconds where a job has lost its own: it has ended in
NODE_FAIL, or was requeued, which tells no more."""
_MAY_HAVE_GONE = 3


@dataclass(frozen=True, slots=True)
class Description:
    """What changes seldom. `cron` are raw ids of scrontab's jobs."""

    nodes: tuple[NodeView, ...]
    partitions: tuple[PartitionView, ...]
    reservations: tuple[ReservationView, ...]
    cron: frozenset[int]


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen, by raw id where it is a mapping.

    `rows` are the jobs that wait or hold nodes, hidden array tasks included: squeue shows a task
    that Slurm has split off its array (requeued, edited) within the array's row as long as it
    waits. `listing` is squeue's whole answer, with the jobs that ended lately. `is_fresh`: the
    description was read anew.
    """

    rows: Sequence[QueueRow]
    texts: Mapping[int, FreeText]
    priorities: Mapping[int, PriorityRow]
    listing: QueueListing
    description: Description
    is_fresh: bool


class Looker:
    """Looks, and remembers what need not be asked each time."""

    def __init__(self, client: SlurmClient, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._monotonic = monotonic
        self._description: Description | None = None
        self._described_at = 0.0
        self._nodes_at = 0.0
        self._has_lost_nodes = False
        self._cut_off: frozenset[tuple[int, int]] = frozenset()
        self._hidden: dict[int, tuple[QueueRow, FreeText]] = {}

    def look(self) -> Look:
        """What the cluster shows now. Raises what the client raises; the next look is whole."""
        priorities = self._client.priorities()
        listing = self._client.queue("all", with_texts=True)
        now = self._monotonic()
        is_due = self._description is None or now - self._described_at >= DESCRIPTION_LIFE_S
        if is_due or self._description is None:
            description = self._describe()
            self._nodes_at, self._has_lost_nodes = now, False
            self._note_cut_off(listing)
        else:
            self._note_cut_off(listing)
            description = self._with_newer_nodes(self._description, now)
        rows = [row for row in listing.rows if _is_live(row.state)]
        hidden = self._hidden_tasks(priorities.keys() - {r.raw_id for r in listing.rows}, is_due)
        _refuse_half_an_answer(listing, priorities.keys(), hidden.keys())
        finds_nodes = any(node.state == "unknown" for node in description.nodes)
        self._description = None if finds_nodes else description
        if is_due:
            self._described_at = now
        if not hidden:
            return Look(rows, listing.texts, priorities, listing, description, is_due)
        rows += [row for row, _ in hidden.values()]
        texts = {**listing.texts, **{raw_id: text for raw_id, (_, text) in hidden.items()}}
        return Look(rows, texts, priorities, listing, description, is_due)

    def _describe(self) -> Description:
        client = self._client
        return Description(
            client.nodes(), client.partitions(), client.reservations(), client.cron_job_ids()
        )

    def _note_cut_off(self, listing: QueueListing) -> None:
        """Whether some attempt is seen to have been cut off since the last look."""
        fails = JobState.NODE_FAIL
        cut_off = frozenset(
            [(r.raw_id, r.restarts) for r in listing.rows if r.restarts or r.state is fails]
        )
        self._has_lost_nodes |= not cut_off <= self._cut_off
        self._cut_off = cut_off

    def _with_newer_nodes(self, description: Description, now: float) -> Description:
        """The same, where no node can have been lost."""
        if not self._has_lost_nodes or now - self._nodes_at < NODES_LIFE_S:
            return description
        nodes = self._client.nodes()
        self._nodes_at, self._has_lost_nodes = now, False
        return replace(description, nodes=nodes)

    def _hidden_tasks(
        self, raw_ids: set[int], is_due: bool
    ) -> Mapping[int, tuple[QueueRow, FreeText]]:
        """The rows of tasks that squeue hides: asked for when there is a new one, or it is time."""
        if raw_ids and (is_due or raw_ids - self._hidden.keys()):
            tasks = self._client.split_tasks(sorted(raw_ids))
            self._hidden = {row.raw_id: (row, tasks.texts[row.raw_id]) for row in tasks.rows}
        self._hidden = {i: seen for i, seen in self._hidden.items() if i in raw_ids}
        return self._hidden


def _refuse_half_an_answer(
    listing: QueueListing, waiting: Collection[int], hidden: Collection[int]
) -> None:
    """Raise UnavailableError for an answer of squeue that cannot be the queue: rounds would take
    jobs for gone that only it has left out. A few may have gone between the two questions.
    """
    seen = {row.raw_id for row in listing.rows}
    missing = sum(raw_id not in seen and raw_id not in hidden for raw_id in waiting)
    if missing > _MAY_HAVE_GONE and 2 * missing > len(waiting):
        raise UnavailableError(
            f"squeue left out {missing} of the {len(waiting)} waiting jobs that sprio listed"
        )
    if len(listing.rejects) > len(listing.rows):
        raise UnavailableError(
            f"{len(listing.rejects)} of squeue's {len(listing.rows) + len(listing.rejects)} "
            "records are not understood"
        )


def _is_live(state: JobState) -> bool:
    """Whether squeue lists it without being asked for more; a requeued job waits again."""
    return not state.is_terminal or state is JobState.REQUEUED
