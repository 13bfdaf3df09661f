"""The command line of `gsched-helper`; what it does is tested on a real Slurm."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
MODULES = """
import sys
import gsched.daemon.helper, gsched.daemon.helper_client, gsched_cli.helper
print(*sys.modules)
"""


def test_it_is_installed_and_helps() -> None:
    scripts = tomllib.loads(PYPROJECT.read_text())["project"]["scripts"]
    module, _, function = scripts["gsched-helper"].partition(":")
    assert callable(getattr(import_module(module), function))
    argv = [sys.executable, "-m", module, "--help"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert "gsched-privileges(7)" in done.stdout
    assert "Example:" in done.stdout


def test_it_loads_little() -> None:
    argv = [sys.executable, "-c", MODULES]
    loaded = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "sqlalchemy", "sklearn", "prometheus_client"} & set(loaded)
