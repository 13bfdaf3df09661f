"""`gsched show`: everything known of a job."""

from __future__ import annotations

import click

from gsched_cli import completion as complete
from gsched_cli.attempt_rows import ATTEMPT_COLUMNS, told_attempt_rows
from gsched_cli.options import json_option, load_settings, warn_of_other_clusters
from gsched_cli.output import emit_json, emit_table, say
from gsched_cli.progress_rows import loss_plot
from gsched_cli.show_rows import attempt_rows, fact_rows


@click.command()
@click.argument("job", shell_complete=complete.jobs)
@json_option
def show(job: str, as_json: bool) -> None:
    """Show what Slurm, the daemon and the history know of JOB.

    JOB is an id as squeue prints it: 48211, 48211_3, 48211+1; that of an array or het job means
    all of its parts. Where this host has no history database that you may read, past attempts are
    those that sacct shows to you.

    A training job that uses gsched's runtime tells how far it is: its steps, the loss of all its
    attempts as a plot (^ is where one went on from a checkpoint), and when it should be done, at
    its pace of the last ten minutes. A job that `gsched submit --gs-checkpoint` or --gs-runtime
    has submitted, or for which the site's task prolog is gsched's, has a table of its attempts:
    nodes, signals that came, how each ended; and a line for each node's GPUs, sampled each 15 s:
    the share of time in use, memory, power. That is the job's own word, and of an array each
    task's.

    \b
    Example:
      gsched show 48211

    \b
    JSON:
      job, slurm, parts, gsched, progress, attempts, gpus, progress_note, lease_end,
        history_source, history, history_note, requests
      parts[]: job, state, slurm_reason, num_tasks, node_list
      history[]: job, cluster, user, account, partition, qos, name, state, state_text,
        num_gpus, num_cpus, num_nodes, time_limit_s, submit_time, start_time, end_time,
        queueing_s, duration_s, gpu_time_s, cpu_time_s, phase, attempts
      requests[]: job, user, token, wants, unknown, first_seen

    \b
    JSON attempts:
      []: restart, heard_time, started_time, host, nodes, checkpoints, log, num_steps,
        num_ended_steps, signals, ended_time, exit_code, signal, is_running

    \b
    JSON gpus:
      []: node, index, uuid, name, utilisation, memory_used_bytes, memory_total_bytes,
        power_w, power_limit_w, temperature_c, num_processes, mean_utilisation,
        max_memory_used_bytes, busy_time, restart, started_time, written_time, is_running

    \b
    JSON progress:
      step, total_steps, step_time, eta_time, is_silent, iteration_s, loss, tokens_per_s,
        committed_step, first_step, written_time, ended_time, is_running, remaining_s, pace_s,
        bad_losses, tokens, checkpoint_dir, committed_time, restart, world_size, host,
        num_ranks_heard, behind, attempts, losses
      attempts[]: restart, first_step, last_step, started_time, step_time

    progress is null for a job that tells nothing, and where [heartbeat] dir is not set; losses are
    pairs of step and loss, at most 128. is_silent: no step has ended for five minutes and ten
    steps' time. behind is the rank (rank, host, step, step_time) that is not heard for longest.
    signals are pairs of a name and a time. An attempt that has no ended_time and does not run was
    lost with its node, or killed. utilisation is a GPU's last sample, mean_utilisation that of all
    samples since started_time, both 0 to 1; busy_time is when one last was not 0.

    A time_limit_s of null is unlimited, or unknown. gsched is the daemon's answer about a waiting
    job; of what there is none the key is absent: rank, reason, excluded, duration_s, start,
    no_start, next_free, changes (as_of, tried) and limit_advice, which `gsched why` explains; and
    lease, which a running job may have as well: state, since, end_time, beneficiary (the job for
    which it gives or gave its GPUs up), unsaved (at, why). A promised deadline is there as target:
    state (on-target, at-risk, late), deadlines (pairs of time and reward), finish_time and
    probability (as they are now), promised (finish_time, probability, time), budget_gpu_s,
    used_gpu_s, num_gpus, plan (start, end and GPUs of each part), plan_cut (later parts that are
    not told), remaining (mean_s, safe_s, quantile, source), risk (code, params), warned (level,
    time). outcomes have want, outcome (accepted, open, refused, unused), reason, and of a
    refused deadline earliest, why (code, params) and alternatives (kind, finish_time, num_gpus,
    probability). lease_end says of a job that was told to save at its lease's end, and ended of it,
    how it did; else it is null.
    """
    from gsched.app.show import show_job

    settings = load_settings()
    warn_of_other_clusters(settings)
    shown = show_job(settings, job)
    document = shown.document
    if as_json:
        emit_json(document)
        return
    emit_table(["WHAT", "IS"], fact_rows(shown))
    for line in loss_plot(document["progress"] or {}):
        print(line)
    if document["history"]:
        print()
        columns = ["JOBID", "ATTEMPT", "SUBMIT", "START", "RUN", "STATE"]
        attempts = [row for past in document["history"] for row in attempt_rows(past)]
        emit_table(columns, attempts, right={1, 4})
    if document["attempts"]:
        print()
        emit_table(ATTEMPT_COLUMNS, told_attempt_rows(document["attempts"], shown.at), right={0, 2})
    for note in filter(None, (document["progress_note"], document["history_note"])):
        say(note)
