from __future__ import annotations

import os
import shutil
import string
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.golden_jobscripts import FOLDER, GOLDEN, PYTHON, SCRIPTS, golden
from support.machine import NO_NAMESPACES, has_mount_namespaces

from gsched.errors import ConfigError, UsageError
from gsched.jobscript.directives import split_words
from gsched.jobscript.here_document import delimiter
from gsched.jobscript.quoting import for_directive
from gsched.jobscript.render import Surroundings, UserScript, render
from gsched.jobscript.templates import Library

SHELLS = ("dash", "bash")


def run(script: bytes, folder: Path, *args: str, shell: str = "dash"):
    """Run a rendered script as Slurm's batch step would; its temporary folder is in `folder`."""
    path = folder / "script"
    path.write_bytes(script)
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(folder)}
    return subprocess.run([shell, path, *args], env=env, capture_output=True, check=False)


@pytest.fixture
def launcher(tmp_path):
    """A stand-in for the nodes' Python: it prints its arguments, each with a NUL behind it."""
    program = tmp_path / "it's python"
    program.write_text(
        '#!/bin/sh\n[ "$4" != --check ] || exit 0\n'
        'printf "%s\\0" "$@"\nprintf "%s\\n" "$GSCHED_SCRIPT"\n'
    )
    program.chmod(0o755)
    return str(program)


def wrapped(text: str, python: str = PYTHON, name: str = "plain", values=None, path: str = ""):
    library = Library("")
    template = library.get(name)
    around = Surroundings(python, template.checkpoints == "always")
    script = UserScript("job", text, path)
    return render(library, template, template.values(values or {}), script, around)


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_script_is_what_its_template_makes(name):
    assert (FOLDER / f"{name}.sh").read_bytes() == golden(name)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", GOLDEN)
def test_every_shell_reads_a_golden_script(name, shell):
    done = subprocess.run([shell, "-n", FOLDER / f"{name}.sh"], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_every_template_has_a_golden_script():
    assert {template for template, *_ in GOLDEN.values()} == set(Library("").names())


@pytest.mark.parametrize("name", GOLDEN)
def test_a_golden_script_starts_the_launcher(name, tmp_path, launcher):
    """With exactly the options that its template stands for, and the users own arguments."""
    done = run(golden(name, launcher), tmp_path, "a b", "", "it's")
    words = done.stdout.decode().split("\0")
    assert done.returncode == 0, done.stderr
    assert words[:3] == ["-I", "-m", "gsched.launch"]
    end = words.index("--")
    assert words[end + 1 :][-4:-1] == ["a b", "", "it's"]
    folder = words[4]
    assert Path(folder).parent == tmp_path
    script = SCRIPTS[GOLDEN[name][2]]
    assert Path(folder, "slurm_script").read_bytes() == script.text.encode()
    assert words[-1] == f"{script.path}\n"
    expected = {
        "plain": set(),
        "requeue": {"--checkpoints=gsched-checkpoints", "--every=600", "--at-timeout=3"}
        | {"--notice=90", "--attempt-logs"},
        "array": {"--checkpoint-folder=runs/it's, 5 %", "--every=600"},
        "ddp": {"--checkpoints=gsched-checkpoints", "--every=600", "--ranks"},
        "ddp-torchrun": {"--ranks"},
        "evaluation": {"--evaluate=runs/7"},
        "debug": set(),
    }[name]
    common = {"--grace=30", "--heartbeat=/shared/heartbeats", "--phase=pretrain,eval"}
    assert set(words[5:end]) == expected | common


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("name", [n for n in GOLDEN if GOLDEN[n][2] == "shell"])
def test_without_gsched_on_the_node_a_golden_script_runs_the_users(name, shell, tmp_path):
    script = golden(name).replace(b"/bin/bash -l", b"/bin/cat")
    done = run(script, tmp_path, shell=shell)
    assert done.stdout == SCRIPTS["shell"].text.replace("/bin/bash -l", "/bin/cat").encode()
    assert f"{PYTHON} cannot run gsched on" in done.stderr.decode()
    assert done.returncode == 0


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.binary(max_size=200).filter(lambda data: b"\0" not in data),
    shell=st.sampled_from(SHELLS),
)
def test_the_users_script_comes_out_byte_for_byte(tmp_path, body, shell):
    text = b"#!/bin/cat\n" + body
    done = run(wrapped(text.decode("utf-8", "surrogateescape")), tmp_path, shell=shell)
    assert done.stdout == text


def test_a_script_that_holds_its_own_delimiter_comes_out_byte_for_byte(tmp_path):
    text = "#!/bin/cat\nGSCHED-END-RANKS\necho $HOME `id` \\\n"
    text += "\x01\x7f\x80\udc81\udcff"
    for shell in SHELLS:
        done = run(wrapped(text), tmp_path, shell=shell)
        assert done.stdout == text.encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("line", ["G\u00fcte", "G\udc80", "GSCHED-END-\u00e9", "\u00e9"])
def test_no_byte_is_lost_behind_what_the_delimiter_begins_with(tmp_path, line):
    """dash takes it for the end of its input."""
    for text in (f"#!/bin/cat\n{line}\nx", f"#!/bin/cat\na{line}\n{line}"):
        for shell in SHELLS:
            done = run(wrapped(text), tmp_path, shell=shell)
            assert done.stdout == text.encode("utf-8", "surrogateescape")


def test_a_delimiter_is_none_of_the_lines():
    assert delimiter("x").startswith("GSCHED-END-")
    every = [f"{first}\u00e9" for first in string.ascii_letters + string.digits]
    assert delimiter("\n".join(every[:-1])).startswith("9SCHED-END-")
    with pytest.raises(UsageError, match="here-document"):
        delimiter("\n".join(every))


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1))
@example(value="\\0")
def test_a_value_is_one_word_of_the_shell_whatever_it_holds(tmp_path, launcher, value):
    script = wrapped("#!/bin/sh\n", launcher, "requeue", {"folder": value}, path=value)
    words = run(script, tmp_path).stdout.decode().split("\0")
    assert words[5] == f"--checkpoint-folder={value}"
    assert words[-1] == f"{value}\n"


@given(name=st.text(st.characters(exclude_characters="\0\n\r", codec="utf-8"), min_size=1))
def test_a_name_is_one_word_of_a_directive_whatever_it_holds(name):
    words, is_closed = split_words(f" --job-name={for_directive(name)}")
    assert is_closed
    assert [word for word, _ in words] == [f"--job-name={name}"]


def test_a_line_end_in_a_name_ends_no_directive():
    assert for_directive("a\nb\r#SBATCH -N9") == "'a b #SBATCH -N9'"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#!/bin/sh", ("/bin/sh",)),
        ("#! /bin/bash -l \nx", ("/bin/bash", "-l")),
        ("#!/usr/bin/env -S python3 -u\n", ("/usr/bin/env", "-S python3 -u")),
        ("#!/bin/sh\t-e\r\n", ("/bin/sh", "-e")),
    ],
)
def test_an_interpreter_has_one_argument_at_most_as_for_the_kernel(text, words):
    assert UserScript("x", text).interpreter == words


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "no interpreter"), ("true\n", "no interpreter"), ("#!\n", "no interpreter"),
     ("#!  \n", "no interpreter"), ("\ufeff#!/bin/sh\n", "no interpreter"),
     ("#!/bin/sh\n\0", "NUL")],
)  # fmt: skip
def test_what_slurm_takes_for_no_script_is_none(text, said):
    with pytest.raises(UsageError, match=said):
        wrapped(text)


@pytest.mark.parametrize(
    ("line", "is_python"),
    [("/usr/bin/python3", True), ("/usr/bin/env python3.11", True), ("/bin/bash", False),
     ("/usr/bin/env -S python -u", True), ("/opt/pythonic/bin/sh", False),
     ("/bin/sh python", False)],
)  # fmt: skip
def test_a_python_script_is_known_by_its_first_line(line, is_python):
    assert UserScript("x", f"#!{line}\n").is_python is is_python


def test_each_component_of_a_heterogeneous_job_gets_the_templates_lines():
    text = "#!/bin/sh\n#SBATCH -c1\n  # x\n#SBATCH hetjob\n#SBATCH -c2\n\nx\n#SBATCH late\n"
    lines = wrapped(text, name="requeue").decode().split("\n")
    ours = ["#SBATCH --job-name=job", "#SBATCH --requeue", "#SBATCH --open-mode=append"]
    ours += ["#SBATCH --signal=B:USR1@120"]
    expected = [*ours, "#SBATCH -c1", "#SBATCH hetjob", *ours, "#SBATCH -c2"]
    assert lines[1 : len(expected) + 1] == expected
    assert lines.count("#SBATCH late") == 1  # where it stood


def test_a_notice_does_not_end_a_script_that_knows_no_signal(tmp_path):
    """Without gsched on the node nobody else takes it; but who has a trap gets it."""
    text = "#!/bin/sh\nkill -USR1 $$\necho alive\n"
    assert run(wrapped(text.replace("-USR1", "-10")), tmp_path).stdout == b"alive\n"
    trapping = "#!/bin/sh\ntrap 'echo told' USR1\nkill -USR1 $$\n"
    assert run(wrapped(trapping), tmp_path).stdout == b"told\n"


@pytest.mark.parametrize("answer", [0, 1])
@pytest.mark.parametrize("shell", SHELLS)
def test_without_gsched_on_the_node_a_job_gives_no_gpus_up(tmp_path, monkeypatch, shell, answer):
    """Nothing saves its work then: Slurm is told that it must not be requeued."""
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    (tmp_path / "bin").mkdir()
    scontrol = tmp_path / "bin" / "scontrol"
    scontrol.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\nexit {answer}\n')
    scontrol.chmod(0o755)
    script = "#!/bin/sh\necho runs\n"
    done = run(b"SLURM_JOB_ID=48211\n" + wrapped(script, name="requeue"), tmp_path, shell=shell)
    assert (tmp_path / "asked").read_text() == "update jobid=48211 requeue=0\n"
    assert (done.returncode, done.stdout) == (0, b"runs\n")
    warning = done.stderr.decode().splitlines()[-1]
    expected = ("so it is not requeued", "it can still be requeued: scontrol update jobid=48211")
    assert warning.startswith(f"gsched: warning: {expected[answer]}")
    (tmp_path / "asked").unlink()
    run(wrapped(script), tmp_path, shell=shell)  # without checkpoints nobody takes its GPUs
    assert not (tmp_path / "asked").exists()


def test_without_a_temporary_folder_the_usual_ones_are_tried(tmp_path, launcher):
    script = wrapped("#!/bin/sh\n", launcher)
    path = tmp_path / "script"
    path.write_bytes(script)
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path / "none")}
    done = subprocess.run(["sh", path], env=env, capture_output=True, check=False)
    folder = Path(done.stdout.decode().split("\0")[4])
    assert folder.parent == Path("/tmp")
    assert folder.stat().st_mode & 0o777 == 0o700
    (folder / "slurm_script").unlink()
    folder.rmdir()


FULL = """\
set -e
mount -t tmpfs -o size=64k none full
head -c 100000 /dev/zero >full/all 2>/dev/null || :
TMPDIR=$PWD/full exec "$0" script
"""


@pytest.mark.skipif(not has_mount_namespaces(), reason=NO_NAMESPACES)
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("name", "num_files"), [("plain", 1), ("ddp", 2)])
def test_where_the_temporary_folder_is_full_another_is_taken(
    tmp_path, launcher, name, num_files, shell
):
    (tmp_path / "full").mkdir()
    text = "#!/usr/bin/python3\n" + "#" * 100_000  # more than a pipe holds
    (tmp_path / "script").write_bytes(wrapped(text, launcher, name))
    argv = ["unshare", "-m", "sh", "-c", FULL, shutil.which(shell)]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    folder = Path(done.stdout.decode().split("\0")[4])
    assert folder.parent == Path("/tmp")
    assert (folder / "slurm_script").read_text() == text
    assert len(list(folder.iterdir())) == num_files
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["plain", "ddp"])
def test_where_the_script_cannot_be_written_nothing_runs(tmp_path, launcher, name):
    path = tmp_path / "script"
    path.write_bytes(wrapped("#!/usr/bin/python3\n" + "#" * 9000, launcher, name))
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    argv = ["dash", "-c", "ulimit -f 0; trap '' XFSZ; . ./script"]
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"the script could not be written to" in done.stderr
    assert not [*tmp_path.glob("gsched-job.*")]


LAUNCHER = """\
#!/bin/sh
[ "$4" != --check ] || exit 0
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""
SRUN = """\
#!/bin/sh
while case $1 in --*) ;; *) false ;; esac; do shift; done
export SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NTASKS=1 SLURM_STEP_TASKS_PER_NODE=1
exec "$@"
"""
SBCAST = """\
#!/bin/sh
case $3 in "$FULL"/*) exit 1 ;; esac
cp "$2" "$3"
"""


def test_on_several_nodes_the_script_is_brought_to_where_there_is_room(tmp_path):
    """And the input stays that of the ranks."""
    for name, text in {"python": LAUNCHER, "srun": SRUN, "sbcast": SBCAST}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    text = f"#!{sys.executable}\nimport sys\nprint(sys.argv, sys.stdin.read())\n"
    (tmp_path / "script").write_bytes(wrapped(text, str(tmp_path / "python"), "ddp"))
    path = f"{tmp_path}:{os.environ['PATH']}"
    env = {"PATH": path, "TMPDIR": str(tmp_path), "SLURM_JOB_NUM_NODES": "2"}
    for full, place in ((tmp_path / "other", tmp_path), (tmp_path, Path("/tmp"))):
        done = subprocess.run(
            ["sh", tmp_path / "script", "a b"],
            env=env | {"FULL": str(full)}, input=b"mine", capture_output=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
        (folder,) = tmp_path.glob("gsched-job.*")
        copies = f"{place / folder.name}.ranks"
        assert done.stdout.decode() == f"['{copies}/slurm_script', 'a b'] mine\n"
        assert not Path(copies).exists()
        shutil.rmtree(folder)


def test_a_variable_that_is_not_there_is_an_error_with_its_file(tmp_path):
    (tmp_path / "own.sh.j2").write_text('{# help = "x" #}\n#!/bin/sh\necho {{ nothing }}\n')
    library = Library(str(tmp_path))
    with pytest.raises(ConfigError, match=r"own\.sh\.j2.*'nothing' is undefined"):
        render(library, library.get("own"), {}, UserScript("x", "#!/bin/sh\n"), Surroundings("p"))
