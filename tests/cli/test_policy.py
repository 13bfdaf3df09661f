"""`gsched policy` as a user meets it."""

from __future__ import annotations

import json


def test_list_tells_order_needs_and_knobs(gsched):
    answer = gsched("policy", "list")
    assert (answer.returncode, answer.stderr) == (0, "")
    lines = answer.stdout.splitlines()
    assert lines[0].split() == ["POLICY", "ORDER", "NEEDS", "KNOBS", "SUMMARY"]
    assert [line.split()[0] for line in lines[1:]] == ["qssf", "fifo", "fewest-gpus"]
    assert lines[1].split()[1:5] == ["static", "reorder,", "prediction", "span_octaves=8"]
    assert "least predicted GPU-time first" in lines[1]


def test_list_as_json_gives_bounds_of_knobs(gsched):
    qssf, fifo, control = json.loads(gsched("policy", "list", "--json").stdout)["policies"]
    assert qssf["name"] == "qssf"
    assert qssf["order"] == "static"
    assert qssf["requires"] == ["reorder"]
    assert qssf["needs_prediction"] is True
    assert qssf["problem"] is None
    (knob,) = qssf["knobs"]
    assert (knob["name"], knob["default"], knob["minimum"], knob["maximum"], knob["unit"]) == (
        "span_octaves",
        8.0,
        1.0,
        32.0,
        "octaves",
    )
    assert fifo["knobs"] == []
    assert control["needs_prediction"] is False
