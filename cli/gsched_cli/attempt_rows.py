"""What a job tells of its attempts and GPUs, as `gsched show` prints it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from gsched.explain.words import count, percent, size
from gsched_cli.output import duration, local_time

ATTEMPT_COLUMNS = ("ATTEMPT", "BEGUN", "LASTED", "NODES", "SRUNS", "SIGNALS", "END")
MAX_NODES = 16
"""So many nodes have a line for their GPUs; `--json` has them all."""
IDLE_S = 300.0
"""A GPU on which nothing was found for so long is said to be idle."""

Row = tuple[str, str]


def told_attempt_rows(attempts: Sequence[Mapping[str, Any]], at: float) -> list[tuple[str, ...]]:
    """A row for each attempt of the document's ``attempts``."""
    return [
        (
            str(attempt["restart"] + 1),
            local_time(attempt["started_time"]),
            duration(_lasted_s(attempt, at)),
            attempt["nodes"] or attempt["host"] or "-",
            str(attempt["num_steps"] or "-"),
            _signals(attempt),
            _end(attempt),
        )
        for attempt in attempts
    ]


def log_rows(attempts: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Where attempts have an output of their own."""
    for attempt in attempts:
        if attempt["log"] is not None:
            yield f"attempt {attempt['restart'] + 1} output", attempt["log"]


def gpu_rows(gpus: Sequence[Mapping[str, Any]], at: float) -> Iterator[Row]:
    """A row for each node of the document's ``gpus``."""
    nodes = [(node, list(found)) for node, found in groupby(gpus, lambda gpu: gpu["node"])]
    for node, found in nodes[:MAX_NODES]:
        yield f"GPUs on {node}", "; ".join(_node_words(found, at))
    if len(nodes) > MAX_NODES:
        yield "GPUs", f"on {count(len(nodes) - MAX_NODES, 'more node')}: see --json"


def _lasted_s(attempt: Mapping[str, Any], at: float) -> float | None:
    """None of one that was lost: nobody has told how long it went on."""
    until = at if attempt["is_running"] else attempt["ended_time"]
    if attempt["started_time"] is None or until is None:
        return None
    return max(0.0, float(until - attempt["started_time"]))


def _signals(attempt: Mapping[str, Any]) -> str:
    began = attempt["started_time"]
    words = [
        name if began is None else f"{name} after {duration(max(0, when - began))}"
        for name, when in attempt["signals"]
    ]
    return ", ".join(words) or "-"


def _end(attempt: Mapping[str, Any]) -> str:
    if attempt["signal"] is not None:
        return f"signal {attempt['signal']}"
    if attempt["exit_code"] is not None:
        return f"exit code {attempt['exit_code']}"
    if attempt["ended_time"] is not None:
        return "ended"
    return "runs" if attempt["is_running"] else "not told"


def _node_words(gpus: Sequence[Mapping[str, Any]], at: float) -> Iterator[str]:
    names = dict.fromkeys(gpu["name"] for gpu in gpus)
    since = "" if gpus[0]["is_running"] else f", last told at {local_time(gpus[0]['written_time'])}"
    yield f"{len(gpus)} × {', '.join(names)}{since}"
    if shares := _told(gpus, "utilisation"):
        words = f"{percent(_mean(shares))} in use"
        if len(shares) > 1:
            words += f" ({percent(min(shares))} to {percent(max(shares))})"
        yield words + f", on average {percent(_mean(_told(gpus, 'mean_utilisation')))}"
    if highest := _told(gpus, "max_memory_used_bytes"):
        of = [f" of {size(total)}" for total in _told(gpus, "memory_total_bytes")[:1]]
        yield f"at most {size(max(highest))}{''.join(of)} a GPU"
    if power := _told(gpus, "power_w"):
        limits = _told(gpus, "power_limit_w")
        yield f"{sum(power):.0f} W" + (f" of {sum(limits):.0f} W" if limits else "")
    yield from _idle_words(gpus, at)


def _idle_words(gpus: Sequence[Mapping[str, Any]], at: float) -> Iterator[str]:
    """GPUs that a running job holds and on which no sample has found anything for long."""
    idle = []
    for gpu in gpus:
        since = gpu["busy_time"] or gpu["started_time"]
        if gpu["is_running"] and gpu["utilisation"] == 0 and at - since >= IDLE_S:
            idle.append((at - since, gpu["index"]))
    if idle:
        numbers = ",".join(str(index) for _, index in sorted(idle, key=lambda pair: pair[1]))
        yield f"GPU {numbers} idle for {duration(min(idle)[0])} at least"


def _told(gpus: Sequence[Mapping[str, Any]], key: str) -> list[Any]:
    return [gpu[key] for gpu in gpus if gpu[key] is not None]


def _mean(shares: Sequence[float]) -> float:
    return sum(shares) / len(shares)
