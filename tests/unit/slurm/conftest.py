"""Recorded output of real Slurms: what is in the files is said in the README beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).parents[2] / "data" / "slurm"


@pytest.fixture(scope="session")
def separator():
    """The separator with which the outputs were recorded."""
    return "\x1frecorded-separator\x1e"


@pytest.fixture(scope="session")
def data_folder():
    """The recorded outputs, a folder a release."""
    return DATA


@pytest.fixture(scope="session")
def recorded():
    """Text of a recorded output by its file name and release, decoded as the adapter does."""

    def read(name, release="22.05"):
        return (DATA / release / name).read_bytes().decode("utf-8", "replace")

    return read
