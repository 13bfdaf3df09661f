"""The request token: what a user asks of gsched, carried at the end of the job's Comment.

``<the user's own comment> gs1{flag,key=value,…}``: the version before the brace, printable ASCII
without white space and braces within, commas between. Unknown items are no error, so that an older
daemon reads a newer submit; a token of another version, or none that is valid, asks for nothing.
Whoever can edit the comment can write it: it is never trusted beyond what its user may ask for.
"""

from __future__ import annotations

import re

from gsched.errors import UsageError
from gsched.model.job import Wants

MAX_TOKEN_BYTES = 300
MAX_COMMENT_BYTES = 1024
"""Slurm cuts comments here."""

_TOKEN = re.compile(r"(?:\A| )gs1\{([!-z|~]*)\}\Z", re.ASCII)
_OPT_OUT = "none"


def append(comment: str, wants: Wants) -> str:
    """`comment` with the token of `wants` in place of an earlier one; without any when empty.

    Raises UsageError when the whole is longer than Slurm keeps, ValueError for wants that the
    token cannot carry yet.
    """
    if wants != Wants(opt_out=wants.opt_out):
        raise ValueError(f"the request token carries the opt-out only, not {wants}")
    text = strip(comment)
    items = [_OPT_OUT] if wants.opt_out else []
    if not items:
        return text
    token = f"gs1{{{','.join(items)}}}"
    whole = f"{text} {token}" if text else token
    if len(whole.encode("utf-8", "surrogateescape")) > MAX_COMMENT_BYTES:
        raise UsageError(
            f"the comment and gsched's request together exceed Slurm's {MAX_COMMENT_BYTES} bytes",
            "shorten --comment",
        )
    return whole


def strip(comment: str) -> str:
    """The user's own comment."""
    match = _find(comment)
    return comment if match is None else comment[: match.start()]


def read(comment: str) -> Wants:
    """What the token at the end of `comment` asks for; Wants() when there is none that is valid."""
    match = _find(comment)
    if match is None:
        return Wants()
    return Wants(opt_out=_OPT_OUT in match[1].split(","))


def _find(comment: str) -> re.Match[str] | None:
    match = _TOKEN.search(comment)
    if match is None or len(match[0].lstrip(" ")) > MAX_TOKEN_BYTES:
        return None
    return match
