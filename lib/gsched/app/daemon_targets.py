"""Deadlines in the daemon: the record in SQL of what was promised, warnings, what is told of them.

The policy decides by its memory; SQL is what people are told and what outcomes are judged by. Each
round is written once, before anybody is told of it, and can be written again: a daemon that is
killed between any two calls loses nothing.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gsched.app.target_mail import TargetMail
from gsched.app.target_memory import promise_use, way_of, why_refused
from gsched.app.target_recall import recalled
from gsched.config.settings import Settings
from gsched.daemon.requests import RequestBook
from gsched.daemon.target_books import (
    Request,
    Turn,
    admitted,
    ended,
    lost,
    refused,
    replaced,
    unplanned,
)
from gsched.daemon.target_document import (
    NOTHING_TOLD,
    TargetsTold,
    refusal_document,
    target_document,
)
from gsched.daemon.target_facts import TargetFacts
from gsched.engine.faults import FaultHook, FaultPoint
from gsched.engine.ports import Clock
from gsched.engine.round import RoundResult
from gsched.explain.words import moment
from gsched.model.decision import Admit, JsonValue, Refuse
from gsched.model.job import Capability, JobKey, JobView
from gsched.model.target_records import OUTCOMES, Risk, TargetRecord, TargetState
from gsched.model.targets import steps_of
from gsched.policy.base import Policy
from gsched.slurm.records import SlurmConfig
from gsched_sql import History

log = logging.getLogger("gsched.daemon")

OUTCOMES_S = 7 * 86400
"""Outcomes are told of promises that came to them within so many seconds."""

WRITTEN_S = 60
"""A plan that has changed and nothing else is written once in so many seconds."""

LOST_S = 86400
"""A job that has left the queue, and of whose end nobody tells for so long, has ended unknown."""

BLIP_ROUNDS = 3
"""A promise that so many rounds do not plan is at risk: nobody plans it any more."""

_COUNT_S = 600


@dataclass(slots=True)
class _Kept:
    """A job's last request. `written` is what SQL has of it, since `written_at`."""

    record: TargetRecord
    written: TargetRecord | None = None
    written_at: int = 0
    unplanned_rounds: int = 0


class Targets:
    """Keeps the deadlines of one cluster. `told` is what the last round has to tell of them."""

    def __init__(
        self,
        history: History,
        cluster: str,
        fence: int | None,
        settings: Callable[[], Settings],
        requests: RequestBook,
        clock: Clock,
        on_point: FaultHook,
        mail: TargetMail | None = None,
    ) -> None:
        """`fence` is that of the daemon's journal; `settings` gives those in force."""
        self.told: TargetsTold = NOTHING_TOLD
        self._store = history.targets(fence)
        self._cluster = cluster
        self._settings = settings
        self._requests = requests
        self._clock = clock
        self._on_point = on_point
        self._mail = mail
        self._kept: dict[JobKey, _Kept] = {}
        self._is_read = False
        self._looked_up: set[JobKey] = set()
        self._outcomes: Counter[str] = Counter()
        self._rounds: Counter[str] = Counter()
        self._lately: Mapping[TargetState, int] = {}
        self._counted_at: int | None = None
        self._refused = 0
        self._seeded = ""
        self._unseeded: Mapping[str, JsonValue] | None = None

    def after_round(
        self, result: RoundResult, requires: Iterable[Capability], config: SlurmConfig
    ) -> TargetsTold:
        """Keep what a round has decided of deadlines, and what has become of earlier ones.

        `requires` is what its policy needs. Raises LostLeadershipError, and whatever the database
        raises: nothing is told then that is not kept.
        """
        try:
            return self._after_round(result, Capability.ADMIT in requires, config)
        except BaseException:
            self._is_read = False  # what SQL has is read again before it is believed
            raise

    def seed(self, policy: Policy, memory: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
        """The policy's memory, with promises that it lacks: once, when it begins to decide.

        Where it could not be kept, the next round asks again. Raises what the database raises.
        """
        if self._seeded == policy.name and memory != self._unseeded:
            self._unseeded = None
            return memory
        standing = self._store.standing(self._cluster)
        found = recalled(policy, memory, standing, self._requests)
        self._seeded, self._unseeded = policy.name, None if found is memory else memory
        return found

    def facts(self) -> TargetFacts:
        """For metrics."""
        records = [kept.record for kept in self._kept.values()]
        standing = [r for r in records if r.state is TargetState.STANDING]
        sent = Counter() if self._mail is None else self._mail.counts
        return TargetFacts(
            Counter(record.risk.value for record in standing),
            self._refused,
            dict(self._outcomes),
            dict(self._rounds),
            dict(sent),
        )

    # -- a round -----------------------------------------------------------------------------

    def _after_round(self, result: RoundResult, keeps: bool, config: SlurmConfig) -> TargetsTold:
        now = self._clock()
        views = [view for view in result.state.jobs.views if not view.state.is_terminal]
        self._read(views)
        turns: dict[JobKey, list[Turn]] = {}
        acts = result.info.acting
        if acts:
            self._decided(result, views, turns, now, config.hides("jobs"))
        else:
            self._overdue(views, turns, now)
        self._gone(views, turns, now)
        self._write(turns, now)
        if self._mail is not None:
            self._mail.after_round(self._store, self._cluster, now)
        self._count(result, keeps, now)
        here = {view.key for view in views}
        self._forget(here)
        self.told = self._document(result, config) if acts and keeps else NOTHING_TOLD
        return self.told

    def _read(self, views: Sequence[JobView]) -> None:
        """What SQL has of promises that stand, once, and of jobs that are new."""
        if not self._is_read:
            self._kept = {r.key: _Kept(r, r) for r in self._store.standing(self._cluster)}
            self._looked_up = set()
            self._is_read = True
        asking = [view.key for view in views if steps_of(view.wants) is not None]
        new = [key for key in asking if key not in self._looked_up]
        if new:
            for key, record in self._store.latest(self._cluster, new).items():
                self._kept[key] = _Kept(record, record)
            self._looked_up.update(new)

    def _decided(
        self,
        result: RoundResult,
        views: Sequence[JobView],
        turns: dict[JobKey, list[Turn]],
        now: int,
        private: bool,
    ) -> None:
        """What the policy says of each job that asks, or has asked, for a deadline."""
        said = {a.key: a for a in result.decision.actions if isinstance(a, Admit | Refuse)}
        warn = self._settings().deadlines.warn_probability
        for view in views:
            kept = self._kept.get(view.key)
            before = None if kept is None else kept.record
            request = self._request(view, before, now)
            if before is not None and (request is None or request.asked_time != before.asked_time):
                if before.state is TargetState.STANDING:
                    turns.setdefault(view.key, []).append(replaced(before, now))
                before = None
            if request is None:
                if kept is not None:
                    del self._kept[view.key]
                continue
            action = said.get(view.key)
            if isinstance(action, Admit):
                used = promise_use(result.decision.memory, view.key)
                turn = admitted(request, action, before, now, warn, used)
            elif isinstance(action, Refuse):
                reason = (
                    None if before is not None else why_refused(result.decision, view.key, private)
                )
                turn = refused(request, action, reason, before, now)
            elif before is not None and before.state is TargetState.STANDING and kept is not None:
                kept.unplanned_rounds += 1
                if kept.unplanned_rounds < BLIP_ROUNDS:
                    continue
                turn = unplanned(before, now)
            else:
                continue
            if action is not None and kept is not None:
                kept.unplanned_rounds = 0
            turns.setdefault(view.key, []).append(turn)

    def _overdue(self, views: Sequence[JobView], turns: dict[JobKey, list[Turn]], now: int) -> None:
        """Nobody plans while the daemon only observes, but time goes on."""
        for view in views:
            kept = self._kept.get(view.key)
            if kept is None or kept.record.state is not TargetState.STANDING:
                continue
            if now > kept.record.deadline and kept.record.risk is not Risk.LATE:
                turns[view.key] = [unplanned(kept.record, now)]

    def _request(self, view: JobView, before: TargetRecord | None, now: int) -> Request | None:
        """A job that has ended, and is queued again, asks anew: what has come of it stays so."""
        steps = steps_of(view.wants)
        asked = None if steps is None else self._requests.of(view.key)
        if steps is None or asked is None:
            return None
        asked_time = asked.first_seen
        if before is not None and before.asked_time >= asked_time:
            is_over = before.state in OUTCOMES
            asked_time = max(now, before.asked_time + 1) if is_over else before.asked_time
        return Request(view, steps, asked_time)

    def _gone(self, views: Sequence[JobView], turns: dict[JobKey, list[Turn]], now: int) -> None:
        """What has become of promises whose jobs have left the queue."""
        here = {view.key for view in views}
        for key in here & self._kept.keys() - turns.keys():
            record = self._kept[key].record
            if record.gone_time is not None:
                turns[key] = [Turn(replace(record, gone_time=None))]
        gone = {
            key: kept
            for key, kept in self._kept.items()
            if key not in here and kept.record.state is TargetState.STANDING
        }
        if not gone:
            return
        how = self._store.ended(self._cluster, list(gone))
        rest = gone.keys() - how.keys()
        if rest:  # the history may have learnt that a job's first submit was an earlier one
            known = {record.key for record in self._store.standing(self._cluster)}
            for key in rest - known:
                del self._kept[key]
            self._is_read = self._is_read and rest <= known
        for key, kept in gone.items():
            if key in how:
                turns[key] = [ended(kept.record, *how[key], now)]
            elif key in self._kept:
                since = kept.record.gone_time
                if since is None:
                    turns[key] = [Turn(replace(kept.record, gone_time=now))]
                elif now - since >= LOST_S:
                    turns[key] = [lost(kept.record, now)]

    def _write(self, turns: Mapping[JobKey, Sequence[Turn]], now: int) -> None:
        """Keep what is new in SQL; what it says counts from then on."""
        changed = [
            (turn.record, turn.events)
            for key, some in turns.items()
            for turn in some
            if turn.events or _is_due(self._kept.get(key), turn.record, now)
        ]
        self._store.keep(self._cluster, changed)
        if changed:
            self._on_point(FaultPoint.TARGETS_KEPT)
        written = {(record.key, record.asked_time) for record, _ in changed}
        for key, some in turns.items():
            for turn in some:
                self._take(key, turn, (key, turn.record.asked_time) in written, now)

    def _take(self, key: JobKey, turn: Turn, is_written: bool, now: int) -> None:
        record, kept = turn.record, self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = _Kept(record)
        kept.record = record
        if is_written:
            kept.written, kept.written_at = record, now
        for event in turn.events:
            _log(record, event.what)
        if turn.events and record.promise is not None and record.state in OUTCOMES:
            self._outcomes[record.state.value] += 1
            self._counted_at = None
        if self._mail is not None and turn.events:
            self._mail.is_due = True

    def _forget(self, here: set[JobKey]) -> None:
        """Promises that stand, and requests of jobs in the queue, are all that is remembered."""
        self._kept = {
            key: kept
            for key, kept in self._kept.items()
            if key in here or kept.record.state is TargetState.STANDING
        }
        self._looked_up &= here

    # -- what is told ------------------------------------------------------------------------

    def _count(self, result: RoundResult, keeps: bool, now: int) -> None:
        way = way_of(result.decision.memory)
        if way:
            self._rounds[way] += 1
        is_due = self._counted_at is None or not 0 <= now - self._counted_at < _COUNT_S
        if is_due and keeps:
            self._lately = self._store.counts(self._cluster, now - OUTCOMES_S)
            self._counted_at = now

    def _document(self, result: RoundResult, config: SlurmConfig) -> TargetsTold:
        private = config.hides("jobs")
        records = {key: kept.record for key, kept in self._kept.items()}
        standing = {k: r for k, r in records.items() if r.state is TargetState.STANDING}
        declined = {k: r for k, r in records.items() if r.state is TargetState.REFUSED}
        self._refused = len(declined)
        risks = Counter(record.risk for record in standing.values())
        head: dict[str, JsonValue] = {
            "num_standing": len(standing),
            "num_at_risk": risks[Risk.AT_RISK],
            "num_late": risks[Risk.LATE],
            "num_refused": len(declined),
            "warn_probability": self._settings().deadlines.warn_probability,
            "outcomes": {state.value: number for state, number in self._lately.items()},
        }
        if way := way_of(result.decision.memory):
            head["solver"] = {"way": way}
        reasons = result.decision.reasons
        return TargetsTold(
            head,
            {
                key.slurm_id: target_document(record, reasons.get(key), private=private)
                for key, record in standing.items()
            },
            {k.slurm_id: refusal_document(r, private=private) for k, r in declined.items()},
        )


def _is_due(kept: _Kept | None, record: TargetRecord, now: int) -> bool:
    """Whether SQL is to have this record instead of what it has: not each second's plan."""
    before = None if kept is None else kept.written
    if kept is None or before is None:
        return True
    if before == record:
        return False
    if (before.risk, before.gone_time) != (record.risk, record.gone_time):
        return True
    return not 0 <= now - kept.written_at < WRITTEN_S


def _log(record: TargetRecord, what: str) -> None:
    job, deadline = record.key.slurm_id, moment(record.deadline, "minutes")
    if what in (Risk.AT_RISK.value, Risk.LATE.value, TargetState.MISSED.value):
        planned = "none" if record.finish_time is None else moment(record.finish_time, "minutes")
        chance = "" if record.probability is None else f", probability {record.probability:.2f}"
        log.warning("job %s: deadline %s is %s (end %s%s)", job, deadline, what, planned, chance)
    else:
        log.info("job %s: deadline %s: %s", job, deadline, what)
