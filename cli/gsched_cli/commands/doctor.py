"""`gsched doctor`: checks, each with its mend."""

from __future__ import annotations

from dataclasses import asdict

import click

from gsched_cli.options import json_option
from gsched_cli.output import emit_json, safe_text


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Check configuration, Slurm, privileges, database, model and daemon; say how to mend each.

    Nothing is changed, and Slurm is asked for at most slurm.command_timeout_s. Findings are notes
    (to live with), warnings, and failures that keep gsched from acting: then it exits with 78. What
    only root and the daemon's user can see is said to be so.

    \b
    Example:
      gsched doctor

    \b
    JSON:
      []: level, code, what, found, mend
    """
    from gsched.app.doctor import examine
    from gsched.errors import EXIT_CONFIG

    findings = examine()
    if as_json:
        emit_json([asdict(f) for f in findings])
    else:
        for f in findings:
            print(f"{f.level:<5} {f.what}: {safe_text(f.found)}")
            if f.mend and f.level != "ok":
                print(f"      → {safe_text(f.mend)}")
    if any(f.level == "fail" for f in findings):
        raise SystemExit(EXIT_CONFIG)
