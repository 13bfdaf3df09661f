"""The units: what systemd itself says of them, and that what they name is there."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import sandbox

from gsched.config.loader import known_keys, variable

ROOT = Path(__file__).parents[3]
UNITS = ROOT / "slurm_plugins" / "systemd"
SERVICES = sorted(path.name for path in UNITS.glob("*.service"))
TIMERS = sorted(path.name for path in UNITS.glob("*.timer"))
SANDBOX = UNITS / "gsched-.service.d" / "10-sandbox.conf"
FORECAST = UNITS / "gsched-daemon.service.d" / "20-forecast.conf"
MOST_EXPOSED = {"gsched-daemon.service": 14}
"""Tenths of systemd's exposure level (0 to 10), others 12; the drop-ins say what is left."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The units as a package would install them, with this gsched and a user that exists."""
    folder = tmp_path_factory.mktemp("units")
    shutil.copytree(UNITS, folder, dirs_exist_ok=True)
    programs = Path(sys.executable).parent
    for path in folder.glob("*.service"):
        text = path.read_text().replace("=/usr/bin/gsched", f"={programs}/gsched")
        path.write_text(re.sub(r"^(User|Group)=.*", r"\1=games", text, flags=re.MULTILINE))
    return folder


def analyze(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SYSTEMD_UNIT_PATH": f"{folder}:", "LC_ALL": "C.UTF-8"},
    )


def options(name: str) -> dict[str, list[str]]:
    """Every value of every key of a unit; a key may come more than once."""
    found: dict[str, list[str]] = {}
    for line in (UNITS / name).read_text().splitlines():
        key, mark, value = line.partition("=")
        if mark and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


def test_systemd_finds_nothing_wrong(installed: Path) -> None:
    paths = [str(installed / name) for name in (*SERVICES, *TIMERS)]
    found = analyze(installed, "verify", "--man=no", *paths)
    assert (found.returncode, found.stdout + found.stderr) == (0, "")


def test_systemd_would_find_what_is_wrong(installed: Path, tmp_path: Path) -> None:
    broken = tmp_path / "gsched-daemon.service"
    text = (installed / "gsched-daemon.service").read_text()
    broken.write_text(text.replace("WatchdogSec=15min", "WatchdogSec=soon"))
    found = analyze(tmp_path, "verify", "--man=no", str(broken))
    assert "soon" in found.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_the_sandbox_is_as_narrow_as_slurms_commands_allow(
    installed: Path, tmp_path: Path, name: str
) -> None:
    words = ("security", "--offline=true", f"--threshold={MOST_EXPOSED.get(name, 12)}")
    found = analyze(installed, *words, str(installed / name))
    assert found.returncode == 0, found.stdout[-2000:]
    shutil.copy(installed / name, tmp_path)  # without the drop-in
    assert analyze(tmp_path, *words, str(tmp_path / name)).returncode != 0


@pytest.mark.parametrize("name", [*SERVICES, *TIMERS])
def test_the_pages_that_a_unit_names_are_there(name: str) -> None:
    for page in " ".join(options(name)["Documentation"]).split():
        match = re.fullmatch(r"man:([\w.-]+)\((\d)\)", page)
        assert match, page
        assert (ROOT / "man" / f"man{match[2]}" / f"{match[1]}.{match[2]}").is_file(), page


def test_observing_is_the_default_and_acting_one_variable() -> None:
    service = options("gsched-daemon.service")
    assert service["ExecStart"] == ["/usr/bin/gsched daemon run $GSCHED_RUN_OPTIONS"]
    assert "Environment" not in service
    assert (service["Type"], service["NotifyAccess"]) == (["notify"], ["main"])
    assert service["User"] == ["gsched"]


def test_variables_that_units_use_are_no_settings() -> None:
    """The loader would call an unknown setting an error."""
    tables = {variable(key).rsplit("_", 1)[0] for key in known_keys()}
    for path in UNITS.glob("*.service"):
        for name in re.findall(r"\$(GSCHED_\w+)", path.read_text()):
            assert not any(name.startswith(f"{table}_") for table in tables), name


@pytest.mark.parametrize("name", TIMERS)
def test_each_timer_has_its_service_and_a_time(name: str) -> None:
    assert (UNITS / name).with_suffix(".service").is_file()
    (calendar,) = options(name)["OnCalendar"]
    found = analyze(UNITS, "calendar", calendar)
    assert found.returncode == 0, found.stderr


COMPILES = """
import os
import numba
os.nice(10)
print(numba.njit(lambda x: x + 1)(1))
"""


@pytest.mark.parametrize(("files", "can"), [([SANDBOX], False), ([SANDBOX, FORECAST], True)])
def test_the_daemons_sandbox_lets_forecasts_be_compiled_and_stand_back(
    tmp_path: Path, files: list[Path], can: bool
) -> None:
    calls = tmp_path / "allowed"
    calls.write_text(sandbox.filter_text(files))
    ran = subprocess.run(
        [sys.executable, sandbox.__file__, str(calls), sys.executable, "-c", COMPILES],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout == "2\n") == can, ran.stderr


def test_the_sandbox_says_each_thing_once() -> None:
    text = SANDBOX.read_text()
    parsed = configparser.ConfigParser(strict=False)
    parsed.read_string(text)
    keys = re.findall(r"^(\w+)=", text, flags=re.MULTILINE)
    assert sorted({k for k in keys if keys.count(k) > 1}) == ["SystemCallFilter"]


@pytest.mark.parametrize(
    ("program", "option", "name"),
    [
        ("systemd-sysusers", "--dry-run", "sysusers.d-gsched.conf"),
        ("systemd-tmpfiles", "--create", "tmpfiles.d-gsched.conf"),
    ],
)
def test_users_and_folders_are_understood(
    tmp_path: Path, program: str, option: str, name: str
) -> None:
    (tmp_path / "etc").mkdir()
    users = "root:x:0:0::/:/bin/sh\ngsched:x:991:991::/:/bin/sh\n"
    (tmp_path / "etc" / "passwd").write_text(users)
    (tmp_path / "etc" / "group").write_text("root:x:0:\ngsched:x:991:\n")
    found = subprocess.run(
        [program, option, f"--root={tmp_path}", str(UNITS / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    if option == "--create":
        modes = {p: (tmp_path / p).stat().st_mode & 0o777 for p in ("etc/gsched", "var/lib/gsched")}
        assert modes == {"etc/gsched": 0o755, "var/lib/gsched": 0o755}
