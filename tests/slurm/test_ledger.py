"""A daemon that was away: what ran meanwhile is in the ledger, and in what the policy remembers."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from collections.abc import Iterator

import pytest
from support.site import Site, fresh_site

from gsched.app.fairness.books import fairness_books
from gsched.fairness.rule import faded_received, rule_account
from gsched.model.accounts import SiteQuotas
from gsched.testbed.wait import wait_for
from gsched_sql import History

pytestmark = pytest.mark.slurm

CLUSTER = "testbed"
HALF_LIFE_S = 7 * 86_400
QUOTAS = SiteQuotas({"lab1": 8.0, "lab2": 8.0}, 16.0, "settings")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with fresh_site(num_nodes=2, accounting="slurmdbd") as made:
        for account in ("lab1", "lab2"):
            made.bed.run(["sacctmgr", "-i", "add", "account", account])
            made.bed.run(["sacctmgr", "-i", "add", "user", "games", f"account={account}"])
        made.configure("daemon", policy='"ltgf"', leases="true")
        made.configure("forecast", enabled="false")
        made.configure("fairness.quotas", lab1="8.0", lab2="8.0")
        yield made


def submit(site: Site, account: str, gpus: int, seconds: float) -> int:
    words = ("sbatch", "--parsable", "-A", account, f"--gres=gpu:{gpus}", "-o", "/dev/null")
    return int(site.slurm(*words, "--wrap", f"sleep {seconds}", user="games"))


def remembered(site: Site) -> dict[str, object]:
    """The policy's memory as the last round left it."""
    with sqlite3.connect(f"file:{site.state}/history.db?mode=ro", uri=True) as db:
        query = "SELECT memory FROM policy_memory WHERE policy = 'ltgf'"
        row = db.execute(query).fetchone()
    return json.loads(row[0]) if row else {}


def held_gpu_s(site: Site, until: float) -> dict[str, float]:
    """By slurmdbd: GPU-seconds of each account until then."""
    form = ("-X", "-n", "-P", "-D", "-o", "Account,Start,End,AllocTRES")
    lines = site.bed.run(
        ["sacct", "-a", "-S", "now-1hours", *form], extra_env={"SLURM_TIME_FORMAT": "%s"}
    ).stdout.split()
    found = {"lab1": 0.0, "lab2": 0.0}
    for account, start, end, tres in (line.split("|") for line in lines):
        if start.isdigit():
            gpus = int(dict(part.split("=") for part in tres.split(","))["gres/gpu"])
            stop = min(float(end), until) if end.isdigit() else until
            found[account] += gpus * max(0.0, stop - float(start))
    return found


def is_in(site: Site, job: int, state: str) -> bool:
    return site.states().get(job) == state


def test_what_ran_while_no_daemon_looked_is_counted(site: Site) -> None:
    with site.daemon() as daemon:
        first = submit(site, "lab1", 8, 6)
        wait_for(lambda: remembered(site).get("received_gpu_s"), "a round with a running job")
        daemon.signal(signal.SIGKILL)
    second = submit(site, "lab2", 3, 2)
    wait_for(lambda: is_in(site, second, "COMPLETED"), "the second job to come and go")
    third = submit(site, "lab2", 2, 600)
    wait_for(lambda: is_in(site, first, "COMPLETED"), "the first job to end")
    wait_for(lambda: is_in(site, third, "RUNNING"), "the third job to run")
    before = time.time()
    with site.daemon():
        wait_for(lambda: remembered(site)["as_of"] > before + 1, "rounds of the next daemon")
        memory = remembered(site)
        with History.open(f"sqlite:///{site.state}/history.db") as history:
            window = int(before) - 3600, memory["as_of"]
            books, known = fairness_books(history, CLUSTER, *window, QUOTAS)
            assert [c.gpus for c in history.fairness().quotas(CLUSTER)] == [8.0, 8.0]
    site.slurm("scancel", str(third))
    true = held_gpu_s(site, memory["as_of"])
    rule = dict(zip(books.tenants, rule_account(books, *window).received, strict=True))
    faded = faded_received(books, memory["as_of"], HALF_LIFE_S)
    assert {name: rule[name] for name in true} == pytest.approx(true, abs=1)
    assert (known.open_attempts, known.assumed_ends, known.unknown_gpus) == (1, 0, 0)
    told = dict(zip(books.tenants, faded, strict=True))
    assert memory["received_gpu_s"] == pytest.approx(told, abs=2 * 2 + 1)  # two rounds of the third
    assert true["lab1"] >= 8 * 6
    assert true["lab2"] >= 3 * 2
