"""What people write comes back as they wrote it, and nothing is taken for something else."""

from __future__ import annotations

import json

from support.history import attempt, batch, scalar
from support.servers import each_engine

from gsched.model.history import Reject
from gsched.model.past import HistoryFilter
from gsched_sql import History

TEXTS = (
    "plain",
    "Plain",
    "PLAIN",
    "plain ",
    "plain  ",
    " plain",
    "plain\t",
    "plain\n",
    "pl\0ain",
    "\0",
    "lone \ud800 surrogate \udfff",
    "\ue000 and \ue000e000",
    "emoji \U0001f680\U0001f9d1\u200d\U0001f4bb",
    "beyond \U0010ffff\U00020000",
    "\u00e9",  # one character
    "e\u0301",  # the same to the eye, two characters
    "\u00df",
    "ss",
    "\u0131",
    "I",
    "%",
    "_",
    "p%n",
    "\\",
    "\\'; DROP TABLE jobs; --",
    'quote " quote',
    "semi;colon:colon :name %(name)s %s ? {}",
    "zero\u200bwidth and \u202e right to left",
    "\ufeffBOM",
    "x" * 300,
    "x" * 301,
    "long " + "\U0001f680\u00e9" * 30_000,
)


@each_engine
def test_texts_come_back_and_stay_apart_on_each_engine(history: History):
    records = [
        attempt(n, user=text, tenant=text, partition=text, qos=text, name=text, node_list=text)
        for n, text in enumerate(TEXTS)
    ]
    rejects = [Reject(text, n, text, text) for n, text in enumerate(TEXTS)]
    given = batch(*records, rejects=rejects, cursor=TEXTS[8])
    assert history.ingest(given, source_key=TEXTS[10]).attempts_new == len(TEXTS)
    assert history.cursor(TEXTS[10]) == TEXTS[8]
    found = {job.key.job_id: job for job in history.jobs(HistoryFilter(limit=1000))}
    for n, text in enumerate(TEXTS):
        (kept,) = found[n].attempts
        assert (kept.user, kept.tenant, kept.partition, kept.qos, kept.name, kept.node_list) == (
            (text,) * 6
        )
    assert {(r.source, r.reason, r.raw) for r in history.rejects(1000)} == {
        (text,) * 3 for text in TEXTS
    }
    again = history.ingest(given, source_key=TEXTS[10])
    assert (again.unchanged, again.rejected_new) == (len(TEXTS), 0)


@each_engine
def test_a_filter_means_the_very_text(history: History):
    history.ingest(
        batch(*(attempt(n, name=text, user=text) for n, text in enumerate(TEXTS))), source_key=None
    )
    for n, text in enumerate(TEXTS):
        assert [j.key.job_id for j in history.jobs(HistoryFilter(users=(text,)))] == [n], text
        assert [j.key.job_id for j in history.jobs(HistoryFilter(names=(text,)))] == [n], text


@each_engine
def test_texts_of_bounded_columns_and_of_json(history: History, database):
    extra = json.dumps({text: text for text in TEXTS})
    told = attempt(
        1, source_id=TEXTS[-1], extra=extra, source="x" * 64, state_text="ODD \U0001f680 STATE "
    )
    history.ingest(batch(told), source_key=None)
    (job,) = history.jobs(HistoryFilter())
    assert job.attempts == (told,)
    assert scalar(database, "SELECT count(*) FROM attempts WHERE source_id IS NOT NULL") == 1
