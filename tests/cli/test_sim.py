"""`gsched sim run` and `compare`, from the command line to the files.

Within this process, so that compiled code is loaded once; the end by a signal is a process's own.
"""

from __future__ import annotations

import csv
import inspect
import json
import random
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.history import attempt, batch
from support.json_shape import block
from support.sim_traces import ran

from gsched.app.sim.per_job import COLUMNS
from gsched.model.job import JobKey, Wants
from gsched.model.user_request import UserRequest
from gsched.sim.compiling import COMPILING
from gsched.testbed.wait import wait_for
from gsched_cli import main
from gsched_cli.commands.sim import compare, run
from gsched_cli.errors import guarded
from gsched_cli.sim_options import time_span
from gsched_cli.sim_rows import _saying_compiles
from gsched_sql import History

from .conftest import PROGRAM

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster\n"
# On one node of 8 GPUs. FIFO: starts at 0, 600, 660, 6660. SJF: the short one at 600, too.
ROWS = (
    "2017-10-01 00:00:00,600,8,4800,6214e9\n",
    "2017-10-01 00:01:00,6000,8,48000,6214e9\n",
    "2017-10-01 00:02:00,60,8,480,11cb48\n",
    "2017-10-01 00:03:00,60,4,240,11cb48\n",
)
BAD = (
    "2017-10-01 00:04:00,60,16,960,6214e9\n",
    "2017-10-01 00:05:00,0,1,0,6214e9\n",
    "2017-10-01 00:05:00,60,0,0,6214e9\n",
    "1969-10-01 00:05:00,60,1,0,6214e9\n",
    "2017-10-01 00:06:00,-60,1,60,6214e9\n",
    "yesterday,60,1,60,6214e9\n",
)
BEGIN = 1506816000


@pytest.fixture
def sim(environment, tmp_path, monkeypatch, capsys):
    """Run ``gsched sim ARGS`` in `tmp_path`; gives code, stdout and stderr."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)

    def call(*words):
        code = guarded(lambda: main.run(["sim", *map(str, words)]))
        printed = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=printed.out, stderr=printed.err)

    return call


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + "".join(ROWS))
    return path


def starts(path):
    with path.open() as file:
        return [float(row["start_time"]) - BEGIN for row in csv.DictReader(file)]


def test_a_policy_on_a_trace(sim, trace, tmp_path):
    done = sim("run", "-P", "fifo", "-f", "philly", trace, "--nodes", "1x8",
                  "--per-job", "jobs.csv")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "4 of 4" in done.stdout
    # JCT 600, 6,540, 6,540, 6,540 s: 84:15 on average
    assert "1:24:15" in done.stdout
    assert "one pool that all jobs share" in done.stdout
    assert "jobs.csv is written" in done.stderr
    assert starts(tmp_path / "jobs.csv") == [0, 600, 6600, 6660]


def test_restarts_and_rounds_of_the_command_line(sim, trace, tmp_path):
    """The 60 s jobs come at 120 and 180 s, the first ends at 600: decided at 700."""
    words = ("-P", "sjf", "-f", "philly", trace, "--nodes", "1x8", "--round", "100s",
             "--restart-cost", "30", "--restart-one-gpu-cost", "0")  # fmt: skip
    done = sim("run", *words, "--per-job", "jobs.csv", "--json")
    assert done.returncode == 0, done.stderr
    assert starts(tmp_path / "jobs.csv") == [0, 800, 600, 700]
    told = json.loads(done.stdout)["assumptions"]
    assert told["round_s"] == 100
    assert (told["costs"]["restart_s"], told["costs"]["restart_one_gpu_s"]) == (30, 0)
    in_words = sim("run", *words).stdout
    assert "Decisions: every 100 s from the first submission" in in_words
    assert "restart 30 s, restart on several nodes 30 s, restart on one GPU 0 s" in in_words
    without = sim("run", *words[:7]).stdout
    assert "Decisions:" not in without
    assert "restart" not in without.partition("Costs of each attempt")[2].splitlines()[0]


def test_a_starvation_bound_of_the_command_line(sim, tmp_path):
    """Jobs of 100 s on half of the node come every 40 s: those of the whole node wait for ever."""
    lines = ["2017-10-01 00:00:00,100,4,1,a\n", "2017-10-01 00:00:01,1000,8,1,a\n"]
    lines += [f"2017-10-01 00:{n * 40 // 60:02}:{n * 40 % 60:02},100,4,1,a\n" for n in range(1, 80)]
    (tmp_path / "t.csv").write_text(HEADER + "".join(lines))
    words = ("run", "-P", "sjf", "-f", "philly", "t.csv", "--nodes", "1x8", "--per-job", "j.csv")
    assert sim(*words).returncode == 0
    assert starts(tmp_path / "j.csv")[1] > 3000
    done = sim(*words, "--force", "--starvation-bound", "10m", "--json")
    assert done.returncode == 0, done.stderr
    assert 601 < starts(tmp_path / "j.csv")[1] <= 702
    assert json.loads(done.stdout)["assumptions"]["starvation_bound_s"] == 600
    in_words = sim(*words, "--force", "--starvation-bound", "10m").stdout
    assert "Starvation bound: who has waited for more than 600 s comes before all" in in_words
    assert "Starvation" not in sim(*words, "--force").stdout


LIMITS = """id,submit,run,gpus,limit
1,1000,600,8,3600
2,1060,600,8,300
3,1120,60,4,
"""
LIMITS_MAP = """[fields]
job_id = "id"
submit_time = "submit"
duration_s = "run"
num_gpus = "gpus"
time_limit_s = "limit"
"""


@pytest.mark.parametrize(
    ("words", "told"),
    [(("-P", "multifactor"), True), (("-P", "fifo", "--slurm"), True), (("-P", "fifo"), False)],
)
def test_time_limits_that_backfill_goes_by_are_told_with_their_number(sim, tmp_path, words, told):
    """One job of three has no limit, and one of the other two runs for longer than its own."""
    (tmp_path / "limits.csv").write_text(LIMITS)
    (tmp_path / "map.toml").write_text(LIMITS_MAP)
    done = sim("run", *words, "-f", "csv", "--columns", "map.toml", "limits.csv",
               "--nodes", "1x8")  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = (
        "Time limits for backfill: 1 of 3 jobs have none and count as 365 days; 1 of the 2 others"
    )
    assert (said in done.stdout) is told


def test_policies_are_compared_with_the_first(sim, trace, tmp_path):
    done = sim("compare", "-P", "fifo,sjf", "-P", "fifo", "-f", "philly", trace,
                  "--nodes", "1x8", "--per-job", "jobs.csv", "--json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [policy["label"] for policy in document["policies"]] == ["fifo", "sjf"]
    assert [policy["oracle"] for policy in document["policies"]] == [False, True]
    (mean,) = [d for d in document["differences"] if d["metric"] == "jct_mean_s"]
    first = [0, 600, 6600, 6660]
    shortest = [0, 720, 600, 660]
    submits = [0, 60, 120, 180]
    durations = [600, 6000, 60, 60]
    fifo, sjf = (
        sum(s + d - b for s, d, b in zip(started, durations, submits, strict=True)) / 4
        for started in (first, shortest)
    )
    assert (mean["label"], mean["value"]) == ("sjf", sjf - fifo)
    assert starts(tmp_path / "jobs.csv") == first + shortest


@pytest.mark.parametrize(("command", "policies"), [(run, "fifo"), (compare, "fifo,sjf")])
def test_json_has_the_keys_that_the_help_promises(sim, trace, command, policies):
    with trace.open("a") as file:
        file.writelines(BAD)
    done = sim(command.name, "-P", policies, "-f", "philly", trace, "--nodes", "1x8",
                  "--json")  # fmt: skip
    document = json.loads(done.stdout)
    assert block(document) in inspect.cleandoc(command.help)
    words = " ".join((run.help or "").replace(",", " ").replace(".", " ").split())
    for key in (*document["cluster"], *document["assumptions"], *document["policies"][0]):
        assert f" {key} " in f" {words} "


def test_bad_rows_are_counted_and_told_and_the_rest_is_simulated(sim, trace):
    with trace.open("a") as file:
        file.writelines(BAD)
    done = sim("run", "-P", "fifo", "-f", "philly", trace, "--nodes", "1x8", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert {out["reason"]: out["jobs"] for out in document["left_out"]} == {
        "rejected": 3,
        "no-gpus": 1,
        "zero-duration": 1,
        "larger-than-pool": 1,
    }
    assert "line 9" in document["left_out"][0]["examples"][0]
    assert "not simulated: 1 job too large for the pool" in done.stderr
    assert document["policies"][0]["runs"][0]["finished"] == 4
    in_words = sim("run", "-P", "fifo", "-f", "philly", trace, "--nodes", "1x8").stdout
    assert "Not simulated: 1 job without GPUs" in in_words


def test_a_trace_of_nothing_that_can_run(sim, tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text(HEADER + BAD[1])
    done = sim("run", "-P", "fifo", "-f", "philly", path)
    assert (done.returncode, done.stdout) == (65, "")
    assert "no job that can be simulated" in done.stderr
    assert "less than a second" in done.stderr


def test_a_pool_whose_name_looks_like_a_number(sim, trace, tmp_path):
    pools = tmp_path / "pools.csv"
    pools.write_text("pool,nodes,gpus\n6214e9,1,8\n11cb48,1,4\n")
    done = sim("run", "-P", "fifo", "-f", "philly", trace, "--pools", pools, "--json")
    document = json.loads(done.stdout)
    assert [pool["name"] for pool in document["cluster"]["pools"]] == ["11cb48", "6214e9"]
    by_pool = document["policies"][0]["runs"][0]["by_pool"]
    assert {pool["name"] for pool in by_pool} == {"6214e9", "11cb48"}
    assert document["left_out"][0]["jobs"] == 1  # 8 GPUs in a pool of 4
    assert "warning" not in done.stderr.replace("warning: not simulated", "")


def test_a_large_part_that_is_left_out_and_predictions_of_few_are_warned_of(sim, trace, tmp_path):
    (tmp_path / "pools.csv").write_text("pool,nodes,gpus\n11cb48,1,8\n")
    words = ("run", "-P", "qssf", "-f", "philly", trace)
    done = sim(*words, "--pools", "pools.csv")
    assert done.returncode == 0
    # 600 s and 6,000 s of 8 GPUs, besides 60 s of 8 and of 4
    assert "warning: 98.7% of the jobs' GPU time is not simulated: 2 jobs of a pool" in done.stderr
    every = sim(*words, "--nodes", "1x8", "--per-job", "jobs.csv")
    assert "warning" not in every.stderr
    with (tmp_path / "jobs.csv").open() as file:
        job = next(csv.DictReader(file))["job"]
    (tmp_path / "p.csv").write_text(f"job,predicted_duration_s\n{job},9\n")
    few = sim(*words, "--nodes", "1x8", "--predictions", "p.csv")
    assert (few.returncode, "warning: p.csv tells of 1 of 4 jobs only" in few.stderr) == (0, True)
    (tmp_path / "p.csv").write_text("job,predicted_duration_s\nother,9\n")
    none = sim(*words, "--nodes", "1x8", "--predictions", "p.csv")
    assert (none.returncode, none.stdout) == (65, "")
    assert "'other'" in none.stderr


def test_it_is_said_once_that_the_loops_are_compiled(capsys):
    told = []
    tell = _saying_compiles(lambda what, rows: told.append((what, rows)))
    for _ in range(2):
        tell(f"fifo: {COMPILING}", 0)
    tell("fifo: jobs ended", 5)
    assert capsys.readouterr().err == f"gsched: {COMPILING}\n"
    assert told == [("fifo: jobs ended", 5)]


def test_the_order_of_the_rows_changes_nothing(sim, tmp_path):
    rows = [
        f"2017-10-0{n % 7 + 1} 0{n % 9}:00:00,{60 * (n % 50 + 1)},{2 ** (n % 4)},1,vc{n % 3}\n"
        for n in range(300)
    ]
    shuffled = list(rows)
    random.Random(2).shuffle(shuffled)
    files = []
    for name, order in (("a", rows), ("b", shuffled)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "t.csv").write_text(HEADER + "".join(order))
        done = sim("compare", "-P", "fifo,qssf,srtf", "-f", "philly", f"{name}/t.csv",
                      "--nodes", "1x8", "--per-job", f"{name}/jobs.csv")  # fmt: skip
        assert done.returncode == 0, done.stderr
        files.append((folder / "jobs.csv").read_bytes())
    assert files[0] == files[1]
    assert len(files[0].splitlines()) == 901


def test_per_job_as_parquet_has_the_documented_columns(sim, trace, tmp_path):
    import pyarrow.parquet

    out = tmp_path / "jobs.parquet"
    done = sim("run", "-P", "qssf", "-f", "philly", trace, "--per-job", out)
    assert done.returncode == 0, done.stderr
    table = pyarrow.parquet.read_table(out)
    assert tuple(table.column_names) == COLUMNS
    for name in COLUMNS:
        assert name in (run.help or "")
    predictions = table["predicted_duration_s"].to_pylist()
    assert predictions[0] is None
    again = sim("run", "-P", "fifo", "-f", "philly", trace, "--per-job", out)
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    assert pyarrow.parquet.read_table(out)["policy"][0].as_py() == "qssf"
    assert sim("run", "-P", "fifo", "-f", "philly", trace, "--per-job", out,
                  "--force").returncode == 0  # fmt: skip
    assert pyarrow.parquet.read_table(out)["policy"][0].as_py() == "fifo"


def test_one_policy_is_not_compared(sim, trace):
    done = sim("compare", "-P", "fifo,fifo", "-f", "philly", trace)
    assert (done.returncode, done.stdout) == (2, "")
    assert "one policy alone" in done.stderr
    assert "gsched sim run" in done.stderr


def test_a_page_and_figures(sim, trace, tmp_path):
    done = sim("compare", "-P", "fifo,sjf", "-f", "philly", trace, "--nodes", "1x8",
                  "--html", "out/page", "--figures", "out/figures")  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out" / "page" / "index.html").read_text()
    assert "<html" in page
    kinds = {path.suffix for path in (tmp_path / "out" / "figures").iterdir()}
    assert kinds == {".png", ".svg"}
    for path in (tmp_path / "out" / "figures").iterdir():
        assert path.name in done.stderr


@pytest.mark.parametrize(("option", "name"), [("--html", "index.html"), ("--figures", "jct.svg")])
def test_an_old_page_or_figure_is_replaced_by_force_alone(sim, trace, tmp_path, option, name):
    (tmp_path / "out").mkdir()
    old = tmp_path / "out" / name
    old.write_text("old")
    words = ("-P", "fifo", "-f", "philly", trace, "--nodes", "1x8", option, "out")
    done = sim("run", *words)
    assert (done.returncode, done.stdout, old.read_text()) == (2, "", "old")
    assert f"{name} exists" in done.stderr
    assert sim("run", *words, "--force").returncode == 0
    assert old.read_text() != "old"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("-P", "fifo"), 2, "--since 30d"),
        (("-P", "fifo", "x.csv"), 2, "--format"),
        (("-P", "fifo", "nofile.csv"), 2, "cannot read nofile.csv: No such file"),
        (("-P", "fifo", "-f", "philly"), 2, "--format without files"),
        (("-P", "ffio", "-f", "philly", "t"), 78, "no policy is called 'ffio'"),
        (("-P", "fifo:x=1", "-f", "philly", "t"), 78, "has no knob 'x'"),
        (("-P", "qssf:span_octaves", "-f", "philly", "t"), 2, "is no knob with a number"),
        (("-P", "srtf", "-f", "philly", "t", "--slurm"), 2, "with --slurm no job is preempted"),
        (("-P", "srtf", "-f", "philly", "t", "--slurm"), 2, "leave --slurm out"),
        (("-P", "fifo", "-f", "philly", "t", "--round", "1.5"), 2, "not whole seconds"),
        (("-P", "fifo", "-f", "philly", "t", "--starvation-bound", "1.5"), 2, "not whole seconds"),
        (("-P", "srtf", "-f", "philly", "t", "--starvation-bound", "7d"), 2, "srtf preempts"),
        (("-P", "fifo", "-f", "philly", "t", "--predict", "luck"), 2, "rolling"),
        (("-P", "fifo", "-f", "philly", "t", "--nodes", "8"), 2, "10x8"),
        (("-P", "fifo", "-f", "philly", "t", "--nodes", "1x8", "--live"), 2, "both say"),
        (("-P", "fifo", "-f", "philly", "t", "--mtbf", "often"), 2, "no time span"),
        (("-P", "fifo", "-f", "philly", "t", "--mtbf", "0"), 2, "do no work"),
        (("-P", "fifo", "-f", "philly", "t", "--wake", ""), 2, "no time span"),
        (("-P", "fifo", "-f", "philly", "t", "--wake", "-5m"), 2, "no time span"),
        (("-P", "fifo", "-f", "philly", "t", "--wake", "1e99d"), 2, "no time span"),
        (("-P", "fifo", "-f", "philly", "t", "--node-watts", "1,2"), 2, "ASLEEP,IDLE,GPU"),
        (("-P", "fifo", "-f", "philly", "t", "--seeds", "3"), 2, "depends on chance"),
        (("-P", "fifo", "-f", "philly", "t", "--per-job", "x.txt"), 2, ".csv or .parquet"),
        (("-P", "fifo", "-f", "philly", "t", "--sharing-drawn"), 2, "--sharing FILE"),
        (("-P", "fifo", "--since", "2d", "--until", "3d"), 2, "not before"),
        (("-P", "fifo", "--since", "2d"), 78, "gsched db init"),
    ],
)
def test_what_is_wrong_is_said(sim, tmp_path, words, code, told):
    (tmp_path / "t").write_text(HEADER + ROWS[0])
    (tmp_path / "x.csv").write_text("")
    done = sim("run", *words)
    assert (done.returncode, done.stdout) == (code, "")
    assert told in done.stderr
    assert "internal error" not in done.stderr


@pytest.fixture
def database(sqlite_template, tmp_path):
    """Three jobs of a month ago and two of now, one of which still waits."""
    state = tmp_path / "state"
    state.mkdir()
    path = state / "history.db"
    path.write_bytes(sqlite_template.read_bytes())
    old, new = 1_700_000_000, 1_702_600_000
    records = [
        ran(1, old, 0, 50, 2, node_list="n1"),
        ran(2, old + 9, 0, 50, 2, node_list="n1"),
        ran(3, old + 18, 0, 50, 2, node_list="n1"),
        ran(4, new, 5, 100, 4, node_list="n1"),
        ran(5, new + 1, 5, 100, 4, node_list="n2"),
        attempt(6, new + 2, start_time=None, end_time=None, state=attempt().state.PENDING,
                num_nodes=None, node_list=None),
    ]  # fmt: skip
    with History.open(f"sqlite:///{path}") as history:
        history.ingest(batch(*records), source_key=None)
        key = JobKey("alpha", 5, epoch=new + 1)
        for seen, wants in enumerate((Wants(deadline=new + 9), Wants(deadline=new + 900))):
            request = UserRequest(key, "alice", f"gs1{{{seen}}}", wants, new + seen)
            history.request_store().capture([request])
    return path


def test_the_history_of_the_last_days(sim, database):
    done = sim("run", "-P", "qssf", "--since", "2023-12-01", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["source"].startswith("history database, cluster alpha")
    figures = document["policies"][0]["runs"][0]
    assert figures["jobs"] == 2
    # what was asked for last: it ends 100 s after its submission
    assert (figures["deadlines"]["jobs"], figures["deadlines"]["missed"]) == (1, 0)
    assert [(out["reason"], out["jobs"]) for out in document["left_out"]] == [("not-ended", 1)]
    assert document["cluster"]["pools"] == [{"name": "gpu", "nodes": 2, "gpus": 8}]
    assert any("3 jobs that ended before the window" in note for note in document["notes"])
    assert sim("run", "-P", "fifo", "--since", "2023-12-01", "--cluster", "beta",
                  ).returncode == 65  # fmt: skip


CHRONUS_JOBS = """\
job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,\
expect_value_list,best_effort,job_type
0,v,1,1,9,m,100,1,250,10,0,strict
1,v,1,1,9,m,100,1,250,10,0,strict
2,v,1,1,9,m,100,1,250,10,0,strict
3,v,1,1,9,m,10,1,1,1,1,best_effort
"""
"""Minutes: of three jobs that are to end within 250, a GPU can do two."""


def test_deadlines_are_promised_and_refused_in_a_simulation(sim, tmp_path):
    (tmp_path / "trace.csv").write_text(CHRONUS_JOBS)
    predictions = tmp_path / "told.csv"
    times = "".join(f"{job},{600 if job == 3 else 6000}\n" for job in range(4))
    predictions.write_text(f"job,predicted_duration_s\n{times}")
    done = sim(
        *("compare", "-P", "edf", "-P", "chronus:resume_s=30:profile_s=0", "-f", "chronus"),
        *("--nodes", "1x1", "--launch", "30", "--round", "5m", "--json"),
        *("--predictions", predictions, tmp_path / "trace.csv"),
    )
    assert done.returncode == 0, done.stderr
    edf, chronus = (p["runs"][0]["deadlines"] for p in json.loads(done.stdout)["policies"])
    assert (chronus["jobs"], chronus["missed"]) == (3, 1)
    assert (chronus["admitted"], chronus["admitted_missed"]) == (2, 0)
    assert (chronus["refused"], chronus["refused_missed"]) == (1, 1)
    assert (edf["missed"], edf["admitted"], edf["refused"]) == (1, None, None)


def test_a_policy_that_plans_is_told_predictions_and_the_report_says_so(sim, tmp_path):
    """By those that ended before it: without time limits it could plan nothing else."""
    (tmp_path / "trace.csv").write_text(CHRONUS_JOBS + "4,v,1,700,9,m,100,1,250,10,0,strict\n")
    words = ("run", "-f", "chronus", "-P", "chronus:resume_s=30:profile_s=0", "trace.csv")
    done = sim(*words, "--nodes", "1x1", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    answered = document["policies"][0]["runs"][0]["deadlines"]
    assert (answered["jobs"], answered["admitted"]) == (4, 1)
    assert any(note.startswith("Predictions: rolling estimate") for note in document["notes"])
    text = " ".join(sim(*words, "--nodes", "1x1").stdout.split())
    assert "plans by predicted run times where there are some" in text
    assert "ends by it all the same has not missed it" in text


def test_interrupted_before_anything_is_finished(environment, trace, tmp_path):
    """SIGINT while the trace is read: nothing is printed on stdout, nothing is left behind."""
    words = ("sim", "compare", "-P", "fifo,sjf", "-f", "philly", "-", "--per-job", "jobs.csv")
    pipe = subprocess.PIPE
    child = subprocess.Popen(
        [PROGRAM, *words], stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment,
        cwd=tmp_path,
    )  # fmt: skip
    child.stdin.write(trace.read_text())
    child.stdin.flush()
    wait_for(lambda: handles_sigterm(child.pid), "the work to begin")
    child.send_signal(signal.SIGINT)
    out, said = child.communicate()
    assert (child.returncode, out) == (130, "")
    assert "interrupted before anything was simulated" in said
    assert sorted(path.name for path in tmp_path.glob("*jobs.csv*")) == []


def handles_sigterm(pid):
    """Whether the process has taken SIGTERM over: it has come to its long work."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (caught,) = [line.split()[1] for line in lines if line.startswith("SigCgt:")]
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5m", 90), ("6h", 21_600), ("30d", 2_592_000), (" 2w ", 1_209_600), ("0", 0)],
)
def test_time_spans(text, seconds):
    assert time_span(text) == seconds
