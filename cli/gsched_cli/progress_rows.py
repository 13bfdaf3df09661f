"""What a job tells of its progress, as rows of `gsched show`, and its loss as a small plot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from gsched.explain.start_words import AT_HAND_S, soon
from gsched.explain.words import percent
from gsched_cli.output import count, duration, local_time

PLOT_COLUMNS = 64
PLOT_LINES = 8

Row = tuple[str, str]


def progress_rows(told: Mapping[str, Any], at: float) -> Iterator[Row]:
    """Facts of the document's ``progress``."""
    total = told["total_steps"]
    of = f" of {total:,} steps ({percent(min(1.0, told['step'] / total))})" if total else ""
    yield "progress", f"step {told['step']:,}{of} at {local_time(told['step_time'])}"
    if told["eta_time"] is not None:
        pace = f"{_seconds(told['pace_s'])} a step of late"
        yield "should be done", f"{_end_words(told, at)} ({pace})"
    elif words := _why_no_eta(told, at):
        yield "should be done", words
    if told["loss"] is not None:
        yield "loss", f"{told['loss']:.6g}"
    if told["bad_losses"]:
        yield "loss now", f"not finite ({told['bad_losses']:,} looks in a row)"
    if told["iteration_s"] is not None:
        tokens = told["tokens_per_s"]
        yield (
            "iteration",
            _seconds(told["iteration_s"])
            + (f", {tokens:,.0f} tokens/s" if tokens is not None else ""),
        )
    if told["checkpoint_dir"] is not None:
        yield "checkpoints", told["checkpoint_dir"]
    if told["committed_step"] is not None:
        when = local_time(told["committed_time"])
        yield "newest checkpoint", f"step {told['committed_step']:,} at {when}"
    yield from _rank_rows(told)
    yield from _attempt_rows(told["attempts"])


def eta_words(eta_time: float, remaining_s: float, at: float) -> str:
    """When a job should be done: ``14:05``, ``in 0:31`` where that is at hand, ``now``."""
    is_at_hand = 0.5 <= remaining_s <= AT_HAND_S
    return f"in {duration(remaining_s)}" if is_at_hand else soon(eta_time, at)


def _end_words(told: Mapping[str, Any], at: float) -> str:
    words = eta_words(told["eta_time"], told["remaining_s"], at)
    return (
        f"{words}, in {duration(told['remaining_s'])}" if told["remaining_s"] > AT_HAND_S else words
    )


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 100 else duration(seconds)


def _why_no_eta(told: Mapping[str, Any], at: float) -> str:
    if told["is_silent"]:
        silent = f"not known: no step has ended for {duration(at - told['step_time'])}"
        heard = duration(at - told["written_time"])
        return f"{silent}; the process was last heard {heard} ago"
    return ""


def _rank_rows(told: Mapping[str, Any]) -> Iterator[Row]:
    if told["world_size"] == 1:
        return
    behind = told["behind"]
    yield (
        "ranks",
        f"{told['num_ranks_heard']} of {count(told['world_size'])} are heard; for longest not: "
        f"rank {behind['rank']} on {behind['host']}, at step {behind['step']:,} at "
        f"{local_time(behind['step_time'])}",
    )


def _attempt_rows(attempts: Sequence[Mapping[str, Any]]) -> Iterator[Row]:
    """Which steps each attempt did, and how many of them the one after it did again."""
    for attempt, after in zip_longest(attempts, attempts[1:]):
        first, last = attempt["first_step"], attempt["last_step"]
        words = f"steps {first:,} to {last:,}, begun {local_time(attempt['started_time'])}"
        if after is not None and after["first_step"] < last:
            words += f"; {last - after['first_step']:,} of them were done again"
        yield f"attempt {attempt['restart'] + 1}", words


def loss_plot(told: Mapping[str, Any]) -> list[str]:
    """The loss over the steps, in plain characters; `^` is where an attempt went on. [] for less
    than two points.
    """
    points = told.get("losses", ())
    if len(points) < 2 or points[0][0] == points[-1][0]:
        return []
    first, last = int(points[0][0]), int(points[-1][0])
    low, high = min(loss for _, loss in points), max(loss for _, loss in points)
    span = high / 2 - low / 2  # the difference itself may be beyond all numbers

    def column(step: int) -> int:
        return round((step - first) / (last - first) * (PLOT_COLUMNS - 1))

    def line(loss: float) -> int:
        share = (loss / 2 - low / 2) / span if span else 0.5
        return round((1 - share) * (PLOT_LINES - 1))

    cells = {(line(loss), column(step)) for step, loss in points}
    labels = {0: f"{high:.4g}", PLOT_LINES - 1: f"{low:.4g}"}
    margin = max(4, *map(len, labels.values()))
    lines = ["", f"{'loss':>{margin}}"]
    for number in range(PLOT_LINES):
        dots = "".join("*" if (number, c) in cells else " " for c in range(PLOT_COLUMNS))
        lines.append(f"{labels.get(number, ''):>{margin}} |{dots}".rstrip())
    lines.append(" " * margin + " +" + _axis(told["attempts"], column, first, last))
    steps = f"{first:,}".ljust(PLOT_COLUMNS - len(f"{last:,}")) + f"{last:,}"
    lines.append(f"{'step':>{margin}}  {steps}")
    return lines


def _axis(
    attempts: Sequence[Mapping[str, Any]], column: Callable[[int], int], first: int, last: int
) -> str:
    went_on = {column(a["first_step"]) for a in attempts if first < a["first_step"] <= last}
    return "".join("^" if c in went_on else "-" for c in range(PLOT_COLUMNS))
