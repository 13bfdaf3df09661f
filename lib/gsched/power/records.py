"""How the state changes by a call, by its outcomes, and by an administrator. Pure."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from gsched.config.settings import PowerSettings
from gsched.model.power import Verb
from gsched.power.state import MAX_FAILURES, Failure, Order, State, Stopped


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one node: done where `error` is ""."""

    node: str
    tries: int
    error: str


def begun(state: State, verb: Verb, names: Sequence[str], at: float) -> State:
    """With an order for each name, under a new number; some are refused at once."""
    orders = dict(state.orders)
    for name in names:
        order = Order(_verb(state, verb, name), state.next_number, at, os.getpid())
        if verb == "suspend" and (why := why_refused(state, name)):
            order = replace(order, outcome="refused", ended_at=at, error=why)
        orders[name] = order
    return replace(state, next_number=state.next_number + 1, orders=orders)


def _verb(state: State, verb: Verb, name: str) -> Verb:
    """A node that is still on has to be restarted: Slurm waits for a new boot time."""
    return "restart" if verb == "resume" and state.may_be_on(name) else verb


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
            order, outcome=outcome, ended_at=at, tries=one.tries, error=one.error
        )
        if one.error:
            failures.append(Failure(one.node, order.verb, at, one.tries, one.error))
    return _with_failures(replace(state, orders=orders), failures, settings, at)


def not_awake(state: State, names: Mapping[str, str], settings: PowerSettings, at: float) -> State:
    """With nodes that were told to wake and did not in time; name → why."""
    failures = [*state.failures]
    orders = dict(state.orders)
    for name, why in names.items():
        order = orders.get(name)
        if order is not None and order.verb != "suspend":
            orders[name] = replace(order, outcome="failed", ended_at=at, error=why)
        failures.append(Failure(name, "resume", at, order.tries if order else 0, why))
    return _with_failures(replace(state, orders=orders), failures, settings, at)


def _with_failures(
    state: State, failures: Sequence[Failure], settings: PowerSettings, at: float
) -> State:
    since = at - settings.stop_window_s
    recent = {failure.node for failure in failures if failure.at >= since}
    count = sum(failure.at >= since for failure in failures)
    stopped = state.stopped
    if stopped is None and count >= settings.stop_after and len(failures) > len(state.failures):
        stopped = Stopped(
            at, f"{count} failures of {len(recent)} nodes within {settings.stop_window_s:g} s"
        )
    return replace(state, failures=tuple(failures[-MAX_FAILURES:]), stopped=stopped)


def cleared(state: State, names: Collection[str] | None) -> State:
    """Without the failures of these nodes; None = of all, and suspending goes on."""
    if names is None:
        return replace(state, stopped=None, failures=())
    left = tuple(failure for failure in state.failures if failure.node not in names)
    return replace(state, failures=left)
