"""What ended jobs have left behind, and what it says of a job at one moment.

``Memory`` takes jobs in as they end; a ``Look`` is what it knows of one job at one moment, from
jobs that ended before: the rolling estimate and the numbers that the regression sees beside the
job's own attributes. A look holds values: what ends later does not change it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

from gsched.model.history import PastJob
from gsched.predict.attributes import SHORTEST_S, JobAttributes, of_past
from gsched.predict.caution import Caution, Distrust, Overruns, distrust
from gsched.predict.rolling import (
    NAME_WINDOW,
    OWN_RULES,
    QUANTILES,
    RULES,
    Estimate,
    RollingEstimator,
    Run,
)

HISTORY = (
    "rule",  # of the rolling estimate, 0 = the most specific
    "rolling_s",
    "typical_s",  # geometric mean of the latest runs behind it
    "spread",  # standard deviation of the natural logarithms of these
    "shortest_s",
    "longest_s",
    "num_similar",
    "last_s",  # the user's last run
    "last_two_s",  # mean of the last two, as by Tsafrir, Etsion and Feitelson (2007)
    "idle_s",  # since the user's last run ended
    "same_request_s",  # geometric mean of the user's latest runs with this size and time limit
    "num_same_request",
)
SPREAD = HISTORY.index("spread")
_UNKNOWN = (math.nan,) * len(HISTORY)
_NORMAL = {level: NormalDist().inv_cdf(level) for level in QUANTILES}


@dataclass(frozen=True, slots=True)
class Look:
    """What is known of `job` at the epoch time `now`.

    `source` is the rule of the rolling estimate of `rolling_s` seconds (within the time limit),
    `num_similar` the number of runs behind it, `own_quantiles` what these runs took, spread wider
    the fewer they are (if asked for); where nothing has ended before, the rule is "". `history` are
    the values of HISTORY, `distrust` is the user's.
    """

    job: JobAttributes
    now: int
    source: str
    rolling_s: float
    num_similar: int
    own_quantiles: tuple[tuple[float, float], ...]
    history: tuple[float, ...]
    distrust: Distrust

    @property
    def spread(self) -> float:
        """Standard deviation of the logarithms of the latest runs behind the estimate; 0 of one."""
        return 0.0 if math.isnan(self.history[SPREAD]) else self.history[SPREAD]


class Memory:
    """The rolling estimate, the users' last runs, and how far they outran what was announced."""

    def __init__(self, rolling: RollingEstimator, caution: Caution) -> None:
        self.rolling = rolling
        self.caution = caution

    @classmethod
    def empty(cls) -> Memory:
        """Before anything has ended."""
        return cls(RollingEstimator(), Caution())

    def observe(self, job: PastJob, announced_s: float | None = None) -> None:
        """Take an ended job in.

        `announced_s` is the rolling estimate from the user's own runs when it was submitted, NaN
        where there was none; None: what can still be told of that moment from the runs kept.
        """
        attributes = of_past(job)
        if announced_s is None:
            then = self.rolling.estimate(attributes, job.submit_time)
            announced_s = math.nan
            if then is not None and then.source in OWN_RULES:
                announced_s = then.duration_s
        self.rolling.observe(job)
        announced_s = attributes.within_limit(announced_s)
        if not math.isnan(announced_s):
            self.caution.observe(attributes, job.end_time, job.duration_s, announced_s)

    def look(
        self,
        jobs: Sequence[JobAttributes],
        now: int,
        own_quantiles: Collection[tuple[str, str]] = (),
    ) -> list[Look]:
        """One look a job; those alike in what the history is asked for share the work.

        `own_quantiles` are the (kind of job, rule) for which they are wanted: they take a while.
        """
        moment = _Moment(self, now, own_quantiles)
        return [moment.look(job) for job in jobs]


class _Moment:
    """Looks at one moment: what several jobs have in common is worked out once."""

    def __init__(
        self, memory: Memory, now: int, own_quantiles: Collection[tuple[str, str]]
    ) -> None:
        self._memory = memory
        self._now = now
        self._own_quantiles = own_quantiles
        self._alike: dict[tuple[str, tuple[bool, str], str, int | None], Look] = {}
        self._overruns: dict[tuple[str, str], Overruns | None] = {}
        self._users: dict[str, tuple[float, ...]] = {}
        self._requests: dict[tuple[str, str, int | None], tuple[float, ...]] = {}

    def look(self, job: JobAttributes) -> Look:
        """What is known of `job`."""
        known_as = self._memory.rolling.known_as(job.user, job.name)
        alike = (job.user, known_as, job.size, job.time_limit_s)
        look = self._alike.get(alike)
        if look is None:
            look = self._alike[alike] = self._first(job)
            return look
        return replace(look, job=job)

    def _first(self, job: JobAttributes) -> Look:
        now = self._now
        estimate = self._memory.rolling.estimate(job, now)
        if estimate is None:
            return Look(job, now, "", math.nan, 0, (), _UNKNOWN, self._distrust(job))
        is_wanted = (job.kind, estimate.source) in self._own_quantiles
        return Look(
            job=job,
            now=now,
            source=estimate.source,
            rolling_s=job.within_limit(estimate.duration_s),
            num_similar=len(estimate.runs),
            own_quantiles=_own_quantiles(estimate, job) if is_wanted else (),
            history=_of_estimate(estimate) + self._of_user(job.user) + self._of_request(job),
            distrust=self._distrust(job),
        )

    def _distrust(self, job: JobAttributes) -> Distrust:
        key = (job.user, job.kind)
        if key not in self._overruns:
            self._overruns[key] = self._memory.caution.overruns(*key, self._now)
        return distrust(self._overruns[key], job.num_units)

    def _of_user(self, user: str) -> tuple[float, ...]:
        if user not in self._users:
            last = self._memory.rolling.latest(user, self._now)
            self._users[user] = _of_last(last, self._now)
        return self._users[user]

    def _of_request(self, job: JobAttributes) -> tuple[float, ...]:
        key = (job.user, job.size, job.time_limit_s)
        if key not in self._requests:
            same = self._memory.rolling.same_request(job, self._now)
            self._requests[key] = _of_same(same)
        return self._requests[key]


def walk(jobs: Sequence[PastJob], asked: Sequence[tuple[int, int]]) -> tuple[Memory, list[Look]]:
    """Live through `jobs`, in the order in which they ended, and look at some on the way.

    `asked` are (epoch time, index of a job); each look sees what had ended before its time. A job
    that is looked at when it is submitted has been announced then.
    """
    memory = Memory.empty()
    looks: list[Look | None] = [None] * len(asked)
    announced_s: dict[int, float] = {}
    ended = 0
    for row in sorted(range(len(asked)), key=asked.__getitem__):
        now, index = asked[row]
        while ended < len(jobs) and jobs[ended].end_time < now:
            memory.observe(jobs[ended], announced_s.pop(ended, math.nan))
            ended += 1
        look = looks[row] = memory.look([of_past(jobs[index])], now)[0]
        if now == jobs[index].submit_time and look.source in OWN_RULES:
            announced_s[index] = look.rolling_s
    for index in range(ended, len(jobs)):
        memory.observe(jobs[index], announced_s.pop(index, math.nan))
    return memory, [look for look in looks if look is not None]


def _own_quantiles(estimate: Estimate, job: JobAttributes) -> tuple[tuple[float, float], ...]:
    """What the runs took, each level moved by a normal deviate over their number (in logarithms).

    So even a single run, or a few that were all alike, make an interval; many are taken as is.
    """
    few = 1.0 / len(estimate.runs)
    return tuple(
        (level, job.within_limit(max(SHORTEST_S, seconds * math.exp(_NORMAL[level] * few))))
        for level, seconds in estimate.quantiles()
    )


def _of_estimate(estimate: Estimate) -> tuple[float, ...]:
    logs = _logs(estimate.runs[:NAME_WINDOW])
    mean = sum(logs) / len(logs)
    spread = math.dist(logs, [mean] * len(logs)) / math.sqrt(len(logs))
    return (
        float(RULES.index(estimate.source)),
        estimate.duration_s,
        math.exp(mean),
        spread if len(logs) > 1 else math.nan,
        math.exp(min(logs)),
        math.exp(max(logs)),
        float(len(estimate.runs)),
    )


def _of_last(last: Sequence[Run], now: int) -> tuple[float, ...]:
    if not last:
        return (math.nan,) * 3
    durations_s = [run.duration_s for run in last]
    return (
        float(durations_s[-1]),
        sum(durations_s) / len(durations_s),
        float(now - last[-1].end_time),
    )


def _of_same(same: Sequence[Run]) -> tuple[float, ...]:
    if not same:
        return math.nan, 0.0
    logs = _logs(same)
    return math.exp(sum(logs) / len(logs)), float(len(logs))


def _logs(runs: Sequence[Run]) -> list[float]:
    """Natural logarithms of the run times; those below a second count as one."""
    return [math.log(seconds) if seconds > 1 else 0.0 for _, seconds, _ in runs]
