"""Deadlines that gsched has promised to keep, and who may ask for them."""

from __future__ import annotations

from dataclasses import dataclass

from gsched.model.job import JobView, Wants

FULL_REWARD = 100.0
"""What a job's best deadline counts, whatever rewards its user writes: nobody outbids others."""

LATE_REWARD = 1.0
"""What a target counts that ends after its last deadline."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Until when a job that ends has how much of the full reward, in rising order of time.

    `times` are epoch seconds, `rewards` fall, and the first of them is FULL_REWARD.
    """

    times: tuple[int, ...]
    rewards: tuple[float, ...]

    def reward(self, end_time: float) -> float:
        """Of a job that ends then; LATE_REWARD after the last of the deadlines."""
        for time, reward in zip(self.times, self.rewards, strict=True):
            if end_time <= time:
                return reward
        return LATE_REWARD


def steps_of(wants: Wants) -> Steps | None:
    """What a request asks for; None where it names no deadline.

    A strict deadline is the last one. Soft ones whose reward is no less than that of an earlier one
    count as much as it; rewards are scaled so that the greatest is FULL_REWARD.
    """
    asked = dict(wants.soft_deadlines)
    if wants.deadline is not None:
        asked = {time: reward for time, reward in asked.items() if time < wants.deadline}
        asked[wants.deadline] = min(asked.values(), default=1.0)
    if not asked:
        return None
    best = max(asked.values())
    times = tuple(sorted(asked))
    rewards, least = [], best
    for time in times:
        least = min(least, asked[time])
        rewards.append(max(LATE_REWARD, FULL_REWARD * least / best))
    return Steps(times, tuple(rewards))


@dataclass(frozen=True, slots=True)
class TargetRules:
    """What a site allows of targets. Empty sets: everybody; 0: no bound.

    `max_per_user` targets stand at a time, of `max_gpu_hours_per_user` together;
    `max_horizon_s` is how far away a deadline may be; targets hold at most `max_share` of a pool's
    GPUs at any time.
    """

    users: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    qos: frozenset[str] = frozenset()
    max_per_user: int = 0
    max_gpu_hours_per_user: float = 0.0
    max_horizon_s: int = 0
    max_share: float = 1.0

    def forbids(self, view: JobView) -> str:
        """Who or what may not ask: ``user``, ``account``, ``qos``; "" where the job may."""
        if self.users and view.user not in self.users:
            return "user"
        if self.accounts and view.tenant not in self.accounts:
            return "account"
        if self.qos and view.qos not in self.qos:
            return "qos"
        return ""
