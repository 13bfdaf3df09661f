"""gsched-attempts(5) and gsched-columns(5) say what the readers do."""

from __future__ import annotations

import tomllib
from datetime import UTC

from gsched.model.trace import ATTEMPT_FIELDS
from gsched.traces.column_map import FIELDS, compiled
from gsched_cli.format_pages import ABOUT_FIELDS, attempts_page, columns_page


def test_every_column_is_described():
    assert tuple(ABOUT_FIELDS) == ATTEMPT_FIELDS
    page = attempts_page()
    assert "\n.B job_id (integer)\n" in page
    assert "# gsched attempts 1" in page


def test_every_field_of_a_map_is_described():
    page = columns_page().replace("\\-", "-")
    terms = [line[3:] for line in page.splitlines() if line.startswith(".B ")]
    described = {name for term in terms for name in term.split(", ")}
    assert set(FIELDS) <= described


def test_the_example_of_the_page_is_a_map():
    page = columns_page().replace("\\-", "-").replace("\\&", "")
    example = page.partition(".SH EXAMPLE\n.nf\n")[2].partition("\n.fi")[0]
    assert "submit_time" in compiled(tomllib.loads(example), UTC).fields
