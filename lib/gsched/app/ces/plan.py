"""`gsched ces plan`: what energy saving would do now, and why, node by node. Nothing is changed.

All is asked and decided here, without the daemon: the same look, books and policy as its own. An
order that the daemon is just sending counts as not sent.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gsched.app.ces.foreseen import options_of
from gsched.app.ces.messages import STEP_S, UNREADABLE, AskedPool, Question
from gsched.app.ces.status import in_words, pools_of
from gsched.app.wiring import now, open_history, slurm_client, why_no_history
from gsched.config.settings import Settings
from gsched.daemon.ces_books import Books, last_look, read_books
from gsched.daemon.ces_document import document
from gsched.daemon.ces_look import Ground, Scene, ces_settings, pool_sights
from gsched.daemon.ces_orders import OrderBook, SaverTimes
from gsched.daemon.ces_pinned import PinnedJobs
from gsched.daemon.ces_sight import NodeSight, sights_of
from gsched.daemon.ces_spans import SpanBook
from gsched.daemon.ces_step import Seen, take_in
from gsched.daemon.ces_watch import CountBook, DelayBook
from gsched.daemon.look import Look, Looker
from gsched.daemon.node_saver import SaverSettings
from gsched.engine.node_ports import Outlook, PoolSight
from gsched.errors import GschedError, PermissionDeniedError
from gsched.explain.ces_reasons import ces_reason
from gsched.model.decision import Reason
from gsched.policy.ces import Ces
from gsched.policy.ces_state import CesDecision, CesMemory, CesNode, NodePower
from gsched.power.state import State, Stopped, Store
from gsched.slurm.client import CommandClient
from gsched.slurm.power_saving import PowerSaving
from gsched.slurm.records import SlurmConfig

if TYPE_CHECKING:
    from gsched_sql import History

NOT_WANTED = "demand.not-forecast"


@dataclass(frozen=True, slots=True)
class _Site:
    """What was asked of Slurm for one plan."""

    client: CommandClient
    config: SlurmConfig
    look: Look
    sights: tuple[NodeSight, ...]
    at: int


def plan(
    settings: Settings, *, with_forecast: bool = True, tell: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """The plan as a document (times epoch seconds). `tell` hears what takes long.

    Raises the errors of asking Slurm. What of the history cannot be read is in ``notes``.
    """
    notes: list[str] = []
    client = slurm_client(settings)
    config = client.config()
    look = Looker(client, time.monotonic).look()
    site = _Site(client, config, look, sights_of(client.node_facts(), int), now())
    pools = pool_sights(site.sights)
    with ExitStack() as opened:
        history: History | None = None
        looked_at: int | None = None
        try:
            if why := why_no_history(settings):
                raise GschedError(why)
            history = opened.enter_context(open_history(settings, bounded=True))
            power_log, times = history.power_log(config.cluster), SaverTimes()
            books = read_books(power_log, site.at, times, settings.ces.failure_memory_s)
            looked_at = last_look(power_log, site.at, times)
        except GschedError as error:
            notes.append(f"without the history, of which no forecast is made: {error.message}")
            history, books = None, _no_books(settings)
        if with_forecast and history is not None:
            tell(f"learning the demand of {len(pools)} pools, some 20 s of processor time each")
            outlooks = _foreseen(settings, history, site, pools, notes)
        else:
            code = NOT_WANTED if history is not None else UNREADABLE
            outlooks = dict.fromkeys(pools, Outlook((), STEP_S, None, Reason(code)))
    seen = _see(settings, site, books, looked_at, outlooks, notes)
    scene = seen.scene
    if scene.problem:
        notes.append(f"the daemon orders nothing: {scene.problem}")
    policy = Ces(ces_settings(settings.ces, pools))
    memory = replace(books.memory, last_check={})  # as at the next check of each pool
    decision = policy.decide(scene.state, memory)
    told = document(settings.ces.mode, "", scene, policy, decision, seen.counts, books.orders, {})
    return {
        "cluster": config.cluster,
        **{key: told[key] for key in ("mode", "looked_at", "wake_failures", "stopped")},
        "pools": [in_words(pool) for pool in pools_of(told)],
        "nodes": _nodes(scene, decision),
        "notes": notes,
    }


def _no_books(settings: Settings) -> Books:
    times = SaverTimes()
    return Books(
        spans=SpanBook((), ()),
        orders=OrderBook(times, settings.ces.failure_memory_s, ()),
        delays=DelayBook(()),
        counts=CountBook(times.count_every_s),
        memory=CesMemory(),
        kept_memory={},
    )


def _foreseen(
    settings: Settings,
    history: History,
    site: _Site,
    pools: Mapping[str, PoolSight],
    notes: list[str],
) -> Mapping[str, Outlook]:
    """The outlook of each pool, learnt here and now."""
    from gsched.app.ces.keeper import DemandKeeper  # scikit-learn takes its time

    asked = tuple(AskedPool(name, seen.nodes, ()) for name, seen in sorted(pools.items()))
    question = Question(site.config.cluster, site.at, math.inf, options_of(settings.ces), asked)
    answer = DemandKeeper(history.node_uses).answer(question)
    if answer.problem:
        notes.append(f"no forecast: {answer.problem}")
    return {each.name: Outlook(each.past, STEP_S, each.forecast, each.why) for each in answer.told}


def _see(
    settings: Settings,
    site: _Site,
    books: Books,
    looked_at: int | None,
    outlooks: Mapping[str, Outlook],
    notes: list[str],
) -> Seen:
    """The look, taken in by the books of this process alone; `looked_at` is the daemon's last."""
    saving, at = PowerSaving.of(site.config), site.at
    if saving.suspend_time_s is None:
        notes.append("Slurm's power saving is off (SuspendTime): nothing of it could be done")
    state = State()
    try:
        state = Store(settings.power_dir).read()
    except PermissionDeniedError as error:  # the daemon may all the same
        notes.append(f"what `gsched power` keeps is not known here: {error.message}")
    except GschedError as error:
        why = f"what `gsched power` keeps cannot be read: {error.message}"
        notes.append(why)
        state = State(stopped=Stopped(at, why))
    switches: Mapping[str, str] = {}
    try:
        switches = site.client.switches()
    except GschedError as error:
        notes.append(f"the topology is not known: {error.message}")
    ground = Ground(
        table=settings.ces,
        saving=saving,
        rows=PinnedJobs(site.client.pinned_jobs).without(site.look.rows),
        partitions=site.look.description.partitions,
        reservations=site.look.description.reservations,
        helper_nodes=SaverSettings.of(settings).helper_nodes,
        power_state=state,
        switches=switches,
    )
    return take_in(at, looked_at, site.look.rows, site.sights, ground, books, outlooks)


def _nodes(scene: Scene, decision: CesDecision) -> list[dict[str, Any]]:
    """What becomes of each node, those that change first."""
    changes = {change.node: ("wake", change.reason) for change in decision.wake}
    changes |= {change.node: ("sleep", change.reason) for change in decision.sleep}
    order = {"sleep": 0, "wake": 1, "": 2}
    rows = [_node(node, *changes.get(node.name, ("", _kept(node, decision))))
            for node in scene.state.nodes]  # fmt: skip
    return sorted(rows, key=lambda row: (order[row["action"]], row["pool"], row["node"]))


def _kept(node: CesNode, decision: CesDecision) -> Reason | None:
    """Why nothing becomes of a node; of one asleep nothing has to be said."""
    found = decision.kept.get(node.name)
    if found is None and node.exclusion is not None:
        return Reason("ces.excluded", {"exclusion": node.exclusion.value})
    if found is None and node.power is not NodePower.AWAKE:
        return node.keep or Reason("ces.power-changes", {"power": node.power.value})
    return found


def _node(node: CesNode, action: str, reason: Reason | None) -> dict[str, Any]:
    told = None if reason is None else {"code": reason.code, "params": dict(reason.params)}
    return {
        "node": node.name,
        "pool": node.pool,
        "power": node.power.value,
        "running": node.is_running,
        "idle_since": node.idle_since,
        "action": action,
        "reason": told,
        "reason_text": "" if reason is None else ces_reason(reason.code, reason.params),
    }
