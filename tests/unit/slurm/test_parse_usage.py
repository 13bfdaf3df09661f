"""What jobs used, from recorded sacct and sstat: measured, not measured, requeued, hostile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gsched.errors import DataError
from gsched.model.job import JobState
from gsched.slurm.parse_usage import parse_stat, parse_usage, with_running_steps


@pytest.fixture(scope="module")
def records(recorded, separator):
    found, rejects = parse_usage(recorded("views/sacct-usage.txt"), separator, counts_gpus=True)
    assert rejects == ()
    return found


def of(records, slurm_id):
    return [r for r in records if r.slurm_id == slurm_id]


def test_a_job_of_several_steps(records):
    (job,) = of(records, "43")
    assert (job.state, job.exit_code, job.exit_signal) == (JobState.FAILED, 3, 0)
    assert (job.num_nodes, job.num_cpus, job.num_gpus, job.elapsed_s) == (2, 4, 2, 8)
    assert job.gpu_types == (("a100", 2),)
    assert job.mem_bytes == 4000 * 2**20
    assert job.cpu_s == pytest.approx(9.728, abs=0.01)
    assert [step.name for step in job.steps] == ["batch", "0", "1", "2"]
    step = job.steps[1]
    assert (step.num_tasks, step.elapsed_s) == (2, 5)
    assert step.cpu_s == pytest.approx(9.684)
    assert (step.max_task_mem_bytes, step.mem_bytes) == (217980928, 435863552)
    assert step.gpu_util_percent is None
    assert job.steps[3].max_task_mem_bytes is None  # ended before Slurm looked at it


def test_steps_belong_to_the_attempt_that_ran_them(records):
    first, second = of(records, "79")
    assert (first.state, second.state) == (JobState.REQUEUED, JobState.COMPLETED)
    assert [len(first.steps), len(second.steps)] == [2, 3]
    assert second.start_time > first.end_time
    assert second.cpu_s == pytest.approx(2.89)


def test_tasks_and_components_have_their_own_ids(records):
    assert [r.slurm_id for r in records if r.job_id == 80] == ["80_1", "80_2", "80_3"]
    assert [r.slurm_id for r in records if r.job_id == 81] == ["81+0", "81+1"]


def test_a_job_that_never_started_has_no_start(records):
    (job,) = of(records, "87")
    assert job.state is JobState.CANCELLED
    assert (job.start_time, job.elapsed_s, job.cpu_s) == (None, 0, None)


def test_a_hostile_name_moves_nothing(records):
    (job,) = of(records, "178")
    assert job.name == "x|`\n43.batch|\x1b[31m"  # slurmdbd keeps no quotes
    assert job.exit_code == 124
    assert len(job.steps) == 1


def test_what_was_not_measured_is_unknown_not_zero(recorded, separator):
    text = recorded("views/sacct-usage-unmeasured.txt")
    found, rejects = parse_usage(text, separator, counts_gpus=True)
    assert rejects == ()
    assert len(found[0].steps) == 4
    assert {job.cpu_s for job in found} == {None}
    assert {(s.cpu_s, s.mem_bytes, s.max_task_mem_bytes) for j in found for s in j.steps} == {
        (None, None, None)
    }


def test_of_a_running_job_sstat_knows_more(records, recorded):
    (job,) = of(records, "179")
    assert (job.state, job.cpu_s) == (JobState.RUNNING, None)
    (known,) = with_running_steps([job], parse_stat(recorded("views/sstat.txt")))
    assert known.cpu_s == 4
    assert {s.name: s.mem_bytes for s in known.steps} == {"batch": 10940416, "0": 1462272}
    ended = replace(job, state=JobState.COMPLETED)
    assert with_running_steps([ended], parse_stat(recorded("views/sstat.txt"))) == (ended,)


def test_without_accounting_for_gpus_their_number_is_unknown(recorded, separator):
    found, _ = parse_usage(recorded("views/sacct-usage.txt"), separator, counts_gpus=False)
    assert {job.num_gpus for job in found} == {None}


def test_gpu_utilisation_where_slurm_accounts_for_it():
    text = "7.0|2|1024|cpu=00:00:01,gres/gpumem=5G,gres/gpuutil=140|gres/gpuutil=70\n"
    (step,) = parse_stat(text)[7]
    assert step.gpu_util_percent == 70


def test_rows_in_disorder_are_rejected_with_their_reason(recorded, separator):
    text = recorded("views/sacct-usage.txt")
    broken = text.replace(f"{separator}1795968760{separator}", f"{separator}soon{separator}")
    assert broken != text
    found, rejects = parse_usage(broken, separator, counts_gpus=True)
    assert of(found, "43") == []
    assert any("not an epoch time" in r.reason for r in rejects)
    assert sum("without its job" in r.reason for r in rejects) == 4
    with pytest.raises(DataError, match="broken record"):
        parse_stat("7.0|2\n")
