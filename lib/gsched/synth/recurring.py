"""Users and names of a drawn trace: who submits, what comes again, and how alike it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gsched.synth.columns import Ints
from gsched.synth.fit import Fit, People, Recurrence
from gsched.synth.quantiles import Floats

_NEVER = Recurrence(0.0, 0.0)
_ALWAYS = Recurrence(1.0, 0.0)


@dataclass(frozen=True, eq=False)
class Recurring:
    """Drawn jobs as far as recurrence goes by them, a job an element."""

    pool: Ints
    size: Ints
    batch: Ints
    follows: NDArray[np.bool_]

    def ordered(self, order: Ints) -> Recurring:
        """The same jobs in another order."""
        return replace(self, **{name: column[order] for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Again:
    """`level` is the recipe's share in how long a job runs, a standard normal value.

    The user is None where the fit knows no people, recipe and number of its run where no names.
    """

    user: Ints | None
    recipe: Ints | None
    number: Ints | None
    level: Floats


class _Past:
    """What one sender has submitted of one size."""

    __slots__ = ("last", "recipes")

    def __init__(self) -> None:
        self.last = -1
        self.recipes: list[int] = []  # one entry a job: what came often comes often


def recur(fit: Fit, jobs: Recurring, rng: np.random.Generator) -> Again:
    """Give jobs, in order of submission, users and recipes.

    Without people each pool is one sender, without names each batch one recipe.
    """
    people = fit.people
    sender = jobs.pool if people is None else _users(fit, people, jobs, rng)
    names = None if people is None else people.names
    first, later = (_NEVER, _ALWAYS) if names is None else (names.first, names.later)
    recipes = _Recipes(fit.alike.sender, names.crosses if names else 0.0, rng, len(sender))
    recipe = recipes.of_jobs(jobs, sender, first, later)
    level = np.array(recipes.level)[recipe]
    user = None if people is None else sender
    if names is None:
        return Again(user, None, None, level)
    return Again(user, recipe, _run_numbers(recipe, names.counts_up, rng), level)


class _Recipes:
    """Recipes as they come up: a new one is somewhat like its sender's recipe before."""

    def __init__(
        self, memory: float, crosses: float, rng: np.random.Generator, num_jobs: int
    ) -> None:
        self.level: list[float] = []
        self._memory = memory
        self._crosses = crosses
        self._across = rng.random(num_jobs).tolist()
        self._rest = float(np.sqrt(1 - memory**2))
        self._which = rng.random(num_jobs).tolist()
        self._where = rng.random(num_jobs).tolist()
        self._chance = rng.standard_normal(num_jobs).tolist()

    def of_jobs(self, jobs: Recurring, sender: Ints, first: Recurrence, later: Recurrence) -> Ints:
        """The recipe of each job."""
        past: dict[tuple[int, int], _Past] = {}
        every: dict[int, list[int]] = {}  # one entry a job of any size
        columns = (sender.tolist(), jobs.size.tolist(), jobs.follows.tolist())
        found = []
        for row, (who, size, follows) in enumerate(zip(*columns, strict=True)):
            before = past.get((who, size))
            if before is None:
                before = past[who, size] = _Past()
            others = every.setdefault(who, [])
            before.last = self._next(row, before, others, later if follows else first)
            before.recipes.append(before.last)
            others.append(before.last)
            found.append(before.last)
        return np.array(found, dtype=np.int64)

    def _next(self, row: int, before: _Past, others: list[int], chances: Recurrence) -> int:
        if before.recipes:
            which = self._which[row] - chances.repeat
            if which < 0:
                return before.last
            if which < chances.back:
                return before.recipes[int(self._where[row] * len(before.recipes))]
        if others and self._across[row] < self._crosses:
            return others[int(self._where[row] * len(others))]
        inherited = self.level[before.last] if before.recipes else self._chance[row]
        weight = self._memory if before.recipes else 1.0
        rest = self._rest if before.recipes else 0.0
        self.level.append(weight * inherited + rest * self._chance[row])
        return len(self.level) - 1


def _users(fit: Fit, people: People, jobs: Recurring, rng: np.random.Generator) -> Ints:
    """The user of each job: one for a batch, at home in the batch's pool."""
    steps = (np.arange(people.num_users) + 0.5) / people.num_users
    activity = np.sort(people.activity.at(steps) + 1e-9)[::-1]
    home = _homes(fit, activity)
    batches, first = np.unique(jobs.batch, return_index=True)
    pool = jobs.pool[first]
    user = np.zeros(len(batches), dtype=np.int64)
    for code in range(len(fit.pools)):
        members = np.flatnonzero(home == code)
        if not len(members):  # too small a pool for one of its own
            members = rng.integers(people.num_users, size=1)
        weight = activity[members]
        rows = np.flatnonzero(pool == code)
        user[rows] = rng.choice(members, len(rows), p=weight / weight.sum())
    return rng.permutation(people.num_users)[user][np.searchsorted(batches, jobs.batch)]


def _homes(fit: Fit, activity: Floats) -> Ints:
    """The pool of each user: the most active first, each where most batches lack a user."""
    lacking = np.array([p.jobs * sum(s.jobs * s.batches_a_job for s in p.sizes) for p in fit.pools])
    lacking *= activity.sum() / lacking.sum()
    home = np.empty(len(activity), dtype=np.int64)
    for user, share in enumerate(activity.tolist()):
        home[user] = lacking.argmax()
        lacking[home[user]] -= share
    return home


def _run_numbers(recipe: Ints, counts_up: float, rng: np.random.Generator) -> Ints:
    """A number for each job that rises with some runs of its recipe, from 1."""
    sort = np.lexsort((np.arange(len(recipe)), recipe))
    is_first = np.ones(len(sort), dtype=np.bool_)
    is_first[1:] = recipe[sort[1:]] != recipe[sort[:-1]]
    rises = np.cumsum(~is_first & (rng.random(len(sort)) < counts_up))
    begin = rises[is_first][np.cumsum(is_first) - 1]
    number = np.empty(len(recipe), dtype=np.int64)
    number[sort] = rises - begin + 1
    return number
