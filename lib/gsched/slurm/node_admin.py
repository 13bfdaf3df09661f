"""What an administrator of Slurm does to nodes and jobs, for ``gsched-helper`` alone.

Every word goes to scontrol as an argument of its own, never through a shell; texts have been
checked to be one plain line. A change is sent once; whoever wants to know what became of it looks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gsched.errors import GschedError
from gsched.model.hostlist import fold
from gsched.model.units import UNSET
from gsched.slurm import parse_config
from gsched.slurm.actions import checked_id
from gsched.slurm.failures import is_unknown_job
from gsched.slurm.fields import new_separator, split_records
from gsched.slurm.parse_queue import squeue_format
from gsched.slurm.patience import Patience, Runner
from gsched.slurm.run import Completed, run

NodeOrder = Literal["drain", "resume", "power_down_asap", "power_up"]

_JOB_FIELDS = (
    "JobID", "ArrayJobID", "ArrayTaskID", "HetJobID", "HetJobOffset", "NodeList", "admin_comment",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """A node's flags (``drain``, ``powered_down``), why it is drained or down ("" = not said), and
    its base state (``idle``, ``down``).
    """

    flags: frozenset[str]
    reason: str
    state: str


@dataclass(frozen=True, slots=True)
class CommentedJob:
    """One record of slurmctld's: a job, an array task or a het component; "" = not said.

    `slurm_id` means this record alone, ``7``, ``7_3`` or ``7+1``: to scontrol the bare number of an
    array's or het job's first part is all of it. "" for array tasks that wait in one record.
    """

    slurm_id: str
    node_list: str
    admin_comment: str


class NodeAdmin:
    """One cluster's nodes. Every call may raise the errors of ``gsched.slurm.run``."""

    def __init__(self, timeout_s: float, *, runner: Runner = run) -> None:
        """`timeout_s` limits each command of Slurm."""
        self._patience = Patience(timeout_s, lambda _: None, asks_again=False, runner=runner)

    def conditions(self) -> Mapping[str, NodeCondition]:
        """The condition of every node, by name."""
        text = self._run("scontrol", "-a", "-o", "show", "node").check().stdout
        reasons = parse_config.parse_node_reasons(text)
        return {
            node.name: NodeCondition(frozenset(node.flags), reasons.get(node.name, ""), node.state)
            for node in parse_config.parse_nodes(text)
        }

    def job(self, raw_id: int) -> CommentedJob | None:
        """The job with Slurm's own number `raw_id`, None when Slurm knows it no longer."""
        separator = new_separator()
        form = squeue_format(_JOB_FIELDS, separator)
        words = ("-h", "-a", "--local", "--states=all", "-j", str(raw_id), "-O", form)
        answer = self._run("squeue", *words)
        if is_unknown_job(answer.stderr):
            return None
        for record in split_records(answer.check().stdout, separator, len(_JOB_FIELDS)):
            if len(record) == len(_JOB_FIELDS) and record[0] == str(raw_id):
                return _job(*record)
        return None

    def order(self, names: Sequence[str], order: NodeOrder, reason: str = "") -> str:
        """Give nodes a new state by one command; what Slurm said against it, "" for nothing."""
        why = (f"reason={reason}",) if reason else ()
        return self._change("update", f"nodename={fold(names)}", f"state={order}", *why)

    def set_admin_comment(self, slurm_id: str, text: str) -> str:
        """Set the AdminComment of what `slurm_id` means; Slurm's word against it, "" for none.

        Raises UsageError for what is not the id of one job.
        """
        return self._change("update", f"jobid={checked_id(slurm_id)}", f"admincomment={text}")

    def _run(self, *argv: str) -> Completed:
        return self._patience.read(argv)

    def _change(self, *words: str) -> str:
        try:
            self._patience.once(("scontrol", *words), "").check()
        except GschedError as error:
            return error.message
        return ""


def _job(
    raw_id: str, array_id: str, task: str, het_id: str, offset: str, nodes: str, comment: str
) -> CommentedJob:
    slurm_id = raw_id
    if task not in UNSET:
        slurm_id = f"{array_id}_{task}" if task.isdecimal() else ""
    elif offset not in UNSET:
        slurm_id = f"{het_id}+{offset}"
    # a comment may be any text: "none" is somebody's
    return CommentedJob(
        slurm_id, "" if nodes in UNSET else nodes, "" if comment == "(null)" else comment
    )
