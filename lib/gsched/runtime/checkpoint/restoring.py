"""Going on after the newest valid checkpoint: found, verified, checked for fit, then applied.

With several ranks each verifies its share of the files, and nothing is applied on any rank unless
it fits on all.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from gsched.ckpt import catalogue, layout, manifest
from gsched.ckpt.found import Depth, no_progress
from gsched.ckpt.look import Look, RefusedError, look_at
from gsched.ckpt.manifest import Manifest
from gsched.errors import DataError, GschedError, NoCheckpointError
from gsched.runtime.checkpoint import fit
from gsched.runtime.checkpoint.parts import local_offsets, with_local
from gsched.runtime.checkpoint.ranks import Ranks
from gsched.runtime.checkpoint.states import RANDOM, Stateful, States, StatesOfRanks
from gsched.runtime.checkpoint.stored import StoredCheckpoint
from gsched.runtime.checkpoint.tree import StoredTensor

_log = logging.getLogger("gsched.checkpoint")


def restore(folder: Path, states: States, ranks: Ranks) -> Manifest | None:
    """Load the newest valid checkpoint of `folder`; None where there is none yet.

    Torn ones are passed over, and the log says so. Raises DataError where all are torn (to begin
    anew is for a person to decide), or where the newest valid one does not fit; then nothing has
    been changed on any rank.
    """
    found = _newest_valid(folder, ranks)
    if found is None:
        return None
    path = folder / layout.step_name(found.step)
    values: dict[str, Any] = {}
    problem: list[str] = []
    try:
        values = _values(StoredCheckpoint(path, found.world_size), states, ranks)
    except GschedError as e:
        problem = [e.message, e.hint]
    for rank, told in enumerate(ranks.gather(problem)):
        if told:
            where = f"rank {rank}: " if ranks.world_size > 1 else ""
            raise DataError(f"{path} does not fit: {where}{told[0]}", told[1])
    states.load(values)
    return found


def _newest_valid(folder: Path, ranks: Ranks) -> Manifest | None:
    listed = ranks.from_first(_listed(folder) if ranks.rank == 0 else None)
    if isinstance(listed, str):
        raise DataError(listed)
    for step in listed:
        path = folder / layout.step_name(step)
        found, problem = None, ""
        try:
            look = look_at(path)
            found = manifest.decode(look.read(layout.MANIFEST_NAME, manifest.MAX_BYTES))
            problem = _share_problem(look, found, ranks)
        except (OSError, DataError, RefusedError) as e:
            problem = str(e)
        problems = [p for p in ranks.gather(problem) if p]
        if not problems and found is not None:
            return found
        if ranks.rank == 0:
            _log.warning("%s is not valid, the one before is taken: %s", path, problems[0])
    if listed:
        raise DataError(
            f"{folder} has {len(listed)} checkpoints and none is valid",
            f"see gsched ckpt verify {folder}; to begin anew, choose another folder",
        )
    return None


def _listed(folder: Path) -> list[int] | str:
    """The steps that were committed, newest first, valid or not; or what is wrong."""
    try:
        found = catalogue.scan(folder, Depth.LENGTHS, kinds=("gsched",)).checkpoints
    except NoCheckpointError:
        return []
    except GschedError as e:
        return e.message
    steps = {layout.parse_step_name(checkpoint.path.name) for checkpoint in found}
    return sorted((step for step in steps if step is not None), reverse=True)


def _share_problem(look: Look, found: Manifest, ranks: Ranks) -> str:
    """What is wrong with this rank's share of the files; "" when all is well."""
    for shard in found.shards[ranks.rank :: ranks.world_size]:
        if (num_bytes := look.size(shard.file)) != shard.num_bytes:
            return f"{shard.file} has {num_bytes:,} bytes instead of {shard.num_bytes:,}"
        if look.crc32(shard.file, no_progress) != shard.crc32:
            return f"checksum of {shard.file}"
    return ""


def _values(stored: StoredCheckpoint, states: States, ranks: Ranks) -> dict[str, Any]:
    """The states that this rank is to take, read and checked."""
    wanted: dict[str, Stateful] = {**states.objects, RANDOM: states.random}
    fit.check_names(stored.tree(0), wanted)
    values: dict[str, Any] = {}
    for name, thing in wanted.items():
        if stored.world_size == ranks.world_size:
            value = _read(stored, ranks.rank, name, thing)
        else:
            value = _read_of_other_ranks(stored, ranks.rank, name, thing)
        if value is not None:
            fit.check_state(name, thing, value)
            values[name] = value
    return values


def _read(stored: StoredCheckpoint, rank: int, name: str, thing: Stateful) -> Any:
    """One state as one rank wrote it, distributed tensors as this run distributes them."""
    home = stored.home(rank, name)
    value = stored.decoded(home, name)
    return _placed(value, _template(thing, value), stored, home)


def _read_of_other_ranks(stored: StoredCheckpoint, rank: int, name: str, thing: Stateful) -> Any:
    """The same, where another number of ranks wrote it.

    A state that all of them had alike is taken; generators are taken by rank, and those of ranks
    that were not there stay as they are; a loader is given the states of all ranks.
    """
    if name == RANDOM:
        return _read(stored, rank, name, thing) if rank < stored.world_size else None
    if hasattr(thing, "load_states_of_ranks"):
        return StatesOfRanks([_read(stored, r, name, thing) for r in range(stored.world_size)])
    others = [r for r in range(1, stored.world_size) if stored.home(r, name) != 0]
    if not all(_same(stored, r, name) for r in others):
        raise DataError(
            f"state {name!r} is not the same on the {stored.world_size} ranks that wrote it, and "
            "this run has another number of ranks",
            f"go on with {stored.world_size} ranks",
        )
    return _read(stored, 0, name, thing)


def _same(stored: StoredCheckpoint, rank: int, name: str) -> bool:
    """Whether a rank wrote the same state as rank 0, but for its parts of distributed tensors."""
    names: set[str] = set()
    if _without_parts(stored.tree(rank)[name], names) != _without_parts(
        stored.tree(0)[name], names
    ):
        return False
    return all(torch.equal(stored.tensor(rank, n), stored.tensor(0, n)) for n in names)


def _without_parts(form: Any, plain: set[str]) -> Any:
    """A JSON form without the places of parts; the names of plain tensors go into `plain`."""
    if isinstance(form, list):
        return [_without_parts(v, plain) for v in form]
    if not isinstance(form, dict):
        return form
    if "$tensor" in form and "global_shape" in form:
        return {k: v for k, v in form.items() if k != "offsets"}
    plain.update(str(form[tag]) for tag in ("$tensor", "$array") if tag in form)
    return {k: _without_parts(v, plain) for k, v in form.items()}


def _template(thing: Stateful, value: Any) -> Any:
    """Something shaped as `value`, with this run's own tensors where they tell a placement."""
    if isinstance(thing, torch.optim.Optimizer):
        return _optimizer_template(thing, value)
    return thing.state_dict() if isinstance(thing, torch.nn.Module) or _has_parts(value) else None


def _optimizer_template(optimizer: torch.optim.Optimizer, value: Any) -> Any:
    """An optimiser that has not stepped has no state: its tensors lie as the parameters do."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    try:
        ids = [i for group in value["param_groups"] for i in group["params"]]
        items = {i: tuple(value["state"].get(i, ())) for i in ids}
    except (TypeError, KeyError, AttributeError):
        return None  # no optimiser's state: the check says so
    pairs = zip(ids, parameters, strict=False)
    return {"state": {i: dict.fromkeys(items[i], parameter) for i, parameter in pairs}}


def _has_parts(value: Any) -> bool:
    if isinstance(value, StoredTensor):
        return value.global_shape is not None
    if isinstance(value, Mapping):
        return any(_has_parts(v) for v in value.values())
    return isinstance(value, list | tuple) and any(_has_parts(v) for v in value)


def _placed(value: Any, template: Any, stored: StoredCheckpoint, home: int) -> Any:
    """`value` with its tensors read, distributed as those of `template` are."""
    if isinstance(value, StoredTensor):
        return _tensor(value, template, stored, home)
    if isinstance(value, dict):
        templates = template if isinstance(template, Mapping) else {}
        for key in value:
            value[key] = _placed(value[key], templates.get(key), stored, home)
        return value
    if isinstance(value, list | tuple):
        given = template[: len(value)] if isinstance(template, list | tuple) else ()
        padded = [*given, *[None] * (len(value) - len(given))]
        return type(value)(_placed(v, t, stored, home) for v, t in zip(value, padded, strict=True))
    return value


def _tensor(value: StoredTensor, template: Any, stored: StoredCheckpoint, home: int) -> Any:
    if isinstance(template, DTensor) and value.global_shape in (None, tuple(template.shape)):
        whole = value.global_shape or stored.shape(home, value.name)
        if whole != tuple(template.shape):  # a plain tensor beside distributed ones: a step count
            return stored.tensor(home, value.name)
        local = template.to_local()
        block = stored.block(home, value, local_offsets(template), tuple(local.shape))
        return with_local(template, block.to(local.device))
    if value.global_shape is None:
        return stored.tensor(home, value.name)
    return stored.block(home, value, (0,) * len(value.global_shape), value.global_shape)
