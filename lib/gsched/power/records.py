"""How the state changes by a call, by its outcomes, and by an administrator. Pure."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from gsched.config.node_settings import PowerSettings
from gsched.model.power import Verb
from gsched.power.state import MAX_FAILURES, Failure, Order, State, Stopped


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one node: done where `error` is ""."""

    node: str
    tries: int
    error: str
    is_fault: bool = True
    """Whether an error is the node's: else it is told and not counted against the node."""
    verb: Verb | None = None
    """What was done in the end, a resume in place of a restart; None = what was ordered."""
    note: str = ""
    """Why so."""


def begun(state: State, verb: Verb, names: Sequence[str], at: float) -> State:
    """With an order for each name, under a new number; some are refused at once."""
    orders = dict(state.orders)
    for name in names:
        order = Order(_verb(state, verb, name, at), state.next_number, at, os.getpid())
        if verb == "suspend" and (why := why_refused(state, name)):
            order = replace(order, outcome="refused", ended_at=at, error=why)
        orders[name] = order
    return replace(state, next_number=state.next_number + 1, orders=orders)


def _verb(state: State, verb: Verb, name: str, at: float) -> Verb:
    """A node that is still on has to be restarted: Slurm waits for a new boot time."""
    return "restart" if verb == "resume" and state.may_be_on(name, at) else verb


def refused(state: State, names: Sequence[str], why: str, at: float) -> State:
    """With suspends that nobody has carried out: these nodes are on, whatever Slurm believes."""
    why_not = Order("suspend", state.next_number, at, os.getpid(), "refused", at, 0, why)
    orders = {**state.orders, **dict.fromkeys(names, why_not)}
    return replace(state, next_number=state.next_number + 1, orders=orders)


def why_refused(state: State, node: str) -> str:
    """Why a node is not suspended, "" where it is."""
    if state.stopped:
        return f"suspending is stopped: {state.stopped.why}"
    if node in state.failed_nodes:
        return "it has failed and is left for an administrator"
    return ""


def ended(
    state: State,
    number: int,
    outcomes: Sequence[Outcome],
    settings: PowerSettings,
    at: float,
) -> State:
    """With the outcomes of call `number`; where too many have failed, suspending is stopped."""
    orders, failures = dict(state.orders), list(state.failures)
    for one in outcomes:
        order = orders.get(one.node)
        if order is None or order.number != number:
            continue  # a later call has the node now
        outcome = "failed" if one.error else "done"
        orders[one.node] = replace(
            order,
            verb=one.verb or order.verb,
            outcome=outcome,
            ended_at=at,
            tries=one.tries,
            error=one.error or one.note,
        )
        if one.error and one.is_fault:
            failures.append(Failure(one.node, order.verb, at, one.tries, one.error))
    return _with_failures(replace(state, orders=orders), failures, settings, at)


def not_awake(state: State, names: Mapping[str, str], settings: PowerSettings, at: float) -> State:
    """With nodes that were told to wake and did not in time; name → why."""
    failures = [*state.failures]
    orders = dict(state.orders)
    for name, why in names.items():
        order = orders.get(name)
        if order is not None and order.verb != "suspend":
            was_done = order.outcome == "done"
            orders[name] = replace(
                order, outcome="failed", ended_at=at, error=why, was_done=was_done
            )
        failures.append(Failure(name, "resume", at, order.tries if order else 0, why))
    return _with_failures(replace(state, orders=orders), failures, settings, at)


def _with_failures(
    state: State, failures: Sequence[Failure], settings: PowerSettings, at: float
) -> State:
    since = max(at - settings.stop_window_s, state.counted_from)
    recent = [failure.node for failure in failures if failure.at >= since]
    bad, stopped = len(set(recent)), state.stopped
    if stopped is None and bad >= settings.stop_after and len(failures) > len(state.failures):
        stopped = Stopped(
            at, f"{len(recent)} failures of {bad} nodes within {settings.stop_window_s:g} s"
        )
    return replace(state, failures=tuple(failures[-MAX_FAILURES:]), stopped=stopped)


def cleared(
    state: State,
    names: Collection[str] | None,
    removed: Collection[str] = (),
    at: float = 0.0,
) -> State:
    """Without the failures of these nodes; None = of all, and suspending goes on.

    That it was done is kept: energy saving remembers failures as well, also of nodes that other
    programs wake. Of nodes that are named, orders that have failed or were refused are forgotten
    too, and every order of those that have been `removed` from the cluster.
    """
    if names is None:
        return replace(state, stopped=None, failures=(), cleared_at={}, all_cleared_at=at)
    left = tuple(failure for failure in state.failures if failure.node not in names)
    gone = {n for n, o in state.orders.items() if o.outcome in ("failed", "refused")} | {*removed}
    orders = {n: o for n, o in state.orders.items() if n not in names or n not in gone}
    kept = {node: when for node, when in state.cleared_at.items() if node not in names}
    told = [*kept.items(), *((node, at) for node in names if node not in removed)][-MAX_FAILURES:]
    return replace(state, failures=left, orders=orders, cleared_at=dict(told))


def going_on(state: State, at: float) -> State:
    """With suspending no longer stopped; nodes that have failed are still left alone."""
    return replace(state, stopped=None, counted_from=at)


def misled(state: State) -> list[str]:
    """Nodes that Slurm was to believe off, and that were not switched off, sorted."""
    return sorted(
        name
        for name, order in state.orders.items()
        if order.verb == "suspend" and order.outcome in ("failed", "refused")
    )
