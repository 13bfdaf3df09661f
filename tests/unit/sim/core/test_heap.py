"""Heaps of job rows, several in one array."""

from __future__ import annotations

import random

import numpy as np

from gsched.sim.core.heap import ENTRY, pop, push


def test_rows_come_out_by_key_and_the_lower_row_first_of_equals():
    chance = random.Random(5)
    heap = np.zeros(600, dtype=ENTRY)
    heap["row"] = -7  # what lies around it
    base, size = 100, 0
    inside: list[tuple[float, int]] = []
    for row in chance.sample(range(10_000), 2_000):
        if inside and (chance.random() < 0.45 or size == 400):
            first = min(inside)
            assert (heap["key"][base], heap["row"][base]) == first
            size = pop(heap, base, size)
            inside.remove(first)
        else:
            key = float(chance.randrange(6))
            size = push(heap, base, size, key, row)
            inside.append((key, row))
        assert size == len(inside)
    while size:
        assert (heap["key"][base], heap["row"][base]) == min(inside)
        inside.remove(min(inside))
        size = pop(heap, base, size)
    assert set(heap["row"][:base]) == {-7}
    assert set(heap["row"][500:]) == {-7}
