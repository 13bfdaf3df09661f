"""`gsched sim`: some policies over the same past jobs, and what is written of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gsched.app.sim import inputs as sim_inputs
from gsched.app.sim import predictions as sim_predictions
from gsched.app.sim.cluster import ClusterOrder, Fitted, fit
from gsched.app.sim.estimates import ROLLING
from gsched.app.sim.left_out import much_left_out
from gsched.app.sim.per_job import writing_jobs
from gsched.app.sim.quotas import QuotasInUse, quota_words, quotas_in_use
from gsched.app.sim.report import PolicyRuns, SimReport
from gsched.app.sim.rules import RulesOrder, limit_words
from gsched.app.wiring import now
from gsched.config.settings import Settings
from gsched.errors import UnavailableError, UsageError
from gsched.model.job import Capability
from gsched.model.jobtable import JobTable
from gsched.model.progress import Progress
from gsched.policy.base import Policy
from gsched.policy.order_form import Misfit
from gsched.policy.registry import SiteFacts, check, load
from gsched.sim.backend import CAPABILITIES
from gsched.sim.jobs import ANY, SimJobs
from gsched.sim.metrics import Metrics, summarise
from gsched.sim.result import SimResult
from gsched.sim.run import simulate
from gsched.traces.source import flows, open_trace

if TYPE_CHECKING:
    from gsched.app.trace_formats import TraceOptions
    from gsched.sim.rules import Sharing

MAX_SEEDS = 1000


@dataclass(frozen=True, slots=True)
class SimOrder:
    """What a command line asks for.

    `policies` are written ``NAME[:KNOB=VALUE]…``; the first is what others are compared with. The
    jobs are those of `files`, as `told` explains them, else those of `cluster_name` in the history
    database; those first submitted in `window`. Run times are predicted by `estimator` (MODEL or
    ROLLING), or read from the file `predictions`. `quotas` are GPUs by tenant, instead of those of
    the settings or of this Slurm. Raises UsageError where the parts do not fit together.
    """

    policies: Sequence[str]
    files: Sequence[str]
    told: TraceOptions | None
    cluster_name: str | None
    window: tuple[int | None, int | None] = (None, None)
    cluster: ClusterOrder = field(default_factory=ClusterOrder)
    rules: RulesOrder = field(default_factory=RulesOrder)
    seeds: int = 1
    estimator: str = ROLLING
    predictions: Path | None = None
    quotas: Mapping[str, float] = field(default_factory=dict)
    per_job: Path | None = None
    html: Path | None = None
    figures: Path | None = None
    force: bool = False

    def __post_init__(self) -> None:
        if self.files and self.told is None:
            for name in self.files:
                if not flows(name):
                    open_trace(name).close()  # that it is not there is the nearer reason
            raise UsageError("what are these files?", "say --format; `--help` lists the formats")
        if self.told is not None and not self.files:
            raise UsageError("--format without files", "name files, or - for standard input")
        if not self.files and self.window[0] is None:
            raise UsageError(
                "which jobs?",
                "--since 30d takes those of the history database; or name files and their --format",
            )
        if None not in self.window and self.window[0] >= self.window[1]:  # type: ignore[operator]
            raise UsageError("--since is not before --until")
        if self.seeds > 1 and not self.rules.has_chance:
            raise UsageError(
                "--seeds: nothing here depends on chance",
                "failures (--mtbf) and --sharing-drawn do",
            )


@dataclass(frozen=True, eq=False)
class Simulated:
    """What came of an order; `interrupted` by Ctrl-C, the report has the part that was finished.

    `report` is None where nothing was. `written` are the files and pages, by name; `warnings` tell
    what may not be as intended.
    """

    report: SimReport | None
    interrupted: bool
    written: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()


def parse_policy(text: str, site: SiteFacts | None = None) -> tuple[str, Policy]:
    """Label and policy of ``NAME[:KNOB=VALUE]…``. Raises UsageError or ConfigError."""
    name, *parts = text.strip().split(":")
    knobs = {}
    for part in parts:
        knob, _, value = part.partition("=")
        try:
            knobs[knob.strip()] = float(value)
        except ValueError:
            raise UsageError(
                f"policy {text[:80]!r}: {part[:40]!r} is no knob with a number",
                "write NAME:KNOB=VALUE, as fifo or qssf:span_octaves=4",
            ) from None
    policy = load(name, site, **knobs)
    return text.strip(), policy


def run(order: SimOrder, settings: Settings, told: Progress) -> Simulated:
    """Simulate the order, write its files, and report.

    Raises what reading and fitting raise, before anything is written.
    """
    names = [text.partition(":")[0].strip() for text in order.policies]
    quotas = quotas_in_use(order.quotas, settings, live=order.cluster.live, policies=names)
    site = SiteFacts(quotas.gpus or None, settings.fairness.gpu_weights)
    policies = dict(parse_policy(text, site) for text in order.policies)
    for policy in policies.values():
        check(policy, CAPABILITIES)
        order.rules.check(policy)
    for folder in filter(None, (order.html, order.figures)):
        _make_folder(folder)
    if not order.force:
        _keep_old(order)
    with writing_jobs(order.per_job, replace=order.force) as write_jobs:
        world = _prepare(order, settings, policies, quotas, told)
        runs: dict[str, list[Metrics]] = {}
        interrupted = False
        try:
            for label, result in _results(order, world, policies, told):
                interrupted |= result.interrupted
                if result.interrupted and runs:
                    break  # beside finished ones, a part of a policy's jobs would mislead
                runs.setdefault(label, []).append(summarise(result, site))
                write_jobs(label, result)
        except KeyboardInterrupt:  # between two simulations
            interrupted = True
    found = _complete(runs, order.seeds)
    report = _report(order, world, policies, found)
    return Simulated(report, interrupted, tuple(_written(order, report)), world.warnings)


@dataclass(frozen=True, eq=False)
class _World:
    """Everything that is the same for all policies."""

    past: sim_inputs.Past
    fitted: Fitted
    jobs: SimJobs
    sharing: Sharing | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


def _prepare(
    order: SimOrder,
    settings: Settings,
    policies: dict[str, Policy],
    quotas: QuotasInUse,
    told: Progress,
) -> _World:
    sharing = order.rules.pairs()
    if order.told is None:
        past = sim_inputs.read_history(settings, order.cluster_name, order.window, now())
    else:
        past = sim_inputs.read_files(order.files, order.told, order.window, told)
    chosen = sim_inputs.choose(past)
    fitted = fit(chosen, order.cluster, settings)
    notes = [*past.notes, *fitted.notes]
    jobs = fitted.jobs
    rules = order.rules.rules(jobs, sharing)
    if order.predictions is not None:
        predicted, words = sim_predictions.read_predictions(order.predictions, fitted)
    elif any(_needs_prediction(policy) for policy in policies.values()):
        predicted, words = sim_predictions.predicted(
            fitted, past.earlier(), rules, settings.predict, order.estimator, told
        )
    else:
        predicted, words = jobs.predicted_duration_s, ""
    jobs = replace(jobs, predicted_duration_s=predicted)
    with_classes, shared = order.rules.shared(jobs, sharing, order.rules.seed)
    backfills = order.rules.slurm or any(map(_backfills, policies.values()))
    limits = limit_words(jobs) if backfills else ""
    told_quotas = quota_words(quotas, policies.values())
    told_notes = (*notes, *filter(None, (words, shared, limits, told_quotas)), _SHARED_NOTES)
    left_out = much_left_out(fitted.chosen.left_out, chosen.gpu_time_s)
    warnings = (*filter(None, (left_out,)), *_few_told(order, with_classes))
    return _World(past, fitted, jobs, sharing, told_notes, warnings)


def _few_told(order: SimOrder, jobs: SimJobs) -> Iterator[str]:
    """Warnings of files that tell of less than half of the jobs."""
    known = {
        order.predictions: ~np.isnan(jobs.predicted_duration_s),
        order.rules.sharing: jobs.share_class != ANY,
    }
    for source, is_known in known.items():
        if source is not None and is_known.mean() < 0.5:
            yield f"{source} tells of {is_known.sum():,} of {len(jobs):,} jobs only"


_SHARED_NOTES = (
    "A job counts from its first submission, with the run time of all its attempts; the cluster "
    "is empty at the beginning."
)


def _needs_prediction(policy: Policy) -> bool:
    by_remainder = policy.reads_progress  # of which a predicted duration is one source
    return (policy.needs_prediction or by_remainder) and Capability.ORACLE not in policy.requires


def _backfills(policy: Policy) -> bool:
    form = policy.order_form(JobTable.from_views([]))
    return form is not None and form.discipline.misfit is Misfit.BACKFILL


def _results(
    order: SimOrder, world: _World, policies: dict[str, Policy], told: Progress
) -> Iterator[tuple[str, SimResult]]:
    """Policy by policy, seed by seed; ends with the first interrupted one."""
    for label, policy in policies.items():
        for seed in range(order.rules.seed, order.rules.seed + order.seeds):
            rules = replace(order.rules, seed=seed).rules(world.jobs, world.sharing)
            jobs, _ = order.rules.shared(world.jobs, world.sharing, seed)
            what = label if order.seeds == 1 else f"{label}, seed {seed}"
            result = simulate(jobs, world.fitted.cluster, policy, rules, _named(told, what))
            yield label, result
            if result.interrupted:
                return


def _named(told: Progress, what: str) -> Progress:
    return lambda words, rows: told(f"{what}: {words}", rows)


def _complete(runs: dict[str, list[Metrics]], seeds: int) -> dict[str, list[Metrics]]:
    """Those policies that have all their seeds; where none has, what the first one has."""
    done = {label: found for label, found in runs.items() if len(found) == seeds}
    return done or runs


def _report(
    order: SimOrder, world: _World, policies: dict[str, Policy], runs: dict[str, list[Metrics]]
) -> SimReport | None:
    if not runs:
        return None
    return SimReport(
        source=world.past.source,
        left_out=world.fitted.chosen.left_out,
        notes=world.notes,
        cluster=world.fitted.cluster,
        rules=order.rules.rules(world.jobs, world.sharing),
        policies=[PolicyRuns(label, policies[label], found) for label, found in runs.items()],
    )


def _written(order: SimOrder, report: SimReport | None) -> Iterator[Path]:
    """Write page and figures; gives what was written."""
    if order.per_job is not None:
        yield order.per_job
    if report is None:
        return
    if order.html is not None:
        from gsched.app.sim.page import write_page

        yield write_page(order.html, report)
    if order.figures is not None:
        from gsched.app.sim.figures import write_figures

        yield from write_figures(order.figures, report)


def _keep_old(order: SimOrder) -> None:
    """Raises UsageError for a page or figures that are there: before the long work, not after."""
    paths: list[Path] = []
    if order.html is not None:
        from gsched.app.html_page import NAME

        paths.append(order.html / NAME)
    if order.figures is not None:
        from gsched.app.sim.figures import file_names

        paths += [order.figures / name for name in file_names()]
    for path in paths:
        if os.path.lexists(path):
            raise UsageError(f"{path} exists", "choose another folder, or --force to replace it")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnavailableError(f"cannot make the folder {folder}: {error.strerror}") from error
