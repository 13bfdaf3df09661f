"""The request token in a job's comment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.errors import UsageError
from gsched.model.job import Wants
from gsched.slurm import wire

OPT_OUT = Wants(opt_out=True)

letters = st.one_of(st.sampled_from(" \ngs1{}none,\udcff"), st.characters(codec="utf-8"))
comments = st.text(alphabet=letters, max_size=60)


@given(comments)
def test_the_token_comes_back_and_the_users_text_stays(comment):
    text = wire.strip(comment)
    whole = wire.append(comment, OPT_OUT)
    assert wire.read(whole) == OPT_OUT
    assert wire.strip(whole) == text
    assert whole.startswith(text)
    assert wire.append(whole, OPT_OUT) == whole
    assert wire.append(whole, Wants()) == text


@given(comments)
def test_reading_never_fails(comment):
    assert wire.read(comment).opt_out in {True, False}


def test_spelling():
    assert wire.append("", OPT_OUT) == "gs1{none}"
    assert wire.append('{"tool": 1}', OPT_OUT) == '{"tool": 1} gs1{none}'
    assert wire.append("note", Wants()) == "note"


@pytest.mark.parametrize("comment", ["gs1{none}", "x gs1{none}", "x gs1{later=1,none,more}"])
def test_opted_out(comment):
    assert wire.read(comment) == OPT_OUT


@pytest.mark.parametrize(
    "comment",
    ["", "none", "gs1{}", "gs1{none} x", "xgs1{none}", "gs1{none", "gs2{none}", "gs1{no,ne}",
     "gs1{none }", "gs1{nonesuch}", "x\ngs1{none}", "gs1{none}\n", "gs1{" + "a," * 200 + "none}"],
)  # fmt: skip
def test_not_opted_out(comment):
    assert wire.read(comment) == Wants()


def test_an_overlong_token_is_none():
    fitting = "gs1{none," + "x" * (wire.MAX_TOKEN_BYTES - 10) + "}"
    assert len(fitting) == 300
    assert wire.read(f"note {fitting}") == OPT_OUT
    assert wire.read("note " + fitting.replace("x}", "xx}")) == Wants()


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


def test_what_the_token_cannot_carry_is_not_dropped_in_silence():
    with pytest.raises(ValueError, match="opt-out only"):
        wire.append("", Wants(deadline=1_700_000_000))
