"""How a window of slurmdbd is asked for."""

from __future__ import annotations

import pytest

from gsched.errors import TryAgainError
from gsched.model.history import StepRecord
from gsched.model.job import JobState
from gsched.slurm import live_sacct
from gsched.slurm.live_sacct import asking
from gsched.slurm.parse_sacct import FIELDS, fields_of
from gsched.slurm.records import AccountingFilter, SacctForm
from gsched.slurm.run import Completed, reader_environment

T0 = 1_700_000_000
VALUES = {
    "JobIDRaw": "7", "JobID": "7", "Cluster": "c", "JobName": "x", "State": "COMPLETED",
    "Submit": str(T0), "Start": str(T0), "End": str(T0 + 9), "NodeList": "gn01",
}  # fmt: skip
STEP = VALUES | {
    "JobID": "7.batch", "JobIDRaw": "7.batch", "JobName": "batch", "TotalCPU": "00:01.250",
    "MaxRSS": "4096", "NTasks": "1", "TRESUsageInAve": "gres/gpuutil=37",
    "TRESUsageInMax": "gres/gpumem=1024",
    "TRESUsageInTot": "mem=6144",
}  # fmt: skip
JOB = (
    '{"jobs": [{"job_id": 7, "cluster": "c", "name": "x", "state": {"current": ["COMPLETED"]},'
    f'"nodes": "gn01", "time": {{"submission": {T0}, "start": {T0}, "end": {T0 + 9}}}, "steps": ['
    f'{{"step": {{"id": "7.batch", "name": "batch"}}, "state": ["COMPLETED"], "time": {{"start": '
    f'{T0}, "end": {T0 + 9}, "total": {{"seconds": 1, "microseconds": 250999}}}}, "tasks": '
    '{"count": 1}, "tres": {"requested": {"max": [{"type": "mem", "count": 4096}, {"type": "gres",'
    '"name": "gpumem", "count": 1024}], "average": [{"type": "gres", "name": "gpuutil", "count": '
    '37}], "total": [{"type": "mem", "count": 6144}]}}}]}]}'
)


class Sacct:
    """Answers each way of asking with the same job, and keeps what it was asked."""

    def __init__(self, *rows):
        self.rows, self.asked = rows or (VALUES,), []

    def __call__(self, *argv):
        self.asked.append(argv)
        if "--json" in argv:
            return Completed(argv, 0, JOB, "")
        delimiter = next(word for word in argv if word.startswith("--delimiter="))[12:]
        names = argv[argv.index("-o") + 1].split(",")
        lines = ["".join(row.get(n, "") + delimiter for n in names) for row in self.rows]
        return Completed(argv, 0, "".join(f"{line}\n" for line in lines), "")


def ask(sacct, form, chosen=AccountingFilter(), counts_gpus=lambda: True):  # noqa: B008
    return asking(sacct, chosen, form, counts_gpus)(T0, T0 + 100)


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("keeps_steps", [False, True])
def test_the_same_by_text_and_json_with_and_without_steps(as_json, keeps_steps):
    sacct = Sacct(VALUES, STEP) if keeps_steps else Sacct()
    batch = ask(sacct, SacctForm(as_json, keeps_steps))
    (argv,) = sacct.asked
    assert ("--json" in argv, "-X" in argv) == (as_json, not keeps_steps)
    assert {"-D", "-a", "-S", "-E"} <= set(argv)
    (record,) = batch.records
    assert (record.job_id, record.num_gpus, record.end_time) == (7, 0, T0 + 9)
    wanted = StepRecord(
        "c", 7, None, None, T0, "batch", JobState.COMPLETED, "batch", T0, T0 + 9,
        num_tasks=1, cpu_time_s=1.25, max_rss_bytes=4096, rss_bytes=6144,
        gpu_utilization_pct=37.0,
        gpu_mem_bytes=1024,
    )  # fmt: skip
    assert batch.steps == ((wanted,) if keeps_steps else ())


def test_steps_are_asked_for_by_their_own_fields():
    assert fields_of(False) == FIELDS
    assert set(fields_of(True)) - set(FIELDS) == {
        "NTasks", "TotalCPU", "MaxRSS", "TRESUsageInMax", "TRESUsageInAve", "TRESUsageInTot",
    }  # fmt: skip


@pytest.mark.parametrize("as_json", [False, True])
def test_whether_gpus_are_counted_is_asked_once_and_only_without_any(as_json):
    asked = []

    def counts_gpus():
        asked.append(1)
        return False

    window = asking(Sacct(), AccountingFilter(), SacctForm(as_json), counts_gpus)
    assert [window(T0, T0 + 9).records[0].num_gpus for _ in range(2)] == [None, None]
    assert asked == [1]
    with_gpus = Sacct(VALUES | {"AllocTRES": "gres/gpu=2"})
    assert ask(with_gpus, SacctForm(), counts_gpus=counts_gpus).records[0].num_gpus == 2
    assert asked == [1]


def test_names_with_a_comma_are_chosen_here():
    chosen = AccountingFilter(names=("x,y",))
    assert ask(Sacct(), SacctForm(as_json=True), chosen).records == ()


def test_a_document_that_is_too_long_asks_for_a_shorter_window(monkeypatch):
    monkeypatch.setattr(live_sacct, "_MOST_JSON", 100)
    with pytest.raises(TryAgainError, match="more than 100 characters for 100 s") as error:
        ask(Sacct(), SacctForm(as_json=True))
    assert "--source sacct" in error.value.hint


def test_json_is_asked_for_without_a_time_format():
    """``sacct --json`` of 22.05 fails over it."""
    assert reader_environment({}, ["sacct", "-n"])["SLURM_TIME_FORMAT"] == "%s"
    environment = reader_environment({"SLURM_TIME_FORMAT": "relative"}, ["sacct", "--json"])
    assert "SLURM_TIME_FORMAT" not in environment
    assert environment["TZ"] == "UTC"
