"""What a command loads before it does anything. Times are measured by tests/bench."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from gsched_cli.main import COMMANDS

from .conftest import PROGRAM

HEAVY = {
    "pandas", "numpy", "scipy", "sklearn", "skops", "rapidfuzz", "torch", "ortools",
    "sqlalchemy", "alembic", "importlib.metadata", "asyncio", "multiprocessing", "textual", "rich",
    "pyarrow", "zstandard", "prometheus_client", "numba", "llvmlite", "matplotlib",
}  # fmt: skip

STARTS = {
    "--help": ["--help"],
    "--version": ["--version"],
    "a typo": ["queu"],
    "submit --gs-dry-run": ["submit", "--gs-dry-run", "--gs-none", "--wrap", "true"],
    "cancel (refused)": ["cancel", "x"],
    "daemon status": ["daemon", "status"],
    "daemon reload": ["daemon", "reload"],
} | {f"{name} --help": [name, "--help"] for name in COMMANDS}


def loaded(args, environment):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", PROGRAM, *args],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    names = set(re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE))
    assert "gsched_cli.main" in names, done.stderr
    assert "internal error" not in done.stderr
    return names


@pytest.mark.parametrize("start", STARTS)
def test_nothing_heavy_is_loaded_at_the_start(start, environment):
    names = loaded(STARTS[start], environment)
    assert HEAVY & (names | {name.partition(".")[0] for name in names}) == set()


def test_help_and_completion_load_no_command(environment):
    for variables in (
        {},
        {"_GSCHED_COMPLETE": "bash_complete", "COMP_WORDS": "gsched s", "COMP_CWORD": "1"},
    ):
        names = loaded(["--help"], environment | variables)
        assert not {name for name in names if name.startswith("gsched_cli.commands")}


def test_one_command_loads_no_other(environment):
    names = loaded(["submit", "--help"], environment)
    others = {f"gsched_cli.commands.{name}" for name in COMMANDS} - {"gsched_cli.commands.submit"}
    assert not others & names
