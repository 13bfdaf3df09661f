"""What a job does: pretraining, evaluation, fine-tuning, debugging or something else.

What the job's user or its source says counts; else the site's rules, the first that matches; else
the job is unclassified, and reports give the share of such jobs. gsched has no rules of its own:
a guess from names that are usual elsewhere would look like knowledge.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache

from gsched.model.job import PHASES
from gsched.model.names import bounded

PHASE_VALUES = (*PHASES, "other")
"""Every phase that a job can have; None stands for unclassified."""

TEXT_CONDITIONS = ("name", "user", "account", "partition", "qos")
"""Conditions of a rule that are regular expressions."""

_RULES_VERSION = 1
"""Raised whenever the same rules classify otherwise: phases are then derived again."""


@dataclass(frozen=True, slots=True)
class PhaseRule:
    """Jobs that fulfil all conditions given are of this phase.

    The texts are regular expressions of Python, searched for anywhere in the job's value, letter
    case apart; of a partition list any member may match. `min_gpus` and `max_gpus` are included.
    A condition on what is not known of a job is not fulfilled.
    """

    phase: str
    name: str | None = None
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    min_gpus: int | None = None
    max_gpus: int | None = None


@dataclass(frozen=True)
class PhaseRules:
    """The rules of a site, in order."""

    rules: tuple[PhaseRule, ...] = ()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the rules: another digest, and what was derived by them is out of date."""
        text = json.dumps([_RULES_VERSION, [asdict(rule) for rule in self.rules]])
        return hashlib.sha256(text.encode()).hexdigest()


NO_RULES = PhaseRules()


def stated(phases: Sequence[str]) -> str | None:
    """The phase of a job whose user named several: the first, which a history counts it by."""
    return phases[0] if phases else None


def phase_of(
    rules: PhaseRules,
    told: str | None,
    *,
    name: str | None,
    user: str | None,
    account: str | None,
    partition: str | None,
    qos: str | None,
    num_gpus: int | None,
) -> str | None:
    """A job's phase, one of PHASE_VALUES; None: unclassified.

    `told` is what its user or source said; it wins over the rules. `partition` may be a list with
    commas, as a pending job has.
    """
    if told is not None:
        return told
    for rule in rules.rules:
        if (
            _among(rule.min_gpus, rule.max_gpus, num_gpus)
            and _has(rule.qos, qos)
            and _has(rule.account, account)
            and _has(rule.user, user)
            and _has_one(rule.partition, partition)
            and _has(rule.name, name)
        ):
            return rule.phase
    return None


def _among(minimum: int | None, maximum: int | None, count: int | None) -> bool:
    if minimum is None and maximum is None:
        return True
    if count is None:
        return False
    return (minimum is None or minimum <= count) and (maximum is None or count <= maximum)


def _has(pattern: str | None, text: str | None) -> bool:
    return pattern is None or (text is not None and _found(pattern, text))


def _has_one(pattern: str | None, listed: str | None) -> bool:
    return pattern is None or (
        listed is not None and any(_found(pattern, member) for member in listed.split(","))
    )


@lru_cache(maxsize=65_536)
def _found(pattern: str, text: str) -> bool:
    # Names are of any length and an expression may take long on a long one.
    return re.search(pattern, bounded(text), re.IGNORECASE) is not None
