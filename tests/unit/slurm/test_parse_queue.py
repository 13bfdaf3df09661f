"""squeue's output, recorded and made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.errors import DataError
from gsched.model.history import Tres
from gsched.model.job import UNLIMITED_S, GpuOption, JobState
from gsched.slurm.fields import new_separator, split_records
from gsched.slurm.parse_queue import (
    FREE_TEXT_FIELDS,
    PINNED_FIELDS,
    QUEUE_FIELDS,
    parse_free_text,
    parse_pinned,
    parse_queue,
    squeue_format,
)
from gsched.slurm.records import FreeText

SEPARATOR = "\x1ftest\x1e"


@pytest.fixture
def listing(recorded, separator):
    return parse_queue(recorded("squeue.txt"), separator)


@pytest.fixture
def by_name(listing, recorded, separator):
    texts = parse_free_text(recorded("squeue-text.txt"), separator)
    return {texts[row.raw_id].name: row for row in listing.rows}


@pytest.fixture
def without_slurmdbd(recorded, separator):
    return {row.raw_id: row for row in
            parse_queue(recorded("squeue-without-slurmdbd.txt"), separator).rows}  # fmt: skip


def job(**fields):
    """The fields of a plain pending job, some changed, as squeue would print them."""
    values = dict.fromkeys(QUEUE_FIELDS, "N/A") | {
        "JobID": "7", "JobArrayID": "7", "ArrayJobID": "7", "State": "PENDING", "Reason": "None",
        "UserName": "ann", "Account": "(null)", "QOS": "normal", "Partition": "gpu",
        "PriorityLong": "1000", "Nice": "0", "SubmitTime": "1700000000", "TimeLimit": "10:00",
        "NumNodes": "1", "MaxNodes": "1", "NumCPUs": "1", "tres-alloc": "cpu=1,mem=1000M,node=1",
        "NumTasks": "1", "Sockets": "*", "RestartCnt": "0", "BatchFlag": "1", "Requeue": "1",
        "NodeList": "",
    }  # fmt: skip
    assert fields.keys() <= values.keys()
    return [value for _, value in sorted((values | fields).items(),
                                         key=lambda item: QUEUE_FIELDS.index(item[0]))]  # fmt: skip


def printed(*records, separator=SEPARATOR):
    return "".join("".join(f"{field}{separator}" for field in r) + "\n" for r in records)


def only_row(**fields):
    listing = parse_queue(printed(job(**fields)), SEPARATOR)
    assert listing.rejects == ()
    return listing.rows[0]


def test_every_recorded_job_is_understood(listing, recorded, separator):
    records = recorded("squeue.txt").count(separator) // len(QUEUE_FIELDS)
    assert (len(listing.rows), listing.rejects) == (records, ())
    assert {row.state for row in listing.rows} == {
        JobState.PENDING, JobState.RUNNING, JobState.COMPLETED, JobState.CANCELLED,
        JobState.FAILED, JobState.TIMEOUT,
    }  # fmt: skip


def test_a_running_job(by_name):
    row = by_name["run-typed"]
    assert (row.state, row.node_list, row.num_gpus) == (JobState.RUNNING, "gn01", 2)
    assert row.gpu_options == (GpuOption("a100", 2),)
    assert row.time_limit_s == 600
    assert row.end_time == row.start_time + 600
    assert Tres("gres/gpu:a100", 2) in row.tres
    assert Tres("mem", 1000 * 2**20) in row.tres
    assert (row.user, row.tenant, row.qos, row.partitions) == ("root", "root", "normal", ("gpu",))


def test_a_time_limit_in_days(by_name):
    assert by_name["run-any"].time_limit_s == 86400 + 2 * 3600 + 4 * 60


@pytest.mark.parametrize(
    ("name", "num_gpus", "options"),
    [
        ("two-nodes", 16, [GpuOption("a100", 16)]),
        ("mixed-types", 3, [GpuOption("a100", 2), GpuOption("v100", 1)]),
        ("per-task", 4, [GpuOption("a100", 4)]),
        ("per-socket", 8, [GpuOption(None, 8)]),
        ("two-gres", 3, [GpuOption("a100", 1), GpuOption("v100", 2)]),
        ("bare-gpu", 1, [GpuOption(None, 1)]),
        ("wide", 0, []),
        ("shards", 0, []),
    ],
)
def test_gpus_where_the_cluster_accounts_for_them(by_name, name, num_gpus, options):
    assert by_name[name].num_gpus == num_gpus
    assert list(by_name[name].gpu_options) == options


@pytest.mark.parametrize(
    ("raw_id", "num_gpus", "options"),
    [
        (27, 3, [GpuOption("a100", 3)]),  # --gres=gpu:a100:3
        (28, 5, [GpuOption(None, 5)]),  # -N2 --gpus=5
        (29, 16, [GpuOption(None, 16)]),  # -N2 --gpus=16 --gpus-per-node=8: not 32
        (30, 16, [GpuOption("a100", 16)]),  # -N2 --gpus-per-node=a100:8
        (31, 6, [GpuOption(None, 6)]),  # -n3 --gpus-per-task=2
        (32, 8, [GpuOption("a100", 8)]),  # -N2 --sockets-per-node=2 --gpus-per-socket=a100:2
        (33, 1, [GpuOption(None, 1)]),  # --gres=gpu
        (34, 0, []),
    ],
)
def test_gpus_from_the_request_where_it_does_not(without_slurmdbd, raw_id, num_gpus, options):
    assert without_slurmdbd[raw_id].num_gpus == num_gpus
    assert list(without_slurmdbd[raw_id].gpu_options) == options


def test_a_site_that_accounts_for_gpus_but_not_for_types():
    row = only_row(**{"tres-alloc": "cpu=1,gres/gpu=2", "tres-per-node": "gres/gpu:a100:2"})
    assert (row.num_gpus, row.gpu_options) == (2, (GpuOption("a100", 2),))


def test_a_type_that_is_not_accounted_for_stays_in_the_total():
    row = only_row(**{"tres-alloc": "cpu=1,gres/gpu=3,gres/gpu:a100=2"})
    assert (row.num_gpus, row.gpu_options) == (3, (GpuOption("a100", 2), GpuOption(None, 1)))


def test_shards_are_no_gpus(by_name):
    assert (by_name["shards"].shards, by_name["shards"].num_gpus) == (3, 0)
    row = only_row(**{"tres-per-node": "gres:shard:3", "tres-alloc": "cpu=2,node=2"})
    assert (row.shards, row.num_gpus) == (6, 0)


def test_gpus_per_socket_and_per_task_are_multiplied():
    fields = {"tres-per-socket": "gres:gpu:2", "tres-alloc": "cpu=1,node=3", "Sockets": "2"}
    assert only_row(**fields).num_gpus == 12
    assert only_row(**fields | {"Sockets": "*"}).num_gpus == 6
    fields = {"tres-per-task": "gres/gpu=2", "NumTasks": "5"}
    assert only_row(**fields).num_gpus == 10
    assert only_row(**fields | {"NumTasks": "N/A"}).num_gpus == 2


def test_gpus_that_each_node_must_give():
    assert only_row(**{"tres-per-node": "gres:gpu:8"}).gpus_per_node == 8
    assert only_row(**{"tres-per-node": "gres/gpu:a100:2,gres/gpu:v100:1"}).gpus_per_node == 3
    # --gres=gpu:1,gpu:2: Slurm takes the last
    row = only_row(**{"tres-per-node": "gres:gpu:1,gres:gpu:2", "tres-alloc": "cpu=2,node=1"})
    assert (row.gpus_per_node, row.num_gpus) == (2, 2)
    both = {"tres-per-job": "gres:gpu:16", "tres-per-node": "gres:gpu:8"}
    assert only_row(**both).gpus_per_node == 8
    for name in ("tres-per-job", "tres-per-task", "tres-per-socket"):
        assert only_row(**{name: "gres:gpu:16"}).gpus_per_node == 0
    assert only_row(**{"tres-per-node": "gres:shard:3"}).gpus_per_node == 0


def test_what_slurm_does_not_say():
    fields = {"tres-alloc": "N/A", "NumNodes": "N/A", "NumCPUs": "N/A", "RestartCnt": "N/A"}
    row = only_row(**fields)
    assert (row.min_nodes, row.num_cpus, row.restarts, row.mem_bytes) == (1, 0, 0, 0)


def test_sizes(by_name):
    assert by_name["wide"].num_cpus == 2000
    row = by_name["range"]
    assert (row.min_nodes, row.max_nodes, row.mem_bytes) == (2, 4, 6 * 2**30)
    row = only_row(NumNodes="2K", MaxNodes="0", NumCPUs="4096", **{"tres-alloc": "N/A"})
    assert (row.min_nodes, row.max_nodes, row.num_cpus) == (2048, 2048, 4096)
    # 24.11 shows the most that -N2-3 could have
    row = only_row(NumNodes="3", MaxNodes="3", **{"tres-alloc": "cpu=1,node=2"})
    assert (row.min_nodes, row.max_nodes) == (2, 3)


def test_arrays(listing, by_name):
    array = by_name["arr"].job_id
    rows = [row for row in listing.rows if row.job_id == array and not row.is_unsplit_array]
    running = {row.array_task: row for row in rows}
    assert running.keys() == {1, 2}
    assert running[1].slurm_id == f"{array}_1"
    assert running[1].state is JobState.RUNNING
    assert running[1].raw_id != running[1].job_id
    for name, tasks in (("dep", "1,5,9-11"), ("single", "5"), ("striped", "0-999:3")):
        row = by_name[name]
        assert (row.is_unsplit_array, row.array_tasks, row.array_task) == (True, tasks, None)
        assert row.slurm_id == str(row.job_id)


def test_heterogeneous_components(listing):
    components = [row for row in listing.rows if row.het_offset is not None]
    leader = min(row.raw_id for row in components)
    assert [row.slurm_id for row in sorted(components, key=lambda row: row.raw_id)] == [
        f"{leader}+0",
        f"{leader}+1",
    ]
    assert {row.job_id for row in components} == {leader}


def test_what_a_pending_job_says_about_itself(by_name):
    held = by_name["high"]
    assert (held.priority, held.reason, held.qos, held.user) == (0, "JobHeldUser", "high", "games")
    assert held.eligible_time is None
    later = by_name["later"]
    assert later.reason == "BeginTime"
    assert later.eligible_time == later.start_time == later.submit_time + 3600
    assert by_name["mixed-types"].partitions == ("gpu", "long")
    assert by_name["lic"].licences == "matlab:2"
    assert by_name["course"].reservation == "course"
    assert by_name["moved"].nice == 40
    assert by_name["dep"].dependency == ""  # satisfied when this was recorded
    assert by_name["requeued"].restarts == 1


def test_interactive_jobs_and_those_that_may_not_be_requeued(by_name):
    assert by_name["two-nodes"].is_batch
    assert not by_name["alloc"].is_batch
    assert by_name["two-nodes"].can_requeue
    assert not by_name["j.sh"].can_requeue  # submitted with --no-requeue


def test_no_limit_has_one_value():
    """Slurm prints a year for a job that it started without limit."""
    assert only_row(TimeLimit="UNLIMITED").time_limit_s == UNLIMITED_S
    assert only_row(TimeLimit="365-00:00:00").time_limit_s == UNLIMITED_S
    assert only_row(TimeLimit="364-00:00:00").time_limit_s == 364 * 86400
    assert only_row(TimeLimit="NOT_SET").time_limit_s is None


def test_an_unknown_state_is_kept_as_text():
    row = only_row(State="EXPEDITING")
    assert (row.state, row.state_text) == (JobState.UNKNOWN, "EXPEDITING")


hostile = st.text(
    alphabet=st.one_of(st.sampled_from("\n|,:=\x1f\x1e\x00()"), st.characters()), max_size=40
).filter(lambda text: SEPARATOR not in text and "(null)" not in text and text != "N/A")


@given(st.lists(hostile, min_size=1, max_size=5))
def test_free_text_cannot_shift_a_column(accounts):
    """Account is the user's own text on a cluster without slurmdbd."""
    jobs = [job(JobID=str(n), Account=text) for n, text in enumerate(accounts, 1)]
    listing = parse_queue(printed(*jobs), SEPARATOR)
    assert listing.rejects == ()
    assert [row.tenant for row in listing.rows] == accounts
    assert [row.raw_id for row in listing.rows] == list(range(1, len(accounts) + 1))
    assert {row.num_cpus for row in listing.rows} == {1}


@given(st.lists(st.tuples(hostile, hostile), max_size=5))
def test_names_and_comments_come_back(texts):
    records = [(str(n), *pair) for n, pair in enumerate(texts, 1)]
    assert len(FREE_TEXT_FIELDS) == 3
    parsed = parse_free_text(printed(*records), SEPARATOR)
    assert [(text.name, text.comment) for text in parsed.values()] == texts


def test_recorded_names_and_comments(recorded, separator):
    texts = parse_free_text(recorded("squeue-text.txt"), separator)
    evil = next(text for text in texts.values() if text.name.startswith("evil"))
    assert evil.name == (
        "evil\nJobId=1 JobName=x\nname|x\x1fy é \ufffd CronJob=Yes JobState=FAILED"
    )
    assert evil.comment == 'hi|there\n{"tool": 1}'
    assert {text.comment for text in texts.values()} >= {"", "note gs1{none}"}


def test_a_broken_record_is_a_reject_and_the_others_stay():
    listing = parse_queue(
        printed(job(JobID="1"), job(JobID="x"), job(JobID="3", SubmitTime="N/A"),
                job(JobID="4", **{"tres-alloc": "cpu"}), job(JobID="5")),
        SEPARATOR,
    )  # fmt: skip
    assert [row.raw_id for row in listing.rows] == [1, 5]
    assert [reject.line for reject in listing.rejects] == [2, 3, 4]
    assert "no submit time" in listing.rejects[1].reason
    assert listing.rejects[2].raw.startswith("4|7|7|N/A")


def test_an_output_that_was_cut_off_is_no_listing():
    """The jobs behind the cut would look as if they had left."""
    whole = printed(job(JobID="1"), job(JobID="2"))
    with pytest.raises(DataError, match="cut short"):
        parse_queue(whole[: whole.rindex("normal")], SEPARATOR)


def test_a_last_record_with_fields_missing_is_a_reject():
    listing = parse_queue(printed(job(JobID="1"), job(JobID="2")[:-1]), SEPARATOR)
    assert [row.raw_id for row in listing.rows] == [1]
    assert "fields instead of" in listing.rejects[0].reason


def test_records_out_of_step_are_not_read_at_all():
    """A squeue that prints other fields than it was asked for must not shift users' columns."""
    with pytest.raises(DataError, match="fields a record"):
        list(split_records(printed(["1", "2", "3"], ["4", "5", "6"]), SEPARATOR, 2))


@pytest.mark.parametrize(
    "text", [f"1{SEPARATOR}name{SEPARATOR}", printed(("1", "name")), printed(("x", "name", ""))]
)
def test_free_text_in_disorder_is_an_error(text):
    with pytest.raises(DataError, match=r"broken record|cut short"):
        parse_free_text(text, SEPARATOR)


def test_no_jobs():
    assert parse_queue("", SEPARATOR).rows == ()
    assert parse_free_text("", SEPARATOR) == {}


def test_the_format_asks_for_each_field_with_the_separator():
    assert squeue_format(["JobID", "Name"], "\x1fx\x1e") == "JobID:\x1fx\x1e,Name:\x1fx\x1e"


def test_separators_differ_and_suit_squeue():
    separators = {new_separator() for _ in range(100)}
    assert len(separators) == 100
    assert not any(set(separator) & set(",:.0") - set("0123456789") for separator in separators)


def test_slurm_id_of_rows(by_name):
    row = by_name["run-typed"]
    assert row.slurm_id == str(row.job_id)
    assert replace(row, array_task=0).slurm_id == f"{row.job_id}_0"


def test_names_and_comments_in_the_same_call(recorded, separator):
    """One squeue for a view: the texts stand behind the fields of their own record."""
    listing = parse_queue(recorded("squeue.txt"), separator)
    texts = [("a name\nwith | all", "(null)"), ("", 'a "comment"')]
    fields = recorded("squeue.txt").split(separator)
    width = len(QUEUE_FIELDS)
    records = [fields[begin : begin + width] for begin in (0, width)]
    joined = separator.join(
        field for record, pair in zip(records, texts, strict=True) for field in (*record, *pair)
    )
    both = parse_queue(joined + separator + "\n", separator, with_texts=True)
    assert both.rows == listing.rows[:2]
    assert both.rejects == ()
    assert list(both.texts.values()) == [
        FreeText("a name\nwith | all", ""),
        FreeText("", 'a "comment"'),
    ]
    assert list(both.texts) == [row.raw_id for row in both.rows]


def test_jobs_that_name_nodes():
    assert len(PINNED_FIELDS) == 2
    text = printed(("7", ""), ("8", "gn[01-02]"), ("9", "(null)"), ("10", " "), ("x", "gn01"))
    assert parse_pinned(text, SEPARATOR) == {8}
    assert parse_pinned("", SEPARATOR) == frozenset()
