"""gsched's own options where they do not count: a value that stands apart, a word too late."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gsched.app.job_script import JobScript
from gsched.errors import UsageError
from gsched.jobscript.command_line import Kind, Word
from gsched.jobscript.own_options import OPTIONAL, OPTIONS

_NUMBER = re.compile(r"[\d.]+", re.ASCII)
_PAIR = re.compile(r"\w+=.*", re.ASCII | re.DOTALL)


def refuse_value_apart(words: Sequence[Word], script: JobScript) -> None:
    """Raise UsageError where what stands for the script looks like a value of the option before.

    Of ``--gs-checkpoint 600 train.sh`` sbatch would only say that there is no file 600.
    """
    if script.text is not None or script.is_unseen or len(words) < 2:
        return
    option, operand = words[-2:]
    if option.kind is Kind.OWN and operand.kind is Kind.OPERAND:
        meant = _meant(option, operand.name)
        if meant:
            raise UsageError(f"there is no script {operand.name!r}", f"did you mean {meant}?")


def _meant(option: Word, text: str) -> str:
    if option.name in OPTIONAL and option.value is None and _NUMBER.fullmatch(text):
        return f"{option.name}={text}"
    if option.name == "--gs-runtime" and _PAIR.fullmatch(text):
        return f"{option.name}={option.value},{text}"
    return ""


def after_script(args: Sequence[str], words: Sequence[Word]) -> list[str]:
    """A warning where the script is given what looks like an option of gsched's.

    With ``--`` before the script it is meant so.
    """
    if any(word.kind is Kind.END for word in words):
        return []
    scripts = [word for word in words if word.kind is Kind.OPERAND]
    late = [arg for word in scripts for arg in args[word.end :] if arg.partition("=")[0] in OPTIONS]
    if not late:
        return []
    return [
        f"{', '.join(late)}: an argument of {scripts[0].name}, no option of this submission; "
        "gsched's options stand before the script"
    ]
