"""What ``gsched submit`` makes of --gs-checkpoint and --gs-runtime, up to sbatch."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import pytest

from gsched.app import submit
from gsched.app.node_python import node_python
from gsched.app.runtime_mention import MAX_FILES
from gsched.config.settings import HeartbeatSettings, JobscriptSettings, Settings, SubmitSettings
from gsched.errors import ConfigError, UsageError
from gsched.mounts import mounts_of_this_host, own_disk_of
from gsched.slurm import wire

NOW = 1_790_000_000
SITE = Settings(jobscript=JobscriptSettings(dir="", python="/bin/true"))
RUNTIME = "#!/bin/sh\npython -c 'import gsched.runtime'\n"


@pytest.fixture
def job_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("job.sh", "wrap"):
        (tmp_path / name).write_text(RUNTIME)
    return tmp_path


def prepare(*args, environ=None, stdin=b"", settings=SITE):
    environ = {"PATH": "/nowhere"} if environ is None else environ
    return submit.prepare(args, environ, {0: stdin}.__getitem__, NOW, settings=lambda: settings)


def lines(prepared):
    return prepared.script.split("\n")


def test_without_an_option_for_it_no_script_is_touched(job_folder):
    prepared = prepare("--gs-phase=eval", "job.sh")
    assert (prepared.piped, prepared.is_wrapped, prepared.script) == (None, False, RUNTIME)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--gs-checkpoint", "job.sh"], ["--comment=gs1{ckpt}", "/dev/stdin"]),
        (["-N1", "--gs-checkpoint=9", "job.sh", "a b"],
         ["-N1", "--comment=gs1{ckpt}", "/dev/stdin", "a b"]),
        (["--gs-runtime", "plain", "--", "job.sh", "--gs-none"],
         ["--", "/dev/stdin", "--gs-none"]),
        (["--gs-runtime=requeue", "job.sh"], ["--comment=gs1{ckpt}", "/dev/stdin"]),
        (["--gs-runtime=plain", "--gs-checkpoint", "job.sh"],
         ["--comment=gs1{ckpt}", "/dev/stdin"]),
        (["--gs-none", "--gs-checkpoint", "job.sh"], ["--comment=gs1{none}", "/dev/stdin"]),
        (["-H", "--gs-runtime=plain", "--wrap", "gsched.runtime", "-N1"], ["-H", "-N1"]),
        (["-c1", "--gs-runtime=plain", "--wrap=x", ":", "-c2"], ["-c1", ":", "-c2"]),
        (["--test-only", "--gs-checkpoint", "job.sh"], ["--test-only", "/dev/stdin"]),
        (["--gs-runtime=plain", "wrap", "a", "b"], ["/dev/stdin", "a", "b"]),
    ],
)  # fmt: skip
def test_the_script_is_handed_on_by_standard_input(job_folder, args, expected):
    prepared = prepare(*args)
    assert prepared.argv == ("sbatch", *expected)
    assert prepared.piped == (0, prepared.script.encode())
    assert prepared.is_wrapped


def test_a_directive_in_the_script_asks_for_it_too(job_folder):
    text = "#!/bin/sh\n#GSCHED --gs-checkpoint=600 --gs-runtime requeue,grace=60\ngsched.runtime\n"
    (job_folder / "job.sh").write_text(text)
    prepared = prepare("job.sh")
    assert "#SBATCH --signal=B:USR1@60" in lines(prepared)
    assert "        --every=600 \\" in lines(prepared)
    (job_folder / "job.sh").write_text(text.replace("grace", "grave"))
    with pytest.raises(UsageError, match=r"job\.sh line 2: --gs-runtime: .* no key 'grave'"):
        prepare("job.sh")


def test_settings_and_phases_reach_the_launcher(job_folder):
    jobscript = replace(SITE.jobscript, grace_s=77, checkpoints="/scratch/ckpt")
    site = replace(SITE, jobscript=jobscript, heartbeat=HeartbeatSettings("/shared/beats"))
    found = lines(prepare("--gs-checkpoint", "--gs-phase=sft,eval", "job.sh", settings=site))
    assert "#SBATCH --signal=B:USR1@77" in found
    for option in ("checkpoints=/scratch/ckpt", "heartbeat=/shared/beats", "phase=sft,eval"):
        assert f"        --{option} \\" in found


@pytest.mark.parametrize(
    ("args", "environ"),
    [(["--array=1-3"], {}), (["-a", "1"], {}), ([], {"SBATCH_ARRAY_INX": "1-3"})],
)
def test_an_array_has_the_template_for_arrays(job_folder, args, environ):
    prepared = prepare(*args, "--gs-checkpoint", "job.sh", environ=environ)
    assert "# Template array of" in prepared.script
    assert prepared.warnings == ()
    alone = prepare("--gs-runtime=array", "job.sh")
    assert alone.warnings == ("template array is for job arrays, and there is no --array",)


def test_a_standing_opt_out_keeps_the_daemon_away_and_wraps_all_the_same(job_folder):
    site = replace(SITE, submit=SubmitSettings(opt_out=True))
    prepared = prepare("--gs-checkpoint", "job.sh", settings=site)
    assert prepared.is_wrapped
    assert prepared.argv[1] == "--comment=gs1{none}"
    assert prepared.warnings == ()


def test_a_configuration_that_cannot_be_read_wraps_nothing(job_folder):
    def unreadable():
        raise ConfigError("gsched.toml: is not valid TOML")

    for option in ("--gs-checkpoint", "--gs-runtime=plain"):
        with pytest.raises(ConfigError, match="not valid TOML"):
            submit.prepare([option, "job.sh"], {}, lambda _: b"", NOW, settings=unreadable)


@pytest.mark.parametrize("args", [["none.sh"], ["--wrap=x", "job.sh"], ["--partition"], ["/proc"]])
def test_what_sbatch_will_refuse_is_left_to_it(job_folder, args):
    prepared = prepare("--gs-checkpoint", *args, stdin=RUNTIME.encode())
    assert not prepared.is_wrapped
    assert prepared.argv[-1] == args[-1]


def test_a_pipe_that_only_sbatch_would_read_cannot_be_wrapped(job_folder):
    os.mkfifo("pipe.sh")
    with pytest.raises(UsageError, match=r"pipe\.sh is no regular file"):
        prepare("--gs-checkpoint", "./pipe.sh")


def test_an_evaluation_writes_no_checkpoints(job_folder):
    with pytest.raises(UsageError, match="evaluation writes no checkpoints"):
        prepare("--gs-checkpoint", "--gs-runtime=evaluation,folder=x", "job.sh")
    prepared = prepare("--gs-runtime=evaluation,folder=x", "job.sh")
    assert wire.read(" ".join(prepared.argv)).token == ""


@pytest.mark.parametrize(
    ("script", "files", "args", "where"),
    [
        ("python train.py", {"train.py": "x"}, [], "job.sh and train.py"),
        ("python train.py", {}, [], "job.sh"),
        ("python -m pkg.main", {"pkg/main.py": "x"}, [], "job.sh and pkg/main.py"),
        ("exec $1", {"a.py": "x", "b.py": "", "c.py": "", "d.py": ""},
         ["a.py", "b.py", "c.py", "d.py"], "job.sh, a.py, b.py and 2 more"),
        ("python train.py", {"train.py": "import gsched.runtime.checkpoint"}, [], None),
        ("python train.py", {"train.py": "from gsched import runtime"}, [], None),
        ("python -m pkg", {"pkg/__main__.py": "import gsched.runtime"}, [], None),
        ("exec \"$@\"", {"a/b.py": "import gsched.runtime"}, ["python", "a/b.py"], None),
    ],
)  # fmt: skip
def test_a_script_without_the_runtime_is_said_and_still_told(
    job_folder, script, files, args, where
):
    (job_folder / "job.sh").write_text(f"#!/bin/sh\n{script}\n")
    for name, text in files.items():
        (job_folder / name).parent.mkdir(exist_ok=True)
        (job_folder / name).write_text(text)
    prepared = prepare("--gs-checkpoint", "job.sh", *args)
    assert "#SBATCH --signal=B:USR1@120" in lines(prepared)
    if where is None:
        assert prepared.warnings == ()
        return
    assert prepared.warnings == (
        f"nothing in {where} mentions gsched.runtime: the job is told to save, by USR1 120 s "
        "before its time limit and by SIGTERM, and has to do it by itself; "
        "at USR1, which comes at the end of a lease of GPUs as well, it must not end; "
        "gsched-checkpointing(7) has the five lines that do",
    )


def test_no_pipe_or_folder_is_read_when_the_runtime_is_looked_for(job_folder):
    os.mkfifo("train.py")
    (job_folder / "x.py").mkdir()
    (job_folder / "job.sh").write_text("#!/bin/sh\npython train.py x.py /dev/zero.py\n")
    (warning,) = prepare("--gs-checkpoint", "job.sh").warnings
    assert warning.startswith("nothing in job.sh mentions")


def test_only_so_many_files_are_looked_into(job_folder):
    names = [f"{number}.py" for number in range(MAX_FILES + 1)]
    for name in names:
        (job_folder / name).write_text("")
    (job_folder / names[-1]).write_text("import gsched.runtime")
    (job_folder / "job.sh").write_text("#!/bin/sh\nexec $1\n")
    (warning,) = prepare("--gs-checkpoint", "job.sh", *names).warnings
    assert f"and {MAX_FILES - 2} more mentions" in warning
    assert prepare("--gs-checkpoint", "job.sh", *names[1:]).warnings == ()


def test_the_users_own_signal_is_the_one_that_is_named(job_folder):
    (job_folder / "job.sh").write_text("#!/bin/sh\n#SBATCH --signal=USR2@60\ntrue\n")
    (warning,) = prepare("--gs-checkpoint", "job.sh").warnings
    assert "by --signal=USR2@60 and by SIGTERM" in warning


NOT_TOLD = "nothing in job.sh mentions gsched.runtime: the job is told to save, by"


@pytest.mark.parametrize("name", ["plain", "debug"])
def test_a_script_without_a_signal_line_is_told_by_sigterm_alone(job_folder, name):
    (job_folder / "job.sh").write_text("#!/bin/sh\ntrue\n")
    (warning,) = prepare(f"--gs-runtime={name}", "--gs-checkpoint", "job.sh").warnings
    assert warning.startswith(f"{NOT_TOLD} SIGTERM alone, and has to")
    with_own = ("--signal=B:HUP", f"--gs-runtime={name}", "--gs-checkpoint", "job.sh")
    (warning,) = prepare(*with_own).warnings
    assert warning.startswith(f"{NOT_TOLD} --signal=B:HUP and by SIGTERM, and has to")


def test_the_notice_that_a_key_asks_for_is_the_one_that_is_named(job_folder):
    (job_folder / "job.sh").write_text("#!/bin/sh\ntrue\n")
    (warning,) = prepare("--gs-runtime=requeue,grace=77", "job.sh").warnings
    assert warning.startswith(f"{NOT_TOLD} USR1 77 s before its time limit and by SIGTERM")


AT_LIMIT = "requeue,at_timeout=3"


@pytest.mark.parametrize(
    ("args", "environ", "notice"),
    [
        ((), {}, 120),
        (("-t5",), {}, 120),
        (("-t", "1"), {}, 30),
        (("--time=0:90",), {}, 60),  # Slurm makes whole minutes of it
        ((), {"SBATCH_TIMELIMIT": "3"}, 90),
        (("--time=5",), {"SBATCH_TIMELIMIT": "1"}, 120),
        (("-t0",), {}, 120),
        (("-tUNLIMITED",), {}, 120),
        (("-twrong",), {}, 120),
    ],
)
def test_the_notice_comes_when_half_of_the_time_is_over_at_the_earliest(
    job_folder, args, environ, notice
):
    prepared = prepare(*args, f"--gs-runtime={AT_LIMIT}", "job.sh", environ=environ)
    assert f"#SBATCH --signal=B:USR1@{notice}" in lines(prepared)
    assert f"        --at-timeout=3 --notice={notice} \\" in lines(prepared)
    assert prepared.warnings == ()


def test_a_longer_notice_that_was_asked_for_is_said(job_folder):
    (job_folder / "job.sh").write_text("#!/bin/sh\n#SBATCH -t 10\ngsched.runtime\n")
    prepared = prepare("--gs-runtime=requeue,grace=301", "job.sh")
    assert "#SBATCH --signal=B:USR1@300" in lines(prepared)
    (warning,) = prepared.warnings
    assert warning.startswith("grace=301 is more than half of the time limit")
    assert prepare("--gs-runtime=requeue,grace=300", "job.sh").warnings == ()


@pytest.mark.parametrize(
    ("signal", "notice"),
    [
        ("B:USR1@60", 60), ("b:sigusr1", 60), ("RB:10@5", 5), ("USR1@60", None),
        ("R:USR1@60", None), ("B:USR2@60", None), ("B:TERM@60", None), ("nonsense@@", None),
    ],
)  # fmt: skip
def test_the_users_own_notice_is_the_one_that_comes_back_from_the_limit(job_folder, signal, notice):
    line = ("-t1", f"--gs-runtime={AT_LIMIT}", "job.sh")
    for args, environ in (((f"--signal={signal}",), {}), ((), {"SBATCH_SIGNAL": signal})):
        prepared = prepare(*args, *line, environ=environ)
        options = [one for one in lines(prepared) if "--at-timeout" in one]
        if notice is not None:
            assert options == [f"        --at-timeout=3 --notice={notice} \\"]
            assert prepared.warnings == ()
        else:
            assert options == []
            (warning,) = prepared.warnings
            assert warning.startswith(f"at_timeout is void: --signal={signal} does not bring")


def test_what_needs_checkpoints_is_refused_without_them(job_folder):
    choice = "--gs-runtime=ddp,folder=/x,at_timeout=3,log=attempts"
    with pytest.raises(UsageError, match=r"folder, at_timeout: without effect") as caught:
        prepare(choice, "job.sh")
    assert caught.value.hint == "add --gs-checkpoint"
    assert "        --checkpoint-folder=/x \\" in lines(
        prepare(choice, "--gs-checkpoint", "job.sh")
    )
    assert "        --attempt-logs \\" in lines(prepare("--gs-runtime=ddp,log=attempts", "job.sh"))


@pytest.mark.parametrize(
    ("directive", "args", "environ", "stays_ended"),
    [
        ("", (), {}, False),
        ("--no-requeue", (), {}, True),
        ("--no-requeue", ("--requeue",), {}, False),
        ("--requeue", ("--no-requeue",), {}, True),
        ("--no-requeue --requeue", (), {}, False),
        ("", ("--requeue", "--no-requeue"), {}, True),
        ("", ("--no-requeue", "--requeue"), {}, False),
        ("", (), {"SBATCH_NO_REQUEUE": ""}, True),
        ("--no-requeue", (), {"SBATCH_REQUEUE": ""}, False),
        ("", (), {"SBATCH_REQUEUE": "", "SBATCH_NO_REQUEUE": ""}, False),
        ("", ("--requeue",), {"SBATCH_NO_REQUEUE": ""}, False),
    ],
)
def test_the_last_word_on_a_requeue_is_the_one_that_counts(
    job_folder, directive, args, environ, stays_ended
):
    (job_folder / "job.sh").write_text(f"#!/bin/sh\n#SBATCH {directive}\ngsched.runtime\n")
    prepared = prepare(*args, "--gs-checkpoint", "job.sh", environ=environ)
    said = ("with --no-requeue the job does not come back after a preemption",)
    assert prepared.warnings == (said if stays_ended else ())
    assert prepare(*args, "--gs-runtime=plain", "job.sh", environ=environ).warnings == ()


def test_files_are_looked_into_from_the_folder_of_the_job(job_folder):
    (job_folder / "there").mkdir()
    (job_folder / "there" / "train.py").write_text("import gsched.runtime")
    (job_folder / "job.sh").write_text("#!/bin/sh\npython train.py\n")
    assert prepare("--chdir=there", "--gs-checkpoint", "./job.sh").warnings == ()
    (warning,) = prepare("--gs-checkpoint", "./job.sh").warnings
    assert warning.startswith("nothing in job.sh mentions")


def test_a_job_has_the_name_that_slurm_would_give_it(job_folder):
    names = {("job.sh",): "job.sh", ("./job.sh",): "job.sh", (): "sbatch", ("--wrap=x",): "wrap"}
    for args, name in names.items():
        prepared = prepare("--gs-runtime=plain", *args, stdin=RUNTIME.encode())
        assert f"#SBATCH --job-name={name}" in lines(prepared)


def test_a_script_that_asks_for_its_path_is_said(job_folder):
    text = RUNTIME + "scontrol show job $SLURM_JOB_ID | sed -n 's/.*Command=//p'\n"
    (job_folder / "job.sh").write_text(text)
    (warning,) = prepare("--gs-checkpoint", "job.sh").warnings
    assert "GSCHED_SCRIPT has it" in warning
    assert f"export GSCHED_SCRIPT={job_folder}/job.sh" in lines(
        prepare("--gs-checkpoint", "job.sh")
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be run"),
        ("#!/bin/sh\necho first >&2; echo no module >&2; exit 1\n", "cannot run gsched: no module"),
        ("#!/bin/sh\nexit 3\n", "it ends with status 3"),
        ("#!/nowhere/sh\n", "cannot run gsched: "),
    ],
)
def test_a_python_without_gsched_is_refused_before_queueing(job_folder, text, said):
    python = job_folder / "python"
    if text is not None:
        python.write_text(text)
        python.chmod(0o755)
    settings = replace(SITE, jobscript=replace(SITE.jobscript, python=str(python)))
    with pytest.raises(ConfigError, match=said) as caught:
        prepare("--gs-checkpoint", "job.sh", settings=settings)
    assert "jobscript.python" in caught.value.hint


def test_without_a_setting_it_is_the_python_of_this_process_which_nodes_may_lack(job_folder):
    assert node_python(JobscriptSettings()) == sys.executable
    settings = replace(SITE, jobscript=replace(SITE.jobscript, python=""))
    warnings = prepare("--gs-checkpoint", "job.sh", settings=settings).warnings
    kind = own_disk_of(sys.executable, mounts_of_this_host())
    assert [f"on a disk of this host ({kind})" in warning for warning in warnings] == (
        [True] if kind else []
    )
    assert f"gsched_python={sys.executable}" in lines(
        prepare("--gs-checkpoint", "job.sh", settings=settings)
    )
