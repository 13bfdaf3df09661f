"""What is tried to start a job sooner, and what limit is advised."""

from __future__ import annotations

from typing import Any

import pytest
from support.queue import node, partition, row
from support.scenes import MULTIFACTOR, NOW, predicted, scene, view_of

from gsched.app.forecast.changes import LEAST_SIMILAR, LimitAdvice, changes_for, limit_advice
from gsched.forecast.outlook import Change
from gsched.forecast.situation import Demand
from gsched.model.cluster import ReservationView
from gsched.model.job import UNLIMITED_S, GpuOption

DAY_S = 86400


def changes(job: Any, others: Any = (), partitions: Any = (), **cluster: Any) -> dict[str, Change]:
    """By option."""
    found = scene([job, *others], **cluster)
    (waiting,) = [w for w in found.situation.waiting if w.job_id == "7"]
    made = changes_for(found.waiting["7"], job[0], waiting, found, partitions)
    return {change.option: change for change in made}


def waiting(mean: float = 100.0, limit_s: int = 240, **facts: Any) -> Any:
    return row(7, time_limit_s=limit_s, **facts), predicted(mean)


# -- GPUs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "options"),
    [
        ({"num_gpus": 8, "gpus_per_node": 8}, ["gpu:4", "gpu:2", "gpu:1"]),
        ({"num_gpus": 16, "gpus_per_node": 8, "min_nodes": 2}, ["gpu:4", "gpu:2", "gpu:1"]),
        ({"num_gpus": 3, "gpus_per_node": 3}, ["gpu:1"]),
        ({"num_gpus": 1, "gpus_per_node": 1}, []),
        ({"num_gpus": 0, "num_cpus": 8}, []),
    ],
)
def test_half_the_gpus_as_long_as_one_is_left(facts: dict[str, Any], options: list[str]) -> None:
    found = changes(waiting(**facts))
    assert list(found) == [f"--gres={option}" for option in options]
    assert {change.kind for change in found.values()} <= {"gpus"}


def test_fewer_gpus_of_a_total_and_of_a_type_are_asked_for_as_they_were() -> None:
    job = waiting(num_gpus=4, gpu_options=(GpuOption("a100", 4),))
    found = changes(job, nodes=[node("a", kinds=(("a100", 8),))])
    assert list(found) == ["--gpus=a100:2", "--gpus=a100:1"]
    two = changes(waiting(num_gpus=4, gpu_options=(GpuOption("a", 2), GpuOption("b", 2))),
                  nodes=[node("a", kinds=(("a", 8), ("b", 8)))])  # fmt: skip
    assert two == {}


def test_fewer_gpus_are_fewer_units_on_as_many_nodes() -> None:
    found = changes(waiting(num_gpus=16, gpus_per_node=8, min_nodes=2, num_cpus=4))
    half = found["--gres=gpu:4"]
    assert half.job.demands == (Demand(0, 8, 2), Demand(1, 4, 2))
    assert (half.value, half.job.job_id) == ("4", "7")


def test_a_smaller_job_stands_where_smaller_jobs_do_if_the_daemon_orders_by_size() -> None:
    job = waiting(num_gpus=8, gpus_per_node=8, priority=100)
    small = row(8, num_gpus=1, priority=700, time_limit_s=240), predicted(100.0)
    plain = changes(job, [small])["--gres=gpu:1"]
    assert plain.job.order == -100.0
    by_size = changes(job, [small], by_prediction=True, config=MULTIFACTOR)["--gres=gpu:1"]
    assert by_size.job.order == pytest.approx(-700.0)


# -- partitions ----------------------------------------------------------------------------------

CLUSTER = {"nodes": [node("gn1"), node("gn2"), node("s1", gpus=4, partition="short")]}


def others(**facts: Any) -> list[str]:
    """The partitions that are tried for a job when ``short`` is so."""
    parts = [partition("gpu", ["gn1", "gn2"]), partition("short", ["s1"], **facts)]
    found = changes(waiting(num_gpus=1), partitions=parts, **CLUSTER)
    return [c.value for c in found.values() if c.kind == "partition"]


def test_another_partition_is_tried_on_its_own_nodes() -> None:
    assert others() == ["short"]
    parts = [partition("gpu", ["gn1", "gn2"]), partition("short", ["s1"])]
    found = changes(waiting(num_gpus=1), partitions=parts, **CLUSTER)
    change = found["--partition=short"]
    assert change.job.demands[0].field != 0


@pytest.mark.parametrize(
    "facts",
    [
        {"max_time_s": 239}, {"max_nodes": 0}, {"allow_accounts": ("lab2",)},
        {"deny_accounts": ("lab1",)}, {"allow_qos": ("high",)}, {"deny_qos": ("normal",)},
    ],
)  # fmt: skip
def test_a_partition_that_would_not_take_the_job_is_not_tried(facts: dict[str, Any]) -> None:
    assert others(**facts) == []


def test_a_partition_that_would_take_it_is_tried() -> None:
    assert others(max_time_s=240, max_nodes=1, allow_accounts=("lab1",)) == ["short"]
    assert others(allow_accounts=("lab1",), deny_accounts=("lab1",)) == ["short"]  # as Slurm does


# -- time limits ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "limit_s", "advised_s"),
    [
        (100.0, 3600, 240),  # the last quantile is 197 s: the next whole minute
        (1000.0, DAY_S, 2100),
        (5000.0, DAY_S, 9900),
        (30000.0, 7 * DAY_S, 61200),
        (100000.0, 7 * DAY_S, 216000),
        (100.0, 300, 240),
        (100.0, 299, None),  # not shorter by a fifth
        (100.0, UNLIMITED_S, None),
    ],
)
def test_the_limit_that_is_advised(mean: float, limit_s: int, advised_s: int | None) -> None:
    job = waiting(mean, limit_s)
    advice = limit_advice(view_of(*job))
    assert advice == (None if advised_s is None else LimitAdvice(advised_s, 0.98))
    found = [c for c in changes(job).values() if c.kind == "time-limit"]
    assert [c.value for c in found] == ([] if advised_s is None else [str(advised_s)])


def test_a_shorter_limit_is_tried_with_run_times_that_end_by_it() -> None:
    job = row(7, time_limit_s=DAY_S), predicted(1000.0, quantiles=((0.5, 500.0), (0.9, 1000.0)))
    change = changes(job)["--time=20:00"]
    assert (change.job.limit_s, max(change.job.quantiles_s)) == (1200.0, 1000.0)


def test_a_users_caution_lengthens_the_advice_and_ignorance_gives_none() -> None:
    assert limit_advice(view_of(row(7, time_limit_s=DAY_S), predicted(100.0, caution=3.0))) == (
        LimitAdvice(600, 0.98)
    )
    for prediction in (None, predicted(100.0, quantiles=())):
        assert limit_advice(view_of(row(7, time_limit_s=DAY_S), prediction)) is None


@pytest.mark.parametrize(
    ("similar", "is_advised"),
    [(0, False), (1, False), (LEAST_SIMILAR - 1, False), (LEAST_SIMILAR, True)],
)
def test_a_few_past_runs_are_no_ground_for_an_advice(similar: int, is_advised: bool) -> None:
    job = row(7, time_limit_s=DAY_S), predicted(100.0, similar_jobs=similar)
    assert (limit_advice(view_of(*job)) is not None) is is_advised
    assert any(c.kind == "time-limit" for c in changes(job).values()) is is_advised


# -- reservations to come ------------------------------------------------------------------------


def test_a_limit_that_ends_before_a_reservation_is_tried_from_now_on() -> None:
    taken = ReservationView("r", ("gn1",), NOW + 600, NOW + 7200)
    nodes = [node("gn1"), node("gn2", partition="other")]
    job = row(7, partitions=("gpu",), time_limit_s=3600), predicted(100.0)
    named = row(8, partitions=("gpu", "other"), time_limit_s=60), predicted(10.0)
    found = changes(job, [named], nodes=nodes, reservations=[taken])
    assert found["--time=4:00"].job.eligible_at is None
    assert found["--gpus=1"].job.eligible_at == NOW + 7200.0
