from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.jobs import T0, past_job, view

from gsched.predict import rolling
from gsched.predict.attributes import of_view
from gsched.predict.rolling import NAME_WINDOW, RollingEstimator

NOW = T0 + 10_000


def ask(estimator, now=NOW, **job):
    return estimator.estimate(of_view(view(999, **job)), now)


def fitted(*rows):
    """Rows (user, name, gpus, duration_s), which ended one after the other."""
    jobs = [
        past_job(i, duration_s, end=T0 + i, user=user, name=name, gpus=gpus)
        for i, (user, name, gpus, duration_s) in enumerate(rows)
    ]
    return RollingEstimator.fit(jobs)


def test_nothing_is_known_before_the_first_job_has_ended():
    assert ask(RollingEstimator()) is None
    assert ask(fitted(("ann", "train", 1, 10)), now=T0) is None
    assert ask(fitted(("ann", "train", 1, 10)), now=T0 + 1).duration_s == 10


def test_a_new_user_gets_the_mean_of_all_jobs_of_the_same_size():
    estimator = fitted(("ann", "a", 1, 10), ("bob", "b", 1, 30), ("bob", "c", 2, 500))
    found = ask(estimator, user="eve", gpus=1)
    assert (found.duration_s, found.source, len(found.matches)) == (20.0, "gpus", 2)
    found = ask(estimator, user="eve", gpus=8)
    assert (found.duration_s, found.source, len(found.matches)) == (180.0, "all", 3)


def test_a_known_user_with_a_new_name_gets_the_mean_of_the_own_jobs_of_that_size():
    estimator = fitted(("ann", "aaaa", 1, 10), ("ann", "bbbb", 2, 40), ("bob", "cccc", 1, 1000))
    found = ask(estimator, user="ann", name="zzzz", gpus=1)
    assert (found.duration_s, found.source) == (10.0, "user-gpus")
    found = ask(estimator, user="ann", name="zzzz", gpus=8)
    assert (found.duration_s, found.source) == (25.0, "user")


def test_size_of_a_job_without_gpus_is_its_cpus():
    jobs = [
        past_job(1, 10, end=T0, gpus=0, cpus=4, name="aaaa"),
        past_job(2, 90, end=T0, gpus=0, cpus=64, name="bbbb"),
    ]
    found = ask(RollingEstimator.fit(jobs), name="zzzz", gpus=0, cpus=64)
    assert (found.duration_s, found.source) == (90.0, "user-gpus")


def test_similar_runs_count_less_the_older_they_are():
    found = ask(fitted(("ann", "t", 1, 100), ("ann", "t", 4, 50), ("ann", "t", 1, 10)), name="t")
    weights = [1, rolling.DECAY, rolling.DECAY**2]
    expected = (10 * weights[0] + 50 * weights[1] + 100 * weights[2]) / sum(weights)
    assert found.duration_s == pytest.approx(expected)
    assert found.source == "similar-name"
    assert [m.run.duration_s for m in found.matches] == [10, 50, 100]
    assert sum(m.weight for m in found.matches) == pytest.approx(1)


def test_the_same_name_beats_a_masked_one_and_that_beats_a_similar_one():
    estimator = fitted(
        ("ann", "bert-1", 1, 10),
        ("ann", "bert-2", 1, 20),
        ("ann", "berts-fine-tune", 1, 70),
    )
    assert ask(estimator, name="bert-1").duration_s == 10
    found = ask(estimator, name="bert-3")
    assert sorted(m.name for m in found.matches) == ["bert-1", "bert-2"]
    found = ask(estimator, name="bert-fine-tune")
    assert [m.name for m in found.matches] == ["berts-fine-tune"]
    assert found.source == "similar-name"


def test_another_users_runs_of_that_name_do_not_count():
    estimator = fitted(("ann", "train", 1, 10), ("bob", "train", 1, 1000))
    assert ask(estimator, user="ann", name="train").duration_s == 10
    assert ask(estimator, user="bob", name="train").duration_s == 1000


def test_jobs_that_end_later_are_not_seen():
    known = [past_job(i, 10 + i, end=T0 + i, name=f"n{i % 3}x") for i in range(9)]
    leak = [
        past_job(100 + i, 5000, end=NOW + i, submit=T0, name=f"n{i % 3}x", user=user)
        for i in range(9)
        for user in ("ann", "eve")
    ]
    honest = RollingEstimator.fit(known)
    leaking = RollingEstimator.fit(known + leak)
    for user, name, gpus in [
        ("ann", "n1x", 1),
        ("ann", "zzz", 1),
        ("ann", "zzz", 8),
        ("eve", "", 1),
    ]:
        job = {"user": user, "name": name, "gpus": gpus}
        assert ask(leaking, **job) == ask(honest, **job)
        assert ask(leaking, now=NOW + 99, **job) != ask(honest, now=NOW + 99, **job)


run_rows = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob"]),
        st.sampled_from(["a-1", "a-2", "b", "", "c\n|'\u202e"]),
        st.integers(0, 2),
        st.integers(0, 1000),
        st.integers(T0 + 1001, T0 + 1100),
    ),
    max_size=25,
)


@given(run_rows, st.integers(T0 + 1001, T0 + 1101), st.randoms())
def test_only_the_past_counts_and_not_the_order_of_learning(rows, now, random):
    jobs = [
        past_job(i, duration_s, end=end, user=user, name=name, gpus=gpus)
        for i, (user, name, gpus, duration_s, end) in enumerate(rows)
    ]
    shuffled = list(jobs)
    random.shuffle(shuffled)
    everything = RollingEstimator.fit(shuffled)
    past_only = RollingEstimator.fit(j for j in jobs if j.end_time < now)
    for user in ("ann", "bob", "eve"):
        for name in ("a-1", "a-3", "b", "zzzzz"):
            job = {"user": user, "name": name}
            found = ask(everything, now=now, **job)
            assert found == ask(past_only, now=now, **job)
            if found is not None:
                assert all(m.run.end_time < now for m in found.matches)
                durations = [m.run.duration_s for m in found.matches]
                assert min(durations) - 1e-9 <= found.duration_s <= max(durations) + 1e-9


@given(run_rows)
def test_the_state_survives_json(rows):
    jobs = [
        past_job(i, duration_s, end=end, user=user, name=name, gpus=gpus)
        for i, (user, name, gpus, duration_s, end) in enumerate(rows)
    ]
    estimator = RollingEstimator.fit(jobs)
    text = json.dumps(estimator.to_json())
    again = RollingEstimator.from_json(json.loads(text))
    assert json.dumps(again.to_json()) == text
    for name in ("a-1", "a-9", "zzzzz"):
        assert ask(again, name=name) == ask(estimator, name=name)


USER: dict[str, Any] = {"recent": [[1, 2, 3]], "sizes": {}, "requests": {}, "names": {}}


@pytest.mark.parametrize(
    "damage",
    [
        {"recent": [[1, 2]]},
        {"recent": [[1, 2, "3"]]},
        {"recent": [[1, 2.5, 3]]},
        {"recent": None},
        {"sizes": [[1, 2, 3]]},
        {"sizes": {"gpu:1": []}},
        {"users": {"ann": USER | {"names": {"abc": []}}}},
        {"users": {"ann": USER | {"names": {"abc": [[1, 2, 3]] * (NAME_WINDOW + 1)}}}},
        {"users": {"ann": USER | {"requests": {"gpu:1/60": []}}}},
        {"users": {"ann": USER | {"sizes": {"gpu:1": []}}}},
        {"users": {"ann": {}}},
        {"users": {"ann": {"recent": [], "sizes": {}, "names": {}}}},
        {"users": {"ann": []}},
    ],
)
def test_damaged_state_is_refused(damage):
    state = {"recent": [], "sizes": {}, "users": {}} | damage
    with pytest.raises((KeyError, TypeError, ValueError)):
        RollingEstimator.from_json(state)


def test_what_the_damaged_states_are_made_of_is_sound():
    state = {"recent": [[1, 2, 3]], "sizes": {}, "users": {"ann": USER}}
    assert RollingEstimator.from_json(state).to_json()["users"].keys() == {"ann"}


def test_windows_forget_the_oldest_runs():
    jobs = [past_job(i, i, end=T0 + i, name="t") for i in range(1, 2001)]
    estimator = RollingEstimator.fit(jobs)
    by_name = ask(estimator, name="t")
    assert [m.run.duration_s for m in by_name.matches] == list(range(2000, 1980, -1))
    assert len(ask(estimator, name="zzzz").matches) == rolling.USER_WINDOW
    assert len(ask(estimator, user="eve").matches) == rolling.CLUSTER_WINDOW
    late = past_job(9999, 1, end=T0, name="t")  # older than all that is kept
    estimator.observe(late)
    assert ask(estimator, name="t") == by_name


def test_a_user_with_endless_new_names_is_forgotten_bit_by_bit():
    jobs = [
        past_job(i, i, end=T0 + i, name=f"{chr(97 + i % 26)}{chr(97 + i // 26 % 26)}{i:x}z" * 4)
        for i in range(rolling.MAX_NAMES + 50)
    ]
    estimator = RollingEstimator.fit(jobs)
    names = estimator.to_json()["users"]["ann"]["names"]
    assert len(names) == rolling.MAX_NAMES
    assert jobs[-1].name in names
    assert jobs[49].name not in names
    estimator.observe(past_job(9000, 5, end=T0 + 9000, name=jobs[50].name))
    estimator.observe(past_job(9001, 5, end=T0 + 9001, name="brand new"))
    names = estimator.to_json()["users"]["ann"]["names"]
    assert jobs[50].name in names
    assert jobs[51].name not in names


def test_names_of_any_length_are_kept_bounded():
    name = "x" * 5000 + "1"
    estimator = fitted(("ann", name, 1, 10))
    assert ask(estimator, name=name).source == "similar-name"
    assert len(json.dumps(estimator.to_json())) < 2000


def test_quantiles_weigh_recent_runs_more():
    rows = [("ann", "t", 1, d) for d in (1000, 1000, 1000, 10, 10, 10, 10)]
    found = ask(fitted(*rows), name="t").quantiles()
    assert [p for p, _ in found] == list(rolling.QUANTILES)
    assert [seconds for _, seconds in found] == [10, 10, 10, 10, 1000, 1000, 1000]
    assert {seconds for _, seconds in ask(fitted(rows[0]), name="t").quantiles()} == {1000.0}


def test_jobs_without_a_name_are_not_taken_for_alike():
    found = ask(fitted(("ann", "", 1, 10), ("ann", "", 2, 90), ("ann", "x", 1, 40)), name="")
    assert (found.duration_s, found.source) == (25.0, "user-gpus")


def test_runs_of_the_same_request_are_found_by_size_and_limit():
    jobs = [
        past_job(i, 10 * i, end=T0 + i, gpus=gpus, time_limit_s=limit_s)
        for i, (gpus, limit_s) in enumerate([(1, 60), (2, 60), (1, 90), (1, 60), (1, None)])
    ]
    estimator = RollingEstimator.fit(jobs)

    def known(now=NOW, **job):
        return [run.job_id for run in estimator.same_request(of_view(view(99, **job)), now)]

    assert known(gpus=1, time_limit_s=60) == [0, 3]
    assert known(gpus=1, time_limit_s=60, now=T0 + 3) == [0]
    assert known(gpus=1) == [4]
    assert known(gpus=1, time_limit_s=60, user="eve") == []
    assert [run.job_id for run in estimator.latest("ann", T0 + 4)] == [2, 3]
    assert estimator.latest("eve", NOW) == ()


def test_many_runs_under_names_that_differ_by_a_number():
    """The window of a masked form forgets; an earlier moment is answered from the names' own."""
    jobs = [past_job(i, i, end=T0 + i, name=f"run-{i}") for i in range(60)]
    estimator = RollingEstimator.fit(jobs)
    for now in (T0 + 60, T0 + 31):
        found = ask(estimator, now=now, name="run-99")
        expected = [now - T0 - 1 - age for age in range(rolling.NAME_WINDOW)]
        assert [match.run.duration_s for match in found.matches] == expected
    again = RollingEstimator.from_json(json.loads(json.dumps(estimator.to_json())))
    assert ask(again, name="run-99") == ask(estimator, name="run-99")
