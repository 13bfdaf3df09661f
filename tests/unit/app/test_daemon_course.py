"""A running loop goes by what the site and Slurm say now: quotas, leases, the scale."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.slurm_bench import Bench

from gsched.app.daemon_assembly import Assembly
from gsched.app.daemon_lead import ClusterLead, leading
from gsched.app.daemon_leases import Leases
from gsched.app.daemon_parts import Live, policy_of
from gsched.app.fairness.site import site_facts
from gsched.app.run_daemon import DaemonProcess
from gsched.config.settings import DaemonSettings, FairnessSettings, Settings
from gsched.daemon.gate import Gate
from gsched.daemon.loop import DaemonLoop
from gsched.daemon.notify import Notifier
from gsched.errors import ConfigError
from gsched.policy.lease_length import lease_lengths
from gsched.policy.registry import SiteFacts
from gsched.slurm.records import SlurmConfig
from gsched_sql import History

CONFIG = SlurmConfig(
    {
        "ClusterName": "c",
        "AuthInfo": "cred_expire=120",
        "PriorityType": "priority/multifactor",
        "PriorityWeightPartition": "100000",
        "PriorityWeightAge": "1000",
        "AccountingStorageType": "(null)",
    }
)
LEASE_S = 20 * (60 + 121)
"""20 hand-overs, before anybody has saved."""


class Daemon:
    """A loop over a Slurm of one job; `loop` is before its first round."""

    def __init__(self, process: DaemonProcess, history: History, lead: ClusterLead) -> None:
        self.bench = Bench(1, leases=True)
        client: Any = self.bench.client
        client.config = lambda: self.config
        self.config = CONFIG
        self.process = process
        live = Live(client, CONFIG, self.bench.backend)
        settings = process.settings
        site = site_facts(settings, client, history, "c")
        policy = policy_of(settings.daemon, live, site)
        gate = Gate(process.acting, settings.daemon, process.state_dir)
        assembly = Assembly(process, history, live, lead, policy, site, gate, None, None, None)
        self.loop: DaemonLoop = assembly.loop()

    @property
    def policy(self) -> Any:
        return self.loop.parts.runner.policy

    @property
    def ledger(self) -> Any:
        upkeep: Any = self.loop.parts.upkeep
        return upkeep._ledger

    def set(self, settings: Settings) -> None:
        self.process.configuration.settings = settings


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    settings = Settings(
        state_dir=tmp_path,
        daemon=DaemonSettings(policy="ltgf", leases=True, max_shift=1000),
        fairness=FairnessSettings(quotas={"lab1": 6.0, "lab2": 2.0}),
    )
    History.create(settings.database_url)
    with (
        History.open(settings.database_url) as history,
        leading(history, "c", lambda: 30.0) as lead,
        DaemonProcess.started(settings, False, None, Notifier("", 0)) as process,
    ):
        process.listeners["control"] = None  # type: ignore[assignment]  # a service, not one round
        yield Daemon(process, history, lead)


def with_quotas(settings: Settings, **quotas: float) -> Settings:
    return replace(settings, fairness=FairnessSettings(quotas=quotas, gpu_weights={"a100": 2.0}))


def test_other_quotas_reach_the_policy_with_the_length_of_leases(daemon: Daemon) -> None:
    daemon.loop.parts.read_config()
    daemon.ledger.note_quotas()
    assert daemon.policy._parts == {"lab1": 0.75, "lab2": 0.25}
    daemon.set(with_quotas(daemon.process.settings, lab1=1.0, lab2=3.0))
    daemon.ledger.configure(daemon.process.settings)
    daemon.ledger.note_quotas()
    assert daemon.policy._parts == {"lab1": 0.25, "lab2": 0.75}
    assert daemon.policy._weights == {"a100": 2.0}
    assert lease_lengths(daemon.policy) == (LEASE_S,)


def test_the_policy_begins_with_what_the_ledger_knows(daemon: Daemon) -> None:
    upkeep: Any = daemon.loop.parts.upkeep
    upkeep.ingest_time = 1000
    upkeep.after = lambda: None
    seeded = daemon.loop.parts.runner.seed(daemon.policy, {}, 1000)
    assert seeded["received_as_of"] == 1000


def test_a_policy_waits_for_a_history_that_is_told(daemon: Daemon) -> None:
    memory: dict[str, Any] = {}
    runner = daemon.loop.parts.runner
    assert runner.seed(daemon.policy, memory, 1000) is memory  # nothing was taken in yet


def test_the_first_quotas_that_are_read_reach_a_policy_of_others(daemon: Daemon) -> None:
    daemon.set(with_quotas(daemon.process.settings, lab1=1.0, lab2=3.0))
    daemon.ledger.configure(daemon.process.settings)
    daemon.ledger.note_quotas()
    assert daemon.policy._parts == {"lab1": 0.25, "lab2": 0.75}


def test_after_a_reload_the_ledger_knows_by_what_the_policy_decides(daemon: Daemon) -> None:
    daemon.bench.snapshot()
    daemon.process.configuration.apply(with_quotas(daemon.process.settings, lab1=1.0, lab2=3.0))
    assert daemon.policy._parts == {"lab1": 0.25, "lab2": 0.75}
    assert daemon.ledger.decides_by == SiteFacts({"lab1": 1.0, "lab2": 3.0}, {"a100": 2.0})
    daemon.process.configuration.apply(
        replace(daemon.process.settings, daemon=DaemonSettings(policy="fifo"))
    )
    assert daemon.ledger.decides_by is None


def test_leases_and_scale_follow_settings_and_slurm(daemon: Daemon) -> None:
    runner, backend = daemon.loop.parts.runner, daemon.bench.backend
    assert (runner.leases, lease_lengths(runner.policy)) == (None, (900,))
    daemon.config = SlurmConfig({**CONFIG.values, "AuthInfo": "cred_expire=300"})
    assert daemon.loop.parts.read_config() is daemon.config
    assert runner.leases is not None
    assert lease_lengths(runner.policy) == (20 * (60 + 301),)
    assert backend.scale.max_shift == 1000
    daemon.set(
        replace(daemon.process.settings, daemon=DaemonSettings(policy="ltgf", max_shift=500))
    )
    daemon.loop.parts.read_config()
    assert runner.leases is None
    assert backend.scale.max_shift == 500


def test_settings_that_do_not_fit_change_nothing(daemon: Daemon) -> None:
    daemon.set(replace(daemon.process.settings, daemon=DaemonSettings(max_shift=10, quantum=100)))
    with pytest.raises(ConfigError):
        daemon.loop.parts.read_config()
    assert daemon.bench.backend.scale.quantum == 10


def test_a_daemon_that_acts_no_more_takes_leases_back_first(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.bench.client.calls.clear()
    told: list[str] = []

    def take_back(_: Leases, why: str) -> tuple[str, ...]:
        told.append(why)
        assert daemon.bench.client.calls == []
        return ()

    monkeypatch.setattr(Leases, "take_back", take_back)
    assert daemon.loop.parts.take_back().cleared == ()
    assert told == ["the daemon acts no more"]
    assert daemon.bench.client.calls
