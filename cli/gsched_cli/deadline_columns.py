"""The columns of `gsched deadlines`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsched.app.past_targets import refused_words
from gsched.explain.target_words import chance_words
from gsched.model.target_records import TargetState
from gsched_cli.output import count, local_time
from gsched_cli.tables import Column

if TYPE_CHECKING:
    from gsched.model.target_records import TargetRecord

DEFAULT = "jobid,user,gpus,asked,deadline,state,promised_end,probability,end,why"

_STYLES = {
    TargetState.KEPT: "green",
    TargetState.MISSED: "red",
    TargetState.REFUSED: "yellow",
}


def _promised_end(record: TargetRecord) -> int | None:
    return None if record.promise is None else record.promise.finish_time


def _chance(record: TargetRecord) -> float | None:
    return None if record.promise is None else record.promise.probability


def _chance_cell(record: TargetRecord) -> str:
    chance = _chance(record)
    return "-" if chance is None else chance_words(chance)


COLUMNS: tuple[Column[TargetRecord], ...] = (
    Column("jobid", "JOBID", lambda r: r.key.slurm_id),
    Column("user", "USER", lambda r: r.user),
    Column("gpus", "GPUS", lambda r: count(r.num_gpus), lambda r: r.num_gpus, right=True),
    Column("asked", "ASKED", lambda r: local_time(r.asked_time), lambda r: r.asked_time),
    Column(
        "first", "FIRST_DEADLINE", lambda r: local_time(r.steps.times[0]),
        lambda r: r.steps.times[0],
    ),
    Column("deadline", "DEADLINE", lambda r: local_time(r.deadline), lambda r: r.deadline),
    Column("state", "STATE", lambda r: r.state.value, style=lambda r: _STYLES.get(r.state)),
    Column("since", "SINCE", lambda r: local_time(r.since), lambda r: r.since),
    Column("promised_end", "PROMISED_END", lambda r: local_time(_promised_end(r)), _promised_end),
    Column("probability", "PROBABILITY", _chance_cell, _chance, right=True),
    Column("end", "END", lambda r: local_time(r.end_time), lambda r: r.end_time),
    Column(
        "reward", "REWARD", lambda r: "-" if r.reward is None else f"{r.reward:.3g}",
        lambda r: r.reward, right=True,
    ),
    Column("earliest", "EARLIEST", lambda r: local_time(r.earliest), lambda r: r.earliest),
    Column("why", "WHY", lambda r: refused_words(r) or "-", lambda r: refused_words(r) or None),
)  # fmt: skip
