"""Heartbeats made by hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gsched.telemetry.heartbeat_file import HeartbeatRecord
from gsched.telemetry.heartbeat_writer import HeartbeatFile
from gsched.telemetry.loss_curve import LossCurve
from gsched.telemetry.own_folder import OwnFolder


def record(**facts: Any) -> HeartbeatRecord:
    """Job 7 in the midst of a thousand steps of half a second, unless `facts` differ."""
    usual: dict[str, Any] = {
        "run": "0123456789ab",
        "seq": 0,
        "job": "7",
        "restart": 0,
        "rank": 0,
        "world_size": 1,
        "host": "gn01",
        "started_time": 4800.0,
        "written_time": 5000.0,
        "step_time": 5000.0,
        "first_step": 0,
        "step": 400,
        "total_steps": 1000,
        "pace_s": 0.5,
    }
    return HeartbeatRecord(**(usual | facts))


def tell(folder: Path, told: HeartbeatRecord, curve: LossCurve | None = None) -> Path:
    """Write a heartbeat as the calling user; its file."""
    file = HeartbeatFile(OwnFolder(folder, os.getuid()), told.job, told.rank)
    assert file.write(told, curve)
    return file.path
