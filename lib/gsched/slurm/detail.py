"""One job in all detail: asks Slurm in the way that the installed release answers best."""

from __future__ import annotations

import re

from gsched.errors import DataError
from gsched.slurm.failures import is_unknown_job, is_unreachable
from gsched.slurm.fields import new_separator
from gsched.slurm.parse_detail import DETAIL_FIELDS, parse_job_json, parse_job_texts
from gsched.slurm.parse_queue import squeue_format
from gsched.slurm.records import JobDetail
from gsched.slurm.run import Run

_FIRST_WITH_JSON = (23, 11)
"""Release of the first scontrol with ``--json``."""
_PINNED = (((25, 11), "v0.0.44"), ((24, 11), "v0.0.42"))
"""From which release on a version of the data parser is known; 26.05 knows both.

v0.0.44 is the first with the submit line. Pinned, so that a site's update does not change what is
read; a release that has dropped a version speaks its own.
"""


def job_detail(run: Run, raw_id: int) -> JobDetail | None:
    """What slurmctld knows of the job with Slurm's own number `raw_id`, None when it knows none.

    By JSON where scontrol has it. By texts where it has not, or where its plugin is not installed
    (24.11 then dies of a segmentation fault), and to make sure that a job is gone: of a controller
    that does not answer, scontrol's JSON says with status 0 and no word that it has no jobs.
    Raises the errors of ``gsched.slurm.run``.
    """
    for option in json_options(_release(run)):
        answer = run("scontrol", "-a", "show", "job", str(raw_id), option)
        if is_unreachable(answer.stderr):
            raise answer.failure()
        try:
            found = parse_job_json(answer.stdout, raw_id)
        except DataError:
            continue  # "no such option", "no such plugin": what stdout then holds is no JSON
        if found is not None:
            return found
        break
    return _by_texts(run, raw_id)


def json_options(release: tuple[int, int]) -> tuple[str, ...]:
    """What to try in turn for JSON from scontrol of this release; nothing where it has none."""
    if release < _FIRST_WITH_JSON:
        return ()
    pinned = next((version for first, version in _PINNED if release >= first), None)
    return ("--json",) if pinned is None else (f"--json={pinned}", "--json")


def _release(run: Run) -> tuple[int, int]:
    """Release of the client commands, (24, 11); (0, 0) where it is not understood."""
    match = re.search(r"\b(\d{2})\.(\d{2})\b", run("scontrol", "--version").check().stdout)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _by_texts(run: Run, raw_id: int) -> JobDetail | None:
    separator = new_separator()
    form = squeue_format(DETAIL_FIELDS, separator)
    job = str(raw_id)
    listed = run("squeue", "-h", "-a", "--local", "--states=all", "-j", job, "-O", form)
    if is_unknown_job(listed.stderr):
        return None
    # Slurm drops a job some minutes after its end: between the two calls it may go
    shown = run("scontrol", "-a", "-d", "-o", "show", "job", job)
    own = "" if is_unknown_job(shown.stderr) else shown.check().stdout
    return parse_job_texts(listed.check().stdout, separator, own, raw_id)
