"""Attacks on a real site: what users write, what they plant, what they ask for, what leaks."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.site import GSCHED, Site, fresh_site

from gsched.testbed.environment import as_user
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

ESCAPES = "\x1b]0;owned\x07\x1b[31m\x9b2J"
HOSTILE = {
    "escapes": ESCAPES,
    "newlines": "two\nlines\r\nJOBID 1\n",
    "separators": "a|b,c;d\t\"e'f`$(touch /tmp/never)`",
    "direction": "gpu\u202etxt.exe\u2066",
    "bytes": b"caf\xe9\xff\xfe".decode("utf-8", "surrogateescape"),
    "long": "x" * 900,
}
TOKENS = {
    "other-version": "gs9{none}",
    "twice": "gs1{none} gs1{share}",
    "huge": "gs1{" + "none," * 190 + "share}",
    "nested": "gs1{gs1{gs1{none}}}",
    "control": "gs1{deadline=1\x1b[31m}",
    "not-a-time": "gs1{deadline=99999999999999999999}",
}
SECRET = "s3cret-p4ssw0rd"
OPERATOR = "mail"
_PRINTED = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]*")


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A full site whose queue is one user's attempts to hurt whoever looks at it."""
    with fresh_site(num_nodes=1) as made:
        made.know_durations({"d5": 5})
        made.arm.fill()
        made.job_of = {}  # type: ignore[attr-defined]
        for kind, text in HOSTILE.items():
            made.job_of[kind] = attack(made, text, text)  # type: ignore[attr-defined]
        for kind, text in TOKENS.items():
            made.job_of[kind] = attack(made, kind, text)  # type: ignore[attr-defined]
        yield made


def attack(site: Site, name: str, comment: str) -> int:
    words = ("sbatch", "--parsable", "-J", name, "--comment", comment, "-o", "/dev/null")
    made = subprocess.run(
        as_user((*words, "--gres=gpu:8", "--wrap", "true"), "games"),
        env=site.bed.env("games"),
        cwd=site.bed.layout.home("games"),
        capture_output=True,
        check=True,
    )
    return int(made.stdout)


def raw(site: Site, *words: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit code, and all that a command prints; undecodable bytes stay visible."""
    done = subprocess.run(
        [GSCHED, *words], env=site.bed.env() | (env or {}), capture_output=True, timeout=120
    )
    return done.returncode, (done.stdout + done.stderr).decode("utf-8", "surrogateescape")


def assert_harmless(text: str, where: str) -> None:
    match = _PRINTED.match(text)
    assert match is not None
    rest = text[match.end() :]
    assert not rest, f"{where} prints {rest[:20]!r}"


def test_what_users_write_moves_no_terminal_and_feigns_no_line(site: Site) -> None:
    job = str(site.job_of["escapes"])  # type: ignore[attr-defined]
    tables = {
        ("daemon", "once", "--act"): None,
        ("queue",): None,
        ("queue", "-P", "-h", "-o", "jobid,name"): len(HOSTILE) + len(TOKENS) + 1,
        ("why", job): None,
        ("show", job): None,
        ("daemon", "audit"): None,
    }
    for words, lines in tables.items():
        code, text = raw(site, *words)
        assert code == 0, (words, text)
        assert_harmless(text, " ".join(words))
        if lines is not None:
            assert len(text.splitlines()) == lines, text
    _, text = raw(site, "queue", "--json")
    assert_harmless(text, "queue --json")
    json.loads(text)
    assert not Path("/tmp/never").exists()


def test_tokens_that_are_none_ask_for_nothing(site: Site) -> None:
    """Each is answered in the public file by a problem in gsched's own words."""
    site.ok("daemon", "once", "--act")
    text = (site.state / "status.json").read_text()
    assert_harmless(text, "the status file")
    jobs = json.loads(text)["jobs"]
    for kind in TOKENS:
        answer = jobs[str(site.job_of[kind])]  # type: ignore[attr-defined]
        assert answer["request_problem"], kind
        assert "excluded" not in answer, kind
        assert "rank" not in answer or answer["rank"]["of"] >= 1
    theirs = str(site.job_of["huge"])  # type: ignore[attr-defined]
    forged = ("scontrol", "update", f"jobid={theirs}", "comment=gs1{none}")
    assert site.bed.run(forged, "news").returncode != 0  # another's job


def test_the_log_of_a_daemon_is_harmless_and_its_doors_are_guarded(site: Site) -> None:
    with site.daemon("--act") as daemon:
        wait_for((site.state / "daemon.sock").is_socket, "the daemon to listen")
        for verb, code in (("status", 0), ("reload", 77), ("audit", 77)):
            answer = site.bed.run([GSCHED, "daemon", verb], "games")
            assert answer.returncode == code, (verb, answer.stderr)
            assert_harmless(answer.stdout + answer.stderr, verb)
        modes = {p.name: p.lstat() for p in site.state.iterdir()}
        assert daemon.stop() == 0
    assert_harmless(daemon.output(), "the log")
    for name, found in modes.items():
        if not stat.S_ISSOCK(found.st_mode):
            assert not found.st_mode & 0o022, f"{name} can be written by others"
            assert not (found.st_mode & 0o004 and "history" in name), f"{name} can be read by all"
    for name in ("leader.lock", "writer.lock"):
        assert stat.S_IMODE(modes[name].st_mode) == 0o600


def test_an_ordinary_user_runs_it_whatever_the_umask(site: Site) -> None:
    folder = site.bed.layout.home(OPERATOR) / "gsched"
    own = pwd.getpwnam(OPERATOR).pw_uid
    # by root: in a checkout that is closed to others, alembic does not find its own folder
    for words, user in ((("db", "init"), "root"), (("daemon", "once"), OPERATOR)):
        done = subprocess.run(
            (GSCHED, *words) if user == "root" else as_user((GSCHED, *words), user),
            env=site.bed.env(user) | {"GSCHED_STATE_DIR": str(folder)},
            cwd=site.bed.layout.home(OPERATOR),
            umask=0,
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
        for path in (folder, *folder.rglob("*")):
            os.chown(path, own, -1, follow_symlinks=False)
    for path in (folder, *folder.rglob("*")):
        found = path.lstat()
        assert found.st_uid == own
        assert not found.st_mode & 0o022, f"{path.name} can be written by others"
        assert path == folder or not (found.st_mode & 0o004 and "history" in path.name)
    assert stat.S_IMODE((folder / "status.json").stat().st_mode) == 0o644


def test_what_is_planted_is_not_followed(site: Site, tmp_path: Path) -> None:
    """A folder into which others can write is refused."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = site.bed.spec.root / "planted"
    shutil.copytree(site.state, folder, ignore=shutil.ignore_patterns("*.sock"))
    env = {"GSCHED_STATE_DIR": str(folder)}
    for name in ("status.json", "leader.json"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(victim)
    folder.chmod(0o777)
    code, text = raw(site, "daemon", "once", env=env)
    assert (code, "others may write it" in text) == (78, True), text
    assert victim.read_text() == "precious"


def test_root_does_not_obey_a_users_settings(site: Site) -> None:
    home = site.bed.layout.home("games")
    own = home / ".config" / "gsched"
    own.mkdir(parents=True, exist_ok=True)
    (own / "gsched.toml").write_text(f'state_dir = "{home}/trap"\n')
    shutil.chown(own / "gsched.toml", "games")
    kept = {"HOME": str(home), "GSCHED_CONFIG": ""}  # as sudo -E would keep it
    code, text = raw(site, "daemon", "status", env=kept)
    assert (code, "root would obey it" in text) == (78, True), text


def test_a_password_shows_nowhere(site: Site) -> None:
    """In no output, though all goes wrong; in no argument list of any process meanwhile."""
    env = {
        "GSCHED_DATABASE_URL": f"postgresql://gsched:{SECRET}@127.0.0.1:9/history",
        "GSCHED_DEBUG": "1",
    }
    for words in (("daemon", "once"), ("doctor",)):
        with subprocess.Popen(
            [GSCHED, *words],
            env=site.bed.env() | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            shown = _arguments_until_end(process)
            assert process.stdout is not None
            text = process.stdout.read()
        assert text, words
        assert SECRET not in text, words
        assert SECRET not in shown, words


def _arguments_until_end(process: subprocess.Popen[str]) -> str:
    """The argument lists of every process of this machine for as long as `process` lives."""
    seen: set[str] = set()
    until = time.monotonic() + 60

    def look() -> bool:
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    seen.add((entry / "cmdline").read_bytes().decode(errors="replace"))
                except OSError:
                    continue
        if time.monotonic() > until:
            process.send_signal(signal.SIGKILL)
        return process.poll() is not None

    wait_for(look, "the command to end", timeout_s=90, poll_s=0.01)
    return "\n".join(seen)
