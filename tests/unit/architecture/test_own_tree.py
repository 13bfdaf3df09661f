"""Tests test the tree that they stand in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]


def test_the_tests_of_another_tree_refuse_to_test_this_one(tmp_path):
    """PYTHONPATH alone is not enough: what tests start by ``python -I`` does not look at it."""
    other = tmp_path / "tests"
    other.mkdir()
    shutil.copy(TESTS / "conftest.py", other)
    (other / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--rootdir={tmp_path}"]
    env = os.environ | {"PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        [*argv, other], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 4, done.stdout
    assert f"would not test this tree: run {sys.executable} -m pip install -e {tmp_path}" in (
        done.stderr
    )
