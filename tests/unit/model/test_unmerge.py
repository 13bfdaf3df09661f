"""What is merged can be told again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gsched.model.history import AttemptRecord, Tres
from gsched.model.job import JobState
from gsched.model.merge import fold
from gsched.model.unmerge import records_of

moments = st.none() | st.integers(0, 3)
amounts = st.none() | st.integers(0, 2)
words = st.none() | st.sampled_from(["", "a", "b"])
tres = st.sampled_from([(), (Tres("cpu", 1),), (Tres("cpu", 2), Tres("mem", 1))])

records = st.builds(
    AttemptRecord,
    cluster=st.just("lab"),
    job_id=st.just(7),
    array_task=st.just(3),
    het_offset=st.none(),
    submit_time=st.just(0),
    state=st.sampled_from(JobState),
    state_text=st.sampled_from(["x", "y"]),
    source=st.sampled_from(["sacct", "jobcomp", "squeue", "philly", "pai"]),
    **dict.fromkeys(("eligible_time", "start_time", "end_time"), moments),
    **dict.fromkeys(("num_nodes", "num_cpus", "restarts", "exit_code"), amounts),
    **dict.fromkeys(("user", "name", "node_list", "extra", "phase"), words),
    requested=tres,
    allocated=tres,
)


@given(st.lists(records, min_size=1, max_size=5))
def test_the_records_of_a_merged_attempt_merge_to_the_same(some):
    [(key, merged)] = fold(some).items()
    assert fold(records_of(key, merged)) == {key: merged}


def test_one_source_is_one_record():
    record = AttemptRecord(
        "lab", 7, None, None, 0, JobState.COMPLETED, "done", "sacct",
        start_time=1, end_time=9, requested=(Tres("cpu", 1),),
    )  # fmt: skip
    [(key, merged)] = fold([record]).items()
    assert list(records_of(key, merged)) == [record]
