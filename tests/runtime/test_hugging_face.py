"""Hugging Face's Trainer with gsched's callback: what it comes to when it is stopped on its way."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from support.training_twice import outcomes

MODULE = "support.train_hugging_face"
CASES = {"in an epoch": 3, "end of an epoch": 8, "evaluated": 10, "last but one": 15}
TOTAL = 16


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("trainings")
    return outcomes(MODULE, folder) | {"folder": folder}


@pytest.mark.parametrize(("name", "step"), CASES.items())
def test_a_training_that_was_stopped_comes_to_the_same(trainings, name: str, step: int) -> None:
    first, second = trainings["cases"][name]["first"], trainings["cases"][name]["second"]
    assert first["status"] == 128 + signal.SIGTERM
    assert first["steps"] == list(range(step)), "the running step is finished, no other is begun"
    assert second["status"] == 0
    assert second["steps"] == list(range(step, TOTAL)), "no step is lost or done twice"
    assert second["hash"] == trainings["undisturbed"]["hash"]


def test_the_history_of_losses_goes_on(trainings) -> None:
    whole = trainings["undisturbed"]["losses"]
    assert trainings["cases"]["end of an epoch"]["second"]["losses"] == whole


def test_accumulated_gradients_are_never_cut(trainings) -> None:
    accumulated = trainings["accumulated"]
    assert accumulated["first"]["status"] == 128 + signal.SIGTERM
    assert accumulated["second"]["hash"] == accumulated["undisturbed"]["hash"]
    assert accumulated["second"]["steps"][0] == 3


def test_a_training_that_is_done_does_nothing_more(trainings) -> None:
    assert trainings["finished"]["steps"] == []
    assert trainings["finished"]["hash"] == trainings["undisturbed"]["hash"]


def test_checkpoints_are_gscheds_own(trainings) -> None:
    folder: Path = trainings["folder"] / "in-an-epoch"
    assert (folder / "latest").read_text() == f"step-{TOTAL:012d}\n"


def test_a_training_that_another_callback_ends_saves_its_last_step(trainings) -> None:
    assert trainings["early"]["steps"] == list(range(5))
    assert (trainings["folder"] / "early" / "latest").read_text() == f"step-{5:012d}\n"


def test_a_training_without_resume_point_is_refused(trainings) -> None:
    assert "resume_point" in trainings["forgotten"]


def test_nothing_is_left_behind(trainings) -> None:
    assert not any(c["second"]["resume_folder_left"] for c in trainings["cases"].values())
    assert "missing keys" not in trainings["log"]


def test_a_model_of_peft_is_refused(trainings) -> None:
    assert "PEFT" in trainings["peft"]
