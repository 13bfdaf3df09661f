"""`gsched history` from both of its sources: the database, and sacct where there is none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.history import attempt, batch, running
from support.queue import StandInSlurm

from gsched.app import past_sources
from gsched.app.page_marks import page_mark, parse_page_mark
from gsched.app.past import PastQuery, chosen, group_past, list_past
from gsched.config.settings import PhaseSettings, Settings
from gsched.errors import UsageError
from gsched.model.job import JobKey
from gsched.model.phases import PhaseRule, PhaseRules
from gsched.model.usage_groups import GROUPINGS
from gsched_sql import History

NOW = 1_000_000
RULES = PhaseRules((PhaseRule("eval", name="^eval"), PhaseRule("debug", max_gpus=0)))
RECORDS = (
    attempt(1, NOW - 9000, name="eval-1"),
    attempt(2, NOW - 8000, name="train", num_gpus=0, user="bob"),
    attempt(3, NOW - 7000, name="eval-2", phase="sft"),
    running(4, NOW - 6000, name=None),
)


class Accounting(StandInSlurm):
    def accounting(self, since, until, chosen):
        return batch(*RECORDS)


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """Settings of a host with a database, and of one without, of the same jobs."""
    phases = PhaseSettings(rules=RULES)
    with_database = Settings(state_dir=tmp_path / "with", phases=phases)
    (tmp_path / "with").mkdir()
    History.create(with_database.database_url)
    with History.open(with_database.database_url, phase_rules=RULES) as history:
        history.ingest(batch(*RECORDS), source_key=None)
    monkeypatch.setattr(past_sources, "slurm_client", lambda _: Accounting())
    monkeypatch.setattr(past_sources.os, "getuid", lambda: 0)
    return with_database, replace(with_database, state_dir=tmp_path / "without")


def test_the_sums_are_the_same_from_both_sources(sources):
    for by in GROUPINGS:
        documents = []
        for settings in sources:
            document = group_past(settings, PastQuery(limit=50), by, NOW).document()
            json.dumps(document, allow_nan=False)
            assert document.pop("source") in ("database", "sacct")
            del document["since"]
            documents.append(document)
        assert documents[0] == documents[1], by


def test_rules_classify_what_users_have_not_said(sources):
    for settings in sources:
        found = group_past(settings, PastQuery(limit=50), "phase", NOW)
        phases = {group.key: group.total.jobs for group in found.usage.groups}
        assert phases == {"eval": 1, "debug": 1, "sft": 1, None: 1}
        query = PastQuery(phases=("eval,unclassified",), limit=50)
        assert [job.key.job_id for job in list_past(settings, query, NOW).jobs] == [4, 1]


def test_pages_are_the_same_from_both_sources(sources):
    for settings in sources:
        seen: list[int] = []
        after = None
        while True:
            page = list_past(settings, PastQuery(limit=3, after=after), NOW)
            seen += [job.key.job_id for job in page.jobs]
            assert (page.document()["more"], page.document()["after"]) == (
                page.after is not None,
                page.after,
            )
            if page.after is None:
                break
            after = page.after
        assert seen == [4, 3, 2, 1]


@pytest.mark.parametrize(
    "key",
    [
        JobKey("bed", 7, epoch=1),
        JobKey("a@b.c", 7, array_task=0, epoch=1764442800),
        JobKey("bed", 2**63 - 1, het_offset=3, epoch=0),
    ],
)
def test_a_page_mark_names_its_job(key):
    assert parse_page_mark(page_mark(key)) == key


@pytest.mark.parametrize("text", ["", "x", "1.2", "1.2@", "1.2_3+4@c", "-1.2@c", "1.2_x@c", "\n"])
def test_what_is_no_page_mark(text):
    with pytest.raises(UsageError, match="not a place in a list"):
        parse_page_mark(text)


def test_words_of_the_command_line():
    query = PastQuery(
        users=("a,b", "c"),
        phases=("SFT",),
        node_lists=("n[1-2],m",),
        clusters=("x,y",),
        qos=("q",),
        names=("a,b",),
        limit=9,
    )
    wanted = chosen(query, 9, NOW)
    assert (wanted.users, wanted.phases) == (("a", "b", "c"), ("sft",))
    assert (wanted.node_names, wanted.clusters) == (("n1", "n2", "m"), ("x", "y"))
    assert (wanted.qos, wanted.names, wanted.limit) == (("q",), ("a,b",), 9)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ({"phases": ("train",)}, "no such phase: 'train'"),
        ({"node_lists": ("n[1-",)}, "n[1-"),
        ({"job": "7_[1-3]"}, "one job or one array task"),
        ({"after": "x"}, "not a place in a list"),
    ],
)
def test_wrong_words(words, told):
    with pytest.raises(UsageError) as caught:
        chosen(PastQuery(limit=1, **words), 1, NOW)
    assert told in caught.value.message


def test_the_ids_of_traces_are_longer_than_slurms():
    assert chosen(PastQuery(job=str(2**63 - 1), limit=1), 1, NOW).job_id == 2**63 - 1


def test_groups_have_no_pages():
    with pytest.raises(UsageError, match="groups have no pages"):
        group_past(Settings(), PastQuery(limit=1, after="1.2@c"), "user", NOW)
