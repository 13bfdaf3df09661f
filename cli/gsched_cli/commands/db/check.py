"""`gsched db check`: is the database what it should be?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from gsched.errors import EXIT_DATA
from gsched_cli.long_work import long_work
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import count, emit_json, emit_table, say

if TYPE_CHECKING:
    from gsched_sql.findings import Finding
    from gsched_sql.maintenance import CheckReport


@click.command()
@json_option
def check(as_json: bool) -> int:
    """Read all of the database and tell what is not as it should be. Nothing is changed.

    Looked at are the file, the schema, foreign keys, that each job is what its attempts make,
    texts and their keys, JSON, predictions, the journal, nodes that sleep, leases, samples and the
    sums of pruned jobs. Damage makes the exit code 65; notes (impossible times, conflicts, rejects,
    …) do not. On a server, the owner of the tables, auditors and writers can run it.

    \b
    Example:
      gsched db check

    \b
    JSON:
      location, schema, rows, is_damaged, findings
      findings[]: kind, is_error, count, meaning, advice, examples
    """
    from gsched_sql import maintenance

    settings = load_settings()
    with long_work() as tell:
        found = maintenance.check(
            settings.database_url, settings.phases.rules, int(time.time()), tell
        )
    if as_json:
        emit_json(
            {
                "location": found.location,
                "schema": found.schema,
                "rows": found.rows,
                "is_damaged": found.is_damaged,
                "findings": [_document(finding) for finding in found.findings],
            }
        )
    else:
        _show(found)
    return EXIT_DATA if found.is_damaged else 0


def _document(finding: Finding) -> dict[str, Any]:
    from gsched_sql.findings import KINDS

    kind = KINDS[finding.kind]
    return {
        "kind": finding.kind,
        "is_error": kind.is_error,
        "count": finding.count,
        "meaning": kind.meaning,
        "advice": kind.advice,
        "examples": list(finding.examples),
    }


def _show(found: CheckReport) -> None:
    documents = [_document(finding) for finding in found.findings]
    if documents:
        emit_table(
            ["WHAT", "", "COUNT", "MEANS"],
            [
                (d["kind"], "DAMAGE" if d["is_error"] else "note", count(d["count"]), d["meaning"])
                for d in documents
            ],
            right={2},
        )
    for document in documents:
        for example in document["examples"]:
            say(f"{document['kind']}: {example}")
        say(f"{document['kind']}: to do: {document['advice']}")
    rows = count(sum(found.rows.values()))
    verdict = "DAMAGED" if found.is_damaged else "sound"
    say(f"{found.location} is {verdict}: {rows} rows looked at (schema {found.schema})")
