"""The job-history database for people who ask it themselves: a manual page, and sql/SCHEMA.md.

Both are written from the documentation that the schema carries, see ``gsched_cli.manpages``.
"""

from __future__ import annotations

from collections.abc import Iterator

from gsched_cli.roff import head, paragraph, plain, verbatim
from gsched_sql import documentation as database
from gsched_sql.documentation import TableText

_ABOUT = """\
The job history is one SQL database: SQLite in state_dir/history.db, or PostgreSQL or MariaDB (key
database.url of gsched.toml). gsched db init makes it, gsched db upgrade brings it up to date; the
tables are the same on all engines. Ask it as you like; only gsched should write to it. The tables
series and sample_blocks are there for later parts of gsched: nothing writes to them yet."""

_ROLES = """\
An SQLite file is for its owner alone. On a server, logins in the role gsched_writer run the
daemon and the ingest, those in gsched_auditor read everything, and those in gsched_reader, whose
name must be their name in Slurm, see what Slurm's PrivateData would leave them: each table says
what that is. The tables of texts (users, names, node lists) show them what their own jobs name.
Auditors and writers can back the database up and check it; readers cannot. Writers may delete rows
of every table, the journal's (audit_events) too: gsched db prune needs it. The roles are the whole
server's: whoever has one has it in every gsched database there.

PostgreSQL hides rows from readers, but not how many there are. A reader can confirm a guess, that
a name or a job id exists, by what EXPLAIN tells of the rows taken out or expected, and the server's
statistics (pg_stat_user_tables, pg_class) count the rows of all tables. MariaDB's views do
neither; a site where guesses matter lets readers into a MariaDB only."""

_QUERIES = """\
These stand behind gsched db stats, as they are. Those of gsched history --by, and of what became
of predictions, are made of the filters on the command line."""

_EXAMPLES = """\
To begin with; they run on all three engines. Times are epoch seconds in UTC, and a column that is
NULL is not known: count it beside each sum."""


def database_page() -> str:
    """gsched-database(5)."""
    lines = [*head("gsched-database", "5", "the job-history database"), ".SH DESCRIPTION"]
    for text in (_ABOUT, *_overview()):
        lines += [*paragraph(text.replace("`", "")), ".PP"]
    lines.append(".SH ROLES")
    for text in _ROLES.split("\n\n"):
        lines += [*paragraph(text), ".PP"]
    for title, tables in database.tables().items():
        lines.append(f".SH {plain(title.upper())}")
        for table in tables:
            lines += _table_lines(table)
    for heading, about, queries in _query_sections():
        lines += [f".SH {heading.upper()}", *paragraph(about)]
        for name, query in queries.items():
            lines += [f".SS {plain(name)}", *verbatim(query.rstrip("\n"))]
    lines += [".SH SEE ALSO", "gsched\\-db(1), gsched\\-history(1), gsched.toml(5)"]
    return "\n".join(lines) + "\n"


def _overview() -> list[str]:
    """The paragraphs of the schema's own description but its title."""
    return database.overview().split("\n\n")[1:]


def _query_sections() -> Iterator[tuple[str, str, dict[str, str]]]:
    yield "Examples", _EXAMPLES, database.examples()
    yield "Named queries", _QUERIES, database.queries()


def _table_lines(table: TableText) -> Iterator[str]:
    yield f".SS {plain(table.name)}"
    yield from paragraph(table.about.replace("`", ""))
    for column in table.columns:
        yield from (".TP", f".B {plain(column.name)}", plain(f"{column.doc} ({column.kind})"))
    yield ".PP"
    if table.indexes:
        yield plain(f"Indexes: {'; '.join(table.indexes)}.")
    yield plain(f"Readers see {table.readers}.")


def schema_document() -> str:
    """sql/SCHEMA.md."""
    lines = [
        "# The job-history database",
        "",
        "Written by `make man` from the schema; do not edit.",
    ]
    for text in (_ABOUT, *_overview()):
        lines += ["", text]
    lines += ["", "## Roles", "", _ROLES]
    for title, tables in database.tables().items():
        lines += ["", f"## {title}"]
        for table in tables:
            lines += _markdown_table(table)
    for heading, about, queries in _query_sections():
        lines += ["", f"## {heading}", "", about]
        for name, query in queries.items():
            lines += ["", f"### {name}", "", "```sql", query.rstrip("\n"), "```"]
    return "\n".join(lines) + "\n"


def _markdown_table(table: TableText) -> Iterator[str]:
    yield from (
        "",
        f"### {table.name}",
        "",
        table.about,
        "",
        "| column | what | type |",
        "|---|---|---|",
    )
    for column in table.columns:
        yield f"| {column.name} | {_cell(column.doc)} | {_cell(column.kind)} |"
    yield ""
    if table.indexes:
        yield f"Indexes: {'; '.join(table.indexes)}. "
    yield f"Readers see {table.readers}."


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
