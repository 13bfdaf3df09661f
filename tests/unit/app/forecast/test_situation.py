"""A round's snapshot as the situation of a forecast."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.queue import node, partition, row
from support.scenes import MULTIFACTOR, NOW, predicted, running, scene

from gsched.app.forecast.situation import CLEANING_S, LEVELS, MAX_TASKS
from gsched.forecast.forecast import forecast
from gsched.forecast.situation import Blocked, Demand, Field, Node, Piece, check
from gsched.model.cluster import ReservationView
from gsched.model.job import UNLIMITED_S, GpuOption, JobState


def waiting(raw_id: int = 7, mean: float = 100.0, **facts: Any) -> Any:
    return row(raw_id, **({"time_limit_s": 3600} | facts)), predicted(mean)


def demands(*jobs: Any, **cluster: Any) -> list[tuple[Demand, ...]]:
    found = scene(jobs, **cluster)
    check(found.situation)
    return [job.demands for job in found.situation.waiting]


# -- nodes ---------------------------------------------------------------------------------------


def test_a_cluster_is_a_field_of_gpus_and_one_of_cpus_over_the_same_nodes() -> None:
    found = scene([waiting()]).situation
    check(found)
    assert found.fields == (Field("gpu", "GPU"), Field("gpu", "CPU"))
    assert found.nodes == (
        Node("gn1", 0, 8, "0"), Node("gn2", 0, 8, "0"),
        Node("gn1", 1, 64, "0"), Node("gn2", 1, 64, "0"),
    )  # fmt: skip


def test_partitions_that_share_nodes_are_one_field_and_a_job_may_use_its_own_nodes_alone() -> None:
    nodes = [
        replace(node("a"), partitions=("gpu", "short")),
        replace(node("b"), partitions=("gpu",)),
        node("c", partition="other"),
    ]
    short, both = waiting(1, partitions=("short",)), waiting(2, partitions=("gpu",))
    found = scene([short, both], nodes=nodes)
    assert [f.name for f in found.situation.fields] == ["gpu,short", "other"] * 2
    assert [job.demands[0].kinds for job in found.situation.waiting] == [("0",), ()]


def test_partitions_that_one_job_names_together_are_one_field() -> None:
    nodes = [node("a"), node("c", partition="other")]
    found = scene([waiting(partitions=("other", "gpu")), waiting(8)], nodes=nodes).situation
    assert [f.name for f in found.fields] == ["gpu,other"] * 2
    assert [job.demands[0].kinds for job in found.waiting] == [(), ("0",)]


def test_types_and_features_narrow_the_nodes() -> None:
    nodes = [
        node("a", kinds=(("a100", 8),), features=("nvlink", "ib")),
        node("b", kinds=(("a100", 8),), features=("ib",)),
        node("c", kinds=(("v100", 8),), features=("ib",)),
    ]
    typed = waiting(1, gpu_options=(GpuOption("a100", 2),))
    featured = waiting(2, features="nvlink|nothing")
    plain = waiting(3, features="ib")
    strange = waiting(4, features="!odd")
    found = scene([typed, featured, plain, strange], nodes=nodes)
    kinds = [job.demands[0].kinds for job in found.situation.waiting]
    assert kinds == [("0", "1"), ("0",), (), ()]
    assert found.left_out == {"4": ("constraint",)}
    nowhere = scene([waiting(features="tpu")], nodes=nodes)
    assert nowhere.no_starts == {"7": "never"}


def test_what_is_down_is_no_ground_and_whoever_needs_it_is_told_so() -> None:
    nodes = [node("a"), replace(node("b", gpus=0, partition="cpu"), state="down")]
    found = scene([waiting(), waiting(8, partitions=("cpu",), num_gpus=0)], nodes=nodes)
    assert {n.name for n in found.situation.nodes} == {"a"}
    assert found.no_starts == {"8": "unknown-nodes"}
    assert [j.job_id for j in found.situation.waiting] == ["7"]


def test_a_partition_that_is_down_takes_nobody() -> None:
    down = replace(partition("gpu", ["gn1", "gn2"]), is_up=False)
    assert scene([waiting()], partitions=[down]).no_starts == {"7": "unknown-nodes"}


def test_nodes_of_a_reservation_that_is_on_are_blocked_with_all_that_runs_there() -> None:
    kept = ReservationView("r", ("gn1",), NOW - 10, NOW + 500)
    jobs = [(row(**running(3, "gn1")), predicted(50.0)), waiting()]
    found = scene(jobs, reservations=[kept]).situation
    check(found)
    assert found.blocked == (
        Blocked((Piece(0, 8),), NOW + 500.0), Blocked((Piece(2, 64),), NOW + 500.0),
    )  # fmt: skip
    assert found.running == ()


@pytest.mark.parametrize(("nodes", "closes_at"), [(("gn1", "gn2"), NOW + 50.0), (("gn1",), None)])
def test_a_reservation_to_come_closes_a_field_that_it_takes_whole(
    nodes: tuple[str, ...], closes_at: float | None
) -> None:
    later = ReservationView("later", ("gn1", "gn2"), NOW + 900, NOW + 950)
    found = scene(
        [waiting()], reservations=[ReservationView("r", nodes, NOW + 50, NOW + 90), later]
    )
    expected = (closes_at, NOW + 90.0) if closes_at else (NOW + 900.0, NOW + 950.0)
    assert {(f.closes_at, f.opens_at) for f in found.situation.fields} == {expected}


def test_nodes_that_a_reservation_will_take_are_left_to_jobs_that_end_before_it() -> None:
    taken = ReservationView("r", ("gn1",), NOW + 600, NOW + 7200)
    jobs = [
        waiting(7, time_limit_s=600),
        waiting(8, time_limit_s=601),
        waiting(9, time_limit_s=UNLIMITED_S),
        waiting(10, num_gpus=16, min_nodes=2, time_limit_s=3600),
        waiting(11, num_gpus=16, min_nodes=2, time_limit_s=60),
    ]
    found = scene(jobs, reservations=[taken])
    check(found.situation)
    assert [f.closes_at for f in found.situation.fields] == [None, None]
    free = next(n.kind for n in found.situation.nodes if n.name == "gn2")
    told = {job.job_id: job for job in found.situation.waiting}
    kinds = {name: {d.kinds for d in job.demands} for name, job in told.items()}
    assert kinds == {"7": {()}, "8": {(free,)}, "9": {(free,)}, "10": {()}, "11": {()}}
    begins = {name: job.eligible_at for name, job in told.items()}
    assert begins == {"7": None, "8": None, "9": None, "10": NOW + 7200.0, "11": None}
    assert found.left_out == dict.fromkeys(told, ("reservation",))


def test_a_job_whose_nodes_a_reservation_takes_first_is_not_told_now() -> None:
    """Both nodes are idle, and it may use one of them alone, which is taken before its limit."""
    nodes = [node("gn1", features=("big",)), node("gn2")]
    taken = ReservationView("r", ("gn1",), NOW + 600, NOW + 7200)
    jobs = [
        waiting(7, features="big", time_limit_s=3600),
        waiting(8, features="big", time_limit_s=300),
    ]
    found = scene(jobs, nodes=nodes, reservations=[taken])
    late, now = forecast(found.situation).starts
    assert late.start.low == NOW + 7200.0
    assert now.start.high < NOW + 600.0


# -- what jobs ask for ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, (Demand(0, 2, 1), Demand(1, 4, 1))),
        ({"num_gpus": 0}, (Demand(1, 4, 1),)),
        ({"num_gpus": 16, "min_nodes": 2}, (Demand(0, 16, 2), Demand(1, 4, 2))),
        ({"num_gpus": 16}, (Demand(0, 16, 0), Demand(1, 4, 1))),  # --gpus=16 without --nodes
    ],
)
def test_demands(facts: dict[str, Any], expected: tuple[Demand, ...]) -> None:
    assert demands(waiting(num_cpus=4, **facts)) == [expected]


def test_a_waiting_job_has_slurms_order_its_limit_and_its_quantiles() -> None:
    job, prediction = waiting(priority=250)
    found = scene([(job, prediction)], config=MULTIFACTOR).situation
    (made,) = found.waiting
    assert (made.job_id, made.order, made.submitted_at) == ("7", -250.0, 1000.0)
    assert (made.limit_s, made.eligible_at) == (3600.0, None)
    assert made.quantiles_s == tuple(value for _, value in prediction.quantiles)
    assert found.levels == LEVELS
    assert found.order_per_s == pytest.approx(1000 / 86400)


def test_without_slurms_age_factor_nobodys_order_changes() -> None:
    config = {**MULTIFACTOR, "PriorityType": "priority/basic"}
    assert scene([waiting()], config=config).situation.order_per_s == 0.0


@pytest.mark.parametrize(
    ("prediction", "limit_s", "expected"),
    [
        (predicted(100.0, quantiles=()), 3600, [100.0] * len(LEVELS)),
        (None, 3600, [3600.0] * len(LEVELS)),
        (predicted(100.0, quantiles=((0.5, 5000.0),)), 3600, [3600.0] * len(LEVELS)),
        (
            predicted(100.0, quantiles=((0.25, 90.0), (0.5, 30.0))),
            UNLIMITED_S,
            [90.0] * len(LEVELS),
        ),
        (predicted(100.0, quantiles=((0.5, 0.0),)), UNLIMITED_S, [1.0] * len(LEVELS)),
    ],
)
def test_run_times_rise_end_at_the_limit_and_are_there_without_a_prediction(
    prediction: Any, limit_s: int, expected: list[float]
) -> None:
    found = scene([(row(7, time_limit_s=limit_s), prediction)]).situation
    check(found)
    assert list(found.waiting[0].quantiles_s) == expected
    assert found.waiting[0].limit_s == (None if limit_s == UNLIMITED_S else 3600.0)


def test_a_job_with_a_begin_time_waits_for_it() -> None:
    facts = {"reason": "BeginTime", "start_time": NOW + 400}
    assert scene([waiting(**facts)]).situation.waiting[0].eligible_at == NOW + 400.0
    announced = waiting(start_time=NOW + 400)  # Slurm's own expectation is no such thing
    assert scene([announced]).situation.waiting[0].eligible_at is None


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"priority": 0}, "held"),
        ({"reason": "JobHeldUser"}, "held"),
        ({"reason": "Dependency", "dependency": "afterok:5"}, "dependency"),
        ({"reason": "DependencyNeverSatisfied", "dependency": "afterok:5"}, "never"),
        ({"reason": "AccountNotAllowed"}, "never"),
        ({"reason": "QOSMaxGRESPerUser"}, "limits"),
        ({"reason": "AssocGrpCpuLimit"}, "limits"),
        ({"reason": "AssociationJobLimit"}, "limits"),
        ({"reason": "JobArrayTaskLimit"}, "array-limit"),
        ({"reservation": "r"}, "reservation"),
        ({"het_offset": 1}, "het-job"),
        ({"num_gpus": 0, "shards": 3}, "shards"),
    ],
)
def test_who_cannot_start_as_things_are_is_left_out_and_told_why(
    facts: dict[str, Any], code: str
) -> None:
    found = scene([waiting(**facts), waiting(8)])
    (job,) = found.no_starts
    assert found.no_starts == {job: code}
    assert [j.job_id for j in found.situation.waiting] == ["8"]


def test_licences_are_left_out_of_account_and_that_is_said() -> None:
    found = scene([waiting(licences="matlab:1")])
    assert found.left_out == {"7": ("licences",)}


def test_memory_is_left_out_of_account_and_said_of_jobs_that_ask_for_more_than_their_share() -> (
    None
):
    share = 2 * 2**39 // 8  # of 2 of 8 GPUs
    cpus = {"num_gpus": 0, "num_cpus": 1}
    jobs = [
        waiting(7, mem_bytes=share + 1),
        waiting(8, mem_bytes=share),
        waiting(9, mem_bytes=2**33, **cpus),
        waiting(10, mem_bytes=2**33 + 1, **cpus),
    ]
    assert scene(jobs).left_out == {"7": ("memory",), "10": ("memory",)}


@pytest.mark.parametrize(
    ("tasks", "expected"), [("0-3", 4), ("0-9%3", 3), ("0-999", MAX_TASKS), ("0-9%0", 1)]
)
def test_an_array_waits_with_the_tasks_that_may_run_at_once(tasks: str, expected: int) -> None:
    found = scene([waiting(array_tasks=tasks, is_unsplit_array=True)])
    check(found.situation)
    assert len(found.situation.waiting) == expected
    assert list(found.waiting) == ["7"]


# -- what runs -----------------------------------------------------------------------------------


def test_a_running_job_holds_its_gpus_and_an_even_share_of_its_cpus() -> None:
    facts = running(3, "gn[1-2]", num_gpus=9, num_cpus=5, time_limit_s=UNLIMITED_S)
    found = scene([(row(**facts), predicted(50.0))]).situation
    check(found)
    (job,) = found.running
    assert job.pieces == (Piece(0, 5), Piece(1, 4), Piece(2, 3), Piece(3, 2))
    assert (job.job_id, job.started_at, job.limit_s) == ("3", NOW - 600.0, None)
    assert job.quantiles_s == tuple(v for _, v in predicted(50.0).quantiles)


def test_what_is_being_cleaned_up_is_soon_gone() -> None:
    facts = running(3, "gn1") | {"state": JobState.COMPLETING}
    (job,) = scene([(row(**facts), None)]).situation.running
    assert set(job.quantiles_s) == {600.0 + CLEANING_S}


def test_what_runs_where_nobody_can_start_is_left_out() -> None:
    nodes = [node("gn1"), replace(node("gn2"), flags=("drain",))]
    jobs = [(row(**running(3, "gn2")), None), (row(**running(4, "gn[1-2]", num_gpus=2)), None)]
    found = scene(jobs, nodes=nodes).situation
    assert [(j.job_id, j.pieces) for j in found.running] == [("4", (Piece(0, 1), Piece(1, 1)))]
    unknown = [(row(**running(5, "")), None)]
    assert scene(unknown).situation.running == ()


# -- the order of jobs to come -------------------------------------------------------------------


def test_who_comes_stands_behind_all_where_the_daemon_does_not_order_by_run_time() -> None:
    order = scene([waiting(1, priority=500), waiting(2, priority=90)]).order
    assert {order.of(1, 1, 10.0), order.of(8, 1, 1e6)} == {-90.0}
    assert scene([]).order.of(1, 1, 10.0) == 0.0


def test_who_comes_stands_where_jobs_of_its_size_did_when_they_came() -> None:
    at = {"submit_time": NOW - 86400}  # they have aged by 1000 points since
    jobs = [
        waiting(1, 100.0, num_gpus=1, priority=1900, **at),
        waiting(2, 10000.0, num_gpus=1, priority=1100, **at),
        waiting(3, 50.0, num_gpus=0, num_cpus=2, priority=1500, **at),
    ]
    order = scene(jobs, by_prediction=True, config=MULTIFACTOR).order
    assert order.of(1, 1, 100.0) == pytest.approx(-900.0)
    assert order.of(10, 1, 100.0) == pytest.approx(-500.0)  # between the two in GPU-time, by half
    assert order.of(1, 1, 1e9) == pytest.approx(-100.0)
    assert order.of(0, 7, 3.0) == pytest.approx(-500.0)


@pytest.mark.parametrize(
    ("parameters", "depth"),
    [("", 500), ("bf_max_job_test=50,bf_continue", 50), ("bf_max_job_test=0", 500),
     ("bf_max_job_test=many", 500)],
)  # fmt: skip
def test_backfill_looks_as_deep_as_slurms(parameters: str, depth: int) -> None:
    found = scene([waiting()], config={"SchedulerParameters": parameters})
    assert found.situation.backfill_depth == depth
