"""Numbers in words."""

from __future__ import annotations

from gsched.explain.words import short_time
from gsched.model.job import UNLIMITED_S


def test_no_limit_is_a_word():
    assert short_time(UNLIMITED_S) == "UNLIMITED"
    assert short_time(93_784) == "1-02:03:04"
