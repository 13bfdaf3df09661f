"""sacct's output."""

from __future__ import annotations

import pytest

from gsched.model.history import Tres
from gsched.model.job import UNLIMITED_S, JobState
from gsched.slurm.parse_sacct import FIELDS, parse_sacct, sacct_argv

SEPARATOR = "\x1ftest\x1e"
T0 = 1_700_000_000


@pytest.fixture
def batch(recorded, separator):
    return parse_sacct(recorded("sacct.txt"), separator, counts_gpus=True)


@pytest.fixture
def attempts(batch):
    """Attempts by name, in the order of the output."""
    found = {}
    for record in batch.records:
        found.setdefault(record.name, []).append(record)
    return found


def row(**fields):
    values = dict.fromkeys(FIELDS, "") | {
        "JobIDRaw": "7", "JobID": "7", "Cluster": "c", "User": "ann", "Account": "lab",
        "Partition": "gpu", "QOS": "normal", "JobName": "train", "State": "COMPLETED",
        "Submit": str(T0), "Eligible": str(T0), "Start": str(T0 + 60), "End": str(T0 + 160),
        "Timelimit": "01:00:00", "NNodes": "1", "NCPUS": "4",
        "ReqTRES": "billing=4,cpu=4,gres/gpu=2,mem=1000M,node=1",
        "AllocTRES": "billing=4,cpu=4,gres/gpu:a100=2,gres/gpu=2,mem=1000M,node=1",
        "ExitCode": "0:0", "NodeList": "gn01",
    }  # fmt: skip
    assert fields.keys() <= values.keys()
    return "".join(f"{(values | fields)[name]}{SEPARATOR}" for name in FIELDS) + "\n"


def only(text, **options):
    batch = parse_sacct(text, SEPARATOR, **{"counts_gpus": True} | options)
    assert batch.rejects == ()
    return batch.records[0]


def test_rows_in_are_rows_out(batch, recorded, separator):
    rows = recorded("sacct.txt").count(separator) // len(FIELDS)
    assert batch.rows_in == rows + 3  # one of them stands for four tasks
    assert batch.rejects == ()
    assert len(batch.records) + batch.rows_skipped == batch.rows_in
    assert batch.rows_skipped == 3  # arrays that waited as a whole
    assert {record.cluster for record in batch.records} == {"bed"}
    assert {record.source for record in batch.records} == {"sacct"}


def test_a_requeued_job_has_two_attempts(attempts):
    first, second = attempts["requeued"][-2:]
    assert first.job_id == second.job_id
    assert first.submit_time < second.submit_time  # Slurm moves the submit time
    assert (first.state, second.state) == (JobState.REQUEUED, JobState.COMPLETED)
    assert first.end_time is not None


def test_exit_codes_and_signals(attempts):
    assert (attempts["ended"][0].exit_code, attempts["ended"][0].exit_signal) == (3, 0)
    assert (attempts["segv"][0].exit_code, attempts["segv"][0].exit_signal) == (0, 11)


def test_running_and_pending_jobs_are_kept(attempts):
    running = attempts["run-typed"][-1]
    assert (running.state, running.end_time, running.num_gpus) == (JobState.RUNNING, None, 2)
    assert running.node_list == "gn01"
    waiting = attempts["two-nodes"][0]
    assert (waiting.state, waiting.start_time, waiting.node_list) == (JobState.PENDING, None, None)
    assert (waiting.num_gpus, waiting.num_nodes) == (16, 2)
    assert waiting.allocated == ()
    assert Tres("gres/gpu:a100", 16) in waiting.requested


def test_a_job_cancelled_before_its_start_has_none(attempts):
    """Slurm gives its end for a start."""
    for name in ("never", "never-eligible"):
        record = attempts[name][0]
        assert (record.state, record.start_time) == (JobState.CANCELLED, None)
        assert record.end_time is not None
    assert attempts["never-eligible"][0].eligible_time is None
    assert attempts["never"][0].state_text == "CANCELLED by 0"


def test_arrays_and_time_limits(attempts):
    whole, tasks = attempts["arr"][:4], attempts["arr"][4:]
    assert [record.array_task for record in tasks] == [1, 2]
    assert tasks[0].time_limit_s == UNLIMITED_S
    # an array that was cancelled while it waited as a whole has one row, for all its tasks
    assert [record.array_task for record in whole] == [1, 2, 3, 4]
    assert {(r.job_id, r.state, r.start_time, r.extra) for r in whole} == {
        (7, JobState.CANCELLED, None, None)
    }
    assert attempts["run-any"][0].time_limit_s == 86400 + 2 * 3600 + 4 * 60
    assert attempts["läng|"][0].state is JobState.TIMEOUT


def test_hostile_names_stay_whole(attempts):
    """slurmdbd itself turns what is no UTF-8 into question marks."""
    evil = "evil\nJobId=1 JobName=x\nname|x\x1fy é ? CronJob=Yes JobState=FAILED"
    assert len(attempts[evil]) == 1
    assert "läng|" in attempts


def test_gpus_where_the_site_does_not_account_for_them():
    """No gres/gpu in its TRES says nothing then: not zero."""
    text = row(ReqTRES="cpu=4,mem=1000M", AllocTRES="cpu=4,mem=1000M")
    assert only(text, counts_gpus=True).num_gpus == 0
    assert only(text, counts_gpus=False).num_gpus is None


def test_gpus_with_several_types():
    text = row(AllocTRES="cpu=4,gres/gpu:a100=2,gres/gpu:v100=1,gres/gpu=3")
    assert only(text).num_gpus == 3


def test_an_unknown_state_is_kept():
    record = only(row(State="EXPEDITING"))
    assert (record.state, record.state_text) == (JobState.UNKNOWN, "EXPEDITING")
    assert record.start_time == T0 + 60


def test_het_components_and_steps():
    assert only(row(JobIDRaw="8", JobID="7+1")).het_offset == 1
    batch = parse_sacct(row() + row(JobID="7.batch") + row(JobID="8_[1-4%2]", State="PENDING"),
                        SEPARATOR, counts_gpus=True)  # fmt: skip
    assert (len(batch.records), batch.rows_in, batch.rows_skipped) == (1, 3, 2)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"JobID": "seven"}, "not a job id"),
        ({"Submit": "Unknown"}, "no submit time"),
        ({"Start": "2026-11-29T13:00:00"}, "not an epoch time"),
        ({"Timelimit": "soon"}, "not a Slurm time"),
        ({"AllocTRES": "cpu"}, "not a TRES"),
        ({"ExitCode": "7"}, "not an exit code"),
        ({"NCPUS": "x"}, "not a count"),
    ],
)
def test_what_is_not_understood_is_kept_and_counted(fields, reason):
    batch = parse_sacct(row() + row(**fields) + row(), SEPARATOR, counts_gpus=True)
    assert (len(batch.records), batch.rows_in) == (2, 3)
    reject, = batch.rejects  # fmt: skip
    assert (reject.source, reject.line) == ("sacct", 2)
    assert reason in reject.reason
    assert next(iter(fields.values())) in reject.raw


def test_empty_fields_say_nothing():
    record = only(row(User="", Account="", Partition="", QOS="", NNodes="", NCPUS="", ExitCode=""))
    assert (record.user, record.tenant, record.partition, record.qos) == (None,) * 4
    assert (record.num_nodes, record.num_cpus, record.exit_code) == (None,) * 3
    record = only(row())
    assert (record.user, record.tenant, record.partition, record.qos) == (
        "ann", "lab", "gpu", "normal")  # fmt: skip


def test_the_window_is_given_in_utc():
    argv = sacct_argv(0, 86400, SEPARATOR)
    assert argv[argv.index("-S") + 1] == "1970-01-01T00:00:00"
    assert argv[argv.index("-E") + 1] == "1970-01-02T00:00:00"
    assert {"-D", "-a", "-X"} <= set(argv)
