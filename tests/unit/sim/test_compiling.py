"""Whether a loop is yet to be compiled: as numba itself keeps it, in a folder of this test."""

from __future__ import annotations

import importlib.util

import numba
import pytest

from gsched.sim import compiling

SOURCE = """import numba

@numba.njit(cache={cache})
def twice(value):
    return 2 * value
"""


@pytest.fixture
def module(tmp_path):
    """Makes the module anew, as another process would see it."""

    def made(cache=True):
        path = tmp_path / "loops.py"
        path.write_text(SOURCE.format(cache=cache))
        spec = importlib.util.spec_from_file_location("loops", path)
        loops = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loops)
        return loops.twice

    return made


def test_it_is_told_once_that_it_compiles(module):
    first = module()
    assert compiling.before(first) == compiling.COMPILING
    assert first(4) == 8
    assert compiling.before(first) == ""
    assert compiling.before(module()) == ""  # kept for the next process


def test_where_nothing_is_kept_every_process_compiles(module):
    for function in (module(cache=False), module(cache=False)):
        assert compiling.before(function) == compiling.NOT_KEPT
        function(4)
        assert compiling.before(function) == ""


def test_the_loops_themselves_can_be_asked():
    assert numba.config.DISABLE_JIT == 0
    for told in (compiling.before_static, compiling.before_ordered, compiling.before_rounds):
        assert told() in ("", *compiling.TOLD)
