"""The programs that gsched-checkpointing(7) shows do what it says: DDP and FSDP2 on two ranks."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from support import man_examples
from support.man_examples import NUM_STEPS, STOP_AT
from support.ranks import outcomes_of_ranks

RANKS = {"loop": 1, "ddp": 2, "fsdp2": 2}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What the ranks of each example tell; its folders are under `folder` there."""
    found = {}
    for name, world_size in RANKS.items():
        folder = tmp_path_factory.mktemp(name)
        ranks = outcomes_of_ranks("support.man_examples", [name, str(folder)], world_size)
        found[name] = [rank | {"folder": folder} for rank in ranks]
    return found


@pytest.mark.parametrize("name", RANKS)
def test_an_example_that_was_stopped_comes_to_the_same(told, name: str) -> None:
    for rank in told[name]:
        assert rank["stopped"]["status"] == 128 + signal.SIGTERM
        assert rank["resumed"] == rank["undisturbed"]
        assert rank["undisturbed"]["step"] == NUM_STEPS
    # several ranks agree while the next step runs
    steps = {rank["stopped"]["step"] for rank in told[name]}
    assert steps == {STOP_AT if RANKS[name] == 1 else STOP_AT + 1}


def test_ddp_writes_its_model_once_and_fsdp2_in_parts(told) -> None:
    sizes = {}
    for name in ("ddp", "fsdp2"):
        last = told[name][0]["folder"] / "undisturbed" / "checkpoints" / f"step-{NUM_STEPS:012d}"
        sizes[name] = [model_elements(path) for path in sorted(last.glob("*.safetensors"))]
    whole = sum(p.numel() for p in man_examples.Net().parameters())
    assert sizes["ddp"] == [whole, 0]
    assert sizes["fsdp2"] == [whole // 2, whole // 2]


def model_elements(path: Path) -> int:
    """Numbers of the model that a rank's file holds, by a reader that knows no gsched."""
    with safe_open(path, "pt") as file:
        names = [n for n in file.keys() if n.startswith("model")]  # noqa: SIM118 - no mapping
        return sum(file.get_tensor(n).numel() for n in names)


def test_the_lines_of_readme_run_as_they_stand(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "README.md").read_text()
    found = re.search(r"^```python\n(from gsched\.runtime.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    lines = found[1].replace("10_000", "2")
    model = torch.nn.Linear(1, 1)
    data = torch.utils.data.TensorDataset(torch.zeros(9, 1), torch.zeros(9, 1))
    names = {"model": model, "dataset": data, "loss": 1.0}
    exec(lines, names | {"optimizer": torch.optim.SGD(model.parameters())})  # noqa: S102
    assert max(path.name for path in Path("checkpoints").glob("step-*")) == f"step-{2:012d}"


@pytest.mark.parametrize("name", ["lightning", "hugging_face"])
def test_the_other_examples_are_programs(name: str) -> None:
    compile(man_examples.examples()[name], name, "exec")
