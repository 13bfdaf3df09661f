"""What works beside the daemon's rounds: forecasts, sleeping nodes, deadlines and their
reservations, or none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from gsched.daemon.forecast_book import NOTHING_FORESEEN, Edition
from gsched.daemon.target_document import NOTHING_TOLD, TargetsTold
from gsched.engine.round import RoundResult
from gsched.model.decision import JsonValue
from gsched.model.job import Capability
from gsched.slurm.records import SlurmConfig


class Foresight(Protocol):
    """Forecasts of when jobs will start, which are made beside the rounds."""

    def edition(self) -> Edition:
        """What is to be told now."""
        ...

    def after_round(self, result: RoundResult, config: SlurmConfig) -> None:
        """Take over what a round has seen, and keep in the journal what was foreseen."""
        ...


class NoForesight:
    """Foresees nothing: a single round, whose process ends before a forecast would be made."""

    def edition(self) -> Edition:
        """Nothing."""
        return NOTHING_FORESEEN

    def after_round(self, result: RoundResult, config: SlurmConfig) -> None:
        """Nothing to be done."""


class Saver(Protocol):
    """Cluster energy saving, a step after each round."""

    def after_round(self, config: SlurmConfig) -> None:
        """Look at the nodes and do what is to be done. Raises LostLeadershipError alone."""
        ...

    def document(self) -> Mapping[str, JsonValue]:
        """What it has to tell, {} where no energy is saved."""
        ...


class NoSaver:
    """Saves nothing: a single round, whose process ends before a node would have woken."""

    def after_round(self, config: SlurmConfig) -> None:
        """Nothing to be done."""

    def document(self) -> Mapping[str, JsonValue]:
        """Nothing."""
        return {}


class TargetKeeper(Protocol):
    """The record of deadlines."""

    def after_round(
        self, result: RoundResult, requires: Iterable[Capability], config: SlurmConfig
    ) -> TargetsTold:
        """Keep what a round has decided of deadlines; what is to be told of them.

        `requires` is what its policy needs. Raises what the database raises.
        """
        ...


class NoTargets:
    """Keeps no deadlines."""

    def after_round(
        self, result: RoundResult, requires: Iterable[Capability], config: SlurmConfig
    ) -> TargetsTold:
        """Nothing."""
        return NOTHING_TOLD


class NodeKeeper(Protocol):
    """Reservations of nodes for deadlines that are due."""

    def after_round(self, result: RoundResult) -> None:
        """Bring them to what a round that acts has decided; the caller holds the writer lock.

        Raises what the database raises.
        """
        ...


class NoReservations:
    """Reserves nothing."""

    def after_round(self, result: RoundResult) -> None:
        """Nothing to be done."""
