"""Settings of Slurm's power programs while gsched.toml is wrong: nobody waits in vain."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from gsched.app.power_settings import keep, settings_to_resume, settings_to_suspend
from gsched.config import loader
from gsched.config.settings import Settings
from gsched.errors import ConfigError
from gsched.power.state import Store

TABLE = """
[[power.backends]]
nodes = ["gn*"]
kind = "command"
suspend = ["/bin/true"]
resume = ["/bin/true", "%n"]
"""
ELSEWHERE = ["[daemon]\nintervall_s = 5\n", "[nonsense]\n", "[ces]\nmode = 3\n"]
IN_POWER = ["[power.\n", "tries = 1000\n", 'kind = "nonsense"\n', "[daemon\n"]


@pytest.fixture
def site(tmp_path: Path):
    """Environment, and the file, which is well."""
    path = tmp_path / "gsched.toml"
    path.write_text(f'state_dir = "{tmp_path}"\n[power]\ntries = 7\n{TABLE}')
    return {"GSCHED_CONFIG": str(path)}, path


def wrong(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def state(path: Path):
    return Store(path.parent / "power").read()


@pytest.mark.parametrize("text", ELSEWHERE)
def test_a_mistake_in_another_table_is_told_and_not_heeded(site, text, caplog):
    environ, path = site
    right = loader.load(environ)
    wrong(path, text)
    for found in (settings_to_resume(environ), settings_to_suspend(["gn01"], environ)):
        assert (found.power, found.power_dir) == (right.power, right.power_dir)
    assert "the configuration is wrong, but not in [power]" in caplog.text


@pytest.mark.parametrize("text", IN_POWER)
def test_a_resume_goes_on_by_what_was_last_worked_by(site, text, caplog):
    environ, path = site
    right = settings_to_resume(environ)
    keep(right)
    kept = path.parent / "power" / "settings.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    wrong(path, text)
    found = settings_to_resume(environ)
    assert replace(found.power, state_dir="") == right.power
    assert found.power_dir == right.power_dir
    assert "by the settings of the last call" in caplog.text


@pytest.mark.parametrize("text", IN_POWER)
def test_a_suspend_is_refused_and_the_node_is_known_to_be_on(site, text):
    environ, path = site
    keep(loader.load(environ))
    wrong(path, text)
    with pytest.raises(ConfigError):
        settings_to_suspend(["gn01", "gn02"], environ)
    found = state(path)
    assert {n: (o.verb, o.outcome) for n, o in found.orders.items()} == {
        "gn01": ("suspend", "refused"), "gn02": ("suspend", "refused"),
    }  # fmt: skip
    assert "the settings were wrong" in found.orders["gn01"].error
    assert found.may_be_on("gn01", 1e10)
    assert found.failures == ()


def test_the_folder_of_a_file_that_cannot_be_read_comes_from_the_environment(site):
    environ, path = site
    keep(loader.load(environ))
    path.write_bytes(b"\xff\xfe")
    environ["GSCHED_STATE_DIR"] = str(path.parent / "other")
    with pytest.raises(ConfigError, match="not UTF-8"):
        settings_to_resume(environ)
    environ["GSCHED_POWER_STATE_DIR"] = str(path.parent / "power")
    assert settings_to_resume(environ).power.tries == 7


@pytest.mark.parametrize("how", ["none", "damaged", "writable", "folder", "foreign"])
def test_what_others_may_have_written_is_not_obeyed(site, how):
    environ, path = site
    folder = path.parent / "power"
    folder.mkdir(mode=0o755)
    kept = folder / "settings.json"
    if how != "none":
        keep(loader.load(environ))
    if how == "damaged":
        kept.write_text('{"backends": 3}')
    elif how == "writable":
        kept.chmod(0o666)
    elif how == "folder":
        folder.chmod(0o777)
    elif how == "foreign":
        if os.geteuid() != 0:
            pytest.skip("it needs root to be others")
        os.chown(kept, 5, 60)
    wrong(path, IN_POWER[0])
    with pytest.raises(ConfigError, match="not valid TOML"):
        settings_to_resume(environ)


def test_a_copy_of_a_later_release_is_read(site):
    environ, path = site
    settings = loader.load(environ)
    keep(settings)
    kept = path.parent / "power" / "settings.json"
    document = json.loads(kept.read_text())
    kept.write_text(json.dumps({**document, "of a later release": 1}))
    wrong(path, IN_POWER[0])
    assert replace(settings_to_resume(environ).power, state_dir="") == settings.power


def test_what_cannot_be_kept_ends_nothing(tmp_path: Path, caplog):
    (tmp_path / "power").write_text("no folder")
    keep(replace(Settings(), state_dir=tmp_path))
    assert "the settings are not kept" in caplog.text
