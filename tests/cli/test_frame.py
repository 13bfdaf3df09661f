from __future__ import annotations

import os
import signal
import subprocess
import sys

import click
import pytest

from gsched import __version__
from gsched.errors import ConfigError, GschedError, SlurmCommandError, UnavailableError
from gsched_cli import errors
from gsched_cli.main import COMMANDS, cli

from .conftest import PROGRAM


def test_help_lists_every_command_of_the_table(gsched):
    done = gsched("--help")
    assert (done.returncode, done.stderr) == (0, "")
    listed = done.stdout.split("Commands:\n")[1]
    width = max(map(len, COMMANDS))
    expected = [f"  {name.ljust(width)}  {line}" for name, (_, line) in COMMANDS.items()]
    assert listed.splitlines() == expected


def test_without_arguments_the_help_comes_on_stderr_as_a_usage_error(gsched):
    done = gsched()
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == gsched("--help").stdout


def test_version(gsched):
    assert gsched("--version").stdout == f"gsched {__version__}\n"


@pytest.mark.parametrize(
    ("args", "stderr"),
    [
        (
            ["histroy"],
            "gsched: error: no such command 'histroy'. Did you mean 'history'?\n"
            "hint: see `gsched --help`\n",
        ),
        (["zzz"], "gsched: error: no such command 'zzz'\nhint: see `gsched --help`\n"),
        (
            ["--verison"],
            "gsched: error: no such option '--verison'. Did you mean '--version'?\n"
            "hint: see `gsched --help`\n",
        ),
        (
            ["why", "--jsno"],
            "gsched: error: no such option '--jsno'. Did you mean '--json'?\n"
            "hint: see `gsched why --help`\n",
        ),
        (
            ["\x1b[31m\n\u202equeue"],
            "gsched: error: no such command '\\x1b[31m\\n\\u202equeue'\n"
            "hint: see `gsched --help`\n",
        ),
    ],
)
def test_a_wrong_word_is_answered_in_one_line_with_a_near_name(gsched, args, stderr):
    done = gsched(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.replace("\\\\", "\\") == stderr


def test_a_word_that_is_no_utf8_does_no_harm(gsched):
    done = gsched(b"\xff\xfe")
    assert done.returncode == 2
    assert done.stderr.startswith("gsched: error: no such command")


def test_words_come_out_in_a_locale_that_lacks_the_characters(gsched):
    done = gsched(
        "wärme", environ={"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    )
    assert done.returncode == 2
    assert "internal error" not in done.stderr


def test_a_reader_that_leaves_is_no_error(environment):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [PROGRAM, "--help"], stdout=writing, stderr=subprocess.PIPE, env=environment, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_a_full_disk_is_said_in_one_line(environment):
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [PROGRAM, "--help"], stdout=full, stderr=subprocess.PIPE, env=environment, check=False
        )
    assert done.returncode == 69
    assert done.stderr == b"gsched: error: No space left on device\n"


@pytest.mark.parametrize(("code", "expected"), [(0, 69), (3, 3)])
def test_what_lies_in_the_buffer_is_missed_when_the_disk_is_full(environment, code, expected):
    """Output that nobody has flushed yet counts; the first error is the one that is told."""
    body = f"lambda: print('x') or {code}"
    program = f"import sys; from gsched_cli.errors import guarded; sys.exit(guarded({body}))"
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
        )
    assert done.returncode == expected
    said = b"gsched: error: No space left on device\n" if code == 0 else b""
    assert done.stderr == said


def test_a_closed_stdout_is_no_error(environment):
    done = subprocess.run(
        ["/bin/sh", "-c", f"{PROGRAM} --version >&-"],
        capture_output=True,
        env=environment,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_terminal_gets_no_control_sequences(environment):
    ours, theirs = os.openpty()
    subprocess.run([PROGRAM, "--help"], stdout=theirs, stderr=theirs, env=environment, check=True)
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 65536):
            shown += chunk
    except OSError:  # Linux says EIO at the end of a terminal
        pass
    os.close(ours)
    assert b"Commands:" in shown
    assert b"\x1b" not in shown


def test_completion_knows_the_commands_without_loading_them(gsched, environment):
    script = gsched(environ={"_GSCHED_COMPLETE": "bash_source"})
    assert script.returncode == 0
    assert "complete -o nosort -F _gsched_completion gsched" in script.stdout
    words = {"COMP_WORDS": "gsched d", "COMP_CWORD": "1", "_GSCHED_COMPLETE": "bash_complete"}
    done = gsched(environ=words)
    assert done.stdout.split() == ["plain,daemon", "plain,db", "plain,deadlines", "plain,doctor"]
    words = {"COMP_WORDS": "gsched db ", "COMP_CWORD": "2", "_GSCHED_COMPLETE": "bash_complete"}
    assert "plain,ingest" in gsched(environ=words).stdout.split()


def raising(error):
    def body():
        raise error

    return body


@pytest.mark.parametrize(
    ("error", "code", "stderr"),
    [
        (GschedError("what", "do this"), 70, "gsched: error: what\nhint: do this\n"),
        (GschedError("no", exit_code=3), 3, "gsched: error: no\n"),
        (ConfigError("a\nb\x07"), 78, "gsched: error: a\\nb\\x07\n"),
        (
            SlurmCommandError(("squeue", "-a"), 1, "slurm_load_jobs\n  error"),
            69,
            "gsched: error: squeue failed: slurm_load_jobs error\n",
        ),
        (UnavailableError("gone"), 69, "gsched: error: gone\n"),
        (
            PermissionError(13, "Permission denied", "/x"),
            77,
            "gsched: error: Permission denied: /x\n",
        ),
        (FileNotFoundError(2, "No such file", "/x"), 69, "gsched: error: No such file: /x\n"),
        (click.ClickException("Not so."), 2, "gsched: error: not so\n"),
        (KeyboardInterrupt(), 130, "\n"),
        (click.Abort(), 130, "\n"),
        (
            ZeroDivisionError("by zero"),
            70,
            "gsched: error: internal error: ZeroDivisionError: by zero\n"
            "hint: GSCHED_DEBUG=1 shows the traceback\n",
        ),
    ],
)
def test_every_error_becomes_a_line_and_an_exit_code(error, code, stderr, capsys, monkeypatch):
    monkeypatch.delenv("GSCHED_DEBUG", raising=False)
    assert errors.guarded(raising(error)) == code
    assert capsys.readouterr().err == stderr


def test_the_traceback_is_shown_on_request_only(capsys, monkeypatch):
    monkeypatch.setenv("GSCHED_DEBUG", "1")
    assert errors.guarded(raising(ZeroDivisionError())) == 70
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback (most recent call last):")
    assert shown.endswith("gsched: error: internal error: ZeroDivisionError\n")


def test_an_exit_code_passes():
    assert errors.guarded(lambda: 42) == 42


def members(command, path):
    """(path, command) of a command and of everything below it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from members(command.get_command(context, name), (*path, name))


def load(name):
    return cli.get_command(click.Context(cli), name)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name):
    for path, command in members(load(name), (name,)):
        spelled = f"gsched {' '.join(path)}"
        assert command.name == path[-1]
        assert command.help, f"{spelled} has no help text"
        if not isinstance(command, click.Group):
            _, heading, example = command.help.partition("Example:\n")
            assert heading, f"the help of {spelled} has no Example: block"
            assert spelled in example, f"the example in the help of {spelled} shows something else"
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{spelled} {parameter.opts[0]} has no help text"


@pytest.mark.parametrize(
    "words",
    [
        "history",
        "history --json",
        "history -P",
        "history --color",
        "db stats",
        "policy list",
        "policy list --json",
        "queue --help",
        "completion bash",
    ],
)
def test_data_for_a_closed_stdout_is_no_error(environment, gsched, words):
    assert gsched("db", "init").returncode == 0
    for closed in (">&-", "<&- >&-"):
        done = subprocess.run(
            ["/bin/sh", "-c", f"{PROGRAM} {words} {closed}"],
            capture_output=True,
            env=environment,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")


def test_words_for_a_closed_stderr_do_not_come_out_on_stdout(environment):
    for closed, code in (("2>&-", 2), (">&- 2>&-", 2)):
        done = subprocess.run(
            ["/bin/sh", "-c", f"{PROGRAM} nonsense {closed}"],
            capture_output=True,
            env=environment,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")
