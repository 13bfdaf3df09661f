"""gsched's own options of a submission: ``--gs-…`` on the command line or after ``#GSCHED``."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from gsched.errors import UsageError
from gsched.jobscript.directives import Directive

OPTIONS = {
    "--gs-none": "Keep gsched away from this job: it is never moved, whatever the policy says.",
    "--gs-dry-run": "Print the sbatch command line and the script; submit nothing.",
}
"""Option → help."""


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """What a submission asks of gsched."""

    opts_out: bool = False
    is_dry_run: bool = False


def read_options(words: Sequence[str], directives: Sequence[Directive], name: str) -> SubmitOptions:
    """The options on the command line (`words`) and in the ``#GSCHED`` lines of script `name`.

    Raises UsageError naming the place of a word that is no option of gsched.
    """
    given = {_checked(word, "") for word in words}
    given |= {_checked(found.word, f"{name} line {found.line}: ") for found in directives}
    return SubmitOptions(opts_out="--gs-none" in given, is_dry_run="--gs-dry-run" in given)


def _checked(word: str, place: str) -> str:
    option, equals, _ = word.partition("=")
    if option not in OPTIONS:
        near = difflib.get_close_matches(option, OPTIONS, 1)
        hint = f"did you mean {near[0]}?" if near else "see `gsched submit --help`"
        raise UsageError(f"{place}no such option {option!r}", hint)
    if equals:
        raise UsageError(f"{place}option {option} takes no value")
    return option
