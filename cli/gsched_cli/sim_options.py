"""The options of `sim run` and `sim compare`: which jobs, which nodes, what is assumed."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from gsched_cli.options import json_option
from gsched_cli.trace_options import trace_options

Command = TypeVar("Command", bound=Callable[..., Any])

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
_FOLDER = click.Path(path_type=Path, file_okay=False)
_UNIT_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def time_span(text: str) -> float:
    """A time span: seconds, or with a unit (``90``, ``1.5m``, ``6h``, ``30d``)."""
    words = text.strip()
    number, unit = (words[:-1], words[-1]) if words[-1:].isalpha() else (words, "")
    try:
        seconds = float(number) * _UNIT_S[unit]
    except (ValueError, KeyError):
        seconds = math.nan
    if not 0 <= seconds < 2**33:
        raise click.BadParameter(f"{text[:40]!r} is no time span: write seconds, or 5m, 6h, 30d")
    return seconds


def _watts(text: str) -> tuple[float, ...]:
    """Watts of a node asleep, idle, and more for each GPU in use: ``0,800,300``."""
    try:
        watts = tuple(map(float, text.split(",")))
    except ValueError:
        watts = ()
    if len(watts) != 3 or not all(0 <= w < 1e6 for w in watts):
        raise click.BadParameter(f"{text[:40]!r}: write ASLEEP,IDLE,GPU as in 0,800,300")
    return watts


def _span(name: str, text: str, **more: Any) -> Callable[[Any], Any]:
    return click.option(name, type=time_span, metavar="TIME", help=text, **more)


_CLUSTER = (
    click.option("--nodes", metavar="NxG", help="One shared pool: 10x8, or 8x8:a100,4x4:v100@0.5."),
    click.option("--pools", type=_FILE, metavar="FILE", help="Pools, a CSV file (see above)."),
    click.option("--live", is_flag=True, help="The GPU nodes of this host's Slurm."),
    click.option(
        "--load",
        type=click.FloatRange(0.01, 10),
        metavar="PART",
        help="Size the pools for such an offered load: GPU time of the jobs over that of the pool "
        "from first to last submission [0.85 where the jobs tell neither nodes nor starts].",
    ),
    click.option(
        "--gpus-a-node",
        type=click.IntRange(1, 1024),
        metavar="N",
        help="GPUs of a node in pools that are sized [what the jobs tell, else 8].",
    ),
    click.option(
        "--pool-by",
        type=click.Choice(["partition", "account", "cluster", "none"]),
        help="What names a job's pool; none: all share one [the first of these that all tell].",
    ),
    click.option(
        "--nodes-a-switch",
        type=click.IntRange(min=0),
        default=0,
        metavar="N",
        help="So many nodes of a pool have a switch in common (for --placement topology) [all].",
    ),
)
"""Options of ``gsched.app.sim.cluster.ClusterOrder``, in its order."""

_RULES = (
    click.option(
        "--placement",
        type=click.Choice(["consolidated", "spread", "topology"]),
        default="consolidated",
        show_default=True,
        help="Which of the nodes that fit a job gets.",
    ),
    click.option(
        "--slurm",
        is_flag=True,
        help="Much as Slurm would: the policy's order, backfill by time limits that delays not the "
        "first waiting job (Slurm's own: none of higher priority), no preemption.",
    ),
    _span("--launch", "Before each attempt, GPUs held [0].", default="0"),
    _span("--cleanup", "After each attempt, GPUs held [0].", default="0"),
    _span("--checkpoint-cost", "A checkpoint at preemption, GPUs held [0].", default="0"),
    _span("--restart-cost", "Starting again after preemption or failure [0].", default="0"),
    _span("--restart-wide-cost", "The same on several nodes [--restart-cost]."),
    _span("--restart-one-gpu-cost", "The same on a single GPU [--restart-cost]."),
    _span("--round", "Decide at multiples of it only, whole seconds [at all events].", default="0"),
    _span(
        "--starvation-bound",
        "Who has waited longer comes before all others, as with the daemon's setting "
        "starvation_bound_s, whole seconds [nobody does].",
        default="0",
    ),
    _span("--mtbf", "Nodes fail, each so often on average [never]."),
    _span("--repair", "A failed node is back after.", default="1h", show_default=True),
    _span("--checkpoint-every", "Work is safe from failures so often [never].", default="0"),
    click.option(
        "--sharing",
        metavar="FILE",
        help="Two jobs may share GPUs, with the measured speeds of FILE (see above).",
    ),
    click.option(
        "--sharing-gpu",
        metavar="TYPE",
        default="v100",
        show_default=True,
        help="The GPU type of FILE that counts, where it has several (Gavel's).",
    ),
    click.option(
        "--sharing-drawn",
        is_flag=True,
        help="What a job runs is drawn by chance, not told by its name.",
    ),
    click.option(
        "--min-speed",
        type=click.FloatRange(0.01, 1),
        default=0.5,
        show_default=True,
        metavar="PART",
        help="Jobs share where both keep such a part of their speed.",
    ),
    _span("--sleep-after", "Idle nodes go to sleep after [never]."),
    _span("--wake", "A sleeping node takes so long to wake.", default="5m", show_default=True),
    click.option(
        "--keep-awake",
        type=click.IntRange(min=0),
        default=0,
        metavar="N",
        help="Idle nodes of each pool that never sleep [0].",
    ),
    click.option(
        "--node-watts",
        type=_watts,
        default="0,800,300",
        show_default=True,
        metavar="W,W,W",
        help="Of a node asleep, of one awake, and more for each GPU in use.",
    ),
    click.option("--seed", type=click.IntRange(min=0), default=0, help="Of what chance decides."),
)
"""Options of ``gsched.app.sim.rules.RulesOrder``."""

_REST = (
    click.option(
        "--seeds",
        type=click.IntRange(1, 1000),
        default=1,
        metavar="N",
        help="So many runs a policy, with seeds from --seed on: intervals are over these.",
    ),
    click.option(
        "--predict",
        "estimator",
        type=click.Choice(["rolling", "model"]),
        default="rolling",
        show_default=True,
        help="By what run times are predicted for policies that order by them: the rolling "
        "estimate, or the whole model, fitted anew every week as live (minutes for many jobs).",
    ),
    click.option(
        "--predictions",
        type=_FILE,
        metavar="FILE",
        help="CSV with job,predicted_duration_s instead [what the jobs that had ended before "
        "teach].",
    ),
    click.option(
        "--quota",
        "quotas",
        metavar="TENANT=GPUS",
        multiple=True,
        help="A tenant's quota, for ltgf; repeatable [[fairness.quotas] of gsched.toml(5), else "
        "with --live those of Slurm's accounts, else equal ones].",
    ),
    click.option(
        "--per-job",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="OUT",
        help="Write what became of each job to OUT.csv or OUT.parquet.",
    ),
    click.option("--html", type=_FOLDER, metavar="DIR", help="Write a page: DIR/index.html."),
    click.option("--figures", type=_FOLDER, metavar="DIR", help="Write figures, PNG and SVG."),
    click.option(
        "--force", is_flag=True, help="Replace OUT, the page and the figures where they exist."
    ),
)
_WINDOW = (
    click.option("-S", "--since", metavar="T", help="Jobs first submitted then or later (30d, …)."),
    click.option("-E", "--until", metavar="T", help="Jobs first submitted before then."),
)
_CLUSTER_NAMES = ("nodes", "pools", "live", "load", "gpus_a_node", "pool_by", "nodes_a_switch")
_OUTPUTS = ("seeds", "estimator", "predictions", "per_job", "html", "figures", "force")


def sim_options(command: Command) -> Command:
    """Add them around ``--policy``; the command receives `order`, a SimOrder, and `as_json`."""

    @functools.wraps(command)
    def with_order(
        policy: str | tuple[str, ...],
        files: tuple[str, ...],
        told: Any,
        cluster: str | None,
        since: str | None,
        until: str | None,
        as_json: bool,
        **others: Any,
    ) -> Any:
        from gsched.app.sim.compare import SimOrder
        from gsched.app.sim.quotas import parse_quotas

        order = SimOrder(
            _policies(policy),
            files,
            told,
            cluster,
            _window(since, until),
            _cluster_order(others),
            _rules_order(others),
            quotas=parse_quotas(others["quotas"]),
            **{name: others[name] for name in _OUTPUTS},
        )
        return command(order=order, as_json=as_json)

    wrapped: Any = json_option(with_order)
    for option in reversed((*_WINDOW, *_CLUSTER, *_RULES, *_REST)):
        wrapped = option(wrapped)
    wrapped = trace_options(wrapped, required=False)
    return click.argument("files", metavar="[FILE]...", nargs=-1)(wrapped)  # type: ignore[no-any-return]


def _policies(told: str | tuple[str, ...]) -> tuple[str, ...]:
    """One, or several with commas; each once."""
    texts = (told,) if isinstance(told, str) else told
    parts = (part.strip() for text in texts for part in text.split(","))
    return tuple(dict.fromkeys(filter(None, parts)))


def _window(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    from gsched.app.when import parse_when
    from gsched.app.wiring import now

    at = now()
    return (
        None if since is None else parse_when(since, at),
        None if until is None else parse_when(until, at),
    )


def _cluster_order(given: dict[str, Any]) -> Any:
    from gsched.app.sim.cluster import ClusterOrder

    return ClusterOrder(**{name: given[name] for name in _CLUSTER_NAMES})


def _rules_order(given: dict[str, Any]) -> Any:
    from gsched.app.sim.rules import RulesOrder
    from gsched.sim.rules import Power

    return RulesOrder(
        placement=given["placement"],
        slurm=given["slurm"],
        seed=given["seed"],
        launch_s=given["launch"],
        cleanup_s=given["cleanup"],
        checkpoint_s=given["checkpoint_cost"],
        restart_s=given["restart_cost"],
        restart_wide_s=given["restart_wide_cost"],
        restart_one_gpu_s=given["restart_one_gpu_cost"],
        round_s=given["round"],
        starvation_bound_s=given["starvation_bound"],
        mtbf_s=given["mtbf"],
        repair_s=given["repair"],
        checkpoint_every_s=given["checkpoint_every"],
        sharing=given["sharing"],
        sharing_gpu=given["sharing_gpu"],
        sharing_drawn=given["sharing_drawn"],
        min_speed=given["min_speed"],
        sleep_after_s=given["sleep_after"],
        wake_s=given["wake"],
        keep_awake=given["keep_awake"],
        power=Power(*given["node_watts"]),
    )
