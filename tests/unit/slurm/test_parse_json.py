"""Slurm's JSON in every shape that a release has given a value, and in none."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.errors import DataError
from gsched.model.job import UNLIMITED_S, GpuOption, JobState
from gsched.slurm import parse_json_values as values
from gsched.slurm.parse_detail import parse_job_json
from gsched.slurm.parse_json import parse_nodes_json, parse_squeue_json
from gsched.slurm.sacct_json import parse_sacct_json

JOB = {
    "job_id": 7, "job_state": ["PENDING"], "submit_time": 1700000000, "user_name": "ann",
    "partition": "gpu", "tres_req_str": "cpu=1,mem=1000M,node=1,gres/gpu=2", "time_limit": 10,
    "requeue": True, "batch_flag": True, "name": "train",
}  # fmt: skip
ATTEMPT = {
    "job_id": 7, "state": {"current": ["COMPLETED"]}, "time": {"submission": 1700000000},
    "cluster": "c", "nodes": "gn01", "tres": {"allocated": [], "requested": []},
}  # fmt: skip


def document(*records, key="jobs", **more):
    return json.dumps({key: list(records), "errors": [], "warnings": [], **more})


def wrapped(number):
    return {"set": True, "infinite": False, "number": number}


NOTHING = [None, {}, [], "", {"set": False, "infinite": False, "number": 0}, 0xFFFFFFFE]
INFINITE = [{"set": False, "infinite": True, "number": 0}, 0xFFFFFFFF]


def row_of(**fields):
    listing = parse_squeue_json(document(JOB | fields))
    assert listing.rejects == ()
    return listing.rows[0]


def attempt_of(**fields):
    batch = parse_sacct_json(document(ATTEMPT | fields), counts_gpus=True)
    assert batch.rejects == ()
    return batch.records[0]


# -- numbers, texts, lists ------------------------------------------------------------------


@pytest.mark.parametrize("shape", [5, "5", 5.0, wrapped(5), wrapped("5")])
def test_a_number_in_every_shape(shape):
    assert values.number(shape) == 5


@pytest.mark.parametrize("shape", NOTHING)
def test_no_number(shape):
    assert values.number(shape, infinite=9) is None
    assert values.moment(shape) is None
    assert values.count(shape, 3) == 3


@pytest.mark.parametrize("shape", INFINITE)
def test_an_infinite_number(shape):
    assert values.number(shape, infinite=9) == 9
    assert values.number(shape) is None


@pytest.mark.parametrize(
    "shape",
    ["x", "1e3", "٣", 1.5, math.inf, math.nan, True, [1], [[]], wrapped([3]), 2**63, "9" * 30],
)
def test_what_is_no_number(shape):
    with pytest.raises(DataError):
        values.number(shape)


def test_a_count_is_not_negative():
    assert values.number(-3) == -3  # a nice value may be
    with pytest.raises(DataError, match="negative"):
        values.count(-3)


def test_texts():
    assert [values.text(shape) for shape in (None, {}, [], "")] == [""] * 4
    assert values.text(0) == "0"
    assert values.text("a\ud800b") == "a\ufffdb"
    for shape in (True, 1.5, ["a"], {"a": 1}):
        with pytest.raises(DataError, match="not a text"):
            values.text(shape)


def test_words():
    assert values.words("a,b") == values.words(["a", "b"]) == ("a", "b")
    assert values.words(None) == values.words({}) == values.words("") == ()
    with pytest.raises(DataError):
        values.words([["a"]])


# -- documents ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not the JSON"),
        ("{", "not the JSON"),
        ("[" * 100_000, "not the JSON"),
        ('{"jobs": [' + "9" * 5000 + "]}", "not the JSON"),
        ("[]", "is a list"),
        ("{}", "has no jobs"),
        ('{"jobs": 3}', "not a list"),
        ('{"jobs": [], "errors": [{"error": "Busy", "description": "later"}]}', "Busy: later"),
        ('{"errors": ["plain"]}', "plain"),
    ],
)
def test_what_is_no_document(text, message):
    with pytest.raises(DataError, match=message):
        parse_squeue_json(text)


def test_a_document_that_is_too_long(monkeypatch):
    monkeypatch.setattr(values, "MAX_CHARS", 100)
    with pytest.raises(DataError, match="longer than 100"):
        parse_squeue_json(document(JOB))


@pytest.mark.parametrize("empty", [[], {}, None])
def test_no_records(empty):
    """slurmdb's warning that nothing was found is no complaint."""
    found = [{"description": "found nothing", "source": "_dump_jobs"}]
    text = json.dumps({"jobs": empty, "warnings": found})
    assert parse_squeue_json(text).rows == parse_squeue_json(text).rejects == ()
    assert parse_sacct_json(text, counts_gpus=True).rows_in == 0


def test_complaints_beside_records_are_reported():
    text = document(JOB, errors=[{"error": "Busy"}], warnings=[{"description": "old"}])
    listing = parse_squeue_json(text)
    assert len(listing.rows) == 1
    assert [(r.line, r.reason) for r in listing.rejects] == [(0, "Busy"), (0, "old")]
    with pytest.raises(DataError, match="Busy"):
        parse_nodes_json(document({"name": "gn01", "state": "idle"}, key="nodes", errors=["Busy"]))


@pytest.mark.parametrize(
    ("meta", "parser"),
    [
        ({"plugin": {"type": "openapi/v0.0.38"}}, "v0.0.38"),
        ({"plugin": {"type": "", "data_parser": "data_parser/v0.0.42"}}, "v0.0.42"),
        ({"plugins": {"data_parser": "data_parser/v0.0.39"}}, "v0.0.39"),
        ({"plugin": {"data_parser": "data_parser/v0.9.99"}}, "v0.9.99"),
        ([], ""),
        (None, ""),
    ],
)
def test_any_version_of_the_parser_is_read(meta, parser):
    text = document(JOB, meta=meta)
    assert values.load(text, "jobs").parser == parser
    assert len(parse_squeue_json(text).rows) == 1
    [reject] = parse_sacct_json(document(3, meta=meta), counts_gpus=True).rejects
    assert reject.source == f"sacct --json {parser}".rstrip()


# -- jobs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["job_id", "submit_time", "job_state"])
@pytest.mark.parametrize("shape", ["absent", None, {}, {"set": False}])
def test_a_record_without_what_names_it_is_a_reject(field, shape):
    broken = {k: v for k, v in JOB.items() if k != field}
    if shape != "absent":
        broken[field] = shape
    listing = parse_squeue_json(document(JOB, broken, JOB | {"job_id": 8}))
    assert [row.raw_id for row in listing.rows] == [7, 8]
    [reject] = listing.rejects
    assert (reject.source, reject.line) == ("squeue --json", 2)
    assert json.loads(reject.raw) == broken


@pytest.mark.parametrize("junk", [None, 3, "job", [], [JOB]])
def test_a_record_that_is_none(junk):
    listing = parse_squeue_json(document(junk))
    assert (listing.rows, len(listing.rejects)) == ((), 1)


def test_the_raw_text_of_a_reject_is_bounded():
    [reject] = parse_squeue_json(document({"comment": "x" * 100_000})).rejects
    assert len(reject.raw) == 2000


@pytest.mark.parametrize(
    ("shape", "state", "text"),
    [
        ("RUNNING", JobState.RUNNING, "RUNNING"),
        (["RUNNING"], JobState.RUNNING, "RUNNING"),
        (["COMPLETED", "COMPLETING"], JobState.COMPLETING, "COMPLETING"),
        (["PENDING", "REQUEUED"], JobState.REQUEUED, "REQUEUED"),
        (["RUNNING", "CONFIGURING"], JobState.RUNNING, "CONFIGURING"),
        (["RUNNING", "EXPEDITING"], JobState.RUNNING, "RUNNING"),
        (["EXPEDITING"], JobState.UNKNOWN, "EXPEDITING"),
    ],
)
def test_states(shape, state, text):
    row = row_of(job_state=shape)
    assert (row.state, row.state_text) == (state, text)


def test_time_limits():
    assert row_of(time_limit=90).time_limit_s == row_of(time_limit=wrapped(90)).time_limit_s == 5400
    assert row_of(time_limit=INFINITE[0]).time_limit_s == UNLIMITED_S
    assert row_of(time_limit=None).time_limit_s == UNLIMITED_S  # 22.05
    assert row_of(time_limit={"set": False}).time_limit_s is None
    assert row_of(time_limit=365 * 1440).time_limit_s == UNLIMITED_S
    assert row_of(time_limit=2**40).time_limit_s == UNLIMITED_S
    assert len(parse_squeue_json(document(JOB | {"time_limit": -5})).rejects) == 1


def test_gpus_are_those_accounted_for_or_else_asked_for():
    row = row_of(tres_req_str="cpu=1,node=2", tres_per_job="gres/gpu:h100:8")
    assert (row.num_gpus, row.gpu_options) == (8, (GpuOption("h100", 8),))
    row = row_of(tres_req_str="cpu=2,node=1", tres_per_task="cpu=1,gres/gpu=2", tasks=wrapped(3))
    assert row.num_gpus == 6
    row = row_of(tres_req_str="", tres_per_node="gres:gpu:2", node_count=3)
    assert (row.num_gpus, row.gpus_per_node) == (6, 2)


def test_nice_may_be_negative_and_null():
    assert [row_of(nice=nice).nice for nice in (None, 0, -100, wrapped(150))] == [0, 0, -100, 150]


HOSTILE = st.text(st.one_of(st.sampled_from('"\\\n\r\t|,:={}\x00\x1b'), st.characters()))


@given(HOSTILE, HOSTILE)
def test_no_text_reaches_another_field(name, comment):
    listing = parse_squeue_json(document(JOB | {"name": name, "comment": comment}, JOB))
    assert listing.rejects == ()
    assert (listing.rows[0].raw_id, listing.rows[0].user) == (7, "ann")
    assert len(listing.rows) == 2
    both = listing.texts[7]
    assert (both.name, both.comment) == ("train", "")  # the last of an id counts
    first = parse_squeue_json(document(JOB | {"name": name, "comment": comment})).texts[7]
    surrogates = dict.fromkeys(range(0xD800, 0xE000), "\ufffd")
    assert first.name == name.translate(surrogates)
    assert first.comment == comment.translate(surrogates)
    first.name.encode()


# -- sacct ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "code", "signal"),
    [
        ({"status": "SUCCESS", "return_code": 0}, 0, 0),
        ({"status": "SIGNALED", "return_code": None, "signal": {"signal_id": 9}}, 0, 9),
        ({"return_code": wrapped(3), "signal": {"id": {"set": False, "number": 0}}}, 3, 0),
        ({"return_code": {"set": False}, "signal": {"id": wrapped(15), "name": "TERM"}}, 0, 15),
        (768, 3, 0),
        (wrapped(9), 0, 9),
        (None, None, None),
        ({}, None, None),
    ],
)
def test_exit_codes(shape, code, signal):
    attempt = attempt_of(exit_code=shape)
    assert (attempt.exit_code, attempt.exit_signal) == (code, signal)


def test_an_exit_code_that_22_05_does_not_tell():
    attempt = attempt_of(
        state={"current": "FAILED"}, exit_code={"status": "SUCCESS", "return_code": 0}
    )
    assert (attempt.exit_code, attempt.exit_signal) == (None, None)


def test_tres():
    listed = [
        {"type": "cpu", "name": None, "id": 1, "count": 4},
        {"type": "mem", "name": "", "id": 2, "count": 16},
        {"type": "energy", "id": 3, "count": -2},
        {"type": "gres", "name": "gpu", "id": 1001, "count": 2},
        {"type": "gres", "name": "gpu:a100", "id": 1002, "count": 2},
        {"type": "billing", "count": None},
    ]
    attempt = attempt_of(tres={"allocated": listed, "requested": None})
    assert [(tres.name, tres.count) for tres in attempt.allocated] == [
        ("cpu", 4), ("gres/gpu:a100", 2), ("gres/gpu", 2), ("mem", 16 * 2**20),
    ]  # fmt: skip
    assert (attempt.num_gpus, attempt.num_cpus, attempt.requested) == (2, 4, ())
    batch = parse_sacct_json(document(ATTEMPT), counts_gpus=False)
    assert batch.records[0].num_gpus is None


def test_parts_of_arrays_and_het_jobs():
    attempt = attempt_of(job_id=9, array={"job_id": 7, "task_id": wrapped(3)})
    assert (attempt.job_id, attempt.array_task) == (7, 3)
    attempt = attempt_of(job_id=8, het={"job_id": 7, "job_offset": wrapped(1)})
    assert (attempt.job_id, attempt.het_offset) == (7, 1)
    attempt = attempt_of(array={"job_id": 0, "task_id": {"set": False}}, het={"job_id": 0})
    assert (attempt.job_id, attempt.array_task, attempt.het_offset) == (7, None, None)
    whole = {"array": {"job_id": 7, "task_id": None, "task": "1-9%2"}}
    waiting = ATTEMPT | whole | {"state": {"current": ["PENDING"]}}
    batch = parse_sacct_json(document(waiting), counts_gpus=True)
    assert (batch.records, batch.rows_in, batch.rows_skipped) == ((), 1, 1)
    # ended as a whole: each task is an attempt
    ended = ATTEMPT | {"state": {"current": ["CANCELLED"]}, "nodes": "None assigned"}
    for written, tasks in (  # the last three as 22.05 writes it
        ("1-9", [1, 2, 3, 4, 5, 6, 7, 8, 9]), ("0x3E", [1, 2, 3, 4, 5]), ("0x49", [0, 3, 6]),
        ("0x1%2", [0]),
    ):  # fmt: skip
        whole["array"]["task"] = written
        batch = parse_sacct_json(document(ended | whole), counts_gpus=True)
        assert [(r.job_id, r.array_task, r.extra) for r in batch.records] == [
            (7, task, None) for task in tasks
        ]
        assert (batch.rows_in, batch.rows_skipped) == (len(tasks), 0)
    whole["array"]["task"] = "0-10000"
    large = attempt_of(**whole, state={"current": ["CANCELLED"]})
    assert (large.array_task, json.loads(large.extra)) == (None, {"array_tasks": "0-10000"})


def test_an_attempt_that_cannot_be_understood_is_counted():
    batch = parse_sacct_json(document(ATTEMPT, {"job_id": 1}, 5), counts_gpus=True)
    assert (len(batch.records), [r.line for r in batch.rejects], batch.rows_in) == (1, [2, 3], 3)


# -- nodes ----------------------------------------------------------------------------------


def test_nodes_of_both_shapes():
    old = {"name": "gn01", "state": "idle", "state_flags": ["DRAIN"], "gres": "gpu:a100:8",
           "gres_used": "gpu:a100:2(IDX:0-1)", "cpus": 64, "real_memory": 1000,
           "partitions": ["gpu"], "features": "a,b", "active_features": "a"}  # fmt: skip
    new = old | {"state": ["IDLE", "DRAIN"], "effective_cpus": 64, "features": ["a", "b"],
                 "active_features": ["a"], "real_memory": wrapped(1000)}  # fmt: skip
    del new["state_flags"]
    [first], [second] = (parse_nodes_json(document(n, key="nodes")) for n in (old, new))
    assert first == second
    assert (first.state, first.flags, first.is_usable) == ("idle", ("drain",), False)
    assert (first.gpus, first.gpus_used) == ((("a100", 8),), 2)
    assert (first.features, first.mem_bytes) == (("a",), 1000 * 2**20)


def test_a_node_that_cannot_be_one():
    for broken in (
        {"state": "idle"},
        {"name": "x", "state": 5.5},
        {"name": "x", "gres": "gpu:a:b:c"},
    ):
        with pytest.raises(DataError, match="node 2"):
            parse_nodes_json(document({"name": "gn01", "state": "idle"}, broken, key="nodes"))


def test_groups_of_nodes_are_refused():
    group = {"node": {"state": ["IDLE"]}, "nodes": {"nodes": ["gn01"], "total": 1}}
    with pytest.raises(DataError, match="group"):
        parse_nodes_json(document(group, key="sinfo"))


# -- whatever it is -------------------------------------------------------------------------

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
SHAPED = ANYTHING | st.builds(
    lambda s, i, n: {"set": s, "infinite": i, "number": n}, ANYTHING, ANYTHING, ANYTHING
)
PARSERS = (
    parse_squeue_json,
    lambda text: parse_sacct_json(text, counts_gpus=True),
    parse_nodes_json,
    lambda text: parse_job_json(text, 1),
)


@given(st.sampled_from(PARSERS), st.sampled_from(["jobs", "nodes", "meta", "errors"]), SHAPED)
def test_no_document_ends_in_a_traceback(parse, key, value):
    text = json.dumps({"jobs": [], "nodes": [], key: value})
    with suppress(DataError):
        parse(text)


@pytest.fixture(scope="module", params=["22.05", "24.11", "26.05"])
def one_of_each(request, recorded):
    """A record of every kind of document of a release."""

    def first(name):
        whole = json.loads(recorded(f"lab/{name}", request.param))
        key = "jobs" if "jobs" in whole else "nodes"
        jobs = whole[key]
        return key, next((j for j in jobs if j.get("name") == "uneven"), jobs[0])

    nodes = "sinfo.json" if request.param == "22.05" else "nodes.json"
    return [
        (parse_squeue_json, *first("squeue.json")),
        (PARSERS[1], *first("sacct.json")),
        (parse_nodes_json, *first(nodes)),
        (lambda text: parse_job_json(text, 5), *first("squeue.json")),
    ]


@settings(max_examples=150)
@given(data=st.data())
def test_no_value_in_any_place_ends_in_a_traceback(one_of_each, data):
    parse, key, good = data.draw(st.sampled_from(one_of_each))
    broken = deepcopy(good)
    place = broken
    field = data.draw(st.sampled_from(sorted(place)))
    while isinstance(place[field], dict) and place[field] and data.draw(st.booleans()):
        place = place[field]
        field = data.draw(st.sampled_from(sorted(place)))
    place[field] = data.draw(SHAPED)
    text = json.dumps({key: [good, broken]})
    try:
        found = parse(text)
    except DataError:
        return  # nodes and details are one whole
    if parse in PARSERS[:2]:
        rows = found.rows if parse is parse_squeue_json else found.records
        assert len(rows) + len(found.rejects) + getattr(found, "rows_skipped", 0) == 2
        assert all(reject.line == 2 for reject in found.rejects)


@settings(max_examples=60)
@given(data=st.data())
def test_a_document_cut_or_bent_anywhere(one_of_each, data):
    parse, key, good = data.draw(st.sampled_from(one_of_each))
    text = json.dumps({key: [good]})
    at = data.draw(st.integers(0, len(text)))
    bent = text[:at] + data.draw(st.text(max_size=3)) + text[at + data.draw(st.integers(0, 9)) :]
    with suppress(DataError):
        parse(bent)
