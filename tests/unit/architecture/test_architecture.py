"""Rules of ARCHITECTURE.md that a tool can check."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CODE = ["cli", "lib", "sql", "jobscripts"]
TOP_LEVEL = {
    "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "LICENSE", "Makefile", "pyproject.toml",
    ".gitignore", ".ci", "cli", "lib", "sql", "jobscripts", "slurm_plugins", "man", "tests",
}  # fmt: skip
MAX_LINES = 400
MAY_CATCH_ALL = {
    "cli/gsched_cli/errors.py",  # the top of the program
    "lib/gsched/engine/deciding.py",  # around a site's own policy, whose errors are its own too
    "lib/gsched/daemon/loop.py",  # around forecasts, which the rounds go on without
    "lib/gsched/daemon/node_saver.py",  # energy saving, too, is told of and gone on without
}

MODULES = sorted(path for folder in CODE for path in (ROOT / folder).rglob("*.py"))


def name_of(path):
    return str(path.relative_to(ROOT))


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"), path)


def test_there_is_code_to_check():
    assert len(MODULES) > 40


def test_rooms_import_only_what_lies_below_them():
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_top_level_is_the_prescribed_one():
    tracked = {path.name for path in ROOT.iterdir() if not is_ignored(path.name)}
    assert tracked - TOP_LEVEL == set()
    assert TOP_LEVEL - tracked == set()


def is_ignored(name):
    patterns = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    return name == ".git" or f"{name}/" in patterns


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_is_one_idea_and_says_so(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") < MAX_LINES
    tree = parsed(path)
    assert ast.get_docstring(tree)
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom | ast.Import)]
    if imports and path.name != "__init__.py":
        assert isinstance(imports[0], ast.ImportFrom)
        assert imports[0].module == "__future__"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_forbidden_is_used(path):
    """No shell strings, no pickle, no catching of everything but at the top of the program."""
    for node in ast.walk(parsed(path)):
        where = f"{name_of(path)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Call):
            assert not any(word.arg == "shell" for word in node.keywords), where
            called = ast.unparse(node.func)
            assert called not in {"os.system", "os.popen", "eval", "exec"}, where
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = {alias.name for alias in node.names} | {getattr(node, "module", None)}
            assert not modules & {"pickle", "joblib", "dill", "shelve", "marshal"}, where
        if isinstance(node, ast.ExceptHandler) and name_of(path) not in MAY_CATCH_ALL:
            caught = ast.unparse(node.type) if node.type else "everything"
            goes_on = isinstance(node.body[-1], ast.Raise)  # nothing is swallowed
            assert caught not in {"everything", "Exception", "BaseException"} or goes_on, where


def test_versions_in_the_changelog_stand_in_order():
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    releases = [line for line in lines if line.startswith("## [")]
    assert releases[0] == "## [Unreleased]"
