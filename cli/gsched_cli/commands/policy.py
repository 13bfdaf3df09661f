"""`gsched policy`: the scheduling policies."""

from __future__ import annotations

import click

from gsched_cli import completion as complete
from gsched_cli.options import json_option, load_settings, warn_of_other_clusters
from gsched_cli.output import emit_json, emit_table, safe_text


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
    """List the policies, and where each one stands.

    OBJECTIVE is what a policy is after; USE is how jobs use GPUs; METHOD is how it decides. ORDER
    says what its order depends on: the job alone (static), the clock too (time) or the other jobs
    as well (state). NEEDS is what must be there: a history of jobs to predict from, jobs that save
    checkpoints, an oracle that knows the true run times. RUNS says whether it can run live, or in
    the simulator alone. EVIDENCE is the size of the largest physical cluster on which its source
    shows it: S up to 30 GPUs, M up to 60, L up to 120, XL more.

    The setting daemon.policy chooses one, daemon.knobs sets its knobs; `gsched policy show` has
    both in words.

    \b
    Example:
      gsched policy list --json

    \b
    JSON:
      policies
      policies[]: name, summary, objective, resource_use, method, order, requires, needs,
        needs_prediction, live, evidence, source, knobs, origin, description, problem
    """
    from gsched.policy.registry import describe_all
    from gsched_cli.policy_rows import LIST_HEADINGS, document, list_row

    policies = describe_all()
    if as_json:
        emit_json({"policies": [document(info) for info in policies]})
        return
    emit_table(LIST_HEADINGS, [list_row(info) for info in policies])


@policy.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show one policy: what it does, where it comes from, and its knobs.

    \b
    Example:
      gsched policy show tiresias

    \b
    JSON:
      name, summary, objective, resource_use, method, order, requires, needs,
        needs_prediction, live, evidence, source, knobs, origin, description, problem
      knobs[]: name, default, minimum, maximum, unit, help
    """
    from gsched.policy.registry import describe
    from gsched_cli.policy_rows import document, lines

    info = describe(name)
    if as_json:
        emit_json(document(info))
        return
    for line in lines(info):
        click.echo(line)


@policy.command()
@click.argument("job", shell_complete=complete.jobs)
@json_option
def explain(job: str, as_json: bool) -> None:
    """Explain how the policy has decided about JOB, and what would have changed that.

    As the gsched daemon's last round has it. Of the policy unisched: whether the job gets GPUs now
    and on which nodes, what a lease counts for it in points, and, for one that waits, three single
    changes: how many points it would need, which those are that count whoever would have to go for
    it; with how many GPUs it would have started; and by when enough leases end for it to fit. Other
    policies tell the reason of the job's place alone. `gsched why` has what else holds a job back.

    \b
    Example:
      gsched policy explain 48211

    \b
    JSON:
      job, state, rank, reason, lines
      lines[]: what, words

    reason has code and params, among them of unisched is_chosen, points, needed_points (0: nobody
    can make room), fits_gpus (0: none), chance_time (epoch seconds, 0: not known) and where.
    """
    from gsched.app.policy_explain import explain_choice

    settings = load_settings()
    warn_of_other_clusters(settings)
    answer = explain_choice(settings, job)
    if as_json:
        emit_json(answer.document())
        return
    click.echo(safe_text(f"{answer.job} {answer.state}"))
    for what, words in answer.lines:
        click.echo(safe_text(f"  {what:<14}{words}"))
