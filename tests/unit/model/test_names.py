from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.model.names import MAX_LENGTH, bounded, masked


@pytest.mark.parametrize(
    ("name", "mask"),
    [
        ("train", "train"),
        ("Train-BERT", "train-bert"),
        ("resnet50", "resnet#"),
        ("run_0012", "run_#"),
        ("lr0.001_bs32", "lr#.#_bs#"),
        ("gpt2xl", "gpt2xl"),
        ("w0053x2_300518", "w0053x#_#"),
        ("train-2026-01-31", "train-&"),
        ("train20260131b", "train&b"),
        ("2026-01-31T12", "&t#"),
        ("train-20261399", "train-#"),
        ("ckpt-4f3a9c1b", "ckpt-@"),
        ("550e8400-e29b-41d4-a716-446655440000.sh", "@.sh"),
        ("facade-defaced", "facade-defaced"),
        ("deadbeefs", "deadbeefs"),
        ("日本語3", "日本語#"),
        ("a\nb|c\t7", "a\nb|c\t#"),
        ("", ""),
    ],
)
def test_what_differs_from_run_to_run_is_masked(name, mask):
    assert masked(name) == mask


def test_long_names_keep_their_beginning_and_end():
    name = "a" * 300 + "middle" + "b" * 300 + "-v2"
    short = bounded(name)
    assert len(short) == MAX_LENGTH
    assert short.startswith("aaa")
    assert short.endswith("-v2")
    assert bounded(short) == short
    assert bounded("x" * MAX_LENGTH) == "x" * MAX_LENGTH


@given(st.text(max_size=2000))
def test_any_text_can_be_masked(name):
    mask = masked(name)
    assert len(mask) <= 2 * MAX_LENGTH  # lower case of some letters is longer
    assert masked(name) == mask


def test_lone_surrogates_are_masked_as_any_text():
    assert masked("\udcff-7") == "\udcff-#"
