from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from gsched.app import job_script, sbatch_words, submit
from gsched.app.dry_run import dry_run_text
from gsched.config.settings import Settings, SubmitSettings
from gsched.errors import ConfigError, UnavailableError, UsageError
from gsched.slurm import wire

SCRIPT = "#!/bin/sh\n#SBATCH -p gpu\ntrue\n"


@pytest.fixture
def job_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.sh").write_text(SCRIPT)
    return tmp_path


NOW = 1_790_000_000


@pytest.fixture(autouse=True)
def no_site():
    """What one test's sbatch told of its options, the next one does not know."""
    sbatch_words._site_grammar.cache_clear()


def prepare(*args, environ=None, stdin=b"", **options):
    environ = {"PATH": "/nowhere"} if environ is None else environ
    return submit.prepare(args, environ, {0: stdin}.__getitem__, NOW, **options)


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["job.sh"],
        ["-p", "gpu", "--gres=gpu:2", "job.sh", "--gs-none", ":", "", "a b"],
        ["--wrap", "echo hi"],
        ["-N1", ":", "-N2", "--", "job.sh"],
        ["--comment", "--gs-none", "job.sh"],
        ["--array=1-3%2", "nosuch.sh"],
    ],
)
def test_without_own_options_the_command_line_is_handed_on_to_the_letter(job_folder, args):
    assert prepare(*args).argv == ("sbatch", *args)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--gs-none", "job.sh", "--gs-none"], ["--comment=gs1{none}", "job.sh", "--gs-none"]),
        (["-H", "--gs-none", "-Q", "job.sh"], ["-H", "-Q", "--comment=gs1{none}", "job.sh"]),
        (["--gs-none", "--", "job.sh"], ["--comment=gs1{none}", "--", "job.sh"]),
        (["--gs-none", "--wrap", "x"], ["--wrap", "x", "--comment=gs1{none}"]),
        (
            ["-N1", ":", "-N2", "--gs-none", "job.sh"],
            ["-N1", "--comment=gs1{none}", ":", "-N2", "job.sh"],
        ),
        (
            ["--comment", "mine; yours", "--gs-none", "job.sh"],
            ["--comment", "mine; yours", "--comment=mine; yours gs1{none}", "job.sh"],
        ),
        (
            ["--comm=a", "--comment=b", "--gs-none", "job.sh"],
            ["--comm=a", "--comment=b", "--comment=b gs1{none}", "job.sh"],
        ),
        (
            ["--gs-none", ":", "--comment=second", "job.sh"],
            ["--comment=gs1{none}", ":", "--comment=second", "job.sh"],
        ),
        (["--gs-none", "--partition"], ["--partition"]),  # sbatch will refuse these
        (["--gs-none", "--wrap", ":"], ["--wrap", ":"]),
        (["--gs-none", "--test-only", "job.sh"], ["--test-only", "job.sh"]),
        (["--gs-none", "-V"], ["-V"]),
        (["--gs-nosuch", "--usage", "x"], ["--usage", "x"]),
    ],
)
def test_opting_out_appends_the_token_to_the_comment(job_folder, args, expected):
    assert prepare(*args).argv == ("sbatch", *expected)


@pytest.mark.parametrize(
    "args",
    [
        ["--gs-deadline", "2030-01-01T00:00", "job.sh"],
        ["--gs-deadline=2030-01-01T00:00", "job.sh"],
        ["-H", "--gs-phase", "eval", "--gs-deadline", "2030-01-01T00:00", "job.sh"],
    ],
)
def test_what_is_wanted_goes_into_the_comment(job_folder, args):
    prepared = prepare(*args)
    assert wire.read(prepared.argv[-2].removeprefix("--comment=")).wants == prepared.wants
    assert prepared.wants.deadline is not None
    assert prepared.argv[-1] == "job.sh"
    assert not any("--gs-" in word or word == "eval" for word in prepared.argv)


def opted_out() -> Settings:
    return Settings(submit=SubmitSettings(opt_out=True))


def test_a_standing_opt_out_counts_without_an_option(job_folder):
    away = ("sbatch", "--comment=gs1{none}", "job.sh")
    assert prepare("job.sh", settings=opted_out).argv == away
    assert prepare("--test-only", "job.sh", settings=opted_out).argv == (
        "sbatch",
        "--test-only",
        "job.sh",
    )


def unreadable() -> Settings:
    raise ConfigError("gsched.toml: is not valid TOML", "correct it")


@pytest.mark.parametrize("args", [["job.sh"], ["--gs-none", "job.sh"], ["--gs-dry-run", "job.sh"]])
def test_a_wish_that_nobody_can_read_keeps_gsched_away(job_folder, args):
    prepared = prepare(*args, settings=unreadable)
    assert prepared.argv == ("sbatch", "--comment=gs1{none}", "job.sh")
    (warning,) = prepared.warnings
    assert warning == "the job is submitted as with --gs-none, for gsched.toml: is not valid TOML"


@pytest.mark.parametrize("option", ["--gs-phase=eval", "--gs-wait=5", "--gs-deadline=now+1day"])
def test_who_asks_for_something_must_be_understood(job_folder, option):
    with pytest.raises(ConfigError, match="is not valid TOML"):
        prepare(option, "job.sh", settings=unreadable)


@pytest.mark.parametrize("option", ["--gs-dedline", "--gs-none=x"])
def test_a_wrong_own_option_is_said_before_a_script_is_looked_for(job_folder, monkeypatch, option):
    monkeypatch.setattr(job_script, "find_script", lambda *_: pytest.fail("looked for"))
    with pytest.raises(UsageError, match=option.partition("=")[0]) as caught:
        prepare(option, "1", "x.sh")
    assert option != "--gs-dedline" or caught.value.hint == "did you mean --gs-deadline?"
    with pytest.raises(UsageError):
        submit.prepare([option], {}, lambda _: pytest.fail("standard input was read"), NOW)


@pytest.mark.parametrize("uid", [["--uid=news"], ["--uid", "news"]])
def test_whose_job_it_will_be(job_folder, uid):
    assert prepare(*uid, "job.sh").as_user == "news"
    assert prepare("job.sh").as_user == ""
    (job_folder / "job.sh").write_text("#!/bin/sh\n#SBATCH --uid=9\n")
    assert prepare("job.sh").as_user == "9"
    assert prepare(*uid, "job.sh").as_user == "news"


def test_a_comment_that_leaves_no_room_stops_the_submission(job_folder):
    with pytest.raises(UsageError, match="comment"):
        prepare("--gs-none", "--comment", "x" * 1020, "job.sh")


def test_waiting_for_an_answer_is_no_matter_of_sbatch(job_folder):
    prepared = prepare("--gs-wait", "5", "--gs-else=cancel", "job.sh")
    assert (prepared.argv, prepared.wait_s, prepared.otherwise) == (
        ("sbatch", "job.sh"),
        5.0,
        "cancel",
    )
    assert prepare("--gs-wait=5", "--test-only", "--quiet", "job.sh").wait_s is None


@pytest.mark.parametrize(
    ("args", "script", "environ", "said"),
    [
        (["-W"], SCRIPT, {}, "--wait"),
        ([], SCRIPT.replace("-p gpu", "--wait"), {}, "--wait"),
        ([], SCRIPT, {"SBATCH_WAIT": ""}, "--wait"),
        ([], SCRIPT, {"SBATCH_WAIT": "1"}, "--wait"),
        (["-Q"], SCRIPT, {}, "--quiet"),
        ([], SCRIPT.replace("-p gpu", "--quiet"), {}, "--quiet"),
    ],
)
def test_waiting_for_an_answer_needs_sbatchs_end_and_a_job_id(
    job_folder, args, script, environ, said
):
    (job_folder / "job.sh").write_text(script)
    with pytest.raises(UsageError, match=said):
        prepare("--gs-wait=5", *args, "job.sh", environ=environ)


@pytest.mark.parametrize("wish", ["--gs-deadline=now+1day", "--gs-soft-deadline=now+1day=5"])
@pytest.mark.parametrize(
    ("args", "script", "environ"),
    [
        (["--array=1-12"], SCRIPT, {}),
        ([], SCRIPT.replace("-p gpu", "-a 1-12"), {}),
        ([], SCRIPT, {"SBATCH_ARRAY_INX": "1-12"}),
    ],
)
def test_the_tasks_of_an_array_have_no_one_answer(job_folder, wish, args, script, environ):
    (job_folder / "job.sh").write_text(script)
    with pytest.raises(UsageError, match="answered for each task") as caught:
        prepare("--gs-wait=5", wish, *args, "job.sh", environ=environ)
    assert "gsched why" in caught.value.hint
    assert prepare(wish, *args, "job.sh", environ=environ).wait_s is None
    assert prepare("--gs-wait=5", *args, "job.sh", environ=environ).wait_s == 5


def test_waiting_for_an_answer_where_nothing_is_in_the_way(job_folder):
    assert prepare("--gs-wait=5", "-Q", "--parsable", "job.sh").wait_s == 5
    assert prepare("--gs-wait=5", "job.sh", environ={"SBATCH_WAIT": "0"}).wait_s == 5


def test_the_scripts_own_comment_is_kept_and_the_command_lines_wins(job_folder):
    (job_folder / "job.sh").write_text('#!/bin/sh\n#SBATCH --comment="a b"\n#GSCHED --gs-none\n')
    assert prepare("job.sh").argv == ("sbatch", "--comment=a b gs1{none}", "job.sh")
    assert prepare("--comment=c", "job.sh").argv[2:] == ("--comment=c gs1{none}", "job.sh")


def test_a_comment_of_another_component_that_gets_lost_is_said(job_folder):
    het = "#!/bin/sh\n#SBATCH --comment=a\n#SBATCH hetjob\n#SBATCH --comment=b\n"
    (job_folder / "job.sh").write_text(het)
    assert "replaces those of the other components" in prepare("--gs-none", "job.sh").warnings[0]
    assert prepare("--gs-none", ":", "-N1", "job.sh").warnings == ()
    assert prepare("job.sh").warnings == ()


def test_a_script_on_standard_input_is_read_and_handed_on():
    script = b"#!/bin/sh\n#GSCHED --gs-none\necho \xff\n"
    prepared = prepare("-p", "gpu", stdin=script)
    assert prepared.argv == ("sbatch", "-p", "gpu", "--comment=gs1{none}")
    assert prepared.piped == (0, script)


@pytest.mark.parametrize("args", [["job.sh"], ["--wrap", "x"], ["--usage"], ["-V"], ["-h"]])
def test_standard_input_is_left_alone_when_it_is_not_the_script(job_folder, args):
    def fail(number):
        pytest.fail(f"file {number} was read")

    assert submit.prepare(args, {}, fail, NOW).piped is None


@pytest.mark.parametrize("args", [["--gs-nnoe", "job.sh"], ["--gs-none=1", "job.sh"]])
def test_a_wrong_own_option_stops_the_submission(job_folder, args):
    with pytest.raises(UsageError):
        prepare(*args)


def test_a_late_directive_is_said_with_its_line(job_folder):
    (job_folder / "job.sh").write_text("#!/bin/sh\n\ntrue\n#SBATCH -N2\ntrue\n#GSCHED --gs-none\n")
    prepared = prepare("job.sh")
    assert prepared.warnings == (
        "job.sh line 4, line 6: #GSCHED and #SBATCH after the first command (line 3) is void",
    )
    assert prepared.argv == ("sbatch", "job.sh")


def test_a_pipe_as_script_is_not_drained(job_folder):
    os.mkfifo("pipe.sh")
    prepared = prepare("./pipe.sh")
    assert prepared.argv == ("sbatch", "./pipe.sh")
    assert "no regular file" in prepared.warnings[0]


def test_a_pipe_that_the_shell_has_opened_is_read_and_offered_again():
    """As `gsched submit <(…)` gives it."""
    reader, writer = os.pipe()
    try:
        name = f"/dev/fd/{reader}"
        script = b"#!/bin/sh\n#GSCHED --gs-none\n"
        prepared = submit.prepare([name], {}, {reader: script}.__getitem__, NOW)
        assert prepared.argv == ("sbatch", "--comment=gs1{none}", name)
        assert prepared.piped == (reader, script)
        job_script.offer_again(*prepared.piped)
        assert Path(name).read_bytes() == script
        assert os.get_inheritable(reader)
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("name", ["/dev/fd/987654", "/dev/fd/x", "/proc/self/fd/999999999"])
def test_an_open_file_that_is_none_is_left_to_sbatch(name):
    assert prepare(name).argv == ("sbatch", name)


def test_the_outer_jobs_variables_are_said():
    prepared = prepare("--wrap", "x", environ={"SLURM_JOB_ID": "7", "SBATCH_GRES": "gpu:8"})
    assert prepared.environ == {}
    assert "SBATCH_GRES: not passed on" in prepared.warnings[0]


def test_outside_a_job_every_variable_is_passed_on():
    environ = {"SLURM_CLUSTERS": "b", "SBATCH_CPU_BIND": "x", "SLURM_HINT": "nomultithread"}
    assert prepare("--wrap", "x", environ=environ).environ == environ


# The order was seen with sbatch 22.05.8.
def test_the_script_is_looked_for_where_sbatch_looks(tmp_path, monkeypatch):
    for folder in ("here", "job", "bin1", "bin2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "s.sh").touch()
    monkeypatch.chdir(tmp_path / "here")
    environ = {"PATH": f"/nowhere:{tmp_path / 'bin1'}:{tmp_path / 'bin2'}"}

    def found(name, chdir=None):
        return job_script.find_script(name, chdir, environ).resolve().relative_to(tmp_path).parts[0]

    assert found("s.sh") == "here"
    assert found("s.sh", "../job") == "job"
    assert found("./s.sh", "../job") == "here"
    (tmp_path / "job" / "s.sh").unlink()
    assert found("s.sh", "../job") == "bin1"
    (tmp_path / "here" / "s.sh").unlink()
    (tmp_path / "here" / "s.sh").mkdir()
    assert found("s.sh") == "bin1"


@pytest.mark.parametrize(
    "number", [errno.EACCES, errno.EIO, errno.ESTALE, errno.ELOOP, errno.ENAMETOOLONG]
)
def test_a_file_that_cannot_be_seen_is_left_to_sbatch(job_folder, monkeypatch, number):
    """root sees everything, so the kernel's answer is made here."""
    (job_folder / "good").mkdir()
    (job_folder / "good" / "s.sh").write_text("#!/bin/sh\n#GSCHED --gs-none\n")
    real_stat = Path.stat

    def closed(self, **facts):
        if "closed" in self.parts:
            raise OSError(number, os.strerror(number))
        return real_stat(self, **facts)

    monkeypatch.setattr(Path, "stat", closed)
    environ = {"PATH": f"{job_folder}/closed:{job_folder}/good"}
    for words in (["s.sh"], ["--chdir=closed", "s.sh"]):
        prepared = prepare(*words, environ=environ)
        assert prepared.argv == ("sbatch", *words[:-1], "--comment=gs1{none}", "s.sh")
        assert prepared.warnings == ()
    for name in ("/closed/s.sh", "./closed/s.sh", "closed/s.sh"):
        prepared = prepare(name, environ=environ)
        assert (prepared.argv, prepared.script, prepared.warnings) == (("sbatch", name), None, ())


@pytest.mark.parametrize("name", ["x" * 300, "/" + "x" * 300, "/" + "x/" * 3000])
def test_a_name_that_is_too_long_is_left_to_sbatch(job_folder, name):
    assert prepare(name).argv == ("sbatch", name)


def test_an_unknown_option_is_looked_up_in_sbatchs_help(tmp_path, job_folder, monkeypatch):
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text("#!/bin/sh\necho '      --container-image=PATH  the image'\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sbatch.parent}:{os.environ['PATH']}")
    args = ["--container-image", "ubuntu", "--gs-none", "job.sh"]
    expected = ("sbatch", "--container-image", "ubuntu", "--comment=gs1{none}", "job.sh")
    assert prepare(*args).argv == expected
    (job_folder / "job.sh").write_text(
        "#!/bin/sh\n#SBATCH --container-image ubuntu --comment=mine\n"
    )
    assert prepare("--gs-none", "job.sh").argv[1] == "--comment=mine gs1{none}"


def test_without_sbatchs_help_an_unknown_option_has_no_argument(job_folder, monkeypatch):
    def missing(argv, timeout_s):
        assert argv == ["sbatch", "--help"]
        raise UnavailableError("sbatch not found on PATH")

    monkeypatch.setattr(sbatch_words, "run", missing)
    assert prepare("--x-ray", "--gs-none", "job.sh").argv[-1] == "job.sh"
    assert prepare("--x-ray", "--gs-none", "job.sh").argv[1] == "--x-ray"


def test_a_dry_run_shows_the_command_line_and_the_script(job_folder):
    prepared = prepare("--gs-dry-run", "--comment", "it's", "job.sh", "a b")
    assert prepared.is_dry_run
    assert dry_run_text(prepared) == (
        "sbatch --comment 'it'\"'\"'s' job.sh 'a b'\n# job.sh:\n" + SCRIPT
    )
    wrapped = prepare("--gs-dry-run", "--wrap", "echo hi")
    assert dry_run_text(wrapped) == "sbatch --wrap 'echo hi'\n"


@pytest.mark.parametrize(
    "word", ["a b", "it's", "\x1b[31m", "two\nlines'", "\udcff\\x", "模\u202e"]
)
def test_a_quoted_word_is_read_back_by_a_shell(job_folder, word):
    prepared = prepare("--gs-dry-run", "--wrap", "x", "-J", word)
    line = dry_run_text(prepared).rstrip("\n")
    assert line.isprintable()
    echo = line.replace("sbatch", "printf %s\\\\n", 1)
    done = subprocess.run(["bash", "-c", echo], capture_output=True, check=True)
    assert os.fsdecode(done.stdout).removeprefix("--wrap\nx\n-J\n") == word + "\n"


# -- suggestions ---------------------------------------------------------------------------------


def test_a_suggestion_adds_nothing_to_what_sbatch_gets(job_folder):
    found = prepare("-p", "gpu", "--gs-suggest", "job.sh")
    assert found.argv == ("sbatch", "-p", "gpu", "job.sh")
    assert (found.suggests, found.wait_s, found.warnings) == (True, None, ())
    (job_folder / "job.sh").write_text("#!/bin/sh\n#GSCHED --gs-suggest\ntrue\n")
    assert prepare("job.sh").suggests
    assert not prepare("--wrap", "x").suggests


@pytest.mark.parametrize(
    ("args", "environ", "why"),
    [
        (["-W"], {}, "sbatch --wait ends with the job, too late for gsched's answer"),
        ([], {"SBATCH_WAIT": "1"}, "sbatch --wait ends with the job"),
        (["-Q"], {}, "sbatch --quiet hides the job's id"),
    ],
)
def test_where_nothing_can_be_suggested_the_job_is_submitted_and_it_is_said(
    job_folder, args, environ, why
):
    found = prepare(*args, "--gs-suggest", "job.sh", environ={"PATH": "/nowhere", **environ})
    assert found.argv == ("sbatch", *args, "job.sh")
    assert not found.suggests
    assert found.warnings[0].startswith(f"--gs-suggest is void: {why}")


def test_nothing_is_suggested_of_a_test(job_folder):
    found = prepare("--test-only", "--gs-suggest", "job.sh")
    assert (found.suggests, found.warnings) == (False, ())
    assert prepare("-Q", "--parsable", "--gs-suggest", "job.sh").suggests


def test_without_a_configuration_nothing_is_suggested_and_the_job_is_submitted(job_folder):
    def unreadable():
        raise ConfigError("gsched.toml makes no sense")

    found = prepare("--gs-suggest", "job.sh", settings=unreadable)
    assert found.argv == ("sbatch", "--comment=gs1{none}", "job.sh")
    assert not found.suggests
    assert "as with --gs-none, for gsched.toml makes no sense" in found.warnings[0]
