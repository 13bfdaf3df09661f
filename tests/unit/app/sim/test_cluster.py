"""The nodes of a simulation: told, live, or as large as the jobs tell."""

from __future__ import annotations

import numpy as np
import pytest
from support.history import attempt
from support.sim_traces import chosen, ran

from gsched.app.sim.cluster import ClusterOrder, fit
from gsched.app.sim.pools import (
    NodeGroup,
    cluster_of,
    joined_pools,
    named_pools,
    parse_nodes,
    read_pools,
)
from gsched.config.settings import Settings
from gsched.errors import DataError, UnavailableError, UsageError
from gsched.model.history import Tres


def fitted(records, **order):
    return fit(chosen(records), ClusterOrder(**order), Settings())


def shape(found):
    """By pool: the GPUs of its nodes."""
    cluster = found.cluster
    return {
        name: cluster.node_gpus[cluster.first_node[p] : cluster.first_node[p + 1]].tolist()
        for p, name in enumerate(cluster.pools)
    }


def left_out(found):
    return {out.reason: out.examples for out in found.chosen.left_out}


# -- as told ----------------------------------------------------------------------------------


def test_nodes_on_the_command_line():
    assert parse_nodes("10x8") == [NodeGroup("all", 10, 8)]
    assert parse_nodes("8x8:a100, 4x4:v100@0.5") == [
        NodeGroup("all", 8, 8, "a100"),
        NodeGroup("all", 4, 4, "v100", 0.5),
    ]


@pytest.mark.parametrize("text", ["", "8", "x8", "8x", "0x8", "8x0", "8x8:", "8x8:a@0", "-1x8",
                                  "8x8:a@nan", "9999999x8", "8x5000", "8x8,"])  # fmt: skip
def test_what_is_no_group_of_nodes(text):
    with pytest.raises(UsageError, match="--nodes"):
        parse_nodes(text)


def test_pools_from_a_file_have_texts_for_names(tmp_path):
    path = tmp_path / "pools.csv"
    path.write_text(
        "pool,nodes,gpus,type,speed\n6214e9,2,8,a100,1\n6214e9,1,4,v100,0.5\n007,3,8,a100,\n"
    )
    assert read_pools(path) == [
        NodeGroup("6214e9", 2, 8, "a100"),
        NodeGroup("6214e9", 1, 4, "v100", 0.5),
        NodeGroup("007", 3, 8, "a100"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the columns are none"),
        ("pool,nodes\n", "the columns are pool, nodes"),
        ("pool,nodes,gpus\n", "names no pool"),
        ("pool,nodes,gpus\na,x,8\n", "line 2: nodes: 'x'"),
        ("pool,nodes,gpus\na,1,8\n,1,8\n", "line 3: the pool has no name"),
        ("pool,nodes,gpus\na,1\n", "line 2: gpus: ''"),
        ("pool,nodes,gpus,color\na,1,8,red\n", "the columns are"),
        ("pool,nodes,gpus,speed\na,1,8,inf\n", "speed: 'inf'"),
        ('pool,nodes,gpus\n"a,1,8\n', "pools.csv"),
    ],
)
def test_what_is_no_file_of_pools(tmp_path, text, message):
    path = tmp_path / "pools.csv"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        read_pools(path)
    assert message in error.value.message


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(UnavailableError, match="cannot read"):
        read_pools(tmp_path)


def test_a_cluster_of_groups():
    cluster = cluster_of(
        [NodeGroup("b", 3, 8, "x"), NodeGroup("a", 2, 4, "y", 0.5), NodeGroup("b", 2, 4, "y", 0.5)],
        nodes_a_switch=2,
    )
    assert cluster.pools == ("a", "b")
    assert cluster.first_node.tolist() == [0, 2, 7]
    assert cluster.node_gpus.tolist() == [4, 4, 8, 8, 8, 4, 4]
    assert cluster.node_switch.tolist() == [0, 0, 1, 1, 2, 2, 3]
    assert [cluster.gpu_types[kind] for kind in cluster.node_type] == list("yyxxxyy")
    assert cluster.type_speed.tolist() == [1.0, 0.5]
    assert list(cluster.node_names)[:3] == ["a-0", "a-1", "b-0"]


def test_one_switch_a_pool_where_nobody_says_more():
    cluster = cluster_of([NodeGroup("a", 2, 8), NodeGroup("b", 2, 8)])
    assert cluster.node_switch.tolist() == [0, 0, 1, 1]


def test_a_type_has_one_speed():
    with pytest.raises(DataError, match="two speeds"):
        cluster_of([NodeGroup("a", 1, 8, "x"), NodeGroup("b", 1, 8, "x", 0.5)])


@pytest.mark.parametrize(
    "order",
    [
        {"nodes": "1x8", "live": True},
        {"nodes": "1x8", "load": 0.5},
        {"live": True, "gpus_a_node": 4},
        {"live": True, "pool_by": "account"},
    ],
)
def test_what_does_not_go_together(order):
    with pytest.raises(UsageError):
        ClusterOrder(**order)


# -- jobs on their nodes ----------------------------------------------------------------------


def test_one_pool_for_all_and_what_is_too_large_for_it():
    found = fitted([ran(1, 1000, 0, 9, 16), ran(2, 1001, 0, 9, 17)], nodes="2x8")
    assert left_out(found) == {"larger-than-pool": ("2",)}
    assert found.jobs.num_gpus.tolist() == [16]
    assert found.cluster.pools == ("all",)


def test_jobs_find_their_pools_by_whatever_names_them(tmp_path):
    path = tmp_path / "pools.csv"
    path.write_text("pool,nodes,gpus\nlab1,1,8\nlab2,1,8\n")
    jobs = [ran(1, 1000, 0, 9, 1, tenant="lab2"), ran(2, 1001, 0, 9, 1, tenant="lab3")]
    found = fitted(jobs, pools=path)
    assert left_out(found) == {"no-such-pool": ("2",)}
    assert [found.cluster.pools[p] for p in found.jobs.pool] == ["lab2"]
    with pytest.raises(DataError, match="no job can run"):
        fitted(jobs, pools=path, pool_by="partition")


def test_partitions_that_share_nodes_are_one_pool_of_a_file(tmp_path):
    path = tmp_path / "pools.csv"
    path.write_text("pool,nodes,gpus\na100+debug,1,8\nh100,1,8\n")
    partitions = ("a100", "debug", "h100", "h100,a100", "none,debug", "none")
    jobs = [ran(n, 1000 + n, 0, 9, 1, partition=name) for n, name in enumerate(partitions)]
    found = fitted(jobs, pools=path)
    pools = [found.cluster.pools[p] for p in found.jobs.pool]
    assert pools == ["a100+debug", "a100+debug", "h100", "h100", "a100+debug"]
    assert left_out(found) == {"no-such-pool": ("5",)}
    assert "2 jobs of several partitions: in the first of them that is there" in found.notes[0]


def test_what_a_pool_of_several_partitions_is_called():
    assert named_pools(["a+b", "b+c"], ["a+b", "b"])["b"] == "b+c"  # jobs are of one called a+b
    assert named_pools(["a+b", "b"], ["b"]) == {"a": "a+b", "b": "b", "a+b": "a+b"}
    with pytest.raises(DataError, match="b is in two pools"):
        named_pools(["a+b", "b+c"], ["a"])


def test_nodes_are_as_asked_for_where_the_cluster_has_them():
    jobs = [
        ran(1, 1000, 0, 9, 4, num_nodes=2),
        ran(2, 1001, 0, 9, 16, num_nodes=1),
        ran(3, 1002, 0, 9, 10, num_nodes=4),
        ran(4, 1003, 0, 9, 8, num_nodes=None),
    ]
    found = fitted(jobs, nodes="2x8")
    assert found.jobs.num_nodes.tolist() == [2, 0, 0, 0]
    assert any("1 job had nodes that are not here" in note for note in found.notes)


def test_types_of_gpu_that_the_cluster_has_and_has_not():
    def of(kind):
        return (Tres("gres/gpu", 1), Tres(f"gres/gpu:{kind}", 1))

    jobs = [ran(1, 1000, 0, 9, 1, requested=of("v100")), ran(2, 1001, 0, 9, 1, requested=of("t4"))]
    found = fitted(jobs, nodes="1x8:a100,1x8:v100@0.5")
    kinds = [found.cluster.gpu_types[k] if k >= 0 else None for k in found.jobs.gpu_type]
    assert kinds == ["v100", None]
    assert any("1 job asks for a type" in note for note in found.notes)


def test_recorded_run_times_are_those_of_the_type_that_a_job_ran_on():
    """9 s on a GPU of speed 2 are 18 s of the reference: not a job that is twice as fast."""

    def tres(kind):
        return (Tres("gres/gpu", 1), Tres(f"gres/gpu:{kind}", 1))

    jobs = [
        ran(1, 1000, 0, 9, 1, allocated=tres("h100")),
        ran(2, 1001, 0, 9, 1, requested=tres("h100"), allocated=tres("h100")),
        ran(3, 1002, 0, 9, 1, requested=tres("v100")),
        ran(4, 1003, 0, 9, 1, allocated=tres("t4")),
        ran(5, 1004, 0, 9, 1),
        ran(6, 1005, 0, 9, 2, allocated=(Tres("gres/gpu:h100", 1), Tres("gres/gpu:v100", 1))),
    ]
    found = fitted(jobs, nodes="1x8:a100,1x8:h100@2,1x8:v100@0.5")
    assert found.jobs.duration_s.tolist() == [18, 18, 4.5, 9, 9, 9]
    assert found.chosen.past.run_s.tolist() == [18, 18, 4, 9, 9, 9]  # what is predicted from
    kinds = [found.cluster.gpu_types[k] if k >= 0 else None for k in found.jobs.gpu_type]
    assert kinds == [None, "h100", "v100", None, None, None]
    (told,) = (note for note in found.notes if note.startswith("Run times at speed 1"))
    assert "of 3 of 6 jobs" in told
    assert "of 3 it is not" in told
    assert "2 asked for a type" in told
    alike = fitted(jobs, nodes="1x8:a100,1x8:h100,1x8:v100")
    assert alike.jobs.duration_s.tolist() == [9] * 6
    assert not any("speed" in note for note in alike.notes)


# -- as large as the jobs tell ----------------------------------------------------------------


def test_nodes_that_were_seen_with_the_gpus_in_use_at_once():
    jobs = [
        ran(1, 1000, 0, 100, 4, node_list="n[1-2]", partition="gpu"),
        ran(2, 1000, 50, 100, 3, node_list="n1", partition="short"),
        ran(3, 1000, 100, 100, 8, node_list="n2", partition="gpu"),
        ran(4, 1000, 0, 100, 1, node_list="m1", partition="other"),
    ]
    found = fitted(jobs)
    assert shape(found) == {"gpu+short": [5, 8], "other": [1]}
    assert list(found.cluster.node_names) == ["n1", "n2", "m1"]
    assert not found.chosen.left_out


@pytest.mark.parametrize("more", [{"load": 0.5}, {"gpus_a_node": 4}])
def test_pools_are_the_same_whatever_sizes_them(more):
    jobs = [
        ran(1, 1000, 0, 100, 4, node_list="n1", partition="gpu"),
        ran(2, 1000, 50, 100, 3, node_list="n1", partition="short"),
        ran(3, 1000, 0, 100, 1, node_list="m1", partition="other"),
    ]
    assert list(shape(fitted(jobs, **more))) == list(shape(fitted(jobs))) == ["gpu+short", "other"]


def test_a_job_of_several_partitions_makes_no_pool_of_its_own():
    jobs = [ran(n, 1000, 0, 9, 1, node_list=None, partition=name)
            for n, name in enumerate(("a", "x,a", "y,x"))]  # fmt: skip
    found = fitted(jobs)
    assert sorted(shape(found)) == ["a", "y"]
    assert "2 jobs of several partitions" in found.notes[0]


def test_gpus_in_use_at_once_where_starts_but_no_nodes_are_told():
    jobs = [
        ran(n, 1000, 0, 100, 4, node_list=None, partition=f"p{n % 2}", num_nodes=1)
        for n in range(6)
    ]
    found = fitted([*jobs, ran(9, 1000, 100, 5, 4, node_list=None, partition="p0", num_nodes=1)])
    assert shape(found) == {"p0": [4, 4, 4], "p1": [4, 4, 4]}


def test_a_load_where_nothing_else_is_told():
    jobs = [
        ran(n, 1000 + 100 * n, 0, 800, 4, node_list=None, num_nodes=None, start_assumed=1,
            partition=None, tenant="vc" if n else "rare")
        for n in range(11)
    ]  # fmt: skip
    found = fitted(jobs, load=0.5)
    # 10 jobs of 4 GPUs for 800 s in 1,000 s: 32 GPUs, twice that, nodes of 8
    assert shape(found) == {"rare": [8], "vc": [8] * 8}
    assert "50%" in found.notes[0]


def test_a_load_is_the_offered_load_of_the_report_whatever_the_longest_run():
    """In 1,000 s come 160 jobs of 1 GPU for 500 s, and one of 8 GPUs for 9,000 s."""
    untold = {"node_list": None, "num_nodes": None, "start_assumed": 1}
    jobs = [ran(n, 1000 + 100 * (n % 11), 0, 500, 1, **untold) for n in range(160)]
    found = fitted([*jobs, ran(999, 1000, 0, 9000, 8, **untold)], load=2, pool_by="none")
    offered = float(found.jobs.duration_s @ found.jobs.num_gpus) / 1000 / found.cluster.num_gpus
    assert found.cluster.num_gpus == 80  # (80 + 72) / 2 = 76 GPUs, in whole nodes
    assert offered == 1.9


def test_jobs_that_come_at_once_do_not_make_a_pool_without_end():
    untold = {"node_list": None, "num_nodes": None, "start_assumed": 1}
    jobs = [ran(n, 1000 + n, 0, 9000, 8, **untold) for n in range(4)]
    assert shape(fitted(jobs, load=1)) == {"gpu": [8] * 4}  # all at once, not 96,000 GPUs
    assert shape(fitted(jobs[:1], load=1)) == {"gpu": [8]}


def test_a_pool_holds_its_largest_job():
    jobs = [ran(1, 1000, 0, 10, 64, node_list=None, num_nodes=None, start_assumed=1),
            ran(2, 9000, 0, 10, 1, node_list=None, num_nodes=None, start_assumed=1)]  # fmt: skip
    assert shape(fitted(jobs)) == {"gpu": [8] * 8}


def test_jobs_that_tell_no_pool_are_left_out_of_sized_pools():
    jobs = [ran(1, 1000, 0, 9, 8, node_list=None), ran(2, 1000, 0, 9, 8, partition=None)]
    found = fitted(jobs, pool_by="partition")
    assert shape(found) == {"gpu": [8]}
    assert left_out(found) == {"no-such-pool": ("2",)}


def test_clusters_have_pools_of_their_own():
    jobs = [ran(1, 1000, 0, 9, 8, cluster="a", node_list="n1"),
            ran(1, 1000, 0, 9, 4, cluster="b", node_list="n2")]  # fmt: skip
    assert shape(fitted(jobs)) == {"a/gpu": [8], "b/gpu": [4]}
    assert fitted(jobs).jobs.cluster == "a+b"


def test_an_absurd_trace_asks_for_the_nodes():
    absurd = [attempt(n, 1000, num_gpus=2**31 - 1, node_list=None) for n in range(3)]
    with pytest.raises(DataError, match="would need"):
        fitted(absurd)


def test_partitions_that_share_a_node_are_one_pool():
    assert joined_pools({"c": "xy", "a": "x", "b": "z", "d": ""}) == {
        "a": "a+c",
        "c": "a+c",
        "b": "b",
        "d": "d",
    }


def test_the_order_of_the_rows_does_not_matter():
    jobs = [ran(n, 1000, n, 50, n % 4 + 1, node_list=f"n{n % 3}", partition=f"p{n % 5}")
            for n in range(20)]  # fmt: skip
    one, other = fitted(jobs), fitted(jobs[::-1])
    assert shape(one) == shape(other)
    assert np.array_equal(one.jobs.pool, other.jobs.pool)
    assert one.notes == other.notes
