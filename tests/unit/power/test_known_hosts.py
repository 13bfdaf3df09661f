"""Which lines of known_hosts are a host's: what OpenSSH's own ssh-keygen finds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.ssh_host import make_key

from gsched.power.known_hosts import known_hosts
from gsched.power.own_files import OwnFileError

NAMES = ("gn01", "gn02", "10.0.0.2", "[gn03]:2222", "gn04", "[10.0.0.9]:22022")
LINES = """gn01 {0}
gn02,10.0.0.2 {1}
[gn03]:2222,[10.0.0.9]:22022 {2}

# gn04 {0}
  gn01 {3}
"""
ODD = "|1|odd gn04\n|1|!!|== gn04\n|1|\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A known_hosts file with four keys."""
    keys = []
    for number in range(4):
        make_key(tmp_path / f"key{number}")
        keys.append((tmp_path / f"key{number}.pub").read_text().rsplit(" ", 1)[0])
    made = tmp_path / "known_hosts"
    made.write_text(LINES.format(*keys))
    return made


@pytest.mark.parametrize("is_hashed", [False, True])
def test_the_lines_that_openssh_finds(path: Path, is_hashed: bool) -> None:
    if is_hashed:
        subprocess.run(("ssh-keygen", "-q", "-H", "-f", path), check=True, capture_output=True)
        assert "gn02" not in path.read_text()
    path.write_text(path.read_text() + ODD)
    for name in NAMES:
        words = ("ssh-keygen", "-F", name, "-f", str(path))
        shown = subprocess.run(words, capture_output=True, text=True, check=False).stdout
        keys = [line.split()[2] for line in shown.splitlines() if not line.startswith("#")]
        assert [line.split()[2] for line in known_hosts(path).lines_of(name)] == keys
    assert len(known_hosts(path).lines_of("gn01")) == 2


def test_a_file_that_has_changed_is_read_again(path: Path) -> None:
    assert known_hosts(path) is known_hosts(path)
    path.write_text(f"{ODD}gn04 ssh-ed25519 AAAA\n")
    assert len(known_hosts(path).lines_of("gn04")) == 1
    path.chmod(0o666)
    with pytest.raises(OwnFileError, match="others may write it"):
        known_hosts(path)
