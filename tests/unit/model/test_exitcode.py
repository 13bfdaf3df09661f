"""Exit codes of Slurm, and their meaning."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.errors import DataError
from gsched.model.exitcode import ExitCode, parse_exit_code


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("0:0", (0, 0), "exit code 0"),
        ("1:0", (1, 0), "exit code 1"),
        ("0:9", (0, 9), "killed by SIGKILL"),
        ("0:15", (0, 15), "killed by SIGTERM"),
        ("0:125", (0, 125), "out of memory"),
        ("0:77", (0, 77), "killed by signal 77"),
        ("126:0", (126, 0), "exit code 126: the command cannot be executed"),
        ("127:0", (127, 0), "exit code 127: the command was not found"),
        ("137:0", (137, 0), "exit code 137: killed by SIGKILL"),
        ("255:0", (255, 0), "exit code 255: killed by signal 127"),
        ("256:0", (256, 0), "exit code 256"),
    ],
)
def test_codes_and_words(text, code, words):
    found = parse_exit_code(text)
    assert found == code
    assert found.words == words
    assert found.is_out_of_memory == (text == "0:125")


@pytest.mark.parametrize("text", ["", "N/A", "(null)", "None"])
def test_no_code_yet(text):
    found = parse_exit_code(text)
    assert found == (None, None)
    assert (str(found), found.words, found.is_out_of_memory) == ("", "", False)


@pytest.mark.parametrize("text", ["1", "1:", ":1", "-1:0", "1:0:0", "1.5:0", "٣:0", "1:0 ", "x"])
def test_what_is_no_exit_code(text):
    with pytest.raises(DataError, match="not an exit code"):
        parse_exit_code(text)


@given(st.builds(ExitCode, st.integers(0, 2**32), st.integers(0, 2**32)))
def test_codes_come_back(code):
    assert parse_exit_code(str(code)) == code
    assert code.words


@given(st.one_of(st.text(max_size=20), st.text(alphabet="0123456789:", max_size=20)))
def test_any_text_gives_a_code_or_a_data_error(text):
    with contextlib.suppress(DataError):
        assert parse_exit_code(text).words is not None
