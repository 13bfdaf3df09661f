"""Predictions in a simulation know nothing that had not happened."""

from __future__ import annotations

import re

import numpy as np
import pytest
from support.sim_traces import chosen, gathered, ran

from gsched.app.sim.cluster import ClusterOrder, fit
from gsched.app.sim.estimates import MODEL, ROLLING
from gsched.app.sim.past_jobs import taught
from gsched.app.sim.predictions import predicted, read_predictions
from gsched.config.settings import Settings
from gsched.errors import DataError, UnavailableError
from gsched.model.progress import silent
from gsched.sim.rules import SimRules


def world(records):
    return fit(chosen(records), ClusterOrder(nodes="1x8"), Settings())


def values(records, earlier=(), estimator=ROLLING):
    teaching = taught(gathered(list(earlier)))
    predict = Settings().predict
    found, words = predicted(world(records), teaching, SimRules(), predict, estimator, silent)
    return found.tolist(), words


def test_a_job_learns_from_jobs_that_had_ended_before_it_was_submitted():
    jobs = [ran(1, 1000, 0, 100, 1), ran(2, 1100, 0, 9, 1), ran(3, 1101, 0, 9, 1)]
    found, words = values(jobs)
    assert np.isnan(found[:2]).all()  # the first ended at 1100: not before 1100
    assert found[2] == 100
    assert "as recorded" in words
    assert "nothing 2, similar-name 1" in words
    assert "2 have none and are ordered as if they had the median key of the others" in words


def test_the_future_does_not_matter():
    past = [ran(n, 1000 + 50 * n, 5, 30 + n, n % 3 + 1, name=f"n{n % 2}") for n in range(20)]
    until = 1000 + 50 * 12
    other = [
        ran(n, 1000 + 50 * n, 5, 30 + n if 1005 + 50 * n + 30 + n < until else 4000, n % 3 + 1,
            name=f"n{n % 2}")
        for n in range(20)
    ]  # fmt: skip
    assert other != past
    one, changed = values(past)[0][:13], values(other)[0][:13]
    assert np.array_equal(one, changed, equal_nan=True)
    assert not np.isnan(one[5:]).any()


def test_jobs_before_the_window_teach():
    found, words = values([ran(9, 5000, 0, 9, 1)], [ran(1, 1000, 0, 70, 1), ran(2, 1000, 0, 9, 0)])
    assert found == [70]
    assert "1 job that ended before the window" in words


def test_where_no_start_is_told_jobs_end_when_fifo_ends_them():
    """The first fills the node for 100 s: the second runs from 1100 to 1150, not 1001 to 1051."""
    jobs = [
        ran(1, 1000, 0, 100, 8, start_assumed=1, name="a"),
        ran(2, 1001, 0, 50, 8, start_assumed=1, name="b"),
        ran(3, 1140, 0, 5, 8, start_assumed=1, name="b"),
        ran(4, 1151, 0, 5, 8, start_assumed=1, name="b"),
    ]
    found, words = values(jobs)
    assert found[2] == 100  # knows the first alone
    assert found[3] == 50
    assert "under FIFO" in words


def test_on_a_busier_cluster_a_job_is_learnt_when_it_has_ended_there():
    """Recorded on two nodes at once; on one, the second runs from 1100 to 1150 under FIFO."""
    jobs = [
        ran(1, 1000, 0, 100, 8, name="a"),
        ran(2, 1001, 0, 50, 8, name="b"),
        ran(3, 1060, 90, 5, 8, name="b"),
        ran(4, 1140, 20, 5, 8, name="b"),
        ran(5, 1151, 20, 5, 8, name="b"),
    ]
    found, words = values(jobs)
    assert np.isnan(found[2])  # the record has the second's end at 1051, but here nothing has ended
    assert found[3] == 100  # knows the first alone
    assert found[4] == 50
    assert "the later of both: FIFO's for 1 of 5 jobs" in words


def test_on_a_freer_cluster_the_recorded_ends_hold():
    jobs = [ran(1, 1000, 500, 100, 1), ran(2, 1200, 0, 9, 1), ran(3, 1601, 0, 9, 1)]
    found, words = values(jobs)
    assert np.isnan(found[1])  # under FIFO the first ended at 1100, as recorded at 1600
    assert not np.isnan(found[2])
    assert "FIFO's for 0 of 3 jobs" in words


def test_without_users_and_names_accounts_and_sizes_stand_for_them():
    nobody = {"user": None, "name": None}
    jobs = [
        ran(1, 1000, 0, 10, 1, tenant="vc1", **nobody),
        ran(2, 1000, 0, 500, 4, tenant="vc1", **nobody),
        ran(3, 1000, 0, 70, 1, tenant="vc2", **nobody),
        ran(4, 9000, 0, 9, 4, tenant="vc1", **nobody),
        ran(5, 9000, 0, 9, 1, tenant="vc2", **nobody),
    ]
    found, words = values(jobs)
    assert found[3:] == [500, 70]
    assert "no users" in words
    assert "no names" in words


def test_the_whole_model_is_fitted_on_the_way():
    """Four weeks of two kinds of jobs of one user, told apart by their names."""
    jobs = [
        ran(n, 20_000 * n, 5, (100, 3000)[n % 2], 1, name=("short", "long")[n % 2])
        for n in range(1, 120)
    ]
    found, words = values(jobs, estimator=MODEL)
    assert found[-30::2] == pytest.approx([100] * 15, rel=0.2)
    assert found[-29::2] == pytest.approx([3000] * 15, rel=0.2)
    assert re.search(r"duration model, fitted anew every 7 days \([4-9] fits\)", words)
    assert "have none" not in words  # before the first fit it has had a default


def test_the_model_does_not_know_the_future_either():
    jobs = [ran(n, 10_000 * n, 5, 100 + n % 7, 1, name=f"n{n % 3}") for n in range(1, 120)]
    until = 10_000 * 80
    other = [
        ran(n, 10_000 * n, 5, 100 + n % 7 if 10_000 * n + 200 < until else 3000, 1,
            name=f"n{n % 3}")
        for n in range(1, 120)
    ]  # fmt: skip
    one, changed = (values(past, estimator=MODEL)[0] for past in (jobs, other))
    assert one[:79] == changed[:79]
    assert one[81:] != changed[81:]


def test_predictions_from_a_file(tmp_path):
    path = tmp_path / "p.csv"
    path.write_text("predicted_duration_s,job,more\n5,1,x\n7.5,3,y\n1,99,z\n")
    there = world([ran(n, 1000, 0, 9, 1) for n in (1, 2, 3)])
    found, words = read_predictions(path, there)
    assert np.array_equal(found, [5, np.nan, 7.5], equal_nan=True)
    assert "1 of 3 jobs have none and are ordered as if they had the median key" in words


@pytest.mark.parametrize(("row", "named"), [("job-1,5\n", "'job-1'"), ("", "no job")])
def test_a_file_that_predicts_none_of_the_jobs_is_no_file_of_theirs(tmp_path, row, named):
    path = tmp_path / "p.csv"
    path.write_text(f"job,predicted_duration_s\n{row}")
    with pytest.raises(DataError, match="none of the 2 jobs") as error:
        read_predictions(path, world([ran(n, 1000, 0, 9, 1) for n in (1, 2)]))
    assert named in error.value.hint
    assert "'1'" in error.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [("job\n1\n", "no column predicted_duration_s"),
     ("job,predicted_duration_s\n1,5\n2,-1\n", "line 3"),
     ("job,predicted_duration_s\n1,nan\n", "line 2"),
     ("job,predicted_duration_s\n1\n", "line 2")],
)  # fmt: skip
def test_what_is_no_file_of_predictions(tmp_path, text, message):
    path = tmp_path / "p.csv"
    path.write_text(text)
    with pytest.raises(DataError) as error:
        read_predictions(path, world([ran(1, 1000, 0, 9, 1)]))
    assert message in error.value.message


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(UnavailableError):
        read_predictions(tmp_path / "none", world([ran(1, 1000, 0, 9, 1)]))
