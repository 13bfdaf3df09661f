"""Public material beside the repository (``../shared``) that is no part of it."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared"
ABSENT = f"{SHARED} is absent: a clone without it can pass all other tests"
"""Why a test that needs it is skipped; where it is there, no such test is."""

needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason=ABSENT)
