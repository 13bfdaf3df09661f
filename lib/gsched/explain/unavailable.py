"""Which nodes that a job needs cannot be had, why, until when, and what its owner can do. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gsched.errors import DataError
from gsched.explain.words import moment, short_time
from gsched.model.cluster import NodeView, ReservationView
from gsched.model.hostlist import expand, fold
from gsched.slurm.records import QueueRow

_BY_ITSELF = "it starts by itself when they can be had again"


@dataclass(frozen=True, slots=True)
class Unavailable:
    """`words` say what is with the nodes ("" when that is not seen), `advice` what can be done."""

    words: str
    advice: str


def unavailable_nodes(
    row: QueueRow,
    required_nodes: str,
    nodes: Sequence[NodeView],
    reservations: Sequence[ReservationView],
    now: int,
) -> Unavailable:
    """What is with the nodes of a job that Slurm calls not available.

    Those that it names (--nodelist), else all of its partitions. Reservations that begin before
    its time limit would have ended keep it off as well.
    """
    named = _names(required_nodes)
    mine = [n for n in nodes if n.name in named or (not named and _serves(n, row))]
    reserved, words = set[str](), []
    ahead_s = None
    for reservation in reservations:
        taken = {n.name for n in mine} & set(reservation.nodes)
        left_s = reservation.start_time - now
        if not taken or reservation.end_time <= now or _is_in(row, reservation):
            continue
        if left_s > 0 and row.time_limit_s is not None and row.time_limit_s <= left_s:
            continue
        reserved |= taken
        begins = "" if left_s <= 0 else f" from {moment(reservation.start_time)}"
        ends = moment(reservation.end_time)
        words.append(f"{_are(taken)} reserved ({reservation.name}){begins} until {ends}")
        if left_s > 0:
            ahead_s = left_s if ahead_s is None else min(ahead_s, left_s)
    down = {n.name for n in mine if not n.is_usable} - reserved
    if down:
        words.append(f"{_are(down)} down, drained or not responding")
    return Unavailable("; ".join(words), _advice(bool(named), ahead_s))


def _advice(is_named: bool, ahead_s: int | None) -> str:
    shorter = "" if ahead_s is None else f"a --time below {short_time(ahead_s)} would end before"
    if is_named:
        return f"{shorter}; or leave out --nodelist" if shorter else "leave out --nodelist, or wait"
    return shorter or _BY_ITSELF


def _names(host_list: str) -> set[str]:
    try:
        return set(expand(host_list))
    except DataError:
        return set()


def _serves(node: NodeView, row: QueueRow) -> bool:
    return not set(node.partitions).isdisjoint(row.partitions)


def _is_in(row: QueueRow, reservation: ReservationView) -> bool:
    return reservation.name in row.reservation.split(",")


def _are(names: set[str]) -> str:
    return f"{fold(names)} {'is' if len(names) == 1 else 'are'}"
