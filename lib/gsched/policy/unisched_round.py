"""One decision of `unisched`: promises as in `chronus`, and who gets GPUs now by one model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from gsched.model.decision import Decision, JsonValue
from gsched.policy.chronus_round import Round
from gsched.policy.unisched_choice import Chooser

if TYPE_CHECKING:
    from gsched.policy.chronus_admission import Newcomer
    from gsched.policy.chronus_order import Choose
    from gsched.policy.unisched import UniSched


@dataclass(slots=True)
class UniRound(Round):
    """As a round of `chronus`, but that jobs are measured before they are answered, and that the
    order is what the model has chosen.
    """

    def _newcomers(self) -> list[Newcomer]:
        """Without those that have to be measured first: what is found may be promised."""
        return [new for new in Round._newcomers(self) if not self._is_to_be_measured(new)]

    def _is_to_be_measured(self, new: Newcomer) -> bool:
        policy = cast("UniSched", self.policy)
        gpus = new.view.request.gpus.minimum
        return gpus > 0 and policy.is_to_be_measured(new.view, new.left)

    def decision(self, choose: Choose | None = None) -> Decision:
        """Ranks, reasons, leases, answers and, in memory, how the choice was made."""
        chooser = Chooser(self, cast("UniSched", self.policy))
        found = Round.decision(self, choose or chooser)
        last: dict[str, JsonValue] = {"way": chooser.way, "gap": chooser.gap}
        return replace(found, memory={**found.memory, "choice": last})
