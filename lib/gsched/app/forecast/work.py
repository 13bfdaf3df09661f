"""One forecast: the question that a round's snapshot asks, and what is made of the answer.

All of it happens in the thread that talks to the forecasting process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gsched.app.forecast.arrivals import ARRIVALS_S, arrivals_of, horizon_of
from gsched.app.forecast.changes import changes_for
from gsched.app.forecast.documents import (
    Changes,
    attempt_of,
    changes_tried,
    documents,
    kept_forecasts,
)
from gsched.app.forecast.messages import Answer, Arrivals, Question, Wanted
from gsched.app.forecast.situation import Scene, scene_of
from gsched.app.wiring import open_history
from gsched.config.settings import Settings
from gsched.daemon.forecast_book import Attempt
from gsched.daemon.forecast_facts import NO_RECORD, Record
from gsched.forecast.calibration import NO_CALIBRATION, Calibration, PastForecast
from gsched.forecast.codec import from_json, to_json
from gsched.forecast.outlook import ForecastOptions, Interval
from gsched.model.cluster import ClusterState
from gsched.model.history import PastJob
from gsched.model.job import JobKey, JobState, JobView, Prediction
from gsched.model.start_forecast import FORECAST_MODEL, RAW_MODEL, StartForecast
from gsched.model.times import DAY_S
from gsched.slurm.records import QueueRow, SlurmConfig

REFRESH_S = 600.0
"""So often (seconds) the history is asked for past arrivals and for what became of forecasts."""
LEARN_S = 28 * DAY_S
MOST_LEARNT = 20_000
"""Of forecasts of so many seconds, and of the newest so many, the calibration is learnt."""
JUDGED_S = 7 * DAY_S
MOST_WANTED = 64
"""For so many jobs changes are tried in one forecast, time permitting."""
CERTAINLY = 4
"""Of those that somebody has asked about, so many get theirs tried in any case."""

_KEPT_CHANGES_S = 3600


@dataclass(frozen=True, slots=True)
class Seen:
    """What a round hands over: a snapshot with predictions, and each job's line of squeue."""

    state: ClusterState
    rows: Mapping[JobKey, QueueRow]
    config: SlurmConfig
    by_prediction: bool
    starvation_bound_s: int = 0  # of a daemon that acts

    @property
    def hides_jobs(self) -> bool:
        """Whether users must not hear of each other's jobs."""
        return self.config.hides("jobs")


@dataclass(slots=True)
class Desk:
    """What is kept from one forecast to the next."""

    settings: Settings
    cluster: str
    options: ForecastOptions
    changes: dict[Attempt, Changes] = field(default_factory=dict)
    kept: set[tuple[JobKey, int]] = field(default_factory=set)
    record: Record = NO_RECORD
    _calibration: Calibration = NO_CALIBRATION
    _past: Sequence[PastJob] = ()
    _refreshed_at: float = -math.inf
    _asked_ground: object = None
    _sent_ground: object = None  # of the arrivals that the process has for certain

    def question(self, seen: Seen, asked: Sequence[str], cpu_s: float) -> tuple[Scene, Question]:
        """What to ask. `asked`: jobs (Slurm's ids) that somebody wants to know about, in order."""
        settings, state = self.settings, seen.state
        scene = scene_of(
            state,
            seen.rows,
            seen.config,
            settings.predict,
            seen.by_prediction,
            seen.starvation_bound_s,
        )
        arrivals = self._arrivals(seen, scene)
        wanted = self._wanted(seen, scene, asked) if scene.waiting else ()
        certainly = min(CERTAINLY, len(set(asked) & {one.job_id for one in wanted}))
        question = Question(
            scene.situation, arrivals, self.options, self._calibration, wanted, certainly, cpu_s
        )
        return scene, question

    def _arrivals(self, seen: Seen, scene: Scene) -> Arrivals | None:
        """Those of the last days; None when the process has them as they are."""
        sent, self._sent_ground = self._sent_ground, None
        self._asked_ground = (scene.ground.fields, scene.ground.nodes)
        if time.monotonic() - self._refreshed_at >= REFRESH_S:
            self._read_history(seen.state.as_of)
        elif sent == self._asked_ground:
            return None
        present = [v for v in seen.state.jobs.views if v.state is not JobState.COMPLETING]
        arrivals = arrivals_of(
            self._past, present, scene.ground, scene.order, self.settings.predict,
            seen.state.as_of,
        )  # fmt: skip
        self.options = replace(self.options, horizon_s=horizon_of(arrivals, seen.state.as_of))
        return arrivals

    def _read_history(self, as_of: int) -> None:
        """Raises what the history raises."""
        with open_history(self.settings, bounded=True) as history:
            past = history.past_jobs(self.cluster, as_of - ARRIVALS_S, as_of + 1).jobs
            raw = history.start_forecasts(self.cluster, RAW_MODEL, as_of - LEARN_S, MOST_LEARNT)
            shown = history.start_forecasts(
                self.cluster, FORECAST_MODEL, as_of - JUDGED_S, MOST_LEARNT
            )
        self._past = past
        self._calibration = Calibration.learn(
            [_past_forecast(one) for one in raw], float(as_of), self.options.coverage
        )
        self.record = record_of(shown, as_of)
        self._refreshed_at = time.monotonic()

    def _wanted(self, seen: Seen, scene: Scene, asked: Sequence[str]) -> tuple[Wanted, ...]:
        jobs = {job.job_id: job for job in scene.situation.waiting}
        found = []
        for name in self._in_turn(scene, asked):
            view = scene.waiting[name]
            changes = changes_for(
                view, seen.rows[view.key], jobs[name], scene, seen.state.partitions
            )
            if changes:
                found.append(Wanted(name, changes))
            if len(found) == MOST_WANTED:
                break
        return tuple(found)

    def _in_turn(self, scene: Scene, asked: Sequence[str]) -> list[str]:
        """Who is asked about, then the newest whose changes were never tried, then the rest, whose
        were tried longest ago.
        """
        first = [name for name in asked if name in scene.waiting]

        def place(item: tuple[str, JobView]) -> tuple[bool, float]:
            tried = self.changes.get(attempt_of(item[1]))
            return (True, tried["as_of"]) if tried else (False, -item[1].first_submit)

        others = sorted(scene.waiting.items(), key=place)
        return list(dict.fromkeys([*first, *(name for name, _ in others)]))

    def foreseen(self, answer: Answer, seen: Seen, scene: Scene) -> Foreseen:
        """What an answer to `question` means."""
        self._sent_ground = self._asked_ground
        views = seen.state.jobs.views
        waiting = {v.key.slurm_id: v for v in views if v.state is JobState.PENDING}
        there = {attempt_of(view) for view in waiting.values()}
        oldest = answer.outlook.as_of - _KEPT_CHANGES_S
        self.changes = {
            attempt: changes
            for attempt, changes in (self.changes | changes_tried(answer, scene)).items()
            if attempt in there and changes["as_of"] >= oldest
        }
        owners = {v.key.slurm_id: v.user for v in views} if seen.hides_jobs else None
        told = documents(answer, scene, waiting, self.changes, self.options.horizon_s, owners)
        self.kept &= {(v.key, v.attempt) for v in waiting.values()}
        new = kept_forecasts(answer, scene, self.kept)
        self.kept |= {(key, attempt) for key, attempt, _ in new}
        return Foreseen(answer, told, new)


@dataclass(frozen=True, slots=True)
class Foreseen:
    """An answer and all it means: what is told of each waiting job, and what is to be kept."""

    answer: Answer
    documents: Mapping[Attempt, Mapping[str, Any]]
    kept: Sequence[tuple[JobKey, int, Prediction]]


@dataclass(slots=True)
class ForecastWork:
    """Implements ``gsched.daemon.forecast_child.Work``."""

    desk: Desk
    seen: Seen
    asked: Sequence[str]
    cpu_s: float
    done: Callable[[Foreseen], None]
    _scene: Scene | None = None

    def question(self) -> str:
        """The question as a line of JSON. Raises what the history raises."""
        self._scene, question = self.desk.question(self.seen, self.asked, self.cpu_s)
        return to_json(question).decode()

    def take(self, answer: str) -> None:
        """Raises DataError for what is no answer."""
        found = from_json(Answer, answer.encode())
        if self._scene is not None:
            self.done(self.desk.foreseen(found, self.seen, self._scene))


def record_of(shown: Sequence[StartForecast], now: int) -> Record:
    """How these have done; one whose job waits beyond its interval has missed."""
    started = [(one, one.start_time) for one in shown if one.start_time is not None]
    missed = sum(1 for one in shown if one.start_time is None and one.high < now)
    errors = sorted(abs(one.median - start) for one, start in started)
    covered = sum(1 for one, start in started if one.low <= start <= one.high)
    middle = errors[len(errors) // 2] if errors else None
    return Record(len(started) + missed, covered, middle)


def _past_forecast(one: StartForecast) -> PastForecast:
    start = None if one.start_time is None else float(one.start_time)
    return PastForecast(float(one.as_of), Interval(one.median, one.low, one.high), start)
