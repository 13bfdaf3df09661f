"""``gsched submit --gs-profile``: short runs of the same script, before the job itself.

A job on more than two nodes has one run on a node and one on two, all others one run of their own
shape. A run takes the job's own command line, with a name, a time limit and an output file of its
own; it is not requeued, and its checkpoints are thrown away (``gsched.launch.profile``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gsched.app.job_script import offer_again
from gsched.app.submitted import Submitted
from gsched.errors import GschedError, UnavailableError, UsageError
from gsched.launch.profile import START_S
from gsched.slurm.run import passthrough, run

DEFAULT_S = 300.0
"""For so long a profile run goes on after its first step, where nobody says."""

JOB_NAME = "gs-profile"
"""So their short times teach nothing about jobs of the user's own names."""

_END_S = 60.0  # for its end, saving what is thrown away
_CANCEL_S = 10.0
_COUNT = re.compile(r"(?P<kind>(?:[A-Za-z][\w.-]*:)?)(?P<number>[1-9]\d{0,8})", re.ASCII)
_NODES = re.compile(r"([1-9]\d{0,6})(?:-([1-9]\d{0,6}))?", re.ASCII)

_TOTALS = {"ntasks": "", "gpus": "SBATCH_GPUS"}
"""Options that count for all nodes together → their variables."""

_PLACES = ("nodelist", "nodefile")


@dataclass(frozen=True, slots=True)
class ProfileRuns:
    """The runs that are to be submitted, as command lines of sbatch, and their script."""

    argvs: tuple[tuple[str, ...], ...]
    script: bytes


def overrides(
    first_value: Callable[[str, str], str], seconds: float, time_limit_s: int | None
) -> tuple[tuple[str, ...], ...]:
    """Options for sbatch that make profile runs of a command line, one tuple a run.

    `first_value` gives an option's value ('' for none) by its name and variable. Raises UsageError
    for a job that cannot be made smaller.
    """
    limit_s = START_S + seconds + _END_S
    if time_limit_s is not None:
        limit_s = min(limit_s, time_limit_s)
    common = (
        f"--job-name={JOB_NAME}",
        f"--time={max(1, math.ceil(limit_s / 60))}",
        f"--output={JOB_NAME}-%j.out",
        f"--error={JOB_NAME}-%j.out",
        "--no-requeue",
        "--mail-type=NONE",
        "--parsable",
    )
    nodes = _nodes(first_value("nodes", ""))
    if nodes <= 2:
        return (common,)
    for option in _PLACES:
        if first_value(option, ""):
            raise _cannot(f"--{option} names the nodes of the whole job", "leave it out")
    return tuple((*common, *_smaller(first_value, nodes, fewer)) for fewer in (1, 2))


def submit_profiles(
    runs: ProfileRuns, environ: Mapping[str, str], owner: str, now: Callable[[], float]
) -> tuple[int, ...]:
    """Submit the runs; their ids. Raises UnavailableError where sbatch refuses one: those before
    are cancelled then. What sbatch says of it is on standard error already.
    """
    ids: list[int] = []
    for argv in runs.argvs:
        said = bytearray()
        began = now()
        offer_again(0, runs.script)
        code = passthrough(argv, environ, said.extend)
        job = Submitted.said(said.decode("utf-8", "replace"), owner, began, now())
        if code != 0 or job is None:
            cancel_profiles(ids)
            raise UnavailableError(
                "sbatch did not take the profile run: nothing is submitted",
                "leave out --gs-profile, or mend what sbatch says",
            )
        ids.append(int(job.job_id))
    return tuple(ids)


def cancel_profiles(ids: Sequence[int]) -> None:
    """Cancel runs that were submitted a moment ago, as far as Slurm answers."""
    for job_id in ids:
        with suppress(GschedError):
            run(["scancel", str(job_id)], timeout_s=_CANCEL_S)


def _nodes(text: str) -> int:
    if not text:
        return 1
    found = _NODES.fullmatch(text)
    if found is None or found[2] not in (None, found[1]):
        raise _cannot(f"--nodes={text} is no single number", "write --nodes=NUMBER")
    return int(found[1])


def _smaller(first_value: Callable[[str, str], str], nodes: int, fewer: int) -> list[str]:
    """The options of a run on `fewer` nodes, with a node's share of what counts for all."""
    options = [f"--nodes={fewer}"]
    for option, variable in _TOTALS.items():
        text = first_value(option, variable)
        if not text:
            continue
        found = _COUNT.fullmatch(text)
        if found is None or int(found["number"]) % nodes:
            raise _cannot(
                f"--{option}={text} cannot be shared out over {nodes} nodes",
                f"ask for them by node (--{option}-per-node)",
            )
        options.append(f"--{option}={found['kind']}{int(found['number']) // nodes * fewer}")
    return options


def _cannot(why: str, hint: str) -> UsageError:
    return UsageError(f"--gs-profile cannot be had: {why}", hint)
