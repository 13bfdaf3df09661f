"""What is said on stderr beside a table of past jobs: where it is from, and what is not in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsched_cli.output import count, local_time, say

if TYPE_CHECKING:
    from gsched.app.past import PastGroups
    from gsched.app.past_sources import Found


def say_where(found: Found) -> None:
    """Say so where the jobs are not from a database, and how many rows were not understood."""
    if found.source == "sacct":
        whose = ",".join(found.users) or "all users that you may see"
        since = f" since {local_time(found.since)}" if found.since else ""
        say(f"{found.no_database}: sacct's jobs of {whose}{since}")
    elif found.source == "squeue":
        say(f"{found.no_database}, and no slurmdbd: only what slurmctld remembers")
    if found.rejects:
        say(f"{len(found.rejects)} rows of {found.source} were not understood")


def say_what_is_left_out(groups: PastGroups) -> None:
    """Say over how many jobs the sums of all groups are, and what is missing from them."""
    usage = groups.usage
    total = usage.total.total
    if total.gpu_time_jobs < total.jobs:
        say(f"GPU-time is known of {count(total.gpu_time_jobs)} of {count(total.jobs)} jobs")
    if groups.by == "phase" and total.jobs:
        _say_unclassified(groups)
    if usage.pruned_jobs:
        say(f"{count(usage.pruned_jobs)} pruned jobs are counted in, by the UTC day of their end")
    if usage.pruned_left_out:
        say(
            f"{count(usage.pruned_left_out)} pruned jobs are left out: of them the history keeps "
            "no names, QOS, nodes and ids"
        )
    more = usage.num_groups - len(usage.groups)
    if more:
        say(f"{count(more)} more groups; --limit {usage.num_groups} shows all")


def _say_unclassified(groups: PastGroups) -> None:
    total = groups.usage.total.total
    none = next((g.total for g in groups.usage.groups if g.key is None), None)
    if none is None:
        return
    gpu = f", {none.gpu_time_s / total.gpu_time_s:.0%} of the GPU-time" if total.gpu_time_s else ""
    why = "no --gs-phase, and no rule of [phases] in gsched.toml"
    if groups.found.source != "database":
        why = "no rule of [phases] in gsched.toml; what --gs-phase said is unknown here"
    say(
        f"{count(none.jobs)} of {count(total.jobs)} jobs ({none.jobs / total.jobs:.0%}{gpu}) are "
        f"unclassified: {why}"
    )
