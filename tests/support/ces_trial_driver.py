"""Cluster energy saving on a compressed day: the daemon's own parts, with another clock.

    python -m support.ces_trial_driver VIRTUAL_START REAL_START SCALE LOG

Runs inside a testbed, with gsched.toml in GSCHED_CONFIG: looks at Slurm, tells the history what ran
and asks the NodeSaver, several times a second, until SIGTERM. Whatever Slurm says of times is told
in the clock's. A line a look goes to LOG.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path

from gsched.app.ces.foreseen import ForeseenDemand
from gsched.app.wiring import open_history
from gsched.config.loader import load
from gsched.daemon.helper_client import HelperClient
from gsched.daemon.look import Looker
from gsched.daemon.node_saver import NodeSaver, SaverParts, SaverSettings
from gsched.daemon.sightings import Sightings
from gsched.model.history import AttemptRecord, Batch
from gsched.power.state import Store
from gsched.slurm.client import CommandClient
from gsched_sql import History
from support.compressed_day import CompressedClock

LOOK_EVERY_S = 0.4
LONGEST_GAP_S = 10.0
HELPER_TIMEOUT_S = 30.0


def main() -> None:
    """Go on until SIGTERM."""
    start, real, scale = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    clock, log, ended = CompressedClock(start, real, scale), Path(sys.argv[4]), []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    settings = load()
    client = CommandClient(settings.slurm.command_timeout_s)
    config = client.config()
    looker, sightings = Looker(client, time.monotonic), Sightings(config.cluster)
    demand = ForeseenDemand(config.cluster, settings.ces)
    own = SaverSettings.of(settings)
    times = replace(  # what Slurm's commands take does not run faster
        own.times,
        order_life_s=round(own.times.order_life_s * scale),
        confirm_s=round(own.times.confirm_s * scale),
        step_s=round(own.times.step_s * scale),
        gap_s=round(LONGEST_GAP_S * scale),
    )
    with open_history(settings) as history, demand.running(), log.open("w") as out:
        saver = NodeSaver(
            SaverParts(
                log=history.power_log(config.cluster),
                helper=HelperClient(settings.helper_socket, HELPER_TIMEOUT_S),
                source=demand,
                read_nodes=client.node_facts,
                clock=lambda: int(clock.now()),
                new_id=lambda: uuid.uuid4().hex,
                failures=Store(settings.power_dir).glance,
                slurm_time=lambda epoch: int(clock.virtual(epoch)),
                stopwatch=lambda: time.monotonic() * scale,
            ),
            replace(own, times=times),
        )
        while not ended:
            began = time.monotonic()
            look = looker.look()
            keep(history, sightings.fresh(look.listing), clock)
            sightings.kept()
            saver.after_round(look, config, lambda: True)
            out.write(json.dumps({"at": clock.now(), **saver.document()}) + "\n")
            out.flush()
            time.sleep(max(0.0, began + LOOK_EVERY_S - time.monotonic()))


def keep(history: History, batch: Batch, clock: CompressedClock) -> None:
    """Tell the history what was seen, in the clock's time."""

    def virtual(epoch: int | None) -> int | None:
        return None if epoch is None else int(clock.virtual(epoch))

    def moved(record: AttemptRecord) -> AttemptRecord:
        return replace(
            record,
            submit_time=int(clock.virtual(record.submit_time)),
            eligible_time=virtual(record.eligible_time),
            start_time=virtual(record.start_time),
            end_time=virtual(record.end_time),
        )

    history.ingest(replace(batch, records=tuple(map(moved, batch.records))), source_key=None)


if __name__ == "__main__":
    main()
