from __future__ import annotations

import shutil

import pytest

from gsched_sql import History


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory):
    """A migrated database without rows, to copy."""
    path = tmp_path_factory.mktemp("template") / "history.db"
    History.create(f"sqlite:///{path}")
    return path


@pytest.fixture
def database(empty_database, tmp_path):
    """The path of a database of this test's own."""
    return shutil.copy(empty_database, tmp_path / "history.db")


@pytest.fixture
def history(database):
    with History.open(f"sqlite:///{database}") as opened:
        yield opened
