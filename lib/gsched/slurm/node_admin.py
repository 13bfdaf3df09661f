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
from gsched.slurm import detail, parse_config
from gsched.slurm.patience import Patience, Runner
from gsched.slurm.records import JobDetail
from gsched.slurm.run import Completed, run

NodeOrder = Literal["drain", "resume", "power_down", "power_up"]


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """A node's flags (``drain``, ``powered_down``) and why it is drained or down, "" = not said."""

    flags: frozenset[str]
    reason: str


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
            node.name: NodeCondition(frozenset(node.flags), reasons.get(node.name, ""))
            for node in parse_config.parse_nodes(text)
        }

    def job(self, raw_id: int) -> JobDetail | None:
        """A job in all detail, None when Slurm knows it no longer."""
        return detail.job_detail(self._run, raw_id)

    def order(self, names: Sequence[str], order: NodeOrder, reason: str = "") -> str:
        """Give nodes a new state by one command; what Slurm said against it, "" for nothing."""
        why = (f"reason={reason}",) if reason else ()
        return self._change("update", f"nodename={fold(names)}", f"state={order}", *why)

    def set_admin_comment(self, raw_id: int, text: str) -> str:
        """Set a job's AdminComment; what Slurm said against it, "" for nothing."""
        return self._change("update", f"jobid={raw_id}", f"admincomment={text}")

    def _run(self, *argv: str) -> Completed:
        return self._patience.read(argv)

    def _change(self, *words: str) -> str:
        try:
            self._patience.once(("scontrol", *words), "").check()
        except GschedError as error:
            return error.message
        return ""
