"""Taking back: what is set back to what it was, what is left alone, and what the journal keeps."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from support.queue import row as queue_row
from support.slurm_bench import Bench

from gsched.daemon.clear import POLICY, ClearResult, clear
from gsched.daemon.job_book import CHANNEL
from gsched.engine.memory_journal import MemoryJournal
from gsched.model.decision import Reason
from gsched.model.job import JobKey
from gsched.model.journal import Change, ChangeState, RoundInfo

CONFIRMED, SENT = ChangeState.CONFIRMED, ChangeState.SENT


class Site:
    """A Slurm of a few jobs, and the journal of a daemon that has run one round on it."""

    def __init__(self, *ids: int) -> None:
        self.bench = Bench(*ids)
        self.slurm = self.bench.client
        self.journal = MemoryJournal()
        self.journal.begin_round(RoundInfo("r1", "c", 1000, "qssf", True, 1, ""))
        self._numbers = itertools.count(2)

    def wrote(
        self, job_id: int, after: int, before: int = 0, state: ChangeState = CONFIRMED
    ) -> str:
        """The daemon's write of a value, which Slurm shows."""
        attempt = self.slurm.rows[job_id].submit_time
        key, change_id = self.bench.key(job_id), f"w{job_id}"
        change = Change(change_id, key, attempt, CHANNEL, before, after, Reason("x"))
        self.journal.record("r1", [change], ChangeState.INTENT, 1000)
        if state is not ChangeState.INTENT:
            self.journal.settle([(change_id, state, "")], 1000)
        self.slurm.factors[job_id] = after
        return change_id

    def clear(self, *, everything: bool = False) -> ClearResult:
        return clear(
            self.bench.backend,
            self.journal,
            lambda: self.bench.now,
            lambda: f"r{next(self._numbers)}",
            everything,
        )


def ids(keys: tuple[JobKey, ...]) -> list[int]:
    return [key.job_id for key in keys]


def test_every_value_becomes_what_it_was_and_what_is_so_already_is_not_written() -> None:
    site = Site(1, 2, 3, 4)
    site.wrote(1, 500)
    site.wrote(2, 500, before=40)
    site.wrote(3, 500)
    site.slurm.factors[3] = 0  # what was found stands again
    done = site.clear()
    assert (ids(done.cleared), done.unread, done.failed, done.foreign) == ([1, 2], (), (), ())
    assert site.slurm.writes == [(1, 0), (2, 40)]
    (standing,) = site.journal.standing("c").values()
    assert standing.key.job_id == 3  # nothing was written, so that nothing was confirmed
    assert site.clear().cleared == ()  # again changes nothing


def test_values_that_the_journal_does_not_know_are_left_alone() -> None:
    site = Site(1, 2, 3)
    site.wrote(1, 500)
    site.slurm.factors[1] = 33  # set by hand after gsched
    site.slurm.factors[2] = 70  # gsched never wrote it
    done = site.clear()
    assert done.foreign == ((site.bench.key(1), 33), (site.bench.key(2), 70))
    assert done.cleared == ()
    assert site.slurm.writes == []


def test_what_may_have_been_sent_is_the_journals_own() -> None:
    site = Site(1)
    site.wrote(1, 500, state=SENT)
    assert (ids(site.clear().cleared), site.slurm.factors[1]) == ([1], 0)


@pytest.mark.parametrize("state", [ChangeState.INTENT, SENT])
def test_an_interrupted_round_is_settled_by_what_stood_before(state: ChangeState) -> None:
    """Settled after the write, a value that was taken would be told VOID."""
    site = Site(1)
    change_id = site.wrote(1, 500, state=state)
    site.clear()
    entry = site.journal.entries[change_id]
    assert (entry.state, entry.detail) == (CONFIRMED, "(looked up later)")
    assert site.journal.unsettled("c") == []
    assert site.journal.standing("c") == {}


def test_it_is_a_round_of_its_own_in_the_journal() -> None:
    site = Site(1, 2)
    site.wrote(1, 500)
    site.bench.now = 12_345
    site.clear()
    assert site.journal.rounds["r2"] == RoundInfo("r2", "c", 12_345, POLICY, True, 0, "")
    assert site.journal.summaries["r2"] == (12_345, {"changes": 1, "confirmed": 1})
    (entry,) = [e for e in site.journal.entries.values() if e.round_id == "r2"]
    assert (entry.change.reason, entry.change.takes_back) == (Reason("clear"), True)
    site.clear()
    assert site.journal.summaries["r3"] == (12_345, {"changes": 0})


def test_what_cannot_be_read_again_and_what_is_refused_is_told() -> None:
    site = Site(1, 2, 3)
    for job_id in (1, 2, 3):
        site.wrote(job_id, 500)
    site.slurm.hidden = {1}  # held: sprio does not list it
    site.slurm.manual = {2}  # what sprio shows then is not its SiteFactor
    site.slurm.factors[2] = 33
    site.slurm.refusals = {3: "denied"}
    done = site.clear()
    assert (ids(done.unread), done.failed) == ([1, 2], ((site.bench.key(3), "denied"),))
    assert site.slurm.writes == [(1, 0), (2, 0)]


def test_everything_takes_each_value_once() -> None:
    """With a lost journal: what it knows goes back to what it was, all the rest becomes 0."""
    site = Site(1, 2, 3, 4)
    site.wrote(1, 500, before=40)
    site.wrote(2, 500)
    site.slurm.factors |= {2: 33, 3: 70}
    done = site.clear(everything=True)
    assert site.slurm.writes == [(1, 40), (2, 0), (3, 0)]
    assert (ids(done.cleared), done.foreign) == ([1, 2, 3], ())
    assert len({c.change_id for c in _changes(site)}) == len(_changes(site)) == 5


def test_everything_reaches_array_tasks_that_squeue_shows_as_one_row() -> None:
    site = Site(1)
    array = replace(site.slurm.rows[1], is_unsplit_array=True, array_tasks="1-5")
    site.slurm.rows[1] = array
    site.slurm.tasks[9] = queue_row(9, job_id=1, array_task=4)
    site.slurm.texts[9] = site.slurm.texts[1]
    site.slurm.factors |= {1: 70, 9: 80}
    site.clear(everything=True)
    assert site.slurm.writes == [(1, 0), (9, 0)]
    assert {(c.key.array_task, c.attempt) for c in _changes(site)} == {(None, 0), (4, 1000)}


def _changes(site: Site) -> list[Change]:
    return [entry.change for entry in site.journal.entries.values()]
