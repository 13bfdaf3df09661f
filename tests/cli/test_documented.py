"""What the manual says is what the code has."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support.history import attempt

from gsched.app import waste
from gsched.model.past import history_document, logical_jobs
from gsched_cli.commands.eff import eff
from gsched_cli.commands.history import history


def words_of(command):
    return " ".join((command.help or "").split())


def test_every_threshold_of_waste_is_in_the_help_of_eff():
    text = words_of(eff)
    for words in (
        f"at least {waste.LONG_S // 60} minutes and a tenth of the run",
        f"GPUs used less than {waste.LOW_SHARE:.0%}".replace("%", " %"),
        f"less than {waste.NOTHING_SHARE:.0%} with GPUs".replace("%", " %"),
        f"less than {waste.LOW_MEMORY:.0%} used of".replace("%", " %"),
        f"at least {waste.SMALL_MEMORY // 2**30} GiB of memory",
        f"less than {waste.LOW_LIMIT:.0%} was needed".replace("%", " %"),
        f"at least {waste.SHORT_LIMIT_S // 3600} hour was not",
    ):
        assert words in text


def test_the_keys_of_attempts_are_in_the_help_of_history():
    (job,) = logical_jobs([attempt()])
    text = words_of(history).partition("Each of attempts,")[2].partition("JSON with by")[0]
    told = text.replace(",", " ").replace(".", " ").split()
    assert set(history_document(job)["attempts"][0]) <= set(told)


@pytest.mark.parametrize("module", ["gsched_cli", "gsched_cli.main"])
def test_the_program_can_be_run_as_a_module(module):
    done = subprocess.run(
        [sys.executable, "-m", module, "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("gsched ")
