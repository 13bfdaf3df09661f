"""Which nodes a job's ``--constraint`` may mean: the grammar of sbatch(1), as far as it is certain.

``a&b`` ``a|b`` ``(a|b)&c``, the same feature on all nodes ``[a|b]``, counts ``a*2`` and
``[a*2&b*3]``. A node is a candidate when one of the ways to read the expression takes it; so a set
of candidates that is too small is certain, one that is large enough promises nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_TOKEN = re.compile(
    r"\s*(?:(?P<mark>[\[\]()&|,])|(?P<name>[^\s\[\]()&|,*]+)(?:\*(?P<count>\d{1,6}))?)"
)


@dataclass(frozen=True, slots=True)
class FeatureCount:
    """`count` nodes must have the feature `name`."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint as alternatives: a node is a candidate when it has all features of one of them.

    `counts` are what the expression demands of several nodes together.
    """

    alternatives: tuple[frozenset[str], ...]
    counts: tuple[FeatureCount, ...] = ()

    def takes(self, features: Collection[str]) -> bool:
        """Whether a node with these features is a candidate."""
        have = set(features)
        return any(wanted <= have for wanted in self.alternatives)


_MOST_ALTERNATIVES = 256


def parse_constraint(text: str) -> Constraint | None:
    """The constraint, None for one that is not understood (of which nothing is said then)."""
    tokens = _tokens(text)
    if not tokens:
        return None
    parser = _Parser(tokens)
    found = parser.expression()
    if found is None or parser.rest or len(found) > _MOST_ALTERNATIVES:
        return None
    return Constraint(tuple(found), tuple(parser.counts))


def _tokens(text: str) -> list[tuple[str, str, int]] | None:
    """(mark, name, count) of each token; None when something else stands there."""
    tokens: list[tuple[str, str, int]] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None or (match["name"] or "").startswith("!"):
            return None
        tokens.append((match["mark"] or "", match["name"] or "", int(match["count"] or 0)))
        position = match.end()
    return tokens


class _Parser:
    """Recursive descent: ``|`` and, beside counts, ``&`` are alternatives of single nodes."""

    def __init__(self, tokens: list[tuple[str, str, int]]) -> None:
        self.rest = list(tokens)
        self.counts: list[FeatureCount] = []

    def expression(self) -> list[frozenset[str]] | None:
        """Terms with ``|`` between: any of them."""
        found = self._term()
        while found is not None and self._take("|"):
            more = self._term()
            found = None if more is None else found + more
        return found

    def _term(self) -> list[frozenset[str]] | None:
        """Factors with ``&`` between: all of them on one node, unless they are counted."""
        found = self._factor()
        while found is not None and (self._take("&") or self._take(",")):
            more = self._factor()
            if more is None:
                return None
            # a*2&b*3 speaks of different nodes; so may [a&b] with counts inside
            found = found + more if self.counts else [x | y for x in found for y in more]
            if len(found) > _MOST_ALTERNATIVES:
                return None
        return found

    def _factor(self) -> list[frozenset[str]] | None:
        for opening, closing in (("[", "]"), ("(", ")")):
            if self._take(opening):
                found = self.expression()
                return found if self._take(closing) else None
        if not self.rest or not self.rest[0][1]:
            return None
        _, name, count = self.rest.pop(0)
        if count:
            self.counts.append(FeatureCount(name, count))
        return [frozenset({name})]

    def _take(self, mark: str) -> bool:
        if self.rest and self.rest[0][0] == mark:
            self.rest.pop(0)
            return True
        return False
