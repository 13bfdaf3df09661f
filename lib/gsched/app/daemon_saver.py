"""Cluster energy saving in the daemon: its driver, its forecasts, and who lets it act."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from gsched.app.ces.foreseen import ForeseenDemand
from gsched.app.daemon_parts import Live, fault_hook, new_round_id
from gsched.app.wiring import now
from gsched.config.node_settings import CesTable
from gsched.config.nodes import check_holidays
from gsched.config.settings import Settings
from gsched.daemon.ces_facts import CesFacts
from gsched.daemon.ces_names import unknown_names
from gsched.daemon.gate import Gate, Mode
from gsched.daemon.helper_client import HelperClient
from gsched.daemon.look import Look
from gsched.daemon.node_saver import NodeSaver, SaverParts, SaverSettings
from gsched.daemon.situation import Board
from gsched.engine.node_ports import NodeHelper, PowerLog
from gsched.errors import ConfigError, GschedError
from gsched.model.decision import JsonValue
from gsched.power.state import Store
from gsched.slurm.records import SlurmConfig
from gsched_sql import History

HELPER_LIMIT_S = 10.0
"""A helper that hangs holds up a round for no longer, and carries nothing out after it."""


@dataclass(frozen=True, slots=True)
class Saving:
    """Implements ``gsched.daemon.loop.Saver``: a step of energy saving after each round."""

    saver: NodeSaver
    demand: ForeseenDemand
    live: Live
    board: Board
    may_act: Callable[[], bool]

    def after_round(self, config: SlurmConfig) -> None:
        """Look, decide and order. Raises LostLeadershipError."""
        look = self.live.backend.last_look
        if look is not None:
            self.saver.after_round(look, config, self.may_act)
        self.board.post(ces=self.document())

    def document(self) -> dict[str, JsonValue]:
        """What there is to tell, {} where nothing is saved."""
        told = self.saver.document()
        return {**told, "demand": self.demand.facts.document()} if told else {}

    @property
    def facts(self) -> CesFacts | None:
        """What metrics tell; None where nothing is saved."""
        told = self.saver.document()
        return CesFacts(told, Counter(self.saver.totals), self.demand.facts) if told else None

    def configure(self, settings: SaverSettings) -> None:
        """Follow other settings."""
        self.saver.configure(settings)
        self.demand.configure(settings.ces)
        if settings.ces.mode == "off":
            self.board.post(ces={})

    @contextmanager
    def running(self) -> Iterator[None]:
        """Make forecasts during the block."""
        with self.demand.running():
            yield


def saving_of(
    settings: Settings,
    live: Live,
    history: History,
    fence: int | None,
    board: Board,
    gate: Gate,
    acting: bool,
) -> Saving:
    """The parts, put together. Raises what `saver_settings` raises."""
    demand = ForeseenDemand(live.backend.cluster, settings.ces)
    log = history.power_log(live.backend.cluster, fence)

    def may_act() -> bool:
        try:
            return acting and gate.verdict(now()).mode is Mode.ACT
        except GschedError:  # the folder with `halt` cannot be read
            return False

    def why_idle() -> str:
        if not acting:
            return "it was started without --act"
        try:
            return gate.verdict(now()).why
        except GschedError as error:
            return error.message

    parts = saver_parts(settings, live, log, _helper(settings), demand, why_idle)
    saver = NodeSaver(parts, saver_settings(settings))
    return Saving(saver, demand, live, board, may_act)


def saver_parts(
    settings: Settings,
    live: Live,
    log: PowerLog,
    helper: NodeHelper,
    demand: ForeseenDemand,
    why_idle: Callable[[], str] = str,
) -> SaverParts:
    """What the driver works with, on this host's Slurm."""
    return SaverParts(
        log=log,
        helper=helper,
        source=demand,
        read_nodes=live.client.node_facts,
        clock=now,
        new_id=new_round_id,
        failures=Store(settings.power_dir).glance,
        read_switches=live.client.switches,
        read_pinned=live.client.pinned_jobs,
        why_idle=why_idle,
        on_point=fault_hook(),
    )


def saver_settings(settings: Settings) -> SaverSettings:
    """What the site asks for.

    Raises DataError for host lists that are none, ConfigError for a country without holidays.
    """
    if settings.ces.mode != "off":
        check_holidays(settings.ces)
    return SaverSettings.of(settings)


def check_names(table: CesTable, look: Look | None) -> None:
    """Raise ConfigError for names in `table` that Slurm does not know, where `look` has shown them.

    At a start energy saving itself finds them, and orders nothing.
    """
    if look is None or table.mode == "off":
        return
    nodes, partitions = look.description.nodes, look.description.partitions
    known = {partition.name for partition in partitions}
    if why := unknown_names(table, {node.name for node in nodes}, known):
        raise ConfigError(why, "`scontrol show node` and `scontrol show partition` name them all")


def _helper(settings: Settings) -> HelperClient:
    return HelperClient(settings.helper_socket, HELPER_LIMIT_S)
