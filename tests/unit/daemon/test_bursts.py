"""One burst of writes a backfill interval."""

from __future__ import annotations

import pytest

from gsched.daemon.bursts import Bursts, bf_interval_s
from gsched.slurm.records import SlurmConfig


def test_rounds_write_once_an_interval_however_many_there_are() -> None:
    bursts = Bursts(30.0)
    written = []
    for at in range(1000, 1120, 5):
        if bursts.may_write(float(at)):
            bursts.wrote(float(at))
            written.append(at)
    assert written == [1000, 1030, 1060, 1090]


def test_rounds_that_do_not_tick_to_the_millisecond_all_write() -> None:
    bursts = Bursts(30.0)
    for at in (1000.0, 1029.98, 1059.99):
        assert bursts.may_write(at)
        bursts.wrote(at)
    assert not bursts.may_write(1059.99 + 26.9)


@pytest.mark.parametrize(
    ("parameters", "seconds"),
    [
        ("bf_continue,bf_interval=60,defer", 60.0),
        ("bf_continue", 30.0),
        ("(null)", 30.0),
        ("bf_interval=0", 30.0),
        ("bf_interval=soon", 30.0),
    ],
)
def test_the_clusters_own_interval(parameters: str, seconds: float) -> None:
    assert bf_interval_s(SlurmConfig({"SchedulerParameters": parameters})) == seconds
