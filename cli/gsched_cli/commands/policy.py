"""`gsched policy`: the scheduling policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gsched_cli.options import json_option
from gsched_cli.output import emit_json, emit_table

if TYPE_CHECKING:
    from gsched.policy.registry import PolicyInfo


@click.group()
def policy() -> None:
    """List and explain the scheduling policies.

    \b
    Example:
      gsched policy list
    """


@policy.command(name="list")
@json_option
def list_(as_json: bool) -> None:
    """List the policies: what they order by, what they need, and their knobs.

    ORDER says what the order depends on: the job alone (static), the clock too (time) or the other
    jobs as well (state). The setting daemon.policy chooses one, daemon.knobs sets its knobs.

    \b
    Example:
      gsched policy list --json

    \b
    JSON:
      policies
      policies[]: name, summary, order, requires, needs_prediction, knobs, origin, problem
    """
    from gsched.policy.registry import describe_all

    policies = describe_all()
    if as_json:
        emit_json({"policies": [_document(info) for info in policies]})
        return
    emit_table(
        ["POLICY", "ORDER", "NEEDS", "KNOBS", "SUMMARY"],
        [
            (
                info.name,
                info.order_kind.value if info.order_kind else "-",
                ", ".join(_needs(info)) or "-",
                ", ".join(f"{knob.name}={knob.default:g}" for knob in info.knobs) or "-",
                info.problem or info.summary,
            )
            for info in policies
        ],
    )


def _needs(info: PolicyInfo) -> list[str]:
    needs = [capability.value for capability in info.requires]
    return [*needs, "prediction"] if info.needs_prediction else needs


def _document(info: PolicyInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "summary": info.summary,
        "order": info.order_kind.value if info.order_kind else None,
        "requires": [capability.value for capability in info.requires],
        "needs_prediction": info.needs_prediction,
        "knobs": [
            {
                "name": knob.name,
                "default": knob.default,
                "minimum": knob.minimum,
                "maximum": knob.maximum,
                "unit": knob.unit,
                "help": knob.help,
            }
            for knob in info.knobs
        ],
        "origin": info.origin,
        "problem": info.problem or None,
    }
