"""A skipped test is a hole: the run fails when a test is skipped that is not listed here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from support.machine import NO_NAMESPACES
from support.shared import ABSENT

pytest_plugins = ["support.servers"]

# a slow machine is no fault; a failing example can be run again from what is printed
settings.register_profile("gsched", deadline=None, print_blob=True)
settings.load_profile("gsched")

# pytest-xdist sets these in its workers, and who finds them does not look how large a terminal is.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)

# A run that a script has put into the background, or one under nohup, ignores these signals, and
# so would every process that tests start and send them to. With a handler it goes on ignoring
# them, but what it starts does not: exec(2) resets handlers alone.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)

TREE = Path(__file__).parents[1]


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to test another tree: the launcher, writers and samplers that tests start run by
    ``python -I``, which takes what is installed, whatever PYTHONPATH says.
    """
    if hasattr(config, "workerinput"):  # its controller has looked
        return
    told = "import gsched; print(gsched.__path__[0])"
    done = subprocess.run([sys.executable, "-I", "-c", told], capture_output=True, text=True)
    if done.stdout.strip() != str(TREE / "lib" / "gsched"):
        raise pytest.UsageError(
            f"{sys.executable} has gsched from {done.stdout.strip() or 'nowhere'}, and would not "
            f"test this tree: run {sys.executable} -m pip install -e {TREE}"
        )


EXPECTED_SKIPS: frozenset[str] = frozenset()
"""Node ids (``tests/unit/x/test_y.py::test_z``) that may be skipped, each with a reason."""

_skipped: list[str] = []
_by_machine: dict[str, list[str]] = {ABSENT: [], NO_NAMESPACES: []}
"""Skipped for what a machine may lack; where CI runs, nothing is lacking."""


def _note(nodeid: str, longrepr: object) -> None:
    for reason, names in _by_machine.items():
        if reason in str(longrepr):
            names.append(nodeid)
            return
    _skipped.append(nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _note(report.nodeid, report.longrepr)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _note(report.nodeid, report.longrepr)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    unexpected = sorted(set(_skipped) - EXPECTED_SKIPS)
    if unexpected and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if unexpected and session.config.cache is not None:  # tests/run_all.py asks
        session.config.cache.set("gsched/skipped", unexpected)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    unexpected = sorted(set(_skipped) - EXPECTED_SKIPS)
    terminalreporter.write_line(f"{len(_skipped)} tests skipped, {len(unexpected)} unexpectedly")
    for reason, names in _by_machine.items():
        if names:
            terminalreporter.write_line(f"{len(names)} more skipped: {reason}")
    for name in unexpected:
        terminalreporter.write_line(f"SKIPPED UNEXPECTEDLY {name}", red=True)
