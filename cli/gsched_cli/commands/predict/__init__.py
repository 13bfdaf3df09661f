"""`gsched predict`: the run-time predictor. One file a subcommand."""

from __future__ import annotations

import click

from gsched_cli.commands.predict.eval import evaluate
from gsched_cli.commands.predict.fits import fits
from gsched_cli.commands.predict.job import job
from gsched_cli.commands.predict.rollback import rollback
from gsched_cli.commands.predict.train import train


@click.group()
def predict() -> None:
    """Train the run-time predictor on the job history, ask it, and judge it.

    \b
    Example:
      gsched predict train
      gsched predict job 48211
      gsched predict eval --since 30d

    \b
    JSON:
      job, user, name, num_gpus, num_cpus, estimator, prediction, explanation, similar_jobs
      similar_jobs[]: job_id, name, end_time, duration_s, weight
    """


for _command in (train, job, evaluate, rollback, fits):
    predict.add_command(_command)
