"""A Slurm of a few jobs whose truth is known, for tests of what a journal knows of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gsched.model.job import JobKey
from gsched.model.journal import Outcome, Readback
from support.journal import CLUSTER

JOBS = (1, 2, 3)


class Killed(BaseException):
    """The end of the process, in the midst of a round."""


@dataclass(frozen=True)
class Job:
    """A job of the small Slurm; `attempt` moves at a requeue, a new `epoch` is another job."""

    epoch: int
    attempt: int
    value: int = 0
    waits: bool = True
    readable: bool = True  # sprio lists no held job

    @property
    def is_gscheds(self):
        """Whether gsched wrote the value."""
        return self.value != 0 and self.value % 10 == 0


class Slurm:
    """Implements what a round's settling needs of ``gsched.engine.ports.Backend``."""

    cluster = CLUSTER

    def __init__(self):
        self.jobs = {number: Job(1000, 1000) for number in JOBS}
        self.steps = None  # calls until the process dies; None: it lives

    def step(self):
        """One more place at which the process may die."""
        if self.steps is not None:
            self.steps -= 1
            if self.steps < 0:
                raise Killed

    def key(self, number):
        return JobKey(CLUSTER, number, epoch=self.jobs[number].epoch)

    def is_there(self, sent):
        job = self.jobs[sent.key.job_id]
        return job.waits and (sent.key.epoch, sent.attempt) == (job.epoch, job.attempt)

    def send(self, sent):
        """One scontrol: a job that waits no more refuses it."""
        if not self.jobs[sent.key.job_id].waits:
            return Outcome(sent.change_id, False, "the job is gone")
        number = sent.key.job_id
        self.jobs[number] = replace(self.jobs[number], value=sent.after)
        return Outcome(sent.change_id, True)

    def apply(self, changes):
        outcomes = []
        for sent in changes:
            self.step()
            outcomes.append(self.send(sent))
        self.step()
        return outcomes

    def looked_up(self, changes):
        found = []
        for sent in changes:
            job = self.jobs[sent.key.job_id]
            present = self.is_there(sent)
            value = job.value if present and job.readable else None
            found.append(Readback(sent.change_id, value, present))
        return found

    def read_back(self, changes):
        self.step()
        return self.looked_up(changes)
