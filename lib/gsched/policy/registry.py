"""Policies by name: a literal table, then the entry points ``gsched.policies`` of plugins."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gsched.errors import ConfigError
from gsched.model.job import Capability
from gsched.model.targets import TargetRules
from gsched.policy.axes import Axes
from gsched.policy.base import KnobSpec, OrderKind, Policy
from gsched.policy.scoped import Scoped

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

POLICIES: dict[str, str] = {
    "qssf": "gsched.policy.qssf:Qssf",
    "fifo": "gsched.policy.fifo:Fifo",
    "fewest-gpus": "gsched.policy.fewest_gpus:FewestGpus",
    "sjf": "gsched.policy.sjf:Sjf",
    "srtf": "gsched.policy.srtf:Srtf",
    "edf": "gsched.policy.edf:Edf",
    "multifactor": "gsched.policy.multifactor:Multifactor",
    "fair-tree": "gsched.policy.fair_tree:FairTree",
    "yarn-cs": "gsched.policy.yarn_cs:YarnCs",
    "tiresias": "gsched.policy.tiresias:Tiresias",
    "tiresias-l": "gsched.policy.tiresias_l:TiresiasL",
    "themis": "gsched.policy.themis:Themis",
    "gandiva-fair": "gsched.policy.gandiva_fair:GandivaFair",
    "chronus": "gsched.policy.chronus:Chronus",
    "unisched": "gsched.policy.unisched:UniSched",
    "ltgf": "gsched.policy.ltgf:Ltgf",
    "allox": "gsched.policy.allox:Allox",
    "optimus": "gsched.policy.optimus:Optimus",
}
"""Name → ``module:Class`` of the policies that gsched brings along."""

ENTRY_POINT_GROUP = "gsched.policies"

_PLUGIN_HINT = "mend or uninstall the package that provides it"
_KNOBS_HINT = "see `gsched policy list --json` for knobs and bounds"


@dataclass(frozen=True, slots=True)
class SiteFacts:
    """What a policy may know of its site beside the jobs: see ``Policy.takes``.

    `quotas` are GPUs by tenant, None where all have equal ones; `gpu_weights` the worth of GPUs by
    type, 1 where not named; `target_rules` who may have deadlines promised.
    """

    quotas: Mapping[str, float] | None = None
    gpu_weights: Mapping[str, float] = field(default_factory=dict)
    target_rules: TargetRules = field(default_factory=TargetRules)

    def told(self, wanted: Collection[str]) -> dict[str, Any]:
        """As keyword arguments, what is among `wanted`."""
        all_facts = {
            "quotas": self.quotas,
            "gpu_weights": self.gpu_weights,
            "target_rules": self.target_rules,
        }
        return {name: fact for name, fact in all_facts.items() if name in wanted}


@dataclass(frozen=True, slots=True)
class PolicyInfo:
    """What ``gsched policy list`` says of one policy.

    `origin` is the module it comes from, `description` what that says of itself. A plugin that
    cannot be loaded has `problem` set and nothing else to tell.
    """

    name: str
    summary: str
    order_kind: OrderKind | None
    requires: tuple[Capability, ...]
    needs_prediction: bool
    knobs: tuple[KnobSpec, ...]
    origin: str
    axes: Axes | None = None
    description: str = ""
    problem: str = ""

    @property
    def needs(self) -> tuple[str, ...]:
        """What has to be there: a history of jobs, jobs that save checkpoints, an oracle."""
        needs = {
            "history": self.needs_prediction,
            "checkpoint": Capability.PREEMPT in self.requires,
            "oracle": Capability.ORACLE in self.requires,
        }
        return tuple(need for need, is_needed in needs.items() if is_needed)

    @property
    def is_live(self) -> bool:
        """Whether it could run on a live cluster, not in the simulator alone."""
        return not self.problem and Capability.ORACLE not in self.requires


def load(name: str, site: SiteFacts | None = None, /, **knobs: float) -> Policy:
    """The policy `name` with these knob values, and with what it takes of the site.

    Raises ConfigError for an unknown name, a wrong knob or a broken plugin.
    """
    policy_class = _find(name)
    told = {} if site is None else site.told(policy_class.takes)
    try:
        return policy_class(**told, **knobs)
    except ValueError as e:
        raise ConfigError(str(e), _KNOBS_HINT) from e
    except Exception as e:  # a plugin's own constructor
        raise ConfigError(
            f"policy {name} cannot be made: {type(e).__name__}: {e}", _PLUGIN_HINT
        ) from e


def load_scoped(
    default: str,
    scope: Mapping[str, str],
    knobs: Mapping[str, float],
    site: SiteFacts | None = None,
) -> Policy:
    """The policy `default`, with those of single partitions that `scope` (partition → name) names.

    Each gets those of `knobs` that it has, and what it takes of the site. Raises ConfigError as
    `load` does, and for a knob that none of them has.
    """
    names = dict.fromkeys([default, *scope.values()])
    if len(names) == 1:
        return load(default, site, **knobs)
    has = {name: {spec.name for spec in _find(name).knobs} for name in names}
    unknown = sorted(knobs.keys() - set().union(*has.values()))
    if unknown:
        raise ConfigError(
            f"none of the policies {', '.join(names)} has a knob {unknown[0]!r}", _KNOBS_HINT
        )
    policies = {
        name: load(name, site, **{knob: v for knob, v in knobs.items() if knob in has[name]})
        for name in names
    }
    return Scoped(policies[default], {part: policies[name] for part, name in scope.items()})


def takes(names: Iterable[str]) -> frozenset[str]:
    """What of the site any of these policies takes. Raises ConfigError as `load` does."""
    return frozenset().union(*(_find(name).takes for name in names))


def check(policy: Policy, capabilities: Collection[Capability]) -> None:
    """Refuse a policy that needs what the backend lacks. Raises ConfigError naming both."""
    missing = sorted(c.value for c in policy.requires.difference(capabilities))
    if missing:
        raise ConfigError(
            f"policy {policy.name} needs {', '.join(missing)}, which this cluster does not offer",
            "choose another policy: `gsched policy list` shows what each one needs"
            + ("; what needs an oracle runs in `gsched sim` alone" if "oracle" in missing else ""),
        )


def describe(name: str) -> PolicyInfo:
    """One policy. Raises ConfigError for an unknown name or a broken plugin."""
    return _describe(name, _find(name))


def describe_all() -> tuple[PolicyInfo, ...]:
    """Every known policy: gsched's own in the order of the table, then plugins by name."""
    own = [_describe(name, _import(name, target)) for name, target in POLICIES.items()]
    plugins = []
    for entry in sorted(_plugins(), key=lambda e: e.name):
        try:
            plugins.append(_describe(entry.name, _load_plugin(entry)))
        except ConfigError as e:
            plugins.append(_unusable(entry, e.message))
    return (*own, *plugins)


def _find(name: str) -> type[Policy]:
    if name in POLICIES:
        return _import(name, POLICIES[name])
    plugins = {entry.name: entry for entry in _plugins()}
    if name in plugins:
        return _load_plugin(plugins[name])
    known = ", ".join([*POLICIES, *sorted(plugins)])
    raise ConfigError(f"no policy is called {name!r}", f"known policies: {known}")


def _import(name: str, target: str) -> type[Policy]:
    module_name, _, class_name = target.partition(":")
    return _as_policy(name, getattr(importlib.import_module(module_name), class_name))


def _plugins() -> Iterator[EntryPoint]:
    """Entry points that do not hide behind one of gsched's own names."""
    from importlib.metadata import entry_points  # slow; only for names outside the table

    return (e for e in entry_points(group=ENTRY_POINT_GROUP) if e.name not in POLICIES)


def _load_plugin(entry: EntryPoint) -> type[Policy]:
    try:
        return _as_policy(entry.name, entry.load())
    except ConfigError:
        raise
    except Exception as e:  # importing runs code of others, which may raise anything
        raise ConfigError(
            f"policy plugin {entry.name} ({entry.value}) cannot be loaded: {type(e).__name__}: {e}",
            _PLUGIN_HINT,
        ) from e


def _as_policy(name: str, found: object) -> type[Policy]:
    if not (isinstance(found, type) and issubclass(found, Policy)):
        raise ConfigError(f"policy {name} is not a subclass of gsched.policy.base.Policy")
    told = {"name": str, "summary": str, "requires": frozenset, "order_kind": OrderKind}
    missing = [what for what, kind in told.items() if not isinstance(getattr(found, what, 0), kind)]
    is_static = getattr(found, "order_kind", None) is OrderKind.STATIC
    if is_static and found.static_key is Policy.static_key:
        missing.append("static_key")
    if missing or inspect.isabstract(found):
        what = ", ".join(missing or sorted(found.__abstractmethods__))
        raise ConfigError(f"policy {name} lacks {what}", _PLUGIN_HINT)
    return found


def _describe(name: str, policy: type[Policy]) -> PolicyInfo:
    return PolicyInfo(
        name=name,
        summary=policy.summary,
        order_kind=policy.order_kind,
        requires=tuple(sorted(policy.requires, key=lambda c: c.value)),
        needs_prediction=policy.needs_prediction,
        knobs=policy.knobs,
        origin=policy.__module__,
        axes=policy.axes,
        description=inspect.getdoc(sys.modules[policy.__module__]) or "",
    )


def _unusable(entry: EntryPoint, problem: str) -> PolicyInfo:
    return PolicyInfo(entry.name, "", None, (), False, (), entry.value, problem=problem)
