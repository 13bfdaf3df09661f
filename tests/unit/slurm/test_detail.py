"""How one job is asked for, release by release. Answers are recorded ones of those releases."""

from __future__ import annotations

import json

import pytest

from gsched.errors import SlurmCommandError
from gsched.slurm import detail
from gsched.slurm.run import Completed

GONE = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
UNKNOWN = "slurm_load_jobs error: Invalid job id specified"
NO_PLUGIN = "scontrol: error: load_plugins: unable to find plugin: serializer/json"
UNEVEN = 5


class Slurm:
    """Answers in place of the commands; `asked` is what was asked in turn."""

    def __init__(self, release, recorded, monkeypatch):
        self.release = release
        self.json = recorded("lab/jobs.json", release) if release != "22.05" else ""
        self.squeue = recorded("lab/squeue-detail.txt", release)
        self.scontrol = recorded("lab/jobs.txt", release)
        self.errors = {}
        self.asked = []
        monkeypatch.setattr(detail, "new_separator", lambda: "\x1frecorded-separator\x1e")

    def __call__(self, *argv):
        word = argv[-1] if argv[-1].startswith("--") else argv[0]
        self.asked.append(word)
        answers = {"--version": f"slurm-wlm {self.release}.5\n", "squeue": self.squeue,
                   "scontrol": self.scontrol}  # fmt: skip
        status, stdout, stderr = self.errors.get(word, (0, answers.get(word, self.json), ""))
        return Completed(argv, status, stdout, stderr)


@pytest.fixture
def slurm(recorded, monkeypatch):
    return lambda release: Slurm(release, recorded, monkeypatch)


@pytest.mark.parametrize(
    ("release", "asked"),
    [
        ("22.05", ["--version", "squeue", "scontrol"]),
        ("24.11", ["--version", "--json=v0.0.42"]),
        ("26.05", ["--version", "--json=v0.0.44"]),
    ],
)
def test_each_release_is_asked_in_its_own_way(slurm, release, asked):
    commands = slurm(release)
    job = detail.job_detail(commands, UNEVEN)
    assert (job.name, [node.gpus for node in job.node_gres]) == ("uneven", [4, 1])
    assert commands.asked == asked


@pytest.mark.parametrize(
    ("release", "options"),
    [
        ((0, 0), ()),
        ((23, 2), ()),
        ((23, 11), ("--json",)),
        ((25, 5), ("--json=v0.0.42", "--json")),
        ((27, 11), ("--json=v0.0.44", "--json")),
    ],
)
def test_versions_of_the_json(release, options):
    assert detail.json_options(release) == options


@pytest.mark.parametrize("failure", [(-11, "", NO_PLUGIN), (1, "", NO_PLUGIN), (0, "{}", "")])
def test_texts_where_json_is_not_to_be_had(slurm, failure):
    """24.11 dies of a segmentation fault without the plugin, 26.05 says so."""
    commands = slurm("24.11")
    commands.errors = {"--json=v0.0.42": failure, "--json": failure}
    assert detail.job_detail(commands, UNEVEN).name == "uneven"
    assert commands.asked == ["--version", "--json=v0.0.42", "--json", "squeue", "scontrol"]


def test_the_release_s_own_json_where_the_pinned_one_is_gone(slurm):
    commands = slurm("26.05")
    commands.errors = {"--json=v0.0.44": (1, "", "Unable to find data_parser/v0.0.44")}
    assert detail.job_detail(commands, UNEVEN).name == "uneven"
    assert commands.asked[-1] == "--json"


def test_that_json_has_no_job_is_not_believed(slurm):
    """24.11's scontrol says the same, with status 0, when it cannot reach the controller."""
    empty = json.dumps({"jobs": [], "errors": [], "warnings": []})
    commands = slurm("24.11")
    commands.errors = {"--json=v0.0.42": (0, empty, ""), "squeue": (1, "", GONE)}
    with pytest.raises(SlurmCommandError, match="Unable to contact"):
        detail.job_detail(commands, UNEVEN)
    commands.errors["squeue"] = (1, "", UNKNOWN)
    assert detail.job_detail(commands, UNEVEN) is None
    commands.errors = {"--json=v0.0.42": (1, "", GONE)}
    with pytest.raises(SlurmCommandError, match="Unable to contact"):
        detail.job_detail(commands, UNEVEN)


def test_a_job_that_goes_while_it_is_asked_for(slurm):
    commands = slurm("22.05")
    commands.errors = {"scontrol": (1, "", UNKNOWN)}
    assert detail.job_detail(commands, UNEVEN).node_gres == ()


def test_a_release_that_is_not_understood_is_asked_for_texts(slurm):
    commands = slurm("22.05")
    commands.errors = {"--version": (0, "slurm devel\n", "")}
    assert detail.job_detail(commands, UNEVEN).name == "uneven"
