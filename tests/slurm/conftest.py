"""Fixtures over the real private Slurm. A missing Slurm is a failure, never a skip."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from gsched.testbed.cluster import Testbed


@pytest.fixture(scope="session")
def shared_bed(record_testsuite_property: Callable[[str, object], None]) -> Iterator[Testbed]:
    """Four nodes of eight GPUs, started once; tests use it through `bed`."""
    bed = Testbed.temporary(num_nodes=4, accounting="filetxt")
    started = bed.start()
    try:
        print(f"testbed of {bed.spec.num_nodes} nodes up in {started.duration_s:.2f} s")
        record_testsuite_property("testbed_start_s", round(started.duration_s, 3))
        yield bed
    finally:
        bed.stop()
        bed.remove()


@pytest.fixture
def bed(shared_bed: Testbed) -> Iterator[Testbed]:
    """The shared testbed; its queue is empty before and after each test."""
    yield shared_bed
    shared_bed.cancel_jobs()


@pytest.fixture
def fresh_bed() -> Iterator[Callable[..., Testbed]]:
    """Starts testbeds of a test's own: ``fresh_bed(num_nodes=8)``. All are stopped and removed."""
    with ExitStack() as beds:

        def start(**overrides: object) -> Testbed:
            return beds.enter_context(Testbed.temporary(**overrides))

        yield start
