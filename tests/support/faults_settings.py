"""The sites on which faults happen, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from gsched.testbed.wait import wait_for
from gsched_sql import History
from support.faults import Fault
from support.faults_hosts import HOST_FAULTS
from support.faults_policy import POLICY_FAULTS, policy_environment
from support.faults_process import (
    PROCESS_FAULTS,
    RANDOM_KILLS,
    clock_environment,
)
from support.faults_site import FaultSite, fault_site
from support.faults_slurm import SLURM_FAULTS
from support.faults_store import SERVERS, STORE_FAULTS, mount_small_disk, unmount

OPERATOR = "mail"
"""The user that runs the daemon where there is slurmdbd: an ordinary one, AdminLevel=Operator."""

ALL_FAULTS: tuple[Fault, ...] = (
    *PROCESS_FAULTS,
    *RANDOM_KILLS,
    *SLURM_FAULTS,
    *STORE_FAULTS,
    *HOST_FAULTS,
    *POLICY_FAULTS,
)
"""The whole matrix."""


@contextmanager
def _sqlite(seed: int) -> Iterator[FaultSite]:
    with fault_site(seed) as site:
        site.extra_env = site.stand_ins_path
        yield site


@contextmanager
def _slurmdbd(seed: int) -> Iterator[FaultSite]:
    """Accounting by slurmdbd; the daemon is an ordinary user who is a Slurm operator."""
    with fault_site(seed, OPERATOR, accounting="slurmdbd") as site:
        level = ("sacctmgr", "-i", "modify", "user", OPERATOR, "set", "adminlevel=Operator")
        site.slurm(*level)
        site.extra_env = site.stand_ins_path
        yield site


@contextmanager
def _small_disk(seed: int) -> Iterator[FaultSite]:
    """The state folder is a file system of its own, of 24 MiB."""
    with fault_site(seed) as site:
        mount_small_disk(site.state, 24)
        try:
            History.create(f"sqlite:///{site.state}/history.db")
            yield site
            site.stop()
        finally:
            unmount(site.state)


@contextmanager
def _model(seed: int) -> Iterator[FaultSite]:
    with fault_site(seed) as site:
        learn(site)
        yield site


def learn(site: FaultSite) -> None:
    """From now on run times come from a model of the users' own jobs; no order is the right one."""
    text = site.config.read_text().replace('estimator = "table"', 'estimator = "model"')
    site.config.write_text(text.replace("[predict]", "[predict]\nmin_jobs = 1", 1))
    site.checks_order = False
    wait_for(lambda: site.ended_jobs() >= 6, "jobs to learn from")
    site.ok("db", "ingest")
    site.ok("predict", "train")


@contextmanager
def _policy(seed: int) -> Iterator[FaultSite]:
    with fault_site(seed) as site:
        text = site.config.read_text().replace("[daemon]", '[daemon]\npolicy = "faulty"', 1)
        site.config.write_text(text)
        site.extra_env = policy_environment(site)
        yield site


@contextmanager
def _clock(seed: int) -> Iterator[FaultSite]:
    with fault_site(seed) as site:
        site.extra_env = clock_environment(site)
        yield site


@contextmanager
def _postgres(seed: int) -> Iterator[FaultSite]:
    from support.servers import PostgresServer, started, url

    with (
        started(PostgresServer) as server,
        fault_site(seed) as site,
    ):
        database = server.create_database(with_tables=True)
        site.extra_env = {"GSCHED_DATABASE_URL": url(server, database)}
        site.secret = server.password
        SERVERS[str(site.bed.spec.root)] = (server, database)
        yield site
        site.stop()


SETTINGS: dict[str, Callable[[int], AbstractContextManager[FaultSite]]] = {
    "sqlite": _sqlite,
    "slurmdbd": _slurmdbd,
    "small-disk": _small_disk,
    "model": _model,
    "policy": _policy,
    "clock": _clock,
    "postgres": _postgres,
}
