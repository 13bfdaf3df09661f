"""What the process of a refit is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsched.app.refit import Refit
from gsched.config.settings import PredictSettings, Settings
from gsched.testbed.wait import wait_for


def test_it_has_the_settings_in_force_and_cannot_speak_for_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("SITE_OWN", "kept")
    refit = Refit()
    try:
        refit.start(Settings(state_dir=tmp_path, predict=PredictSettings(min_jobs=77)))
        environ = Path(f"/proc/{refit.pid}/environ")
        # the kernel tells it a little after the program has begun
        wait_for(lambda: bool(environ.read_bytes()), "its environment", timeout_s=60)
        found = environ.read_text().split("\0")
    finally:
        refit.end()
    given = dict(line.split("=", 1) for line in found if line)
    assert not {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} & given.keys()
    assert given["SITE_OWN"] == "kept"
    assert given["GSCHED_PREDICT_MIN_JOBS"] == "77"
    assert given["GSCHED_STATE_DIR"] == str(tmp_path)
