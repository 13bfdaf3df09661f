"""Templates of job scripts as `gsched jobscript` shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gsched.app.jobscript_check import Finding, Listed
from gsched.jobscript.templates import Key, Template
from gsched_cli.output import safe_text

LIST_HEADINGS = ("TEMPLATE", "FROM", "CHECKPOINTS", "HELP")


def list_row(listed: Listed) -> tuple[str, ...]:
    """The cells of one template."""
    found = listed.template
    if found is None:
        return listed.name, "-", "-", f"cannot be used: {listed.problem}"
    return found.name, "site" if found.is_site else "gsched", found.checkpoints, found.help


def list_document(listed: Listed) -> dict[str, Any]:
    """One template of the list as JSON; what is not known of a faulty one is null."""
    found = listed.template
    return {
        "name": listed.name,
        "help": found.help if found else None,
        "checkpoints": found.checkpoints if found else None,
        "path": str(found.path) if found else None,
        "is_site": found.is_site if found else None,
        "problem": listed.problem or None,
    }


def lines(template: Template) -> Iterator[str]:
    """One template in words."""
    yield safe_text(f"{template.name}: {template.help}")
    yield safe_text(f"  {'from':<12} {template.path}")
    yield safe_text(f"  {'checkpoints':<12} {template.checkpoints}")
    for key in template.keys:
        yield safe_text(f"  {key.name:<12} {key.help} [{_allowed(key)}]")


def document(template: Template) -> dict[str, Any]:
    """One template as JSON."""
    return {
        "name": template.name,
        "help": template.help,
        "checkpoints": template.checkpoints,
        "path": str(template.path),
        "is_site": template.is_site,
        "keys": [_key(key) for key in template.keys],
    }


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """What was tried, in words."""
    for found in findings:
        yield safe_text(f"{found.what}: {found.problem or 'ok'}")
        if found.hint:
            yield safe_text(f"  hint: {found.hint}")


def finding_document(found: Finding) -> dict[str, Any]:
    """One thing that was tried as JSON."""
    return {
        "what": found.what,
        "problem": found.problem or None,
        "hint": found.hint or None,
        "is_possible": found.is_possible,
    }


def _allowed(key: Key) -> str:
    """What a key may be, and what it is without being set."""
    if isinstance(key.default, bool):
        allowed = "yes or no"
    elif isinstance(key.default, int):
        ends = ["" if end is None else str(end) for end in (key.minimum, key.maximum)]
        allowed = "whole number" if ends == ["", ""] else "..".join(ends)
    else:
        allowed = ", ".join(key.choices) or "text"
    if key.required:
        return f"{allowed}; needed"
    default = "yes" if key.default is True else "no" if key.default is False else key.default
    return f"{allowed}; default {default}" if default != "" else allowed


def _key(key: Key) -> dict[str, Any]:
    return {
        "name": key.name,
        "help": key.help,
        "default": key.default,
        "minimum": key.minimum,
        "maximum": key.maximum,
        "choices": list(key.choices),
        "required": key.required,
        "needs_checkpoints": key.needs_checkpoints,
    }
