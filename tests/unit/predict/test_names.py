from __future__ import annotations

from gsched.predict.names import most_similar, nearest


def test_lone_surrogates_do_not_stop_anything():
    assert most_similar("\udcff-abcdefgh", ["\udcff-abcdefgi"], 3) == ["\udcff-abcdefgi"]


def test_similar_names_come_most_alike_first_and_limited():
    masks = ["eval", "train-bert-larges", "train-bert-large", "train-bart-large"]
    assert most_similar("train-bert-large", masks, 2)[0] == "train-bert-large"
    assert len(most_similar("train-bert-large", masks, 2)) == 2
    assert set(most_similar("train-bert-large", masks, 9)) == set(masks[1:])
    assert most_similar("something else", masks, 9) == []
    assert most_similar("", ["train"], 9) == []


def test_the_nearest_mask_or_none():
    masks = ["eval", "train-bert-#", "train-gpt-#"]
    assert nearest("train-berts-#", masks) == 1
    assert nearest("prepare", masks) is None
    assert nearest("x", []) is None
