"""``gsched submit --gs-profile``: which short runs are submitted before a job."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gsched.app import sbatch_words, submit
from gsched.app.profile_runs import submit_profiles
from gsched.config.deadlines import DeadlineSettings
from gsched.config.settings import HeartbeatSettings, JobscriptSettings, Settings
from gsched.errors import UnavailableError, UsageError
from gsched.model.user_request import wants_document, wants_of
from gsched.slurm import wire
from gsched_cli.commands.submit import _run_profiled

NOW = 1_790_000_000
SITE = Settings(
    jobscript=JobscriptSettings(dir="", python="/bin/true"),
    heartbeat=HeartbeatSettings("/shared/beats"),
    deadlines=DeadlineSettings(profiles=True),
)
SCRIPT = "#!/bin/sh\n#SBATCH -t 8:00:00 --mail-type=ALL\npython -m gsched.runtime\n"
ASKED = ("--gs-profile", "--gs-checkpoint", "--gs-deadline=2026-12-31T09:00")


@pytest.fixture(autouse=True)
def job_folder(tmp_path, monkeypatch):
    sbatch_words._site_grammar.cache_clear()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sh").write_text(SCRIPT)
    return tmp_path


def prepare(*args, settings=SITE, environ=None):
    environ = {"PATH": "/nowhere"} if environ is None else environ
    return submit.prepare(args, environ, {0: b""}.__getitem__, NOW, settings=lambda: settings)


def runs(*args, **options):
    """What each run has more than the command line itself, behind its own options."""
    prepared = prepare(*ASKED, *args, "job.sh", "x", **options)
    return [argv[len(args) + 1 : -2] for argv in prepared.profiles.argvs]


COMMON = (
    *("--job-name=gs-profile", "--time=16", "--output=gs-profile-%j.out"),
    *("--error=gs-profile-%j.out", "--no-requeue", "--mail-type=NONE", "--parsable"),
)


def test_a_job_of_one_node_or_two_has_one_run_of_its_own_shape():
    for shape in ((), ("-N1",), ("--nodes", "2", "--gres=gpu:8"), ("--gpus=4",)):
        assert runs(*shape) == [COMMON]


def test_a_job_of_many_nodes_runs_on_one_and_on_two():
    one, two = runs("-N8", "--ntasks=64", "--gpus=a100:64", "--gpus-per-node=8")
    assert one == (*COMMON, "--nodes=1", "--ntasks=8", "--gpus=a100:8")
    assert two == (*COMMON, "--nodes=2", "--ntasks=16", "--gpus=a100:16")


def test_what_the_script_says_counts_as_well(job_folder):
    (job_folder / "job.sh").write_text(SCRIPT.replace("-t 8:00:00", "-N4 -n 8"))
    assert [run[-2:] for run in runs()] == [
        ("--nodes=1", "--ntasks=2"), ("--nodes=2", "--ntasks=4")
    ]  # fmt: skip


def test_its_time_limit_has_room_for_the_start_and_is_no_longer_than_the_jobs():
    (short,) = prepare(*ASKED, "--gs-profile=60", "job.sh").profiles.argvs
    assert "--time=12" in short
    assert runs("-t", "5")[0][1] == "--time=5"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["-N8", "--ntasks=63"], "--ntasks=63 cannot be shared out over 8 nodes"),
        (["-N8", "--gpus=a:1,b:2"], "--gpus=a:1,b:2 cannot be shared out"),
        (["-N2-8"], "--nodes=2-8 is no single number"),
        (["-N4", "--nodelist=n[1-4]"], "--nodelist names the nodes"),
        (["--array=1-3"], "the tasks of an array are different runs"),
        (["-N1", ":", "-N2"], "the job has several components"),
        (["--wait"], "sbatch --wait ends with the job"),
    ],
)
def test_a_job_of_which_no_short_run_tells_the_speed(args, said):
    with pytest.raises(UsageError, match="cannot be had") as caught:
        prepare(*ASKED, *args, "job.sh")
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--gs-profile", "--gs-checkpoint"], "no.* is named|none is named"),
        (["--gs-profile", "--gs-deadline=18:00"], "needs a script that gsched has wrapped"),
        (["--gs-profile=0", *ASKED[1:]], "no number of seconds"),
        (["--gs-profile=4000", *ASKED[1:]], "no number of seconds"),
    ],
)
def test_a_profile_that_would_help_nothing_is_refused(args, said):
    with pytest.raises(UsageError, match=said):
        prepare(*args, "job.sh")


def test_a_site_that_does_not_go_by_profiles_says_so_before_anything_is_submitted():
    for site, said in (
        (replace(SITE, deadlines=DeadlineSettings()), "does not go by profile runs"),
        (replace(SITE, heartbeat=HeartbeatSettings()), "no way to tell how fast"),
    ):
        with pytest.raises(UsageError, match=said):
            prepare(*ASKED, "job.sh", settings=site)


def test_the_run_is_the_jobs_script_for_a_while_and_asks_for_nothing():
    prepared = prepare(*ASKED, "--comment=mine", "job.sh", "--epochs", "3")
    (argv,) = prepared.profiles.argvs
    assert argv[:2] == ("sbatch", "--comment=mine")
    assert argv[-3:] == ("/dev/stdin", "--epochs", "3")
    text = prepared.profiles.script.decode()
    assert "        --profile=300 \\\n" in text
    assert "--profile" not in prepared.script
    assert SCRIPT in text


def test_the_job_names_its_runs_in_the_order_of_their_nodes():
    prepared = prepare(*ASKED, "--comment=mine", "job.sh").after_profiles((41, 42))
    (comment,) = [word for word in prepared.argv if word.startswith("--comment=")][1:]
    seen = wire.read(comment.removeprefix("--comment="))
    assert (seen.wants.profiles, seen.wants.checkpoint, seen.problem) == ((41, 42), True, "")
    assert seen.wants == prepared.wants
    assert wire.strip(comment) == "--comment=mine"
    assert prepared.profiles is None
    assert len(prepared.argv) == len(prepare(*ASKED, "--comment=mine", "job.sh").argv)


def test_they_are_stored_with_the_request():
    wants = prepare(*ASKED, "job.sh").after_profiles((41, 42)).wants
    assert wants_of(json.loads(json.dumps(wants_document(wants)))) == wants


def sbatch(folder, text):
    """A program of that name, which is the only one found."""
    path = folder / "bin" / "sbatch"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return {"PATH": f"{path.parent}:/usr/bin:/bin"}


def test_each_run_is_handed_its_script_and_gives_its_number(job_folder, monkeypatch):
    environ = sbatch(job_folder, "cat >> got; echo done >> got; wc -l < got; wc -l < got >&2")
    monkeypatch.setenv("PATH", environ["PATH"])
    prepared = prepare(*ASKED, "-N4", "job.sh", environ=environ)
    ids = submit_profiles(prepared.profiles, environ, "ada", lambda: 0.0)
    lines = len(prepared.profiles.script.splitlines()) + 1
    assert ids == (lines, 2 * lines)
    assert (job_folder / "got").read_bytes() == 2 * (prepared.profiles.script + b"done\n")


def test_what_was_submitted_is_cancelled_when_sbatch_refuses_the_next(job_folder, monkeypatch):
    environ = sbatch(job_folder, "cat > /dev/null; [ -e one ] && exit 1; touch one; echo 71")
    scancel = job_folder / "bin" / "scancel"
    scancel.write_text('#!/bin/sh\necho "$@" >> cancelled\n')
    scancel.chmod(0o755)
    monkeypatch.setenv("PATH", environ["PATH"])
    prepared = prepare(*ASKED, "-N4", "job.sh", environ=environ)
    with pytest.raises(UnavailableError, match="nothing is submitted"):
        submit_profiles(prepared.profiles, environ, "ada", lambda: 0.0)
    assert (job_folder / "cancelled").read_text() == "71\n"


def test_it_is_said_that_what_the_script_writes_is_written(job_folder, monkeypatch, capfd):
    environ = sbatch(job_folder, "cat > /dev/null; echo 71")
    monkeypatch.setenv("PATH", environ["PATH"])
    prepared = prepare(*ASKED, "-N2", "job.sh", environ=environ)
    assert _run_profiled(prepared, prepared.profiles) == 0
    said = capfd.readouterr().err
    assert "profile runs 71: the answer comes when they are over\n" in said
    assert (
        "they run the whole script: what it writes beside gsched's checkpoints is written" in said
    )
