"""What a gsched of schema 0002 was told, and what it had written: data for tests of migrations.

``data/history/0002.json`` holds the rows of all tables of a database that gsched 0.1 (schema
0002) made of `records()`, `rejects()`, and some work of its daemon. A database of schema 0001 has
the same rows but for the table `requests`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, MetaData, insert

from gsched.model.history import AttemptRecord, Reject, Tres
from gsched.model.job import JobState
from gsched_sql.engine import writing
from support.history import attempt, pending, running

ROWS = Path(__file__).parents[1] / "data" / "history" / "0002.json"


def records() -> list[AttemptRecord]:
    """Jobs of every kind: none of them is told of twice with equal claims and other values."""
    odd = (Tres("license/a=b,c%d", 3), Tres("cpu", 8), Tres("gres/gpu:a100", 2))
    return [
        attempt(1),
        attempt(2, state=JobState.REQUEUED),  # requeued, preempted, then done
        attempt(2, 1119, state=JobState.PREEMPTED),
        attempt(2, 1240, num_cpus=None, user=None),
        attempt(3, state=JobState.NODE_FAIL, node_list="n[1-3,7],gpu01", num_nodes=5),
        attempt(4, array_task=0),
        attempt(4, array_task=7, state=JobState.TIMEOUT),
        attempt(5, het_offset=0, partition="gpu,cpu"),
        attempt(5, het_offset=1, num_gpus=0, allocated=odd),
        attempt(6, 1000),  # an id that is used again
        attempt(6, 90_000, user="bob", tenant="lab2", name="other-20240131"),
        attempt(7, state=JobState.CANCELLED, num_nodes=0, node_list=None),
        attempt(8, state=JobState.CANCELLED, state_text="CANCELLED by 1001"),
        attempt(9, source="jobcomp", num_gpus=None, allocated=(), qos=None),
        running(9),  # a weaker source completes what the stronger leaves open
        running(10),
        pending(11),
        attempt(12, state=JobState.UNKNOWN, state_text="NEW\x00STATE"),
        attempt(13, start_time=1200),  # the clock went back
        attempt(14, name="two\nlines \ue000 \U0001f525 \udcff"),
        attempt(15, num_gpus=None, num_cpus=None, allocated=()),
        attempt(16, node_list="no[host list"),
        attempt(1, cluster="beta", name=None, qos=None, tenant=None),
        *(attempt(100 + n, 1000 + n, name=f"train-{n % 7}") for n in range(30)),
    ]


def rejects() -> list[Reject]:
    """Rows that no reader has understood."""
    return [Reject("sacct", 3, "no submit time", "7|x|\x00")]


def make(engine: Engine, revision: str) -> None:
    """Make a database of an old schema with the data in it: after 0002 by way of that one."""
    _migrate(engine, min(revision, "0002"))
    tables = MetaData()
    tables.reflect(engine)
    with engine.begin() as conn:
        for name, rows in old_rows(revision).items():
            for row in rows:
                conn.execute(insert(tables.tables[name]).values(row))
    _migrate(engine, revision)


def _migrate(engine: Engine, revision: str) -> None:
    with writing(engine) as conn:
        config = Config()
        config.set_main_option("script_location", str(files("gsched_sql") / "migrations"))
        config.attributes["connection"] = conn
        command.upgrade(config, revision)


def old_rows(revision: str) -> dict[str, Sequence[dict[str, Any]]]:
    """The rows by table, a table after those that it refers to."""
    rows: dict[str, Sequence[dict[str, Any]]] = json.loads(ROWS.read_text("ascii"))
    if revision == "0001":
        del rows["requests"]
    return rows
