"""Rounds killed anywhere, others' updates, requeues, ids used again: the journal knows what stands.

A small Slurm whose truth is known runs beside the journal. gsched writes multiples of 10, all other
hands odd numbers, so that every value tells whose it is. Each step goes through the journal in
SQL and the one in memory, which must agree.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support.history import CLUSTER, select, url_of
from support.journal import CHANNEL, change, round_info
from support.small_slurm import JOBS, Job, Killed, Slurm

from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.settling import carry_out, settle_interrupted
from gsched.model.journal import ChangeState
from gsched.model.phases import NO_RULES
from gsched_sql import History, maintenance


class Dying:
    """A journal in whose calls the process may die: before one, or when it is on disk."""

    def __init__(self, slurm, journals):
        self._slurm = slurm
        self._journals = journals

    def __getattr__(self, name):
        def call(*args):
            self._slurm.step()
            answers = [getattr(journal, name)(*args) for journal in self._journals]
            self._slurm.step()
            assert all(answer == answers[0] for answer in answers), name
            return answers[0]

        return call


class World:
    """gsched's rounds on the small Slurm, and what must hold after each recovery."""

    def __init__(self, url):
        self.history = History.open(url)
        self.url = url
        self.memory = MemoryJournal()
        self.slurm = Slurm()
        self.clock = 2000
        self.audit = []
        self.unsent = []

    def journal(self):
        """The journals as a new process finds them."""
        return Dying(self.slurm, [self.history.journal(), self.memory])

    def plan(self, journal, name, wanted, takes_back):
        """What a round or `clear` would write: a value of another hand is left alone."""
        standing = journal.standing(CLUSTER)
        changes = []
        for number, job in self.slurm.jobs.items():
            if not job.waits:
                continue
            key = self.slurm.key(number)
            ours = standing.get((key, CHANNEL))
            shown = job.value if job.readable else None
            known = {0} if ours is None else {ours.found, ours.written, *ours.may_be}
            if shown is not None and shown not in known:
                continue
            after = ours.found if takes_back and ours else wanted.get(number)
            if after is None or after == shown or (takes_back and ours is None):
                continue
            facts = {"key": key, "attempt": job.attempt, "takes_back": takes_back}
            changes.append(change(f"{name}/{number}", shown, after, **facts))
        return changes

    def round(self, wanted, dies_after, takes_back=False):
        """A round in a process that dies after so many calls; None: it comes to its end."""
        self.clock += 30
        name = f"r{self.clock}"
        self.slurm.steps = dies_after
        try:
            journal = self.journal()
            settle_interrupted(self.slurm, journal, lambda: self.clock)
            changes = self.unsent = self.plan(journal, name, wanted, takes_back)
            journal.begin_round(round_info(name))
            carry_out(self.slurm, journal, name, changes, lambda: self.clock)
            journal.end_round(name, self.clock, {}, {})
        except Killed:
            pass
        else:
            self.unsent = []
        self.slurm.steps = None

    def recover(self):
        """A new process looks at what the dead one has left, then everything must be right."""
        self.clock += 1
        journal = self.journal()
        settle_interrupted(self.slurm, journal, lambda: self.clock)
        entries = journal.unsettled(CLUSTER)
        for entry in entries:  # only what could not be read stays open
            assert self.slurm.is_there(entry.change)
            assert not self.slurm.jobs[entry.change.key.job_id].readable
        self.check(journal.standing(CLUSTER))

    def check(self, standing):
        intended = {}
        for entry in self.memory.entries.values():
            intended.setdefault(entry.change.key, set()).add(entry.change.after)
        for (key, _), ours in standing.items():
            assert ours.found == 0 or ours.found % 2, "found is never a value of gsched's"
            assert {ours.written, *ours.may_be} <= intended[key] | {ours.found}
        for number, job in self.slurm.jobs.items():
            ours = standing.get((self.slurm.key(number), CHANNEL))
            if job.is_gscheds:
                assert ours is not None, "a value of gsched's that nobody remembers"
                assert job.value in {ours.written, *ours.may_be}
        audit = select(self.url, "SELECT * FROM audit_events ORDER BY id")
        assert audit[: len(self.audit)] == self.audit, "the audit is append-only"
        self.audit = audit

    # -- what others do -----------------------------------------------------------------------

    def other(self, number, value):
        job = self.slurm.jobs[number]
        self.slurm.jobs[number] = replace(job, value=value if job.waits else job.value)

    def requeue(self, number):
        """Slurm keeps a job's SiteFactor when it queues it again."""
        self.clock += 200
        job = self.slurm.jobs[number]
        self.slurm.jobs[number] = replace(job, attempt=self.clock, waits=True)

    def start(self, number):
        self.slurm.jobs[number] = replace(self.slurm.jobs[number], waits=False)

    def reuse(self, number):
        """The id wraps around: another job has it."""
        self.clock += 200
        self.slurm.jobs[number] = Job(self.clock, self.clock)

    def hold(self, number):
        job = self.slurm.jobs[number]
        self.slurm.jobs[number] = replace(job, readable=not job.readable)

    def late(self):
        """A process that stood still sends what its round had meant to, after the recovery."""
        for sent in self.unsent:
            known = self.memory.entries.get(sent.change_id)
            is_same_job = self.slurm.jobs[sent.key.job_id].epoch == sent.key.epoch
            if is_same_job and known and known.state in (ChangeState.INTENT, ChangeState.VOID):
                self.slurm.send(sent)
        self.unsent = []


def any_step(rng, world):
    """A round that may die anywhere, or what the others of a cluster do."""
    name = rng.choices(
        ["round", "late", "other", "requeue", "start", "reuse", "hold"], [60, 10, 8, 8, 4, 4, 6]
    )[0]
    number = rng.choice(JOBS)
    if name == "round":
        wanted = {n: rng.choice([-20, -10, 10, 20, 30]) for n in JOBS if rng.random() < 0.8}
        dies_after = rng.randrange(22) if rng.random() < 0.7 else None
        world.round(wanted, dies_after, takes_back=rng.random() < 0.15)
        world.recover()
    elif name == "late":
        world.late()
    elif name == "other":
        world.other(number, 2 * rng.randrange(20) + 1)
    else:
        getattr(world, name)(number)


@pytest.mark.parametrize("number", range(4))
def test_whatever_happens_the_journal_knows_what_stands(number, database):
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # shown when the test fails
    rng = random.Random(seed)
    world = World(url_of(database))
    with world.history:
        for number_of_step in range(600):
            ends = {entry.state for entry in world.memory.entries.values()}
            has_happened = ends >= {ChangeState.CONFIRMED, ChangeState.VOID}
            if number_of_step >= 60 and has_happened:
                break
            any_step(rng, world)
        assert has_happened, "nothing much has happened"
        for number, job in world.slurm.jobs.items():
            world.slurm.jobs[number] = replace(job, readable=True)
        world.round({}, None, takes_back=True)
        world.recover()
        left = [job for job in world.slurm.jobs.values() if job.waits and job.is_gscheds]
        assert left == [], "what gsched wrote has been taken back"
        found = maintenance.check(world.url, NO_RULES, 1_800_000_000).findings
    assert {finding.kind for finding in found} <= {"unknown-job"}
