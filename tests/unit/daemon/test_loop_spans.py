"""What the loop tells of a round for the spans of ``gsched daemon report``."""

from __future__ import annotations

from pathlib import Path

from support.loops import daemon_in


def test_what_was_only_observed_is_no_write(tmp_path: Path) -> None:
    with daemon_in(tmp_path, acting=False) as daemon:
        assert len(daemon.loop.once().changes) == 2
        assert daemon.spans == [("observe", "qssf", 0)]


def test_what_was_sent_is_a_write_once(tmp_path: Path) -> None:
    with daemon_in(tmp_path, acting=True) as daemon:
        daemon.loop.once()
        daemon.loop.once()
        assert daemon.spans == [("act", "qssf", 2), ("act", "qssf", 0)]
