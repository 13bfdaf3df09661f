"""Every reason of cluster energy saving has words, whatever its params are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gsched
from gsched.config.node_settings import CesTable
from gsched.explain import ces_reasons
from gsched.explain.ces_reasons import ces_codes, ces_reason
from gsched.policy.ces_state import NodeExclusion, NodePower

LIB = Path(gsched.__file__).parent
CODE = re.compile(r"(ces|demand)\.[a-z][a-z0-9-]*")


def literals() -> Iterator[str]:
    """Texts of the library that look like a code, without keys of settings and file names."""
    keys = {f"ces.{name}" for name in CesTable.__dataclass_fields__}
    for path in sorted(LIB.rglob("*.py")):
        if path == Path(ces_reasons.__file__):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found = CODE.fullmatch(node.value)
                if found and node.value not in keys:
                    yield node.value


def test_every_code_has_words_and_no_words_are_of_no_code() -> None:
    assert set(literals()) == ces_codes()


HOSTILE: tuple[dict[str, Any], ...] = (
    {},
    {"why": 3, "switch": ["x"], "job": {}, "until": 1e300, "idle_since": "now", "wanted": True},
    {"until": float("nan"), "made_at": float("inf"), "share": "half", "error_ratio": [], "idle": 2},
    {"why": "ces.no-forecast", "needed": float("inf"), "power_cycles": "many"},
)  # fmt: skip


@pytest.mark.parametrize("code", sorted(ces_codes()))
def test_words_come_for_any_params(code: str) -> None:
    for params in HOSTILE:
        said = ces_reason(code, params)
        assert said
        assert said != code
        assert len(said) < 600


def test_a_reason_that_leads_to_itself_ends() -> None:
    assert ces_reason("ces.no-forecast", {"why": "ces.no-forecast"}).count("no forecast") <= 2


def test_every_exclusion_and_power_has_words() -> None:
    for exclusion in NodeExclusion:
        said = ces_reason("ces.excluded", {"exclusion": exclusion.value})
        assert said != exclusion.value
    for power in NodePower:
        if power is not NodePower.AWAKE:
            assert ces_reason("ces.power-changes", {"power": power.value}) != power.value


@pytest.mark.parametrize(
    ("code", "params", "said"),
    [
        ("ces.arrival", {"wanted": 3, "idle": 1, "waking": 0, "spare": 2},
         "jobs wait for 3 nodes; 1 are idle and 0 wake up; 2 more wake as spare"),
        ("ces.no-forecast",
         {"why": "demand.worse-than-naive", "rival": "last-value", "error_ratio": 1.3},
         "there is no forecast of demand: the forecast has lately been worse than last-value "
         "(130 % of its error)"),
        ("ces.demand-has-not-fallen", {"past": 4.5, "now": 6, "next": 5.25},
         "demand has not fallen (4.5 on average before, 6 now, 5.2 expected)"),
        ("ces.put-to-sleep", {"switch": "", "running_there": 1, "power_cycles": 0},
         "its part of the pool has 1 node with jobs; never woken before"),
        ("ces.woken", {"switch": "s1", "power_cycles": 2, "job": "7"},
         "completes a block for job 7; woken 2× before"),
        ("demand.history-too-short", {"known_s": 86400, "needed_s": 345600},
         "the job history is too short to learn from: 1.0 days of demand are known, 4.0 are "
         "needed"),
        ("ces.unheard-of", {}, "ces.unheard-of"),
    ],
)  # fmt: skip
def test_words(code: str, params: dict[str, Any], said: str) -> None:
    assert ces_reason(code, params) == said
