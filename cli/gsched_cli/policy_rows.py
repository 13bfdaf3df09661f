"""Policies as `gsched policy` shows them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gsched.policy.base import KnobSpec
from gsched.policy.registry import PolicyInfo
from gsched_cli.output import safe_text

LIST_HEADINGS = (
    "POLICY", "OBJECTIVE", "USE", "METHOD", "ORDER", "NEEDS", "RUNS", "EVIDENCE", "SUMMARY",
)  # fmt: skip


def list_row(info: PolicyInfo) -> tuple[str, ...]:
    """The cells of one policy."""
    axes = info.axes
    return (
        info.name,
        axes.objective.value if axes else "-",
        axes.resource_use.value if axes else "-",
        axes.method.value if axes else "-",
        info.order_kind.value if info.order_kind else "-",
        ", ".join(info.needs) or "-",
        _runs(info),
        axes.evidence.value if axes else "-",
        info.problem or info.summary,
    )


def lines(info: PolicyInfo) -> Iterator[str]:
    """Everything that is known of one policy, in words."""
    yield safe_text(f"{info.name}: {info.summary}")
    for line in info.description.splitlines():
        yield safe_text(f"  {line}" if line else line)
    told = {
        "requires": ", ".join(capability.value for capability in info.requires) or "-",
        "needs": ", ".join(info.needs) or "-",
        "runs": _runs(info),
        "order": info.order_kind.value if info.order_kind else "-",
        "origin": info.origin,
    }
    if info.axes:
        told |= {
            "objective": info.axes.objective.value,
            "use of GPUs": info.axes.resource_use.value,
            "method": info.axes.method.value,
            "evidence": info.axes.evidence.value,
            "source": info.axes.source,
        }
    for name, value in told.items():
        yield safe_text(f"  {name:<12} {value}")
    for knob in info.knobs:
        yield safe_text(
            f"  {'knob':<12} {knob.name}={knob.default:g} "
            f"({knob.minimum:g}..{knob.maximum:g} {knob.unit}): {knob.help}"
        )


def document(info: PolicyInfo) -> dict[str, Any]:
    """One policy as JSON."""
    axes = info.axes
    return {
        "name": info.name,
        "summary": info.summary,
        "objective": axes.objective.value if axes else None,
        "resource_use": axes.resource_use.value if axes else None,
        "method": axes.method.value if axes else None,
        "order": info.order_kind.value if info.order_kind else None,
        "requires": [capability.value for capability in info.requires],
        "needs": list(info.needs),
        "needs_prediction": info.needs_prediction,
        "live": info.is_live,
        "evidence": axes.evidence.value if axes else None,
        "source": axes.source if axes else None,
        "knobs": [_knob(knob) for knob in info.knobs],
        "origin": info.origin,
        "description": info.description,
        "problem": info.problem or None,
    }


def _knob(knob: KnobSpec) -> dict[str, Any]:
    return {
        "name": knob.name,
        "default": knob.default,
        "minimum": knob.minimum,
        "maximum": knob.maximum,
        "unit": knob.unit,
        "help": knob.help,
    }


def _runs(info: PolicyInfo) -> str:
    if info.problem:
        return "-"
    return "live" if info.is_live else "simulated"
