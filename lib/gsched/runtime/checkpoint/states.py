"""What a checkpoint consists of: the objects with a state, by name."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch.nn.parallel import DistributedDataParallel

from gsched.errors import UsageError
from gsched.runtime.checkpoint.random_state import RandomState
from gsched.runtime.checkpoint.tree import Encoder

RANDOM = "random"
"""The name of the random generators' state, which every checkpoint has."""


@runtime_checkable
class Stateful(Protocol):
    """A model, an optimiser, a scheduler, a scaler, a loader, or an object of the user's."""

    def state_dict(self) -> Any:
        """Its state."""

    def load_state_dict(self, state: Any) -> Any:
        """Take a state that `state_dict` gave."""


@dataclass(frozen=True, slots=True)
class _TorchGenerator:
    generator: torch.Generator

    def state_dict(self) -> dict[str, Any]:
        return {"state": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.set_state(state["state"])


@dataclass(frozen=True, slots=True)
class _NumpyGenerator:
    generator: np.random.Generator

    def state_dict(self) -> dict[str, Any]:
        return dict(self.generator.bit_generator.state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.bit_generator.state = state


@dataclass(frozen=True, slots=True)
class _PythonGenerator:
    generator: random.Random

    def state_dict(self) -> dict[str, Any]:
        return {"state": self.generator.getstate()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.generator.setstate(state["state"])


@dataclass(frozen=True, slots=True)
class _Dict:
    values: dict[Any, Any]

    def state_dict(self) -> dict[Any, Any]:
        return self.values

    def load_state_dict(self, state: dict[Any, Any]) -> None:
        self.values.clear()
        self.values.update(state)


def as_stateful(name: str, value: object) -> Stateful:
    """`value` as something with a state. UsageError where it has none.

    Wrappers that only change names are looked through: a checkpoint of a model is the same with
    and without DistributedDataParallel or torch.compile.
    """
    value = getattr(value, "_orig_mod", value)  # torch.compile's
    if isinstance(value, DistributedDataParallel):
        return as_stateful(name, value.module)
    if isinstance(value, torch.Generator):
        return _TorchGenerator(value)
    if isinstance(value, np.random.Generator):
        return _NumpyGenerator(value)
    if isinstance(value, random.Random):
        return _PythonGenerator(value)
    if type(value) is dict:
        return _Dict(value)
    if isinstance(value, Stateful) and not isinstance(value, type):
        return value
    raise UsageError(
        f"{name}: a {type(value).__qualname__} has no state_dict and load_state_dict",
        "give objects that have them, random generators, or a dict of values",
    )


def replicated_by_default(values: Mapping[str, object]) -> frozenset[str]:
    """Models under DistributedDataParallel and the optimisers of their parameters alone.

    Each rank has the same, so rank 0 alone writes them.
    """
    unwrapped = {name: getattr(value, "_orig_mod", value) for name, value in values.items()}
    models = {n: m for n, m in unwrapped.items() if isinstance(m, DistributedDataParallel)}
    owned = {id(p) for model in models.values() for p in model.parameters()}
    optimisers = {
        name
        for name, value in values.items()
        if isinstance(value, torch.optim.Optimizer)
        and not hasattr(value, "consolidate_state_dict")  # ZeroRedundancyOptimizer: each its part
        and all(id(p) in owned for group in value.param_groups for p in group["params"])
    }
    return frozenset(models) | (optimisers if models else frozenset())


class States:
    """All states of one rank."""

    def __init__(
        self, values: Mapping[str, object], replicated: Collection[str] | None, rank: int
    ) -> None:
        """`replicated` names what rank 0 alone writes; None: see `replicated_by_default`."""
        if RANDOM in values:
            raise UsageError(f"a state cannot be called {RANDOM!r}: the generators' state is")
        if not values:
            raise UsageError(
                "a Checkpointer without a state has nothing to keep",
                'name what is to be kept: Checkpointer("checkpoints", model=model, …)',
            )
        self.random = RandomState()
        self.objects = {name: as_stateful(name, value) for name, value in values.items()}
        chosen = replicated_by_default(values) if replicated is None else frozenset(replicated)
        if unknown := sorted(chosen - set(values)):
            raise UsageError(f"replicated names {unknown[0]!r}, which is not among the states")
        self._random_values: dict[str, Any] | None = None
        self._left_out = chosen if rank else frozenset()

    def encode(self) -> tuple[Encoder, str]:
        """All states: their tensors, not copied yet, and their tree as JSON."""
        encoder = Encoder()
        tree: dict[str, Any] = {}
        for name, value in (*self.objects.items(), (RANDOM, self.random)):
            if name in self._left_out:
                tree[name] = {"$of_rank": 0}
            else:
                tree[name] = encoder.encode(value.state_dict(), name)
        return encoder, json.dumps(tree, separators=(",", ":"), allow_nan=False)

    def load(self, values: Mapping[str, Any]) -> None:
        """Give every object its state, and the generators theirs.

        When one refuses, those that have taken theirs get back what they had; models and
        optimisers, which are checked beforehand, come last and are not copied for that. Generators
        come first, to see whether they take it, and once more at the end: to load may draw.
        """
        taken: list[tuple[Stateful, Any]] = []
        before_random = self.random.state_dict()
        self._random_values = values.get(RANDOM)
        try:
            self.restore_random()
            for name in sorted(self.objects, key=lambda n: is_checked(self.objects[n])):
                thing = self.objects[name]
                if not is_checked(thing):
                    taken.append((thing, copy.deepcopy(thing.state_dict())))
                _give(thing, values[name])
        except BaseException:
            for thing, before in reversed(taken):
                thing.load_state_dict(before)
            self.random.load_state_dict(before_random)
            raise
        self.restore_random()

    def restore_random(self) -> None:
        """Set the generators once more to what was loaded, if anything was."""
        if self._random_values is not None:
            self.random.load_state_dict(self._random_values)


def _give(thing: Stateful, value: Any) -> None:
    if isinstance(value, StatesOfRanks):
        thing.load_states_of_ranks(value.states)  # type: ignore[attr-defined]
    else:
        thing.load_state_dict(value)


@dataclass(frozen=True, slots=True)
class StatesOfRanks:
    """For an object with `load_states_of_ranks`: what another number of ranks had, one a rank."""

    states: list[Any]


def is_checked(thing: Stateful) -> bool:
    """Whether what it needs is known before it is loaded: see `fit`."""
    return isinstance(thing, torch.nn.Module | torch.optim.Optimizer)
