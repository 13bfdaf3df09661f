"""`gsched policy` as a user meets it."""

from __future__ import annotations

import json

from gsched.policy.registry import POLICIES


def test_list_tells_where_each_policy_stands(gsched):
    answer = gsched("policy", "list")
    assert (answer.returncode, answer.stderr) == (0, "")
    lines = answer.stdout.splitlines()
    assert lines[0].split() == [
        "POLICY", "OBJECTIVE", "USE", "METHOD", "ORDER", "NEEDS", "RUNS", "EVIDENCE", "SUMMARY",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[1:]] == list(POLICIES)
    qssf = ["timing", "exclusive", "learning", "static", "history", "live", "simulation", "least"]
    assert lines[1].split()[1:9] == qssf
    (themis,) = [line for line in lines if line.startswith("themis")]
    assert themis.split()[1:9] == [
        "fairness", "exclusive", "heuristic", "state", "checkpoint,", "oracle", "simulated", "L",
    ]  # fmt: skip


def test_list_as_json_gives_bounds_of_knobs(gsched):
    policies = json.loads(gsched("policy", "list", "--json").stdout)["policies"]
    by_name = {info["name"]: info for info in policies}
    assert list(by_name) == list(POLICIES)
    qssf = by_name["qssf"]
    assert qssf["order"] == "static"
    assert qssf["requires"] == ["reorder"]
    assert qssf["needs"] == ["history"]
    assert qssf["needs_prediction"] is True
    assert qssf["live"] is True
    assert qssf["problem"] is None
    (knob,) = qssf["knobs"]
    assert (knob["name"], knob["default"], knob["minimum"], knob["maximum"], knob["unit"]) == (
        "span_octaves",
        8.0,
        1.0,
        32.0,
        "octaves",
    )
    assert by_name["fifo"]["knobs"] == []
    assert by_name["fewest-gpus"]["needs_prediction"] is False
    assert by_name["sjf"]["live"] is False
    assert all(info["source"] and info["description"] for info in policies)


def test_show_tells_one_policy_in_full(gsched):
    answer = gsched("policy", "show", "tiresias")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("tiresias: little attained GPU-time first")
    assert "NSDI'19" in answer.stdout
    assert "threshold_gpu_s=18000 (1..1e+09 GPU-s)" in answer.stdout
    listed = json.loads(gsched("policy", "list", "--json").stdout)["policies"]
    shown = json.loads(gsched("policy", "show", "tiresias", "--json").stdout)
    assert shown in listed


def test_show_of_an_unknown_policy_names_the_known_ones(gsched):
    answer = gsched("policy", "show", "qsfs")
    assert (answer.returncode, answer.stdout) == (78, "")
    assert "no policy is called 'qsfs'" in answer.stderr
    assert "fifo" in answer.stderr
