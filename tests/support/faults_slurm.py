"""Faults of Slurm: its daemons, its answers, the right to change jobs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from gsched.testbed import processes
from gsched.testbed.wait import wait_for
from support.faults import Fault
from support.faults_site import FaultSite

FAILED = "round failed"


def _pids(site: FaultSite, program: str) -> list[int]:
    return [p.pid for p in processes.find(site.bed.spec.root) if p.program == program]


def _stop_slurmctld(site: FaultSite) -> None:
    for pid in _pids(site, "slurmctld"):
        os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: site.says(FAILED), "a failed round")


def _continue_slurmctld(site: FaultSite) -> None:
    for pid in _pids(site, "slurmctld"):
        os.kill(pid, signal.SIGCONT)
    wait_for(lambda: site.bed.run(["squeue", "-h"]).returncode == 0, "slurmctld to answer")


def _kill_slurmctld(site: FaultSite) -> None:
    site.save_queue()
    site.bed.kill_slurmctld()
    wait_for(lambda: site.says(FAILED), "a failed round")


def _start_slurmctld(site: FaultSite) -> None:
    site.bed.start_slurmctld()


def _restart_slurmctld(site: FaultSite) -> None:
    site.bed.restart_slurmctld()


def _kill_munge(site: FaultSite) -> None:
    site.save_queue()
    root = site.bed.spec.root
    processes.kill([p for p in processes.find(root) if p.program == "munged"], root)
    wait_for(lambda: site.says(FAILED), "a failed round")


def _start_munge(site: FaultSite) -> None:
    site.bed._daemons.start_munged()
    wait_for(lambda: site.bed.run(["squeue", "-h"]).returncode == 0, "slurmctld to answer", 120)


def _kill_slurmdbd(site: FaultSite) -> None:
    root = site.bed.spec.root
    processes.kill([p for p in processes.find(root) if p.program == "slurmdbd"], root)
    wait_for(lambda: site.said(), "the daemon to say something")


def _start_slurmdbd(site: FaultSite) -> None:
    argv = ("slurmdbd",)
    log = Path(site.bed.layout.log / "slurmdbd.log")
    site.bed._daemons._launch(argv, "slurmdbd", log)
    shown = ["sacctmgr", "-n", "show", "cluster"]
    wait_for(lambda: site.bed.run(shown).returncode == 0, "slurmdbd to answer")


def _demote(site: FaultSite) -> None:
    _set_level(site, "None")
    site.enlarge()
    wait_for(lambda: site.says("refused") or site.says(FAILED) or site.gone(), "a refused change")


def _promote(site: FaultSite) -> None:
    _set_level(site, "Operator")


def _set_level(site: FaultSite, level: str) -> None:
    user = ("sacctmgr", "-i", "modify", "user", site.operator, "set", f"adminlevel={level}")
    site.slurm(*user)


def _answers(program: str, kind: str, body: str) -> Fault:
    """`program` of Slurm gives an answer that is none, for several rounds."""

    def inject(site: FaultSite) -> None:
        asked = site.bed.spec.root / "asked"
        asked.unlink(missing_ok=True)
        site.stand_in(program, f"echo x >> {asked}\n{body}")
        wait_for(lambda: asked.exists() and asked.read_text().count("x") > 3, "bad answers")

    def heal(site: FaultSite) -> None:
        site.remove_stand_ins()

    return Fault(f"{program}-{kind}", _KINDS[kind].format(program), inject, heal)


_KINDS = {
    "garbage": "{} prints random bytes and exits with 0",
    "half": "{} prints the first half of its output and exits with 0",
    "empty": "{} prints nothing and exits with 0",
    "killed": "{} prints half of its output and is killed",
    "silent": "{} never ends",
}
_BODIES = {
    "garbage": "head -c 20000 /dev/urandom; exit 0",
    "half": 'all=$("$real" "$@"); printf %s "${all:0:$((${#all} / 2))}"; exit 0',
    "empty": "exit 0",
    "killed": 'all=$("$real" "$@"); printf %s "${all:0:$((${#all} / 2))}"; kill -9 $$',
    "silent": "exec sleep 100",
}


def _answer_nothing_to_scontrol(site: FaultSite) -> None:
    """Updates are swallowed: scontrol says that all is well and has done nothing."""
    site.stand_in("scontrol", 'if [ $# = 0 ]; then cat >/dev/null; exit 0; fi; exec "$real" "$@"')
    site.enlarge()
    seen = site.status().get("as_of", 0)
    site.wait_for_round(seen + 2)


def _end_stand_ins(site: FaultSite) -> None:
    site.remove_stand_ins()


def _slow_sacct(site: FaultSite) -> None:
    site.stand_in("sacct", 'sleep 6; exec "$real" "$@"')
    _load_tenfold(site)


def _load_tenfold(site: FaultSite) -> None:
    """The queue grows tenfold at once."""
    present = len(site.slurm("squeue", "-h", "-t", "PD,R", "-o", "%A").split())
    script = "for i in $(seq {}); do sbatch -Q -p kept -J d9 -o /dev/null --wrap true; done"
    began = time.time()
    site.slurm("bash", "-c", script.format(10 * present), user="news")
    site.wait_for_round(began, timeout_s=120)


def _end_load(site: FaultSite) -> None:
    site.slurm("scancel", "-u", "news")
    site.remove_stand_ins()


SLURM_FAULTS = (
    Fault(
        "slurmctld-down",
        "slurmctld killed, started again after failed rounds",
        _kill_slurmctld,
        _start_slurmctld,
        slurm_stops=True,
    ),
    Fault(
        "slurmctld-slow",
        "slurmctld stopped by SIGSTOP until a round has failed, then continued",
        _stop_slurmctld,
        _continue_slurmctld,
        slurm_stops=True,
    ),
    Fault(
        "slurmctld-restarted",
        "slurmctld restarted in order during rounds",
        _restart_slurmctld,
        slurm_stops=True,
    ),
    Fault(
        "munge-down",
        "munged killed, started again after failed rounds",
        _kill_munge,
        _start_munge,
        slurm_stops=True,
    ),
    *(_answers(program, kind, _BODIES[kind]) for program in ("squeue", "sprio") for kind in _KINDS),
    Fault(
        "scontrol-lies",
        "scontrol reports success for updates that it drops",
        _answer_nothing_to_scontrol,
        _end_stand_ins,
    ),
    Fault(
        "load-tenfold",
        "the queue grows tenfold at once",
        _load_tenfold,
        _end_load,
    ),
    Fault(
        "slurmdbd-down",
        "slurmdbd killed, started again later",
        _kill_slurmdbd,
        _start_slurmdbd,
        setting="slurmdbd",
    ),
    Fault(
        "sacct-slow-load-tenfold",
        "sacct takes 6 s longer than its limit allows, and the queue grows tenfold",
        _slow_sacct,
        _end_load,
        setting="slurmdbd",
    ),
    Fault(
        "operator-demoted",
        "the daemon's user loses AdminLevel=Operator and gets it back",
        _demote,
        _promote,
        setting="slurmdbd",
    ),
)
