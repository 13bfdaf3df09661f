"""Every `--json` document has the keys that its manual page promises: scripts rely on them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator

import click
import pytest
from support.json_shape import block
from support.site import GSCHED, Site, fresh_site

from gsched.testbed.wait import wait_for
from gsched_cli.main import cli

pytestmark = pytest.mark.slurm

COMMANDS = (
    ("queue",),
    ("show", "3"),
    ("why", "3"),
    ("eff", "3"),
    ("history",),
    ("history", "--by", "user"),
    ("db", "init"),
    ("db", "ingest"),
    ("db", "stats"),
    ("predict", "train"),
    ("predict", "rollback", "--list"),
    ("predict", "fits"),
    ("predict", "job", "3"),
    ("jobscript", "list"),
    ("jobscript", "show", "requeue"),
    ("jobscript", "check"),
    ("policy", "list"),
    ("policy", "show", "edf"),
    ("power", "status"),
    ("power", "clear"),
    ("daemon", "once"),
    ("daemon", "status"),
    ("daemon", "audit"),
    ("daemon", "report"),
    ("daemon", "clear"),
    ("doctor",),
    ("testbed", "status"),
)


HEADINGS = {("history", "--by", "user"): "JSON with by"}
"""Commands with a second document, and its heading."""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Ten jobs that have run (one name would forge a record), and some that wait."""
    with fresh_site() as made:
        for number in range(11):
            made.submit(f"d{number % 3 + 1}", gpus=1)
        made.submit("x\nJobId=1 UserId=", gpus=1)
        wait_for(made.arm.is_done, "the history to end")
        made.gsched("db", "ingest")
        made.ok("predict", "train")
        made.queue_up([300, 5])
        made.gsched("daemon", "once")
        yield made


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_documented_keys_are_the_keys(site: Site, words: tuple[str, ...]) -> None:
    answer = site.gsched(*_here(site, words), "--json")
    document = json.loads(answer.stdout)
    assert block(document, HEADINGS.get(words, "JSON")) in inspect.cleandoc(_help(words))


def _here(site: Site, words: tuple[str, ...]) -> tuple[str, ...]:
    if words[0] == "testbed":
        return (*words, "--root", str(site.bed.spec.root))
    waiting = str(max(site.states()))
    return tuple(waiting if word == "3" else word for word in words)


def _help(words: tuple[str, ...]) -> str:
    command = cli
    with command.make_context("gsched", [], resilient_parsing=True) as context:
        for word in words:
            if word.startswith("-") or not isinstance(command, click.Group):
                break
            found = command.get_command(context, word)
            assert found is not None
            command = found
    return command.help or ""


READS = (*(c for c in COMMANDS if c[0] not in ("db", "daemon", "testbed") and c[1:] != ("train",)),
         ("daemon", "status"), ("cancel", "--dry-run", "3"))  # fmt: skip


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_a_closed_stdout_is_no_error(site: Site, words: tuple[str, ...]) -> None:
    for options in ((), ("--json",)):
        argv = [GSCHED, *_here(site, words), *options]
        opened = site.bed.run(argv)
        closed = site.bed.run(["/bin/sh", "-c", 'exec "$0" "$@" >&-', *argv])
        assert (closed.returncode, closed.stdout) == (opened.returncode, "")
        assert "error" not in closed.stderr
