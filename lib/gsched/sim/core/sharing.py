"""Two jobs on the same GPUs: which one a waiting job joins, and what becomes of who stays."""

from __future__ import annotations

from gsched.sim.core.compiled import compiled_inner
from gsched.sim.core.nodes import hand_over
from gsched.sim.core.state import NONE, RUNNING, Sim


@compiled_inner
def best_host(sim: Sim, guest: int) -> int:
    """The running job that a waiting one should join, or NONE.

    Of those that are alone on as many GPUs and asked for as many nodes and the same type, and
    beside which both would run at `min_speed` at least, the one with the greatest sum of speeds;
    the least row of equals.
    """
    job = sim.jobs[guest]
    best, best_sum = NONE, 0.0
    if not sim.rules[0].sharing or job.share_class == NONE:
        return best
    pool = sim.pools[job.pool]
    for i in range(pool.first_runner, pool.first_runner + pool.running):
        row: int = sim.runners[i] + 0  # as wide as a row is everywhere
        host = sim.jobs[row]
        if host.phase != RUNNING or host.partner != NONE or host.share_class == NONE:
            continue
        if host.num_gpus != job.num_gpus or host.num_nodes != job.num_nodes:
            continue
        if host.gpu_type != job.gpu_type:
            continue
        own = sim.speeds[job.share_class, host.share_class]
        other = sim.speeds[host.share_class, job.share_class]
        if not (own >= sim.rules[0].min_speed and other >= sim.rules[0].min_speed):  # or NaN
            continue
        if own + other > best_sum or (own + other == best_sum and row < best):
            best, best_sum = row, own + other
    return best


@compiled_inner
def pair(sim: Sim, guest: int, host: int) -> None:
    """Put two jobs on the GPUs of the host."""
    sim.jobs[guest].partner = host
    sim.jobs[host].partner = guest


@compiled_inner
def part(sim: Sim, row: int) -> int:
    """Take a job from beside its partner, who keeps the GPUs; the partner, or NONE."""
    partner: int = sim.jobs[row].partner + 0
    if partner != NONE:
        sim.jobs[row].partner = NONE
        sim.jobs[partner].partner = NONE
        if sim.places.first_piece[row] != NONE:
            hand_over(sim.places, row, partner)
    return partner


@compiled_inner
def holder_of(sim: Sim, row: int) -> int:
    """The job in whose name a job's GPUs are held: itself, or the partner that it joined."""
    partner: int = sim.jobs[row].partner + 0
    if sim.places.first_piece[row] == NONE and partner != NONE:
        return partner
    return row
