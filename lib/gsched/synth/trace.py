"""A drawn trace as attempts, to be written, and as past jobs, to be compared with its source."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gsched.model.job import JobState
from gsched.model.trace import CHUNK_ROWS, AttemptColumns, Cells, Constant
from gsched.synth.columns import UNTOLD, TraceJobs
from gsched.synth.draw import Drawn
from gsched.synth.fit import Fit

SOURCE = "synth"

_WHAT = (
    *("bert", "resnet", "llama", "vit", "gpt", "unet", "whisper", "dlrm", "clip", "moe", "t5"),
    *("yolo", "diffusion", "graphsage", "ppo", "wav2vec"),
)
_HOW = ("train", "eval", "sft", "sweep", "debug", "pretrain", "infer", "ablate", "tune", "export")


def recipe_name(recipe: int) -> str:
    """A name of its own for each recipe, without numbers: those are for its runs."""
    rest, what = divmod(recipe, len(_WHAT))
    rest, how = divmod(rest, len(_HOW))
    letters = ""
    while rest:
        rest, letter = divmod(rest - 1, 26)
        letters = chr(ord("a") + letter) + letters
    return "-".join(filter(None, (_WHAT[what], _HOW[how], letters)))


def attempts(drawn: Drawn, fit: Fit, cluster: str) -> Iterator[AttemptColumns]:
    """The jobs in chunks; each is taken to start when it is submitted."""
    for first in range(0, len(drawn), CHUNK_ROWS):
        yield _chunk(drawn, fit, cluster, slice(first, min(first + CHUNK_ROWS, len(drawn))))


def _chunk(drawn: Drawn, fit: Fit, cluster: str, rows: slice) -> AttemptColumns:
    submit = drawn.submit_s[rows].tolist()
    end = (drawn.submit_s[rows] + drawn.duration_s[rows]).tolist()
    words = drawn.state[rows].tolist()
    pools = [fit.pools[code].name or None for code in drawn.pool[rows].tolist()]
    columns: dict[str, Cells] = {
        "cluster": Constant(cluster),
        "source": Constant(SOURCE),
        "job_id": range(rows.start + 1, rows.stop + 1),
        "submit_time": submit,
        "start_time": submit,
        "start_assumed": Constant(1),
        "end_time": end,
        f"num_{fit.unit}": drawn.size[rows].tolist(),
        fit.pool_field: pools,
        "state": [JobState(word) if word else JobState.COMPLETED for word in words],
        "state_text": words,
    }
    if drawn.time_limit_s is not None:
        columns["time_limit_s"] = drawn.time_limit_s[rows].tolist()
    columns |= _people(drawn, fit, rows)
    return AttemptColumns(rows.stop - rows.start, columns)


def _people(drawn: Drawn, fit: Fit, rows: slice) -> dict[str, Cells]:
    if drawn.user is None or fit.people is None:
        return {}
    users = drawn.user[rows].tolist()
    columns: dict[str, Cells] = {"user": [f"user{user:04}" for user in users]}
    if drawn.recipe is not None and drawn.number is not None:
        runs = zip(drawn.recipe[rows].tolist(), drawn.number[rows].tolist(), strict=True)
        columns["name"] = [f"{recipe_name(recipe)}_{number}" for recipe, number in runs]
    if fit.people.num_tenants and fit.pool_field != "tenant":
        columns["tenant"] = [f"lab{user % fit.people.num_tenants:02}" for user in users]
    return columns


def as_jobs(drawn: Drawn, fit: Fit) -> TraceJobs:
    """The same jobs as a reader of the written trace would have them."""
    untold = np.full(len(drawn), UNTOLD, dtype=np.int64)
    states, state = np.unique(drawn.state, return_inverse=True)
    limits = drawn.time_limit_s
    name = recipe = untold
    if drawn.recipe is not None and drawn.number is not None:
        recipe = drawn.recipe
        runs = np.stack((recipe, drawn.number))
        name = np.unique(runs, axis=1, return_inverse=True)[1].reshape(-1)
    return TraceJobs(
        unit=fit.unit,
        submit_s=drawn.submit_s,
        duration_s=drawn.duration_s.astype(np.float64),
        size=drawn.size,
        pool=drawn.pool,
        pools=tuple(pool.name for pool in fit.pools),
        pool_field=fit.pool_field,
        user=untold if drawn.user is None else drawn.user,
        num_tenants=fit.people.num_tenants if fit.people else 0,
        name=name,
        recipe=recipe,
        state=state if fit.states else untold,
        states=tuple(map(str, states)) if fit.states else (),
        time_limit_s=np.full(len(drawn), np.nan) if limits is None else limits.astype(np.float64),
        left_out=0,
    )
