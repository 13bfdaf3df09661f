"""The fault matrix is published whole, and as it was found."""

from __future__ import annotations

import json
from pathlib import Path

from support import faults_page
from support.faults_settings import ALL_FAULTS, SETTINGS

from gsched.engine.faults import FaultPoint

RESULT = Path(__file__).parents[3] / "tests" / "results" / "faults.json"


def recorded() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = json.loads(RESULT.read_text())["faults"]
    return found


def test_every_fault_was_inflicted_and_every_check_held() -> None:
    assert list(recorded()) == [fault.name for fault in ALL_FAULTS]
    assert [name for name, entry in recorded().items() if not entry["held"]] == []
    assert sum(name.startswith("kill-random-") for name in recorded()) >= 50
    assert {fault.setting for fault in ALL_FAULTS} == set(SETTINGS)


def test_the_page_shows_what_was_recorded() -> None:
    text = faults_page.PAGE.read_text()
    assert text == faults_page.page(text, recorded())
    assert faults_page.missing(text, [fault.name for fault in ALL_FAULTS]) == []


def test_the_page_names_every_point_at_which_a_kill_can_cut() -> None:
    assert faults_page.missing(faults_page.PAGE.read_text(), [p.value for p in FaultPoint]) == []
