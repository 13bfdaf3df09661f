"""Databases of these tests: SQLite's, or what ``support.servers.each_engine`` asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.history import url_of
from support.servers import database_on

from gsched_sql import History


@pytest.fixture
def database(request):
    """A migrated database of this test's own: a file's path, on a server its URL."""
    with database_on(getattr(request, "param", "sqlite"), request) as url:
        path = url.removeprefix("sqlite:///")
        yield url if path == url else Path(path)


@pytest.fixture
def history(database):
    with History.open(url_of(database)) as opened:
        yield opened
