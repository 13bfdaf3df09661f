"""A private real Slurm on this machine: start, stop, look at and use it."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType

import gsched
from gsched.errors import TryAgainError, UnavailableError, UsageError
from gsched.testbed import conf, database, environment, processes
from gsched.testbed.layout import (
    Layout,
    Owner,
    Record,
    check_reachable,
    claim,
    exclusive,
    read_record,
    remove,
    write_record,
)
from gsched.testbed.ports import Ports, reserve
from gsched.testbed.spec import TestbedSpec
from gsched.testbed.wait import wait_for
