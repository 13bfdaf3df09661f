"""Files of node counts: gaps, doubles, order, and what is no such file."""

from __future__ import annotations

import gzip
import io
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.shared import SHARED, needs_shared

from gsched.demand.node_series import MAX_STEPS, read_node_series
from gsched.errors import DataError, GschedError

HEAD = "time,active,total\n"


def read(text: str, **options: object):
    return read_node_series(io.BytesIO(text.encode()), **options)


def test_rows_in_any_order_with_gaps_and_doubles():
    told = read(
        HEAD + "2017-10-03 00:03:00,7,10\n2017-10-03 00:00:00,5,10\n2017-10-03 00:00:30,6,9\n\n"
    )
    assert told.busy.start == 1_506_988_800
    assert told.busy.values[[0, 3]].tolist() == [6, 7]
    assert np.isnan(told.busy.values[1:3]).all()
    assert told.total.values[0] == 10


def test_other_columns_zones_and_steps():
    text = "x;y\n".replace(";", ",") + "1,2\n"
    with pytest.raises(DataError, match="no column time, active, total"):
        read(text)
    told = read(
        "total_gpu_num,time,running_gpu_num\n64,2020-05-01 08:00:00,59\n",
        busy="running_gpu_num",
        total="total_gpu_num",
        zone=ZoneInfo("Asia/Shanghai"),
        step_s=600,
        unit="GPUs",
    )
    assert (told.busy.start, told.busy.step_s, told.busy.unit) == (1_588_291_200, 600, "GPUs")
    assert told.total.values.tolist() == [64]


def test_an_offset_in_the_file_goes_before_the_zone():
    row = "time,active,total\n2020-05-01T08:00:00+02:00,1,2\n"
    assert read(row, zone=ZoneInfo("Asia/Shanghai")).busy.start == 1_588_312_800


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("yesterday,1,2", "line 2 .* no moment"),
        ("2017-10-03,one,2", "line 2 .* no count"),
        ("2017-10-03,-1,2", "line 2 .* no count"),
        ("2017-10-03,inf,2", "line 2 .* no count"),
        ("2017-10-03,nan,2", "line 2 .* no count"),
        ("2017-10-03,1", "line 2 .* cut off"),
        ("0001-01-01,1,2\n2017-10-03,1,2", "spans|no moment"),
    ],
)
def test_a_wrong_row_is_named_by_its_line(row, message):
    with pytest.raises(DataError, match=message):
        read(HEAD + row + "\n")


def test_nothing_and_too_much_are_no_series():
    with pytest.raises(DataError, match="no column"):
        read("")
    with pytest.raises(DataError, match="no rows"):
        read(HEAD)
    with pytest.raises(DataError, match=f"{MAX_STEPS:,}"):
        read(HEAD + "1970-01-02,1,2\n2017-10-03,1,2\n")


def test_an_empty_field_is_not_known():
    told = read(HEAD + "2017-10-03 00:00:00,,420\n2017-10-03 00:01:00,3,\n")
    assert np.isnan(told.busy.values[0])
    assert told.busy.values[1] == 3
    assert np.isnan(told.total.values[1])


@given(st.binary(max_size=200))
def test_any_bytes_give_a_series_or_an_error_of_ours(data):
    try:
        told = read_node_series(io.BytesIO(HEAD.encode() + data))
    except GschedError:
        return
    assert len(told.busy) == len(told.total) > 0


@needs_shared
def test_phillys_nodes():
    file = SHARED / "traces" / "helios_ces" / "philly_node_sequence.csv.gz"
    with gzip.open(file) as stream:
        told = read_node_series(stream)
    assert int((~np.isnan(told.busy.values)).sum()) == 105_644
    assert int(np.isnan(told.busy.values).sum()) == 599  # ten hours in October
    assert set(np.unique(told.total.filled())) == {174, 420, 552}
