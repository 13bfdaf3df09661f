"""Which job an id means, what the history says of it, and when a job can never start."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.history import attempt, batch
from support.queue import StandInSlurm, node, partition, row

from gsched.app.job import WhyLine, find_live, never_starts, show_document, why_lines
from gsched.config.settings import Settings
from gsched.errors import UsageError
from gsched.model.job import JobState
from gsched_sql import History

NODES = (node("n1"), node("n2"))
PARTITION = partition()


def test_gpus_for_the_whole_job_may_be_spread_over_the_partition():
    assert never_starts(row(1, num_gpus=16), NODES, [PARTITION]) == ""
    assert "16 GPUs on one node" not in never_starts(row(1, num_gpus=17), NODES, [PARTITION])
    assert never_starts(row(1, num_gpus=17), NODES, [PARTITION]).startswith(
        "it asks for 17 GPUs; gpu can give it 16 on 2 nodes"
    )


def test_a_most_of_nodes_bounds_the_gpus_of_the_whole_job():
    nodes = (node("n1", 4), node("n2", 8), node("n3", 8))
    three = partition(nodes=("n1", "n2", "n3"))
    assert never_starts(row(1, num_gpus=16, max_nodes=2), nodes, [three]) == ""
    assert "16 on 2 nodes" in never_starts(row(1, num_gpus=17, max_nodes=2), nodes, [three])
    at_most_two = partition(nodes=("n1", "n2", "n3"), max_nodes=2)
    assert never_starts(row(1, num_gpus=16), nodes, [at_most_two]) == ""
    assert "16 on 2 nodes" in never_starts(row(1, num_gpus=17), nodes, [at_most_two])


def test_a_most_that_slurm_shows_for_want_of_one_says_nothing():
    # squeue shows --gpus=16 and --gpus=16 --nodes=1 alike
    assert never_starts(row(1, num_gpus=16, min_nodes=1, max_nodes=1), NODES, [PARTITION]) == ""


def test_gpus_on_each_node_must_fit_the_largest_node():
    nodes = (node("n1", 4), node("n2", 8))
    fits = row(1, num_gpus=8, gpus_per_node=8)
    assert never_starts(fits, nodes, [PARTITION]) == ""
    too_many = row(1, num_gpus=9, gpus_per_node=9)
    assert never_starts(too_many, nodes, [PARTITION]).startswith(
        "it asks for 9 GPUs on one node; the largest node of gpu has 8"
    )


def test_more_nodes_than_there_are():
    assert never_starts(row(1, min_nodes=2, max_nodes=2), NODES, [PARTITION]) == ""
    wide = row(1, min_nodes=3, max_nodes=3)
    assert never_starts(wide, NODES, [PARTITION]) == "it asks for 3 nodes; gpu has 2"


@pytest.mark.parametrize(
    ("limit_s", "most_s", "starts"),
    [(3600, 3600, True), (3601, 3600, False), (3601, None, True), (None, 3600, True)],
)
def test_time_limits(limit_s, most_s, starts):
    found = never_starts(row(1, time_limit_s=limit_s), NODES, [partition(max_time_s=most_s)])
    assert (found == "") is starts
    assert starts or found.startswith("its time limit exceeds that of gpu")


def test_a_dependency_that_cannot_be_satisfied_any_more():
    found = never_starts(row(1, reason="DependencyNeverSatisfied"), NODES, [PARTITION])
    assert found.startswith("the job that it depends on ended the wrong way")
    assert never_starts(row(1, reason="Dependency"), NODES, [PARTITION]) == ""


def test_one_partition_that_can_take_the_job_is_enough_and_parts_of_two_are_not():
    small, large = partition("small", ("n1",)), partition("large", ("n2",))
    nodes = (node("n1", 4, "small"), node("n2", 8, "large"))
    both = {"partitions": ("small", "large")}
    assert never_starts(row(1, num_gpus=8, **both), nodes, [small, large]) == ""
    assert "small can give it 4 on 1 node" in never_starts(
        row(1, num_gpus=9, **both), nodes, [small, large]
    )
    too_long = partition("large", ("n2",), max_time_s=59)
    assert never_starts(row(1, num_gpus=8, **both), nodes, [small, too_long]) != ""


def test_what_is_not_shown_makes_no_job_impossible():
    large = row(1, num_gpus=99, gpus_per_node=99, min_nodes=9)
    assert never_starts(large, NODES, []) == ""
    assert never_starts(large, NODES[:1], [PARTITION]) == ""
    assert never_starts(large, [], [partition(nodes=())]) == ""
    hidden = row(1, num_gpus=99, partitions=("gpu", "hidden"))
    assert never_starts(hidden, NODES, [PARTITION]) == ""


# -- one job --------------------------------------------------------------------------------


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A history in which array 7 has ended tasks and job 8 has three ended components."""
    found = Settings(state_dir=tmp_path)
    History.create(found.database_url)
    with History.open(found.database_url) as history:
        tasks = [attempt(7, 1000, array_task=task) for task in range(5)]
        parts = [attempt(8, 1000, het_offset=part) for part in range(3)]
        history.ingest(batch(*tasks, *parts), source_key=None)
    return found


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> StandInSlurm:
    """A Slurm that still knows task 3 of array 7 and component 1 of job 8."""
    made = StandInSlurm(
        row(703, job_id=7, array_task=3),
        row(704, job_id=7, array_task=4),
        row(801, job_id=8, het_offset=1),
    )
    monkeypatch.setattr("gsched.app.job.slurm_client", lambda _: made)
    return made


def past(settings: Settings, job: str) -> list[str]:
    return [found["job"] for found in show_document(settings, job)["history"]]


def test_the_history_shown_is_that_of_the_task_or_component_alone(settings, slurm):
    assert past(settings, "7_3") == ["7_3"]
    assert past(settings, "8+1") == ["8+1"]
    assert past(settings, "7_2") == ["7_2"]  # no longer in the queue


def test_a_job_found_by_slurms_own_number_has_its_history(settings, slurm):
    assert past(settings, "703") == ["7_3"]
    assert past(settings, "801") == ["8+1"]


def test_an_array_that_waits_whole_has_the_history_of_what_was_asked_for(settings, slurm):
    slurm.rows = (row(7, is_unsplit_array=True, array_tasks="0-9"),)
    assert past(settings, "7") == ["7_4", "7_3", "7_2", "7_1", "7_0"]
    assert past(settings, "7_3") == ["7_3"]


def test_a_job_of_several_parts_is_asked_for_one_of_them(settings, slurm):
    with pytest.raises(UsageError, match=r"job 7 has 2 parts \(7_3, 7_4"):
        find_live(settings, "7")
    assert find_live(settings, "7_9") is None


def test_the_queue_is_read_once_for_one_answer(settings, slurm):
    for job in ("7_3", "703"):
        slurm.readings = 0
        live = find_live(settings, job)
        assert live is not None
        assert (live.row.raw_id, live.text.name, live.line.name) == (703, "name 703", "name 703")
        assert slurm.readings == 1


def test_the_moment_that_slurm_expects_is_no_text(settings, slurm):
    slurm.rows = (row(9, start_time=1_800_000_000),)
    live = find_live(settings, "9")
    assert live is not None
    assert WhyLine("Slurm expects", "reckons with time limits", at=1_800_000_000) in why_lines(live)


def test_a_name_that_looks_like_a_moment_stays_a_name(settings, slurm):
    slurm.rows = (row(9, state=JobState.RUNNING, state_text="@RUNNING"),)
    live = find_live(settings, "9")
    assert live is not None
    assert why_lines(live) == [WhyLine("", "9 does not wait: it is @RUNNING")]
