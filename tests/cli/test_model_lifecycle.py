"""Models over time, as an admin meets them: fitted, kept, rolled back, pinned; and killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.history import attempt, batch

from gsched.engine.faults import MODEL_POINTS, FaultPoint
from gsched.predict.store import load
from gsched_sql import History

T0 = 1_750_000_000


class Site:
    """A cluster called alpha; each fit finds one more job than the one before."""

    def __init__(self, gsched: Any, environment: Any) -> None:
        self._gsched = gsched
        self.state = Path(environment["GSCHED_STATE_DIR"])
        self.model_file = self.state / "models" / "duration.gsmodel"
        self.number = 12

    def run(self, *words: str, **environ: str) -> Any:
        return self._gsched(
            "predict", *words, environ={"GSCHED_PREDICT_HISTORY_DAYS": "36500", **environ}
        )

    def ok(self, *words: str) -> Any:
        """The JSON document of a command that has to succeed."""
        answer = self.run(*words, "--json")
        assert answer.returncode == 0, answer.stderr
        return json.loads(answer.stdout)

    def fit(self, *words: str, **environ: str) -> Any:
        self.number += 1
        records = [attempt(n, T0 + n, cluster="alpha") for n in range(self.number)]
        with History.open(f"sqlite:///{self.state}/history.db") as history:
            history.ingest(batch(*records), source_key=None)
        return self.fit_again(*words, **environ)

    def fit_again(self, *words: str, **environ: str) -> Any:
        """A fit that finds no more jobs than the last one."""
        return self.run("train", "--json", *words, **environ)

    def fitted(self, *words: str) -> str:
        """A fit that has to succeed; its model's id."""
        answer = self.fit(*words)
        assert answer.returncode == 0, answer.stderr
        return str(json.loads(answer.stdout)["model_id"])

    @property
    def in_use(self) -> str:
        return load(self.model_file).info.model_id

    def outcomes(self) -> list[tuple[str, str]]:
        return [(fit["model_id"], fit["outcome"]) for fit in self.ok("fits")["fits"]]


@pytest.fixture
def site(gsched: Any, environment: Any, stand_in: Any) -> Site:
    stand_in("scontrol").answers("ClusterName = alpha\n")
    assert gsched("db", "init").returncode == 0
    return Site(gsched, environment)


def test_an_earlier_model_is_put_back_and_pinned_until_it_is_released(site: Site) -> None:
    first, second = site.fitted(), site.fitted()
    assert site.in_use == second
    done = site.run("rollback")
    assert f"{first} is in use and pinned; before, it was {second}" in done.stderr
    assert site.in_use == first
    third = site.fitted("--keep-pin")  # as timers do
    assert site.in_use == first
    found = site.ok("rollback", "--list")
    assert [kept["model_id"] for kept in found["kept"]] == [third, second, first]
    assert (found["in_use"], found["pinned"]["model_id"]) == (first, first)
    assert found["pinned"]["by"] == "root"
    assert found["kept"][0]["num_jobs"] == 15
    assert site.ok("rollback", "--release")["pinned"] is None
    fourth = site.fitted("--keep-pin")
    assert site.in_use == fourth
    assert site.outcomes() == [
        (fourth, "adopted"),
        (third, "pinned"),
        (second, "adopted"),
        (first, "adopted"),
    ]


def test_a_fit_without_news_is_recorded_once(site: Site) -> None:
    first, second = site.fitted(), site.fitted()
    written = site.model_file.stat().st_mtime_ns
    again = [json.loads(site.fit_again(*words).stdout) for words in ((), ("--keep-pin",))]
    assert [(told["model_id"], told["in_use"]) for told in again] == [(second, True)] * 2
    assert site.model_file.stat().st_mtime_ns > written  # it is as new as its jobs are
    adopted = [(second, "adopted"), (first, "adopted")]
    assert site.outcomes() == adopted
    site.ok("rollback", first)
    for _ in range(2):
        site.fit_again("--keep-pin")
    assert site.outcomes() == [(second, "pinned"), *adopted]
    site.fit_again()
    assert (site.in_use, site.outcomes()[0]) == (second, (second, "adopted"))


def test_a_fit_by_hand_takes_the_pin_away(site: Site) -> None:
    first, _ = site.fitted(), site.fitted()
    site.ok("rollback", first)
    third = site.fitted()
    assert site.in_use == third
    assert site.ok("rollback", "--list")["pinned"] is None


def test_what_a_fit_knew_is_on_record(site: Site) -> None:
    document = json.loads(site.fit().stdout)
    assert document["in_use"]
    (fit,) = site.ok("fits")["fits"]
    assert (fit["data_from"], fit["data_until"]) == (T0, T0 + 12 + 110)
    assert (fit["num_jobs"], fit["started_by"], fit["why"]) == (13, "command", "")
    assert "user" in fit["features"]
    assert fit["details"]["kinds"]["gpu"]["validation"]["scores"].keys() >= {"model", "rolling"}
    assert fit["details"]["kinds"] == document["kinds"]
    assert fit["as_of"] == fit["fitted_at"] + 1
    assert fit["took_s"] > 0
    text = site.run("fits").stdout
    assert fit["model_id"] in text
    assert "adopted" in text


def test_the_newest_are_kept(site: Site) -> None:
    made = [site.fit(GSCHED_PREDICT_KEEP_MODELS="2") for _ in range(3)]
    ids = [json.loads(answer.stdout)["model_id"] for answer in made]
    kept = site.ok("rollback", "--list")["kept"]
    assert [one["model_id"] for one in kept] == [ids[2], ids[1]]
    answer = site.run("rollback", ids[0])
    assert answer.returncode == 2
    assert f"kept: {ids[2]}, {ids[1]}" in answer.stderr


def test_a_damaged_one_is_said_and_not_put_in_use(site: Site) -> None:
    first, second = site.fitted(), site.fitted()
    path = site.model_file.parent / "kept" / f"{first}.gsmodel"
    path.write_bytes(path.read_bytes()[:1000])
    assert site.run("rollback", first).returncode == 65
    assert site.in_use == second
    assert "damaged" in site.run("rollback", "--list").stdout
    assert site.run("rollback").returncode == 2  # there is no other
    assert site.ok("rollback", "--list")["pinned"] is None


def test_the_file_in_use_is_said_to_be_damaged(site: Site) -> None:
    model_id = site.fitted()
    whole = site.model_file.read_bytes()
    for contents in (b"", b"no model", whole[: len(whole) // 2]):
        site.model_file.write_bytes(contents)
        found = site.ok("rollback", "--list")
        assert found["in_use"] is None
        assert "is no model file or is damaged" in found["problem"]
        assert "in use; " in site.run("rollback", "--list").stdout
    assert f"{model_id} is in use and pinned; before, it was none" in site.run("rollback").stderr
    assert site.ok("rollback", "--list")["problem"] is None


def test_a_file_where_models_are_kept_is_said(site: Site) -> None:
    (site.model_file.parent).mkdir()
    (site.model_file.parent / "kept").write_text("a file")
    for words in (("rollback",), ("rollback", "--list"), ("train",)):
        answer = site.run(*words) if words != ("train",) else site.fit()
        assert answer.returncode == 69
        assert "kept: it is not a folder" in answer.stderr


def test_without_a_model_and_with_too_many_wishes(site: Site) -> None:
    assert site.ok("rollback", "--list") == {
        "in_use": None, "problem": None, "pinned": None, "kept": [],
    }  # fmt: skip
    answer = site.run("rollback")
    assert answer.returncode == 2
    assert "there is no model\n" in answer.stderr
    assert site.run("rollback", "--list", "--release").returncode == 2
    assert site.run("rollback", "--release").returncode == 0


@pytest.mark.parametrize("point", MODEL_POINTS)
def test_a_fit_that_is_killed_between_its_steps_leaves_a_whole_state(
    site: Site, point: FaultPoint
) -> None:
    first = site.fitted()
    site.ok("rollback", first)
    killed = site.fit(GSCHED_FAULT_POINT=point.value)
    assert killed.returncode == -9
    is_in_use = point is FaultPoint.MODEL_IN_USE
    found = site.ok("rollback", "--list")
    second, last = (one["model_id"] for one in found["kept"])
    assert last == first
    assert [one["problem"] for one in found["kept"]] == ["", ""]
    assert site.in_use == found["in_use"] == (second if is_in_use else first)
    third = site.fitted("--keep-pin")  # the next fit mends what the record lacks
    assert site.in_use == (third if is_in_use else first)  # else the pin still holds
    told = {"model-kept": [], "model-recorded": ["interrupted"], "model-in-use": ["adopted"]}
    outcomes = site.outcomes()
    assert [outcome for model_id, outcome in outcomes if model_id == second] == told[point.value]
    assert not [outcome for _, outcome in outcomes if outcome == "adopting"]


def test_a_rollback_that_is_killed_has_not_pinned(site: Site) -> None:
    first, _ = site.fitted(), site.fitted()
    killed = site.run("rollback", first, GSCHED_FAULT_POINT="model-in-use")
    assert killed.returncode == -9
    assert site.in_use == first
    assert site.ok("rollback", "--list")["pinned"] is None
    assert site.run("rollback", first).returncode == 0  # again
    assert site.ok("rollback", "--list")["pinned"]["model_id"] == first
