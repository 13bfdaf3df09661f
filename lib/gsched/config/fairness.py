"""Checks of the settings of fairness: quotas of tenants and worth of GPUs."""

from __future__ import annotations

from gsched.errors import ConfigError

MOST_GPUS = 10_000_000
MOST_WORTH = 1_000_000.0
LEAST_WORTH = 1e-6
MOST_NAMES = 100_000
LONGEST_NAME = {"fairness.quotas": 255, "fairness.gpu_weights": 64}


def check_fairness(key: str, value: object) -> None:
    """Raise ConfigError for a value of ``[fairness]`` that is not what its key asks for."""
    if not key.startswith("fairness.") or not isinstance(value, dict):
        return
    if len(value) > MOST_NAMES:
        raise ConfigError(f"{len(value)} names, at most {MOST_NAMES} are allowed")
    low, high = (0.0, MOST_GPUS) if key == "fairness.quotas" else (LEAST_WORTH, MOST_WORTH)
    for name, number in value.items():
        if not name or not name.isprintable() or name != name.strip():
            raise ConfigError(f"{name[:80]!r} is no name", "write the name as Slurm has it")
        if len(name) > LONGEST_NAME[key]:
            raise ConfigError(f"{name[:80]!r}… is longer than {LONGEST_NAME[key]} characters")
        if not low <= number <= high:
            raise ConfigError(f"{name} = {number:g}, allowed is {low:g} to {high:g}")
    if key == "fairness.quotas" and value and not any(value.values()):
        raise ConfigError("nobody has a quota above 0", "leave the table empty for Slurm's own")
