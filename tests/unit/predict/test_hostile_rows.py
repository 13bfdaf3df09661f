"""What one user writes changes nothing but the predictions of that user's jobs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.jobs import T0, past_job, view

from gsched.model.job import JobState
from gsched.predict.attributes import JobAttributes
from gsched.predict.memory import Memory
from gsched.predict.model import DurationModel
from gsched.predict.rolling import QUANTILES
from gsched.predict.store import decode, encode

from .conftest import unnamed_history

NOW = T0 + 10**6

# any text, lone surrogates and control characters included, and what looks like something known
text = st.one_of(
    st.text(st.characters(), max_size=40),
    st.sampled_from(["ann", "bob", "sh", "a" * 100_000, "\x00", "\udcff", "0" * 500, "f" * 64]),
)
number = st.one_of(st.none(), st.integers(0, 2**63), st.sampled_from([1, 2**31 - 1]))
jobs = st.builds(
    JobAttributes,
    user=text,
    tenant=text,
    partition=text,
    name=text,
    num_gpus=st.integers(0, 2**40),
    num_cpus=number,
    num_nodes=number,
    submit_time=st.integers(-(2**40), 2**62),
    time_limit_s=st.one_of(st.none(), st.integers(1, 2**62)),
)
KNOWN = [
    JobAttributes(user, "lab", "gpu", "sh", 1, 4, 1, NOW, limit_s)
    for user in ("ann", "bob", "eve")
    for limit_s in (3600, 86400, None)
]


@given(junk=jobs, place=st.integers(0, len(KNOWN)))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_job_that_asks_for_nonsense_changes_no_other_prediction(blended_model, junk, place):
    expected = blended_model.predictions_of(blended_model.look(KNOWN, NOW))
    asked = [*KNOWN[:place], junk, *KNOWN[place:]]
    found = blended_model.predictions_of(blended_model.look(asked, NOW))
    own = found.pop(place)
    assert found == expected
    assert 0 < own.mean < math.inf
    assert [p for p, _ in own.quantiles] == list(QUANTILES)
    values = [seconds for _, seconds in own.quantiles]
    assert values == sorted(values)
    assert all(0 < seconds < math.inf for seconds in values)


ended = st.builds(
    replace,
    st.just(past_job(1, 1, end=T0)),
    job_id=st.integers(0, 2**40),
    user=st.text(st.characters(), max_size=20).map(lambda user: f"junk {user}"),
    tenant=text,
    partition=text,
    name=text,
    num_gpus=st.integers(0, 2**40),
    num_cpus=number,
    num_nodes=number,
    submit_time=st.integers(T0 - 10**6, T0),
    start_time=st.integers(T0, T0 + 10**5),
    end_time=st.integers(T0, T0 + 4 * 10**5),
    time_limit_s=st.one_of(st.none(), st.integers(-5, 2**62)),
    state=st.sampled_from(list(JobState)),
)


@given(junk=st.lists(ended, min_size=1, max_size=30))
@settings(max_examples=4, deadline=None)
def test_what_others_have_run_changes_no_rolling_estimate_of_a_known_user(junk):
    history = unnamed_history(60)
    honest = DurationModel.fit(history, NOW, NOW)
    model = DurationModel.fit([*history, *junk], NOW, NOW)
    asked = KNOWN[:6]  # of the users who are in the history
    for now in (NOW, T0 + 50_000):
        pairs = zip(model.look(asked, now), honest.look(asked, now), strict=True)
        assert all(mine == theirs for mine, theirs in pairs)
    again = decode(encode(model), None)
    assert again.predictions_of(again.look(asked, NOW)) == (
        model.predictions_of(model.look(asked, NOW))
    )


@pytest.mark.parametrize("count", [0, 1, 10_000])
def test_ten_thousand_names_of_one_user_change_nothing_of_the_others(blended_model, count):
    expected = blended_model.predict([view(1, user="bob", name="sh")], NOW)
    flood = [view(10 + i, user="flood", name=f"{i:x}" * 9) for i in range(count)]
    asked = [*flood, view(1, user="bob", name="sh")]
    assert blended_model.predict(asked, NOW)[-1:] == expected


# short, of few characters: one's name is often another's masked form, with something before it
names = st.one_of(
    st.text("~a0_", min_size=1, max_size=4), st.sampled_from(["abc", "~abc", "~~abc"])
)


@given(
    known=st.lists(st.tuples(names, st.integers(1, 10_000)), min_size=1, max_size=8),
    asked=st.lists(names, min_size=1, max_size=8),
)
@example(known=[("zzzzzzzz", 5000)] * 5 + [("~abc", 10)], asked=["~abc", "abc"])
def test_no_name_changes_what_is_seen_of_another_and_their_order_is_nothing(known, asked):
    memory = Memory.empty()
    for i, (name, duration_s) in enumerate(known):
        memory.observe(past_job(i, duration_s, end=T0 + i, user="ann", name=name))
    jobs = [replace(KNOWN[0], name=name) for name in asked]
    alone = [memory.look([job], NOW)[0] for job in jobs]
    assert memory.look(jobs, NOW) == alone
    assert memory.look(jobs[::-1], NOW) == alone[::-1]
