"""Both accounts kept up as things happen, one after the other: for whoever cannot look back.

What it holds is small: a few sums by tenant and job, and what is the case now. It can be put away
as JSON and taken up again. Replaying the same history through ``metric`` and ``rule`` gives the
same figures, which tests compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gsched.errors import DataError

VERSION = 1


@dataclass(slots=True)
class TenantSums:
    """GPU-seconds of one tenant: received, entitled by the metric, due by the rule; its quota."""

    received: float = 0.0
    entitled: float = 0.0
    due: float = 0.0
    quota: float = 0.0


@dataclass(slots=True)
class JobSums:
    """GPU-seconds of one job, and what it asks for and holds now."""

    tenant: str
    weight: float = 1.0
    asks: float = 0.0
    holds: float = 0.0
    received: float = 0.0
    entitled: float = 0.0


@dataclass(slots=True)
class Ledger:
    """As of `as_of_s`. Whoever tells something tells its time, which never goes back.

    A clock that went back is for the caller to notice: DataError is raised.
    """

    as_of_s: float
    tenants: dict[str, TenantSums] = field(default_factory=dict)
    jobs: dict[str, JobSums] = field(default_factory=dict)

    def set_quota(self, time_s: float, tenant: str, gpus: float) -> None:
        """From now on."""
        self.pass_to(time_s)
        self.tenants.setdefault(tenant, TenantSums()).quota = gpus

    def asks(self, time_s: float, job: str, tenant: str, gpus: float, weight: float = 1.0) -> None:
        """A job waits or runs from now on; 0 GPUs: no longer."""
        self.pass_to(time_s)
        self.tenants.setdefault(tenant, TenantSums())
        sums = self.jobs.setdefault(job, JobSums(tenant, weight))
        sums.asks = gpus

    def holds(self, time_s: float, job: str, gpus: float) -> None:
        """A job that asks, or has asked, holds so many GPUs from now on. KeyError: it never has."""
        self.pass_to(time_s)
        self.jobs[job].holds = gpus

    def forget(self, job: str) -> JobSums:
        """What a job had when it went, which the ledger does not keep any longer."""
        return self.jobs.pop(job)

    def pass_to(self, time_s: float) -> None:
        """Book what was the case until then."""
        passed_s = time_s - self.as_of_s
        if passed_s < 0:
            raise DataError(
                f"the ledger is at {self.as_of_s:.0f} s and was told of {time_s:.0f} s",
                "a clock went back: go on from the time that the ledger has",
            )
        self.as_of_s = time_s
        active: dict[str, list[JobSums]] = {}
        for job in self.jobs.values():
            job.received += job.holds * passed_s
            self.tenants[job.tenant].received += job.holds * passed_s
            if job.asks > 0:
                active.setdefault(job.tenant, []).append(job)
        for name, tenant in self.tenants.items():
            tenant.due += tenant.quota * passed_s
            mine = active.get(name, [])
            asked = sum(job.asks for job in mine)
            tenant.entitled += min(asked, tenant.quota) * passed_s
            weights = sum(job.weight for job in mine)
            for job in mine:
                part = tenant.quota * job.weight / weights
                job.entitled += min(job.asks, part) * passed_s

    def document(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "version": VERSION,
            "as_of_s": self.as_of_s,
            "tenants": {name: asdict(one) for name, one in sorted(self.tenants.items())},
            "jobs": {name: asdict(one) for name, one in sorted(self.jobs.items())},
        }

    @classmethod
    def from_document(cls, told: Mapping[str, Any]) -> Ledger:
        """The ledger that was put away. DataError where it is of another version, or damaged."""
        try:
            if told["version"] != VERSION:
                raise ValueError(f"version {told['version']}")
            return cls(
                float(told["as_of_s"]),
                {name: TenantSums(**one) for name, one in told["tenants"].items()},
                {name: JobSums(**one) for name, one in told["jobs"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise DataError(
                f"this is no ledger of this version: {e}", "begin it anew from the job history"
            ) from e
