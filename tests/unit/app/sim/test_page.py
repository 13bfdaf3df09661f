"""The page and the figures of a report of simulations."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.sim_reports import report_of
from support.sim_results import samples

from gsched.app.sim.figures import plots, write_figures
from gsched.app.sim.page import page, write_page
from gsched.app.sim.report import SimReport
from gsched.app.sim.words import report_lines
from gsched.sim.curves import POINTS, curves

HOSTILE = '<script>alert("$x_1$")</script> & \\frac'
LINKS = ("src", "href", "xlink:href")


class Outline(HTMLParser):
    """Elements, ids and texts of a page; notes what is closed and was not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [
            value or "" for name, value in attrs if name in ("src", "href", "xlink:href")
        ]
        if tag not in ("meta", "link", "br", "path", "use", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def report() -> SimReport:
    return report_of({"fifo": [1.0], "sjf": [0.5]})


@pytest.fixture(scope="module")
def text(report: SimReport) -> str:
    return page(report)


def hostile(report: SimReport) -> SimReport:
    first, second = report.policies
    return replace(report, source=HOSTILE, policies=[first, replace(second, label=HOSTILE)])


def test_the_page_needs_nothing_from_elsewhere(text: str) -> None:
    outline = Outline(text)
    assert outline.links
    assert all(link.startswith("#") for link in outline.links)
    assert not {"script", "link", "img", "iframe", "object"} & set(outline.tags)
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)


def test_the_page_is_whole(text: str) -> None:
    outline = Outline(text)
    assert outline.open == []
    assert outline.tags.count("html") == outline.tags.count("title") == 1
    assert len(outline.ids) == len(set(outline.ids))
    told = {link[1:] for link in outline.links} | set(re.findall(r"url\(#([^)]*)\)", text))
    assert told <= set(outline.ids)


def test_it_has_curves_tables_and_all_that_is_assumed(report: SimReport, text: str) -> None:
    outline = Outline(text)
    assert outline.tags.count("svg") == len(list(plots(report))) == 10
    assert outline.tags.count("table") == 6
    words = "".join(outline.text)
    for line in report_lines(report):
        assert line in words


def test_figures_take_the_colours_of_the_page(text: str) -> None:
    assert "prefers-color-scheme: dark" in text
    assert "currentColor" in text
    svgs = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    for svg in svgs:
        assert not re.search(r"(?:fill|stroke): ?(?:#000000|#ffffff|black|white)\b", svg)
        assert "<text" in svg


def test_names_are_text_and_nothing_else(report: SimReport) -> None:
    outline = Outline(page(hostile(report)))
    assert "script" not in outline.tags
    assert outline.open == []
    assert HOSTILE in "".join(outline.text)


def test_the_same_report_gives_the_same_page(report: SimReport, text: str) -> None:
    assert page(report) == text


def test_the_page_is_written_whole(report: SimReport, text: str, tmp_path: Path) -> None:
    path = write_page(tmp_path / "new" / "folder", report)
    assert path == tmp_path / "new" / "folder" / "index.html"
    assert path.read_text() == text
    assert [p.name for p in path.parent.iterdir()] == ["index.html"]


def test_figures_are_png_and_svg(report: SimReport, tmp_path: Path) -> None:
    written = write_figures(tmp_path / "figures", hostile(report))
    names = [plot.name for plot in plots(report)]
    assert sorted(path.name for path in written) == sorted(
        f"{name}.{suffix}" for name in names for suffix in ("png", "svg")
    )
    for path in written:
        data = path.read_bytes()
        if path.suffix == ".png":
            assert data.startswith(b"\x89PNG\r\n\x1a\n")
        else:
            assert ET.fromstring(data).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314


def test_a_curve_is_drawn_for_each_policy(text: str) -> None:
    jct = text[text.index("jct-figure_1") :]
    jct = jct[: jct.index("</svg>")]
    for colour in ("#2b83c6", "#e08e0b"):
        assert jct.count(colour) >= 2  # the curve and its key
    assert "#0a9d74" not in jct


def test_a_distribution_reaches_one_half_at_the_median(report: SimReport) -> None:
    jct = next(plot for plot in plots(report) if plot.name == "jct").drawn(report)
    for line, policy in zip(jct.axes[0].lines, report.policies, strict=True):
        values, shares = line.get_xdata(), line.get_ydata()
        assert (shares[0], shares[-1]) == (0, 1)
        median = policy.runs[0].all_jobs.jct_s.median
        assert values[shares.tolist().index(0.5)] == median


def test_bars_are_means_of_the_classes(report: SimReport) -> None:
    bars = next(plot for plot in plots(report) if plot.name == "jct-by-gpus").drawn(report)
    heights = [bar.get_height() for bar in bars.axes[0].patches]
    means = [told.jct_s.mean / 3600 for p in report.policies for told in p.runs[0].by_size]
    assert heights == means


def test_without_samples_or_ends_there_is_less_to_show() -> None:
    report = report_of({"fifo": [1.0]})
    run = report.policies[0].runs[0]
    nothing = curves(samples([]), {})
    bare = replace(run, curves=replace(run.curves, over_time=nothing.over_time))
    told = replace(report, policies=[replace(report.policies[0], runs=[bare])])
    names = {plot.name for plot in plots(told)}
    assert "jct" in names
    assert not {"gpus-used", "gpus-wanted", "differences"} & names
    assert page(told)


def test_long_series_are_thinned_to_means() -> None:
    seen = samples(range(10 * POINTS), gpus_used=[0, 10] * (5 * POINTS))
    told = curves(seen, {}).over_time
    assert len(told["gpus_used"]) == POINTS
    assert set(told["gpus_used"]) == {5.0}
    assert told["time_s"][0] == 4.5
    few = curves(samples([0, 1], gpus_used=[3, 4]), {}).over_time
    assert few["gpus_used"].tolist() == [3, 4]


def test_an_interrupted_page_says_so(report: SimReport, text: str) -> None:
    cut = replace(report.policies[0].runs[0], interrupted=True)
    told = replace(report, policies=[replace(report.policies[0], runs=[cut])])
    assert "class=warning" in page(told)
    assert "class=warning" not in text
