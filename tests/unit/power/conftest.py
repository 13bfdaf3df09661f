"""A site whose nodes are switched by a script that does what a test tells it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gsched.config.node_settings import PowerSettings
from gsched.config.power import parse_backends
from gsched.power.guard import Guard
from gsched.power.orders import Call, Result
from gsched.power.state import State, Store

SCRIPT = """#!/bin/sh
echo "begin $1 $2" >>{folder}/log
[ -e {folder}/$2 ] && . {folder}/$2
echo "end $1 $2" >>{folder}/log
"""


@dataclass
class PowerSite:
    folder: Path
    settings: PowerSettings

    @property
    def store(self) -> Store:
        return Store(self.folder / "state")

    @property
    def state(self) -> State:
        return self.store.read()

    def node(self, name: str, script: str) -> None:
        """What is run for a node between the lines of the log."""
        (self.folder / name).write_text(script + "\n")

    def call(self, verb: str, *names: str, guard: Guard | None = None) -> Result:
        return Call(self.settings, self.store, guard).carry_out(verb, names)

    def log(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def begun(self) -> list[str]:
        """Verb and node of each try."""
        return [line[6:] for line in self.log() if line.startswith("begin")]

    def set(self, **values: object) -> None:
        self.settings = replace(self.settings, **values)  # type: ignore[arg-type]


@pytest.fixture
def site(tmp_path: Path) -> PowerSite:
    script = tmp_path / "switch"
    script.write_text(SCRIPT.format(folder=tmp_path))
    script.chmod(0o755)
    commands = {verb: [str(script), verb, "%n"] for verb in ("suspend", "resume", "restart")}
    backends = parse_backends([{"nodes": ["gn[01-99]"], "kind": "command", **commands}])
    return PowerSite(tmp_path, PowerSettings(backoff_s=0.05, backends=backends))
