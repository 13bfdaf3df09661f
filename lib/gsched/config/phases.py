"""``[[phases.rules]]`` of gsched.toml as the rules of the model."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from gsched.errors import ConfigError
from gsched.model.phases import PHASE_VALUES, TEXT_CONDITIONS, PhaseRule, PhaseRules

_KEYS = tuple(field.name for field in fields(PhaseRule))


def parse_rules(tables: Any) -> PhaseRules:
    """The rules of a list of tables. Raises ConfigError that names the rule (from 1) and key."""
    if not isinstance(tables, list) or not all(isinstance(table, Mapping) for table in tables):
        raise ConfigError("phases.rules must be a list of tables", "write [[phases.rules]]")
    return PhaseRules(tuple(_rule(table, f"rule {n}") for n, table in enumerate(tables, 1)))


def _rule(table: Mapping[str, Any], place: str) -> PhaseRule:
    for key, value in table.items():
        _check(key, value, f"phases.rules: {place}")
    if "phase" not in table:
        raise ConfigError(f"phases.rules: {place} names no phase", _phases())
    rule = PhaseRule(**table)
    if rule.min_gpus is not None and rule.max_gpus is not None and rule.min_gpus > rule.max_gpus:
        raise ConfigError(f"phases.rules: {place}: min_gpus is more than max_gpus")
    return rule


def _check(key: str, value: Any, place: str) -> None:
    if key not in _KEYS:
        near = difflib.get_close_matches(key, _KEYS, 1)
        hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(_KEYS)}"
        raise ConfigError(f"{place}: unknown key {key}", hint)
    if key == "phase":
        if value not in PHASE_VALUES:
            raise ConfigError(f"{place}: phase is {value!r}", _phases())
    elif key not in TEXT_CONDITIONS:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise ConfigError(f"{place}: {key} is {value!r}, but it must be a whole number from 0")
    elif not isinstance(value, str):
        raise ConfigError(f"{place}: {key} is {value!r}, but it must be a regular expression")
    else:
        try:
            re.compile(value)
        except re.error as error:
            raise ConfigError(f"{place}: {key} is no regular expression: {error}") from None


def _phases() -> str:
    return f"one of {', '.join(PHASE_VALUES)}"
