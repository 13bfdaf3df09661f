"""The daemon's loop: gate, upkeep, a round, what is told of it, wait; until somebody ends it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gsched.daemon.gate import Gate, Mode, Verdict
from gsched.daemon.kept_listener import KeptListener
from gsched.daemon.lease_document import lease_documents
from gsched.daemon.locks import StateDir
from gsched.daemon.loop_ports import (
    Foresight,
    NodeKeeper,
    NoForesight,
    NoReservations,
    NoSaver,
    NoTargets,
    Saver,
    TargetKeeper,
)
from gsched.daemon.notify import Notifier
from gsched.daemon.reloading import Reload, reload_if_wanted
from gsched.daemon.requests import RequestBook
from gsched.daemon.situation import Board
from gsched.daemon.status_file import Bulletin, RoundNews, describe, publish
from gsched.daemon.target_document import NOTHING_TOLD
from gsched.daemon.wishes import Wishes
from gsched.engine.ports import Clock, Predictor
from gsched.engine.round import RoundResult, RoundRunner
from gsched.errors import GschedError, LostLeadershipError, UnavailableError
from gsched.model.decision import JsonValue
from gsched.model.job import JobState, JobView
from gsched.slurm.records import SlurmConfig

if TYPE_CHECKING:  # what shows no metrics needs no prometheus_client
    from gsched.daemon.clear import ClearResult
    from gsched.daemon.metrics import Metrics
    from gsched.daemon.metrics_gauges import Facts

log = logging.getLogger("gsched.daemon")

EARLY_ROUND_S = 5.0
"""Rounds that clients ask for (a job not seen yet) are at least so far from the one before."""

_MOST_BACKOFF = 20  # rounds' worth of waiting while Slurm does not answer
_LOOK_S = 2.0
"""So often, while it waits, the loop looks whether it may still do what it does."""

_FEW_STRANGERS, _NEARLY_ALL = 4, 0.75  # the median job's value is 0, whoever orders them


class ReplacedError(UnavailableError):
    """What the daemon has open is not what its settings name any more: it must open it anew."""


class Upkeep(Protocol):
    """What belongs to a round beside the order: the history and the model."""

    def check(self) -> None:
        """Raise ReplacedError when the history is another one than at the beginning by now, and
        UnavailableError when it is not there.
        """
        ...

    def before(self, config: SlurmConfig) -> Predictor | None:
        """Bring the history up to date; a new predictor when there is one, else None."""
        ...

    def after(self) -> None:
        """Keep in the history what the round has seen."""
        ...


class Lead(Protocol):
    """This daemon's right to lead its cluster (see ``gsched_sql.leaders``)."""

    def renew(self) -> None:
        """Keep the lead. Raises LostLeadershipError when another daemon has it by now."""
        ...

    def renew_in_time(self) -> None:
        """Keep the lead where that is due before the next round. Raises as `renew` does."""
        ...

    def note(self, mode: str, policy: str, writes: int) -> None:
        """Keep for later comparison that a round has run in this mode, and how many it wrote."""
        ...


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """What the admin asked for: act or observe, seconds between rounds, where to tell."""

    acting: bool
    interval_s: float
    status_file: Path
    metrics_file: Path | None = None


@dataclass(frozen=True, slots=True)
class LoopParts:
    """What the loop works with.

    `take_back` takes back every value that was written (kill switch, control interval).
    `facts` are those that metrics tell beside the rounds'. `listeners`: name (``query``,
    ``metrics``, ``control``) → what is kept open. `standing` tells how accounts stand.
    """

    runner: RoundRunner
    gate: Gate
    state_dir: StateDir
    requests: RequestBook
    clock: Clock
    read_config: Callable[[], SlurmConfig]
    upkeep: Upkeep
    lead: Lead
    take_back: Callable[[], ClearResult]
    reload: Reload
    wishes: Wishes
    board: Board
    notifier: Notifier
    metrics: Metrics
    facts: Callable[[], Facts]
    listeners: Mapping[str, KeptListener]
    foresight: Foresight = field(default_factory=NoForesight)
    saver: Saver = field(default_factory=NoSaver)
    standing: Callable[[], Mapping[str, JsonValue]] = dict
    targets: TargetKeeper = field(default_factory=NoTargets)
    reservations: NodeKeeper = field(default_factory=NoReservations)


class DaemonLoop:
    """Runs rounds until stopped. What a failed round left undone the next one settles."""

    def __init__(self, parts: LoopParts, options: LoopOptions) -> None:
        self.parts = parts
        self.options = options
        self.bulletin: Bulletin | None = None
        self._mode = parts.board.now.mode
        self._strangers = False
        self._fault = ""
        self._targets_fault = ""
        self._targets = NOTHING_TOLD
        self._round_began = -EARLY_ROUND_S

    def once(self) -> RoundResult:
        """One round with its upkeep; the status file afterwards."""
        self._round_began = time.monotonic()
        parts = self.parts
        self._verdict()  # before all that may fail: what the gate says is in force and told
        parts.upkeep.check()  # before the lead: another database knows of no lead
        parts.lead.renew()
        config = parts.read_config()
        fresh = parts.upkeep.before(config)
        if fresh is not None:
            parts.runner.predictor = fresh
        parts.notifier.alive()
        verdict, result, taken_back = self._round()
        parts.notifier.alive()
        sent = sum(
            1 for c in result.changes if result.info.acting and c.change_id in result.settled
        )
        parts.lead.note(verdict.mode.value, result.info.policy, sent + taken_back)
        self._note_strangers(result, verdict)
        self._keep_targets(result, config)
        self._reserve(result)
        self._tell(result, config, verdict)
        parts.upkeep.after()
        self._foresee(result, config)
        parts.notifier.alive()
        parts.saver.after_round(config)
        return result

    def _keep_targets(self, result: RoundResult, config: SlurmConfig) -> None:
        """Keep what was promised, before anybody is told of it. Raises what the database raises."""
        parts, fault = self.parts, ""
        try:
            self._targets = parts.targets.after_round(result, parts.runner.policy.requires, config)
        except GschedError:
            raise
        except Exception as error:  # one of ours must not end the rounds
            self._targets = NOTHING_TOLD
            fault = f"{type(error).__name__}: {error}"
            if self._targets_fault != fault:
                log.exception("deadlines: a fault of gsched")
        self._targets_fault = fault

    def _reserve(self, result: RoundResult) -> None:
        """Nodes for deadlines that are due, as far as the gate lets. Raises what SQL raises."""
        if not result.info.acting:
            return
        with self.parts.state_dir.writing():
            if self.parts.gate.verdict(self.parts.clock()).mode is not Mode.ACT:
                return
            try:
                self.parts.reservations.after_round(result)
            except GschedError:
                raise
            except Exception:  # one of ours must not end the rounds
                log.exception("reservations: a fault of gsched")

    def _foresee(self, result: RoundResult, config: SlurmConfig) -> None:
        """Hand the round on to those who forecast. Raises what the journal raises."""
        fault = ""
        try:
            self.parts.foresight.after_round(result, config)
        except GschedError:
            raise
        except Exception as error:  # one of ours must not end the rounds
            fault = f"{type(error).__name__}: {error}"
            if self._fault != fault:
                log.exception("forecasts: a fault of gsched")
        self._fault = fault

    def _round(self) -> tuple[Verdict, RoundResult, int]:
        """The gate's word, the round, and how many values were to be taken back before it."""
        parts, taken_back = self.parts, 0
        if not self.options.acting:
            verdict = self._verdict()
            return verdict, parts.runner.run(acting=False), taken_back
        with parts.state_dir.writing():  # asked inside: `clear` halts, then writes
            verdict = self._verdict()
            if verdict.take_back:
                taken_back = self._take_back(verdict)
            return verdict, parts.runner.run(acting=verdict.mode is Mode.ACT), taken_back

    def _verdict(self) -> Verdict:
        verdict = self.parts.gate.verdict(self.parts.clock())
        if verdict.mode is not self._mode:
            log.info("mode %s: %s", verdict.mode.value, verdict.why or "acting")
        self._mode = verdict.mode
        stands = "; what was written still stands" if verdict.take_back else ""
        self.parts.board.post(mode=verdict.mode, why=verdict.why + stands)
        return verdict

    def _take_back(self, verdict: Verdict) -> int:
        """Once for as long as the mode lasts; what Slurm refuses is tried again next round."""
        done = self.parts.take_back()
        self.parts.metrics.taken_back(done.states, self.parts.clock())
        log.warning(
            "%s: %d SiteFactors taken back, %d refused, %d left alone (set by others)",
            verdict.why, len(done.cleared) + len(done.unread), len(done.failed), len(done.foreign),
        )  # fmt: skip
        if not done.failed:
            self.parts.gate.has_taken_back(verdict.mode)
            self.parts.board.post(why=verdict.why)
        return sum(done.states.values())

    def _note_strangers(self, result: RoundResult, verdict: Verdict) -> None:
        """Say once where (nearly) all values are another hand's: a second daemon, most likely."""
        foreign = sum(map(_is_strangers, result.state.jobs.views))
        among = foreign + int(result.state.jobs.reorderable.sum())
        if verdict.mode is not Mode.ACT or foreign < max(_FEW_STRANGERS, among * _NEARLY_ALL):
            self._strangers = False
            return
        why = f"{foreign} of {among} jobs have another hand's SiteFactor and are left alone"
        self.parts.board.post(why=why)
        if not self._strangers:
            log.warning("%s: does a second gsched, or something else, set SiteFactors here?", why)
        self._strangers = True

    def _tell(self, result: RoundResult, config: SlurmConfig, verdict: Verdict) -> None:
        """Publish what the round has to say, for questions and in the status file."""
        listeners = self.parts.listeners
        for listener in listeners.values():
            listener.keep()
        inversions = result.extra.get("inversions")
        if isinstance(inversions, dict):
            counts = {kind: n for kind, n in inversions.items() if isinstance(n, int)}
            self.parts.metrics.inverted(counts)
        query = listeners.get("query")
        news = RoundNews(
            interval_s=self.options.interval_s,
            mode=verdict.mode.value,
            why=verdict.why,
            query_address=query.address if query else "",
            query_problem=query.problem if query else "",
            ces=self.parts.saver.document(),
            fairness=self.parts.standing(),
            leases=self._leases(config),
            targets=self._targets,
        )
        forecast = self.parts.foresight.edition()
        self.bulletin = describe(result, config, news, self.parts.requests, self.bulletin, forecast)
        publish(self.options.status_file, self.bulletin)

    def _leases(self, config: SlurmConfig) -> dict[str, dict[str, JsonValue]]:
        driver = self.parts.runner.leases
        if driver is None:
            return {}
        return lease_documents(driver.standing, driver.unsaved, private=config.hides("jobs"))

    def run(self, after_round: Callable[[RoundResult], None]) -> None:
        """Rounds every `interval_s` seconds, or when one is asked for, until the wish to end.

        Returns also when what is open must be opened anew. Raises LostLeadershipError.
        """
        parts, failures = self.parts, 0
        while not parts.wishes.ended:
            reload_if_wanted(parts.wishes, parts.reload, parts.notifier, parts.board, parts.clock)
            try:
                result = self._measured(failures)
            except LostLeadershipError:
                raise
            except ReplacedError as e:
                log.warning("%s: opening it anew", e.message)
                return
            except GschedError as e:
                failures = min(failures + 1, _MOST_BACKOFF)
                log.warning("round failed, the next one settles what it left: %s", e.message)
            else:
                if failures:
                    log.info("rounds succeed again")
                failures = 0
                after_round(result)
            self._told()
            self._pause(self.options.interval_s * max(1, failures), may_hurry=not failures)

    def _measured(self, failures: int) -> RoundResult:
        """One round, with its times and its outcome posted for all who ask."""
        parts = self.parts
        wall, cpu = time.monotonic(), time.process_time()
        try:
            result = self.once()
        except GschedError as e:
            took = time.monotonic() - wall, time.process_time() - cpu
            parts.metrics.round_failed(e, self._mode.value, *took)
            parts.board.post_failure(parts.clock(), e.message, failures + 1)
            raise
        took = time.monotonic() - wall, time.process_time() - cpu
        parts.metrics.round_done(result, self._mode.value, *took)
        parts.board.post(
            policy=result.info.policy,
            interval_s=self.options.interval_s,
            last_round_s=round(took[0], 3),
            timings_s={phase: round(s, 4) for phase, s in result.timings_s.items()},
            summary=result.summary,
            failures=0,
            problem="",
        )
        return result

    def _told(self) -> None:
        """After every round, a failed one, too: metrics, the service manager."""
        parts = self.parts
        parts.board.post(
            listeners={what: (k.address, k.problem) for what, k in parts.listeners.items()}
        )
        parts.metrics.facts(parts.facts())
        parts.metrics.write(self.options.metrics_file)
        parts.notifier.status(parts.board.line())

    def _pause(self, seconds: float, may_hurry: bool) -> None:
        """Wait for the next round's time, or less when somebody is in a hurry."""
        parts, until = self.parts, time.monotonic() + seconds
        parts.board.post(next_round_at=parts.clock() + seconds)
        watchdog_s = parts.notifier.watchdog_s
        longest_s = min(_LOOK_S, watchdog_s / 3) if watchdog_s else _LOOK_S
        while not (parts.wishes.ended or parts.wishes.wants_reload):
            parts.notifier.alive()
            left = until - time.monotonic()
            if left <= 0 or self._mode_is_another():
                return
            self._renew_in_time()
            parts.wishes.wait(min(left, longest_s))
            if may_hurry and parts.wishes.take_hurry():
                until = min(until, self._round_began + EARLY_ROUND_S)

    def _renew_in_time(self) -> None:
        """A pause may be longer than the lead lasts. Raises LostLeadershipError."""
        try:
            self.parts.lead.renew_in_time()
        except LostLeadershipError:
            raise
        except GschedError as e:
            log.warning("the lead of the cluster could not be renewed: %s", e.message)

    def _mode_is_another(self) -> bool:
        """Whether the gate says something new: the kill switch shall not wait for a round."""
        try:
            return self.parts.gate.verdict(self.parts.clock()).mode is not self._mode
        except GschedError:
            return False  # the next round will say so


def _is_strangers(view: JobView) -> bool:
    """Whether the job waits with a SiteFactor that gsched did not write."""
    return (
        bool(view.exclusions)
        and view.state is JobState.PENDING
        and any(e.code == "foreign-site-factor" for e in view.exclusions)
    )
