"""`gsched jobscript`: the templates of job scripts."""

from __future__ import annotations

import click

from gsched.errors import EXIT_CONFIG
from gsched_cli import completion as complete
from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json, emit_table


@click.group()
def jobscript() -> None:
    """List, show and check the templates of job scripts.

    `gsched submit --gs-runtime NAME,key=value` wraps a script by one of them; --gs-checkpoint alone
    takes requeue, for a job array array. A file NAME.sh.j2 in jobscript.dir is a template of the
    site's own, or stands in for gsched's of the same name; gsched-jobscripts(7) tells how to write
    one.

    \b
    Example:
      gsched jobscript list
    """


@jobscript.command(name="list")
@json_option
def list_(as_json: bool) -> None:
    """List the templates.

    CHECKPOINTS says whether a job of the template has a folder for checkpoints: always, where
    --gs-checkpoint asks for it, or never.

    \b
    Example:
      gsched jobscript list --json

    \b
    JSON:
      templates
      templates[]: name, help, checkpoints, path, is_site, problem
    """
    from gsched.app.jobscript_check import templates
    from gsched_cli.jobscript_rows import LIST_HEADINGS, list_document, list_row

    found = templates(load_settings())
    if as_json:
        emit_json({"templates": [list_document(listed) for listed in found]})
        return
    emit_table(LIST_HEADINGS, [list_row(listed) for listed in found])


@jobscript.command()
@click.argument("name", shell_complete=complete.templates)
@click.option("--source", is_flag=True, help="Print the template itself.")
@json_option
def show(name: str, source: bool, as_json: bool) -> None:
    """Show one template: what it is for, and the keys that --gs-runtime NAME,key=value may set.

    What a template makes of a script is shown by `gsched submit --gs-dry-run`.

    \b
    Example:
      gsched jobscript show requeue

    \b
    JSON:
      name, help, checkpoints, path, is_site, keys
      keys[]: name, help, default, minimum, maximum, choices, required, needs_checkpoints
    """
    from gsched.app.jobscript_check import template
    from gsched_cli.jobscript_rows import document, lines

    found = template(load_settings(), name)
    if as_json:
        emit_json(document(found))
    elif source:
        click.echo(found.source, nl=False)
    else:
        for line in lines(found):
            click.echo(line)


@jobscript.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete.templates)
@click.option(
    "-p", "--partition", default="", help="Also start gsched on a node of it, by a short job.",
    shell_complete=complete.partitions,
)  # fmt: skip
@json_option
def check(names: tuple[str, ...], partition: str, as_json: bool) -> int:
    """Check the templates, or those named, and the Python that runs gsched on compute nodes.

    Each template is rendered for sample scripts, and a shell reads what comes out. The exit code is
    78 where something is wrong; what only may be wrong, as seen from this host, does not count.

    \b
    Example:
      gsched jobscript check -p gpu

    \b
    JSON:
      findings
      findings[]: what, problem, hint, is_possible
    """
    from gsched.app.jobscript_check import check as found_by
    from gsched_cli.jobscript_rows import finding_document, finding_lines

    found = list(found_by(load_settings(), names, partition))
    if as_json:
        emit_json({"findings": [finding_document(one) for one in found]})
    else:
        for line in finding_lines(found):
            click.echo(line)
    return EXIT_CONFIG if any(one.problem and not one.is_possible for one in found) else 0
