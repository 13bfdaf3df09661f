"""States of jobs and nodes in the texts and the JSON of Slurm's commands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.model.cluster import NodeView
from gsched.model.job import JobState
from gsched.slurm.states import (
    NAMES_BY_LETTERS,
    parse_node_state,
    parse_state,
    parse_state_list,
)


@pytest.mark.parametrize("state", [s for s in JobState if s is not JobState.UNKNOWN])
def test_base_states(state):
    assert parse_state(state.value) == (state, "")


@pytest.mark.parametrize(
    ("text", "state", "flag"),
    [
        ("CANCELLED by 1000", JobState.CANCELLED, ""),
        ("CANCELLED+", JobState.CANCELLED, ""),
        ("OUT_OF_ME+", JobState.OUT_OF_MEMORY, ""),
        ("NODE_FAIL+", JobState.NODE_FAIL, ""),
        ("NODE_FAIL", JobState.NODE_FAIL, ""),
        ("COMPLETI+", JobState.COMPLETING, ""),
        ("cancelled by 4294967294", JobState.CANCELLED, ""),
        ("completed", JobState.COMPLETED, ""),
        ("CONFIGURING", JobState.RUNNING, "configuring"),
        ("RESIZING", JobState.RUNNING, "resizing"),
        ("STOPPED", JobState.RUNNING, "stopped"),
        ("STAGE_OUT", JobState.COMPLETING, "stage_out"),
        ("REQUEUE_HOLD", JobState.PENDING, "requeue_hold"),
        ("SPECIAL_EXIT", JobState.PENDING, "special_exit"),
        ("RESV_DEL_HOLD", JobState.PENDING, "resv_del_hold"),
    ],
)
def test_decorated_and_transient_states(text, state, flag):
    assert parse_state(text) == (state, flag)


@pytest.mark.parametrize("text", ["EXPEDITING", "", "+", "RE+", "COMP+", "RUNNING by 5", "PD"])
def test_what_is_not_known_is_never_guessed(text):
    assert parse_state(text) == (JobState.UNKNOWN, "")


@pytest.mark.parametrize(
    ("names", "state", "flag"),
    [
        (["RUNNING"], JobState.RUNNING, ""),
        (["RUNNING", "COMPLETING"], JobState.COMPLETING, ""),
        (["COMPLETED", "COMPLETING"], JobState.COMPLETING, ""),
        (["PENDING", "REQUEUE_HOLD"], JobState.PENDING, "requeue_hold"),
        (["PENDING", "REQUEUED"], JobState.REQUEUED, ""),
        (["RUNNING", "CONFIGURING"], JobState.RUNNING, "configuring"),
        (["RUNNING", "SIGNALING", "STOPPED"], JobState.RUNNING, "stopped"),
        (["CANCELLED", "STAGE_OUT"], JobState.COMPLETING, "stage_out"),
        # not shown by squeue, or not known: they do not hide the state
        (["RUNNING", "POWER_UP_NODE"], JobState.RUNNING, ""),
        (["EXPEDITING", "PENDING"], JobState.PENDING, ""),
        (["EXPEDITING"], JobState.UNKNOWN, ""),
        ([], JobState.UNKNOWN, ""),
    ],
)
def test_lists_of_states(names, state, flag):
    assert parse_state_list(names) == (state, flag)
    assert parse_state_list(reversed(names)) == (state, flag)


def test_letters_and_names():
    assert NAMES_BY_LETTERS["PD"] == "PENDING"
    assert NAMES_BY_LETTERS["CG"] == "COMPLETING"
    assert NAMES_BY_LETTERS["OOM"] == "OUT_OF_MEMORY"
    assert len(NAMES_BY_LETTERS) == len(set(NAMES_BY_LETTERS.values())) == 24
    for name in NAMES_BY_LETTERS.values():
        assert parse_state(name)[0] is not JobState.UNKNOWN
        assert parse_state_list([name]) == parse_state(name)


_LIVE = {JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING}


@given(st.text(max_size=30))
def test_no_text_is_taken_for_running_but_the_names_of_states(text):
    state, _ = parse_state(text)
    known = any(name.startswith(text.strip().upper().rstrip("+")) for name in
                NAMES_BY_LETTERS.values())  # fmt: skip
    assert state not in _LIVE or known
    assert parse_state_list([text])[0] not in _LIVE or known


@pytest.mark.parametrize(
    ("text", "base", "flags"),
    [
        # scontrol, and a list of JSON joined
        ("IDLE", "idle", ()),
        ("MIXED+DRAIN", "mixed", ("drain",)),
        ("DOWN*", "down", ("not_responding",)),
        ("DOWN*+DRAIN", "down", ("not_responding", "drain")),
        ("IDLE*+DRAIN+NOT_RESPONDING", "idle", ("not_responding", "drain")),
        ("IDLE+DRAIN+POWERED_DOWN", "idle", ("drain", "powered_down")),
        ("IDLE+MAINTENANCE+RESERVED", "idle", ("maint", "reserved")),
        ("IDLE+COMPLETING+PLANNED", "idle", ("completing", "planned")),
        ("DOWN+CLOUD+NEW_IN_2031", "down", ("cloud", "new_in_2031")),
        # sinfo's marks
        ("IDLE~", "idle", ("powered_down",)),
        ("MIXED#", "mixed", ("powering_up",)),
        ("ALLOCATED#", "allocated", ("powering_up",)),
        ("idle%", "idle", ("powering_down",)),
        ("IDLE!", "idle", ("power_down",)),
        ("mixed$", "mixed", ("maint",)),
        ("mix@", "mixed", ("reboot_requested",)),
        ("alloc^", "allocated", ("reboot_issued",)),
        ("MIXED-", "mixed", ("planned",)),
        ("ALLOCATED+", "allocated", ("completing",)),
        # sinfo's words
        ("alloc", "allocated", ()),
        ("mix", "mixed", ()),
        ("futr", "future", ()),
        ("unk*", "unknown", ("not_responding",)),
        ("comp", "completing", ()),
        ("plnd", "idle", ("planned",)),
        ("resv", "idle", ("reserved",)),
        ("npc", "idle", ("perfctrs",)),
        ("maint*", "maint", ("maint", "not_responding")),
        ("drain~", "drained", ("drain", "powered_down")),
        ("drained*", "drained", ("drain", "not_responding")),
        ("drng", "draining", ("drain",)),
        ("failg", "failing", ("fail",)),
        ("inval", "inval", ("invalid_reg",)),
        ("boot^", "reboot", ("reboot_requested", "reboot_issued")),
        ("blocked", "blocked", ("blocked",)),
        # nothing, or nothing known
        ("", "unknown", ()),
        ("Idle?", "unknown", ("idle?",)),
        ("SOMETHING", "something", ()),
    ],
)
def test_node_states(text, base, flags):
    assert parse_node_state(text) == (base, flags)


def _node(text: str) -> NodeView:
    state, flags = parse_node_state(text)
    return NodeView("n1", state, flags, num_cpus=1, mem_bytes=1, gpus=(), partitions=())


@pytest.mark.parametrize("text", ["IDLE", "mix", "ALLOCATED+COMPLETING", "IDLE~", "plnd", "comp"])
def test_nodes_on_which_a_job_could_start(text):
    assert _node(text).is_usable


@pytest.mark.parametrize(
    "text",
    ["DOWN", "IDLE+DRAIN", "drain", "drng", "IDLE*", "IDLE+MAINTENANCE", "maint", "mixed$", "inval",
     "IDLE+INVALID_REG", "fail", "futr", "boot", "unk", "blocked", "NEW_STATE", "?", ""],
)  # fmt: skip
def test_nodes_on_which_none_could(text):
    assert not _node(text).is_usable


@given(
    st.sampled_from(["IDLE", "MIXED", "ALLOCATED", "DOWN", "FUTURE", "UNKNOWN"]),
    st.lists(
        st.sampled_from(["DRAIN", "CLOUD", "POWERED_DOWN", "PLANNED", "RESERVED", "FAIL"]),
        unique=True,
    ),
)
def test_node_states_come_back(base, flags):
    text = "+".join([base, *flags])
    state, found = parse_node_state(text)
    assert "+".join([state, *found]).upper() == text


@given(st.text(max_size=40))
def test_any_text_gives_a_node_state(text):
    state, flags = parse_node_state(text)
    assert state
    assert all(flags)
