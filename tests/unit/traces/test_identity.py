"""Which job is which, in formats that number none."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.model.trace import ReadOptions
from gsched.traces import identity


def test_texts_become_numbers_of_63_bits() -> None:
    ids = {identity.job_id_of_text(f"job {n}") for n in range(10_000)}
    assert len(ids) == 10_000
    assert 0 <= min(ids) < max(ids) < 2**63
    assert max(ids) > 2**62


def test_numbers_stay_and_texts_are_kept() -> None:
    ids, texts = identity.numbers_or_texts(["7", "007", "0", "x", "1" * 40])
    assert (ids[0], ids[2]) == (7, 0)
    assert texts == [None, "007", None, "x", "1" * 40]
    assert len(set(ids)) == 5


def test_equal_rows_are_distinct_jobs_with_the_same_ids_every_time() -> None:
    submits, contents = [100, 100, 50, 100], ["a", "a", "a", "b"]
    ids = identity.content_ids(submits, contents, {})
    assert len(set(ids)) == 4
    assert ids == identity.content_ids(submits, contents, {})
    assert [i >> 29 for i in ids] == submits
    assert max(identity.content_ids([2**34 - 1], ["x"], {})) < 2**63


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from("ab")), max_size=40), st.data())
def test_any_order_and_any_split_give_the_same_ids(
    rows: list[tuple[int, str]], data: st.DataObject
) -> None:
    whole = identity.content_ids([t for t, _ in rows], [c for _, c in rows], {})
    assert len(set(whole)) == len(rows)
    shuffled = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(0, len(rows)))
    seen: dict[str, object] = {}
    split = []
    for part in (shuffled[:cut], shuffled[cut:]):
        split += identity.content_ids([t for t, _ in part], [c for _, c in part], seen)
    assert sorted(split) == sorted(whole)


def test_counting_of_equal_rows_is_exact_where_digests_touch() -> None:
    counted, expected = identity._EqualRows(), {}
    rng = random.Random(7)
    for _ in range(20_000):
        digest = b"\0\1" + bytes(rng.choice(b"\0\1") for _ in range(6))
        digest = rng.choice([digest, digest[:2] + rng.randbytes(6)])
        assert counted.count(digest) == expected.get(digest, 0)
        expected[digest] = expected.get(digest, 0) + 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (ReadOptions("x/cluster01.csv.gz"), "itp-cluster01"),
        (ReadOptions("-"), "itp"),
        (ReadOptions("x.csv", cluster="c"), "c"),
    ],
)
def test_cluster_of_a_file(options: ReadOptions, expected: str) -> None:
    assert identity.cluster_of_file(options, "itp") == expected
