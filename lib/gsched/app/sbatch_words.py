"""The words of sbatch's command line: what they say, and how they are put together again."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Sequence

from gsched.errors import GschedError
from gsched.jobscript.command_line import SBATCH, Grammar, Kind, Word, scan
from gsched.slurm.run import run

SCRIPT_ON_STDIN = "/dev/stdin"
"""The name of a script on standard input, where arguments follow it."""

_HELP_TIMEOUT_S = 10.0


def scan_sbatch(args: Sequence[str], *, stops: bool = True) -> list[Word]:
    """The words up to the script, or (`stops` False) all words of a script's directives.

    sbatch is asked about options that only this site may know.
    """
    words = scan(args, SBATCH, stops=stops)
    if any(not word.is_known and word.value is None for word in words):
        words = scan(args, _site_grammar(), stops=stops)
    return words


def unknown_options(args: Sequence[str]) -> list[str]:
    """Those options in the words of a script's directives that sbatch here does not know."""
    found = scan(args, _site_grammar(), stops=False)
    return [args[word.start] for word in found if not word.is_known]


@functools.cache
def _site_grammar() -> Grammar:
    try:
        answer = run(["sbatch", "--help"], timeout_s=_HELP_TIMEOUT_S)
    except GschedError:
        return SBATCH  # sbatch will say itself what it does not know
    return SBATCH.learned(answer.stdout)


def has(words: Sequence[Word], option: str) -> bool:
    """Whether `option` is among them."""
    return any(word.kind is Kind.OPTION and word.name == option for word in words)


def last_of(words: Sequence[Word], options: Collection[str]) -> str | None:
    """Which of `options`, that undo each other, stands last before the first ``:``."""
    first = itertools.takewhile(lambda word: word.kind is not Kind.SEPARATOR, words)
    given = [word.name for word in first if word.kind is Kind.OPTION and word.name in options]
    return given[-1] if given else None


def value(words: Sequence[Word], option: str) -> str | None:
    """The last value of `option` before the first ``:``, which is the one that counts."""
    found = None
    for word in words:
        if word.kind is Kind.SEPARATOR:
            break
        if word.kind is Kind.OPTION and word.name == option:
            found = word.value
    return found


def is_cut_short(words: Sequence[Word]) -> bool:
    """Whether the first component's last option lacks its argument: sbatch will refuse that."""
    options = list(itertools.takewhile(lambda word: word.kind in (Kind.OPTION, Kind.OWN), words))
    return any(word.name in SBATCH.valued and word.value is None for word in options[-1:])


def assembled(
    args: Sequence[str],
    words: Sequence[Word],
    comment: str | None,
    *,
    from_stdin: bool = False,
    last: Sequence[str] = (),
) -> list[str]:
    """`args` without gsched's options, with `comment` as the last option of the first component.

    `last` are options that stand behind it, and so win. `from_stdin`: with the script on standard
    input in place of the one that is named there, so that its arguments stay, or of ``--wrap``.
    """
    own = {
        index
        for word in words
        if word.kind is Kind.OWN
        or (from_stdin and word.kind is Kind.OPTION and word.name == "wrap")
        for index in range(word.start, word.end)
    }
    if from_stdin:
        operands = {word.start for word in words if word.kind is Kind.OPERAND}
        args = [SCRIPT_ON_STDIN if index in operands else arg for index, arg in enumerate(args)]
    ends = (word.start for word in words if word.kind not in (Kind.OPTION, Kind.OWN))
    end = next(ends, len(args))
    before = [arg for index, arg in enumerate(args[:end]) if index not in own]
    after = [arg for index, arg in enumerate(args[end:], start=end) if index not in own]
    own_comment = [] if comment is None else [f"--comment={comment}"]
    return [*before, *own_comment, *last, *after]
