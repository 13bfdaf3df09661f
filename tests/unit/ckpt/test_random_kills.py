"""Trainers, writers and whole steps, killed at random moments: training loses nothing committed."""

from __future__ import annotations

import random

import pytest
from support.checkpoint_kills import KilledTraining, Victim

SEED = 20_261_130


@pytest.mark.parametrize(("world_size", "kills"), [(1, 20), (2, 4), (4, 2)])
def test_random_kills(world_size, kills, tmp_path):
    chance = random.Random(SEED + world_size)
    training = KilledTraining(tmp_path / "checkpoints", tmp_path, world_size, chance)
    victims = list(Victim)
    for number in range(kills):
        training.strike(victims[number % len(victims)])
    assert training.committed, "no kill came after a commit"
    assert training.finish(more_steps=12) > max(training.committed)
