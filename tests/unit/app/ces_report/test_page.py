"""The page and the figures: self-contained, small, safe, the same each time."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from support.ces_report import T0, a_night, counted, delayed, ordered, records

from gsched.app.ces_report.figures import figures, write_figures
from gsched.app.ces_report.page import page, write_page
from gsched.app.ces_report.records import CesQuery
from gsched.app.ces_report.report import CesReport, report_of
from gsched.config.node_settings import EnergySettings
from gsched.model.journal import ChangeState
from gsched.model.node_power import NodeVerb
from gsched.model.times import DAY_S

HOSTILE = "<script>alert(1)</script>&$x_1$"


def report(days: int = 30, **more: object) -> CesReport:
    kept = a_night(days)
    kept = records(kept.counts, kept.spans, kept.orders, [delayed("7", 100, 40)], [100])
    return report_of(kept, CesQuery(T0, T0 + days * DAY_S), EnergySettings())


def test_the_page_needs_nothing_else_and_says_what_it_assumes() -> None:
    text = page(report())
    assert page(report()) == text
    assert not re.search(r"(?:src|href)=\"(?!#)|https?://(?!www\.w3\.org)|<script", text)
    assert text.count("<figure ") == 4
    for words in (
        "PUE 1.5",
        "800 W awake and idle",
        "100 % of this time is known",
        "USED OF AWAKE",
    ):
        assert words in text
    assert len(text) < 150_000


def test_figures_are_small_and_well_formed() -> None:
    """Also of a year, with as many delayed jobs as there may be."""
    kept = a_night(366)
    delays = [delayed(str(n), n * 600, n % 997) for n in range(50_000)]
    kept = records(kept.counts, kept.spans, kept.orders, delays)
    year = report_of(kept, CesQuery(T0, T0 + 366 * DAY_S), EnergySettings())
    found = [svg for svg, _ in figures(year)]
    assert len(found) == 4
    for svg in found:
        ET.fromstring(svg)  # noqa: S314 - our own
        assert len(svg) < 45_000


def test_files_of_figures(tmp_path: Path) -> None:
    written = write_figures(tmp_path / "new", report(2))
    names = ("nodes", "woken", "delays", "saved")
    assert [path.name for path in written] == [f"{n}.{s}" for n in names for s in ("png", "svg")]
    assert all(path.stat().st_size > 1000 for path in written)
    assert write_page(tmp_path, report(2)).read_text() == page(report(2))


def test_names_are_text_not_markup() -> None:
    counts = [counted(at, HOSTILE, idle=1, asleep=1) for at in range(0, 3600, 600)]
    text = page(report_of(records(counts), CesQuery(T0, T0 + 3600), EnergySettings()))
    assert "<script" not in text
    assert "&lt;script&gt;" in text


@pytest.mark.parametrize("counts", [[], [counted(0, idle=1)]])
def test_where_nothing_is_known_there_is_a_page_without_figures(counts: list) -> None:
    text = page(report_of(records(counts), CesQuery(T0, T0 + 3600), EnergySettings()))
    assert "<figure" not in text
    assert "Nothing is known of this time" in text


def test_observing_is_said_at_the_top() -> None:
    orders = [ordered("n1", NodeVerb.SLEEP, 10, state=ChangeState.OBSERVED)]
    text = page(report_of(records(orders=orders), CesQuery(T0, T0 + 60), EnergySettings()))
    assert "CES observed only" in text.partition("<table")[0]
