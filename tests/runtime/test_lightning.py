"""Lightning's Trainer with gsched's callback: what a fit comes to when it is stopped on its way."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from support.ranks import outcomes_of_ranks
from support.training_twice import outcomes

MODULE = "support.train_lightning"
CASES = {"in an epoch": 3, "end of an epoch": 8, "validated": 12, "last but one": 23}
TOTAL = 24


@pytest.fixture(scope="module")
def fits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("fits")
    return outcomes(MODULE, folder) | {"folder": folder}


@pytest.mark.parametrize(("name", "step"), CASES.items())
def test_a_fit_that_was_stopped_comes_to_the_same(fits, name: str, step: int) -> None:
    first, second = fits["cases"][name]["first"], fits["cases"][name]["second"]
    assert first["status"] == 128 + signal.SIGTERM
    assert first["steps"] == list(range(step)), "the running step is finished, no other is begun"
    assert second["status"] == 0
    assert second["steps"] == list(range(step, TOTAL)), "no step is lost or done twice"
    assert second["hash"] == fits["undisturbed"]["hash"]


def test_accumulated_gradients_are_never_cut(fits) -> None:
    accumulated = fits["accumulated"]
    assert accumulated["first"]["status"] == 128 + signal.SIGTERM
    assert accumulated["second"]["hash"] == accumulated["undisturbed"]["hash"]
    assert accumulated["second"]["steps"][0] == 4


def test_a_fit_that_is_done_does_nothing_more(fits) -> None:
    assert fits["finished"]["steps"] == []
    assert fits["finished"]["hash"] == fits["undisturbed"]["hash"]


def test_checkpoints_are_gscheds_own(fits) -> None:
    folder: Path = fits["folder"] / "in-an-epoch"
    assert {p.name for p in folder.glob("step-*")} >= {f"step-{3:012d}", f"step-{TOTAL:012d}"}
    assert (folder / "latest").read_text() == f"step-{TOTAL:012d}\n"


def test_a_checkpoint_goes_before_ckpt_path(fits) -> None:
    first, second = fits["given"]["first"], fits["given"]["second"]
    assert first["steps"] == [1, 2], "the weights that were given are those of step 1"
    assert second == {"steps": [], "weights": first["weights"]}


def test_handlers_are_put_back(fits) -> None:
    starts = [start for case in fits["cases"].values() for start in case.values()]
    assert {start["handler"] for start in starts} == {fits["undisturbed"]["handler"]}


def test_a_strategy_that_shards_is_refused(fits) -> None:
    assert "FSDPStrategy" in fits["sharded"]


def test_lightning_adds_no_checkpoints_of_its_own_and_they_are_not_to_be_switched_off(fits) -> None:
    assert fits["replacing"] == {"others": 0, "refused": True}


def test_a_fit_whose_last_checkpoint_cannot_be_written_fails(fits) -> None:
    assert fits["unwritable"].startswith("the last checkpoint, of step 1, failed: /sys/kernel")


@pytest.fixture(scope="module")
def ddp(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("ddp")
    arguments = [str(folder)]
    return folder, outcomes_of_ranks("support.train_lightning_ddp", arguments, 2, num_groups=4)


def test_a_fit_of_ddp_that_another_callback_ends_saves_its_last_step(ddp) -> None:
    folder, told = ddp
    assert [rank["early"]["steps"] for rank in told] == [list(range(7))] * 2
    assert (folder / "early" / "latest").read_text() == f"step-{7:012d}\n"


def test_ranks_of_ddp_stop_after_the_same_step_and_come_to_the_same(ddp) -> None:
    _, told = ddp
    for rank in told:
        assert rank["stopped"]["status"] == 128 + signal.SIGTERM
        num_done = len(rank["stopped"]["steps"])
        assert num_done == len(told[0]["stopped"]["steps"])
        assert rank["resumed"]["steps"] == rank["undisturbed"]["steps"][num_done:]
        assert rank["resumed"]["hash"] == rank["undisturbed"]["hash"]
