"""`make test` passes once more alone what failed on a real Slurm, and nothing else."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

RUN_ALL = Path(__file__).parents[1] / "run_all.py"

FAILS_ONCE = """
from pathlib import Path
import pytest
ONCE = Path(__file__).with_suffix(".once")
@pytest.fixture(autouse=True)
def once():
    is_first = not ONCE.exists()
    ONCE.touch()
    return is_first
def test_it(once):
    assert not once
"""
PASSES = "def test_it():\n    assert True\n"
FAILS = "def test_it():\n    assert False\n"


@pytest.fixture
def run_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, over a tree of its own."""
    spec = importlib.util.spec_from_file_location("run_all", RUN_ALL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    write(tmp_path, "slurm/test_fairness_live.py", PASSES)
    return module


def write(root: Path, name: str, text: str) -> None:
    path = root / "tests" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("where", "text", "code"),
    [
        ("slurm/test_a.py", PASSES, 0),
        ("slurm/test_a.py", FAILS_ONCE, 0),
        ("slurm/test_a.py", FAILS, 1),
        ("unit/test_a.py", FAILS_ONCE, 1),
    ],
)
def test_what_failed_beside_others_on_a_slurm_gets_one_more_look(
    run_all: ModuleType, tmp_path: Path, where: str, text: str, code: int
) -> None:
    write(tmp_path, where, text)
    assert run_all.main(["-q"]) == code


def test_what_passed_alone_only_is_told_by_name(
    run_all: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "slurm/test_a.py", FAILS_ONCE)
    assert run_all.main(["-q"]) == 0
    told = capfd.readouterr().out
    assert "FAILED BESIDE OTHERS, passed alone:\n  tests/slurm/test_a.py::test_it" in told


def test_many_failures_are_no_accident(run_all: ModuleType, tmp_path: Path) -> None:
    for number in range(run_all.MOST_AGAIN + 1):
        write(tmp_path, f"slurm/test_{number}.py", FAILS_ONCE)
    assert run_all.main(["-q"]) == 1


def test_nothing_is_passed_again_where_tests_were_skipped(
    run_all: ModuleType, tmp_path: Path
) -> None:
    """As tests/conftest.py notes where it finds such."""
    write(tmp_path, "slurm/test_a.py", FAILS_ONCE)
    noted = "session.config.cache.set('gsched/skipped', ['x'])"
    write(tmp_path, "conftest.py", f"def pytest_sessionfinish(session):\n    {noted}\n")
    assert run_all.main(["-q"]) == 1


def test_the_file_that_runs_alone_has_to_pass(run_all: ModuleType, tmp_path: Path) -> None:
    write(tmp_path, "slurm/test_fairness_live.py", FAILS)
    assert run_all.main(["-q"]) == 1
