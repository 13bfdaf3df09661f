"""How the loops are compiled.

One mode for all: division as numpy does it, nothing in parallel and no fast mathematics, so that
the same input gives the same bits. Compiled code is kept beside the module or, where that folder is
not writable, in the user's cache; where neither is, it is compiled anew in each process.

Callers may pass numpy's numbers where a compiled function says int or float.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from numba import njit

R = TypeVar("R")

Records: TypeAlias = Any
"""An array of records, or one record: compiled code reads the fields as attributes, of which
numpy's types know nothing."""

_SOURCES = sorted(Path(__file__).parent.glob("*.py"))
_STAMP = tuple((path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in _SOURCES)


def compiled(function: Callable[..., R]) -> Callable[..., R]:
    """Compile `function` when it is first called."""
    return _compile(function, error_model="numpy", _nrt=True)  # else it inherits from its caller


def compiled_lean(function: Callable[..., R]) -> Callable[..., R]:
    """Compile `function`, which makes no arrays, without counting references to its arguments'.

    Numba counts each time an array is read out of a tuple, which takes most of the time of a
    function that takes its state as a tuple of arrays. A function that makes an array (a slice or a
    mask as well) does not compile this way; it may call one that is just `compiled`.
    """
    return _compile(function, error_model="numpy", _nrt=False)


def compiled_inner(function: Callable[..., R]) -> Callable[..., R]:
    """As `compiled_lean`, for what only compiled code calls: a quarter of the time to compile.

    The rest is for the wrapper that takes a tuple of forty arrays apart for Python.
    """
    bare = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return _compile(function, error_model="numpy", _nrt=False, **bare)


def compiled_inline(function: Callable[..., R]) -> Callable[..., R]:
    """As `compiled_inner`, for short functions: they are put into what calls them.

    A call that hands over forty arrays takes longer than they do.
    """
    bare = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
    return _compile(function, error_model="numpy", _nrt=False, **bare)


def _compile(function: Callable[..., R], **options: Any) -> Callable[..., R]:
    try:
        kept = njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder that it may write to
        return njit(**options)(function)  # type: ignore[no-any-return]
    if not hasattr(kept, "_cache"):  # NUMBA_DISABLE_JIT: it is the function itself
        return kept  # type: ignore[no-any-return]
    # Numba looks whether the function's own file has changed; what it calls is compiled in as well.
    kept._cache._cache_file._source_stamp = _STAMP
    return kept  # type: ignore[no-any-return]
