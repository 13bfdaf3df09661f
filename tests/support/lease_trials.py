"""Trials of leases on a real Slurm with real trainings, and what is to be said of them."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import Any

from gsched.app.fairness.books import fairness_books
from gsched.engine.faults import LEASE_POINTS
from gsched.engine.lease_rules import HandOver
from gsched.fairness.rule import rule_account
from gsched.model.accounts import SiteQuotas
from gsched.model.job import LeaseState
from gsched.slurm.client import CommandClient
from gsched.testbed.cluster import Testbed
from gsched.testbed.wait import wait_for
from gsched_sql import History
from support.lease_site import LeaseSite, Training, shares

CONF = ("KillWait=20",)
_ONE_AT_A_TIME = threading.Lock()
START_LIMIT_S, END_LIMIT_S, POLL_S = 300.0, 600.0, 1.0
_STATES = ("granted", "ending", "signalled", "saved", "requeued", "regranted")
_RUNS = tuple(state for state in _STATES if state != "requeued")
KILLS = (
    *(f"daemon {point.value}" for point in LEASE_POINTS),
    *(f"batch {state}" for state in _RUNS),
    *(f"step {state}" for state in _RUNS),
    *(f"slurmctld {state}" for state in _STATES),
)
"""Every process of a hand-over in every state; of a job that waits nothing runs."""
_JOB_KILLS = ("batch", "step")


@contextmanager
def lease_site(
    quotas: Mapping[str, float], gpus: int, steps: int, step_s: float, cred_expire_s: int = 5
) -> Iterator[LeaseSite]:
    """A site of one node with so many GPUs; its daemon ends with it."""
    bed = Testbed.temporary(
        num_nodes=1, gpus_per_node=gpus, accounting="slurmdbd", cred_expire_s=cred_expire_s,
        extra_conf=CONF,
    )  # fmt: skip
    with ExitStack() as running:
        with _ONE_AT_A_TIME:  # databases that are made at the same time fail on a busy machine
            running.enter_context(bed)
        site = LeaseSite(bed, quotas, steps, step_s)
        try:
            yield site
        finally:
            site.end()


# -- hand-overs --------------------------------------------------------------------------------


def hand_over(site: LeaseSite, number: int, lease_s: int, grace_s: int = 30) -> None:
    """Let all jobs that run be requeued and start again, so often, and leave them running."""
    site.lease_by("handing-over", lease_s=lease_s, grace_s=grace_s)
    states = site.job_states()
    names = [n for n, t in site.trainings.items() if states[t.jobs[-1]] == "RUNNING"]
    before = {name: len(site.starts(name)) for name in names}
    site.begin(hand_overs=0)

    def is_done() -> bool:
        return all(len(site.starts(name)) >= before[name] + number for name in names)

    wait_for(is_done, f"{number} hand-overs", START_LIMIT_S * number, POLL_S)
    site.end()


def hand_over_rows(site: LeaseSite, training: Training) -> list[dict[str, float]]:
    """Each hand-over of a training whose GPUs nobody else wanted, in seconds."""
    (job,) = training.jobs
    held = sorted((h for h in site.held() if h.job == job), key=lambda h: h.start)
    leases = [life for life in site.leases() if life.job == job and "requeued" in life.states]
    rows = []
    for (before, after), (first, second), lease in zip(
        pairwise(site.starts(training.name)), pairwise(held), leases, strict=False
    ):
        told, saved = lease.at(LeaseState.SIGNALLED), lease.at(LeaseState.SAVED)
        assert told is not None
        assert saved is not None
        usual_s = usual_step_s(before)
        rows.append(
            {
                "told until saved": saved - told,
                "saved until its GPUs are free": max(0.0, first.end - saved),
                "free until Slurm starts it again": second.start - first.end,
                "start until its first step": round(after[0].at - second.start, 1),
                "training stands still": round(after[0].at - before[-1].at - usual_s, 1),
            }
        )
    return rows


def usual_step_s(steps: Sequence[Any]) -> float:
    """Median seconds between steps."""
    gaps = sorted(b.at - a.at for a, b in pairwise(steps)) or [0.0]
    return gaps[len(gaps) // 2]


# -- shares ------------------------------------------------------------------------------------


def greedy_first(site: LeaseSite, counts: Mapping[str, int], gpus: int, asks: bool = True) -> None:
    """The first tenant's jobs take all GPUs and train; then come the others'."""
    first, *others = counts
    site.add(first, counts[first], asks)
    mine = [name for name in site.trainings if name.startswith(f"{first}-")]
    wait_for(
        lambda: sum(len(site.steps(name)) > 3 for name in mine) >= min(gpus, len(mine)),
        f"the trainings of {first}",
        START_LIMIT_S,
        POLL_S,
    )
    for tenant in others:
        site.add(tenant, counts[tenant], asks)


def measured(site: LeaseSite) -> HandOver:
    """What a hand-over costs by the leases so far, as the daemon reckons it."""
    with site.inside(), History.open(f"sqlite:///{site.state}/history.db") as history:
        config = CommandClient().config()
        return HandOver.measured(history.leases().save_times(config.cluster), config.requeue_wait_s)


def over_time(site: LeaseSite, since: float, every_s: float) -> list[dict[str, Any]]:
    """After each lease's length: how much of all GPU-time until then each tenant has received."""
    held, tenants = site.held(), list(site.quotas)
    until, rows = max(h.end for h in held), []
    number = 1
    while since + number * every_s <= until:
        moment = since + number * every_s
        found = shares(held, tenants, since, moment)
        rows.append({"leases": number, **dict(zip(tenants, found, strict=True))})
        number += 1
    return rows


def farthest(site: LeaseSite, row: Mapping[str, Any]) -> float:
    """How far the share that differs most is from its quota's."""
    total = sum(site.quotas.values())
    return max(abs(row[tenant] - gpus / total) for tenant, gpus in site.quotas.items())


# -- kills -------------------------------------------------------------------------------------


def kill_by(site: LeaseSite, plan: Sequence[str], limit_s: float) -> list[dict[str, Any]]:
    """Carry out a plan of kills while leases go round; what is needed to judge each."""
    site.plan.write_text("".join(f"{line}\n" for line in plan))
    deadline = time.monotonic() + limit_s
    while site.plan.read_text():
        assert time.monotonic() < deadline, f"in vain for {site.plan.read_text()}"
        site.tend()
        time.sleep(POLL_S)
    return [json.loads(line) for line in site.plan_done.read_text().splitlines()]


def finish(site: LeaseSite, limit_s: float = END_LIMIT_S) -> None:
    """Let all trainings come to their ends, and their leases."""
    alone = site.undisturbed()
    site.fast()

    def is_over() -> bool:
        site.tend()
        return all(site.has_ended(name) for name in site.trainings)

    wait_for(is_over, "the trainings' ends", limit_s, POLL_S)
    said, _ = alone.communicate(timeout=limit_s)
    assert alone.returncode == 0, said
    wait_for(lambda: not standing(site), "the leases' ends", limit_s, POLL_S)


def standing(site: LeaseSite) -> list[str]:
    """Leases that are not over."""
    return [life.lease_id for life in site.leases() if not life.events[-1][1].is_over]


def wrong_ways(site: LeaseSite) -> list[str]:
    """Leases that were lost on their way, in words: steps that no lease takes, or none at all."""
    found = []
    for life in site.leases():
        states = [state for _, state in life.events]
        if states[0] is not LeaseState.GRANTED:
            found.append(f"{life.lease_id} begins as {states[0].value}")
        found += [
            f"{life.lease_id}: {before.value} to {after.value}"
            for before, after in pairwise(states)
            if not before.may_become(after)
        ]
    return found


def lost_steps(site: LeaseSite, kills: Sequence[Mapping[str, Any]]) -> list[str]:
    """Starts that went on from an earlier step than they had to, in words.

    Who is told saves where it stands; who is killed has what was saved before. A slurmctld that is
    killed within the seconds that it has not saved forgets jobs that have just begun, and slurmd
    kills them then: nobody tells of that, and such a start counts here though it had saved nothing.
    """
    found = []
    for training in site.trainings.values():
        mine = [k for k in kills if k["what"] in _JOB_KILLS and int(k["job"]) in training.jobs]
        reached, ended = 0, 0.0
        for steps in site.starts(training.name):
            first = steps[0]
            killed = [k["saved_step"] for k in mine if ended - 1 < k["at"] < first.at]
            kept = min(killed, default=reached)
            if first.step > reached + 1:
                found.append(f"{training.name}: step {reached + 1} was never done")
            if first.step <= kept:
                found.append(
                    f"{training.name} did step {first.step} again, {kept} was done or saved"
                )
            reached, ended = max(reached, steps[-1].step), steps[-1].at
    return found


def hand_overs_of(site: LeaseSite) -> Counter[str]:
    """By training, how many of its leases ended in a requeue."""
    name_of = {job: t.name for t in site.trainings.values() for job in t.jobs}
    return Counter(name_of[life.job] for life in site.leases() if "requeued" in life.states)


def converge(site: LeaseSite, close: float, lease_s: float, hand_overs: int) -> dict[str, Any]:
    """Go on until all that was received since the first job is shared by the quotas: the shares.

    At least so many hand-overs are waited for.
    """
    since = min(h.start for h in site.held())

    def found() -> dict[str, Any] | None:
        site.tend()
        row = over_time(site, since, lease_s)[-1]
        is_there = hand_overs_of(site).total() >= hand_overs and farthest(site, row) <= close
        return row if is_there else None

    row = wait_for(found, f"shares within {close}", START_LIMIT_S, POLL_S)
    assert row is not None
    return row


def books_agree(site: LeaseSite) -> dict[str, Any]:
    """What the ledger says that each tenant has received, against slurmdbd; GPU-seconds.

    Of all that had ended at the moment of asking: when a job that runs is looked at would matter.
    """
    until = int(time.time())
    with History.open(f"sqlite:///{site.state}/history.db") as history:
        site_quotas = SiteQuotas(site.quotas, sum(site.quotas.values()), "settings")
        books, known = fairness_books(history, site.bed.spec.cluster, 0, until, site_quotas)
    account = rule_account(books, 0.0, float(until))
    told = dict(zip(books.tenants, account.received.tolist(), strict=True))
    held = [each for each in site.held() if each.tenant in site.quotas]
    true = {
        tenant: sum((h.end - h.start) * h.gpus for h in held if h.tenant == tenant)
        for tenant in site.quotas
    }
    return {
        "attempts": len(held),
        "received by slurmdbd GPU-s": {tenant: round(gpu_s) for tenant, gpu_s in true.items()},
        "received by the ledger GPU-s": {t: round(told.get(t, 0.0)) for t in site.quotas},
        "farthest GPU-s": max(round(abs(true[t] - told.get(t, 0.0)), 1) for t in true),
        "attempts whose end is assumed": known.assumed_ends,
        "attempts that are open": known.open_attempts,
    }
