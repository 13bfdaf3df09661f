"""What the daemon's forecast says of a waiting job: its start, who makes room, what would help."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from gsched.app.analysis import Analysis
from gsched.app.job import LiveJob
from gsched.app.waiting import WhyLine
from gsched.explain.helpful import helpful_changes, tried_changes
from gsched.explain.never import never_starts
from gsched.explain.start_words import (
    change_words,
    clock,
    end_words,
    no_start_words,
    start_words,
)
from gsched.model.cluster import PartitionView

_UNSAID = ("held", "off")
"""Why there is no forecast, where that is said already, or is nothing that a user asks about."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The forecast of one job at the time `at`; parts that there are none of are None or empty.

    `helpful` are those of the changes that were `tried` which would let it start noticeably sooner
    and are possible for its user, the most helpful first. `limit_advice` is about one of them.
    """

    at: int
    start: Mapping[str, Any] | None = None
    no_start: str | None = None
    next_free: Mapping[str, Any] | None = None
    tried: tuple[Mapping[str, Any], ...] = ()
    helpful: tuple[Mapping[str, Any], ...] = ()
    limit_advice: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, live: LiveJob, analysis: Analysis) -> Expected:
        """What the daemon's answer holds for this job.

        Of a job that can never start, or is held, what was forecast before that was known counts
        for nothing.
        """
        answer, at = live.line.answer, live.line.at
        if analysis.verdict in ("never", "held"):
            return cls(at, no_start=analysis.verdict)
        helpful = helpful_changes(answer, at, lambda change: _is_possible(live, analysis, change))
        return cls(
            at,
            start=answer.get("start"),
            no_start=answer.get("no_start"),
            next_free=answer.get("next_free"),
            tried=tuple(tried_changes(answer)),
            helpful=tuple(helpful),
            limit_advice=answer.get("limit_advice"),
        )

    def next_free_lines(self) -> list[WhyLine]:
        """Which running job should make room next."""
        found = self.next_free
        if found is None:
            return []
        words = f"{found['nodes']}: {found['job']} {end_words(found, self.at)}"
        return [WhyLine("next to free", words)]

    def start_lines(self, slurm_start: int | None) -> list[WhyLine]:
        """When it should start, beside Slurm's own estimate (None: Slurm has none)."""
        if self.start:
            words = start_words(self.start, self.at)
        elif self.no_start and self.no_start not in _UNSAID:
            words = f"not known: {no_start_words(self.no_start)}"
        else:
            if slurm_start is None:
                return []
            return [WhyLine("Slurm expects", "reckons with time limits", at=slurm_start)]
        if slurm_start is not None:
            own = clock(slurm_start, self.at)
            words += f"; Slurm's own estimate: {own} (reckons with time limits)"
        return [WhyLine("expected start", words)]

    def help_lines(self) -> list[WhyLine]:
        """Which single changes would help, the most helpful first; or that none of them would."""
        if self.helpful:
            found = [change_words(c, self.limit_advice, self.at) for c in self.helpful]
            return [WhyLine("would help", "; ".join(found))]
        if self.tried:
            options = ", ".join(str(change["option"]) for change in self.tried)
            return [WhyLine("would help", f"nothing that was tried ({options})")]
        return []

    def document(self) -> dict[str, Any]:
        """As JSON; the keys of the daemon's document, and what of it helps."""
        return {
            "expected_start": None if self.start is None else dict(self.start),
            "no_start": self.no_start,
            "next_to_free": None if self.next_free is None else dict(self.next_free),
            "would_help": [
                {
                    "kind": change["kind"],
                    "option": change["option"],
                    "value": change["value"],
                    "start": dict(change["start"]),
                }
                for change in self.helpful
            ],
            "limit_advice": None if self.limit_advice is None else dict(self.limit_advice),
        }


def _is_possible(live: LiveJob, analysis: Analysis, change: Mapping[str, Any]) -> bool:
    """Whether Slurm would take the job with this change, as far as can be seen."""
    if change["kind"] != "partition":
        return True  # less of what it may have already
    names = str(change["value"]).split(",")
    known = {partition.name: partition for partition in live.cluster.partitions}
    if not all(name in known and _admits(known[name], live) for name in names):
        return False
    ask = replace(analysis.ask, row=replace(live.row, partitions=tuple(names)))
    return never_starts(ask, analysis.site) is None


def _admits(partition: PartitionView, live: LiveJob) -> bool:
    """Whether a partition takes jobs now, and such of this QOS and user (accounts apart)."""
    if not partition.is_up or live.row.qos in partition.deny_qos:
        return False
    if partition.allow_qos and live.row.qos not in partition.allow_qos:
        return False
    groups = partition.allow_groups
    return not groups or bool(_groups(live.row.user).intersection(groups))


def _groups(user: str) -> set[str]:
    """The groups of a user on this host; none of one whom it does not know."""
    try:
        found = pwd.getpwnam(user)
    except KeyError:
        return set()
    names = set()
    for gid in os.getgrouplist(user, found.pw_gid):
        with suppress(KeyError):
            names.add(grp.getgrgid(gid).gr_name)
    return names
