"""A skipped test is a hole: the run fails when a test is skipped that is not listed here."""

from __future__ import annotations

import pytest

EXPECTED_SKIPS: frozenset[str] = frozenset()
"""Node ids (``tests/unit/x/test_y.py::test_z``) that may be skipped, each with a reason."""

_skipped: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _skipped.append(report.nodeid)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if set(_skipped) - EXPECTED_SKIPS and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    unexpected = sorted(set(_skipped) - EXPECTED_SKIPS)
    terminalreporter.write_line(f"{len(_skipped)} tests skipped, {len(unexpected)} unexpectedly")
    for name in unexpected:
        terminalreporter.write_line(f"SKIPPED UNEXPECTEDLY {name}", red=True)
