from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.launching import kill_left


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    kill_left()
