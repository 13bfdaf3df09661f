"""Saved text and JSON of sacct: whatever a site has kept, every row is an attempt, skipped or told
of, and text and JSON say the same."""

from __future__ import annotations

import errno
import io
import json
import os
import tempfile
import tracemalloc
from collections import Counter
from dataclasses import fields, replace
from datetime import UTC
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from support.shared import SHARED, needs_shared

from gsched.errors import DataError, UnavailableError
from gsched.model.history import AttemptRecord, Tres
from gsched.model.job import JobState
from gsched.model.trace import ReadOptions
from gsched.slurm.parse_sacct import FIELDS, parse_sacct
from gsched.slurm.sacct_file import read_json, read_text
from gsched.slurm.sacct_json import parse_sacct_json

T0 = 1_700_000_000
HEADER = "JobID|Cluster|User|JobName|State|Submit|Start|End|AllocTRES|NodeList"
RELEASES = ("22.05", "24.11", "26.05")


def options(**told):
    return ReadOptions("saved.txt", **told)


def chunks_of(text, reader=read_text, **told):
    data = text if isinstance(text, bytes) else text.encode()
    chunks = list(reader(io.BytesIO(data), options(**told)))
    for chunk in chunks:
        assert chunk.rows_in == chunk.attempts.count + len(chunk.rejects) + chunk.rows_skipped
    return chunks


def attempts_of(text, reader=read_text, **told):
    chunks = chunks_of(text, reader, **told)
    assert [reject for chunk in chunks for reject in chunk.rejects] == []
    return [record for chunk in chunks for record in chunk.attempts.records()]


def row(job="7", name="train", state="COMPLETED", tres="cpu=4,gres/gpu=2", **told):
    values = {
        "JobID": job, "Cluster": "c", "User": "ann", "JobName": name, "State": state,
        "Submit": str(T0), "Start": str(T0 + 60), "End": str(T0 + 160), "AllocTRES": tres,
        "NodeList": "gn01",
    } | told  # fmt: skip
    return "|".join(values.values())


def text_of(*rows, header=HEADER):
    return "\n".join([header, *rows, ""])


def rejects_of(text, **told):
    return [(r.line, r.reason) for chunk in chunks_of(text, **told) for r in chunk.rejects]


# -- how the text may look ------------------------------------------------------------------


def test_fields_are_found_by_the_header_in_any_order_case_and_width():
    wanted, = attempts_of(text_of(row()))  # fmt: skip
    assert (wanted.cluster, wanted.job_id, wanted.user, wanted.name) == ("c", 7, "ann", "train")
    assert (wanted.start_time, wanted.end_time, wanted.num_gpus) == (T0 + 60, T0 + 160, 2)
    names, values = HEADER.split("|"), row().split("|")
    for delimiter in ("|", ";", "\t", "@@", "\x1f9f3c\x1e"):
        for end in ("", delimiter):
            header = delimiter.join(f"{name.upper()}%30" for name in reversed(names)) + end
            text = f"{header}\n{delimiter.join(reversed(values))}{end}\n"
            assert attempts_of(text) == [wanted], (delimiter, end)


def test_a_file_without_header_needs_its_fields_named():
    names = tuple(HEADER.lower().split("|"))
    assert attempts_of(f"{row()}\n{row('8')}\n", sacct_fields=names)[1].job_id == 8
    assert attempts_of(f"{row()}|\n{row('8')}|\n", sacct_fields=names)[1].node_list == "gn01"
    # a header is believed before what is said of the file
    assert attempts_of(text_of(row()), sacct_fields=("JobID", "State"))[0].job_id == 7
    with pytest.raises(DataError, match=r"saved.txt does not begin with a line that names") as no:
        chunks_of(f"{row()}\n")
    assert "--fields" in no.value.hint


@pytest.mark.parametrize(
    ("header", "missing"),
    [
        ("JobID|User|State", "no field Submit; its fields are JobID, User, State"),
        ("JobID|Submit", "no field State"),
        ("JobIDRaw|Submit|State|submit", "the field Submit twice"),
        ("User|Submit|State", "does not begin with"),
        ("JobID        JobName  Partition    Account  AllocCPUS      State ", "does not begin"),
    ],
)
def test_what_a_file_lacks_is_named(header, missing):
    with pytest.raises(DataError, match=missing):
        chunks_of(f"{header}\n{row()}\n")


def test_a_file_may_not_be_empty_may_have_a_bom_windows_ends_and_headers_in_its_middle():
    for empty in ("", "\n\n"):
        for reader in (read_text, read_json):
            with pytest.raises(DataError, match=r"saved.txt is empty"):
                chunks_of(empty, reader)
    text = "\ufeff" + text_of(row(), "", HEADER, row("8")).replace("\n", "\r\n")
    assert [r.job_id for r in attempts_of(text)] == [7, 8]
    assert (
        attempts_of(text_of(row(name="x")).encode().replace(b"|x|", b"|\xff|"))[0].name == "\ufffd"
    )


def test_text_may_be_utf_16():
    text = text_of(row(name="näme\n|x"), row("8"))
    assert [r.name for r in attempts_of(text.encode("utf-16"))] == ["näme\n|x", "train"]


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\U0001f525"])
def test_a_line_is_bounded(letter):
    text = text_of(row("6"), row(name=letter * 2**20), row("8", name="a\nb"))
    (chunk,) = chunks_of(text)
    assert [r.job_id for r in chunk.attempts.records()] == [6, 8]
    (reject,) = chunk.rejects
    assert (reject.line, reject.reason) == (3, "the line is too long")
    assert len(reject.raw) < 5000


class Endless:
    """Some bytes, and then a line of 64 MiB."""

    def __init__(self, head):
        self.head, self.left = io.BytesIO(head), 2**26

    def read(self, size):
        if data := self.head.read(size):
            return data
        taken = min(size, self.left)
        self.left -= taken
        return b"x" * taken


def test_an_endless_line_takes_no_memory():
    stream = Endless(text_of(row()).encode() + b"8|")
    tracemalloc.start()
    try:
        chunks = list(read_text(stream, options(counts_gpus=True)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert stream.left == 0
    assert [reject.line for chunk in chunks for reject in chunk.rejects] == [3]
    assert peak < 2**25 + 2**24  # of which 16 MiB are kept to be read again


def test_another_header_in_the_middle_is_told_as_one():
    other = "JobID|State|Submit"
    found = rejects_of(text_of(row("6"), other, row("8")))
    assert [line for line, _ in found] == [3]
    assert found[0][1].startswith("it looks like another header (JobID, State, Submit)")
    same_width = "|".join(reversed(HEADER.split("|")))
    ((_, why),) = rejects_of(text_of(row("6"), same_width))
    assert why.startswith("it looks like another header (NodeList, AllocTRES, ")


NAMES = ["two\nlines", "a|b", "|", "\n", "x\n\ny", "a|b\nc|d", "7|c|ann", " lead", "名|前\n🔥"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("closed", [True, False])
def test_names_may_hold_delimiters_and_line_ends(name, closed):
    end = "|" if closed else ""
    text = text_of(
        *(line + end for line in (row("6"), row(name=name), row("8"))), header=HEADER + end
    )
    assert [r.name for r in attempts_of(text)] == ["train", name, "train"]
    # also where the name stands last, and in every size of the pieces that are read
    names = [*(n for n in HEADER.split("|") if n != "JobName"), "JobName"]
    values = ["6", "8", "9"]
    told = dict(zip(HEADER.split("|"), row().split("|"), strict=True))
    lines = ["|".join((told | {"JobID": v, "JobName": name})[n] for n in names) for v in values]
    last = text_of(*(line + end for line in lines), header="|".join(names) + end)
    if name == "\n" and not closed:
        return  # an empty line at the end of a row is none of its name
    for most in (1, 2, 50):
        assert [r.name for r in attempts_of(last, chunk_rows=most)] == [name] * 3


def test_a_row_that_would_have_to_be_guessed_is_a_reject():
    two_free = HEADER.replace("User", "Comment")
    found, = rejects_of(text_of(row(name="a|b"), row("8"), header=two_free))  # fmt: skip
    assert found == (2, "row has 11 fields instead of 10")
    cut = text_of(row("6"), row("7")[:30], row("8"), row("9")[:20])
    assert [(line, why[:7]) for line, why in rejects_of(cut)] == [(3, "row has"), (5, "row has")]


def test_what_is_not_understood_is_kept_with_its_line():
    bad = text_of(row("seven"), row(state=""), row(Submit="Unknown"), row(Start="soon"), row("9"),
                  row(tres="cpu"))  # fmt: skip
    chunk, = chunks_of(bad)  # fmt: skip
    assert [record.job_id for record in chunk.attempts.records()] == [9]
    assert [(r.line, r.source) for r in chunk.rejects] == [
        (n, "sacct:saved.txt") for n in (2, 3, 4, 5, 7)
    ]
    reasons = [r.reason for r in chunk.rejects]
    assert [words for words in ("not a job id", "no state", "no submit", "not", "TRES") if
            not any(words in reason for reason in reasons)] == []  # fmt: skip
    assert chunk.rejects[0].raw == row("seven")


# -- what the fields mean -------------------------------------------------------------------


def test_a_chunk_is_what_its_rows_are_one_by_one():
    lines = [
        row(str(n), name=f"n{n % 3}", state=("FAILED", "RUNNING")[n % 2]) for n in range(1, 60)
    ]
    whole = attempts_of(text_of(*lines))
    assert len(whole) == 59
    assert whole == [attempts_of(text_of(line))[0] for line in lines]
    assert whole == attempts_of(text_of(*lines), chunk_rows=7)


def test_states_times_memory_and_ids_of_old_and_new_releases():
    header = "jobidraw|submit|start|end|state|reqmem|nnodes|ncpus|timelimit|exitcode|allocgres"
    old, waits = attempts_of(
        f"{header}\n"
        "12|2016-12-21T21:43:34|None|2016-12-22T07:03:30|CANCELLED by 1000|48000Mn|2|8|"
        "125-00:00:00|0:15|gpu:2\n"
        "13|2016-12-21T21:43:34|Unknown|Unknown|PENDING|2Gc|1|4|Partition_Limit|0:0|\n"
    )
    assert old.submit_time == 1482356614
    assert (old.state, old.state_text) == (JobState.CANCELLED, "CANCELLED by 1000")
    assert old.requested == (Tres("mem", 2 * 48000 * 2**20),)
    assert waits.requested == (Tres("mem", 4 * 2 * 2**30),)
    assert (old.time_limit_s, waits.time_limit_s) == (125 * 86400, None)
    assert (old.exit_signal, old.start_time, old.num_gpus, waits.num_gpus) == (15, None, 2, 0)
    assert (waits.start_time, waits.end_time, waits.cluster) == (None, None, "sacct")


def test_arrays_het_jobs_and_requeues():
    found = attempts_of(text_of(
        row("7_3"), row("8+1"), row("7_[4-9%2]", state="PENDING"), row("9", state="REQUEUED"),
        row("9", Submit=str(T0 + 500)), row("10_[1-2,5]", state="CANCELLED by 5", NodeList=""),
    ))  # fmt: skip
    assert [(r.job_id, r.array_task, r.het_offset) for r in found] == [
        (7, 3, None), (8, None, 1), (9, None, None), (9, None, None),
        (10, 1, None), (10, 2, None), (10, 5, None),
    ]  # fmt: skip
    assert [r.submit_time for r in found[2:4]] == [T0, T0 + 500]
    # an array that ended as a whole is one row of sacct, and an attempt of each task
    assert {(r.state, r.extra, r.start_time) for r in found[4:]} == {
        (JobState.CANCELLED, None, None)
    }
    for odd in (  # too many, and one that a site's own script has put together: it has run
        row("10_[0-10000]", state="CANCELLED by 5", NodeList=""),
        row("10_[0-10000]", state="TIMEOUT"),
    ):
        (whole,) = attempts_of(text_of(odd))
        assert (whole.array_task, whole.extra) == (None, '{"array_tasks":"0-10000"}')


def test_fields_without_a_place_are_kept_under_sacct_s_names():
    header = f"{HEADER}|elapsedraw|comment|SHOESIZE"
    first, second = attempts_of(text_of(row() + "|100|a, b|44", row("8") + "|||", header=header))
    assert json.loads(first.extra) == {"ElapsedRaw": "100", "Comment": "a, b", "SHOESIZE": "44"}
    assert second.extra is None
    phased, = attempts_of(text_of(row() + "|1|mine gs1{phase=sft}|", header=header))  # fmt: skip
    assert phased.phase == "sft"


def test_gpus_are_counted_where_any_job_of_the_file_has_some():
    without = row(tres="cpu=4")
    chunk, = chunks_of(text_of(without, row("8", name="gres/gpu=1", tres="cpu=1")))  # fmt: skip
    assert [r.num_gpus for r in chunk.attempts.records()] == [None, None]
    assert any("numbers of GPUs are not known" in note for note in chunk.notes)
    found = attempts_of(text_of(*[without] * 50, row("8")), chunk_rows=10)
    assert [r.num_gpus for r in found] == [0] * 50 + [2]


@pytest.mark.parametrize("counted", [True, False])
def test_what_is_said_of_gpus_is_believed(counted):
    plain = document(job(tres={"allocated": []}))
    for text, reader in ((text_of(row(tres="cpu=4")), read_text), (plain, read_json)):
        (chunk,) = chunks_of(text, reader, counts_gpus=counted)
        assert chunk.attempts.column("num_gpus") == [0 if counted else None]
        assert any("GPUs are not known" in note for note in chunk.notes) is not counted


def test_the_cluster_is_the_one_named_or_the_file_s_or_none_of_the_site_s():
    header = HEADER.replace("Cluster|", "")
    no_cluster = text_of(row().replace("|c|", "|", 1), header=header)
    chunk, = chunks_of(no_cluster)  # fmt: skip
    assert chunk.attempts.column("cluster") == ["sacct"]
    assert any("cluster 'sacct'" in note for note in chunk.notes)
    assert attempts_of(text_of(row()), cluster="helios")[0].cluster == "helios"
    assert attempts_of(text_of(row(Cluster="")))[0].cluster == "sacct"


def test_notes_are_said_once():
    lines = [row(str(n), Submit="2023-11-14T22:13:20") for n in range(1, 30)]
    notes = [n for c in chunks_of(text_of(*lines), chunk_rows=5) for n in c.notes]
    assert len(notes) == 1
    assert "UTC" in notes[0]


# -- clocks ---------------------------------------------------------------------------------

BERLIN = ZoneInfo("Europe/Berlin")
TIMES = "JobID|State|Submit|Start|End|ElapsedRaw|NodeList"


def times_of(submit, start, end, elapsed="", zone=BERLIN):
    found, = attempts_of(
        f"{TIMES}\n7|COMPLETED|{submit}|{start}|{end}|{elapsed}|gn01\n", timezone=zone
    )  # fmt: skip
    return found.submit_time, found.start_time, found.end_time


def test_times_without_a_zone_are_of_the_one_that_is_named():
    midnight = "2026-11-29T00:00:00"
    assert times_of(midnight, midnight, midnight, zone=UTC)[0] == 1795910400
    assert times_of(midnight, midnight, midnight)[0] == 1795910400 - 3600
    with_offset = "2026-11-29T01:00:00+0100"
    assert times_of(with_offset, "1795910401", "2026-11-29 01:00:02")[:3] == (
        1795910400, 1795910401, 1795910402,
    )  # fmt: skip


def test_the_hour_that_comes_twice_is_told_apart_by_the_order_and_by_the_time_used():
    """On 25 October 2026 Berlin's clocks go from 03:00 back to 02:00, at 01:00 UTC."""
    one = 1792890000  # 01:00 UTC
    day = "2026-10-25T"
    before, after = f"{day}00:30:00", f"{day}05:00:00"
    # it ended before the second pass began, or began in the first and ended in the second
    assert times_of(before, f"{day}02:50:00", f"{day}02:10:00")[1:] == (one - 600, one + 600)
    for elapsed, start in ((2400, one + 600), (6000, one - 3000)):
        assert times_of(before, f"{day}02:10:00", f"{day}02:50:00", elapsed)[1:] == (
            start, start + elapsed if elapsed == 2400 else one + 3000,
        )  # fmt: skip
    assert times_of(before, f"{day}02:30:00", after, 9000)[1] == one + 1800
    assert times_of(before, f"{day}02:30:00", after, "03:30:00")[1] == one - 1800


# -- steps ----------------------------------------------------------------------------------

STEPS = f"{HEADER}|NTasks|TotalCPU|MaxRSS|TRESUsageInMax|TRESUsageInAve|TRESUsageInTot|ExitCode"


def test_steps_are_skipped_or_kept_with_their_attempt():
    text = text_of(
        row(state="REQUEUED") + "|||||||0:0",
        row("7.batch", name="batch") + "|1|00:01.500|10836K|gres/gpumem=2M|gres/gpuutil=55||0:0",
        row(Submit=str(T0 + 900)) + "|||||||0:0",
        row("7.0", name="srun", Submit=str(T0 + 901))
        + "|2|00:00:00||mem=4096|x=1|cpu=00:00:09|1:0",
        row("9.0", name="lost") + "|||||||0:0",
        header=STEPS,
    )
    chunk, = chunks_of(text)  # fmt: skip
    assert (chunk.attempts.count, chunk.rows_skipped, chunk.steps) == (2, 3, ())
    kept, = chunks_of(text, keep_steps=True)  # fmt: skip
    assert replace(kept, steps=(), notes=()) == replace(chunk, notes=())
    batch, zero = kept.steps
    assert (batch.step, batch.submit_time, batch.cpu_time_s) == ("batch", T0, 1.5)
    assert (batch.max_rss_bytes, batch.gpu_utilization_pct) == (10836 * 1024, 55.0)
    assert (batch.gpu_mem_bytes, batch.num_tasks) == (2 * 2**20, 1)
    assert (zero.submit_time, zero.cpu_time_s, zero.max_rss_bytes) == (T0 + 900, 9.0, 4096)
    assert (zero.exit_code, zero.name, zero.start_time) == (1, "srun", T0 + 60)
    assert "steps that do not stand behind their job are left out" in kept.notes
    pieces = chunks_of(text, keep_steps=True, chunk_rows=1)
    assert tuple(step for piece in pieces for step in piece.steps) == kept.steps


# -- JSON -----------------------------------------------------------------------------------


def job(number=7, **told):
    return {
        "job_id": number, "state": {"current": ["COMPLETED"]}, "cluster": "c",
        "time": {"submission": T0, "start": T0 + 60, "end": T0 + 160}, "nodes": "gn01",
        "tres": {"allocated": [{"type": "gres", "name": "gpu", "count": 2}]},
    } | told  # fmt: skip


def document(*jobs, **more):
    return json.dumps({"meta": {}, "jobs": list(jobs), "errors": [], "warnings": []} | more)


def test_a_document_is_read_job_by_job():
    text = document(*map(job, range(1, 40)))
    whole = attempts_of(text, read_json)
    assert [r.job_id for r in whole] == list(range(1, 40))
    assert whole == attempts_of(text, read_json, chunk_rows=4)
    assert whole == attempts_of(json.dumps(json.loads(text), indent=8), read_json)
    assert whole + whole == attempts_of(text + "\n" + text, read_json)
    assert {r.cluster for r in attempts_of(text, read_json, cluster="x")} == {"x"}


def test_a_slow_stream_gives_the_same():
    class Drop(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, 3))

    text = document(job(name="näme\u2028\t"), job(8))
    whole = attempts_of(text, read_json)
    slow = list(read_json(Drop(text.encode()), options()))
    assert [r for c in slow for r in c.attempts.records()] == whole


def test_users_texts_in_a_document_may_hold_anything():
    text = document(job(name="NAME")).encode().replace(b"NAME", b"a\tb\x1b\xff\\u0000\\ud800")
    assert attempts_of(text, read_json)[0].name == "a\tb\x1b\ufffd\x00\ufffd"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "no list of jobs; its members are none"),
        ('{"meta": {}, "nodes": []}', "members are meta, nodes"),
        ('{"jobs": [], "errors": [{"error": "no"}]}', "an error: no"),
        ("[]", "'\\[' in place of '{' at the beginning"),
        ('{"jobs": [{}, nonsense]}', "at jobs 2"),
        ('{"jobs": [{"a": 1}', "document ends at jobs 1"),
        ('{"jobs": [{"a": "x', "document ends at jobs 1"),
        ('{"jobs": [' + "[" * 100_000, "nested too deeply"),
        ('{"jobs": []} x', "'x' in place of"),
    ],
)
def test_a_document_of_another_kind_or_cut_short_is_refused(text, words):
    with pytest.raises(DataError, match=words):
        chunks_of(text, read_json)


def test_jobs_before_a_fault_are_kept():
    stream = io.BytesIO(document(job(1), job(2), job(3)).encode()[:-400])
    reading = read_json(stream, options())
    assert [r.job_id for r in next(reading).attempts.records()] == [1]
    with pytest.raises(DataError, match="the document ends at jobs 2"):
        next(reading)


def test_jobs_that_make_no_sense_and_complaints_are_rejects():
    text = document(job(), {"job_id": 1}, 5, warnings=[{"description": "half of it"}])
    chunk, = chunks_of(text, read_json)  # fmt: skip
    assert [(r.line, r.source) for r in chunk.rejects] == [
        (2, "sacct-json:saved.txt"), (3, "sacct-json:saved.txt"), (0, "sacct-json:saved.txt"),
    ]  # fmt: skip
    assert chunk.rejects[2].reason == "half of it"
    assert chunks_of(document(warnings=[{"description": "nothing found"}]), read_json) == []


def test_that_nothing_was_found_is_no_error():
    """As 22.05 says it."""
    nothing = {"description": "Nothing found", "error_number": 9003, "error": "Nothing found with"}
    text = document(errors=[nothing])
    assert chunks_of(text, read_json) == []
    assert parse_sacct_json(text, counts_gpus=True).rows_in == 0


def test_gpus_of_a_document_and_what_else_it_tells():
    plain = {"tres": {"allocated": []}}
    many = [job(n, **plain) for n in range(1, 30)]
    assert {r.num_gpus for r in attempts_of(document(*many), read_json)} == {None}
    assert {r.num_gpus for r in attempts_of(document(*many, job()), read_json)} == {0, 2}
    told = {"comment": {"job": "gs1{phase=debug}"}, "working_directory": "/home", "submit_line": ""}
    found, = attempts_of(document(job(**told)), read_json)  # fmt: skip
    assert json.loads(found.extra) == {"Comment": "gs1{phase=debug}", "WorkDir": "/home"}
    assert found.phase == "debug"


# -- text and JSON of the same jobs ---------------------------------------------------------

NOT_IN_TEXT = {"extra"}
"""What else users wrote, which the text was not asked for."""


def as_saved(text, separator):
    """The recorded answer with the header that ``sacct -p`` writes."""
    return separator.join(FIELDS) + separator + "\n" + text


def by_key(records):
    return {(r.job_id, r.array_task, r.het_offset, r.submit_time): r for r in records}


@pytest.mark.parametrize("release", RELEASES)
def test_a_saved_answer_is_the_live_one(recorded, separator, release):
    text = recorded("lab/sacct.txt", release)
    live = parse_sacct(text, separator, counts_gpus=True)
    assert len(live.records) > 20
    assert tuple(attempts_of(as_saved(text, separator))) == live.records


@pytest.mark.parametrize("release", RELEASES)
def test_saved_text_and_saved_json_tell_the_same(recorded, separator, release):
    texts = by_key(attempts_of(as_saved(recorded("lab/sacct.txt", release), separator)))
    documents = by_key(attempts_of(recorded("lab/sacct.json", release), read_json))
    assert texts.keys() == documents.keys()
    names = [f.name for f in fields(AttemptRecord) if f.name not in NOT_IN_TEXT]
    differ = Counter()
    for key, record in texts.items():
        other = documents[key]
        differ.update(n for n in names if getattr(record, n) != getattr(other, n))
    # who cancelled a job the text tells by number; 22.05's JSON knows no exit code of a failed one,
    # and writes null for an unlimited time as for the partition's
    listed = {"state_text": 2}
    if release == "22.05":
        listed |= {"exit_code": 1, "exit_signal": 1, "time_limit_s": 1}
    assert differ == listed


@needs_shared
@pytest.mark.parametrize("release", RELEASES)
def test_steps_of_each_release_s_json(release):
    data = (SHARED / "slurm-samples" / release / "sacct.json").read_bytes()
    chunk, = chunks_of(data, read_json, keep_steps=True)  # fmt: skip
    assert chunk.attempts.count == 5
    assert Counter(step.step for step in chunk.steps) == {"batch": 4}
    known = by_key(chunk.attempts.records())
    for step in chunk.steps:
        owner = known[step.job_id, step.array_task, step.het_offset, step.submit_time]
        assert (step.cluster, step.start_time) == (owner.cluster, owner.start_time)
        assert step.num_cpus == owner.num_cpus
        assert (step.num_nodes, step.num_tasks) == (1, 1)


@needs_shared
def test_what_other_projects_have_recorded():
    folder = SHARED / "slurm-samples" / "public"
    found = Counter()
    for path in sorted(folder.glob("slurm-web-slurmrestd/*/*/slurmdb-job*.json")):
        for chunk in chunks_of(path.read_bytes(), read_json):
            found["jobs"] += chunk.attempts.count
            found["rejects"] += len(chunk.rejects)
    assert found["jobs"] > 50
    assert found["rejects"] == 0
    names = tuple((folder / "xdmod-fixtures" / "FIELDS_slurm.txt").read_text().strip().split("|"))
    states = Counter()
    for path in sorted((folder / "xdmod-fixtures").glob("slurm__*.log")):
        for record in attempts_of(path.read_bytes(), sacct_fields=names):
            states[record.state.value] += 1
    assert states == {"TIMEOUT": 7, "COMPLETED": 2, "CANCELLED": 1, "RUNNING": 1, "PENDING": 1,
                      "UNKNOWN": 2}  # fmt: skip


@needs_shared
def test_totals_of_a_site_s_log():
    """Recounted from the text, without any of gsched: 11,704 rows."""
    import gzip
    from datetime import datetime

    folder = SHARED / "traces" / "sacct"
    data = gzip.decompress((folder / "pozidriv.log.gz").read_bytes())
    names = (folder / "FIELDS.txt").read_text().strip().split("|")
    rows = [dict(zip(names, line.split("|"), strict=True)) for line in data.decode().splitlines()]
    states = Counter(r["state"].split()[0] for r in rows)
    cpu_s = sum(
        (datetime.fromisoformat(r["end"]) - datetime.fromisoformat(r["start"])).total_seconds()
        * int(r["ncpus"])
        for r in rows
    )
    found = attempts_of(data, sacct_fields=tuple(names))
    assert len(found) == len(rows) == 11_704
    assert Counter(r.state.value for r in found) == states
    assert sum((r.end_time - r.start_time) * r.num_cpus for r in found if r.start_time) == cpu_s
    assert len(by_key(found)) == len({(r["jobid"], r["submit"]) for r in rows})
    assert {r.num_gpus for r in found} == {None}
    ends = [r.end_time for r in found]
    assert any(later < earlier for earlier, later in pairwise(ends))  # in no order


def test_gpus_are_those_of_the_tres_before_those_of_the_gres():
    header = f"{HEADER}|AllocGRES"
    rows = [row("7", AllocGRES="gpu:8"), row("8", tres="", AllocGRES="gpu:8")]
    found = attempts_of(text_of(*rows, header=header))
    assert [record.num_gpus for record in found] == [2, 8]


def test_a_full_temporary_folder_is_named(monkeypatch, tmp_path):
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", lambda **_: Full())
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(UnavailableError, match=f"{tmp_path}: No space left") as caught:
        attempts_of(text_of(row()))
    assert "TMPDIR" in caught.value.hint
    assert caught.value.exit_code == 69
