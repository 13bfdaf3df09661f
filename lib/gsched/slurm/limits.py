"""What bounds a pending job: limits, licences, and what each node must give. Asks Slurm."""

from __future__ import annotations

from collections.abc import Sequence

from gsched.slurm import parse_limits
from gsched.slurm.failures import is_unknown_job
from gsched.slurm.fields import new_separator
from gsched.slurm.parse_limits import LimitRecord, NodeDemand
from gsched.slurm.parse_queue import squeue_format
from gsched.slurm.run import Run


def limits(run: Run, account: str, qos: Sequence[str]) -> tuple[LimitRecord, ...]:
    """The limits of an account, of the accounts above it and of some QOS, and their present use.

    Records that PrivateData hides from the caller, and all on a cluster without slurmdbd, are
    absent.
    """
    argv = ["scontrol", "show", "assoc_mgr", "flags=assoc,qos"]
    answer = run(*argv, f"qos={','.join(qos)}") if qos else run(*argv)
    records = parse_limits.parse_limits(answer.check().stdout)
    above: set[str] = set()
    while account and account not in above:
        above.add(account)
        parents = (r.parent for r in records if r.account == account and not r.user and not r.qos)
        account = next(parents, "")
    return tuple(r for r in records if r.qos in qos or (not r.qos and r.account in above))


def qos_flags(run: Run, qos: str) -> frozenset[str]:
    """The flags of a QOS, such as ``PartitionTimeLimit``."""
    argv = ("sacctmgr", "-n", "-P", "show", "qos", "where", f"name={qos}", "format=flags")
    return frozenset(flag for flag in run(*argv).check().stdout.strip().split(",") if flag)


def licences(run: Run) -> dict[str, int]:
    """How many of each licence the cluster has, by name."""
    return parse_limits.parse_licences(run("scontrol", "-o", "show", "licenses").check().stdout)


def node_demand(run: Run, raw_id: int) -> NodeDemand | None:
    """What each node must give to the job, None when slurmctld knows it no longer."""
    separator = new_separator()
    form = squeue_format(parse_limits.DEMAND_FIELDS, separator)
    answer = run("squeue", "-h", "-a", "--local", "--states=all", "-j", str(raw_id), "-O", form)
    if is_unknown_job(answer.stderr):
        return None
    return parse_limits.parse_demand(answer.check().stdout, separator, raw_id)
