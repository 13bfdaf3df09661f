"""The compiler's settings."""

from __future__ import annotations

import shutil
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import NumbaError

from gsched.sim.core.compiled import compiled, compiled_lean


def from_nowhere(source):
    """A function of a file that there is not, beside which nothing can be kept."""
    code = compile(source, "/nowhere/at/all.py", "exec").co_consts[0]
    return types.FunctionType(code, {"np": np})


@pytest.mark.parametrize("compile_it", [compiled, compiled_lean])
def test_it_runs_where_compiled_code_cannot_be_kept(compile_it):
    function = compile_it(from_nowhere("def function(x):\n    return x + 1\n"))
    assert function(2) == 3
    assert function.signatures


def test_division_by_zero_is_as_in_numpy():
    function = compiled(from_nowhere("def function(x):\n    return 1.0 / x\n"))
    assert function(0.0) == np.inf


def test_a_lean_function_that_makes_an_array_is_refused():
    function = compiled_lean(from_nowhere("def function(x):\n    return np.zeros(3)[x]\n"))
    with pytest.raises(NumbaError, match="array passed into the function"):
        function(2)


CALLER = """
from copied.compiled import compiled
from copied.called import answer

@compiled
def ask():
    return answer()
"""
CALLED = """
from copied.compiled import compiled

@compiled
def answer():
    return {}
"""


def test_what_is_kept_is_compiled_anew_once_anything_that_it_calls_changes(tmp_path):
    """Numba by itself goes by the caller's own file, and would go on with the old answer."""
    package = tmp_path / "copied"
    package.mkdir()
    shutil.copy(Path(compiled.__code__.co_filename), package)
    (package / "caller.py").write_text(CALLER)
    called = package / "called.py"
    answers = []
    for answer in (7, 42, 42):  # Python's own cache goes by seconds and length
        text = CALLED.format(answer)
        if not called.exists() or called.read_text() != text:
            called.write_text(text)
        told = "from copied.caller import ask; print(ask(), *ask.stats.cache_hits.values())"
        done = subprocess.run(
            [sys.executable, "-c", told],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        answers.append(done.stdout.split())
    assert answers == [["7"], ["42"], ["42", "1"]]
