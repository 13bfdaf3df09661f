"""Samples, leases and the ledger of tenants: exact, and the same however often they come."""

from __future__ import annotations

import math
import os
import random
import struct
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.history import CLUSTER, scalar, select, url_of
from support.whole_history import GPU

from gsched.errors import DataError, LostLeadershipError, UsageError
from gsched.model.accounts import FairnessEntry, LeaseGrant, LeaseRevoke
from gsched.model.job import JobKey, Lease, LeaseState
from gsched.model.samples import Appended, Sample, Series
from gsched_sql import History
from gsched_sql import samples as module
from gsched_sql.samples import unpacked


def single(value):
    """As float32 keeps it."""
    return struct.unpack("f", struct.pack("f", value))[0]


@pytest.fixture
def history(database_url):
    with History.open(database_url) as opened:
        yield opened


def test_samples_come_back_as_they_were_taken(history):
    told = [(10_000 + 10 * n, n / 3) for n in range(2500)]
    assert history.samples().append(GPU, 10, told) == Appended(2500, 0)
    found = history.samples().read(GPU, 0, 10**6)
    assert found == [Sample(when, 10, single(value)) for when, value in told]
    assert history.samples().read(GPU, 10_020, 10_040) == [
        Sample(10_020, 10, single(2 / 3)),
        Sample(10_030, 10, 1.0),
    ]
    assert history.samples().series(CLUSTER) == [GPU]
    assert history.stats().rows["sample_blocks"] == 3


def test_a_sample_stands_for_the_interval_in_which_it_was_taken(history):
    history.samples().append(GPU, 10, [(1009.9, 1.0), (1010.0, 2.0), (1011, math.nan)])
    assert [(s.time, s.value) for s in history.samples().read(GPU, 0, 2000)] == [
        (1000, 1.0),
        (1010, 2.0),
    ]


def test_of_two_values_of_one_sample_the_greater_stays(history):
    history.samples().append(GPU, 10, [(1000, 1.0), (1001, 3.0), (1002, 2.0), (1010, -5.0)])
    history.samples().append(GPU, 10, [(1003, 2.5), (1010, -4.0)])
    assert [s.value for s in history.samples().read(GPU, 0, 2000)] == [3.0, -4.0]


def test_intervals_below_a_second_are_exact(history):
    told = [(1000 + n / 1000, float(n)) for n in range(1500)]
    history.samples().append(GPU, 0.001, told)
    assert [s.value for s in history.samples().read(GPU, 0, 2000)] == [v for _, v in told]
    assert [s.time for s in history.samples().read(GPU, 0, 2000)][1] == 1000.001


def test_series_are_apart(history):
    other = Series("beta", GPU.subject, GPU.metric, GPU.source)
    history.samples().append(GPU, 10, [(0, 1.0)])
    history.samples().append(other, 10, [(0, 2.0)])
    assert [s.value for s in history.samples().read(GPU, 0, 1)] == [1.0]
    assert history.samples().read(Series("gamma", "x", "y", "z"), 0, 1) == []


@pytest.mark.parametrize(("interval", "when"), [(0, 0), (0.0001, 0), (10, -1), (10, math.inf)])
def test_what_is_no_sample_is_refused(history, interval, when):
    with pytest.raises(UsageError):
        history.samples().append(GPU, interval, [(when, 1.0)])


SAMPLES = st.lists(
    st.tuples(
        st.integers(0, 60) | st.integers(0, 30_000), st.floats(width=32, allow_infinity=False)
    ),
    max_size=40,
)


@given(told=SAMPLES, seed=st.integers(0, 2**32))
@settings(max_examples=15)
def test_any_order_and_any_repetition_give_the_same_rows(
    told, seed, tmp_path_factory, sqlite_template
):
    rows = []
    for is_shuffled in (False, True):
        path = tmp_path_factory.mktemp("s") / "h.db"
        path.write_bytes(sqlite_template.read_bytes())
        pieces = [told]
        if is_shuffled:
            rng = random.Random(seed)
            again = rng.sample(told, len(told)) + rng.sample(told, len(told) // 2)
            pieces = [again[n : n + 7] for n in range(0, len(again), 7)]
        with History.open(url_of(path)) as history:
            for piece in pieces:
                history.samples().append(GPU, 10, piece)
        rows.append(select(path, "SELECT interval_ms, start_time, num_samples, samples"
                                 " FROM sample_blocks ORDER BY start_time"))  # fmt: skip
    assert rows[0] == rows[1]


def test_thinning_keeps_means_and_closes_the_time(history):
    told = [(when, float(when)) for when in range(0, 20_000, 10)]
    samples = history.samples()
    samples.append(GPU, 10, told)
    assert samples.thin(CLUSTER, 7250, 3600) == 0  # one block: the rest of it stays
    found = samples.read(GPU, 0, 20_000)
    assert found[:2] == [Sample(0, 3600, 1795.0), Sample(3600, 3600, 5395.0)]
    assert found[2:] == [Sample(w, 10, single(w)) for w in range(7200, 20_000, 10)]
    assert samples.append(GPU, 10, told) == Appended(1280, 720)
    assert samples.read(GPU, 0, 20_000) == found
    assert samples.thin(CLUSTER, 7250, 3600) == 0
    assert samples.read(GPU, 0, 20_000) == found
    assert samples.thin(CLUSTER, 20_000, 3600) == 1
    assert samples.append(GPU, 10, [(18_000, 1.0), (17_999, 1.0)]) == Appended(1, 1)


def test_thinning_in_steps_is_thinning_at_once(history, monkeypatch):
    told = [(when, float(when % 977)) for when in range(0, 100_000, 10) if when % 70]
    other = Series(CLUSTER, "n2", GPU.metric, GPU.source)
    samples = history.samples()
    samples.append(GPU, 10, told)
    samples.append(other, 10, told)
    for before in range(5000, 95_000, 9000):
        samples.thin(CLUSTER, before, 60)
    monkeypatch.setattr("gsched_sql.samples._BLOCKS_AT_ONCE", 2)
    samples.thin(CLUSTER, 95_000, 60)
    assert samples.read(GPU, 0, 10**6) == samples.read(other, 0, 10**6)
    minute = [value for when, value in told if 600 <= when < 660]
    (found,) = samples.read(GPU, 600, 601)
    assert found == Sample(600, 60, single(sum(minute) / len(minute)))


def test_thinning_takes_few_blocks_in_one_transaction(history, database_url, monkeypatch):
    history.samples().append(GPU, 10, [(when, 1.0) for when in range(0, 100_000, 10)])
    monkeypatch.setattr("gsched_sql.samples._BLOCKS_AT_ONCE", 2)
    cuts = []
    thin = module._thin

    def spy(conn, series_id, until, interval_ms):
        of_shorter = f"interval_ms < {interval_ms} AND start_time < {until}"
        query = f"SELECT count(*) FROM sample_blocks WHERE {of_shorter}"
        cuts.append(conn.exec_driver_sql(query).scalar())
        return thin(conn, series_id, until, interval_ms)

    monkeypatch.setattr(module, "_thin", spy)
    assert history.samples().thin(CLUSTER, 99_960, 60) == 9  # through the last one goes the cut
    assert len(cuts) >= 5
    assert max(cuts) <= 3  # the block that a cut goes through comes twice


def _url(history):
    return history._engine.url.render_as_string(hide_password=False)


def test_damaged_blocks_are_told():
    for stored in (b"", b"x", b"\x78\x9c\x03\x00\x00\x00\x00\x01"):
        with pytest.raises(DataError, match="damaged"):
            unpacked(stored)


KEY = JobKey(CLUSTER, 7, array_task=3, epoch=1000)
GRANT = LeaseGrant(Lease("l1", LeaseState.GRANTED, 2000, 3600), KEY, 1500, 8, since=2000)


REVOKE = LeaseRevoke("r1", 60, 9000, "12_3")


def test_leases_of_a_job(history):
    leases = history.leases()
    leases.grant(GRANT, 2000)
    assert leases.of_job(KEY) == [GRANT]
    assert leases.of_job(JobKey(CLUSTER, 7, epoch=1000)) == []
    assert leases.of_job(replace(KEY, epoch=KEY.epoch + 1)) == []  # its number was given again
    leases.revoke("l1", REVOKE, 5600)
    leases.move("l1", LeaseState.SIGNALLED, 5601, "grâce ☃")
    leases.move("l1", LeaseState.SAVED, 5661)
    saved = replace(GRANT.lease, state=LeaseState.SAVED)
    now = replace(GRANT, lease=saved, since=5661, revoke=REVOKE)
    assert leases.of_job(KEY) == leases.standing(CLUSTER) == [now]
    assert leases.save_times(CLUSTER) == [60]
    assert [(e.at, e.detail) for e in leases.events("l1")][2] == (5601, "grâce ☃")
    leases.move("l1", LeaseState.ENDED, 5700)
    assert leases.standing(CLUSTER) == []


def test_who_has_lost_the_lead_writes_no_leases(history):
    leadership = history.leadership(CLUSTER)
    first = leadership.take("h1", "m1", os.getpid(), 60, 1000)
    mine = history.leases(first)
    revoked = replace(GRANT, lease=Lease("l0", LeaseState.GRANTED, 2000, 3600))
    for grant in (GRANT, revoked):
        mine.grant(grant, 2000)
    mine.revoke("l0", REVOKE, 2001)
    standing = mine.standing(CLUSTER)
    leadership.release(first, 2001)
    leadership.take("h2", "m1", os.getpid(), 60, 2002)
    other = replace(GRANT, lease=Lease("l2", LeaseState.GRANTED, 2000, 3600))
    for write in (
        lambda: mine.grant(other, 2003),
        lambda: mine.grant(GRANT, 2003),  # what is told again must fail as well
        lambda: mine.revoke("l1", REVOKE, 2003),
        lambda: mine.revoke("l0", REVOKE, 2003),
        lambda: mine.move("l1", LeaseState.ENDED, 2003),
        lambda: mine.move("l1", LeaseState.GRANTED, 2003),
        lambda: mine.renew("l1", other, 2003),
    ):
        with pytest.raises(LostLeadershipError):
            write()
    assert history.leases().standing(CLUSTER) == standing


def entry(begin, tenant="lab1", received=1.5):
    return FairnessEntry(CLUSTER, tenant, begin, 60, received, 2.0, 1e300, 0.1)


def test_the_ledger_is_the_same_after_a_replay(history):
    fairness = history.fairness()
    first = [entry(0), entry(0, "lab2"), entry(60)]
    fairness.keep(first)
    fairness.keep(first)
    fairness.keep([entry(60, received=7.0), entry(120)])
    assert fairness.read(CLUSTER, 0, 120) == [entry(0), entry(0, "lab2"), entry(60, received=7.0)]
    assert fairness.read("beta", 0, 120) == []
    fairness.keep([])


def test_of_two_entries_at_once_the_later_counts(history):
    history.fairness().keep([entry(0, received=1.0), entry(0, received=2.0)])
    assert history.fairness().read(CLUSTER, 0, 1) == [entry(0, received=2.0)]
    assert scalar(_url(history), "SELECT count(*) FROM fairness_entries") == 1
