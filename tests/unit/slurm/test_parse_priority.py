"""sprio's output."""

from __future__ import annotations

import pytest

from gsched.errors import DataError
from gsched.slurm.parse_priority import parse_priorities, sprio_format
from gsched.slurm.parse_queue import parse_free_text

SEPARATOR = "\x1ftest\x1e"


@pytest.fixture
def by_name(recorded, separator):
    names = parse_free_text(recorded("squeue-text.txt"), separator)
    rows = parse_priorities(recorded("sprio.txt"), separator)
    return {names[raw_id].name: row for raw_id, row in rows.items()}


def row(*fields):
    text = "".join(f"{field}{SEPARATOR}" for field in fields) + "\n"
    return next(iter(parse_priorities(text, SEPARATOR).values()))


def test_components_and_their_sum(by_name):
    shown = by_name["two-nodes"]
    assert shown.components["partition"] == 1_000_000
    assert shown.components["tres"] == 1001  # cpu=1,gres/gpu=1000: the component is a list
    assert abs(shown.total - sum(shown.components.values())) <= len(shown.components)
    assert (shown.site_factor, shown.nice, shown.is_manual) == (0, 0, False)


def test_site_factor_and_nice(by_name):
    shown = by_name["moved"]
    assert (shown.site_factor, shown.nice) == (-250, 40)
    assert shown.total == 1_000_000 - 250 - 40
    assert not shown.is_manual


def test_a_priority_set_by_an_admin(by_name):
    assert by_name["manual"].is_manual
    assert by_name["manual"].total == 4242
    assert by_name["manual-site"].is_manual
    assert [name for name, shown in by_name.items() if shown.is_manual] == ["manual", "manual-site"]


def test_a_job_that_sank_to_the_floor_is_not_manual(by_name):
    assert (by_name["sunk"].total, by_name["sunk"].site_factor) == (1, -2_000_000)
    assert not by_name["sunk"].is_manual


def test_a_job_in_two_partitions_is_one_job_with_its_best_total(by_name, recorded, separator):
    shown = by_name["mixed-types"]
    lines = [line for line in recorded("sprio.txt").split("\n")
             if line.startswith(f"{shown.raw_id}{separator}")]  # fmt: skip
    assert len(lines) == 2
    assert shown.total == max(int(line.split(separator)[1]) for line in lines)


def test_the_best_total_counts_whatever_the_order():
    lines = [SEPARATOR.join(["7", total, "0", "0", *["0"] * 6, ""]) + SEPARATOR + "\n"
             for total in ("50", "70", "60")]  # fmt: skip
    assert parse_priorities("".join(lines), SEPARATOR)[7].total == 70


def test_held_jobs_are_absent(by_name):
    assert "high" not in by_name


def test_all_weights_zero_is_not_manual():
    """Slurm gives every job priority 1 then."""
    assert not row(7, 1, 0, 0, 0, 0, 0, 0, 0, 0, "").is_manual
    assert not row(7, 500, 500, 0, 0, 0, 0, 0, 0, 0, "").is_manual
    assert not row(7, 400, 500, 100, 0, 0, 0, 0, 0, 0, "").is_manual
    assert row(7, 77, 0, 0, 0, 0, 0, 0, 0, 0, "").is_manual


def test_seven_factors_that_were_rounded_away_are_not_manual():
    assert not row(7, 8, 0, 0, 0, 0, 0, 0, 0, 0, "").is_manual
    assert row(7, 9, 0, 0, 0, 0, 0, 0, 0, 0, "").is_manual


def test_tres_components_as_a_number_list_or_nothing():
    assert row(7, 1, 0, 0, 0, 0, 0, 0, 0, 0, "cpu=2,gres/gpu:a100=2.5").components["tres"] == 4
    assert row(7, 1, 0, 0, 0, 0, 0, 0, 0, 0, "").components["tres"] == 0


@pytest.mark.parametrize(
    "text",
    [
        SEPARATOR.join(["7", "1", "0", "0"]) + SEPARATOR,
        SEPARATOR.join(["7", "1", "0", "0"]) + SEPARATOR + "\n",
        SEPARATOR.join(["x", "1", "0", "0", *["0"] * 6, ""]) + SEPARATOR + "\n",
        SEPARATOR.join(["7", "1", "", "0", *["0"] * 6, ""]) + SEPARATOR + "\n",
    ],
)
def test_an_output_in_disorder_is_an_error(text):
    with pytest.raises(DataError, match=r"sprio gave|cut short"):
        parse_priorities(text, SEPARATOR)


def test_the_format_names_each_column_once():
    assert sprio_format("|") == "%i|%Y|%S|%N|%A|%B|%F|%J|%P|%Q|%T|"
