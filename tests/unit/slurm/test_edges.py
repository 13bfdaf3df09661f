"""Bounds and edges of what is read from Slurm and sent to it."""

from __future__ import annotations

import re
import threading

import pytest
from support.history import attempt, batch

from gsched.errors import SlurmCommandError
from gsched.model.history import Reject
from gsched.model.job import MAX_SOFT_DEADLINES
from gsched.slurm import parse_usage as module
from gsched.slurm import wire
from gsched.slurm.accounting import merged
from gsched.slurm.client import CommandClient
from gsched.slurm.parse_queue import QUEUE_FIELDS, TEXT_FIELDS
from gsched.slurm.parse_usage import USAGE_FIELDS, parse_usage
from gsched.slurm.patience import Pace, Patience
from gsched.slurm.run import Completed
from gsched.slurm.split_tasks import split_tasks

SEPARATOR = re.compile(r"\x1f[0-9a-f]{16}\x1e")

# -- accounting -------------------------------------------------------------------------------


def test_rejects_that_overlapping_chunks_share_count_once_and_others_each():
    one, same, other = (
        Reject("sacct", number, "no", raw) for number, raw in ((3, "a|b"), (9, "a|b"), (3, "c|d"))
    )
    chunks = [batch(attempt(1), rejects=(one,)), batch(rejects=(same, other))]
    whole = merged(chunks)
    assert [reject.raw for reject in whole.rejects] == ["a|b", "c|d"]
    assert whole.rows_in == 3


def usage_row(job, **facts):
    known = {"JobIDRaw": job, "JobID": job, "State": "COMPLETED", "ExitCode": "0:0",
             "Submit": "100", "Start": "200", "End": "300", "TotalCPU": "00:00:00",
             "NodeList": "n1"} | facts  # fmt: skip
    return [known.get(field, "") for field in USAGE_FIELDS]


def read_usage(*rows):
    text = "".join(f"{';'.join(row)};\n" for row in rows)
    return parse_usage(text, ";", counts_gpus=True)


def test_each_step_is_its_jobs_and_its_attempts_in_any_number():
    jobs = [usage_row(str(n)) for n in range(1, 2001)]
    steps = [usage_row(f"{n}.{step}") for n in range(1, 2001) for step in ("batch", "0")]
    records, rejects = read_usage(*jobs, *steps)
    assert (len(records), rejects) == (2000, ())
    assert {tuple(step.name for step in job.steps) for job in records} == {("batch", "0")}
    twice = [usage_row("7", Start="200"), usage_row("7", Start="400")]
    early, late = read_usage(*twice, usage_row("7.0", Start="250"), usage_row("7.1", Start="400"))[
        0
    ]
    assert ([s.name for s in early.steps], [s.name for s in late.steps]) == (["0"], ["1"])
    (orphan,) = read_usage(usage_row("8"), usage_row("9.0"))[1]
    assert orphan.reason == "step 9.0 without its job"


def test_no_job_is_looked_through_for_another_ones_step(monkeypatch):
    """An array of some thousand tasks has some thousand steps."""
    jobs = [usage_row(str(n)) for n in range(1, 301)]
    seen = []
    real = module._attempt_of

    def counted(row, attempts, found):
        seen.append(len(attempts[int(row["JobIDRaw"].partition(".")[0])]))
        return real(row, attempts, found)

    monkeypatch.setattr(module, "_attempt_of", counted)
    read_usage(*jobs, *(usage_row(f"{n}.0") for n in range(1, 301)))
    assert seen == [1] * 300


# -- patience ---------------------------------------------------------------------------------


def test_a_late_answer_is_announced_anew_after_one_that_came_in_time():
    now, told, late = [0.0], [], [True]
    has_told = threading.Event()

    def notify(words):
        told.append(words)
        has_told.set()

    def answer(argv, *, stdin=None, timeout_s):
        if late[0]:
            now[0] += 5
            assert has_told.wait(60)
            has_told.clear()
        return Completed(tuple(argv), 0, "", "")

    asked = Patience(
        60, notify, runner=answer, pace=Pace(1e9, lambda: now[0]), monotonic=lambda: now[0],
        silent_s=0.05,
    )  # fmt: skip
    for late[0] in (True, False, True):
        asked.read(["squeue"])
    assert len(told) == 2


# -- the request token ------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "is_read"), [(0, True), (1, False)])
def test_so_many_soft_deadlines_and_no_more(number, is_read):
    count = MAX_SOFT_DEADLINES + number
    items = ",".join(f"soft={1000 + n}:{n + 1}" for n in range(count))
    found = wire.read(f"gs1{{{items}}}")
    assert (found.problem == "") is is_read
    assert len(found.wants.soft_deadlines) == (count if is_read else 0)


# -- squeue by ids ----------------------------------------------------------------------------


def listing(argv, ids):
    """What squeue prints of these jobs with the format that is asked for."""
    separator = SEPARATOR.search(argv[-1])[0]
    fields = QUEUE_FIELDS + TEXT_FIELDS
    known = {"SubmitTime": "100", "State": "PENDING", "PriorityLong": "1", "Nice": "0"}

    def row(raw_id):
        values = known | {"JobID": str(raw_id)}
        return "".join(f"{values.get(field, 'N/A')}{separator}" for field in fields)

    return "".join(f"{row(raw_id)}\n" for raw_id in ids)


def test_split_tasks_are_asked_for_in_portions_and_nothing_else_is_taken():
    asked = []

    def run(*argv):
        ids = argv[argv.index("-j") + 1].split(",")
        asked.append(len(ids))
        if len(asked) == 2:
            return Completed(argv, 1, "", "slurm_load_jobs error: Invalid job id specified")
        # squeue shows the whole array of a task that is asked for
        return Completed(argv, 0, listing(argv, [*map(int, ids[:2]), 999_999]), "")

    found = split_tasks(run, range(1, 2502))
    assert asked == [1000, 1000, 501]
    assert [row.raw_id for row in found.rows] == [1, 2, 2001, 2002]


@pytest.mark.parametrize(("count", "is_thinned_out"), [(1000, True), (1001, False)])
def test_texts_of_very_many_jobs_are_read_with_all_others(count, is_thinned_out):
    commands = []

    def run(argv, *, stdin=None, timeout_s):
        commands.append(argv)
        return Completed(tuple(argv), 0, "", "")

    CommandClient(runner=run).free_text(range(count))
    assert ("-j" in commands[0]) is is_thinned_out


# -- updates ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stderr", "is_lost"),
    [
        ("Invalid job id specified for job 7\n", False),
        ("Invalid job id specified for job 7\nslurm_update error: Unable to contact slurm "
         "controller (connect failure)\n", True),
        ("something else\n", True),
    ],
)  # fmt: skip
def test_a_controller_that_goes_during_an_update_is_no_answer(stderr, is_lost):
    def run(argv, *, stdin=None, timeout_s):
        assert stdin.count("update jobid=") == 2
        return Completed(tuple(argv), 1, "", stderr)

    client = CommandClient(runner=run)
    if is_lost:
        with pytest.raises(SlurmCommandError, match="scontrol failed"):
            client.set_site_factors([("7", 1), ("8", 1)])
    else:
        first, second = client.set_site_factors([("7", 1), ("8", 1)])
        assert ("Invalid job id" in first.error, second.error) == (True, "")
