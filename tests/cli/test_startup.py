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
    "pyarrow", "zstandard", "prometheus_client", "numba", "llvmlite", "matplotlib", "jinja2",
    "pynvml", "paramiko", "cryptography",
}  # fmt: skip

STARTS = {
    "--help": ["--help"],
    "--version": ["--version"],
    "a typo": ["queu"],
    "submit --gs-dry-run": ["submit", "--gs-dry-run", "--gs-none", "--wrap", "true"],
    "cancel (refused)": ["cancel", "x"],
    "requeue (refused)": ["requeue", "x"],
    "queue (refused)": ["queue", "-t", "no-such-state"],
    "why (refused)": ["why", "x"],
    "daemon status": ["daemon", "status"],
    "daemon reload": ["daemon", "reload"],
    "ckpt list (none)": ["ckpt", "list", "."],
} | {f"{name} --help": [name, "--help"] for name in COMMANDS}


def imported(words, environment):
    """The modules that Python loads, and what it ends with."""
    argv = [sys.executable, "-X", "importtime", *words]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
    assert "internal error" not in done.stderr
    return set(re.findall(r"^import time:.*\| +(\S+)$", done.stderr, re.MULTILINE)), done


def loaded(args, environment):
    names, done = imported([PROGRAM, *args], environment)
    assert "gsched_cli.main" in names, done.stderr
    return names


def heavy(names):
    return HEAVY & (names | {name.partition(".")[0] for name in names})


@pytest.mark.parametrize("start", STARTS)
def test_nothing_heavy_is_loaded_at_the_start(start, environment):
    assert heavy(loaded(STARTS[start], environment)) == set()


def test_a_template_loads_jinja2_and_nothing_else_that_is_heavy(environment):
    words = ["submit", "--gs-dry-run", "--gs-checkpoint", "--wrap", "true"]
    names, done = imported([PROGRAM, *words], environment)
    assert done.returncode == 0, done.stderr
    assert heavy(names) == {"jinja2"}


def test_what_runs_in_each_job_is_light(environment):
    names, done = imported(["-I", "-m", "gsched.launch", "--check"], environment)
    assert (done.returncode, done.stdout) == (0, "")
    roots = {name.partition(".")[0] for name in names}
    assert heavy(names) | roots & {"click", "gsched_cli", "gsched_sql"} == set()
    assert not {n for n in names if n.startswith(("gsched.app", "gsched.config", "gsched.sim"))}


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
