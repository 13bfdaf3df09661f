"""Whether parts of a document that was read have the shape that they should have."""

from __future__ import annotations

_MOST = 2**37
"""Beyond every time that there is: year 6325."""


def is_number(value: object) -> bool:
    """Whether it is a number that may be a time or a duration, as people are shown them."""
    return isinstance(value, (int, float)) and 0 <= value < _MOST
