"""The file by which one rank of a training job tells how far it is: its bytes, and their meaning.

A heartbeat file is `FOLDER/UID/JOB.RANK`: the heartbeat folder, the number of the job's owner, the
job's id (``48211``; ``48211_3`` for a task of an array) and the rank. It has a fixed size and is
written in place, in slots::

    bytes     0   4096   record, even sequence numbers
           4096   8192   record, odd ones
           8192  16384   curve, even sequence numbers        (of rank 0 alone)
          16384  24576   curve, odd ones

A slot is as in `slots`; a reader takes the valid one with the higher ``seq``. Whoever owns the file
may have put anything into it, so each value is checked here; times are epoch seconds, all other
durations seconds.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise

from gsched.errors import DataError
from gsched.telemetry.checked import Checked
from gsched.telemetry.loss_curve import MAX_ATTEMPTS, MAX_POINTS, Attempt, LossCurve, Point
from gsched.telemetry.slots import encode_slot, newest

RECORD_BYTES = 4096
CURVE_BYTES = 8192
CURVE_OFFSET = 2 * RECORD_BYTES
FILE_BYTES = CURVE_OFFSET + 2 * CURVE_BYTES
"""Size of rank 0's file; that of another rank ends at CURVE_OFFSET."""

ALIVE_INTERVAL_S = 60.0
"""So often a process that lives writes at least, also where it has nothing new to tell."""

_KIND = b"gsched-heartbeat 1"


@dataclass(frozen=True, slots=True)
class HeartbeatRecord:
    """How far a rank is.

    `run` is drawn anew by each start, `seq` counts the writes of all of them. `restart` is Slurm's
    count of the job's requeues. `first_step` is the number of steps that were finished when this
    start began (0, or the checkpoint's), `step` of those that are now; `total_steps` None: not
    known. `step_time` is when the last step ended (before the first one: when this start began),
    `written_time` when the process last wrote, which it does at least once a minute while it lives;
    `ended_time` is when it said that it is done, or gives way. `loss` is the last one that is
    finite, `bad_losses` how many since were not. `tokens` are those of this start. `iteration_s` is
    the mean time of the latest steps, `pace_s` the seconds a step over the last ten minutes, with
    all that lay between steps. `checkpoint_dir` is the run's folder of checkpoints,
    `committed_step` is in its newest one, since `committed_time`; another one is being written
    since `saving_since`, None: none is.
    """

    run: str
    seq: int
    job: str
    restart: int
    rank: int
    world_size: int
    host: str
    started_time: float
    written_time: float
    step_time: float
    first_step: int
    step: int
    total_steps: int | None = None
    ended_time: float | None = None
    loss: float | None = None
    bad_losses: int = 0
    tokens: int | None = None
    tokens_per_s: float | None = None
    iteration_s: float | None = None
    pace_s: float | None = None
    checkpoint_dir: str | None = None
    committed_step: int | None = None
    committed_time: float | None = None
    saving_since: float | None = None


def file_name(job: str, rank: int) -> str:
    """The name of a rank's file in the folder of its owner."""
    return f"{job}.{rank}"


def encode_record(record: HeartbeatRecord) -> bytes:
    """One slot. A folder of checkpoints whose name is too long for it is left out."""
    fields = asdict(record)
    try:
        return encode_slot(_KIND, fields, RECORD_BYTES)
    except DataError:
        return encode_slot(_KIND, fields | {"checkpoint_dir": None}, RECORD_BYTES)


def decode_record(data: bytes) -> HeartbeatRecord:
    """The newest record of the two slots `data` begins with. Raises DataError where none is valid.

    Of a record that is valid, `job` and `rank` are still what its writer says.
    """
    return newest(_KIND, data[:CURVE_OFFSET], RECORD_BYTES, _record)[1]


def encode_curve(curve: LossCurve, seq: int) -> bytes:
    """One slot of a curve."""
    fields = {
        "seq": seq,
        "stride": curve.stride,
        "points": [(p.step, float(f"{p.loss:.6g}"), p.num) for p in curve.points],
        "attempts": curve.attempts,
    }
    return encode_slot(_KIND, fields, CURVE_BYTES)


def decode_curve(data: bytes) -> tuple[int, LossCurve]:
    """Sequence number and curve, the newer of the two slots of `data`. Raises DataError."""
    return newest(_KIND, data[: 2 * CURVE_BYTES], CURVE_BYTES, _curve)


# -- values ----------------------------------------------------------------------------------------


def _record(its: Checked) -> tuple[int, HeartbeatRecord]:
    record = HeartbeatRecord(
        run=its.text("run", 32),
        seq=its.number("seq"),
        job=its.text("job", 32),
        restart=its.number("restart"),
        rank=its.number("rank"),
        world_size=its.number("world_size"),
        host=its.text("host", 256),
        started_time=its.time("started_time"),
        written_time=its.time("written_time"),
        step_time=its.time("step_time"),
        first_step=its.number("first_step"),
        step=its.number("step"),
        total_steps=its.maybe(its.number, "total_steps"),
        ended_time=its.maybe(its.time, "ended_time"),
        loss=its.maybe(its.real, "loss"),
        bad_losses=its.number("bad_losses"),
        tokens=its.maybe(its.number, "tokens"),
        tokens_per_s=its.maybe(its.time, "tokens_per_s"),
        iteration_s=its.maybe(its.time, "iteration_s"),
        pace_s=its.maybe(its.time, "pace_s"),
        checkpoint_dir=its.path("checkpoint_dir"),
        committed_step=its.maybe(its.number, "committed_step"),
        committed_time=its.maybe(its.time, "committed_time"),
        saving_since=its.maybe(its.time, "saving_since"),
    )
    return record.seq, record


def _curve(its: Checked) -> tuple[int, LossCurve]:
    points = [Point(*Checked.row(row, "nrn")) for row in its.rows("points", MAX_POINTS)]
    attempts = [Attempt(*Checked.row(row, "nnntt")) for row in its.rows("attempts", MAX_ATTEMPTS)]
    if any(later.step < former.step for former, later in pairwise(points)):
        raise DataError("its steps go back")
    return its.number("seq"), LossCurve(points, attempts, max(1, its.number("stride")))
