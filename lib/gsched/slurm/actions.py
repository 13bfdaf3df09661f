"""What changes jobs: SiteFactors and requeues through one scontrol, signals by scancel.

Everything is sent once. Whoever wrote and got no answer looks at what stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gsched.errors import UsageError
from gsched.slurm import parse_config
from gsched.slurm.failures import may_pass
from gsched.slurm.records import UpdateOutcome
from gsched.slurm.run import Completed

MAX_SITE_FACTOR = 2**31 - 4
"""Slurm stores SiteFactor with an offset of 2^31; beyond this it takes no value."""

_ONE_JOB = re.compile(r"\d{1,10}(?:[_+]\d{1,10})?", re.ASCII)
_SIGNAL = re.compile(r"[A-Z][A-Z0-9]{1,7}", re.ASCII)

Once = Callable[[Sequence[str], str], Completed]
"""Runs a command that changes something, given as words and with its stdin."""


def set_site_factors(once: Once, values: Sequence[tuple[str, int]]) -> tuple[UpdateOutcome, ...]:
    """See ``SlurmClient.set_site_factors``."""
    ids = [slurm_id for slurm_id, _ in values]
    return _feed(once, ids, [_update_line(slurm_id, value) for slurm_id, value in values])


def requeue(
    once: Once, slurm_ids: Sequence[str], *, hold: bool, unfinished_only: bool
) -> tuple[UpdateOutcome, ...]:
    """See ``SlurmClient.requeue``."""
    verb = "requeuehold" if hold else "requeue"
    if unfinished_only:
        verb += " incomplete"  # scontrol(1)
    return _feed(once, slurm_ids, [f"{verb} {checked_id(i)}" for i in slurm_ids])


def signal(once: Once, slurm_id: str, name: str) -> UpdateOutcome:
    """See ``SlurmClient.signal``.

    By way of slurmctld (``--ctld``), which lets operators; slurmd would take it from the job's
    owner, root and SlurmUser only. scancel itself tries again for a minute while a job is in
    between two states, and may then reach its next attempt: for running jobs only.
    """
    if _SIGNAL.fullmatch(name) is None:
        raise UsageError(f"not a signal: {name!r}")
    argv = ("scancel", "--ctld", "--batch", f"--signal={name}", checked_id(slurm_id))
    answer = once(argv, "")
    if answer.status != 0 and may_pass(answer.stderr):
        raise answer.failure()
    said = answer.stderr.strip().removeprefix("scancel: error: ")
    return UpdateOutcome(slurm_id, (said or f"status {answer.status}") if answer.status else "")


def checked_id(slurm_id: str) -> str:
    """The id of one job, for scontrol's stdin, where another line would be another command."""
    if _ONE_JOB.fullmatch(slurm_id) is None:
        raise UsageError(f"not a job id: {slurm_id!r}")
    return slurm_id


def _feed(once: Once, slurm_ids: Sequence[str], lines: Sequence[str]) -> tuple[UpdateOutcome, ...]:
    """What one scontrol says to a line for each job."""
    if not lines:
        return ()
    answer = once(("scontrol",), "\n".join(lines) + "\n")
    errors = parse_config.parse_update_errors(answer.stderr)
    if answer.status != 0 and (may_pass(answer.stderr) or not errors):
        raise answer.failure()  # some may have been taken: the caller re-reads
    return tuple(UpdateOutcome(slurm_id, errors.get(slurm_id, "")) for slurm_id in slurm_ids)


def _update_line(slurm_id: str, value: int) -> str:
    """A line for scontrol's stdin. Raises UsageError for what is no job id or no SiteFactor."""
    if abs(value) > MAX_SITE_FACTOR:
        raise UsageError(f"SiteFactor {value} of job {slurm_id} is beyond ±{MAX_SITE_FACTOR}")
    return f"update jobid={checked_id(slurm_id)} sitefactor={int(value)}"
