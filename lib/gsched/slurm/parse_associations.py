"""Output of ``sacctmgr show assoc`` → accounts and their users: shares, limits of GPUs. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gsched.errors import DataError
from gsched.model.units import parse_tres

FIELDS = ("account", "user", "parentname", "share", "grptres")
GPU = "gres/gpu"


@dataclass(frozen=True, slots=True)
class Association:
    """One account (`user` is empty) below `parent`, or one user of an account.

    `shares` are Slurm's raw ones, None where the parent's count (Fairshare=parent). `gpus` is what
    GrpTRES lets it hold, as (type or "", count)s; None: no limit.
    """

    account: str
    user: str
    parent: str
    shares: int | None
    gpus: tuple[tuple[str, int], ...] | None


def association_argv(cluster: str) -> tuple[str, ...]:
    """The sacctmgr command for all associations of a cluster."""
    fields = f"format={','.join(FIELDS)}"
    return ("sacctmgr", "-n", "-P", "show", "assoc", "where", f"cluster={cluster}", fields)


def parse_associations(text: str) -> tuple[Association, ...]:
    """In Slurm's order. Raises DataError for a line that is none."""
    return tuple(_association(line) for line in text.splitlines() if line)


def _association(line: str) -> Association:
    fields = line.split("|")
    if len(fields) != len(FIELDS):
        raise DataError("sacctmgr show assoc prints other columns than it was asked for")
    account, user, parent, shares, limits = fields
    if shares != "parent" and not shares.isdecimal():
        raise DataError(f"sacctmgr: {shares[:40]!r} are no shares of {account[:80]!r}")
    counted = None if shares == "parent" else int(shares)
    return Association(account, user, parent, counted, _gpus(limits))


def _gpus(limits: str) -> tuple[tuple[str, int], ...] | None:
    """All GPUs where they are limited together, else each type that is."""
    found = parse_tres(limits)
    if GPU in found:
        return (("", found[GPU]),)
    kinds = [
        (name.removeprefix(f"{GPU}:"), count)
        for name, count in found.items()
        if name.startswith(f"{GPU}:")
    ]
    return tuple(kinds) or None
