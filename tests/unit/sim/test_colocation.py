"""Measured pairs from files: Gavel's own, a site's table, and what is neither."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from support.shared import SHARED, needs_shared

from gsched.errors import DataError, UsageError
from gsched.sim.colocation import classes_of, drawn_classes, read_colocation
from gsched.sim.jobs import ANY
from gsched.sim.rules import Sharing

GAVEL = SHARED / "traces" / "gavel" / "simulation_throughputs.json.gz"
TABLE = """class,num_gpus,partner,speed
bert,1,bert,0.6
bert,1,vgg,0.9
vgg,1,bert,1.04
vgg,1,vgg,0
eval,,eval,0.5
"""


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "pairs.csv"
    path.write_text(text)
    return str(path)


def speed_of(sharing: Sharing, name: str, partner: str) -> float:
    return float(sharing.speeds[sharing.classes.index(name), sharing.classes.index(partner)])


@needs_shared
def test_gavels_speeds_are_throughput_in_the_pair_over_throughput_alone() -> None:
    sharing = read_colocation(str(GAVEL), "v100")
    with gzip.open(GAVEL) as stream:
        table = json.load(stream)["v100"]
    own, other = "('ResNet-18 (batch size 128)', 1)", "('ResNet-50 (batch size 16)', 1)"
    expected = table[own][other][0] / table[own]["null"]
    assert expected < 0.9
    speed = speed_of(sharing, "ResNet-18 (batch size 128) x1", "ResNet-50 (batch size 16) x1")
    assert speed == pytest.approx(expected, abs=1e-12)
    one, large = "ResNet-50 (batch size 32)", "ResNet-50 (batch size 128)"
    assert table[f"('{one}', 1)"][f"('{large}', 1)"] == [0.0, 0.0]
    assert np.isnan(speed_of(sharing, f"{one} x1", f"{large} x1"))


@needs_shared
def test_of_gavels_pairs_those_of_the_gpu_type_are_taken_and_all_of_them() -> None:
    counts = {}
    for gpu_type in ("k80", "v100"):
        speeds = read_colocation(str(GAVEL), gpu_type).speeds
        told = speeds[~np.isnan(speeds)]
        assert told.min() > 0
        assert told.max() <= 1
        assert np.array_equal(np.isnan(speeds), np.isnan(speeds.T))
        counts[gpu_type] = len(told)
    # 1,759 pairs were measured on each; so many did not fit, or were of a job that never ran
    assert counts == {"k80": 1759 - 1170, "v100": 1759 - 1123}


def test_a_sites_own_table(tmp_path: Path) -> None:
    sharing = read_colocation(written(tmp_path, TABLE), min_speed=0.7)
    assert sharing.classes == ("bert x1", "eval", "vgg x1")
    expected = [[0.6, np.nan, 0.9], [np.nan, 0.5, np.nan], [1.0, np.nan, np.nan]]
    np.testing.assert_array_equal(sharing.speeds, expected)
    assert sharing.min_speed == 0.7


def test_jobs_get_their_class_by_name_and_size(tmp_path: Path) -> None:
    sharing = read_colocation(written(tmp_path, TABLE))
    names = ["bert", "bert", "eval", "vgg", "Bert"]
    num_gpus = np.array([1, 2, 4, 1, 1], dtype=np.int32)
    assert classes_of(sharing, names, num_gpus).tolist() == [0, ANY, 1, 2, ANY]


@needs_shared
def test_drawn_classes_are_of_the_jobs_size_and_repeat_with_the_seed() -> None:
    sharing = read_colocation(str(GAVEL))
    num_gpus = np.tile(np.array([1, 2, 3, 8], dtype=np.int32), 500)
    drawn = drawn_classes(sharing, num_gpus, 1)
    assert np.array_equal(drawn, drawn_classes(sharing, num_gpus, 1))
    assert not np.array_equal(drawn, drawn_classes(sharing, num_gpus, 2))
    assert (drawn[num_gpus == 3] == ANY).all()  # nothing was measured with 3
    for gpus, kinds in ((1, 26), (2, 19), (8, 19)):
        names = {sharing.classes[row] for row in drawn[num_gpus == gpus]}
        assert all(name.endswith(f" x{gpus}") for name in names)
        assert len(names) == kinds


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no column class, partner, speed"),
        ("class,partner\na,b\n", "no column speed"),
        ("class,partner,speed\n", "0 classes"),
        ("class,partner,speed\na,b,fast\n", "could not convert"),
        ("class,partner,speed\na,b,-1\n", "line 2: speed '-1' is no speed"),
        ("class,partner,speed\na,b,nan\n", "is no speed"),
        ("class,partner,speed\na,b,1.5\nb,a,2.5\n", "line 3: speed '2.5': speeds are relative"),
        (
            '{"v100": {"(\'a\', 1)": {"null": 2, "(\'a\', 1)": [4, 4]}}}',
            "2 times as fast as alone",
        ),
        ("class,partner,speed\n,b,1\n", "without class"),
        ("class,partner,speed\na,b,0.5\na,b,0.6\n", "line 3: 'a' beside 'b' comes twice"),
        ("class,partner,speed,num_gpus\na,b,0.5,two\n", "invalid literal"),
        ("{", "Expecting property name"),
        ('{"k80": {}}', "has no GPU type 'v100' (it has k80)"),
        ('{"v100": {"null": {"null": 1}}}', "is not a job type"),
        ('{"v100": ' + "[" * 100_000, "recursion"),
        ("\x00\x01", "no column"),
    ],
)
def test_what_is_no_table_is_refused_in_words(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(DataError) as caught:
        read_colocation(written(tmp_path, text))
    assert told in caught.value.message
    assert "pairs.csv" in caught.value.message


def test_no_such_file() -> None:
    with pytest.raises(UsageError):
        read_colocation("/nowhere/pairs.csv")
