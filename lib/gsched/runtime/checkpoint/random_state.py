"""The state of every random-number generator that a training step draws from by itself.

Python's, numpy's (the global ones), torch's on the CPU and on each CUDA device of the process.
"""

from __future__ import annotations

import logging
import random
from typing import Any

import numpy as np
import torch

_log = logging.getLogger("gsched.checkpoint")


class RandomState:
    """A state like a model's or an optimiser's: `state_dict` and `load_state_dict`."""

    def __init__(self) -> None:
        self._has_warned = False

    def state_dict(self) -> dict[str, Any]:
        """The generators' states; tensors are copies."""
        version, words, gauss = random.getstate()
        name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
        return {
            "python": {"version": version, "words": torch.tensor(words), "gauss": gauss},
            "numpy": {
                "name": name,
                "keys": keys,
                "position": position,
                "has_gauss": has_gauss,
                "cached_gaussian": cached,
            },
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state_all() if _has_cuda() else [],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Set them: of CUDA devices as many as there are; a warning where others were kept."""
        python, of_numpy, cuda = state["python"], state["numpy"], state["cuda"]
        num_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if len(cuda) not in (0, num_devices) and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "the random states of %s CUDA devices were kept and this process has %s: what is "
                "drawn on a device will be other than without the interruption",
                len(cuda),
                num_devices,
            )
        random.setstate((python["version"], tuple(python["words"].tolist()), python["gauss"]))
        np.random.set_state(
            (
                of_numpy["name"],
                of_numpy["keys"],
                of_numpy["position"],
                of_numpy["has_gauss"],
                of_numpy["cached_gaussian"],
            )
        )
        torch.set_rng_state(state["torch"])
        for device, of_device in enumerate(cuda[:num_devices]):
            torch.cuda.set_rng_state(of_device, device)


def _has_cuda() -> bool:
    """Whether this process has used CUDA: asking for a state must not begin to."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
