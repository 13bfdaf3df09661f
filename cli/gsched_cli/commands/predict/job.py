"""`gsched predict job`: the prediction for one job, and what is behind it."""

from __future__ import annotations

import click

from gsched_cli.options import json_option, load_settings
from gsched_cli.output import emit_json


@click.command()
@click.argument("job")
@json_option
def job(job: str, as_json: bool) -> None:
    """Predict how long JOB runs, and show what makes the prediction.

    This is for who may read the model, which holds the job names of all users: the operator of
    gsched. Anybody may ask `gsched why JOB`, which tells what the daemon predicts.

    JOB is an id as squeue prints it: 48211, 48211_3, 48211+1. First come the prediction and the
    interval within which eight of ten such jobs end. Then what makes it: how long the model expects
    a typical job of the history to run, and by which factor each thing that is known of this job
    changes that (sampled Shapley values, ± their standard error). Caution is a factor on top where
    recent jobs of the user ran for much longer than predicted. Last come the similar past jobs.

    \b
    Example:
      gsched predict job 48211

    \b
    JSON:
      job, user, name, num_gpus, num_cpus, estimator, prediction, explanation, similar_jobs
      similar_jobs[]: job_id, name, end_time, duration_s, weight

    prediction has mean_s (with caution, by which queues are ordered), caution, quantiles_s (pairs
    of probability and seconds, without caution), source, similar_jobs, model_id and as_of.
    explanation has typical_s, contributions (name, factor, log_s, standard_error) and predicted_s:
    typical_s times all factors. It is null where the similar jobs alone make the prediction.
    """
    from gsched.app.job_prediction import predict_job
    from gsched_cli.predict_rows import print_prediction

    answer = predict_job(load_settings(), job)
    if as_json:
        emit_json(answer.document())
    else:
        print_prediction(answer)
