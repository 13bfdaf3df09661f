"""Users' requests, captured once: what a job's comment said when gsched first saw it.

From then on the captured request counts, whatever becomes of the comment: other tools overwrite
comments. Only another valid token there is a new request, kept beside the earlier ones.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from gsched.engine.ports import RequestStore
from gsched.model.job import JobKey, Wants
from gsched.model.user_request import UserRequest
from gsched.slurm import wire

log = logging.getLogger("gsched.daemon")

_NOTHING = Wants()


@dataclass(frozen=True, slots=True)
class Sighting:
    """A job's comment as Slurm shows it now; hostile."""

    key: JobKey
    user: str
    comment: str


class RequestBook:
    """The requests of the jobs that are in the queue.

    `edition` rises whenever `of` or `problem` says something else of a job than before: what was
    made of them is out of date then, also where the jobs themselves are the same.
    """

    def __init__(self, store: RequestStore) -> None:
        self.edition = 0
        self._store = store
        self._asked: dict[JobKey, UserRequest] = {}
        self._looked_up: set[JobKey] = set()
        self._problems: dict[JobKey, str] = {}

    def look(self, sightings: Sequence[Sighting], at: int) -> bool:
        """Capture what is new in the comments of jobs that are new or changed; `at` is the time.

        Returns whether anybody asks for something else than before. Raises what the store raises;
        nothing is lost then, if the next look is told of the same jobs again.
        """
        recalled = self._recall([s.key for s in sightings])
        readings = [(s, wire.read(s.comment)) for s in sightings]
        new = []
        for s, seen in readings:
            known = self.of(s.key)
            is_new = known is None or known.token != seen.token
            if seen.token and not seen.problem and is_new:
                new.append(UserRequest(s.key, s.user, seen.token, seen.wants, at, seen.unknown))
        self._store.capture(new)
        self._note({request.key: request for request in new})
        self._report(new, {s.key: reading.problem for s, reading in readings})
        return recalled or bool(new)

    def keep_only(self, keys: Collection[JobKey]) -> None:
        """Forget the jobs that have left: all but `keys`."""
        present = {*keys, *map(_whole_array, keys)}
        self._looked_up &= present
        self._asked = {key: asked for key, asked in self._asked.items() if key in present}
        self._problems = {key: text for key, text in self._problems.items() if key in present}

    def _recall(self, keys: Sequence[JobKey]) -> bool:
        """Read the requests of jobs not met before; whether there are any."""
        new = [k for k in {*keys, *map(_whole_array, keys)} if k not in self._looked_up]
        found = self._store.latest(new) if new else {}
        self._note(found)
        self._looked_up.update(new)
        return bool(found)

    def _note(self, asked: Mapping[JobKey, UserRequest]) -> None:
        self._asked |= asked
        self.edition += bool(asked)

    def _report(self, new: Sequence[UserRequest], problems: Mapping[JobKey, str]) -> None:
        """Log what could not be understood, once a job; '' is no problem."""
        for request in new:
            if request.unknown:
                job = request.key.slurm_id
                log.warning("job %s asks for %d things unknown here", job, request.unknown)
        for key, problem in problems.items():
            if problem and self._problems.get(key) != problem:
                log.warning("job %s: its request is ignored: %s", key.slurm_id, problem)
        now = {key: text for key, text in {**self._problems, **problems}.items() if text}
        self.edition += now != self._problems
        self._problems = now

    def of(self, key: JobKey) -> UserRequest | None:
        """What was asked for this job, or for the array that it is a task of."""
        return self._asked.get(key) or self._asked.get(_whole_array(key))

    def wants(self, key: JobKey) -> Wants:
        """The same, without who and when; Wants() for nothing."""
        asked = self.of(key)
        return _NOTHING if asked is None else asked.wants

    def problem(self, key: JobKey) -> str:
        """Why the token that the comment holds now is ignored; '' when it is not."""
        return self._problems.get(key, "")


def _whole_array(key: JobKey) -> JobKey:
    """The key under which Slurm lists an array before it splits its tasks off."""
    return key if key.array_task is None else replace(key, array_task=None)
