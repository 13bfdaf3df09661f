"""Slurm's tree of accounts → to each account its part of the whole, or its limit. Pure.

An account divides what it has among its users and the accounts below it, by their shares, as Slurm
does (NormShares of sshare). What its own users have is its quota as a tenant, for their jobs are
charged to it. Accounts that nobody can use, and root's own users, have nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gsched.errors import PermissionDeniedError
from gsched.slurm.parse_associations import Association

ROOT = "root"

Worth = Callable[[Sequence[tuple[str, int]]], float]
"""What (type, count)s of GPUs are worth together."""


class AccountTree:
    """The accounts of one cluster."""

    def __init__(self, associations: Sequence[Association]) -> None:
        """Raises PermissionDeniedError where only a part of them was shown."""
        self._accounts = {a.account: a for a in associations if not a.user}
        self._users: dict[str, list[Association]] = {}
        self._below: dict[str, list[str]] = {}
        for one in associations:
            if one.user:
                self._users.setdefault(one.account, []).append(one)
            elif one.account != ROOT:
                self._below.setdefault(one.parent, []).append(one.account)
        _refuse_a_part(associations, self._accounts)
        self._usable = self._with_users(ROOT)

    def by_shares(self, whole: float) -> dict[str, float]:
        """`whole` divided from root down; {} where there are no shares."""
        found: dict[str, float] = {}
        self._divide(ROOT, whole, found)
        return found if sum(found.values()) > 0 else {}

    def by_limits(self, worth: Worth) -> dict[str, float] | None:
        """By GrpTRES; what of the tree has none of its own gets a part of its parent's.

        None where an account that lies directly below root, and that somebody can use, has none.
        """
        tops = [name for name in self._below.get(ROOT, []) if name in self._usable]
        limits = {name: a.gpus for name, a in self._accounts.items() if a.gpus is not None}
        if not tops or not limits.keys() >= set(tops):
            return None
        found: dict[str, float] = {}
        for name, gpus in limits.items():
            if name in self._usable:
                self._divide(name, worth(gpus), found, frozenset(limits) - {name})
        return found if sum(found.values()) > 0 else None

    def _divide(
        self,
        account: str,
        amount: float,
        found: dict[str, float],
        apart: frozenset[str] = frozenset(),
    ) -> None:
        """What `account` has among its users and those below it, but for those who are `apart`.

        These count as sharers all the same: their part is theirs in another way.
        """
        sharers = self._sharers(account)
        total = sum(shares for _, shares, _ in sharers)
        for name, shares, is_user in sharers:
            part = amount * shares / total if total else 0.0
            if is_user:
                found[name] = found.get(name, 0.0) + part
            elif name not in apart:
                self._divide(name, part, found, apart)

    def _sharers(self, account: str) -> list[tuple[str, int, bool]]:
        """(account, shares, whether they are its users') that divide what `account` has.

        An account with its parent's shares is none: those below it stand in its place, as with
        Slurm. Users with their parent's shares count as one each.
        """
        users = [] if account == ROOT else self._users.get(account, [])
        own = sum(1 if user.shares is None else user.shares for user in users)
        found = [(account, own, True)] if users else []
        for name in self._below.get(account, []):
            shares = self._accounts[name].shares
            if name not in self._usable:
                continue
            found += self._sharers(name) if shares is None else [(name, shares, False)]
        return found

    def _with_users(self, account: str) -> frozenset[str]:
        """The accounts from `account` down that somebody below can use."""
        below = [self._with_users(name) for name in self._below.get(account, [])]
        found: frozenset[str] = frozenset().union(*below)
        return found | {account} if found or self._users.get(account) else found


def _refuse_a_part(
    associations: Sequence[Association], accounts: Mapping[str, Association]
) -> None:
    """Root's own user is in every tree; whoever is shown only the own accounts does not see it."""
    parents = {one.parent for one in associations if not one.user and one.account != ROOT}
    owners = {one.account for one in associations if one.user}
    if ROOT not in owners or not parents | owners <= accounts.keys():
        raise PermissionDeniedError(
            "slurmdbd shows only a part of the accounts (PrivateData=users)",
            "run as a Slurm operator (sacctmgr: adminlevel=Operator), or set [fairness.quotas]",
        )
