"""Public traces, imported whole: what the database then holds is what the files say.

Each file is counted here once more, straight from its text.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import shutil
import zipfile
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from support.shared import SHARED, needs_shared

from gsched.app.import_files import ImportOrder, import_files
from gsched.app.trace_formats import TraceOptions
from gsched.model.past import HistoryFilter
from gsched_sql import History
from gsched_sql.canonical import canonical_dump
from gsched_sql.engine import reading

pytestmark = needs_shared

TRACES = SHARED / "traces"
ITP = sorted(str(path) for path in (TRACES / "itp").glob("cluster*.csv.gz"))
SACCT = TRACES / "sacct" / "pozidriv.log.gz"
MAPS = Path(__file__).parents[2] / "data" / "maps"
FIELDS = TRACES / "sacct" / "FIELDS.txt"


@pytest.fixture
def history(sqlite_template, tmp_path):
    with History.open(f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'h.db')}") as opened:
        yield opened


@pytest.fixture
def other(sqlite_template, tmp_path):
    with History.open(f"sqlite:///{shutil.copy(sqlite_template, tmp_path / 'o.db')}") as opened:
        yield opened


def imported(history, format_name, *files, **options):
    order = ImportOrder(tuple(map(str, files)), TraceOptions(format_name, **options))
    report = import_files(order, history)
    assert not [found.error for found in report.files if found.error]
    return report.total


def text_of(path):
    path = Path(path)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return archive.read(archive.namelist()[0]).decode("latin-1")
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("latin-1")


def rows_of(path):
    return list(csv.DictReader(io.StringIO(text_of(path))))


def check(history, total, *, states, gpu_time_s):
    """The summary of the import, and the database."""
    count = sum(states.values())
    assert (total.attempts, total.attempts_new, total.conflicts) == (count, count, 0)
    assert (dict(total.states), total.gpu_time_s) == (states, gpu_time_s)
    stats = history.stats()
    assert (dict(stats.states), stats.gpu_time_s) == (states, gpu_time_s)
    assert stats.rows["attempts"] == stats.rows["jobs"] == count


def dump(history):
    with reading(history._engine) as conn:
        return list(canonical_dump(conn))


def test_philly(history):
    path = TRACES / "philly" / "philly.csv.gz"
    rows = rows_of(path)
    gpu_time = sum(float(row["gpu_time"]) for row in rows)
    total = imported(history, "philly", path)
    check(history, total, states={"COMPLETED": len(rows)}, gpu_time_s=gpu_time)
    by_tenant, by_gpus = Counter(), Counter()
    for row in rows:
        by_tenant[row["cluster"]] += float(row["gpu_time"])
        by_gpus[int(row["num_gpus"])] += 1
    usage = {
        by: {group.key: group.total for group in history.usage_by(HistoryFilter(), by).groups}
        for by in ("account", "gpus")
    }
    assert {key: sums.gpu_time_s for key, sums in usage["account"].items()} == by_tenant
    assert {key: sums.jobs for key, sums in usage["gpus"].items()} == by_gpus
    before = dump(history)
    again = imported(history, "philly", path)
    assert (again.unchanged, again.attempts_new) == (len(rows), 0)
    assert dump(history) == before


def test_itp(history):
    rows = [row for path in ITP for row in rows_of(path)]
    gpu_time = sum(int(row["duration"]) * int(row["num_gpu"]) for row in rows)
    total = imported(history, "itp", *ITP)
    check(history, total, states={"COMPLETED": len(rows)}, gpu_time_s=gpu_time)
    assert len(history.clusters()) == 10


def test_openb(history):
    path = TRACES / "openb" / "openb_pod_list_default.csv"
    states = Counter(row["pod_phase"] for row in rows_of(path))
    gpu_time = sum(
        int(row["num_gpu"]) * (int(row["deletion_time"]) - int(float(row["scheduled_time"])))
        for row in rows_of(path)
        if row["scheduled_time"]
    )
    expected = {
        "CANCELLED": states["Running"] + states["Pending"],
        "COMPLETED": states["Succeeded"],
        "FAILED": states["Failed"],
    }
    check(history, imported(history, "openb", path), states=expected, gpu_time_s=gpu_time)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("kth-sp2-1996/KTH-SP2.swf.gz", 0),
        ("llnl-atlas-2006/LLNL-Atlas-2006-2.1-cln.swf.gz", 0),
        ("nasa-ipsc-1993/NASA-iPSC-1993-3.1-cln.swf.zip", 0),
        ("cea-curie-sample/CEA-Curie_sample.swf.gz", 0),
        ("cerit-wagap-2013/wagap-2013.swf.gz", 2),  # rows with a negative run time
    ],
)
def test_swf(history, name, bad):
    path = TRACES / "named" / name
    lines = [line.split() for line in text_of(path).splitlines() if line.strip() and line[0] != ";"]
    good = [words for words in lines if int(words[3]) >= -1]
    assert len(lines) - len(good) == bad
    names = {"0": "FAILED", "1": "COMPLETED", "5": "CANCELLED", "-1": "COMPLETED"}
    states = Counter(names[words[10]] for words in good)
    cpu_time = sum(
        int(words[3]) * int(words[4]) for words in good if -1 not in map(int, words[3:5])
    )
    total = imported(history, "swf", path)
    assert total.rejected == bad
    assert (dict(total.states), total.cpu_time_s) == (states, cpu_time)
    stats = history.stats()
    assert dict(stats.states) == states
    assert stats.rows["jobs"] == len(good)


def test_mason(history):
    path = TRACES / "named" / "iu-mason-2017" / "mason_jobs.csv.gz"
    rows = rows_of(path)
    cpu_time = sum(
        (int(row["end"]) - int(row["start"])) * int(row["slots"]) for row in rows if row["slots"]
    )
    total = imported(history, "csv", path, columns=MAPS / "iu-mason-2017.toml")
    assert (total.rows, total.rejected, total.cpu_time_s) == (len(rows), 0, cpu_time)
    assert history.stats().rows["jobs"] == len(rows)
    names = {row["job_name"] for row in rows}
    assert history.stats().rows["job_names"] == len(names)


def test_nrel(history):
    path = TRACES / "named" / "nrel-eagle-sample" / "sample_eagle_data.json"
    rows = json.loads(path.read_text())
    states = Counter(row["state"] for row in rows)
    gpu_time = sum(row["run_time"] * row["gpus_req"] for row in rows)
    total = imported(history, "csv", path, columns=MAPS / "nrel-eagle.toml")
    check(history, total, states=dict(states), gpu_time_s=gpu_time)


def test_sacct_text_without_a_header(history):
    names = FIELDS.read_text().strip().split("|")
    rows = [dict(zip(names, line.split("|"), strict=True)) for line in text_of(SACCT).splitlines()]
    states = Counter(row["state"].split()[0] for row in rows)
    total = imported(history, "sacct", SACCT, fields=FIELDS)
    assert (total.rows, total.rejected, dict(total.states)) == (len(rows), 0, states)
    attempts = {(row["jobid"], row["submit"]) for row in rows}
    assert history.stats().rows["attempts"] == len(attempts)


def test_sacct_text_in_parts_and_in_any_order_gives_the_same(history, other, tmp_path):
    lines = text_of(SACCT).splitlines(keepends=True)
    imported(history, "sacct", SACCT, fields=FIELDS)
    Random(7).shuffle(lines)
    for number, part in enumerate((lines[5000:], lines[:7000])):  # some rows come twice
        path = tmp_path / f"part{number}.txt"
        path.write_text("".join(part), encoding="latin-1")
        imported(other, "sacct", path, fields=FIELDS)
    assert dump(other) == dump(history)
