"""What the newest forecast says of the waiting jobs, for the status file and the query socket.

Keys of a job's document, absent where there is none (times epoch seconds, durations seconds):

``start``         {as_of, median, low, high, coverage, calibrated_on[, left_out]}
``no_start``      a code: why there is no forecast of its start
``next_free``     {job, nodes, median, low, high}: who will probably make room next
``changes``       {as_of, tried: [{kind, option, value, start: {median, low, high}}, …]}
``limit_advice``  {time_limit_s, probability, asked_s}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gsched.model.job import JobState

KEYS = frozenset({"start", "no_start", "next_free", "changes", "limit_advice"})

PENDING, UNAVAILABLE, OFF = "pending", "unavailable", "off"
"""Codes of ``no_start`` that are about no job: not made yet, cannot be made, not wanted."""

Attempt = tuple[str, int]
"""Slurm's id of a job and its submit time."""


@dataclass(frozen=True, eq=False)
class Edition:
    """One forecast, told whole; never changed afterwards. `number` rises with each new one.

    `otherwise` is the code for waiting jobs of which `documents` has nothing, '' for none.
    """

    number: int
    otherwise: str
    documents: Mapping[Attempt, Mapping[str, Any]] = field(default_factory=dict)

    def of(self, attempt: Attempt) -> Mapping[str, Any]:
        """What is said of a waiting job."""
        found = self.documents.get(attempt)
        if found is not None or not self.otherwise:
            return found or {}
        return {"no_start": self.otherwise}

    def has_start(self, attempt: Attempt) -> bool:
        """Whether something was found out about a waiting job."""
        return attempt in self.documents

    def into(
        self, name: str, document: Mapping[str, Any], *, brief: bool = False
    ) -> dict[str, Any]:
        """A job's document with this forecast in the place of any other; `brief`: without the
        changes.
        """
        bare = {key: value for key, value in document.items() if key not in KEYS}
        if bare.get("state") != JobState.PENDING.value:
            return bare
        said = self.of((name, bare["submit_time"]))
        return {**bare, **{k: v for k, v in said.items() if not (brief and k == "changes")}}


NOTHING_FORESEEN = Edition(0, "")
"""Of a process that makes no forecasts."""
