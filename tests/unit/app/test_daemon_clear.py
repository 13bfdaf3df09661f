"""`daemon clear` while the history database is away: the halt comes first, `--all` needs none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gsched.app.daemon_clear import clear_all
from gsched.app.daemon_views import clear_document
from gsched.config.settings import DatabaseSettings, Settings
from gsched.daemon.locks import StateDir
from gsched.errors import PermissionDeniedError, UnavailableError
from gsched.slurm.records import PriorityRow, SlurmConfig, UpdateOutcome


class SmallSlurm:
    """Jobs with SiteFactors. Job 4 is refused, job 5 held as soon as it was written."""

    def __init__(self) -> None:
        self.factors = {n: 100 * n for n in range(70)}
        self.privilege_here = "operator"

    def config(self) -> SlurmConfig:
        return SlurmConfig({"ClusterName": "c"})

    def privilege(self, _user: str) -> str:
        return self.privilege_here

    def priorities(self, raw_ids: Sequence[int] = ()) -> dict[int, PriorityRow]:
        return {
            n: PriorityRow(n, 1000, value, 0, {}, False)
            for n, value in self.factors.items()
            if not raw_ids or n in raw_ids
        }

    def set_site_factors(self, values: Sequence[tuple[str, int]]) -> tuple[UpdateOutcome, ...]:
        assert len(values) <= 50
        for job, value in values:
            if job != "4":
                self.factors[int(job)] = value
        self.factors.pop(5, None)
        return tuple(UpdateOutcome(j, "no permission" if j == "4" else "") for j, _ in values)


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> SmallSlurm:
    made = SmallSlurm()
    monkeypatch.setattr("gsched.app.daemon_clear.slurm_client", lambda *_, **__: made)
    return made


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The server of the history cannot be reached."""
    away = DatabaseSettings(url="postgresql://gsched@127.0.0.1:1/history")
    return Settings(state_dir=tmp_path, database=away)


def test_the_halt_comes_first_and_the_error_says_what_stands(settings: Settings) -> None:
    with pytest.raises(UnavailableError, match="daemons are halted, but values still") as caught:
        clear_all(settings, False)
    assert "cannot be reached" in caught.value.message
    assert "gsched daemon clear --all" in caught.value.hint
    assert str(StateDir(settings.state_dir).halted()).startswith("`gsched daemon clear`")


def test_all_needs_no_history(settings: Settings, slurm: SmallSlurm) -> None:
    result = clear_all(settings, True)
    assert "cannot be reached" in result.no_journal
    assert slurm.factors == {4: 400} | {n: 0 for n in range(70) if n not in (4, 5)}
    assert [(k.slurm_id, why) for k, why in result.failed] == [("4", "no permission")]
    document = clear_document(result)
    assert document["journalled"] is False
    assert document["jobs"]["unread"] == ["5"]
    assert len(document["jobs"]["cleared"]) == 67  # job 0 had none
    assert StateDir(settings.state_dir).halted() is not None


def test_who_may_not_is_told_so_and_daemons_are_halted(
    settings: Settings, slurm: SmallSlurm
) -> None:
    slurm.privilege_here = "user"
    with pytest.raises(PermissionDeniedError, match="daemons are halted, but values still stand"):
        clear_all(settings, True)
    assert slurm.factors[7] == 700
