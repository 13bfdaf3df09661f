"""Recorded output of a real Slurm 22.05.8: a cluster with slurmdbd and odd jobs, see README."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "data" / "slurm" / "22.05"


@pytest.fixture(scope="session")
def separator():
    """The separator with which the outputs were recorded."""
    return "\x1frecorded-separator\x1e"


@pytest.fixture(scope="session")
def recorded():
    """Text of a recorded output by its file name, decoded as the adapter does."""

    def read(name):
        return (DATA / name).read_bytes().decode("utf-8", "replace")

    return read
