"""Warnings about deadlines, handed to the site's own command: one at a time, beside the rounds."""

from __future__ import annotations

import logging
import queue
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gsched.config.deadlines import ADDRESS
from gsched.config.settings import Settings
from gsched.daemon.child_process import hand_text
from gsched.engine.faults import FaultHook, FaultPoint, no_faults
from gsched.explain.words import moment
from gsched.model.target_records import Risk, TargetEvent, TargetRecord, TargetState

if TYPE_CHECKING:
    from gsched_sql.target_rows import SqlTargets

log = logging.getLogger("gsched.daemon")

LIMIT_S = 30.0
"""So long the command may take for one warning."""

OLD_S = 3600
"""A warning that could not be handed over within so many seconds is old, and is dropped."""

TRIES = 3
MOST_WAITING = 1000

SENT, FAILED = "sent", "failed"

_LEVELS = (Risk.AT_RISK.value, Risk.LATE.value, Risk.ON_TARGET.value, TargetState.MISSED.value)
_JOB = re.compile(r"[0-9]+(?:[_+][0-9]+)?")
_WORDS = {
    Risk.AT_RISK.value: "is at risk",
    Risk.LATE.value: "is over, and the job has not ended",
    Risk.ON_TARGET.value: "is on target again",
    TargetState.MISSED.value: "was missed",
}

Hand = Callable[[list[str], str, float], str]
"""Hands a text to a command within so many seconds; what went wrong, or ''."""


_Name = tuple[str, int, int, str]


@dataclass(frozen=True, slots=True)
class _Letter:
    """One warning to all who have not got it yet; whom it is for first, and his copy `is_told`."""

    record: TargetRecord
    event: TargetEvent
    argvs: tuple[tuple[str, ...], ...]
    text: str
    is_told: bool = False

    @property
    def name(self) -> _Name:
        """What tells it from others."""
        key = self.record.key
        return (key.slurm_id, key.epoch, self.event.at, self.event.what)


class TargetMail:
    """Warns users and the administrator. `counts` what the command took, and did not (FAILED).

    What is to be told stands in SQL: a warning that the command has taken is marked there, so that
    a daemon that starts anew goes on with the rest. A kill between the two repeats one.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        on_point: FaultHook = no_faults,
        hand: Hand = hand_text,
    ) -> None:
        """`settings` gives those in force."""
        self.counts: Counter[str] = Counter()
        self.is_due = True
        self._settings = settings
        self._on_point = on_point
        self._hand = hand
        self._tries: Counter[_Name] = Counter()
        self._waiting: queue.Queue[_Letter] = queue.Queue(MOST_WAITING)
        self._done: queue.SimpleQueue[tuple[_Letter, dict[tuple[str, ...], str]]]
        self._done = queue.SimpleQueue()
        self._under_way: set[_Name] = set()
        self._again: dict[_Name, _Letter] = {}
        self._unmarked: list[_Letter] = []
        self._thread: threading.Thread | None = None
        self._problem = ""

    def after_round(self, store: SqlTargets, cluster: str, now: int) -> None:
        """Mark what has been handed over, and hand over what is new. Raises what the store raises.

        With no command nobody gets mail, and a command that is named later does not tell old news.
        """
        self._take_back(now)
        self._mark(store, now)
        if not self._waiting.empty():
            self._start()
        told = self._settings().deadlines
        if told.mail_command:
            self._hand_over(store, cluster, now)

    def _hand_over(self, store: SqlTargets, cluster: str, now: int) -> None:
        """What was not taken, and what is new."""
        for name, rest in list(self._again.items()):
            if not self._post(rest):
                return
            del self._again[name]
        if not self.is_due:
            return
        for record, event in store.untold(cluster, now - OLD_S, _LEVELS):
            if event.what == TargetState.MISSED.value and record.warned is Risk.LATE:
                continue  # that it is late was told
            letter = self._letter(record, event)
            if letter is None or letter.name in self._under_way or self._tries[letter.name]:
                continue
            if not self._post(letter):
                return
        self.is_due = False

    def _post(self, letter: _Letter) -> bool:
        """Whether there is a place for it."""
        try:
            self._waiting.put_nowait(letter)
        except queue.Full:
            return False
        self._under_way.add(letter.name)
        self._start()
        return True

    def _take_back(self, now: int) -> None:
        """Letters that were handed over; those who have not got one are to get it once more."""
        old = now - OLD_S
        self._tries = Counter({name: n for name, n in self._tries.items() if name[2] >= old})
        while not self._done.empty():
            letter, problems = self._done.get()
            job, first = letter.record.key.slurm_id, letter.argvs[0]
            is_told = letter.is_told or not problems[first]
            left = tuple(argv for argv in letter.argvs if problems[argv])
            rest = replace(letter, argvs=left, is_told=is_told)
            if is_told and not letter.is_told:
                self._unmarked.append(rest)
            else:
                self._under_way.discard(letter.name)
            if not left:
                self._problem = ""
                self._tries.pop(letter.name, None)
                continue
            self.counts[FAILED] += 1
            self._tries[letter.name] += 1
            if problems[left[0]] != self._problem:
                self._problem = problems[left[0]]
                log.warning("no warning of job %s: %s", job, self._problem)
            if letter.event.at >= old and self._tries[letter.name] < TRIES:
                self._again[letter.name] = rest
            else:
                whom = ", except for its user" if is_told else ""
                log.warning("job %s: warned in vain%s", job, whom)

    def _mark(self, store: SqlTargets, now: int) -> None:
        """Keep what users were told."""
        while self._unmarked:
            letter = self._unmarked[0]
            self._on_point(FaultPoint.TARGETS_MAILED)
            store.told(letter.record, letter.event, now)
            self.counts[SENT] += 1
            self._under_way.discard(letter.name)
            del self._unmarked[0]

    def _letter(self, record: TargetRecord, event: TargetEvent) -> _Letter | None:
        """None where nobody can be named in a command."""
        told, job = self._settings().deadlines, record.key.slurm_id
        whom = [name for name in (record.user, told.mail_admin) if ADDRESS.fullmatch(name)]
        if not whom or not _JOB.fullmatch(job):
            return None
        argvs = tuple(
            tuple(_filled(part, to, job, event.what) for part in told.mail_command)
            for to in dict.fromkeys(whom)
        )
        return _Letter(record, event, argvs, text_of(record, event))

    def _start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._work, name="mail", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        """Hand over letters until there has been none for a while."""
        while True:
            try:
                letter = self._waiting.get(timeout=LIMIT_S)
            except queue.Empty:
                return
            problems = {a: self._hand(list(a), letter.text, LIMIT_S) for a in letter.argvs}
            self._done.put((letter, problems))


def _filled(part: str, to: str, job: str, level: str) -> str:
    """An argument of the command, for one warning; what is put in was checked."""
    for name, value in (("{to}", to), ("{job}", job), ("{level}", level)):
        part = part.replace(name, value)
    return part


def text_of(record: TargetRecord, event: TargetEvent) -> str:
    """The warning in words; nothing that a user has written stands in it."""
    job, steps = record.key.slurm_id, record.steps
    deadline = moment(record.deadline, "minutes")
    lines = [f"Job {job}: its deadline {deadline} {_WORDS.get(event.what, event.what)}.", ""]
    if event.what != TargetState.MISSED.value:
        lines.append(_end_words(event))
    if record.promise is not None:
        end = moment(record.promise.finish_time, "minutes")
        lines.append(f"Promised was {end}, with probability {record.promise.probability:.2f}.")
    if len(steps.times) > 1:
        lines.append(f"The first of its {len(steps.times)} deadlines is the one that counts most.")
    lines += ["", f"`gsched why {job}` tells how it stands and why.", ""]
    return "\n".join(lines)


def _end_words(event: TargetEvent) -> str:
    if event.finish_time is None:
        return "No end can be planned."
    chance = "" if event.probability is None else f", with probability {event.probability:.2f}"
    return f"It should end {moment(event.finish_time, 'minutes')}{chance}."
