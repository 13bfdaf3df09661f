"""The daemon's model on a real Slurm: fitted, learning, found out, pinned, restarted, replaced."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.site import Site, fresh_site

from gsched.daemon.locks import StateDir
from gsched.daemon.status_file import read_status
from gsched.predict.attributes import of_past
from gsched.predict.gbdt import GbdtEstimator
from gsched.predict.kept import KeptModels
from gsched.predict.model import DurationModel
from gsched.predict.store import load
from gsched.testbed.background import Background
from gsched.testbed.wait import wait_for
from gsched_sql import History

pytestmark = pytest.mark.slurm

PARTITION = "gpu"
NAMES = ("eval", "prep", "sweep", "train")


@pytest.fixture
def site() -> Iterator[Site]:
    with fresh_site(num_nodes=2, accounting="filetxt") as made:
        made.configure("predict", retrain_interval_s="4", keep_models="3")
        yield made


def queued(site: Site, *names: str) -> list[int]:
    """Jobs of these names that cannot start yet; a round has predicted each where a daemon runs."""
    site.slurm("scontrol", "update", f"partitionname={PARTITION}", "state=down")
    jobs = [site.submit(name, gpus=1) for name in names]
    if StateDir(site.state).leader():
        wait_for(lambda: all(source(site, job) for job in jobs), "predictions", timeout_s=60)
    return jobs


def ended(site: Site) -> None:
    """Let the queued jobs run to their end."""
    site.slurm("scontrol", "update", f"partitionname={PARTITION}", "state=up")
    wait_for(site.arm.is_done, "the jobs to end", timeout_s=120)


def wave(site: Site, *others: str) -> None:
    """Forty-eight jobs of a second at most, of four names, and others."""
    queued(site, *NAMES * 12, *others)
    ended(site)


def kept(site: Site) -> KeptModels:
    return KeptModels(site.state / "models" / "duration.gsmodel")


def in_use(site: Site) -> str:
    info = kept(site).in_use_info()
    return info.model_id if info else ""


def status(site: Site) -> dict[str, Any]:
    found: dict[str, Any] = site.json("daemon", "status")
    return found


def fallback(site: Site) -> set[str]:
    return set((status(site)["model"] or {}).get("fallback", ()))


def planted(site: Site) -> str:
    """A model whose regression says fifty times what it should is kept; its id."""
    model = load(kept(site).in_use)
    with History.open(f"sqlite:///{site.state}/history.db") as history:
        jobs = history.past_jobs(site.bed.spec.cluster, 0, 2**40).jobs
    rows = model.rows(model.look([of_past(job) for job in jobs], model.info.as_of))
    wrong = GbdtEstimator.fit(rows, [50 * max(1, job.duration_s) for job in jobs])
    kinds = {"gpu": replace(model.info.kinds["gpu"], lam=0.0)}
    info = replace(model.info, model_id="duration-planted", kinds=kinds)
    kept(site).keep(DurationModel(info, model.memory, model.encoder, {"gpu": wrong}))
    return info.model_id


def source(site: Site, job: int) -> str:
    """By which rule the daemon has predicted a waiting job, '' while it has not."""
    told = read_status(site.state / "status.json") or {"jobs": {}}
    duration = told["jobs"].get(str(job), {}).get("duration_s", {})
    return str(duration.get("source", ""))


def predictor(site: Site) -> str:
    """By what the last round has predicted."""
    return str((read_status(site.state / "status.json") or {}).get("model_id", ""))


def killed(daemon: Background) -> None:
    daemon.signal(signal.SIGKILL)
    daemon.process.wait()


def said(site: Site, words: str) -> bool:
    return words in (Path(site.bed.spec.root) / "daemon.log").read_text(errors="replace")


def test_a_model_is_fitted_found_out_pinned_and_replaced(site: Site) -> None:
    wave(site)
    site.ok("db", "ingest")
    with site.daemon() as daemon:
        wait_for(lambda: in_use(site), "the first fit, by the daemon alone")
        first = site.json("predict", "fits")["fits"][-1]
        assert (first["started_by"], first["outcome"]) == ("timer", "adopted")
        bad = planted(site)
        site.ok("predict", "rollback", bad)
        wait_for(lambda: said(site, f"new model {bad}"), "the daemon to take it up")
        wave(site, "fresh")
        worse = "the model has become worse: the rolling estimate predicts jobs with GPUs"
        wait_for(lambda: said(site, worse), "the fallback")
        wait_for(lambda: predictor(site) == f"{bad}+rolling", "a round that knows")
        assert fallback(site) == {"gpu"}
        fits = site.json("predict", "fits")["fits"]
        assert fits[0]["outcome"] == "pinned"  # refits go on beside it
        assert in_use(site) == bad
        killed(daemon)
    queued(site, "later")
    ended(site)
    with site.daemon():
        wait_for(lambda: fallback(site) == {"gpu"}, "its first round", poll_s=0.5)
        assert status(site)["model"]["pinned"] == bad
        waiting = queued(site, "fresh", "later")  # the second ended while no daemon ran
        assert [source(site, job) for job in waiting] == ["similar-name"] * 2  # without a refit
        ended(site)
        site.ok("predict", "rollback", "--release")
        wait_for(lambda: in_use(site) not in (bad, ""), "a refit in its place", timeout_s=60)
        wave(site)
        back = "the model predicts jobs with GPUs again"
        wait_for(lambda: said(site, back), "the model to be back")
        wait_for(lambda: "+rolling" not in predictor(site), "a round that knows")
        assert fallback(site) == set()
