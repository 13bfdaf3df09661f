"""gsched's own options of a submission: on the command line, in the script, and what is wrong."""

from __future__ import annotations

from datetime import datetime

import pytest

from gsched.errors import UsageError
from gsched.jobscript.command_line import SBATCH, Kind, scan
from gsched.jobscript.directives import read_directives
from gsched.jobscript.own_options import OPTIONAL, OPTIONS, VALUED
from gsched.jobscript.requests import SubmitOptions, read_options
from gsched.jobscript.template_choice import TemplateChoice
from gsched.model.job import Wants

NOW = int(datetime(2026, 11, 29, 12, 0).timestamp())


def options(*argv, script="", opts_out=False):
    own = [word for word in scan(argv, SBATCH) if word.kind is Kind.OWN]
    directives = read_directives(f"#!/bin/sh\n{script}", "job.sh")
    return read_options(own, directives.gsched, "job.sh", NOW, opts_out=opts_out)


def wants(*argv, script=""):
    return options(*argv, script=script).wants


def test_nothing_is_asked_for():
    assert options() == SubmitOptions(Wants())


def test_every_option_has_help_and_the_valued_ones_are_among_them():
    assert VALUED.keys() | OPTIONAL.keys() <= OPTIONS.keys()
    assert not VALUED.keys() & OPTIONAL.keys()
    assert all(text.endswith(".") or text.endswith("].") for text in OPTIONS.values())


EVERYTHING = [
    ("--gs-deadline", "now+2hours"),
    ("--gs-soft-deadline", "now+1hour=2.5"),
    ("--gs-soft-deadline", "2026-11-29T12:30=10"),
    ("--gs-phase", "eval,sft"),
    ("--gs-runtime", "ddp,nproc=4,folder=a/b"),
    ("--gs-wait", "1.5"),
    ("--gs-else", "cancel"),
]
ASKED = SubmitOptions(
    Wants(
        deadline=NOW + 7200,
        soft_deadlines=((NOW + 1800, 10.0), (NOW + 3600, 2.5)),
        phases=("eval", "sft"),
        shareable=True,
    ),
    is_dry_run=True,
    suggests=True,
    wait_s=1.5,
    otherwise="cancel",
    template=TemplateChoice("ddp", {"nproc": "4", "folder": "a/b"}),
)
FLAGS = ["--gs-shareable", "--gs-suggest", "--gs-dry-run"]


def test_all_of_them_in_either_spelling_on_the_command_line_and_in_the_script():
    joined = [f"{name}={value}" for name, value in EVERYTHING]
    apart = [word for pair in EVERYTHING for word in pair]
    assert options(*joined, *FLAGS) == ASKED
    assert options(*apart, *FLAGS) == ASKED
    assert options(script="\n".join(f"#GSCHED {word}" for word in [*joined, *FLAGS])) == ASKED
    assert options(script="#GSCHED " + " ".join([*apart, *FLAGS])) == ASKED


def test_the_command_line_wins_over_the_script_and_the_last_one_counts():
    script = "#GSCHED --gs-deadline=now+5hours --gs-phase sft\n#GSCHED --gs-soft-deadline=fika=1"
    found = wants("--gs-deadline=now+9hours", "--gs-deadline=now+1hour", script=script)
    assert (found.deadline, found.phases) == (NOW + 3600, ("sft",))
    assert found.soft_deadlines == ((NOW + 3 * 3600, 1.0),)
    found = wants("--gs-soft-deadline=teatime=2", script=script)
    assert found.soft_deadlines == (
        (NOW + 4 * 3600, 2.0),
    )  # instead of the script's, not beside it


def test_seconds_of_checkpoints_stand_behind_an_equals_sign_alone():
    """Else the script's name would be taken for them."""
    assert options("--gs-checkpoint").template == TemplateChoice(asks_checkpoints=True)
    every = TemplateChoice(asks_checkpoints=True, every_s=90.5)
    assert options("--gs-checkpoint=90.5").template == every
    assert options(script="#GSCHED --gs-checkpoint=90.5").template == every
    with pytest.raises(UsageError, match="no such option '60'"):
        options(script="#GSCHED --gs-checkpoint 60")
    escaped = r"#GSCHED --gs-runtime x,a=b\\,c"  # a directive takes one backslash away
    assert options(script=escaped).template == TemplateChoice("x", {"a": "b,c"})
    both = options("--gs-checkpoint=60", script="#GSCHED --gs-runtime=plain").template
    assert both == TemplateChoice("plain", {}, True, 60.0)
    assert both.place == "job.sh line 2: --gs-runtime: "


def test_a_value_is_not_taken_from_the_next_line():
    with pytest.raises(UsageError, match=r"^job.sh line 2: --gs-wait: a value is missing, SECONDS"):
        options(script="#GSCHED --gs-wait\n#GSCHED 5")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--gs-nome"], "no such option '--gs-nome'"),
        (["--gs-none=yes"], "option --gs-none takes no value"),
        (["--gs-deadline"], "--gs-deadline: a value is missing, TIME"),
        (["--gs-deadline="], "--gs-deadline: a value is missing, TIME"),
        (["--gs-deadline=soon"], "--gs-deadline: not a time: 'soon'"),
        (["--gs-deadline=2026-11-29T11:59"], "'2026-11-29T11:59' has passed already"),
        (["--gs-deadline=now"], "has passed already"),
        (["--gs-deadline=2300-01-01"], "'2300-01-01' is too far away"),
        (["--gs-deadline=2d"], "not a time"),
        (["--gs-deadline=9999-12-31"], "--gs-deadline: '9999-12-31' is too far away"),
        (["--gs-deadline=9999-12-31T23:59"], "is too far away"),
        (["--gs-soft-deadline=now+1hour"], "'now+1hour' names no reward"),
        (["--gs-soft-deadline=now+1hour="], "the reward '' is no number"),
        (["--gs-soft-deadline=now+1hour=-1"], "the reward '-1' is no number above 0"),
        (["--gs-soft-deadline=now+1hour=0"], "the reward '0' is no number above 0"),
        (["--gs-soft-deadline=now+1hour=nan"], "the reward 'nan' is no number"),
        (["--gs-soft-deadline=now+1hour=1e10"], "at most 1e+09"),
        (["--gs-soft-deadline=soon=1"], "--gs-soft-deadline: not a time: 'soon'"),
        (["--gs-soft-deadline=now+60=1", "--gs-soft-deadline=now+1minute=2"], "a second reward"),
        ([f"--gs-soft-deadline=now+{i}=1" for i in range(1, 10)], "at most 8 soft deadlines"),
        (["--gs-phase=mining"], "no such phase 'mining'"),
        (["--gs-phase=eval,"], "no such phase ''"),
        (["--gs-phase=eval,eval"], "a phase is named twice"),
        (["--gs-checkpoint="], "--gs-checkpoint: a value is missing, SECONDS"),
        (["--gs-checkpoint=0"], "'0' is no number of seconds above 0"),
        (["--gs-checkpoint=10m"], "'10m' is no number of seconds"),
        (["--gs-checkpoint=604801"], "at most 604800"),
        (["--gs-runtime=ddp,x"], "--gs-runtime: 'x' is no key=value"),
        (["--gs-runtime"], "--gs-runtime: a value is missing, NAME[,KEY=VALUE]"),
        (["--gs-wait=0"], "'0' is no number of seconds above 0"),
        (["--gs-wait=1m"], "'1m' is no number of seconds"),
        (["--gs-wait=-1"], "'-1' is no number of seconds"),
        (["--gs-wait=inf"], "'inf' is no number of seconds"),
        (["--gs-wait=86401"], "at most 86400"),
        (["--gs-wait=5", "--gs-else=retry"], "'retry' is neither cancel nor best-effort"),
        (["--gs-else=cancel"], "nothing waits for one"),
        (["--gs-none", "--gs-deadline=now+1hour"], "--gs-none keeps gsched away from the job"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(argv, message):
    with pytest.raises(UsageError) as caught:
        options(*argv)
    assert message in caught.value.message


def test_what_is_wrong_in_a_script_is_said_with_its_line():
    with pytest.raises(UsageError, match=r"^job.sh line 3: --gs-phase: no such phase") as caught:
        options(script="#\n#GSCHED --gs-phase=x")
    assert caught.value.hint == "one or more of pretrain,eval,sft,debug"
    with pytest.raises(UsageError, match=r"^job.sh line 2: no such option '--gs-wiat'") as caught:
        options(script="#GSCHED --gs-wiat")
    assert caught.value.hint == "did you mean --gs-wait?"
    with pytest.raises(UsageError, match=r"^job.sh line 2: no such option '600'") as caught:
        options(script="#GSCHED --gs-checkpoint 600")
    assert caught.value.hint == "did you mean --gs-checkpoint=600?"


def test_a_user_who_keeps_gsched_away_from_all_jobs():
    assert options(opts_out=True) == SubmitOptions(Wants(opt_out=True))
    assert options("--gs-none", opts_out=True) == SubmitOptions(Wants(opt_out=True))
    found = options("--gs-phase=eval", "--gs-wait=5", opts_out=True)
    assert found.wants == Wants(opt_out=True)
    assert found.wait_s == 5.0
    assert "what this one asks for is void" in found.warnings[0]
