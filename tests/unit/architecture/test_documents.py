"""README, ARCHITECTURE and the build say what is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from gsched_cli.main import COMMANDS

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_readmes_two_commands_exist_and_ci_runs_its_tests():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    shown = re.findall(r"^make (\w+)$", README, re.MULTILINE)
    assert shown == ["demo", "test"]
    for target in shown:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    assert "part make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_commands_in_the_readme_exist():
    named = set(re.findall(r"\bgsched ([a-z]+)\b", "\n".join(code_of(README))))
    assert named
    assert named <= COMMANDS.keys()


@pytest.mark.parametrize("text", [README, ARCHITECTURE], ids=["README", "ARCHITECTURE"])
def test_links_lead_somewhere(text):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (ROOT / target).exists(), target


def test_files_that_the_architecture_names_exist():
    places = [
        ROOT,
        ROOT / "lib" / "gsched",
        ROOT / "cli",
        ROOT / "cli" / "gsched_cli",
        ROOT / "sql",
    ]
    for name in re.findall(r"`([\w./-]+/[\w.-]+\.(?:py|toml))`", ARCHITECTURE):
        assert "NAME" in name or any((place / name).exists() for place in places), name


def test_every_room_is_in_the_architecture():
    rooms = {path.name for path in (ROOT / "lib" / "gsched").iterdir() if path.is_dir()}
    drawn = set(re.findall(r"^  (\w+)/ ", ARCHITECTURE, re.MULTILINE))
    assert rooms - {"__pycache__"} <= drawn


def test_the_layers_drawn_are_the_layers_linted():
    contracts = PYPROJECT["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    assert "\n".join(layers) in ARCHITECTURE


def code_of(text):
    """The fenced blocks and the inline code of a document."""
    return re.findall(r"```\n(.*?)```", text, re.DOTALL) + re.findall(r"`([^`\n]+)`", text)
