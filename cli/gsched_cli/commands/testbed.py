"""`gsched testbed`: a private real Slurm on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from gsched.errors import EXIT_REFUSED, UsageError
from gsched_cli.options import json_option
from gsched_cli.output import emit_json, emit_table, say

DEFAULT_NAME = "default"

_WHERE = (
    click.option("--name", help=f"Name of the testbed [{DEFAULT_NAME}]."),
    click.option("--root", type=click.Path(path_type=Path), help="Its folder, instead of a name."),
)
_WHAT = (
    click.option("-N", "--nodes", "num_nodes", type=int, help="Virtual nodes [4]."),
    click.option("--gpus-per-node", type=int, help="GPUs of a node, 0 for none [8]."),
    click.option("--gpu-type", help="Type of the GPUs [a100]."),
    click.option(
        "--accounting",
        type=click.Choice(["filetxt", "slurmdbd", "none"]),
        help="Record of finished jobs: a text file, slurmdbd with MariaDB, none [filetxt].",
    ),
    click.option(
        "--scheduler",
        type=click.Choice(["sched/backfill", "sched/builtin"]),
        help="SchedulerType [sched/backfill].",
    ),
    click.option("--port", "base_port", type=int, help="First TCP port [found by itself]."),
    click.option(
        "--conf",
        "extra_conf",
        multiple=True,
        metavar="KEY=VALUE",
        help="Line of slurm.conf in place of the testbed's own; may be repeated.",
    ),
)


def _options(*groups: tuple[Callable[[Any], Any], ...]) -> Callable[[Any], Any]:
    def decorate(command: Any) -> Any:
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return decorate


@click.group()
def testbed() -> None:
    """Run a private real Slurm on this machine, with virtual GPU nodes.

    All of it lies in one folder and listens on 127.0.0.1 only; nothing in /etc is touched. Started
    by root it serves the users games, news, backup and mail as well.

    \b
    Example:
      gsched testbed run -- sinfo
    """


@testbed.command()
@_options(_WHERE, _WHAT)
def start(name: str | None, root: Path | None, **wanted: Any) -> None:
    """Start a testbed that stays, and print what to export for using it.

    \b
    Example:
      eval "$(gsched testbed start --nodes 8)" && sinfo
    """
    from gsched.testbed.cluster import Testbed
    from gsched.testbed.environment import exports
    from gsched.testbed.spec import TestbedSpec

    bed = Testbed(TestbedSpec(root=_root(name, root), **_given(wanted)))
    started = bed.start(stays=True)
    if started.cleared:
        say(f"ended {started.cleared} processes that an earlier testbed had left")
    say(
        f"testbed {bed.spec.root} runs already"
        if started.already_running
        else f"testbed {bed.spec.root}: {bed.spec.num_nodes} nodes up in {started.duration_s:.1f} s"
    )
    for variable, value in exports(bed.layout).items():
        click.echo(f"export {variable}={shlex.quote(value)}")


@testbed.command()
@_options(_WHERE)
@json_option
def status(name: str | None, root: Path | None, as_json: bool) -> int:
    """Show what runs of a testbed; exit code 3 unless all of it does.

    \b
    Example:
      gsched testbed status --json

    \b
    JSON:
      root, state, slurm_conf, gsched_config, base_port, spec, processes, nodes
      processes[]: pid, program, command
    """
    from gsched.testbed.cluster import look_at

    found = look_at(_root(name, root))
    if as_json:
        emit_json(found.to_json())
    else:
        say(f"testbed {found.root} is {found.state}")
        nodes = [(node, "node", state) for node, state in found.nodes.items()]
        daemons = [(p.program, str(p.pid), " ".join(p.argv)) for p in found.processes]
        if nodes or daemons:
            emit_table(["WHAT", "PID", "STATE OR COMMAND"], daemons + nodes)
    return 0 if found.state == "running" else EXIT_REFUSED


@testbed.command()
@_options(_WHERE)
@click.option("--remove", is_flag=True, help="Delete its folder as well: logs, history, database.")
def stop(name: str | None, root: Path | None, remove: bool) -> None:
    """Cancel a testbed's jobs and end all its processes.

    \b
    Example:
      gsched testbed stop --remove
    """
    from gsched.testbed.cluster import Testbed

    bed = Testbed.existing(_root(name, root))
    ended = bed.stop()
    say(f"testbed {bed.spec.root} stopped" if ended else f"testbed {bed.spec.root} did not run")
    if remove:
        bed.remove()


@testbed.command(context_settings={"allow_interspersed_args": False})
@_options(_WHERE, _WHAT)
@click.argument("command", nargs=-1, required=True, metavar="-- COMMAND [ARGS]...")
def run(name: str | None, root: Path | None, command: tuple[str, ...], **wanted: Any) -> int:
    """Run a command inside a testbed; its exit code is passed on.

    The testbed is a fresh one, which is stopped and removed afterwards, whatever happens. With
    --name or --root it is one that runs already and is left running.

    \b
    Example:
      gsched testbed run --nodes 8 -- sbatch --wait --wrap hostname
    """
    from gsched.testbed.cluster import Testbed
    from gsched.testbed.session import run_in_existing, run_in_temporary

    given = _given(wanted)
    if name is None and root is None:
        return run_in_temporary(command, given, say)
    if given:
        raise UsageError(
            "a testbed that runs already cannot be given other nodes, ports or lines",
            "leave out --name and --root for a fresh one",
        )
    return run_in_existing(command, Testbed.existing(_root(name, root)))


@testbed.command()
@click.option("--jobs", "num_jobs", type=click.IntRange(10, 500), help="Jobs that compete [80].")
@click.option("--seed", type=int, help="Another workload of the same kind.")
def demo(num_jobs: int | None, seed: int | None) -> None:
    """Watch the main job, in under two minutes: history, model, order, before and after.

    Two private clusters get the same jobs at the same moment; on one of them gsched's daemon
    orders the queue. Both are gone afterwards.

    \b
    Example:
      gsched testbed demo
    """
    from gsched.app.demo import Demo, DemoOptions

    given = _given({"num_jobs": num_jobs, "seed": seed})
    Demo(DemoOptions(**given)).run()


def _root(name: str | None, root: Path | None) -> Path:
    from gsched.testbed.layout import default_root

    if root is None:
        return default_root(name or DEFAULT_NAME)
    if name is not None:
        raise UsageError("--name and --root both say which testbed is meant", "give one of them")
    return root.absolute()


def _given(wanted: dict[str, Any]) -> dict[str, Any]:
    """Fields of TestbedSpec that the command line sets; the others keep their defaults."""
    return {field: value for field, value in wanted.items() if value not in (None, ())}
