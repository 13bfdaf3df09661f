"""Settings of energy saving that a reload refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.queue import node, partition

from gsched.app.daemon_saver import check_names
from gsched.config.node_settings import CesTable
from gsched.daemon.look import Description, Look
from gsched.errors import ConfigError
from gsched.slurm.records import QueueListing

TABLE = CesTable(mode="observe", exclude_nodes=("gn01",), least_idle={"gpu": 1})


def look() -> Look:
    described = Description((node("gn01"),), (partition("gpu", ("gn01",)),), (), frozenset())
    return Look((), {}, {}, QueueListing((), ()), described, True)


@pytest.mark.parametrize(
    "wrong",
    [{"exclude_nodes": ("gn1",)}, {"partitions": ("gpu", "cpu")}, {"least_idle": {"gpus": 1}}],
)
def test_names_that_slurm_does_not_know_are_refused_once_it_was_looked_at(wrong):
    check_names(TABLE, look())
    check_names(replace(TABLE, **wrong), None)
    check_names(replace(TABLE, mode="off", **wrong), look())
    with pytest.raises(ConfigError, match="Slurm knows no"):
        check_names(replace(TABLE, **wrong), look())
