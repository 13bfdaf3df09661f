"""Keeps scikit-learn's trees to one thread.

OpenMP's threads spin while they wait for each other: on a busy host small fits took thirty times
the CPU, and a head node has other work.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


def one_thread() -> AbstractContextManager[object]:
    """OpenMP uses one thread until it is left."""
    limits: AbstractContextManager[object] = _thread_pools().limit(limits=1, user_api="openmp")
    return limits


@cache
def _thread_pools() -> Any:
    """Those of this process, looked for once: that takes longer than some predictions."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()
