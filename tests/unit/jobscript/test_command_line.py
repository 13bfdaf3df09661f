from __future__ import annotations

import pytest

from gsched.jobscript.command_line import SBATCH, SCANCEL, Kind, scan


def brief(args, grammar=SBATCH):
    return [(word.kind.value, word.name, word.value) for word in scan(args, grammar)]


def script(args):
    return next((word.name for word in scan(args, SBATCH) if word.kind is Kind.OPERAND), None)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["train.sh"], "train.sh"),
        (["-p", "gpu", "train.sh"], "train.sh"),
        (["-pgpu", "train.sh"], "train.sh"),
        (["-Hp", "gpu", "train.sh"], "train.sh"),
        (["-Hpgpu", "train.sh"], "train.sh"),
        (["--partition", "gpu", "train.sh"], "train.sh"),
        (["--partition=gpu", "train.sh"], "train.sh"),
        (["--part", "gpu", "train.sh"], "train.sh"),
        (["--nice", "train.sh"], "train.sh"),  # optional arguments follow in the same word only
        (["--nice=5", "train.sh"], "train.sh"),
        (["-k", "train.sh"], "train.sh"),
        (["-koff", "train.sh"], "train.sh"),
        (["--exclusive", "train.sh", "user"], "train.sh"),
        (["--hold", "train.sh", "--gs-none"], "train.sh"),
        (["--wrap", "train.sh"], None),
        (["--wrap=x y"], None),
        (["-N1", ":", "-N2", "train.sh"], "train.sh"),
        (["--", "train.sh"], "train.sh"),
        (["--", ":"], ":"),
        (["-"], "-"),
        ([""], ""),
        ([":x"], ":x"),
        (["-J", ":", "train.sh"], "train.sh"),
        (["--wrap", ":"], None),
        (["--gs-deadline", "12:00", "train.sh"], "train.sh"),
        (["--gs-deadline=12:00", "train.sh"], "train.sh"),
        (["--gs-none", "train.sh"], "train.sh"),
        (["--comment", "--gs-none", "train.sh"], "train.sh"),
        ([], None),
    ],
)
def test_the_script_is_found_as_getopt_does(args, expected):
    assert script(args) == expected


def test_names_and_values_of_options():
    args = ["-Qc4", "--comm", "a b", "--time=1:00", "-k", "-koff", "--exclusive=user", "--nice"]
    assert brief(args) == [
        ("option", "quiet", None),
        ("option", "cpus-per-task", "4"),
        ("option", "comment", "a b"),
        ("option", "time", "1:00"),
        ("option", "no-kill", None),
        ("option", "no-kill", "off"),
        ("option", "exclusive", "user"),
        ("option", "nice", None),
    ]


def test_nothing_behind_the_script_is_scanned():
    assert brief(["a.sh", "--gs-none", "-p", ":"]) == [("operand", "a.sh", None)]


def test_own_options_are_told_apart_unless_they_are_an_argument():
    args = ["--gs-none", "-J", "--gs-none", "--gs-x=1", "--gs-wait", "5", "--", "--gs-none"]
    assert brief(args) == [
        ("own", "--gs-none", None),
        ("option", "job-name", "--gs-none"),
        ("own", "--gs-x", "1"),
        ("own", "--gs-wait", "5"),
        ("end", "--", None),
        ("operand", "--gs-none", None),
    ]


def test_positions_lead_back_to_the_arguments():
    args = ["-H", "-p", "gpu", "--gs-none", "--wrap", "x"]
    spans = [(word.start, word.end) for word in scan(args, SBATCH)]
    assert spans == [(0, 1), (1, 3), (3, 4), (4, 6)]


def test_a_colon_is_never_an_argument():
    """sbatch cuts its command line there before it reads it."""
    assert brief(["-J", ":", "-p", "a"]) == [
        ("option", "job-name", None),
        ("separator", ":", None),
        ("option", "partition", "a"),
    ]
    assert brief(["-n", ":"], SCANCEL) == [("option", "name", ":")]


def test_a_scripts_directives_are_scanned_beyond_a_word_that_is_no_option():
    words = scan(["-N1", "word", "-p", "x"], SBATCH, stops=False)
    assert [word.name for word in words] == ["nodes", "word", "partition"]


@pytest.mark.parametrize("text", ["--partition", "-p"])
def test_an_option_whose_argument_is_missing_has_no_value(text):
    (word,) = scan([text], SBATCH)
    assert (word.name, word.value, word.is_known) == ("partition", None, True)


@pytest.mark.parametrize("text", ["--mem-p=1", "--zzz", "--", "-y"])
def test_an_unknown_or_ambiguous_option_is_no_known_one(text):
    assert not any(word.is_known for word in scan([text], SBATCH) if word.kind is Kind.OPTION)


def test_an_exact_name_wins_over_a_longer_one():
    assert brief(["--mem", "4G", "--time", "5"]) == [
        ("option", "mem", "4G"),
        ("option", "time", "5"),
    ]


def test_options_of_plugins_are_learnt_from_the_help_text():
    help_text = (
        "Usage: sbatch [OPTIONS(0)...]\n"
        "  -A, --account=name          charge job\n"
        "      --container-image=PATH  [pyxis] the image\n"
        "  -x, --x-ray                 turn it on\n"
        "      --nice[=value]          decrease\n"
    )
    learned = SBATCH.learned(help_text)
    args = ["--container-image", "ubuntu", "--x-ray", "--nice", "train.sh"]
    assert [word.name for word in scan(args, learned)] == [
        "container-image",
        "x-ray",
        "nice",
        "train.sh",
    ]
    assert "container-image" not in SBATCH.valued


def test_an_abbreviation_that_only_another_release_has_twice_is_clear_here():
    """``--cons`` was --constraint before there was --consolidate-segments."""
    args = ["--cons", "a100", "train.sh"]
    assert brief(args)[0] == ("option", "cons", None)
    old = SBATCH.learned("  -C, --constraint=list   features\n")
    assert brief(args, old)[0] == ("option", "constraint", "a100")
    new = SBATCH.learned("  -C, --constraint=list\n      --consolidate-segments\n")
    assert brief(args, new)[0] == ("option", "cons", None)


def test_scancel_mixes_ids_and_options():
    args = ["7", "-u", "alice", "8_3", "--state", "PENDING", "-vv", "9"]
    words = scan(args, SCANCEL)
    assert [word.name for word in words if word.kind is Kind.OPERAND] == ["7", "8_3", "9"]
    assert ("user", "alice") in [(word.name, word.value) for word in words]
