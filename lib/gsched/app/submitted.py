"""The job that sbatch has just made: told by its id, its user and when it was submitted.

Slurm gives ids again, after its highest one and when slurmctld has lost its state: by an id alone
no job is cancelled, and no answer is believed.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from gsched.model.job import JobState
from gsched.slurm.fields import new_separator
from gsched.slurm.parse_queue import QUEUE_FIELDS, parse_queue, squeue_format
from gsched.slurm.run import run

CLOCKS_S = 60
"""By so many seconds this host's clock and slurmctld's may differ."""

_SAID = re.compile(
    r"^(?:Submitted batch job (\d+)(?: on cluster (\S+))?|(\d+)(?:;(\S+))?)$", re.MULTILINE
)
"""sbatch's own line, or what it prints with ``--parsable``. A site's banners stand before it."""
_CLUSTER_LINE = re.compile(r"\ACLUSTER: .*\n")


class Fate(enum.Enum):
    """What has become of a job, as it is said of it."""

    WAITS = "stays in the queue"
    RUNS = "runs already"
    ENDED = "has ended already"
    GONE = "is unknown to Slurm by now"
    ANOTHER = "is by now another job of that id"


@dataclass(frozen=True, slots=True)
class Submitted:
    """A new job: its id (of an array or heterogeneous job the leader's), and its cluster when
    sbatch named one. It is `user`'s, submitted between `began` and `ended` (epoch seconds).
    """

    job_id: str
    cluster: str | None
    user: str
    began: float
    ended: float

    @classmethod
    def said(cls, stdout: str, user: str, began: float, ended: float) -> Submitted | None:
        """The job that sbatch's output names last; None when it names none."""
        found = list(_SAID.finditer(stdout))
        if not found:
            return None
        line, line_cluster, parsable, parsable_cluster = found[-1].groups()
        return cls(line or parsable, line_cluster or parsable_cluster, user, began, ended)

    def is_attempt(self, submit_time: float) -> bool:
        """Whether a job of this id that Slurm took at `submit_time` is this submission."""
        return self.began - CLOCKS_S <= submit_time <= self.ended + CLOCKS_S

    def fate(self, timeout_s: float) -> Fate:
        """What squeue shows of it now. Raises what ``slurm.run.run`` raises, and DataError."""
        separator = new_separator()
        where = "--local" if self.cluster is None else f"--clusters={self.cluster}"
        form = squeue_format(QUEUE_FIELDS, separator)
        argv = ["squeue", "-h", "-a", where, "--noconvert", "-t", "all", "-j", self.job_id]
        answer = run([*argv, "-O", form], timeout_s=timeout_s)
        if "Invalid job id" in answer.stderr:
            return Fate.GONE
        text = _CLUSTER_LINE.sub("", answer.check().stdout)
        rows = parse_queue(text, separator).rows
        if not rows:
            return Fate.GONE
        if any(row.user != self.user or not self.is_attempt(row.submit_time) for row in rows):
            return Fate.ANOTHER
        if any(row.state is JobState.PENDING for row in rows):
            return Fate.WAITS
        return Fate.ENDED if all(row.state.is_terminal for row in rows) else Fate.RUNS
