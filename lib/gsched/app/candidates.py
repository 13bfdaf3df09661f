"""What a shell may complete: names that Slurm knows. Quick, or nothing at all.

A shell waits while somebody holds Tab: each question ends after `TIMEOUT_S`, and what goes wrong is
no news at that moment. Texts are hostile, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from gsched.app.queue_filter import own_name
from gsched.errors import GschedError
from gsched.slurm.client import CommandClient
from gsched.slurm.fields import new_separator, split_records
from gsched.slurm.parse_queue import squeue_format
from gsched.slurm.run import run

TIMEOUT_S = 1.0

_Item = TypeVar("_Item")


def own_jobs() -> list[tuple[str, str]]:
    """Ids of the caller's jobs in the queue, with their names; of an unsplit array its own id."""
    return _quietly(
        lambda: [
            (job_id.partition("_[")[0], name) for job_id, name in _squeue("JobArrayID", "Name")
        ]
    )


def partitions() -> list[str]:
    """All partitions."""
    return _quietly(lambda: [p.name for p in _client().partitions()])


def nodes() -> list[str]:
    """All nodes."""
    return _quietly(lambda: [n.name for n in _client().nodes()])


def users() -> list[str]:
    """Users who have jobs in the queue."""
    return _quietly(lambda: _column("UserName"))


def accounts() -> list[str]:
    """Accounts that the caller belongs to, and those of jobs in the queue."""
    return _quietly(lambda: _column("Account")) + _quietly(lambda: _own_associations("account"))


def qos() -> list[str]:
    """QOS that the caller may use, and those of jobs in the queue."""
    return _quietly(lambda: _column("QOS")) + _quietly(lambda: _own_associations("qos"))


def templates() -> list[tuple[str, str]]:
    """Templates of job scripts, with what they are for."""
    from gsched.app.jobscript_check import templates as listed
    from gsched.config.loader import load

    return _quietly(
        lambda: [(one.name, one.template.help if one.template else "") for one in listed(load())]
    )


def template_keys(name: str) -> list[tuple[str, str]]:
    """What may follow ``--gs-runtime NAME,``: keys with =, and their values where they are few."""
    from gsched.app.jobscript_check import template
    from gsched.config.loader import load

    return _quietly(
        lambda: [
            (f"{key.name}={value}", key.help)
            for key in template(load(), name).keys
            for value in key.choices or (("yes", "no") if isinstance(key.default, bool) else ("",))
        ]
    )


def _client() -> CommandClient:
    return CommandClient(TIMEOUT_S, asks_again=False)


def _quietly(ask: Callable[[], list[_Item]]) -> list[_Item]:
    try:
        return ask()
    except GschedError:
        return []


def _column(field: str) -> list[str]:
    return [value for (value,) in _squeue(field, own=False)]


def _squeue(*fields: str, own: bool = True) -> Iterable[list[str]]:
    separator = new_separator()
    form = squeue_format(fields, separator)
    chosen = ("--me",) if own else ("-a",)
    answer = run(("squeue", "-h", "--local", *chosen, "-O", form), timeout_s=TIMEOUT_S).check()
    return split_records(answer.stdout, separator, len(fields))


def _own_associations(field: str) -> list[str]:
    where = ("where", f"user={own_name()}", f"format={field}")
    answer = run(("sacctmgr", "-n", "-P", "show", "assoc", *where), timeout_s=TIMEOUT_S)
    return answer.check().stdout.replace(",", "\n").split()
