"""One walk around a site: what is asked is asked once, and the whole has one time limit."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from gsched.app.user_names import user_name
from gsched.config.settings import Settings
from gsched.errors import TryAgainError
from gsched.slurm.client import CommandClient
from gsched.slurm.parse_config import parse_config
from gsched.slurm.records import SlurmConfig
from gsched.slurm.run import Completed, no_answer, run


class Walk:
    """The settings, and this host's Slurm under a client that only reads.

    After ``slurm.command_timeout_s`` seconds in all no more questions are asked.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.environ = environ
        self.clock = clock
        self._limit_s = settings.slurm.command_timeout_s
        self._until = time.monotonic() + self._limit_s
        self._answers: dict[tuple[str, ...], Completed | TryAgainError] = {}
        self.client = CommandClient(self._limit_s, asks_again=False, runner=self._run)

    @property
    def left_s(self) -> float:
        """Seconds that are left; never so few that a time-out would mean "do not wait at all"."""
        return max(0.1, self._until - time.monotonic())

    def output(self, *argv: str) -> str:
        """What a command of Slurm prints. Raises the errors of ``gsched.slurm.run``."""
        return self._run(argv, timeout_s=self._limit_s).check().stdout

    @cached_property
    def config(self) -> SlurmConfig:
        """Slurm's configuration in force. Raises the errors of ``gsched.slurm.run``."""
        return parse_config(self.output("scontrol", "show", "config"))

    @cached_property
    def partitions_text(self) -> str:
        """``scontrol show partition``: all of them."""
        return self.output("scontrol", "-a", "-o", "show", "partition")

    @cached_property
    def daemon_user(self) -> str:
        """Who the daemon runs as: the owner of the state folder, else this process's user."""
        try:
            uid = self.settings.state_dir.stat().st_uid
        except OSError:
            uid = os.geteuid()
        return user_name(uid)

    @property
    def is_of_the_daemon(self) -> bool:
        """Whether this process may see all that the daemon sees."""
        return os.geteuid() == 0 or user_name(os.geteuid()) == self.daemon_user

    def _run(self, argv: Sequence[str], *, stdin: str | None = None, timeout_s: float) -> Completed:
        key = tuple(argv)
        if key not in self._answers:
            self._answers[key] = self._ask(key, stdin, min(timeout_s, self.left_s))
        answer = self._answers[key]
        if isinstance(answer, TryAgainError):
            raise answer
        return answer

    def _ask(
        self, argv: tuple[str, ...], stdin: str | None, timeout_s: float
    ) -> Completed | TryAgainError:
        if time.monotonic() >= self._until:
            return no_answer(argv, self._limit_s)
        try:
            return run(argv, stdin=stdin, timeout_s=timeout_s, env=self.environ)
        except TryAgainError:
            return no_answer(argv, self._limit_s)
