"""A process that runs inside a testbed beside the commands: a daemon under trial."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from gsched.testbed.cluster import Testbed


class Background:
    """Start `argv` inside `bed`; what it prints goes to `log`. Ends it on leaving the block."""

    def __init__(
        self,
        bed: Testbed,
        argv: Sequence[str],
        log: Path,
        extra_env: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                list(argv),
                env=bed.env() | dict(extra_env or {}),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Background:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal (SIGKILL to see what survives)."""
        self.process.send_signal(number)

    def stop(self, wait_s: float = 20.0) -> int:
        """SIGTERM, then SIGKILL after `wait_s`; returns the exit status (negative: a signal)."""
        if self.is_running():
            self.process.terminate()
        try:
            return self.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def output(self) -> str:
        """What it has printed so far."""
        return self.log.read_text(errors="replace")
