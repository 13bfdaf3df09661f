"""A DataLoader that knows its position, and data-loading workers that survive a stop signal.

::

    loader = ResumableLoader(dataset, batch_size=32, shuffle=True, num_workers=4)
    with Checkpointer("checkpoints", model=model, optimizer=optimizer, loader=loader) as ckpt:
        for step, batch in zip(ckpt.steps(10_000), loader.forever()):
            ...
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from gsched.errors import UsageError

_USUAL_SIGNALS = frozenset({signal.SIGTERM, signal.SIGUSR1})


class ResumableLoader(DataLoader[Any]):
    """A DataLoader of a dataset with indices, with the same arguments, that can go on anywhere.

    Going on skips what was used without loading it. Each epoch's order follows from one seed, drawn
    from torch's global generator (or the `generator` given), so it is the same after a resume;
    random numbers that a worker draws for a batch follow from that seed and the batch's number, so
    they do not depend on the number of workers. Samplers have to draw only from torch's global
    generator, a torch.Generator of their own named `generator`, or a seed and `set_epoch`.
    """

    def __init__(self, dataset: Dataset[Any], *args: Any, **kwargs: Any) -> None:
        if isinstance(dataset, IterableDataset):
            raise UsageError(
                "the position in a dataset without indices cannot be known",
                "use torchdata's StatefulDataLoader",
            )
        if not kwargs.get("in_order", True):
            raise UsageError("with in_order=False the position in the data cannot be known")
        self.epoch = 0
        """The epoch that is running, or comes next; the first is 0."""
        self._batches = 0  # given out in this epoch
        self._seed: int | None = None  # of the epoch; None: it has not begun
        self._generators: list[torch.Tensor] = []  # their states when the epoch began
        self._resumes = False
        super().__init__(_SeededDataset(dataset), *args, **kwargs)
        shield_workers(self, _USUAL_SIGNALS)

    def forever(self) -> Iterator[Any]:
        """Epoch after epoch, from where it is; tells a distributed sampler each epoch's number."""
        while True:
            for sampler in self._samplers():
                if hasattr(sampler, "set_epoch"):
                    sampler.set_epoch(self.epoch)
            yield from self

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        if self._resumes:
            for generator, state in zip(self._own_generators(), self._generators, strict=True):
                generator.set_state(state)
        else:
            self._begin_epoch()
        self._resumes = False
        for batch in self._batches_of_epoch():
            self._batches += 1
            yield batch
        self.end_epoch()

    def end_epoch(self) -> None:
        """What is left of the epoch is not wanted: the next iteration begins one.

        For whoever counts batches, and so never asks for the one after the last.
        """
        if self._seed is not None:
            self.epoch += 1
        self._batches, self._seed, self._resumes = 0, None, False

    def state_dict(self) -> dict[str, Any]:
        """The position: epoch, batches given out, and what the epoch's order follows from."""
        return {
            "epoch": self.epoch,
            "batches": self._batches,
            "seed": self._seed,
            "generators": list(self._generators),
            "samples_per_batch": self._samples_per_batch(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on there: the next iteration gives the rest of the epoch."""
        generators = state["generators"]
        if state["seed"] is not None and len(generators) != len(self._own_generators()):
            raise UsageError(
                "the loader's samplers have another number of generators than when it was saved"
            )
        self.epoch, self._batches = int(state["epoch"]), int(state["batches"])
        self._seed, self._generators = state["seed"], list(generators)
        self._resumes = self._seed is not None

    def load_states_of_ranks(self, states: Sequence[dict[str, Any]]) -> None:
        """Go on where another number of ranks was.

        With a distributed sampler, after as many samples: those of a batch that does not come out
        even are given out again. Without one, after as many batches.
        """
        if len({(state["epoch"], state["batches"]) for state in states}) != 1:
            raise UsageError("the ranks' loaders were at different places")
        state = dict(states[0])
        replicas = [s.num_replicas for s in self._samplers() if hasattr(s, "num_replicas")]
        if replicas:
            done = sum(state["samples_per_batch"] for state in states) * state["batches"]
            state["batches"] = done // (self._samples_per_batch() * replicas[0])
        self.load_state_dict(state)

    @property
    def _index_sampler(self) -> Any:
        return _Batches(self, super()._index_sampler)

    def _batches_of_epoch(self) -> Iterator[Any]:
        """The loader's own iterator, made without a draw from the global generator."""
        before = torch.get_rng_state()
        torch.default_generator.manual_seed(self._seed or 0)
        try:
            return super().__iter__()
        finally:
            torch.set_rng_state(before)

    def _begin_epoch(self) -> None:
        if self._seed is not None:  # the epoch before was left in its midst
            self.epoch += 1
        self._batches = 0
        draw = torch.empty((), dtype=torch.int64).random_(generator=self.generator)
        self._seed = int(draw.item())
        self._generators = [generator.get_state() for generator in self._own_generators()]

    def _samplers(self) -> list[Any]:
        outer = getattr(self, "batch_sampler", None)
        found = (self.sampler, outer, getattr(outer, "sampler", None))
        return [s for i, s in enumerate(found) if s is not None and s not in found[:i]]

    def _own_generators(self) -> list[torch.Generator]:
        found = [self.generator, *(getattr(s, "generator", None) for s in self._samplers())]
        return list({id(g): g for g in found if isinstance(g, torch.Generator)}.values())

    def _samples_per_batch(self) -> int:
        size = self.batch_size or getattr(self.batch_sampler, "batch_size", None)
        return 1 if size is None else int(size)


@dataclass(frozen=True, slots=True)
class _Numbered:
    """What a sampler gives for one batch, with the batch's number in its epoch."""

    seed: int
    number: int
    indices: Any


class _Batches:
    """A loader's batches of indices from where it is, numbered."""

    def __init__(self, loader: ResumableLoader, batches: Any) -> None:
        self._loader = loader
        self._batches = batches

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[_Numbered]:
        seed, start = self._loader._seed or 0, self._loader._batches
        rest = iter(self._batches)
        # the first one at once: a sampler draws then, and the generator is that of the epoch now
        begun = list(itertools.islice(rest, start + 1))[start:]
        numbered = enumerate(itertools.chain(begun, rest), start)
        return (_Numbered(seed, number, indices) for number, indices in numbered)


class _SeededDataset(Dataset[Any]):
    """The user's dataset; in a worker, the random numbers of a batch follow from its number."""

    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset

    def __getattr__(self, name: str) -> Any:
        if name == "dataset":  # not there yet: it is being unpickled
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> Any:
        return self.dataset[_seeded(index)]

    def __getitems__(self, indices: Any) -> Any:
        indices = _seeded(indices)
        together = getattr(self.dataset, "__getitems__", None)
        return together(indices) if together else [self.dataset[i] for i in indices]


def _seeded(given: Any) -> Any:
    """The indices of a numbered batch, with a worker's generators set for it."""
    if not isinstance(given, _Numbered):
        return given  # the user's own look into the dataset
    if get_worker_info() is not None:  # in the trainer itself the generators are the trainer's
        words = np.random.SeedSequence((given.seed, given.number)).generate_state(4)
        torch.manual_seed(int(words[0]) << 31 | int(words[1]) >> 1)
        np.random.seed(words)
        random.seed(int(words[2]) << 32 | int(words[3]))
    return given.indices


def shield_workers(value: object, signals: Iterable[int]) -> None:
    """Let the workers of a DataLoader survive signals that are meant for the trainer.

    Slurm signals every process of a job step. A worker that dies of it makes the trainer fail in
    the midst of the step that it wants to end. Does nothing to what is no DataLoader.
    """
    if not isinstance(value, DataLoader):
        return
    then: Any = value.worker_init_fn
    shielded = frozenset(signals)
    if isinstance(then, _Shield):
        then, shielded = then.then, shielded | then.signals
    value.worker_init_fn = _Shield(shielded, then)


def shield_worker(_worker_id: int) -> None:
    """A `worker_init_fn` for plain loaders that no Checkpointer has: of validation data, say."""
    _ignore_from_others(_USUAL_SIGNALS)


@dataclass(frozen=True)
class _Shield:
    """A `worker_init_fn` that shields, then does what the one of the user does."""

    signals: frozenset[int]
    then: Callable[[int], None] | None

    def __call__(self, worker_id: int) -> None:
        _ignore_from_others(self.signals)
        if self.then is not None:
            self.then(worker_id)


def _ignore_from_others(signals: frozenset[int]) -> None:
    """Block the signals; a thread takes them, and obeys SIGTERM when the parent has sent it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    threading.Thread(target=_take, args=(signals, os.getppid()), daemon=True).start()


def _take(signals: frozenset[int], parent: int) -> None:
    while True:
        info = signal.sigwaitinfo(signals)
        if info.si_signo == signal.SIGTERM and info.si_pid == parent:  # Process.terminate
            os._exit(0)
