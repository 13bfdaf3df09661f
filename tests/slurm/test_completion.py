"""Tab in bash, zsh and fish themselves, before a real Slurm with jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from support.site import GSCHED
from support.terminal import Terminal

from gsched.testbed.cluster import Testbed

pytestmark = pytest.mark.slurm

HOSTILE = "x\n$(touch pwned);`touch pwned`:*\x1b[31m"

_BASH = """
eval "$(gsched completion bash)"
for line in "$@"; do
    eval "COMP_WORDS=($line)"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
    compopt() { echo "($*)"; }
    _gsched_completion gsched
    printf '%s\\n' "${COMPREPLY[@]}" --
done
"""


@pytest.fixture(scope="module")
def bed() -> Iterator[Testbed]:
    """Two partitions, an array, a job with a hostile name, and one of somebody else."""
    with Testbed.temporary(num_nodes=2) as made:
        made.run(["scontrol", "create", "partitionname=debug", "nodes=gn02"])
        words = ["sbatch", "--hold", "-o", "/dev/null"]
        assert made.run([*words, "-J", HOSTILE, "--wrap", "true"]).returncode == 0
        made.run([*words, "-A", "lab1", "-J", "array", "--array=1-3", "--wrap", "true"])
        made.run([*words, "-A", "lab2", "--wrap", "true"], "games")
        yield made
        assert not list(made.spec.root.rglob("pwned"))


def bash(bed: Testbed, *lines: str) -> list[list[str]]:
    """What bash would offer at the end of each line (words as in COMP_WORDS)."""
    answer = bed.run(["bash", "--norc", "-c", _BASH, "bash", *lines])
    assert (answer.returncode, answer.stderr) == (0, "")
    return [group.split() for group in answer.stdout.split("--\n")[:-1]]


def test_bash_completes_commands_options_and_values(bed: Testbed) -> None:
    expected = {
        "gsched qu": ["queue"],
        "gsched queue --pend": ["--pending"],
        "gsched queue -p ''": ["debug", "gpu"],
        "gsched queue -p debug,g": ["debug,gpu"],
        "gsched queue --partition = g": ["gpu"],
        "gsched queue -u ''": ["games", "root"],
        "gsched queue -A lab": ["lab1", "lab2"],
        "gsched queue -w gn": ["gn01", "gn02"],
        "gsched queue -t pe": ["PENDING"],
        "gsched queue -t PENDING,ru": ["PENDING,RUNNING"],
        "gsched queue -o jobid,pre": [
            "jobid,predicted",
            "jobid,predicted_low",
            "jobid,predicted_high",
        ],
        "gsched queue -o +acc": ["+account"],
        "gsched queue -S -- ''": [],
        "gsched queue -j ''": ["1", "2"],
        "gsched why ''": ["1", "2"],
        "gsched show ''": ["1", "2"],
        "gsched requeue ''": ["1", "2"],
        "gsched cancel ''": ["1", "2"],
        "gsched cancel -p d": ["debug"],
        "gsched cancel --hu": ["--hurry"],
        "gsched submit --gs-dry": ["--gs-dry-run"],
        "gsched submit --gs-che": ["--gs-checkpoint"],
        "gsched submit --gs-runtime re": ["requeue"],
        "gsched submit --gs-runtime = eva": ["evaluation"],
        "gsched submit --gs-runtime requeue,l": ["requeue,log=append", "requeue,log=attempts"],
        "gsched submit --gs-runtime debug,": ["debug,blocking=yes", "debug,blocking=no"],
        "gsched submit --gs-runtime ddp,grace=9,n": ["ddp,grace=9,nproc="],
        "gsched submit --gs-runtime nothing,": [],
        "gsched jobscript show de": ["debug"],
        "gsched jobscript check -p d": ["debug"],
        "gsched submit --gpus-per-n": ["--gpus-per-node"],
        "gsched submit --partition = ''": ["debug", "gpu"],
        "gsched submit -p gpu tr": ["(-o", "default)"],  # files, by bash itself
        "gsched completion ''": ["bash", "zsh", "fish"],
    }
    found = bash(bed, *expected)
    assert dict(zip(expected, found, strict=True)) == expected


def test_fish_completes_whole_words_with_help(bed: Testbed) -> None:
    lines = ("gsched qu", "gsched queue -p d", "gsched queue --partition=g", "gsched why ")
    script = "\n".join(
        ["gsched completion fish | source", *(f"complete -C '{line}'; echo ==" for line in lines)]
    )
    answer = bed.run(["fish", "--no-config", "-c", script])
    assert answer.returncode == 0, answer.stderr
    commands, partitions, option, jobs, _ = answer.stdout.split("==\n")
    assert commands.startswith("queue\tShow the queue")
    assert partitions.split() == ["debug"]
    assert option.split() == ["--partition=gpu"]
    assert jobs.splitlines()[1] == "2\tarray"
    assert len(jobs.splitlines()) == 2  # the hostile name is help of one line
    assert "\x1b" not in jobs


def until(text: str) -> Callable[[Terminal], bool]:
    return lambda terminal: text in terminal.text


def last(terminal: Terminal) -> str:
    """The last line on the screen that is not empty."""
    return [line for line in terminal.lines if line][-1]


def test_zsh_completes_on_its_own_line(bed: Testbed) -> None:
    env = bed.env("root") | {"TERM": "xterm", "PS1": "ready> "}
    with Terminal(["zsh", "-f", "-i"], env) as terminal:
        terminal.press("PS1='ready> '; autoload -U compinit; compinit -u -D\r")
        terminal.press('eval "$(gsched completion zsh)"; clear; echo set\\ up\r')
        terminal.wait(until("set up"), "the shell")
        for typed, line in (
            ("gsched que", "ready> gsched queue"),
            ("gsched queue -p d", "ready> gsched queue -p debug"),
            ("gsched queue --partition=g", "ready> gsched queue --partition=gpu"),
            ("gsched submit --gpus-per-n", "ready> gsched submit --gpus-per-node"),
        ):
            terminal.press(f"{typed}\t")
            terminal.wait(lambda t, line=line: last(t) == line, f"{line!r} for {typed!r}")
            terminal.press("\x15")  # deletes the line
            terminal.wait(lambda t: last(t) == "ready>", "an empty line")
        terminal.press("gsched why \t")
        terminal.wait(until("array"), "the jobs with their names")
        terminal.press("\x15exit\r")
        terminal.end()


def test_without_slurm_there_is_nothing_to_offer_and_nothing_is_said(bed: Testbed) -> None:
    down = {"SLURM_CONF": str(bed.spec.root / "none.conf")}
    words = {
        "COMP_WORDS": "gsched queue -p ",
        "COMP_CWORD": "3",
        "_GSCHED_COMPLETE": "bash_complete",
    }
    answer = bed.run([GSCHED], extra_env=down | words)
    assert (answer.returncode, answer.stdout.strip(), answer.stderr) == (0, "", "")
    dead = Testbed.temporary(num_nodes=1, extra_conf=("MessageTimeout=2",))
    with dead:
        dead.kill_slurmctld()
        assert bash(dead, "gsched queue -p ''", "gsched why ''") == [[], []]


def test_users_are_offered_their_own_jobs(bed: Testbed) -> None:
    environ = {"COMP_WORDS": "gsched why ", "COMP_CWORD": "2", "_GSCHED_COMPLETE": "bash_complete"}
    answer = bed.run([GSCHED], "games", extra_env=environ)
    assert answer.stdout.split() == ["plain,3"], answer.stderr
