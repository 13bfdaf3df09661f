"""scontrol's output: configuration, nodes, partitions, reservations, cron jobs, errors."""

from __future__ import annotations

import pytest

from gsched.errors import DataError
from gsched.slurm.parse_config import (
    parse_config,
    parse_cron_jobs,
    parse_federation,
    parse_nodes,
    parse_partitions,
    parse_reservations,
    parse_update_errors,
)
from gsched.slurm.records import SlurmConfig


@pytest.fixture
def config(recorded):
    return parse_config(recorded("config.txt"))


def test_configuration(config):
    assert (config.cluster, config.version) == ("bed", (22, 5, 8))
    assert config.get("PriorityType") == "priority/multifactor"
    assert config.get("PrioritySiteFactorPlugin") == ""  # "(null)" as printed
    assert config.values["PrioritySiteFactorPlugin"] == "(null)"
    assert config.get("PowerPlugin") == ""
    assert config.get("NoSuchKey", "x") == "x"
    assert config.get("SLURM_CONF").endswith("/etc/slurm.conf")


@pytest.mark.parametrize(
    ("storage", "has_it"),
    [
        ("accounting_storage/slurmdbd", True),
        ("accounting_storage/none", False),
        ("accounting_storage/filetxt", False),
        ("(null)", False),
        (None, False),
    ],
)
def test_whether_slurmdbd_keeps_the_accounts(storage, has_it):
    values = {} if storage is None else {"AccountingStorageType": storage}
    assert SlurmConfig(values).has_slurmdbd is has_it


@pytest.mark.parametrize(
    ("kind", "has_it"),
    [("jobcomp/filetxt", True), ("jobcomp/none", False), ("(null)", False), (None, False)],
)
def test_whether_ended_jobs_are_written_to_a_file(kind, has_it):
    assert SlurmConfig({} if kind is None else {"JobCompType": kind}).has_jobcomp_file is has_it


def test_flags_and_weights(config):
    assert config.flags("SchedulerParameters") == {"bf_continue": "", "default_queue_depth": "200"}
    assert config.flags("ScronParameters") == {"enable": ""}
    assert config.flags("CliFilterPlugins") == {}
    assert config.weights() == {
        "age": 1000, "assoc": 0, "fairshare": 0, "jobsize": 0, "partition": 1_000_000, "qos": 5000,
    }  # fmt: skip


def test_a_value_may_hold_an_equals_sign(config):
    assert config.get("AuthInfo").startswith("socket=")
    assert config.get("PriorityWeightTRES").startswith("CPU=1000")


def test_no_configuration():
    with pytest.raises(DataError, match="names no cluster"):
        parse_config("Slurmctld(primary) at vm is DOWN\n")


def test_nodes(recorded):
    nodes = {node.name: node for node in parse_nodes(recorded("nodes.txt"))}
    assert list(nodes) == ["gn01", "gn02", "gn03", "gn04"]
    busy = nodes["gn03"]
    assert (busy.state, busy.flags) == ("mixed", ())
    assert busy.gpus == (("a100", 8), ("v100", 4))
    assert busy.num_gpus == 12
    assert busy.gpus_used == 5  # 3 of any type, and two array tasks with one each
    assert (busy.num_cpus, busy.mem_bytes) == (512, 512_000 * 2**20)
    assert busy.partitions == ("gpu", "long")
    assert busy.is_usable


def test_a_reason_cannot_pass_for_a_state(recorded):
    """gn02's Reason is "fan State=IDLE broken"."""
    node = parse_nodes(recorded("nodes.txt"))[1]
    assert (node.state, node.flags, node.is_usable) == ("idle", ("drain",), False)


def test_gpus_in_use_without_detail_come_from_the_allocation():
    node, = parse_nodes(
        "NodeName=n1 CPUTot=8 Gres=gpu:4(S:0-1) RealMemory=1000 State=MIXED Partitions=a,b  "
        "CfgTRES=cpu=8 AllocTRES=cpu=2,gres/gpu=3,gres/gpu:a100=3 ActiveFeatures=ib,nvme\n"
    )  # fmt: skip
    assert (node.gpus, node.gpus_used, node.num_cpus) == ((("", 4),), 3, 8)
    assert node.features == ("ib", "nvme")


def test_a_node_with_little_to_say():
    node, = parse_nodes("NodeName=cloud01 Gres=(null) State=IDLE~+CLOUD")  # fmt: skip
    assert (node.gpus, node.num_cpus, node.state) == ((), 0, "idle")
    assert node.flags == ("powered_down", "cloud")


def test_partitions(recorded):
    gpu, long, closed = parse_partitions(recorded("partitions.txt"))
    assert (gpu.name, gpu.is_default, gpu.is_up) == ("gpu", True, True)
    assert gpu.nodes == ("gn01", "gn02", "gn03", "gn04")
    assert (gpu.max_time_s, gpu.max_nodes) == (None, None)
    assert (long.is_default, long.max_time_s, long.max_nodes) == (False, 7 * 86400, 2)
    assert long.nodes == ("gn03", "gn04")
    assert (closed.name, closed.is_up) == ("closed", False)


def test_accounts_of_a_partition():
    text = "PartitionName=a AllowAccounts=lab1,lab2 AllowQos=ALL\nPartitionName=b AllowAccounts=ALL"
    named, open_to_all, denied = parse_partitions(f"{text}\nPartitionName=c DenyAccounts=lab3\n")
    assert (named.allow_accounts, named.deny_accounts) == (("lab1", "lab2"), ())
    assert (open_to_all.allow_accounts, open_to_all.deny_accounts) == ((), ())
    assert (denied.allow_accounts, denied.deny_accounts) == ((), ("lab3",))


def test_groups_and_qos_of_a_partition():
    text = "PartitionName=a AllowGroups=ALL AllowQos=ALL\nPartitionName=b AllowGroups=g1,g2 "
    open_to_all, named, denied = parse_partitions(
        f"{text}AllowQos=high,normal\nPartitionName=c AllowGroups=ALL DenyQos=low\n"
    )
    told = [(p.allow_groups, p.allow_qos, p.deny_qos) for p in (open_to_all, named, denied)]
    assert told == [((), (), ()), (("g1", "g2"), ("high", "normal"), ()), ((), (), ("low",))]


def test_the_tier_of_a_partition():
    tiers = ("PriorityTier=0", "PriorityTier=65533", "PriorityTier=N/A", "X=1")
    text = "\n".join(f"PartitionName=p {tier}" for tier in tiers)
    assert [p.tier for p in parse_partitions(text)] == [0, 65533, 1, 1]


def test_reservations(recorded):
    course, week = parse_reservations(recorded("reservations.txt"))
    assert (course.name, course.users, course.accounts) == ("course", ("root", "games"), ())
    assert course.end_time - course.start_time == 2 * 3600
    assert (week.name, week.nodes, week.accounts) == ("lab1_week", ("gn04",), ("lab1",))
    assert week.end_time - week.start_time == 5 * 86400


def test_no_reservations():
    assert parse_reservations("No reservations in the system\n") == ()


def test_a_reservation_without_times():
    with pytest.raises(DataError, match="r1 has no start or end time"):
        parse_reservations("ReservationName=r1 StartTime=Unknown EndTime=1700000000 Nodes=n1\n")


def test_scrontab_jobs(recorded):
    """5048 is the real one. The name of 37 imitates a line of job 1 that ends in CronJob=Yes."""
    assert 37 not in parse_cron_jobs(recorded("jobs.txt"))
    assert 1 not in parse_cron_jobs(recorded("jobs.txt"))
    assert parse_cron_jobs(recorded("jobs.txt")) == {5048}


def test_nobody_can_make_a_cron_job_of_another_users_job():
    own = "JobId=9 JobName=x\nJobId=8 JobName=y CronJob=Yes z UserId=eve(9) JobState=PENDING\n"
    other = "JobId=8 JobName=train UserId=ann(8) JobState=PENDING\n"
    for text in (own + other, other + own):
        assert parse_cron_jobs(text) == frozenset()


def test_no_jobs_at_all():
    assert parse_cron_jobs("No jobs in the system\n") == frozenset()


def test_errors_of_updates_by_job():
    stderr = (
        "scontrol: warning: something else\n"
        "39_9: Invalid job id specified\n"
        "Invalid job id specified for job 40+7\n"
        "Access/permission denied for job 12\n"
        "Job has already finished for job 26\n"
    )
    assert parse_update_errors(stderr) == {
        "39_9": "Invalid job id specified",
        "40+7": "Invalid job id specified",
        "12": "Access/permission denied",
        "26": "Job has already finished",
    }


@pytest.mark.parametrize("told", ["jobs,usage", "Jobs, usage", " usage ,JOBS"])
def test_what_private_data_hides(told):
    config = SlurmConfig({"PrivateData": told})
    assert config.hides("jobs")
    assert config.hides("accounts", "usage")
    assert not config.hides("accounts", "job")
    for nothing in ({}, {"PrivateData": "none"}, {"PrivateData": "(null)"}):
        assert not SlurmConfig(nothing).hides("jobs", "usage", "reservations")


def test_federation():
    member = (
        "Federation: union\nSelf:       testbed:127.0.0.1:23040 ID:1 FedState:ACTIVE Features:\n"
    )
    assert parse_federation(member) == "union"
    assert parse_federation("") == ""
