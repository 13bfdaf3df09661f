"""A loader goes on where it was: any sampler, any place, any number of workers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from gsched.errors import UsageError
from gsched.runtime.data import ResumableLoader

NUMBERS = TensorDataset(torch.arange(10))


class Drawn(Dataset[Any]):
    """Every sample is three random numbers."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> Any:
        return torch.tensor([torch.rand(1).item(), np.random.rand(), random.random()])


MAKERS: dict[str, Callable[[], ResumableLoader]] = {
    "in order": lambda: ResumableLoader(NUMBERS, batch_size=3),
    "shuffled": lambda: ResumableLoader(NUMBERS, batch_size=3, shuffle=True, drop_last=True),
    "own generator": lambda: ResumableLoader(
        NUMBERS, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(1)
    ),
    "with replacement": lambda: ResumableLoader(
        NUMBERS,
        batch_size=4,
        sampler=RandomSampler(
            NUMBERS, replacement=True, num_samples=9, generator=torch.Generator().manual_seed(2)
        ),
    ),
    "weighted": lambda: ResumableLoader(
        NUMBERS, batch_size=2, sampler=WeightedRandomSampler([1.0] * 10, 7)
    ),
    "batch sampler": lambda: ResumableLoader(
        NUMBERS, batch_sampler=BatchSampler(SubsetRandomSampler(range(2, 9)), 2, drop_last=False)
    ),
    "single samples": lambda: ResumableLoader(NUMBERS, batch_size=None, shuffle=True),
    "distributed": lambda: ResumableLoader(
        NUMBERS, batch_size=2, sampler=DistributedSampler(NUMBERS, 2, 1, seed=3)
    ),
    "workers": lambda: ResumableLoader(Drawn(), batch_size=1, shuffle=True, num_workers=2),
    "persistent": lambda: ResumableLoader(
        Drawn(), batch_size=1, shuffle=True, num_workers=1, persistent_workers=True
    ),
}


def taken(loader: ResumableLoader, n: int) -> list[list[float]]:
    return [batch_list(b) for b in itertools.islice(loader.forever(), n)]


def batch_list(batch: Any) -> list[float]:
    tensor = batch[0] if isinstance(batch, list | tuple) else batch
    return torch.atleast_1d(tensor).flatten().tolist()


@pytest.mark.parametrize("name", MAKERS)
def test_it_goes_on_as_it_would_have(name: str) -> None:
    torch.manual_seed(11)
    loader = MAKERS[name]()
    whole = taken(loader, 2 * len(loader) + 2)
    per_epoch = len(loader)
    for n in (1, per_epoch - 1, per_epoch, per_epoch + 2):
        torch.manual_seed(11)
        first = MAKERS[name]()
        before = taken(first, n)
        state, generator = first.state_dict(), torch.get_rng_state()
        torch.manual_seed(77)
        second = MAKERS[name]()
        second.load_state_dict(state)
        torch.set_rng_state(generator)
        assert before + taken(second, len(whole) - n) == whole, n
    if name != "in order":
        assert whole[:per_epoch] != whole[per_epoch : 2 * per_epoch]


def test_what_workers_draw_does_not_depend_on_how_many_they_are() -> None:
    drawn = []
    for workers in (1, 2):
        torch.manual_seed(4)
        drawn.append(taken(ResumableLoader(Drawn(), batch_size=2, num_workers=workers), 4))
    assert drawn[0] == drawn[1]
    assert len({tuple(batch) for batch in drawn[0]}) == 4


def test_epochs_are_counted_and_the_rest_of_one_is_given_first() -> None:
    loader = MAKERS["in order"]()
    assert [batch_list(b) for b in loader] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert loader.epoch == 1
    for _ in itertools.islice(loader, 3):
        pass
    other = MAKERS["in order"]()
    other.load_state_dict(loader.state_dict())
    assert other.epoch == 1
    assert [batch_list(b) for b in other] == [[9]]
    assert other.epoch == 2
    assert len(list(other)) == 4


def test_an_epoch_that_was_ended_is_not_gone_on_with() -> None:
    loader = MAKERS["shuffled"]()
    taken(loader, 1)
    other = MAKERS["shuffled"]()
    other.load_state_dict(loader.state_dict())
    other.end_epoch()
    assert other.epoch == 1
    assert len(list(other)) == len(other)


def test_other_ranks_go_on_after_as_many_samples() -> None:
    def at(ranks: int, rank: int) -> ResumableLoader:
        sampler: Any = DistributedSampler(range(24), ranks, rank, shuffle=False)
        return ResumableLoader(TensorDataset(torch.arange(24)), batch_size=2, sampler=sampler)

    two = [at(2, rank) for rank in range(2)]
    seen = {x for loader in two for batch in taken(loader, 4) for x in batch}
    four = [at(4, rank) for rank in range(4)]
    for loader in four:
        loader.load_states_of_ranks([two[0].state_dict(), two[1].state_dict()])
    rest = {x for loader in four for batch in loader for x in batch_list(batch)}
    assert len(seen) == 16
    assert seen | rest == set(range(24))
    assert not seen & rest


def test_the_dataset_of_the_user_can_still_be_reached() -> None:
    loader = ResumableLoader(NUMBERS, batch_size=3)
    assert loader.dataset.tensors is NUMBERS.tensors
    assert loader.dataset[2] == NUMBERS[2]
    assert len(loader.dataset) == 10
    with pytest.raises(AttributeError):
        _ = loader.dataset.colour


class Endless(IterableDataset[int]):
    def __iter__(self):
        return itertools.count()


def test_what_has_no_position_is_refused() -> None:
    with pytest.raises(UsageError, match="without indices"):
        ResumableLoader(Endless())
    with pytest.raises(UsageError, match="in_order"):
        ResumableLoader(NUMBERS, num_workers=2, in_order=False)
