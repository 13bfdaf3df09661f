"""Reservations of Slurm for promised jobs that are due, where the administrator allows them.

SQL has the intent before Slurm is asked, so that no reservation is ever without a record; one that
SQL does not know, or that has another user's name on it, is never touched. Killed between any two
steps, the next round finds by SQL and by what Slurm shows what is left to be done. Without a daemon
a reservation ends by itself, and its job waits on, or runs on, without it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from gsched.app.daemon_parts import Live
from gsched.app.wiring import now
from gsched.config.settings import Settings
from gsched.daemon.reserved_nodes import Due, freed_for, nodes_for, usable_nodes, waiting_targets
from gsched.daemon.slurm_backend import SlurmBackend
from gsched.engine.faults import FaultHook, FaultPoint, no_faults
from gsched.engine.ports import Clock
from gsched.engine.round import RoundResult
from gsched.errors import GschedError
from gsched.model.cluster import ClusterState, ReservationView
from gsched.model.job import JobKey
from gsched.model.target_records import RESERVED, UNRESERVED, TargetEvent, TargetRecord
from gsched.slurm.records import QueueRow
from gsched.slurm.target_reservations import TargetReservations, reservation_name
from gsched_sql import History

log = logging.getLogger("gsched.daemon")

LIFE_MIN = 30
"""So long a reservation lasts when nobody makes it longer: so long are nodes kept at most when the
daemon dies."""

RENEWED_S = LIFE_MIN * 60 // 2
"""One that ends sooner than this is made longer, as long as its job is due and waits."""

AGAIN_S = 600
"""After Slurm has refused one, or somebody has taken its job out, none is made for so long."""


MISUSED_S = 86400
"""The same after its user has put another job into it, which it would put before all others."""

UNUSED_S = 300
"""One whose nodes are free for so long while its job waits is of no use to it."""

MOST_A_ROUND = 10
"""So many are made in one round."""

_EARLY_S = 60
"""Slurm removes one that has ended within so many seconds of its end."""


@dataclass(slots=True)
class _Held:
    """A reservation that SQL knows of. `is_in`: its job has been put into it. `until` is its end
    (epoch) as it was seen last, 0 before. All its nodes are free since `free_since`; 0: not all.
    """

    record: TargetRecord
    is_in: bool = False
    until: int = 0
    free_since: int = 0


@dataclass(frozen=True, slots=True)
class _Sight:
    """What a round goes by: reservations by name, jobs as they were seen before it, its state."""

    shown: Mapping[str, ReservationView]
    rows: Sequence[QueueRow]
    state: ClusterState


class Reservations:
    """Makes, lengthens and removes the reservations of one cluster's due targets."""

    def __init__(
        self,
        history: History,
        backend: SlurmBackend,
        port: TargetReservations,
        fence: int | None,
        settings: Callable[[], Settings],
        clock: Clock,
        on_point: FaultHook,
    ) -> None:
        """`fence` is that of the daemon's journal; `settings` gives those in force."""
        self._store = history.targets(fence)
        self._backend = backend
        self._port = port
        self._settings = settings
        self._clock = clock
        self._on_point = on_point
        self._held: dict[str, _Held] = {}
        self._not_before: dict[str, int] = {}
        self._names: frozenset[str] = frozenset()
        self._is_read = False

    def recall(self) -> None:
        """What SQL knows of; before the first look. Raises what the database raises."""
        self._held = {
            reservation_name(record.key.slurm_id): _Held(record)
            for record in self._store.reserved(self._backend.cluster)
        }
        self._know(self._held)
        self._is_read = True

    def after_round(self, result: RoundResult) -> None:
        """Bring them to what the round has decided. The caller holds the writer lock, and may act.

        Raises LostLeadershipError and whatever the database raises. What Slurm refuses, or does not
        answer, is looked at again in the next round.
        """
        try:
            if not self._is_read:
                self.recall()
            self._after_round(result)
        except BaseException:
            self._is_read = False  # what SQL has is read again before it is believed
            raise

    def _after_round(self, result: RoundResult) -> None:
        due: Mapping[str, tuple[JobKey, Due]] = {}
        if self._settings().deadlines.reservations:
            found = waiting_targets(result.state, result.decision)
            due = {reservation_name(k.slurm_id): (k, one) for k, one in found.items()}
        if not due and not self._held:
            return
        shown = self._shown()
        if shown is None:
            return
        sight = _Sight(shown, self._backend.last_look.rows, result.state)
        for name, held in list(self._held.items()):
            why = "its job is not due any more, or does not wait"
            if name in due:
                why = self._problem(held, name, due[name], sight)
            if why:
                self._remove(name, held, shown.get(name), sight.rows, why)
        self._make(due, sight)

    def release_all(self, why: str) -> tuple[str, ...]:
        """Remove all of them; the names of those that are gone. The caller holds the writer lock.

        Raises what Slurm and the database raise.
        """
        if not self._is_read:
            self.recall()
        if not self._held:
            return ()
        shown, before = self._port.shown(), set(self._held)
        self._backend.look()
        rows = self._backend.last_look.rows
        for name, held in list(self._held.items()):
            self._remove(name, held, shown.get(name), rows, why)
        return tuple(sorted(before - self._held.keys()))

    # -- what is there -----------------------------------------------------------------------

    def _shown(self) -> Mapping[str, ReservationView] | None:
        try:
            return self._port.shown()
        except GschedError as error:
            log.warning("reservations cannot be seen: %s", error.message)
            return None

    def _know(self, names: Iterable[str]) -> None:
        """The backend counts these as its own. One that is gone may be seen for a while still."""
        self._names |= frozenset(names)
        self._backend.own_reservations(self._names)

    def _problem(self, held: _Held, name: str, due: tuple[JobKey, Due], sight: _Sight) -> str:
        """Why a reservation cannot stay, "" where it can; it is brought to what it is to be."""
        key, wanted = due
        shown = sight.shown.get(name)
        if held.record.key != key:
            return "its job's number is another job's by now"
        if shown is None:  # it was never made, or has expired
            if self._clock() < held.until - _EARLY_S:
                self._bar(name, AGAIN_S)
                return "somebody has removed it"
            return "it is not there any more"
        held.until = shown.end_time
        if problem := self._misplaced(held, name, sight.rows):
            return problem
        if not usable_nodes(sight.state).issuperset(shown.nodes):
            return "its nodes cannot be used any more"
        if len(shown.nodes) != wanted.num_nodes:
            return "it has another number of nodes than its job"
        if not held.is_in and (problem := self._put_in(name, held)):
            return problem
        if self._is_unused(held, shown, sight):
            self._bar(name, MISUSED_S)
            return "its nodes are free, and its job does not start there"
        self._follow(name, wanted, shown, sight)
        left_s = shown.end_time - self._clock()
        if left_s < RENEWED_S:
            lasts_s = self._clock() - shown.start_time + LIFE_MIN * 60
            self._said(name, lambda: self._port.last(name, -(-lasts_s // 60)))
        return ""

    def _is_unused(self, held: _Held, shown: ReservationView, sight: _Sight) -> bool:
        """Whether its nodes have been free for a while: the job may not have these, as where it
        asks for others by name, which no list of jobs shows.
        """
        used = {node.name: node.gpus_used for node in sight.state.nodes}
        if any(used.get(name, 1) for name in shown.nodes):
            held.free_since = 0
            return False
        held.free_since = held.free_since or self._clock()
        return self._clock() - held.free_since >= UNUSED_S

    def _misplaced(self, held: _Held, name: str, rows: Sequence[QueueRow]) -> str:
        """What other hands have done about who is in a reservation, "" where nothing."""
        own = held.record.key.slurm_id
        inside = _inside(name, rows)
        strangers = [slurm_id for slurm_id in inside if slurm_id != own]
        if strangers:
            self._bar(name, MISUSED_S)
            return f"its user has put job {strangers[0]} into it"
        elsewhere = any(r.slurm_id == own and r.reservation not in ("", name) for r in rows)
        if elsewhere or (held.is_in and not inside):
            self._bar(name, AGAIN_S)
            return "somebody has taken its job out of it"
        held.is_in = bool(inside)
        return ""

    def _follow(self, name: str, wanted: Due, shown: ReservationView, sight: _Sight) -> None:
        """Where others give way for the job on other nodes, those are reserved."""
        if freed_for(wanted.view, sight.state) <= set(shown.nodes):
            return
        taken = self._taken(sight.shown) - set(shown.nodes)
        nodes = self._choose(wanted, sight.state, taken)
        if nodes and set(nodes) != set(shown.nodes):
            self._said(name, lambda: self._port.move(name, nodes))

    def _taken(self, shown: Mapping[str, ReservationView]) -> set[str]:
        return {node for name in self._held if name in shown for node in shown[name].nodes}

    def _choose(self, wanted: Due, state: ClusterState, taken: Collection[str]) -> tuple[str, ...]:
        until = self._clock() + LIFE_MIN * 60
        return nodes_for(wanted, state, self._names, taken, until)

    def _bar(self, name: str, seconds: int) -> None:
        """Make none of this name for a while."""
        self._not_before[name] = self._clock() + seconds

    # -- the steps ---------------------------------------------------------------------------

    def _make(self, due: Mapping[str, tuple[JobKey, Due]], sight: _Sight) -> None:
        """For those that have none, the first deadline first, a few in each round."""
        now = self._clock()
        self._not_before = {name: at for name, at in self._not_before.items() if at > now}
        new = {
            key: (name, one)
            for name, (key, one) in due.items()
            if name not in self._held and name not in self._not_before
        }
        if not new:
            return
        records = self._store.latest(self._backend.cluster, list(new))
        taken, made = self._taken(sight.shown), 0
        for key, record in sorted(records.items(), key=lambda found: found[1].deadline):
            name, one = new[key]
            if name in sight.shown:  # just removed, or SQL has never known of it: not ours
                continue
            nodes = self._choose(one, sight.state, taken)
            if nodes and made < MOST_A_ROUND:
                made += 1
                if self._reserve(name, record, nodes):
                    taken.update(nodes)

    def _reserve(self, name: str, record: TargetRecord, nodes: Sequence[str]) -> bool:
        """Intent, reservation, job; whether it stands."""
        self._note(record, RESERVED)
        held = self._held[name] = _Held(record)
        self._know([name])
        self._on_point(FaultPoint.RESERVATION_NOTED)
        said = self._said(name, lambda: self._port.make(name, record.user, nodes, LIFE_MIN))
        if said != "":
            self._bar(name, AGAIN_S)
        if said is None:
            return True  # it may have been made: the next round sees
        if said:
            self._gone(name, held, said)
            return False
        log.info("%s: %s for user %s", name, ",".join(nodes), record.user)
        self._on_point(FaultPoint.RESERVATION_MADE)
        if problem := self._put_in(name, held):
            view = ReservationView(name, tuple(nodes), 0, 0, (record.user,))
            self._remove(name, held, view, (), problem)
            return False
        self._on_point(FaultPoint.RESERVATION_USED)
        return True

    def _put_in(self, name: str, held: _Held) -> str:
        """Put the job into its reservation; why Slurm refuses."""
        said = self._said(name, lambda: self._port.put_in(held.record.key.slurm_id))
        if said:
            self._bar(name, AGAIN_S)
            return f"its job cannot be put into it: {said}"
        held.is_in = held.is_in or said == ""
        return ""

    def _remove(
        self,
        name: str,
        held: _Held,
        shown: ReservationView | None,
        rows: Sequence[QueueRow],
        why: str,
    ) -> None:
        """Take its jobs out, then it; what is left is tried again. A job in it runs on."""
        if shown is None or shown.users != (held.record.user,):
            self._gone(name, held, why)
            return
        own = held.record.key.slurm_id
        inside = _inside(name, rows)
        if held.is_in and any(row.slurm_id == own and not row.reservation for row in rows):
            inside.append(own)  # it may have been put in after the look
        for slurm_id in inside:
            self._said(name, lambda job=slurm_id: self._port.take_out(job))  # type: ignore[misc]
        self._on_point(FaultPoint.RESERVATION_EMPTIED)
        said = self._said(name, lambda: self._port.remove(name))
        if said == "":
            self._on_point(FaultPoint.RESERVATION_REMOVED)
            self._gone(name, held, why)

    def _gone(self, name: str, held: _Held, why: str) -> None:
        log.info("%s is removed: %s", name, why)
        self._note(held.record, UNRESERVED)
        del self._held[name]

    def _note(self, record: TargetRecord, what: str) -> None:
        self._store.note(record, TargetEvent(self._clock(), what))

    def _said(self, name: str, ask: Callable[[], str]) -> str | None:
        """What Slurm refuses, "" where it is done; None where it is not known."""
        try:
            said = ask()
        except GschedError as error:
            log.warning("%s: %s", name, error.message)
            return None
        if said:
            log.warning("%s: %s", name, said)
        return said


def _inside(name: str, rows: Sequence[QueueRow]) -> list[str]:
    """The jobs that are in a reservation; one may name several, separated by commas."""
    return [row.slurm_id for row in rows if name in row.reservation.split(",")]


def reservations_of(
    live: Live,
    history: History,
    settings: Callable[[], Settings],
    fence: int | None = None,
    on_point: FaultHook = no_faults,
) -> Reservations:
    """Those of a live cluster."""
    port = TargetReservations(settings().slurm.command_timeout_s)
    return Reservations(history, live.backend, port, fence, settings, now, on_point)
