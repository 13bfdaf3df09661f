"""Taking back: every SiteFactor that gsched wrote becomes what it was before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gsched.daemon.job_book import CHANNEL, is_foreign
from gsched.daemon.site_factor_plan import site_factor_change
from gsched.daemon.slurm_backend import SlurmBackend
from gsched.engine.faults import FaultHook, no_faults
from gsched.engine.ports import Clock, Journal
from gsched.engine.settling import APPLY_CHUNK, carry_out, settle_interrupted
from gsched.model.decision import Reason
from gsched.model.job import JobKey
from gsched.model.journal import Change, ChangeState, RoundInfo, Standing
from gsched.slurm.client import SlurmClient
from gsched.slurm.records import PriorityRow, QueueRow

POLICY = "clear"


@dataclass(frozen=True, slots=True)
class ClearResult:
    """What `clear` did. `foreign` jobs carry a value that the journal does not know: left alone.

    `unread` were accepted by Slurm but sprio does not list the job (held, running), so that the
    value could not be read again. `no_journal` says why nothing of it is in the journal.
    """

    cleared: tuple[JobKey, ...]
    unread: tuple[JobKey, ...]
    failed: tuple[tuple[JobKey, str], ...]
    foreign: tuple[tuple[JobKey, int], ...]
    no_journal: str = ""
    states: Mapping[ChangeState, int] = field(default_factory=dict)


def clear(
    backend: SlurmBackend,
    journal: Journal,
    clock: Clock,
    new_id: Callable[[], str],
    everything: bool = False,
    on_point: FaultHook = no_faults,
) -> ClearResult:
    """Set back what the journal says is ours; with `everything`, any SiteFactor to 0.

    `everything` is for a lost journal: it also undoes what others set. The caller holds the
    writer lock. Killed in between, it is simply run again.
    """
    backend.look()
    settle_interrupted(backend, journal, clock)
    round_id = new_id()
    rows, priorities = backend.last_look.rows, backend.last_look.priorities
    alive = list(zip(backend.keys(), rows, strict=True))
    changes, foreign = _plan(alive, priorities, journal.standing(backend.cluster), round_id)
    if everything:
        cluster = backend.cluster
        changes = [*changes, *_zero_the_rest(cluster, alive, priorities, changes, round_id)]
        foreign = []
    info = RoundInfo(round_id, backend.cluster, clock(), POLICY, True, 0, "")
    journal.begin_round(info)
    ended = carry_out(backend, journal, round_id, changes, clock, on_point)
    by_state: dict[ChangeState, list[Change]] = {}
    for c in changes:
        by_state.setdefault(ended[c.change_id][0], []).append(c)
    result = ClearResult(
        cleared=tuple(c.key for c in by_state.get(ChangeState.CONFIRMED, ())),
        unread=tuple(
            c.key for s in (ChangeState.SENT, ChangeState.VOID) for c in by_state.get(s, ())
        ),
        failed=tuple(
            (c.key, ended[c.change_id][1]) for c in by_state.get(ChangeState.REJECTED, ())
        ),
        foreign=tuple(foreign),
        states={state: len(found) for state, found in by_state.items()},
    )
    summary = {"changes": len(changes), **{s.value: len(cs) for s, cs in by_state.items()}}
    journal.end_round(round_id, clock(), summary, {})
    return result


def clear_unjournalled(client: SlurmClient, cluster: str, why: str) -> ClearResult:
    """Set to 0 whatever SiteFactor sprio shows; `why` there is no journal to do it by.

    Held jobs, which sprio does not list, keep theirs. The journal needs no mending afterwards: a
    job that had 0 before gsched has what was found, which gsched may change again; one that had
    another value is another hand's from then on.
    """
    raw_ids = [i for i, shown in client.priorities().items() if shown.site_factor != 0]
    failed: list[tuple[JobKey, str]] = []
    accepted = []
    for start in range(0, len(raw_ids), APPLY_CHUNK):
        chunk = raw_ids[start : start + APPLY_CHUNK]
        answers = client.set_site_factors([(str(raw_id), 0) for raw_id in chunk])
        for raw_id, answer in zip(chunk, answers, strict=True):
            if answer.error:
                failed.append((JobKey(cluster, raw_id), answer.error))
            else:
                accepted.append(raw_id)
    shown = client.priorities(accepted) if accepted else {}
    cleared: list[JobKey] = []
    unread: list[JobKey] = []
    for raw_id in accepted:
        key, now = JobKey(cluster, raw_id), shown.get(raw_id)
        if now is not None and now.site_factor != 0:
            failed.append((key, f"its SiteFactor is {now.site_factor} again"))
        else:
            (unread if now is None else cleared).append(key)
    return ClearResult(tuple(cleared), tuple(unread), tuple(failed), (), why)


def _plan(
    alive: Sequence[tuple[JobKey, QueueRow]],
    priorities: Mapping[int, PriorityRow],
    standing: Mapping[tuple[JobKey, str], Standing],
    round_id: str,
) -> tuple[list[Change], list[tuple[JobKey, int]]]:
    changes: list[Change] = []
    foreign: list[tuple[JobKey, int]] = []
    for key, row in alive:
        ours = standing.get((key, CHANNEL))
        shown = priorities.get(row.raw_id)
        if ours is None:
            if shown is not None and shown.site_factor != 0:
                foreign.append((key, shown.site_factor))
            continue
        # sprio shows 0 for a job whose priority an admin has set, whatever its SiteFactor is
        value = shown.site_factor if shown and not shown.is_manual else None
        if value is not None and is_foreign(value, ours):
            foreign.append((key, value))
        elif value != ours.found:
            changes.append(
                site_factor_change(
                    round_id,
                    key,
                    row.submit_time,
                    value,
                    ours.found,
                    Reason("clear"),
                    takes_back=True,
                )
            )
    return changes, foreign


def _zero_the_rest(
    cluster: str,
    alive: Sequence[tuple[JobKey, QueueRow]],
    priorities: Mapping[int, PriorityRow],
    planned: Sequence[Change],
    round_id: str,
) -> list[Change]:
    """By sprio's own ids: it also lists array tasks that squeue shows as one row."""
    done = {c.key for c in planned}
    known = {row.raw_id: (key, row.submit_time) for key, row in alive if not row.is_unsplit_array}
    changes = []
    for raw_id, shown in priorities.items():
        key, attempt = known.get(raw_id, (JobKey(cluster, raw_id), 0))
        if shown.site_factor != 0 and key not in done:
            reason = Reason("clear", {"all": True})
            changes.append(
                site_factor_change(
                    round_id, key, attempt, shown.site_factor, 0, reason, takes_back=True
                )
            )
    return changes
