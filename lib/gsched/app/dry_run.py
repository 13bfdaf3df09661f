"""``gsched submit --gs-dry-run``: what a submission would do."""

from __future__ import annotations

import os
import shlex

from gsched.app.submit import Submission
from gsched.jobscript.here_document import delimiter


def dry_run_text(submission: Submission) -> str:
    """What a submission would do: the command line quoted as for a shell, and the script.

    With a script from a template it is a command for the shell, and does it.
    """
    text = " ".join(map(_quoted, submission.argv)) + "\n"
    if submission.is_wrapped and submission.script is not None:
        end = delimiter(submission.script)
        return f"{text[:-1]} <<'{end}'\n{submission.script}{end}\n"
    if submission.script is not None:
        text += f"# {submission.script_name}:\n{submission.script}"
    return text if text.endswith("\n") else text + "\n"


def _quoted(word: str) -> str:
    """`word` as a shell takes it; what a terminal would obey becomes an escape of ``$'…'``."""
    if word.isprintable():
        return shlex.quote(word)
    shown = (
        char
        if char.isprintable() and char not in "'\\"
        else "".join(f"\\x{byte:02x}" for byte in os.fsencode(char))
        for char in word
    )
    return f"$'{''.join(shown)}'"
