"""How long a history is against the time limits of its jobs."""

from __future__ import annotations

from support.jobs import T0, past_job

from gsched.predict.censoring import span_of


def jobs(*limits_s):
    return [
        past_job(k, 50, end=T0 + 100 * k + 50, submit=T0 + 100 * k, time_limit_s=limit_s)
        for k, limit_s in enumerate(limits_s)
    ]


def test_from_the_first_submission_to_the_last_end():
    span = span_of(list(reversed(jobs(60, 700, None))))
    assert (span.begin, span.length_s, span.long_limit_s) == (T0, 250, 700)
    assert span.is_short
    assert not span_of(jobs(60, 250, None)).is_short


def test_one_odd_limit_among_hundreds_does_not_count():
    assert span_of(jobs(*[60] * 299, 10**9)).long_limit_s == 60
    assert span_of(jobs(*[60] * 50, 10**9)).long_limit_s == 10**9


def test_without_limits_nothing_can_be_said():
    span = span_of(jobs(None, None))
    assert span.long_limit_s is None
    assert not span.is_short
