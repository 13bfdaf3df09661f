"""The ranks of a training job: what they tell each other, on a gloo group of their own.

Messages are JSON: torch's object collectives would unpickle what another rank sends.
"""

from __future__ import annotations

import json
import os
from dataclasses import astuple, dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from gsched.errors import UsageError
from gsched.telemetry.job_environment import whole_number

TIME_LIMIT = timedelta(hours=1)
"""For all ranks to come to the same point: reading a large checkpoint takes its time."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a rank wants to happen, and what all agreed upon: of two numbers the larger wins.

    `stop_signal` and `save_signal` are signals' numbers, 0 for none; the others are 0 or 1. `late`:
    the grace is over, no newer checkpoint is to be begun.
    """

    stop_signal: int = 0
    save_signal: int = 0
    stop: int = 0
    save: int = 0
    persist: int = 0
    snapshot: int = 0
    late: int = 0


class Ranks:
    """This process among the ranks; alone where torch.distributed is not initialised."""

    def __init__(self) -> None:
        self.rank, self.world_size = 0, 1
        self._group: Any = None
        self._pending: tuple[torch.Tensor, Any] | None = None
        if dist.is_available() and dist.is_initialized():
            self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        elif (whole_number(os.environ, "WORLD_SIZE") or 1) > 1:
            raise UsageError(
                "this process is one of several ranks (WORLD_SIZE) that do not know each other",
                "call torch.distributed.init_process_group before the Checkpointer starts",
            )
        if self.world_size > 1:
            self._group = dist.new_group(backend="gloo", timeout=TIME_LIMIT)

    def gather(self, value: Any) -> list[Any]:
        """Every rank's `value` (JSON), in the order of ranks. All ranks have to call it."""
        if self.world_size == 1:
            return [value]
        data = torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)
        lengths = [torch.zeros(1, dtype=torch.int64) for _ in range(self.world_size)]
        dist.all_gather(lengths, torch.tensor([len(data)]), group=self._group)
        longest = max(int(n) for n in lengths)
        texts = [torch.zeros(longest, dtype=torch.uint8) for _ in range(self.world_size)]
        padded = torch.zeros(longest, dtype=torch.uint8)
        padded[: len(data)] = data
        dist.all_gather(texts, padded, group=self._group)
        pairs = zip(texts, lengths, strict=True)
        return [json.loads(bytes(text[: int(n)].tolist())) for text, n in pairs]

    def from_first(self, value: Any) -> Any:
        """The `value` of rank 0 (JSON); what the others give does not count."""
        return self.gather(value if self.rank == 0 else None)[0]

    def agree(self, wishes: Wishes, *, at_once: bool) -> Wishes:
        """What all ranks agreed upon; to be called by all at the end of the same step.

        One process alone has what it wishes at once. Of several, the wishes of one step are
        collected while the next one runs, and come back at its end: nobody waits. `at_once`, for a
        step that no other follows: those of this step are waited for, and count too.
        """
        if self.world_size == 1:
            return wishes
        agreed = self._collected()
        tensor = torch.tensor(astuple(wishes))
        work = dist.all_reduce(tensor, dist.ReduceOp.MAX, group=self._group, async_op=True)
        self._pending = tensor, work
        if not at_once:
            return agreed
        return Wishes(*map(max, astuple(agreed), astuple(self._collected())))

    def _collected(self) -> Wishes:
        """What was asked of all ranks before; waits for those that have not come to it."""
        if self._pending is None:
            return Wishes()
        (tensor, work), self._pending = self._pending, None
        work.wait()
        return Wishes(*tensor.tolist())
