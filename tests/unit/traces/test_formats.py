"""What each format's columns mean: units, states, phases, ids, clusters, types of GPUs.

The rows here are made up; files of the publications are read in test_published_traces.py.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from support.traces import Read, read_bytes

from gsched.errors import DataError
from gsched.model.history import AttemptRecord, Tres
from gsched.model.job import JobState
from gsched.traces import pai


def epoch(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def extra(record: AttemptRecord) -> dict[str, Any]:
    return {} if record.extra is None else json.loads(record.extra)


def reasons(read: Read) -> list[tuple[int, str]]:
    return [(reject.line, reject.reason) for reject in read.rejects]


# -- philly -----------------------------------------------------------------------------------


def test_philly_numbers_its_jobs_by_content() -> None:
    rows = "2017-10-09 07:01:55,66.0,2,132.0,6214e9\n" * 2 + "2017-10-09 07:01:55,66,1,66,6214e9\n"
    text = "timestamp,duration,num_gpus,gpu_time,cluster\n" + rows
    read = read_bytes("philly", text)
    first = read.records[0]
    begin = epoch("2017-10-09 07:01:55")
    assert (first.submit_time, first.start_time, first.end_time) == (begin, begin, begin + 66)
    assert (first.cluster, first.tenant, first.num_gpus, first.user) == (
        "philly",
        "6214e9",
        2,
        None,
    )
    assert (first.state, first.state_text) == (JobState.COMPLETED, "")
    assert len({r.job_id for r in read.records}) == 3
    assert [r.job_id for r in read_bytes("philly", text).records] == [
        r.job_id for r in read.records
    ]
    assert any("start times" in note for note in read.notes)
    assert any("no states" in note for note in read.notes)


def test_equal_rows_in_two_files_of_one_import_are_two_jobs() -> None:
    text = "timestamp,duration,num_gpus\n2017-10-09 07:01:55,66,1\n"
    seen: dict[str, Any] = {}
    ids = [read_bytes("philly", text, seen=seen).records[0].job_id for _ in range(2)]
    alone = read_bytes("philly", text).records[0].job_id
    assert ids[0] == alone != ids[1]


def test_times_without_a_zone_are_in_the_zone_that_is_told() -> None:
    text = "timestamp,duration,num_gpus\n2017-10-09 07:01:55,66,1\n"
    read = read_bytes("philly", text, timezone=ZoneInfo("America/Los_Angeles"))
    assert read.records[0].submit_time == epoch("2017-10-09 14:01:55")


# -- helios -----------------------------------------------------------------------------------

HELIOS = (
    "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
)


def test_helios_is_slurms_accounting() -> None:
    rows = [
        "7,uA,vcX,8,64,2,COMPLETED,2020-06-09 18:00:00,2020-06-09 18:00:10,2020-06-09 18:01:10,,10",
        "8,uB,vcY,0,4,1,CANCELLED,2020-06-09 18:00:00,,2020-06-09 18:02:00,,",
        "9,uB,vcY,1,4,1,RUNNING,2020-06-09 18:00:00,2020-06-09 18:00:00,,100,0",
        "10,uB,vcY,1,4,1,FAILED,2020-06-09 18:00:00,2020-06-09 18:00:00,,100,0",
        "11,uB,vcY,1,4,1,TIMEOUT,2020-06-09 18:00:00,2020-06-09 18:00:00,2020-06-09 18:00:09,8,0",
    ]
    read = read_bytes("helios", "\n".join([HELIOS, *rows]), "data/Venus/cluster_log.csv")
    done, cancelled, running, failed, late = read.records
    base = epoch("2020-06-09 18:00:00")
    assert {r.cluster for r in read.records} == {"helios-venus"}
    assert (done.job_id, done.source_id, done.source) == (7, None, "helios")
    assert (done.user, done.tenant, done.num_gpus, done.num_cpus, done.num_nodes) == (
        "uA", "vcX", 8, 64, 2,
    )  # fmt: skip
    assert (done.submit_time, done.start_time, done.end_time) == (base, base + 10, base + 70)
    assert (cancelled.start_time, cancelled.end_time) == (None, base + 120)
    assert (cancelled.state, cancelled.num_gpus) == (JobState.CANCELLED, 0)
    assert (running.state, running.end_time) == (JobState.RUNNING, None)
    assert failed.end_time == base + 100
    assert [extra(r) for r in read.records[:2]] == [{}, {}]
    assert extra(late) == {"duration": "8"}


def test_helios_rejects_times_that_cannot_be() -> None:
    rows = [
        "1,u,v,1,1,1,COMPLETED,2020-06-09 18:00:00,2020-06-09 17:59:59,2020-06-09 18:01:10,,",
        "2,u,v,1,1,1,COMPLETED,2020-06-09 18:00:00,2020-06-09 18:00:10,2020-06-09 18:00:09,,",
        "3,u,v,1,1,1,COMPLETED,,2020-06-09 18:00:10,2020-06-09 18:00:19,,",
        "4,u,v,1,1,1,COMPLETED,2020-06-09 18:00:00,2020-06-09 18:00:10,2020-06-09 18:00:19,-9,",
        ",u,v,1,1,1,COMPLETED,2020-06-09 18:00:00,2020-06-09 18:00:10,2020-06-09 18:00:19,,",
    ]
    read = read_bytes("helios", "\n".join([HELIOS, *rows]))
    assert not read.records
    assert reasons(read) == [
        (2, "it starts before it is submitted"),
        (3, "it ends before it begins"),
        (4, "submit_time: missing"),
        (5, "duration: negative: '-9'"),
        (6, "job_id: missing"),
    ]


def test_helios_tells_a_time_that_comes_twice_by_the_duration_and_the_order() -> None:
    """On 27 October 2024 Berlin's clocks go from 03:00 back to 02:00, at 01:00 UTC."""
    names = "job_id,gpu_num,state,submit_time,start_time,end_time,duration"
    rows = [
        "1,1,COMPLETED,2024-10-27 02:50:00,2024-10-27 02:10:00,2024-10-27 04:00:00,6600",
        "2,1,COMPLETED,2024-10-27 01:00:00,2024-10-27 02:10:00,2024-10-27 02:50:00,6000",
        "3,1,COMPLETED,2024-10-27 01:00:00,2024-10-27 02:10:00,,60",
    ]
    read = read_bytes("helios", "\n".join([names, *rows]), timezone=ZoneInfo("Europe/Berlin"))
    one = epoch("2024-10-27 01:00:00")
    assert read.rejects == []
    assert [(r.start_time, r.end_time) for r in read.records] == [
        (one + 600, one + 7200),
        (one - 3000, one + 3000),
        (one - 3000, one - 2940),
    ]
    assert {r.extra for r in read.records} == {None}
    assert any("--cluster helios" in note for note in read.notes)


def test_helios_tables_of_simulators_have_a_duration_only() -> None:
    header = "job_id,jobname,user,vc,gpu_num,state,submit_time,duration"
    text = f"{header}\np3,train,u,v,1,Pass,2017-10-01 00:00:00,79\n"
    (record,) = read_bytes("helios", text, "philly7t/cluster_log.csv").records
    begin = epoch("2017-10-01")
    assert (record.start_time, record.end_time) == (begin, begin + 79)
    assert (record.cluster, record.name, record.source_id) == ("helios", "train", "p3")
    assert (record.state, record.state_text) == (JobState.COMPLETED, "Pass")
    with pytest.raises(DataError, match="start_time or duration"):
        read_bytes("helios", "job_id,gpu_num,state,submit_time\n1,1,Pass,2017-10-01 00:00:00\n")


# -- acme -------------------------------------------------------------------------------------


def test_acme_phases_and_offsets() -> None:
    header = (
        "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,"
        "duration,queue,gpu_time"
    )
    times = (
        "2023-03-01 08:00:00+08:00,2023-03-01 08:00:32+08:00,2023-03-01 08:02:29+08:00,117,32,936.0"
    )
    kinds = ["Pretrain", "Evaluation", "SFT", "Debug", "Other", "MLLM", ""]
    rows = [f"{5778432 + i},u5,1,8,128,{kind},FAILED,{times}" for i, kind in enumerate(kinds)]
    read = read_bytes("acme", "\n".join([header, *rows]), "trace_seren.csv")
    assert [r.phase for r in read.records] == [
        "pretrain", "eval", "sft", "debug", "other", None, None,
    ]  # fmt: skip
    assert [extra(r) for r in read.records] == [{}] * 5 + [{"type": "MLLM"}, {}]
    first = read.records[0]
    assert (first.cluster, first.job_id, first.submit_time) == (
        "acme-seren",
        5778432,
        epoch("2023-03-01"),
    )
    assert (first.state, first.num_cpus, first.num_nodes) == (JobState.FAILED, 128, 1)


def test_acme_kalos_has_texts_as_ids_and_counts_duration_from_the_submission() -> None:
    header = (
        "job_id,user,node_num,gpu_num,cpu_num,mem_per_pod_GB,shared_mem_per_pod,type,state,"
        "submit_time,start_time,end_time,fail_time,stop_time,duration,queue,gpu_time"
    )
    row = (
        "dlcx1,uf,8,64,960,1000,100.0,Other,CANCELLED,2023-05-17 11:00:00+00:00,"
        "2023-05-17 11:00:10+00:00,2023-05-17 11:00:18+00:00,,2023-05-17 11:00:18+00:00,"
        "18,10.0,1152.0"
    )
    (record,) = read_bytes("acme", f"{header}\n{row}\n", "trace_kalos.csv.gz").records
    assert (record.cluster, record.source_id) == ("acme-kalos", "dlcx1")
    assert (record.end_time or 0) - (record.start_time or 0) == 8
    assert extra(record) == {
        "mem_per_pod_gb": "1000", "shared_mem_per_pod": "100.0", "duration": "18",
        "gpu_time": "1152.0", "stop_time": "2023-05-17 11:00:18+00:00",
    }  # fmt: skip


# -- pai --------------------------------------------------------------------------------------

JOBS = """aaaaaaaa,11111111,userX,Terminated,1000.0,1600.0
bbbbbbbb,22222222,userY,Failed,2000.0,2100.0
cccccccc,33333333,userY,Running,3000.0,
dddddddd,44444444,userZ,Waiting,4000.0,
eeeeeeee,55555555,userZ,Terminated,,5000.0
"""
TASKS = """aaaaaaaa,worker,2.0,Terminated,1040.0,1600.0,400.0,29.296875,50.0,T4
aaaaaaaa,ps,1.0,Terminated,1030.0,1600.0,600.0,10.0,,
bbbbbbbb,tensorflow,3.0,Failed,2001.0,2100.0,600.0,1.5,25.0,MISC
bbbbbbbb,evaluator,1.0,Failed,0.0,2100.0,100.0,1.0,200.0,V100
cccccccc,worker,1.0,Running,2999.0,,600.0,1.0,100.0,P100
"""
TAGS = "11111111,userX,V100M32,groupG,nmt\n22222222,userY,,groupH,\n"


def pai_import(*files: tuple[str, str]) -> list[Read]:
    seen: dict[str, Any] = {}
    return [read_bytes("pai", text, name, seen=seen) for name, text in files]


def test_pai_joins_its_tables() -> None:
    tags, tasks, jobs = pai_import(("tags", TAGS), ("tasks", TASKS), ("jobs", JOBS))
    assert (tags.rows_in, tags.rows_skipped, tags.records) == (2, 2, [])
    assert (tasks.rows_in, tasks.rows_skipped, tasks.records) == (5, 5, [])
    assert reasons(jobs) == [(5, "start_time: missing")]
    a, b, c, d = jobs.records
    assert [r.source_id for r in jobs.records] == ["aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd"]
    assert [(r.submit_time, r.start_time, r.end_time) for r in jobs.records] == [
        (1000, 1030, 1600), (2000, 2001, 2100), (3000, None, None), (4000, None, None),
    ]  # fmt: skip
    assert [(r.state, r.state_text) for r in jobs.records] == [
        (JobState.COMPLETED, "Terminated"), (JobState.FAILED, "Failed"),
        (JobState.RUNNING, "Running"), (JobState.PENDING, "Waiting"),
    ]  # fmt: skip
    assert (a.num_gpus, a.num_cpus, a.user, a.name, a.cluster) == (1, 14, "userX", "groupG", "pai")
    assert a.allocated == (
        Tres("cpu", 14),
        Tres("gres/gpu", 1),
        Tres("gres/gpu:T4", 1),
        Tres("gres/gpu_milli", 1000),
        Tres("mem", 2 * 30000 * 2**20 + 10 * 2**30),
    )
    assert b.num_gpus == 3
    assert {t.name: t.count for t in b.allocated if "gpu" in t.name} == {
        "gres/gpu": 3, "gres/gpu:MISC": 1, "gres/gpu:V100": 2, "gres/gpu_milli": 2750,
    }  # fmt: skip
    assert (b.name, d.name, d.num_gpus, c.allocated) == ("groupH", None, None, ())
    assert c.requested
    assert extra(a) == {
        "inst_id": "11111111", "task_name": "worker,ps", "inst_num": "3",
        "gpu_type_spec": "V100M32", "workload": "nmt",
    }  # fmt: skip


def test_pai_job_table_alone_has_no_resources_and_says_so() -> None:
    (read,) = pai_import(("pai_job_table.csv", JOBS))
    assert [(r.num_gpus, r.start_time, r.allocated) for r in read.records] == [(None, None, ())] * 4
    assert any("no task table" in note for note in read.notes)


def test_pai_tables_with_a_header_are_read_by_it() -> None:
    header = "end_time,status,user,inst_id,job_name,start_time,more\n"
    (read,) = pai_import(("x.csv", header + "1600.0,Terminated,userX,11111111,aaaaaaaa,1000.0,m\n"))
    (record,) = read.records
    assert (record.source_id, record.user, record.submit_time) == ("aaaaaaaa", "userX", 1000)
    assert extra(record)["more"] == "m"


def test_pai_tables_in_the_wrong_order_or_of_another_kind() -> None:
    with pytest.raises(DataError, match="before the job table"):
        pai_import(("jobs", JOBS), ("tasks", TASKS))
    for name, text in (
        ("pai_machine_spec.csv", "82e5,T4,96,512,2\n"),
        ("spec.csv", "82e5,T4,96,512,2\n"),
        ("pai_instance_table.csv", ",".join(map(str, range(9)))),
        ("x.csv", "a,b,c,d,e,f\n1,2,3,4,5,6\n"),
        ("philly.csv", "timestamp,duration,num_gpus,gpu_time,cluster\n"),
        ("tags", "name1,user,,group,\n"),
    ):
        with pytest.raises(DataError, match="not one of PAI's tables"):
            pai_import((name, text))
    names = ["a/pai_job_table.csv", "pai_task_table.csv.gz", "pai_group_tag_table.csv"]
    assert sorted(names, key=pai.order_of) == names[::-1]


# -- openb ------------------------------------------------------------------------------------


def test_openb_shares_of_gpus_and_states() -> None:
    header = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
        "deletion_time,scheduled_time"
    )
    rows = [
        "p0,12000,16384,1,460,,LS,Running,0,100,10",
        "p1,6500,1,2,1000,V100M16,BE,Succeeded,0,100,10",
        "p2,4000,1,1,1000,V100M16|T4,BE,Failed,0,100,10",
        "p3,4000,1,0,0,,Burstable,Pending,0,100,",
        "p4,4000,1,1,1000,,LS,Running,0,,10",
        "p5,4000,1,1,1000,,LS,Pending,0,,",
        "p6,4000,1,1,1000,,LS,Failed,50,40,",
    ]
    read = read_bytes("openb", "\n".join([header, *rows]))
    assert reasons(read) == [(8, "it ends before it begins")]
    share, typed, several, waited, running, pending = read.records
    assert [(r.state, r.state_text) for r in read.records] == [
        (JobState.CANCELLED, "Running"), (JobState.COMPLETED, "Succeeded"),
        (JobState.FAILED, "Failed"), (JobState.CANCELLED, "Pending"),
        (JobState.RUNNING, "Running"), (JobState.PENDING, "Pending"),
    ]  # fmt: skip
    assert (share.num_gpus, share.num_cpus, share.qos, share.source_id) == (1, 12, "LS", "p0")
    assert share.allocated == (
        Tres("cpu", 12), Tres("gres/gpu", 1), Tres("gres/gpu_milli", 460), Tres("mem", 2**34),
    )  # fmt: skip
    assert Tres("gres/gpu:V100M16", 2) in typed.allocated
    assert (typed.num_cpus, extra(typed)) == (7, {"cpu_milli": "6500"})
    assert extra(several) == {"gpu_spec": "V100M16|T4"}
    assert (waited.start_time, waited.allocated, waited.num_gpus) == (None, (), 0)
    assert (running.end_time, pending.requested != ()) == (None, True)


# -- workloads --------------------------------------------------------------------------------


def test_itp_counts_seconds_and_is_named_after_its_file() -> None:
    text = (
        "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
        "bdd640fb-0667-1ad1-1c80-317fa3b1799d,100,3,bert,900,32,4,1000\n"
    )
    read = read_bytes("itp", text, "x/cluster01.csv.gz")
    (record,) = read.records
    assert (record.cluster, record.name, record.num_gpus) == ("itp-cluster01", "bert", 4)
    assert (record.submit_time, record.end_time) == (100, 1100)
    assert record.source_id == "bdd640fb-0667-1ad1-1c80-317fa3b1799d"
    assert extra(record) == {"num_iteration": "3", "deadline": "900", "batch_size": "32"}
    assert any("epoch 0" in note for note in read.notes)


def test_chronus_counts_minutes() -> None:
    text = (
        "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,"
        "expect_value_list,best_effort,job_type\n3,vc_a,4,10,9,vgg16,20,14,1105,10,0,strict\n"
    )
    (record,) = read_bytes("chronus", text, "MIX1.csv").records
    assert (record.submit_time, record.start_time, record.end_time) == (600, 600, 1800)
    assert (record.cluster, record.job_id, record.user, record.tenant) == (
        "chronus-MIX1", 3, "vc_a", "vc_a",
    )  # fmt: skip
    assert extra(record)["expect_time_list"] == "1105"


def test_muri_counts_milliseconds_in_workloads_and_seconds_in_runs() -> None:
    workload = (
        "job_id,num_gpu,submit_time,model_name,duration,priority\n1,8,201694000,dqn,4472936499,0\n"
    )
    (record,) = read_bytes("muri", workload, "trace1.csv").records
    assert (record.submit_time, record.end_time) == (201694, 201694 + 4472936)
    assert (record.cluster, extra(record)) == ("muri-trace1", {"priority": "0"})
    run = (
        "time,job_id,num_gpu,submit_time,start_time,end_time,executed_time,JCT,duration\n"
        "2167.1,1,8,1534.0,1800.001,2167.1,367.1,633.1,281.0\n"
    )
    read = read_bytes("muri", run, "SRTF/job.csv")
    (record,) = read.records
    assert (record.submit_time, record.start_time, record.end_time) == (1534, 1800, 2167)
    assert extra(record)["executed_time"] == "367.1"
    assert extra(record)["duration"] == "281.0"
    assert not any("start times" in note for note in read.notes)


def test_titan_jobs_are_to_be_run() -> None:
    text = "name,submission_time,application,num_gpus,target_lr\nvit@x-0,45,vit@x,4,1e-3\n"
    read = read_bytes("titan", text, "workload-0.csv", cluster="mine")
    (record,) = read.records
    assert (record.state, record.start_time, record.end_time) == (JobState.PENDING, None, None)
    assert (record.cluster, record.name, record.source_id) == ("mine", "vit@x", "vit@x-0")
    assert (record.submit_time, record.num_gpus, extra(record)) == (45, 4, {"target_lr": "1e-3"})
    assert any("no run times" in note for note in read.notes)


def test_elasticflow_keeps_the_deadline() -> None:
    header = "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration"
    text = f"{header}\n0,10,2,ncf,99,64,2,66\n"
    (record,) = read_bytes("elasticflow", text, "philly_1.csv").records
    assert (record.cluster, record.job_id, record.end_time) == ("elasticflow-philly_1", 0, 76)
    assert extra(record) == {"iteration": "2", "ddl": "99", "batch_size": "64"}
