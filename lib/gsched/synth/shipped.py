"""Fits that gsched brings along, so that a first simulation needs no download.

``tests/support/shipped_fits.py`` makes them from public traces; each names its sources.
"""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gsched.synth.fit import Fit

SHIPPED = ("philly", "itp")
"""Microsoft's Philly (2017, 15 virtual clusters) and ITP (2021, 10 clusters)."""


def shipped(name: str) -> Fit:
    """One of SHIPPED."""
    from gsched.synth.fit import parse_fit

    text = (resources.files("gsched.synth") / "fits" / f"{name}.json").read_text(encoding="utf-8")
    return parse_fit(text, name)
