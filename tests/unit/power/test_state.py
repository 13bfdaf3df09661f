"""What is kept of power orders: whole after any kill, refused where others could write it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from gsched.errors import ConfigError, DataError, PermissionDeniedError, UnavailableError
from gsched.power import records
from gsched.power.state import MAX_FAILURES, State, Store, is_node_name
from gsched.testbed.wait import wait_for

WRITER = """
import sys, time
from pathlib import Path
from gsched.config.node_settings import PowerSettings
from gsched.power import records
from gsched.power.state import Store
store, names = Store(Path(sys.argv[1])), [f"gn{n}" for n in range(200)]
while True:
    state = store.change(lambda s: records.begun(s, "suspend", names, time.time()))
    ended = [records.Outcome(n, 1, "") for n in names]
    number = state.next_number - 1
    store.change(lambda s: records.ended(s, number, ended, PowerSettings(), time.time()))
"""


def test_it_comes_back_as_it_was(site):
    site.node("gn01", "exit 3")
    site.set(tries=1, stop_after=1)
    site.call("suspend", "gn01", "gn02")
    state = site.state
    assert state.stopped and state.failures and set(state.orders) == {"gn01", "gn02"}  # noqa: PT018
    document = json.loads(site.store.file.read_text())
    document["orders"]["gn01"]["of a later release"] = 1
    site.store.file.write_text(json.dumps(document))
    assert site.state == state
    assert site.store.file.stat().st_mode & 0o777 == 0o644


def test_a_kill_at_any_moment_leaves_a_valid_state_and_no_lock(tmp_path: Path):
    store, chance, last = Store(tmp_path / "power"), random.Random(1), 0
    for _ in range(15):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(store.folder)])
        wait_for(lambda n=last: store.read().next_number > n + 1, "it to write")
        seen = store.read().next_number + chance.randrange(3)
        wait_for(lambda n=seen: store.read().next_number >= n, "it to write on")
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        state = store.read()
        assert state.next_number >= max(seen, last)
        last = store.change(lambda s: records.begun(s, "resume", ["gn1"], 1.0)).next_number
        assert last == state.next_number + 1
        assert sorted(p.name for p in store.folder.iterdir() if p.is_file()) == [
            "state.json",
            "state.lock",
        ]
    with store.working_on("gn1", 0.0):
        pass


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 2}', "\x00" * 40, '{"format": 1, "next_number": []}']
)
def test_what_is_no_state_is_said_to_be_none(tmp_path: Path, text: str):
    store = Store(tmp_path)
    store.file.write_text(text)
    with pytest.raises(DataError, match="is damaged"):
        store.read()


def test_a_folder_that_others_can_write_is_not_trusted(tmp_path: Path):
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigError, match="cannot be trusted"):
        Store(tmp_path).change(lambda state: state)


def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path: Path):
    (tmp_path / "state.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnavailableError):
        Store(tmp_path).change(lambda state: state)
    assert not (tmp_path / "elsewhere").exists()


def test_what_a_command_makes_is_the_folders_owners(tmp_path: Path):
    """SlurmUser goes on where root has worked by hand."""
    if os.getuid() == 0:
        os.chown(tmp_path, 5, 60)
    store = Store(tmp_path)
    store.change(lambda state: records.begun(state, "suspend", ["gn1"], 1.0))
    with store.working_on("gn1", 0.0):
        pass
    made = [tmp_path / "state.json", tmp_path / "state.lock", *(tmp_path / "nodes").glob("**/*")]
    assert {path.stat().st_uid for path in made} == {tmp_path.stat().st_uid}
    assert (tmp_path / "nodes").stat().st_uid == tmp_path.stat().st_uid


def test_nothing_is_where_nothing_was(tmp_path: Path):
    assert Store(tmp_path / "none").read() == State()


def test_the_newest_failures_are_kept(site):
    names = {f"gn{number}": "no" for number in range(MAX_FAILURES + 5)}
    state = records.not_awake(State(), names, site.settings, 1.0)
    assert len(state.failures) == MAX_FAILURES
    assert state.failures[-1].node == f"gn{MAX_FAILURES + 4}"


def test_clear_forgets_what_is_named(site):
    state = records.not_awake(State(), {"a": "no", "b": "no"}, site.settings, 1.0)
    assert records.cleared(state, {"a"}).failed_nodes == {"b"}
    stopped = records.not_awake(state, dict.fromkeys("cdefg", "no"), site.settings, 2.0)
    assert records.cleared(stopped, {"a", "c"}).stopped
    assert records.cleared(stopped, None) == State()


def test_it_is_kept_when_failures_were_cleared(site):
    state = records.not_awake(State(), {"a": "no", "b": "no"}, site.settings, 1.0)
    state = records.cleared(state, {"a", "gone"}, {"gone"}, at=5.0)
    site.store.change(lambda _: state)
    assert [site.state.last_cleared(node) for node in ("a", "b", "gone")] == [5.0, 0.0, 0.0]
    assert records.cleared(state, {"a"}, {"a"}, at=6.0).last_cleared("a") == 0.0
    site.store.change(lambda known: records.cleared(known, None, at=7.0))
    assert [site.state.last_cleared(node) for node in ("a", "b")] == [7.0, 7.0]
    document = json.loads(site.store.file.read_text())
    for key in ("cleared_at", "all_cleared_at"):  # a file of an earlier gsched
        del document[key]
    site.store.file.write_text(json.dumps(document))
    assert site.state == State()


def test_of_many_nodes_the_last_cleared_are_kept():
    state = State()
    for number in range(3):
        names = {f"gn{number}-{i}" for i in range(MAX_FAILURES // 2)}
        state = records.cleared(state, names, at=float(number + 1))
    assert len(state.cleared_at) == MAX_FAILURES
    assert set(state.cleared_at.values()) == {2.0, 3.0}


@pytest.mark.parametrize(
    "name", ["", "..", "-x", "a/b", "a b", "gn01\n", "ä", "$(x)", "a" * 300, ".hidden"]
)
def test_what_is_no_nodes_name_reaches_no_file_and_no_word(name: str):
    assert not is_node_name(name)


@pytest.mark.parametrize(
    ("what", "key", "value"),
    [
        ("failures", "at", None), ("failures", "at", "1"), ("failures", "node", 3),
        ("orders", "tries", None), ("orders", "verb", "explode"), ("orders", "verb", 1),
        ("orders", "error", ["x"]), ("orders", "ended_at", "x"),
    ],
)  # fmt: skip
def test_a_state_of_other_types_is_damaged(site, what, key, value):
    site.set(tries=1)
    site.node("gn01", "exit 3")
    site.call("suspend", "gn01")
    document = json.loads(site.store.file.read_text())
    entry = document[what][0] if what == "failures" else document[what]["gn01"]
    entry[key] = value
    site.store.file.write_text(json.dumps(document))
    with pytest.raises(DataError, match=f"is damaged: {key} is"):
        site.store.read()
    assert site.call("resume", "gn01").failed  # tried all the same


def test_a_state_without_end_is_damaged(tmp_path: Path):
    store = Store(tmp_path)
    store.file.write_text("[" * 200_000)
    with pytest.raises(DataError, match="is damaged"):
        store.read()


def test_clear_forgets_what_has_failed_and_what_is_no_node_any_more(site):
    site.set(tries=1)
    site.node("gn01", "exit 3")
    site.call("suspend", "gn01", "gn02", "gn03", "gn04")
    state = records.cleared(site.state, {"gn01", "gn02", "gn03"}, ["gn03", "gn04"])
    assert set(state.orders) == {"gn02", "gn04"}
    assert records.cleared(site.state, None).orders == site.state.orders


def test_suspending_goes_on_and_broken_nodes_are_still_left(site):
    bad = dict.fromkeys("abcde", "no")
    state = records.not_awake(State(), bad, site.settings, 1.0)
    assert state.stopped
    site.store.change(lambda _: records.going_on(state, 2.0))
    state = records.not_awake(site.state, {"f": "no"}, site.settings, 3.0)
    assert state.stopped is None
    assert records.why_refused(state, "a")
    assert records.not_awake(state, dict.fromkeys("ghij", "no"), site.settings, 4.0).stopped


@pytest.mark.skipif(os.getuid() != 0, reason="it needs root to be others")
def test_to_an_ordinary_user_the_folder_is_closed_without_advice_to_open_it():
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        os.chown(folder, 5, 60)
        os.seteuid(65534)
        try:
            with pytest.raises(PermissionDeniedError, match="for root and its owner") as caught:
                Store(Path(folder)).change(lambda state: state)
        finally:
            os.seteuid(0)
    assert "chown" not in (caught.value.hint or "")


def test_a_state_of_another_format_is_not_read(site):
    site.call("suspend", "gn01")
    document = json.loads(site.store.file.read_text())
    site.store.file.write_text(json.dumps({**document, "format": 2}))
    with pytest.raises(DataError, match="it has the format 2, not 1"):
        site.store.read()
