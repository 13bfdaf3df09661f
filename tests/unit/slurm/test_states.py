"""Job states in the texts of Slurm's commands."""

from __future__ import annotations

import pytest

from gsched.model.job import JobState
from gsched.slurm.states import parse_state


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
