"""`gsched daemon status`: does a daemon run, and how?"""

from __future__ import annotations

from typing import Any

import click

from gsched_cli.options import json_option, load_settings_to_ask
from gsched_cli.output import duration, emit_json, emit_table, local_time


@click.command()
@json_option
def status(as_json: bool) -> None:
    """Show whether a daemon runs on this host, how, and what its last round did.

    The daemon itself is asked over its local socket (daemon.socket); where it does not answer, its
    files tell what they can, and `mode` is empty when its last round is long past. Only root and
    the daemon's own user see what errors say. A configuration that is broken by now is warned of;
    config_problem and config_in_force tell whether the daemon has tried it.

    The modes are act, observe, frozen (a window of daemon.freeze), halted (`gsched daemon clear`),
    off (daemon.kill_switch), control (daemon.control_interval_s), standby (another host's daemon
    leads) and waiting (what rounds need does not answer yet); `why` says more. In summary,
    `postponed` are writes left for a later round, `inversions` pairs of waiting jobs of which
    gsched puts the one first that Slurm, by its QOS or fair-share, would not. `model` tells of the
    run-time model: when the one in use was written, why it or its refits fail (`problem`, until it
    is mended), which one is pinned, on which jobs the daemon has fallen back to the rolling
    estimate (and since when), and how ended jobs compare with what was predicted (`off_by` is the
    median factor). `forecast` tells of the forecasts of when jobs will start: the newest one's
    time, of how many jobs, how often the process that makes them failed, and of the week's
    forecasts how many have met their truth (`known`) and how many of those jobs started within
    their interval (`covered`). `ces` is what `gsched ces status` shows.

    \b
    Example:
      gsched daemon status --json

    \b
    JSON:
      running, asked, pid, mode, why, started_at, uptime_s, policy, interval_s, last_round_s,
        timings_s, summary, next_round_at, failures, problem, last_errors, fence,
        config_read_at, config_in_force, config_problem, needs_restart, listeners, model,
        forecast, ces, halted, cluster, model_id, last_round_as_of, query_address,
        query_problem
      last_errors[]: at, message
    """
    from gsched.app.daemon_views import daemon_status

    settings, wrong = load_settings_to_ask()
    found = daemon_status(settings)
    if wrong is not None and not found["running"]:
        raise wrong  # it may run where the configuration says, if that could be read
    if as_json:
        emit_json(found)
        return
    rows = [
        (name.replace("_", " "), text)
        for name, value in found.items()
        for text in _texts(name, value)
    ]
    emit_table(["WHAT", "IS"], rows)


def _texts(name: str, value: Any) -> list[str]:
    """The lines of one thing."""
    if value is None or value == "" or value == [] or value == {}:
        return ["-"]
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    if name == "last_errors":
        return [f"{local_time(e['at'])} {e['message']}" for e in value]
    if name == "listeners":
        return [f"{what}: {k['address'] or k['problem']}" for what, k in value.items()]
    if name == "model":
        return _model_lines(value)
    if name == "forecast":
        return _forecast_lines(value)
    if name == "ces":
        return _ces_lines(value)
    if isinstance(value, list):
        return [", ".join(map(str, value))]
    if isinstance(value, dict):
        return [", ".join(f"{key} {_number(number)}" for key, number in value.items())]
    if name == "uptime_s":
        return [duration(value)]
    return [local_time(value) if name.endswith(("_at", "as_of")) else str(value)]


def _number(value: Any) -> str:
    return " ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else str(value)


def _model_lines(model: dict[str, Any]) -> list[str]:
    from gsched.daemon.model_facts import model_words

    written_at, words = model["written_at"], model_words(model)
    lines = [f"written {local_time(written_at)}"] if written_at else ["none"]
    lines += [text for text in (model.get("problem"), words) if text]
    for kind, told in model["compared"].items():
        factors = ", ".join(f"{name} ×{factor:.2f}" for name, factor in told["off_by"].items())
        lines.append(f"{kind}: {told['jobs']} ended jobs were predicted, off by {factors}")
    return lines


def _forecast_lines(told: dict[str, Any]) -> list[str]:
    made = f"made {local_time(told['as_of'])}, of {told['jobs']} waiting jobs"
    lines = [made if told["as_of"] else "none yet"]
    if told["problem"]:
        lines.append(told["problem"])
    if told["known"]:
        lines.append(f"{told['covered']} of {told['known']} came true within their interval")
    return lines


def _ces_lines(told: dict[str, Any]) -> list[str]:
    pools = told.get("pools") or []
    asleep, nodes = (sum(pool[key] for pool in pools) for key in ("asleep", "nodes"))
    lines = [f"{told['mode']}: {asleep} of {nodes} nodes asleep"]
    if told.get("problem"):
        lines.append(f"energy saving fails: {told['problem']}")
    return lines
