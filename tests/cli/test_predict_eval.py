"""`gsched predict eval` from the command line to its page, on files and on the history."""

from __future__ import annotations

import inspect
import json
import random
import re
from datetime import UTC, datetime
from functools import partial
from html.parser import HTMLParser

import pytest
from support.history import attempt, batch
from support.json_shape import block

from gsched_cli.commands.predict.eval import evaluate
from gsched_sql import History

T0 = 1_750_000_000
HOSTILE = '<script>alert("\x1b[31m")</script>\u202e'


def records(count=240, cluster="alpha"):
    """Users with run times of their own, each name with its own; every third job without GPUs."""
    chance = random.Random(4)
    for i in range(count):
        user, name = chance.randrange(4), chance.randrange(3)
        seconds = int(60 * 4**user * (1 + name) * chance.lognormvariate(0, 0.3))
        start = T0 + 2000 * i
        yield attempt(
            1 + i,
            start - 100,
            cluster=cluster,
            user=f"user{user}",
            name=f"{'abc'[name] * 5}{HOSTILE}",
            start_time=start,
            end_time=start + seconds,
            num_gpus=0 if i % 3 == 0 else 2,
        )


def swf_rows(count=120):
    chance = random.Random(5)
    yield "; UnixStartTime: 1000000000"
    for i in range(count):
        user, seconds = chance.randrange(3), int(chance.lognormvariate(5, 1))
        yield f"{i} {3000 * i} -1 {seconds} 4 -1 -1 4 -1 -1 1 {user} 1 -1 -1 -1 -1 -1"


@pytest.fixture
def swf(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text("\n".join(swf_rows()) + "\n")
    return path


@pytest.fixture
def evaluated(gsched):
    """Run a command with few fits: each takes a while."""
    return partial(gsched, environ={"GSCHED_PREDICT_MIN_JOBS": "60"})


@pytest.fixture
def history(gsched, environment, stand_in):
    stand_in("scontrol").answers("ClusterName = alpha\n")
    assert gsched("db", "init").returncode == 0
    with History.open(f"sqlite:///{environment['GSCHED_STATE_DIR']}/history.db") as history:
        history.ingest(batch(*records()), source_key="a")
        history.ingest(batch(*records(20, "beta")), source_key="b")


def test_the_history_by_kind_of_job(evaluated, history):
    answer = evaluated("predict", "eval", "--json")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert document["source"] == "history database, cluster alpha"
    gpu, cpu = document["kinds"]
    assert (gpu["kind"], gpu["jobs"], cpu["kind"], cpu["jobs"]) == ("gpu", 160, "cpu", 80)
    found = {contender["name"]: contender for contender in gpu["contenders"]}
    assert list(found) == [
        *("model", "rolling", "regression", "user-mean", "last-two", "mean", "time-limit")
    ]
    assert found["model"]["rank_correlation"]["value"] > 0.5
    assert found["mean"]["model_gain"]["value"] > 0.2
    assert found["rolling"]["log_error"]["value"] < found["mean"]["log_error"]["value"]
    assert gpu["coverage"][0]["nominal"] == 0.8
    assert 0 < gpu["coverage"][0]["jobs"] <= 160
    assert sum(rule["jobs"] for rule in gpu["rules"]) == 160
    assert sum(week["jobs"] for week in gpu["weeks"]) == 160
    assert block(document) in inspect.cleandoc(evaluate.help)


def test_as_text_and_as_a_page(evaluated, history, tmp_path):
    answer = evaluated("predict", "eval", "--html", "out")
    assert answer.returncode == 0, answer.stderr
    assert "out/index.html is written" in answer.stderr
    assert "\x1b" not in answer.stdout
    lines = [line.split() for line in answer.stdout.splitlines()]
    contenders = [line[0] for line in lines if line[:1] and line[0] in ("model", "last-two")]
    assert contenders.count("model") == 4  # order and errors of each kind
    assert "160 jobs with GPUs: their order by GPU-time" in answer.stdout
    assert "λ of GPU jobs" in answer.stdout
    page = (tmp_path / "out" / "index.html").read_text()
    outline = Outline(page)
    assert outline.tags.count("svg") >= 2
    assert not {"script", "img", "iframe", "link"} & set(outline.tags)
    assert not re.search(r"https?://(?!www\.w3\.org)", page)
    assert "160 jobs with GPUs" in page


class Outline(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)


def test_a_file_that_lacks_names_limits_and_waits_says_so(evaluated, swf):
    answer = evaluated("predict", "eval", "--format", "swf", str(swf), "--refit", "2")
    assert answer.returncode == 0, answer.stderr
    assert "120 jobs without GPUs: their order by CPU-time" in answer.stdout
    assert "tells no job names: what is judged is the fallback" in answer.stdout
    assert "tells no time limits: that contender is absent" in answer.stdout
    assert "start is taken to be submission" in answer.stdout
    assert not re.search(r"^time-limit ", answer.stdout, re.MULTILINE)
    assert "similar-name" not in answer.stdout


def test_only_later_jobs_are_judged(evaluated, swf):
    half = 1_000_000_000 + 60 * 3000
    document = json.loads(
        evaluated(
            *("predict", "eval", "--format", "swf", str(swf), "--json", "--since", iso(half))
        ).stdout
    )
    assert document["since"] == half
    assert document["not_judged"] == 60
    assert document["kinds"][0]["jobs"] == 60


def iso(epoch):
    return datetime.fromtimestamp(epoch, UTC).isoformat()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("log.swf",), 2, "--format"),
        (("--format", "swf"), 2, "--format needs files"),
        (("--format", "swf", "none.swf"), 2, "cannot read none.swf"),
        (("--format", "swf", "empty.swf"), 65, "empty.swf"),
        (("--format", "swf", "log.swf", "--since", "2030-01-01"), 65, "no job to be judged"),
        (("--format", "swf", "log.swf", "--refit", "0"), 2, "--refit"),
        ((), 78, "no job history"),
    ],
)
def test_what_is_wrong_is_said(evaluated, swf, stand_in, tmp_path, words, code, said):
    stand_in("scontrol").answers("ClusterName = alpha\n")
    (tmp_path / "empty.swf").write_text("")
    answer = evaluated("predict", "eval", *words)
    assert (answer.returncode, answer.stdout) == (code, "")
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_history_without_such_jobs(evaluated, history):
    answer = evaluated("predict", "eval", "--cluster", "gamma")
    assert answer.returncode == 65
    assert "no finished job of cluster gamma" in answer.stderr
