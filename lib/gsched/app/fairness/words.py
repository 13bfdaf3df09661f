"""The report of `gsched fairness` in sentences: what it is of, what is not known, what it means."""

from __future__ import annotations

from collections.abc import Iterator

from gsched.app.fairness.books import Known
from gsched.app.fairness.cells import account, hours
from gsched.app.fairness.quotas import SOURCE_WORDS
from gsched.app.fairness.report import FairnessReport
from gsched.app.fairness.tables import shown_rows
from gsched.explain.words import count, moment, percent, short_time
from gsched.fairness.fading import HALF_LIVES
from gsched.fairness.metric import LOSS_BELOW

_RULE_POLICY = "ltgf"
_TOLD_LATE_S = 300
"""What is told no later than this lacks no more than a round of a daemon brings."""


def report_lines(report: FairnessReport) -> Iterator[str]:
    """What was read, whose quotas these are, what is missing, and what the figures mean."""
    query = report.query
    since, until = moment(query.since), moment(query.until)
    yield f"Cluster {report.cluster} from {since} to {until}."
    yield from _late(report)
    yield from debts(report)
    yield from _loss(report)
    yield from _quotas(report)
    yield from _unknown(report)
    yield from _meaning(report)


def _late(report: FairnessReport) -> Iterator[str]:
    """That the history lacks the newest time."""
    told_until = report.told_until
    if told_until is None or report.asked_until - told_until <= _TOLD_LATE_S:
        return
    yield (
        f"Nothing after {moment(told_until)} is known: nobody has read slurmdbd since then (is the "
        "daemon running, and slurmdbd? `gsched db ingest` reads it now). "
        + (
            "So the time ends there."
            if report.query.until == told_until
            else "What has ended since then counts as if it still ran."
        )
    )


def debts(report: FairnessReport) -> Iterator[str]:
    """Who is owed how much, as reasons of waiting jobs tell it."""
    for one in (report.tenants[row] for row in shown_rows(report)):
        if one.owed >= 0.05:
            yield f"Account {account(one.tenant)} is owed {hours(one.owed)} GPU-h."
        elif one.owed <= -0.05:
            yield (
                f"Account {account(one.tenant)} has had {hours(-one.owed)} GPU-h that were others'."
            )


def _loss(report: FairnessReport) -> Iterator[str]:
    jobs = len(report.job_r)
    if not jobs:
        yield "No job of these accounts was entitled to GPUs in this time."
        return
    share = percent(report.loss_jobs / jobs)
    yield (
        f"{report.loss_jobs:,} of {count(jobs, 'job')} ({share}) that asked for GPUs received less "
        f"than {percent(LOSS_BELOW)} of their share."
    )


def _quotas(report: FairnessReport) -> Iterator[str]:
    known = report.known
    source = SOURCE_WORDS.get(known.quota_source, known.quota_source)
    if known.quotas_since is None:
        yield f"Quotas are those of now, by {source}: the daemon has noted none over time yet."
    else:
        since = moment(known.quotas_since)
        yield f"Quotas are as the daemon noted them since {since}; the newest by {source}."
        if known.quotas_since > report.query.since:
            yield "For the time before, those that were noted first are taken."
    yield from _worths(known)
    if report.policy != _RULE_POLICY:
        yield (
            f"The policy in the settings is {report.policy}, which does not go by these accounts."
        )


def _worths(known: Known) -> Iterator[str]:
    """By what GPUs count; nothing where each is worth 1 throughout."""
    told = sorted(known.gpu_weights.items())
    named = ", ".join(f"{kind or '(no type)'} {value:g}" for kind, value in told)
    worth = f"{named}; others 1" if named else "all 1"
    if known.weights_changed:
        last = moment(known.weights_changed[-1])
        yield (
            f"GPUs count by their worth ([fairness.gpu_weights], since {last}: {worth}); what was "
            "before, by those of then."
        )
    elif told:
        yield f"GPUs count by their worth ([fairness.gpu_weights]: {worth})."


def _unknown(report: FairnessReport) -> Iterator[str]:
    """What the books lack; each only where there is something."""
    known = report.known
    since = moment(report.known_since)
    if known.pruned_before is not None and known.pruned_before > report.known_since:
        yield (
            f"Jobs that ended before {moment(known.pruned_before)} have been pruned: of them "
            "there are the hours that the daemon has closed, by account, and no single jobs."
        )
    told = (
        (known.open_attempts, "attempt", "not ended as far as known, and counted until the end"),
        (known.assumed_ends, "attempt", "of an end that nobody told: the next attempt's begin, or "
         "the time limit, stands for it"),
        (known.unknown_gpus, "attempt", "of an unknown number of GPUs, left out"),
        (known.odd_times, "attempt", "that ended before it began, left out"),
    )  # fmt: skip
    counted = [f"{count(number, what)} {words}" for number, what, words in told if number]
    if counted:
        yield f"Among what was read, from {since} on: {'; '.join(counted)}."


def _meaning(report: FairnessReport) -> Iterator[str]:
    half_life = short_time(report.half_life_s)
    yield (
        "R: GPU-time received for each that the account, or job, was entitled to: what it asked "
        "for, at most its quota; a job's is its part of the quota among the account's jobs that "
        f"wait or run. Below {LOSS_BELOW:g} counts as a loss, and as UNFAIR where it is a whole "
        "step of the time. This is the metric: it judges, and decides nothing."
    )
    yield (
        "OWED: the quota's part of all GPU-time received by anybody, less what the account "
        f"received, where half counts after {half_life} (half_life_s of the policy), read for "
        f"{HALF_LIVES} times as long. This is the rule: who is owed most comes first. DUE is "
        "the quota over the time, BORROWED what was received beyond the quota, LENT what of the "
        "quota the account did not hold."
    )
