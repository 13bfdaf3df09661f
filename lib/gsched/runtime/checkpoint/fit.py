"""Whether a stored state fits the object that is to take it: asked before anything is changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from gsched.errors import DataError

_HINT = "go on with the code and settings that wrote it, or begin in another folder"
_MAX_NAMED = 3


def check_names(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """DataError unless the checkpoint has the states that the run has."""
    if missing := [name for name in wanted if name not in stored]:
        raise DataError(f"it has no state {_named(missing)}", _HINT)
    if extra := [name for name in stored if name not in wanted]:
        raise DataError(f"it has a state {_named(extra)} that this run does not have", _HINT)


def check_state(name: str, thing: object, state: Any) -> None:
    """DataError, naming the state, where a model or an optimiser would refuse it."""
    if isinstance(thing, torch.nn.Module):
        _check_module(name, thing, state)
    elif isinstance(thing, torch.optim.Optimizer):
        _check_optimizer(name, thing, state)


def _check_module(name: str, module: torch.nn.Module, state: Any) -> None:
    wanted = module.state_dict()
    if not isinstance(state, Mapping):
        raise DataError(f"state {name!r} is none of a model", _HINT)
    if missing := [key for key in wanted if key not in state]:
        raise DataError(f"state {name!r} does not have {_named(missing)}", _HINT)
    if extra := [key for key in state if key not in wanted]:
        raise DataError(f"state {name!r} has {_named(extra)}, this model does not", _HINT)
    for key, tensor in wanted.items():
        stored = state[key]
        if not isinstance(tensor, torch.Tensor) or torch.nn.parameter.is_lazy(tensor):
            continue
        if not isinstance(stored, torch.Tensor):
            raise DataError(f"state {name!r}: {key} is no tensor", _HINT)
        if stored.shape != tensor.shape or stored.dtype != tensor.dtype:
            raise DataError(
                f"state {name!r}: {key} is {_kind(stored)}, this model's is {_kind(tensor)}", _HINT
            )


def _check_optimizer(name: str, optimizer: torch.optim.Optimizer, state: Any) -> None:
    groups = state.get("param_groups") if isinstance(state, Mapping) else None
    if not isinstance(groups, list):
        raise DataError(f"state {name!r} is none of an optimiser", _HINT)
    stored = [len(group["params"]) for group in groups]
    wanted = [len(group["params"]) for group in optimizer.param_groups]
    if stored != wanted:
        raise DataError(
            f"state {name!r} has groups of {stored} parameters, this optimiser of {wanted}", _HINT
        )
    for group, its in zip(groups, optimizer.param_groups, strict=True):
        # another release of torch may know more settings, or fewer: not both
        missing = [key for key in optimizer.defaults if key not in group]
        extra = [key for key in group if key not in its]
        if missing and extra:
            raise DataError(
                f"state {name!r} is that of another class of optimiser: it has {_named(extra)} and "
                f"not {_named(missing)}, which a {type(optimizer).__name__} needs",
                _HINT,
            )


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def _named(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_MAX_NAMED])
    more = len(names) - _MAX_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
