"""When a job can never start: said where it is certain, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.queue import node, partition, row

from gsched.explain.never import Ask, Site, never_starts
from gsched.model.cluster import ReservationView
from gsched.model.job import UNLIMITED_S, GpuOption
from gsched.slurm.parse_limits import NodeDemand

NODES = (node("n1"), node("n2"))
PARTITION = partition()
SITE = Site(NODES, [PARTITION], memory_counts=True)


def words(job, nodes=NODES, partitions=(PARTITION,), **ask):
    """Why a row can never start, "" when it can."""
    site = replace(SITE, nodes=nodes, partitions=partitions)
    found = never_starts(Ask(job, **ask), site)
    return "" if found is None else found.words


def test_gpus_for_the_whole_job_may_be_spread_over_the_partition():
    assert words(row(1, num_gpus=16)) == ""
    assert words(row(1, num_gpus=17)) == "it asks for 17 GPUs; gpu can give it 16 on 2 nodes"


def test_a_most_of_nodes_bounds_the_gpus_of_the_whole_job():
    nodes = (node("n1", 4), node("n2", 8), node("n3", 8))
    three = partition(nodes=("n1", "n2", "n3"))
    assert words(row(1, num_gpus=16, max_nodes=2), nodes, [three]) == ""
    assert "16 on 2 nodes" in words(row(1, num_gpus=17, max_nodes=2), nodes, [three])
    at_most_two = partition(nodes=("n1", "n2", "n3"), max_nodes=2)
    assert words(row(1, num_gpus=16), nodes, [at_most_two]) == ""
    assert "16 on 2 nodes" in words(row(1, num_gpus=17), nodes, [at_most_two])


def test_a_most_that_slurm_shows_for_want_of_one_says_nothing():
    # squeue shows --gpus=16 and --gpus=16 --nodes=1 alike
    assert words(row(1, num_gpus=16, min_nodes=1, max_nodes=1)) == ""


def test_gpus_on_each_node_must_fit_enough_nodes():
    nodes = (node("n1", 4), node("n2", 8))
    assert words(row(1, num_gpus=8, gpus_per_node=8), nodes) == ""
    assert words(row(1, num_gpus=9, gpus_per_node=9), nodes) == (
        "it asks for 9 GPUs on one node; the largest node of gpu has 8"
    )
    two = row(1, num_gpus=16, gpus_per_node=8, min_nodes=2, max_nodes=2)
    assert words(two, nodes) == "it asks for 2 nodes with 8 GPUs each; gpu has 1"


def test_more_nodes_than_there_are():
    assert words(row(1, min_nodes=2, max_nodes=2)) == ""
    assert words(row(1, min_nodes=3, max_nodes=3)) == "it asks for 3 nodes; gpu has 2"


def test_gpu_types():
    nodes = (node("n1", kinds=(("a100", 8),)), node("n2", kinds=(("v100", 4),)))

    def typed(kind, count, per_node=0):
        options = (GpuOption(kind, count),)
        return row(1, num_gpus=count, gpu_options=options, gpus_per_node=per_node)

    assert words(typed("v100", 4, 4), nodes) == ""
    assert words(typed("h100", 1, 1), nodes) == "no node of gpu has a h100"
    assert "5 GPUs of type v100; gpu can give it 4" in words(typed("v100", 5), nodes)
    untyped = (*nodes[:1], node("n2"))  # of these 8 nobody has told the type
    assert words(typed("h100", 1, 1), untyped) == ""


def test_cpus_and_memory_of_each_node_and_of_all():
    assert words(row(1), demand=NodeDemand(64, 2**39, None)) == ""
    assert "65 CPUs on one node; the largest node of gpu has 64" in words(
        row(1), demand=NodeDemand(65, 0, None)
    )
    assert "513 GiB of memory on one node; the largest node of gpu has 512 GiB" in words(
        row(1), demand=NodeDemand(1, 513 * 2**30, None)
    )
    assert "129 CPUs; gpu can give it 128" in words(row(1, num_cpus=129))
    too_much = row(1, mem_bytes=2**40 + 1)
    assert "of memory; gpu can give it 1 TiB" in words(too_much, demand=NodeDemand(1, 2**30, None))


def test_memory_that_slurm_does_not_give_out_makes_nothing_impossible():
    site = replace(SITE, memory_counts=False)
    ask = Ask(row(1, mem_bytes=2**50), NodeDemand(1, 2**50, None))
    assert never_starts(ask, site) is None


def test_all_of_a_nodes_memory_may_be_that_of_another_node():
    # --mem=0: Slurm reckons with the memory of a node that --constraint may exclude
    nodes = (node("n1", mem_bytes=2**30, features=("small",)), node("n2"))
    job = row(1, features="small", mem_bytes=2**39)
    assert words(job, nodes, demand=NodeDemand(1, 0, None)) == ""


def test_features():
    nodes = (
        node("n1", features=("a",), available_features=("a", "b")),
        node("n2", features=("c",)),
    )
    assert words(row(1, features="a&b"), nodes) == ""  # a reboot would give b
    assert words(row(1, features="a&c"), nodes) == "no node of gpu has the features a&c"
    two = {"min_nodes": 2, "max_nodes": 2}
    assert words(row(1, features="a|c", **two), nodes) == ""
    assert "2 nodes with the features a; gpu has 1" in words(row(1, features="a", **two), nodes)
    assert words(row(1, features="[a*1&c*1]", **two), nodes) == ""
    counted = words(row(1, features="[a*2&c*1]", **two), nodes)
    assert counted == "it asks for 2 nodes with the feature a; gpu has 1"
    assert words(row(1, features="!a ("), nodes) == ""


def test_named_and_excluded_nodes():
    assert words(row(1), required_nodes="n1", excluded_nodes="n2") == ""
    assert words(row(1), required_nodes="n[1-3]") == "it asks for n3, which is not in gpu"
    assert "excludes all but 0 of the 2" in words(row(1), excluded_nodes="n[1-2]")
    two = row(1, min_nodes=2, max_nodes=2)
    assert "2 nodes but excludes all but 1" in words(two, excluded_nodes="n2")
    assert words(row(1), excluded_nodes="n[1-") == ""


@pytest.mark.parametrize(
    ("limit_s", "most_s", "starts"),
    [(3600, 3600, True), (3601, 3600, False), (3601, None, True), (None, 3600, True)],
)
def test_time_limits(limit_s, most_s, starts):
    found = words(row(1, time_limit_s=limit_s), partitions=[partition(max_time_s=most_s)])
    assert (found == "") is starts
    assert starts or found == "its time limit exceeds that of gpu"


def test_a_least_time_is_what_counts():
    job, short = row(1, time_limit_s=7200), [partition(max_time_s=3600)]
    assert words(job, partitions=short, demand=NodeDemand(1, 0, 3600)) == ""
    assert words(job, partitions=short, demand=NodeDemand(1, 0, 3601)) != ""


def test_the_default_limit_of_another_partition_is_no_limit_of_the_job():
    # without --time, squeue shows what one of the partitions would give
    short = partition("short", ("n1",), max_time_s=3600)
    nodes = (node("n1", 8, "short"), node("n2", 8, "large"))
    job = row(1, num_gpus=8, partitions=("short", "large"), time_limit_s=UNLIMITED_S)
    assert words(job, nodes, [short, partition("large", ("n2",), max_nodes=0)]) == ""
    job = replace(job, time_limit_s=7200)
    closed = partition("large", ("n2",), max_nodes=0)
    assert words(job, nodes, [short, closed]) == "its time limit exceeds that of short"
    closed = partition("large", ("n2",), max_nodes=0, default_time_s=7200)
    assert words(job, nodes, [short, closed]) == ""


def test_a_qos_may_go_beyond_its_partition():
    short = [partition(max_time_s=60, max_nodes=1)]
    site = replace(SITE, partitions=short, ignores_partition_limits=lambda: True)
    for job in (row(1, time_limit_s=61), row(1, num_gpus=16)):
        assert never_starts(Ask(job), site) is None
    judged = row(1, time_limit_s=61, reason="PartitionTimeLimit")
    assert never_starts(Ask(judged), site) is not None  # Slurm itself has looked


def test_licences():
    site = replace(SITE, licences={"matlab": 4})
    assert never_starts(Ask(row(1, licences="matlab:4")), site) is None
    assert never_starts(Ask(row(1, licences="other:9")), site) is None
    assert never_starts(Ask(row(1, licences="matlab:5|other:9")), site) is None
    found = never_starts(Ask(row(1, licences="other:1,matlab:5")), site)
    assert found is not None
    assert found.words == "it asks for 5 licences matlab; the cluster has 4"
    assert found.params == {"licence": "matlab", "asked": 5, "total": 4}


def test_reservations():
    known = [ReservationView("r1", ("n1",), 0, 10)]
    job = row(1, reservation="r1,r2")
    assert never_starts(Ask(job), replace(SITE, reservations=known)) is None
    assert never_starts(Ask(job), SITE) is None  # hidden
    gone = never_starts(Ask(job), replace(SITE, reservations=[]))
    assert gone is not None
    assert gone.code == "reservation-gone"


def test_one_partition_that_can_take_the_job_is_enough_and_parts_of_two_are_not():
    small, large = partition("small", ("n1",)), partition("large", ("n2",))
    nodes = (node("n1", 4, "small"), node("n2", 8, "large"))
    both = {"partitions": ("small", "large")}
    assert words(row(1, num_gpus=8, **both), nodes, [small, large]) == ""
    found = words(row(1, num_gpus=9, **both), nodes, [small, large])
    assert "small can give it 4 on 1 node" in found
    too_long = partition("large", ("n2",), max_time_s=59)
    assert words(row(1, num_gpus=8, **both), nodes, [small, too_long]) != ""


def test_what_is_not_shown_makes_no_job_impossible():
    large = row(1, num_gpus=99, gpus_per_node=99, min_nodes=9)
    assert words(large, partitions=[]) == ""
    assert words(large, NODES[:1]) == ""
    assert words(large, [], [partition(nodes=())]) == ""
    hidden = row(1, num_gpus=99, partitions=("gpu", "hidden"))
    assert words(hidden) == ""


def test_no_limit_is_beyond_that_of_a_partition_and_no_number():
    site = Site([node("n1")], [partition(nodes=("n1",), max_time_s=60)])
    found = never_starts(Ask(row(1, time_limit_s=UNLIMITED_S)), site)
    assert found is not None
    assert found.params == {"partition": "gpu", "asked_s": None, "limit_s": 60}


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"allow_accounts": ("lab2", "lab3")}, "(it allows lab2, lab3)"),
        ({"allow_accounts": ("lab2", "lab1")}, ""),
        ({"allow_accounts": ("physics",)}, ""),  # 24.11 takes accounts below it
        ({"deny_accounts": ("lab1",)}, "(it denies lab1)"),
        ({"deny_accounts": ("lab2",)}, ""),
        ({"deny_accounts": ("lab1",), "allow_accounts": ("lab1",)}, ""),
        ({}, ""),
    ],
)
def test_a_partition_closed_to_the_account_of_the_job(limits, said):
    job, closed = row(1, tenant="lab1"), partition(**limits)
    above = frozenset({"lab1", "physics", "root"})
    found = never_starts(Ask(job), replace(SITE, partitions=[closed], accounts_above=lambda: above))
    expected = f"gpu takes no jobs of account lab1 {said}" if said else ""
    assert (found.words if found else "") == expected
    assert words(job, partitions=[closed]) == ""  # accounts that are not known forbid nothing


def test_one_partition_of_several_that_takes_the_account_is_enough():
    closed, other = partition(allow_accounts=("lab2",)), partition("other")
    job = row(1, tenant="lab1", partitions=("gpu", "other"))
    site = replace(
        SITE, partitions=[closed, other], accounts_above=lambda: frozenset({"lab1", "root"})
    )
    assert never_starts(Ask(job), site) is None
