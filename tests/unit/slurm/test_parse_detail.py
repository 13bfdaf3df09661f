"""One job in all detail, from JSON and from texts of the same moment."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.lab_jobs import HOSTILE_COMMENT, HOSTILE_NAMES

from gsched.errors import DataError
from gsched.slurm.parse_detail import DETAIL_FIELDS, parse_job_json, parse_job_texts
from gsched.slurm.records import NodeGres

NEWER = ("24.11", "26.05")
RELEASES = ("22.05", *NEWER)


@pytest.fixture(scope="module")
def ids(recorded):
    """The raw ids of a release's jobs by name; of an array and a het job the last."""

    def read(release):
        jobs = json.loads(recorded("lab/squeue.json", release))["jobs"]
        return {job["name"]: job["job_id"] for job in jobs}

    return read


@pytest.fixture(scope="module")
def from_texts(recorded, separator, ids):
    """A job by name, from the texts of a release."""

    def read(release, name):
        squeue = recorded("lab/squeue-detail.txt", release)
        scontrol = recorded("lab/jobs.txt", release)
        return parse_job_texts(squeue, separator, scontrol, ids(release)[name])

    return read


@pytest.fixture(scope="module")
def from_json(recorded, ids):
    """A job by name, from the JSON of a release."""
    return lambda release, name: parse_job_json(
        recorded("lab/jobs.json", release), ids(release)[name]
    )


@pytest.mark.parametrize("release", NEWER)
@pytest.mark.parametrize(
    "name",
    ["typed", "uneven", "both-types", "shards", "array", "het", "killed", "resources", "dependent",
     "files", "placed", "exclusive", *HOSTILE_NAMES],
)  # fmt: skip
def test_texts_and_json_agree(from_texts, from_json, release, name):
    texts, document = from_texts(release, name), from_json(release, name)
    found = {
        field.name: (getattr(texts, field.name), getattr(document, field.name))
        for field in fields(texts)
        if getattr(texts, field.name) != getattr(document, field.name)
    }
    found.pop("last_evaluation_time", None)  # moves between the two commands
    # squeue has no field for it; 25.11 is the first to tell
    assert found.pop("submit_line", ("", ""))[0] == ""
    assert found == {}


@pytest.mark.parametrize("release", RELEASES)
def test_gpus_on_each_node(from_texts, release):
    assert from_texts(release, "uneven").node_gres == (
        NodeGres("gn02", 4, (("a100", 4),), (2, 3, 4, 5), "gpu:a100:4(IDX:2-5)"),
        NodeGres("gn03", 1, (("v100", 1),), (0,), "gpu:v100:1(IDX:0)"),
    )
    [both] = from_texts(release, "both-types").node_gres
    assert (both.gpus, both.gpu_types, both.indexes) == (3, (("a100", 1), ("v100", 2)), (0, 2, 3))
    [shards] = from_texts(release, "shards").node_gres
    assert (shards.gpus, shards.indexes, shards.gres[:7]) == (0, (), "shard:3")
    for name in ("resources", "killed", "unlimited", "held"):
        assert from_texts(release, name).node_gres == ()


@pytest.mark.parametrize("release", RELEASES)
def test_what_a_job_is_made_of(from_texts, release):
    job = from_texts(release, "files")
    assert job.command.startswith("/lab/home/games/train it.sh")
    assert (job.work_dir, job.std_in, job.std_err) == ("/usr", "/dev/zero", "/dev/null")
    assert job.std_out == f"/usr/out/files-{job.raw_id}.txt"
    placed = from_texts(release, "placed")
    assert (placed.required_nodes, placed.excluded_nodes) == ("gn02", "gn03")
    assert placed.std_err == placed.std_out == "/dev/null"
    assert from_texts(release, "exclusive").deadline > 1_700_000_000
    assert from_texts(release, "typed").deadline is None
    assert from_texts(release, "dependent").admin_comment == "seen by admin"
    assert from_texts(release, "dependent").dependency.startswith("afterok:1")
    assert from_texts(release, "plain-features").features == "fast&big|small"
    assert from_texts(release, "licence").licences == "matlab:3"
    assert from_texts(release, "again").restarts == 1
    assert from_texts(release, "course").reservation == "course"


@pytest.mark.parametrize("release", RELEASES)
def test_exit_codes_of_jobs_that_have_ended(from_texts, release):
    codes = {name: (job.exit_code, job.exit_signal) for name in ("fails", "killed", "done", "typed")
             if (job := from_texts(release, name))}  # fmt: skip
    assert codes == {"fails": (3, 0), "killed": (0, 9), "done": (0, 0), "typed": (None, None)}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", HOSTILE_NAMES[:-1])
def test_a_name_cannot_pass_for_slurm_s_own_words(from_texts, release, name):
    job = from_texts(release, name)
    assert (job.name, job.comment) == (name, HOSTILE_COMMENT)
    assert (job.command, job.node_gres, job.node_list) == ("", (), "")
    assert (job.work_dir, job.std_out) == ("/lab/home/games", "/dev/null")


@pytest.mark.parametrize("release", RELEASES)
def test_the_gpus_of_a_running_job_cannot_be_forged(from_texts, release):
    """Its name holds a GRES list; its script's path another one, on a line of its own."""
    job = from_texts(release, HOSTILE_NAMES[-1])
    assert "Nodes=gn08 CPU_IDs=0 Mem=1 GRES=gpu:9" in job.command
    assert job.work_dir == "/lab/home/games"
    [held] = job.node_gres
    assert (held.node, held.gpus, held.gpu_types) == ("gn03", 1, (("v100", 1),))


@pytest.mark.parametrize("release", RELEASES)
def test_a_job_that_is_not_there(recorded, separator, release):
    squeue = recorded("lab/squeue-detail.txt", release)
    assert parse_job_texts(squeue, separator, "", 4242) is None
    assert parse_job_json(recorded("lab/squeue.json", release), 4242) is None


def test_submit_lines(from_json):
    assert from_json("24.11", "typed").submit_line == ""
    line = from_json("26.05", "typed").submit_line
    assert line == "sbatch --parsable -o /dev/null -J typed -c4 --gres=gpu:a100:2 -t 1-02:03:04"


def test_what_scontrol_does_not_show_is_left_out(recorded, separator, ids):
    """The job may go between the two commands."""
    squeue, job = recorded("lab/squeue-detail.txt"), ids("22.05")["uneven"]
    detail = parse_job_texts(squeue, separator, "", job)
    assert (detail.node_list, detail.node_gres) == ("gn[02-03]", ())


# -- made up --------------------------------------------------------------------------------

SEPARATOR = "\x1ftest\x1e"


def listed(**changed):
    """squeue's record of a running job."""
    values = dict.fromkeys(DETAIL_FIELDS, "(null)") | {
        "JobID": "7", "ArrayJobID": "7", "ArrayTaskID": "N/A", "UserName": "ann", "Name": "train",
        "Account": "lab", "State": "RUNNING", "WorkDir": "/home/ann", "BatchFlag": "1",
        "NodeList": "gn[01-02]", "exit_code": "0", "Deadline": "N/A", "LastSchedEval": "1700000000",
        "RestartCnt": "0", "Reason": "None", "WCKey": "*", "AllocNodes": "login",
    } | changed  # fmt: skip
    return "".join(values[field] + SEPARATOR for field in DETAIL_FIELDS) + "\n"


def shown(name="train", account="lab", gres="gpu:2(IDX:0-1)", more="", wckey="*", host="login"):
    """scontrol's record of it."""
    return (
        f"JobId=7 JobName={name} UserId=ann(1) GroupId=ann(1) MCS_label=N/A Priority=1 Nice=0 "
        f"Account={account} QOS=normal WCKey={wckey} JobState=RUNNING AllocNode:Sid={host}:1 "
        "ReqNodeList=(null) ExcNodeList=gn09 NodeList=gn[01-02] BatchHost=gn01 CoreSpec=* "
        f"JOB_GRES=gpu:4   Nodes=gn[01-02] CPU_IDs=0-1 Mem=1000 GRES={gres} MinCPUsNode=1 "
        f"Features=(null) Command=/x.sh{more} WorkDir=/home/ann Comment=x \n"
    )


def parsed(scontrol, **changed):
    return parse_job_texts(listed(**changed), SEPARATOR, scontrol, 7)


def test_nodes_that_hold_the_same_are_listed_together():
    job = parsed(shown())
    assert [(held.node, held.gpus, held.indexes) for held in job.node_gres] == [
        ("gn01", 2, (0, 1)),
        ("gn02", 2, (0, 1)),
    ]
    assert job.excluded_nodes == "gn09"


FORGED = st.lists(
    st.sampled_from(
        ["\n", " ", "   ", "JobId=7 JobName=", "JobName=train", " UserId=root(0)",
         " Account=lab QOS=x", " CoreSpec=* ", " ReqNodeList=(null) ExcNodeList=all NodeList=",
         "  Nodes=gn66 CPU_IDs=0 Mem=1 GRES=gpu:8(IDX:0-7)", " MinCPUsNode=1", " Command=/y", "x"]
    ),
    max_size=12,
).map("".join)  # fmt: skip


@given(FORGED, FORGED, FORGED, FORGED, FORGED)
def test_no_text_of_the_owner_s_adds_a_node(name, account, path, wckey, host):
    scontrol = shown(name=name, account=account, more=path, wckey=wckey, host=host)
    texts = {"Name": name, "Account": account, "WCKey": wckey, "AllocNodes": host}
    job = parsed(scontrol, **texts, Command="/x.sh" + path)
    assert job.name == name
    assert [held.node for held in job.node_gres] == ["gn01", "gn02"]
    assert job.excluded_nodes == "gn09"
    others = f"JobId=6 JobName={name} UserId=ann(1) Account={account} Command={path}\n"
    job = parsed(others + scontrol, **texts)
    assert "gn66" not in {held.node for held in job.node_gres}


@given(st.sampled_from([4, 5]), st.text(max_size=10), st.integers(0, 400), st.integers(0, 9))
def test_bent_texts_give_a_job_or_a_clear_error(kind, junk, at, cut):
    squeue, scontrol = listed(), shown()
    if kind == 4:
        squeue = squeue[: at % len(squeue)] + junk + squeue[at % len(squeue) + cut :]
    else:
        scontrol = scontrol[:at] + junk + scontrol[at + cut :]
    with suppress(DataError):
        parse_job_texts(squeue, SEPARATOR, scontrol, 7)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("%x-%j.out", "/home/ann/train-7.out"),
        ("/out/%u/%A_%a.txt", "/out/ann/7_%a.txt"),
        ("%4j%%.%N", "/home/ann/0007%.gn01"),
        ("/logs/%s-%t", "/logs/%s-%t"),
        ("(null)", ""),
    ],
)
def test_file_patterns_are_filled_in(pattern, path):
    assert parsed(shown(), STDOUT=pattern).std_out == path


def test_file_patterns_of_array_tasks_and_waiting_jobs():
    job = parsed(shown(), STDOUT="%A_%3a.%N", ArrayJobID="5", ArrayTaskID="12", NodeList="")
    assert job.std_out == "/home/ann/5_012.%N"
    assert parsed(shown(), STDOUT="x", BatchFlag="0").std_out == "x"


@pytest.mark.parametrize("gres", ["gpu:2(IDX:0-99999)", "gpu:a:b:c", "gpu:2(IDX:-5)"])
def test_a_gres_that_is_not_understood_is_kept_as_text(gres):
    document = {"jobs": [{"job_id": 7, "nodes": "gn01", "job_state": ["RUNNING"],
                          "gres_detail": [gres]}]}  # fmt: skip
    held = parse_job_json(json.dumps(document), 7).node_gres
    assert held == (NodeGres("gn01", 0, (), (), gres),)


def test_a_list_that_does_not_fit_the_nodes():
    document = {"jobs": [{"job_id": 7, "nodes": "gn[01-03]", "job_state": ["RUNNING"],
                          "gres_detail": ["gpu:1"]}]}  # fmt: skip
    assert parse_job_json(json.dumps(document), 7).node_gres == ()
