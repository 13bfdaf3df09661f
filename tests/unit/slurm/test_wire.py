"""The request token in a job's comment."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gsched.errors import UsageError
from gsched.model.job import MAX_DEADLINE, MAX_JOB_ID, MAX_REWARD, PHASES, Wants
from gsched.slurm import wire

OPT_OUT = Wants(opt_out=True)

letters = st.one_of(st.sampled_from(" \ngs1{}none,\udcff"), st.characters(codec="utf-8"))
comments = st.text(alphabet=letters, max_size=60)
times = st.integers(1, MAX_DEADLINE)
rewards = st.floats(0, MAX_REWARD, exclude_min=True)
wants = st.builds(
    Wants,
    opt_out=st.booleans(),
    deadline=st.none() | times,
    soft_deadlines=st.dictionaries(times, rewards, max_size=5).map(
        lambda found: tuple(sorted(found.items()))
    ),
    phases=st.lists(st.sampled_from(PHASES), unique=True).map(tuple),
    shareable=st.booleans(),
    checkpoint=st.booleans(),
    number=st.integers(0, 999_999_999),
    profiles=st.lists(st.integers(1, MAX_JOB_ID), unique=True, max_size=2).map(tuple),
)


@given(wants)
def test_all_wants_come_back(asked):
    made = wire.token(asked)
    assert len(made) <= wire.MAX_TOKEN_BYTES
    assert made.isascii()
    assert " " not in made
    assert wire.read(made) == wire.Reading(asked, made, "", 0)
    assert wire.token(wire.read(made).wants) == made


@given(comments, wants)
def test_the_token_comes_back_and_the_users_text_stays(comment, asked):
    text = wire.strip(comment)
    assert comment.startswith(text)
    try:
        whole = wire.append(comment, asked)
    except UsageError:
        assert wire.read(text).token  # what looks like a second token
        return
    assert wire.read(whole).wants == asked
    assert whole.startswith(text)
    assume(asked != Wants())
    assert wire.strip(whole) == text
    assert wire.append(whole, asked) == whole
    assert wire.append(whole, OPT_OUT) == wire.append(text, OPT_OUT)


@given(st.one_of(comments, st.text(st.sampled_from("gs12{},=:.+-e9 ndsh"), max_size=60)))
def test_reading_never_fails_and_a_problem_asks_for_nothing(comment):
    seen = wire.read(comment)
    assert not seen.problem or seen.wants == Wants()
    assert len(seen.token) <= wire.MAX_TOKEN_BYTES


def test_spelling():
    assert wire.append("", OPT_OUT) == "gs1{none}"
    assert wire.append('{"tool": 1}', OPT_OUT) == '{"tool": 1} gs1{none}'
    assert wire.append("note", Wants()) == "note"
    everything = Wants(
        deadline=1_800_000_000,
        soft_deadlines=((1_700_000_000, 2.0), (1_800_000_000, 0.25)),
        phases=("eval", "sft"),
        shareable=True,
        checkpoint=True,
        number=7,
        profiles=(41, 42),
    )
    assert wire.token(everything) == (
        "gs1{deadline=1800000000,soft=1700000000:2,soft=1800000000:0.25,phase=eval+sft,share,ckpt,"
        "profile=41+42,n=7}"
    )


@pytest.mark.parametrize("comment", ["gs1{none}", "x gs1{none}", "ü\n gs1{none}", " gs1{none}"])
def test_opted_out(comment):
    assert wire.read(comment) == wire.Reading(OPT_OUT, "gs1{none}")


def test_items_of_a_newer_submit_are_counted_and_no_error():
    assert wire.read("x gs1{later=1,none,more,}") == wire.Reading(
        OPT_OUT, "gs1{later=1,none,more,}", "", 3
    )


@pytest.mark.parametrize(
    "comment", ["", "none", "gs1", "gs1 {none}", "xgs1{none}", "x\ngs1{none}", "gs{none}",
                "gs01{none}", "gs1(none)", '{"args": "gs1{none}"}'],
)  # fmt: skip
def test_no_token(comment):
    assert wire.read(comment) == wire.Reading()


def test_a_token_may_ask_for_nothing():
    assert wire.read("x gs1{}") == wire.Reading(Wants(), "gs1{}")


@pytest.mark.parametrize(
    ("comment", "problem"),
    [
        ("gs1{none} x", "not at the end"),
        ("gs1{none}\n", "not at the end"),
        ("gs1{none", "not well-formed"),
        ("gs1{none }", "not well-formed"),
        ("gs1{a{none}}", "not well-formed"),
        ("gs1{nöne}", "not well-formed"),
        ("gs1{none} gs1{none}", "more than one"),
        ("gs1{none} and gs2{x} y", "more than one"),
        ("gs2{none}", "version 2, not 1"),
        ("gs1{" + "a," * 200 + "none}", "longer than 300"),
        ("gs1{" + "x" * 100_000 + "}", "longer than 300"),
        ("gs1{none} " * 10_000, "more than one"),
        ("gs1{none,none}", "none twice"),
        ("gs1{none=1}", "none has a value"),
        ("gs1{deadline}", "deadline has a value that it must not have, or none"),
        ("gs1{deadline=1,deadline=1}", "deadline twice"),
        ("gs1{deadline=0}", "a time"),
        ("gs1{deadline=-5}", "a time"),
        ("gs1{deadline=8589934593}", "a time"),
        ("gs1{deadline=99999999999999999999}", "a time"),
        ("gs1{deadline=1e9}", "a time"),
        ("gs1{deadline=NaN}", "a time"),
        ("gs1{soft=5:-1}", "a reward"),
        ("gs1{soft=5:NaN}", "a reward"),
        ("gs1{soft=5:inf}", "a reward"),
        ("gs1{soft=5:1e999}", "a reward"),
        ("gs1{soft=5:1e-999}", "a reward"),
        ("gs1{soft=5:0}", "a reward"),
        ("gs1{soft=5:1000000001}", "a reward"),
        ("gs1{soft=5}", "a reward"),
        ("gs1{soft=:1}", "a time"),
        ("gs1{soft=5:1,soft=5:2}", "a soft deadline twice"),
        ("gs1{" + ",".join(f"soft={i}:1" for i in range(1, 10)) + "}", "more than 8"),
        ("gs1{phase=}", "a phase"),
        ("gs1{phase=eval+eval}", "a phase"),
        ("gs1{phase=mining}", "a phase"),
        ("gs1{profile=}", "a profile run"),
        ("gs1{profile=1+2+3}", "a profile run"),
        ("gs1{profile=4+4}", "a profile run"),
        ("gs1{profile=2147483648}", "a profile run"),
        ("gs1{profile=4_1}", "a profile run"),
        ("gs1{n=0}", "a number"),
        ("gs1{n=1234567890}", "a number"),
    ],
)
def test_a_wrong_token_asks_for_nothing_and_says_why(comment, problem):
    seen = wire.read(comment)
    assert seen.wants == Wants()
    assert problem in seen.problem
    assert seen.token
    assert len(seen.token) <= wire.MAX_TOKEN_BYTES
    # what is told of it holds nothing of what its writer chose
    assert "mining" not in seen.problem


def test_the_longest_token():
    fitting = "gs1{none," + "x" * (wire.MAX_TOKEN_BYTES - 10) + "}"
    assert len(fitting) == 300
    assert wire.read(f"note {fitting}").wants == OPT_OUT
    assert wire.read("note " + fitting.replace("x}", "xx}")).wants == Wants()


def test_a_request_that_is_too_long_is_refused():
    soft = tuple((MAX_DEADLINE - i, 1.2345678901234567e-100) for i in range(8, 0, -1))
    with pytest.raises(UsageError, match="bytes of the job's comment, 300 at most"):
        wire.append("", Wants(soft_deadlines=soft))


def test_the_whole_must_fit_slurms_comment():
    room = wire.MAX_COMMENT_BYTES - len(" gs1{none}")
    assert len(wire.append("x" * room, OPT_OUT)) == wire.MAX_COMMENT_BYTES
    with pytest.raises(UsageError, match="exceed Slurm's 1024 bytes"):
        wire.append("x" * (room + 1), OPT_OUT)
    with pytest.raises(UsageError):
        wire.append("ä" * (room // 2 + 1), OPT_OUT)  # bytes, not characters


def test_comments_with_undecodable_bytes():
    """Python's spelling of such bytes in arguments."""
    comment = b"a\xffb".decode("utf-8", "surrogateescape")
    assert wire.strip(wire.append(comment, OPT_OUT)) == comment


def test_a_second_token_is_refused_before_it_asks_for_nothing():
    with pytest.raises(UsageError, match="that does not stand at its end"):
        wire.append("see gs1{none} above", OPT_OUT)
