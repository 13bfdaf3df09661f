from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gsched_cli import manpages, roff, schema_pages
from gsched_cli.main import COMMANDS
from gsched_sql.schema import metadata

ROOT = Path(__file__).parents[2]
MAN = ROOT / "man"


@pytest.fixture(scope="module")
def fresh():
    return manpages.pages()


def test_the_pages_in_the_repository_are_what_the_program_says(fresh):
    written = {
        str(path.relative_to(MAN)): path.read_text(encoding="utf-8")
        for path in MAN.glob("man[15]/*.[15]")
    }
    stale = sorted(name for name in {*written, *fresh} if written.get(name) != fresh.get(name))
    assert stale == [], "run `make man`"


def test_the_schema_in_the_repository_is_what_the_program_says():
    written = (ROOT / "sql" / "SCHEMA.md").read_text(encoding="utf-8")
    assert written == schema_pages.schema_document(), "run `make man`"


def test_the_schema_is_described_whole(fresh):
    page, document = fresh["man5/gsched-database.5"], schema_pages.schema_document()
    for table in metadata.sorted_tables:
        assert f".SS {roff.plain(table.name)}\n" in page
        assert f"\n### {table.name}\n" in document
        assert table.info["about"]
        assert [column.name for column in table.columns if not column.doc] == []


def test_every_command_has_a_page(fresh):
    assert {f"man1/gsched-{name}.1" for name in COMMANDS} | {"man1/gsched.1"} <= fresh.keys()


def test_every_page_tells_exit_codes_files_and_an_example(fresh):
    groups = {name for name, text in fresh.items() if ".SH COMMANDS" in text}
    for name, text in fresh.items():
        if name.startswith("man1/"):
            assert ".SH EXIT STATUS\n.TP\n.B 0\n" in text, name
            assert ".SH FILES\n.TP\n.B /etc/gsched/gsched.toml\n" in text, name
            assert name in groups or ".SH EXAMPLE\n.nf\n" in text, name


def test_every_page_renders_without_a_warning(fresh, tmp_path):
    for name, text in fresh.items():
        path = tmp_path / Path(name).name
        path.write_text(text, encoding="utf-8")
        done = subprocess.run(
            ["groff", "-K", "utf8", "-man", "-T", "utf8", "-P-cbou", "-ww", path],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == "", name
        assert done.stdout.count("NAME") >= 1


def test_what_groff_would_obey_is_shown(fresh):
    assert roff.plain(r".so /etc/passwd \fB'x' --y") == r"\&.so /etc/passwd \efB'x' \-\-y"


def test_pages_of_commands_that_are_gone_are_removed(tmp_path):
    gone = tmp_path / "man1" / "gsched-gone.1"
    other = tmp_path / "man1" / "other.1"
    gone.parent.mkdir()
    gone.touch()
    other.touch()
    manpages.main(str(tmp_path), str(tmp_path / "SCHEMA.md"))
    assert not gone.exists()
    assert other.exists()
    assert (tmp_path / "man5" / "gsched.toml.5").read_text().startswith('.\\" Written by')
