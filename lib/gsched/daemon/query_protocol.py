"""What client and daemon say to each other over the query socket.

One line each way, a munge credential: the asker's question, and the answer that only the asker can
decode. Both carry JSON with ``version`` and the asker's ``nonce``, so that no older answer can be
put in place of the one that is asked for.
"""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass
from typing import Any

from gsched.errors import DataError, TryAgainError

VERSION = 1
MAX_QUESTION_BYTES = 16 * 1024
MAX_ANSWER_BYTES = 2 * 1024 * 1024
"""munge carries at most 1 MiB, and writes it in base64."""
MAX_JOBS = 20
"""Jobs that one question may name."""
MAX_OWN_JOBS = 500
"""Of so many jobs of their own an asker is told at once, waiting ones first; they fit into one
credential."""

_JOB = re.compile(r"\d{1,10}(?:[_+]\d{1,10})?", re.ASCII)
_NONCE = re.compile(r"[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: about `jobs` (Slurm's ids), and always about the daemon.

    `own`: about all jobs of the asker as well, the first MAX_OWN_JOBS of them.
    """

    jobs: tuple[str, ...]
    nonce: str
    own: bool = False

    @classmethod
    def about(cls, *jobs: str, own: bool = False) -> Question:
        """A new question about these jobs; without any, about the daemon alone."""
        return cls(jobs, secrets.token_hex(16), own)

    def to_json(self) -> str:
        """The payload of the credential."""
        asked = {"version": VERSION, "jobs": self.jobs, "nonce": self.nonce, "own": self.own}
        return json.dumps(asked)


def read_question(payload: str) -> Question:
    """The inverse of `to_json`, of hostile text. Raises DataError."""
    found = _object(payload)
    jobs, nonce = found.get("jobs"), found.get("nonce")
    if not isinstance(nonce, str) or not _NONCE.fullmatch(nonce):
        raise DataError("not a question")
    if not isinstance(jobs, list) or len(jobs) > MAX_JOBS or not all(map(_is_job, jobs)):
        raise DataError("not a list of job ids")
    return Question(tuple(jobs), nonce, found.get("own") is True)


def answer_payload(question: Question, document: dict[str, Any]) -> str:
    """The answer to `question` as the payload of a credential."""
    answer = {"version": VERSION, "nonce": question.nonce, "document": document}
    return json.dumps(answer, allow_nan=False)


def busy_payload(question: Question) -> str:
    """What is said to somebody who asks too often, or of whom Slurm says nothing just now."""
    return json.dumps({"version": VERSION, "nonce": question.nonce, "busy": True})


def read_answer(payload: str, question: Question) -> str:
    """The document, as JSON, that answers `question`.

    Raises DataError for an answer to any other, TryAgainError when the daemon is busy.
    """
    found = _object(payload)
    if found.get("nonce") != question.nonce:
        raise DataError("the answer is not to this question")
    if found.get("busy") is True:
        raise TryAgainError(
            "the daemon is busy: this user asks too often, or Slurm does not say what they may see"
        )
    return json.dumps(found.get("document"))


def _object(payload: str) -> dict[str, Any]:
    try:
        found = json.loads(payload)
    except (ValueError, RecursionError):
        raise DataError("not JSON") from None
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise DataError(f"not of version {VERSION}")
    return found


def _is_job(value: object) -> bool:
    return isinstance(value, str) and _JOB.fullmatch(value) is not None
