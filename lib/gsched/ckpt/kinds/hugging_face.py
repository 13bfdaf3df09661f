"""Folders of Hugging Face's Trainer: ``checkpoint-500`` with weights, optimiser, RNG and state.

There is no commit mark; `trainer_state.json` is written last and stands for one. What a folder must
have is known from what it has: a checkpoint of the model alone has no optimiser, one that has the
schedule must have it as well.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from gsched.ckpt.found import Depth, Progress, Verdict
from gsched.ckpt.kinds import dcp, torch_file
from gsched.ckpt.kinds.base import Facts, as_step
from gsched.ckpt.look import Look, RefusedError, look_at, torn
from gsched.ckpt.safetensors_check import check as check_safetensors

STATE_NAME = "trainer_state.json"
_NAME = re.compile(r"checkpoint-\d{1,15}", re.ASCII)
_ARCHIVES = (".pt", ".pth", ".bin")
_MAX_JSON_BYTES = 64 << 20

_WEIGHTS = re.compile(
    r"(adapter_)?(pytorch_)?model(-\d+-of-\d+)?\.(safetensors|bin)"
    r"|pytorch_model_fsdp.*|global_step\d+/.*",
    re.ASCII,
)
_STATES = {
    "optimizer": re.compile(r"optimizer(\.pt|\.bin|_\d+/.*)|global_step\d+/.*", re.ASCII),
    "scheduler": re.compile(r"scheduler\.pt|global_step\d+/.*", re.ASCII),
    "rng_state": re.compile(r"rng_state(_\d+)?\.pth", re.ASCII),
}
"""What a run needs to go on: DeepSpeed keeps the first two in a folder of its own."""


def claims(look: Look) -> bool:
    """A folder with a trainer's state, or of such a name unless it is DCP's."""
    if not look.is_folder or STATE_NAME in look.entries:
        return look.is_folder
    return _NAME.fullmatch(look.path.name) is not None and not dcp.claims(look)


def read(look: Look, depth: Depth, tell: Progress) -> Facts:
    """Check every file that has a known format, and that none is missing."""
    whole = look_at(look.path, deep=True)
    if STATE_NAME not in whole.entries:
        raise RefusedError(Verdict.UNCOMMITTED, f"it has no {STATE_NAME}, which is written last")
    state = _json(whole, STATE_NAME)
    step = as_step(state.get("global_step")) if isinstance(state, dict) else None
    if step is None:
        raise torn(f"{STATE_NAME} tells no global_step")
    _check_all_there(whole)
    has_checksums = True
    for name in sorted(whole.entries):
        has_checksums &= _check_file(whole, name, depth, tell)
    for folder in sorted({n.rpartition("/")[0] for n in whole.entries if n.endswith(".distcp")}):
        facts = dcp.read_part(whole, f"{folder}/" if folder else "", depth, tell)
        has_checksums &= facts.checked is Depth.CHECKSUMS
    best = state.get("best_model_checkpoint")
    named = (Path(best).name,) if isinstance(best, str) else ()
    return Facts(depth if has_checksums else Depth.LENGTHS, step, best=named)


def _check_all_there(look: Look) -> None:
    names = look.entries
    if not any(_WEIGHTS.fullmatch(name) for name in names):
        raise torn("its weights are missing")
    there = {
        what: any(pattern.fullmatch(name) for name in names) for what, pattern in _STATES.items()
    }
    if any(there.values()) and not all(there.values()):
        missing = ", ".join(what for what, is_there in there.items() if not is_there)
        raise torn(f"{missing} is missing, though other states are there")
    for name in names:
        if name.endswith(".index.json"):
            _check_index(look, name)


def _check_index(look: Look, name: str) -> None:
    """That all parts of weights that lie in several files are there."""
    index = _json(look, name)
    parts = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(parts, dict):
        raise torn(f"{name} names no files")
    folder = name.rpartition("/")[0]
    for part in sorted({str(part) for part in parts.values()}):
        look.size(f"{folder}/{part}" if folder else part)


def _check_file(look: Look, name: str, depth: Depth, tell: Progress) -> bool:
    """Whether the file has checksums; RefusedError where it is damaged."""
    if name.endswith(_ARCHIVES):
        return torch_file.read_file(look, name, depth, tell).checked is Depth.CHECKSUMS
    if name.endswith(".safetensors"):
        check_safetensors(look, name)
        return False
    if name.endswith(".json"):
        _json(look, name)
    return True


def _json(look: Look, name: str) -> Any:
    data = look.read(name, _MAX_JSON_BYTES)
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise torn(f"{name} is no JSON") from None
