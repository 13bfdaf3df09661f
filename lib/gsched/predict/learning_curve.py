"""When a training reaches its target: learning curves fitted to what it has told of a metric.

A curve is ``limit + distance * shape(step)``, where the shape falls from 1 towards 0. Four families
of shapes lie on a bounded grid of time scales and exponents; for each, limit and distance follow by
least squares. All are weighed by how well they explain the samples, so there is nothing to
converge, and what the samples do not decide stays open in the interval. Noise that goes on from one
sample to the next counts as fewer samples. A curve is judged for its mean: a noisy metric may touch
the target before.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

FEWEST = 6
"""Samples at different steps below which nothing is said."""
MOST = 64
"""Samples a fit uses; more are put together, neighbour by neighbour."""
MOST_READ = 100_000
"""Samples looked at; of more, the last ones."""
LARGEST = 1e12
"""Steps and values beyond are no samples."""
HORIZON = 100.0
"""A target further away than this many times the last step counts as never reached."""
DRAWS = 1024
"""Curves drawn for an interval."""
FINEST = 0.002
"""Errors below this share of the range of the samples are not told apart."""
SEED = 13
"""Of these draws: the same samples give the same answer."""


@dataclass(frozen=True)
class Reach:
    """The step at which a target is reached.

    None in place of a step is *never*: not within `HORIZON` times the last step told.
    """

    low: float | None
    """With 10 % it is reached by then."""
    middle: float | None
    high: float | None
    """With 90 % it is reached by then."""
    never: float
    """The probability that it is never reached."""
    reached: bool = False
    """It was reached already, at the step `middle`."""


@dataclass(frozen=True)
class Curves:
    """All curves of the grid, with what the samples say of them."""

    last_step: float
    families: tuple[str, ...]
    family: NDArray[np.int64]
    scale: NDArray[np.float64]
    exponent: NDArray[np.float64]
    limit: NDArray[np.float64]
    distance: NDArray[np.float64]
    weight: NDArray[np.float64]
    """How probable each curve is; the sum is 1."""
    doubt: NDArray[np.float64]
    """Root of the covariance of limit and distance, a lower triangle (3 numbers) a curve."""
    samples: tuple[tuple[float, float], ...]

    @property
    def best(self) -> str:
        """The family that the samples speak for most."""
        return self.families[int(self.family[int(np.argmax(self.weight))])]

    def at(self, steps: Iterable[float]) -> list[float]:
        """The weighed mean of all curves at `steps`."""
        kept = np.flatnonzero(self.weight > 1e-6)
        x = np.maximum(np.asarray(list(steps), dtype=np.float64), 0.0)
        shapes = _shapes(x, self.family[kept], self.scale[kept], self.exponent[kept])
        values = self.limit[kept, None] + self.distance[kept, None] * shapes
        return [float(v) for v in (self.weight[kept] @ values) / self.weight[kept].sum()]

    def reach(self, target: float, *, rises: bool) -> Reach:
        """When the metric comes to `target`: at or above it if it `rises`, else at or below."""
        sign = 1.0 if rises else -1.0
        for step, value in self.samples:
            if sign * value >= sign * target:
                return Reach(step, step, step, 0.0, reached=True)
        steps = np.sort(self._drawn_steps(target, sign))
        never = float(np.mean(~np.isfinite(steps)))

        def by(share: float) -> float | None:
            step = float(steps[min(DRAWS - 1, int(share * DRAWS))])
            return step if math.isfinite(step) else None

        return Reach(by(0.1), by(0.5), by(0.9), never)

    @cached_property
    def _drawn(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        rng = np.random.default_rng(SEED)
        places = (np.arange(DRAWS) + rng.random()) / DRAWS
        rows = np.minimum(np.searchsorted(np.cumsum(self.weight), places), len(self.weight) - 1)
        noise = rng.standard_normal((2, DRAWS))
        doubt = self.doubt[rows]
        limit = self.limit[rows] + doubt[:, 0] * noise[0]
        distance = self.distance[rows] + doubt[:, 1] * noise[0] + doubt[:, 2] * noise[1]
        return rows, limit, distance

    def _drawn_steps(self, target: float, sign: float) -> NDArray[np.float64]:
        """Of each drawn curve the step at which it comes to the target; infinite for never."""
        rows, limit, distance = self._drawn
        steps = np.full(DRAWS, np.inf)
        nears = (sign * limit > sign * target) & (sign * distance < 0)
        share = (target - limit[nears]) / distance[nears]
        steps[nears] = _when(
            np.minimum(share, 1.0),
            self.family[rows[nears]],
            self.scale[rows[nears]],
            self.exponent[rows[nears]],
        )
        steps[steps > HORIZON * self.last_step] = np.inf
        # The samples have not been there yet, whatever a curve says.
        later: NDArray[np.float64] = np.maximum(steps, self.last_step)
        return later


def fit_curves(samples: Iterable[tuple[float, float]]) -> Curves | None:
    """The curves through `samples`, each a step and a value.

    None where they are too few, or all the same, to say anything.
    """
    known = _usable(samples)
    if len(known) < FEWEST:
        return None
    x, y = _thinned(known)
    low, span = float(y.min()), float(np.ptp(y))
    if span <= 1e-12 * max(1.0, abs(low)):
        return None
    family, scale, exponent = _grid(float(x[-1]))
    limit, distance, errors, doubt, weight = _weighed(
        (y - low) / span, _shapes(x, family, scale, exponent), family
    )
    return Curves(
        last_step=float(known[-1][0]),
        families=FAMILIES,
        family=family,
        scale=scale,
        exponent=exponent,
        limit=low + span * limit,
        distance=span * distance,
        weight=weight,
        doubt=span * doubt * np.sqrt(errors)[:, None],
        samples=tuple(known),
    )


FAMILIES = ("exponential", "power", "stretched", "mmf")
"""``exp(-x/s)``, ``(1+x/s)^-c``, ``exp(-(x/s)^c)``, ``1/(1+(x/s)^c)`` (Morgan, Mercer, Flodin)."""


def _usable(samples: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Samples by step, one a step (the one told last), without those that are no numbers."""
    told = list(samples)[-MOST_READ:]
    by_step = {float(s): float(v) for s, v in told if 0 <= s <= LARGEST and abs(v) <= LARGEST}
    return sorted(by_step.items())


def _thinned(known: list[tuple[float, float]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    table = np.asarray(known, dtype=np.float64)
    if len(table) > MOST:
        table = np.asarray([part.mean(axis=0) for part in np.array_split(table, MOST)])
    return table[:, 0], table[:, 1]


def _grid(last: float) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Family, scale and exponent of each curve; scales from 0.01 to 10 times the last step."""
    scales = last * np.geomspace(0.01, 10.0, 48)
    exponents = np.geomspace(0.4, 2.5, 20)
    parts = [(0, s, 1.0) for s in last * np.geomspace(0.01, 10.0, 160)]
    parts += [(f, s, c) for f in (1, 2, 3) for s in scales for c in exponents]
    table = np.asarray(parts)
    return table[:, 0].astype(np.int64), table[:, 1], table[:, 2]


def _shapes(
    x: NDArray[np.float64],
    family: NDArray[np.int64],
    scale: NDArray[np.float64],
    exponent: NDArray[np.float64],
) -> NDArray[np.float64]:
    """What each curve's shape is at each step: curves by steps."""
    u = x[None, :] / scale[:, None]
    out = np.empty_like(u)
    c = exponent[:, None]
    for number in range(len(FAMILIES)):
        rows = family == number
        v, e = u[rows], c[rows]
        if number == 0:
            out[rows] = np.exp(-v)
        elif number == 1:
            out[rows] = (1.0 + v) ** -e
        else:
            out[rows] = np.exp(-(v**e)) if number == 2 else 1.0 / (1.0 + v**e)
    return out


def _when(
    share: NDArray[np.float64],
    family: NDArray[np.int64],
    scale: NDArray[np.float64],
    exponent: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The step at which a shape has fallen to `share` (above 0, at most 1)."""
    with np.errstate(over="ignore", divide="ignore"):
        rate = 1.0 / exponent
        log = -np.log(share)
        ways = (log, share**-rate - 1.0, log**rate, (1.0 / share - 1.0) ** rate)
        steps: NDArray[np.float64] = scale * np.choose(family, ways)
    return steps


def _weighed(
    y: NDArray[np.float64], shapes: NDArray[np.float64], family: NDArray[np.int64]
) -> tuple[NDArray[np.float64], ...]:
    """Limit, distance, squared error a sample, root of covariance for error 1, probability."""
    count = len(y)
    mean = shapes.mean(axis=1)
    spread = np.maximum(((shapes - mean[:, None]) ** 2).sum(axis=1), 1e-12)
    distance = ((shapes - mean[:, None]) @ (y - y.mean())) / spread
    limit = y.mean() - distance * mean
    left = y[None, :] - limit[:, None] - distance[:, None] * shapes
    squares = (left**2).sum(axis=1)
    # The grid has steps: how much better than `FINEST` a curve fits says where the
    # grid lies, not what the truth is.
    squares = np.maximum(squares, count * FINEST**2)
    best = left[int(np.argmin(squares))]
    follows = float(best[1:] @ best[:-1]) / max(float(best @ best), 1e-12)
    follows = min(max(follows, 0.0), 0.9)
    worth = max(count * (1.0 - follows) / (1.0 + follows), 4.0)
    score = -0.5 * worth * np.log(squares / squares.min())
    # A limit far beyond all that was seen is improbable, not impossible; this decides where the
    # samples do not.
    score -= 0.5 * np.square(np.maximum(np.abs(limit - 0.5) - 0.5, 0.0))
    # Before anything is told, all families are as probable.
    score -= np.log(np.bincount(family))[family]
    weight = np.exp(score - score.max())
    errors = squares / max(count - 2, 1) * count / worth
    one = np.sqrt(1.0 / count + mean**2 / spread)
    shared = -mean / spread / one
    rest = np.sqrt(np.maximum(1.0 / spread - shared**2, 0.0))
    return limit, distance, errors, np.stack([one, shared, rest], axis=1), weight / weight.sum()
