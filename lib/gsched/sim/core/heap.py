"""Binary heaps of job rows by a number; the lower row first of equals.

Several heaps lie in one array: each begins at its `base`, and whoever owns it keeps its size.
"""

from __future__ import annotations

import numpy as np

from gsched.sim.core.compiled import Records, compiled_inline, compiled_lean

ENTRY = np.dtype([("key", "f8"), ("row", "i4")])

Heap = Records


@compiled_lean
def push(heap: Heap, base: int, size: int, key: float, row: int) -> int:
    """Add a row; the size that the heap has then."""
    place = size
    while place > 0:
        above = base + (place - 1) // 2
        if heap[above].key < key or (heap[above].key == key and heap[above].row < row):
            break
        heap[base + place].key = heap[above].key
        heap[base + place].row = heap[above].row
        place = (place - 1) // 2
    heap[base + place].key = key
    heap[base + place].row = row
    return size + 1


@compiled_lean
def pop(heap: Heap, base: int, size: int) -> int:
    """Take out the first row, which is at ``heap[base]``; the size that the heap has then."""
    size -= 1
    key = heap[base + size].key
    row = heap[base + size].row
    place = 0
    while 2 * place + 1 < size:
        below = base + 2 * place + 1
        if below + 1 < base + size and _is_before(heap, below + 1, below):
            below += 1
        if key < heap[below].key or (key == heap[below].key and row < heap[below].row):
            break
        heap[base + place].key = heap[below].key
        heap[base + place].row = heap[below].row
        place = below - base
    heap[base + place].key = key
    heap[base + place].row = row
    return size


@compiled_inline
def _is_before(heap: Heap, one: int, other: int) -> bool:
    before: bool = heap[one].key < heap[other].key or (
        heap[one].key == heap[other].key and heap[one].row < heap[other].row
    )
    return before
