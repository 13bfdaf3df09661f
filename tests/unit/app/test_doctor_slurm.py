"""Every misconfiguration of Slurm that doctor knows: planted, found, and mended as it says."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.paper_site import SOUND, PaperSite

Change = Callable[[PaperSite], None]


@dataclass(frozen=True)
class Planting:
    """A fault, how it is told, and how it is mended where the words are not enough."""

    code: str
    level: str
    plant: Change
    says: str
    mend: Change | None = None


def conf(**values: str) -> Change:
    def change(site: PaperSite) -> None:
        for key, value in values.items():
            site.set(key, value)

    return change


def both(*changes: Change) -> Change:
    def change(site: PaperSite) -> None:
        for one in changes:
            one(site)

    return change


def toml(table: str, **values: str) -> Change:
    return lambda site: site.configure(table, **values)


def without_slurmdbd(site: PaperSite) -> None:
    site.set("AccountingStorageType", "(null)")


def jobcomp(readable: bool) -> Change:
    def change(site: PaperSite) -> None:
        path = site.folder / "jobcomp.txt"
        path.unlink(missing_ok=True)
        path.symlink_to("/nowhere/jobcomp.txt") if not readable else path.touch()
        site.set("JobCompLoc", str(path))
        site.set("JobCompType", "jobcomp/filetxt")
        without_slurmdbd(site)

    return change


def partitions(**values: str) -> Change:
    def change(site: PaperSite) -> None:
        for key, value in values.items():
            for name in ("gpu", "long", "closed"):
                site.set_partition(name, key, value)

    return change


def leasing() -> Change:
    """A policy that leases, and leave to."""
    return toml("daemon", policy='"ltgf"', leases="true")


def promising() -> Change:
    """A policy that promises deadlines, and what it needs."""
    constant = toml("predict", estimator='"constant"')
    return both(toml("daemon", policy='"chronus"', leases="true"), constant)


def mailer(mode: int) -> Change:
    """A command that sends mail, of this mode."""

    def change(site: PaperSite) -> None:
        program = site.folder / "mailer"
        program.touch()
        program.chmod(mode)
        site.configure("deadlines", mail_command=f'["{program}", "{{to}}"]')

    return change


def qos(*lines: str) -> Change:
    """Preemption by QOS, and what sacctmgr prints of them: name|preempt|mode|grace."""

    def change(site: PaperSite) -> None:
        site.set("PreemptType", "preempt/qos")
        site.set("PreemptMode", "REQUEUE")
        site.write("qos", "\n".join([*lines, ""]))

    return change


MUNGE_IS_GONE = """scontrol: error: If munged is up, restart with --num-threads=10
scontrol: error: Munge encode failed: Failed to connect to "/run/munge/munge.socket.2": \
Connection refused
scontrol: error: slurm_send_node_msg: auth_g_create: REQUEST_BUILD_INFO has authentication error
slurm_load_ctl_conf error: Protocol authentication error"""
SLURMCTLD_IS_GONE = (
    "slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)"
)
"""Both from a real Slurm 22.05.8."""

ZERO = {f"PriorityWeight{name}": "0" for name in ("Age", "Partition", "QOS", "FairShare")}
PLANTINGS = [
    Planting(
        "priority-type",
        "fail",
        conf(PriorityType="priority/basic"),
        "PriorityType is priority/basic",
    ),
    Planting(
        "site-factor-plugin",
        "fail",
        conf(PrioritySiteFactorPlugin="site_factor/foo"),
        "remove it from slurm.conf",
        conf(PrioritySiteFactorPlugin="(null)"),
    ),
    Planting("partition-weight", "warn", conf(PriorityWeightPartition="10"), "by ±10 points only"),
    Planting(
        "partition-weight",
        "fail",
        toml("daemon", max_shift="2000000"),
        "lowest priority of 1",
    ),
    Planting("weights-zero", "fail", conf(**ZERO), "set PriorityWeightPartition to 40000"),
    Planting(
        "quantum",
        "fail",
        toml("daemon", quantum="50000", max_shift="1000"),
        "more than jobs may be moved",
        toml("daemon", quantum="10"),
    ),
    Planting(
        "dead-band",
        "fail",
        toml("daemon", dead_band="950", max_shift="1000"),
        "more than a policy moves jobs",
        toml("daemon", dead_band="10"),
    ),
    Planting(
        "starvation-range",
        "warn",
        toml("daemon", max_shift="100"),
        "longer than starvation_bound_s behind others",
        toml("daemon", max_shift="0"),
    ),
    Planting(
        "control-all",
        "warn",
        toml("daemon", partitions='["gpu", "long"]', control_partitions='["gpu", "long"]'),
        "no job is moved",
        toml("daemon", control_partitions='["long"]'),
    ),
    Planting(
        "control-interval",
        "warn",
        toml("daemon", control_interval_s="200"),
        "fewer than 10 rounds",
        toml("daemon", control_interval_s="604800"),
    ),
    Planting(
        "starvation-bound",
        "warn",
        toml("daemon", starvation_bound_s="600"),
        "by their waits and not by the policy",
        toml("daemon", starvation_bound_s="604800"),
    ),
    Planting(
        "partition-factor",
        "warn",
        lambda site: site.set_partition("long", "PriorityJobFactor", "65000"),
        "raise PriorityJobFactor of these partitions",
        lambda site: (
            [  # as it says: of all that it names
                site.set_partition(name, "PriorityJobFactor", "65000")
                for name in re.findall(r"\w+", site.complaints()["partition-factor"].found)
            ]
            and None
        ),
    ),
    Planting(
        "scheduler-type", "warn", conf(SchedulerType="sched/builtin"), "large jobs leave gaps"
    ),
    Planting(
        "backfill-continue",
        "warn",
        conf(SchedulerParameters="default_queue_depth=200"),
        "ends the running backfill pass",
    ),
    Planting(
        "backfill-interval",
        "warn",
        conf(SchedulerParameters="bf_continue,bf_interval=600"),
        "every 600 s only",
    ),
    Planting(
        "backfill-depth",
        "warn",
        both(
            conf(SchedulerParameters="bf_continue,bf_max_job_test=100"),
            lambda site: site.set_pending(1234),
        ),
        "set bf_max_job_test=1500",
    ),
    Planting("requeue-off", "note", conf(JobRequeue="0"), "unless they ask for it"),
    Planting(
        "cred-expire",
        "note",
        conf(AuthInfo="socket=/x"),
        "to live with",
        conf(AuthInfo="cred_expire=20"),
    ),
    Planting("preempt-signal", "note", conf(**{"SlurmctldParameters": "(null)"}), "by --signal"),
    Planting("kill-wait", "note", conf(KillWait="5 sec"), "KillWait=5"),
    Planting(
        "grace-time",
        "note",
        both(conf(PreemptType="preempt/partition_prio"), partitions(PreemptMode="REQUEUE")),
        "too short for a checkpoint",
        partitions(GraceTime="120"),
    ),
    Planting(
        "grace-time",
        "note",
        qos("low||requeue|00:00:29", "mid||cluster|00:02:00", "high|low,mid|cluster|00:00:00"),
        "under 30 s in low: too short for a checkpoint when a job is preempted → "
        "`sacctmgr -i modify qos low set gracetime=120`",
        qos("low||requeue|00:02:00", "high|low|cluster|00:00:00"),
    ),
    Planting(
        "preempt-cancel",
        "note",
        qos("low||cancel|00:02:00", "other||cancel|00:00:00", "high|low|requeue|00:00:00"),
        "jobs in low are cancelled",
        qos("low||requeue|00:02:00", "high|low|requeue|00:00:00"),
    ),
    Planting(
        "preempt-suspend",
        "warn",
        both(
            conf(PreemptType="preempt/partition_prio"),
            partitions(PreemptMode="REQUEUE", GraceTime="120"),
            lambda site: site.set_partition("gpu", "PreemptMode", "GANG,SUSPEND"),
        ),
        "jobs in gpu are suspended",
        lambda site: site.set_partition("gpu", "PreemptMode", "REQUEUE"),
    ),
    Planting(
        "leases-off",
        "fail",
        toml("daemon", policy='"ltgf"'),
        "policy ltgf takes GPUs from jobs at the end of their leases",
        toml("daemon", policy='"qssf"'),
    ),
    Planting(
        "leases-off",
        "fail",
        both(toml("daemon", policy='"qssf"'), toml("daemon.policy_scope", gpu='"tiresias"')),
        "policy tiresias takes GPUs",
        lambda site: site.settings.pop("daemon.policy_scope") and None,
    ),
    Planting(
        "leases-unused",
        "note",
        toml("daemon", leases="true"),
        "policy qssf grants none",
        toml("daemon", leases="false"),
    ),
    Planting(
        "lease-heartbeats",
        "warn",
        leasing(),
        "no job can tell whether it has saved",
        lambda site: toml("heartbeat", dir=f'"{site.folder}"')(site),
    ),
    Planting(
        "lease-requeue",
        "warn",
        both(leasing(), conf(JobRequeue="0")),
        "set JobRequeue=1 in slurm.conf",
        conf(JobRequeue="1"),
    ),
    Planting(
        "lease-preemption",
        "note",
        both(
            leasing(),
            qos("low||requeue|00:02:00", "high|low|cluster|00:00:00"),
        ),
        "gsched leaves that to it",
        conf(PreemptType="preempt/none"),
    ),
    Planting(
        "lease-range",
        "warn",
        both(leasing(), toml("daemon", max_shift="500")),
        "nobody gives way for it then",
        lambda site: site.settings["daemon"].pop("max_shift") and None,
    ),
    Planting(
        "lease-length",
        "warn",
        both(leasing(), toml("daemon.knobs", lease_s="900")),
        "a lease of 900 s is shorter than 20 hand-overs",
        lambda site: site.settings.pop("daemon.knobs") and None,
    ),
    Planting(
        "suspend-time",
        "note",
        conf(SuspendTime="INFINITE"),
        "no node can be powered down",
        conf(SuspendTime="8640000 sec"),
    ),
    Planting(
        "suspend-time",
        "warn",
        both(
            conf(SuspendTime="NONE"),
            toml("helper", verbs='["power-down"]', nodes='["gn01"]', user='"root"'),
        ),
        "no node can be powered down",
        conf(SuspendTime="8640000 sec"),
    ),
    Planting(
        "private-data",
        "warn",
        conf(PrivateData="accounts,jobs"),
        "users see no predictions",
        conf(PrivateData="none"),
    ),
    Planting(
        "clock-skew",
        "warn",
        lambda site: site.set_clock(90),
        "s behind slurmctld: waiting times are wrong, and munge's proofs expire",
        lambda site: site.set_clock(0),
    ),
    Planting(
        "slurm-version",
        "warn",
        conf(SLURM_VERSION="20.11.9"),
        "upgrade Slurm",
        conf(SLURM_VERSION="22.05.8"),
    ),
    Planting(
        "slurm-version",
        "note",
        conf(SLURM_VERSION="23.11.4"),
        "tested with Slurm 22.05, 24.11, 26.05",
        conf(SLURM_VERSION="24.11.5"),
    ),
    Planting(
        "federation",
        "fail",
        lambda site: site.write("federation", "Federation: north\nSelf: c:1:1 ID:1\n"),
        "member of the federation north",
        lambda site: site.write("federation", "There are no federations.\n"),
    ),
    Planting("gpu-tres", "warn", conf(AccountingStorageTRES="cpu,mem,node"), "how many GPUs"),
    Planting(
        "accounting-none",
        "warn",
        without_slurmdbd,
        "only while squeue has them (MinJobAge)",
        lambda site: site.set("AccountingStorageType", "accounting_storage/slurmdbd"),
    ),
    Planting("min-job-age", "warn", both(without_slurmdbd, conf(MinJobAge="60 sec")), "3 rounds"),
    Planting("jobcomp-unreadable", "warn", jobcomp(False), "cannot be read", jobcomp(True)),
    Planting(
        "jobcomp-file",
        "note",
        jobcomp(True),
        "can forge rows",
        lambda site: site.set("AccountingStorageType", "accounting_storage/slurmdbd"),
    ),
    Planting(
        "partition-unknown",
        "warn",
        toml("daemon", partitions='["gpu", "lomg"]'),
        "write long?",
        toml("daemon", partitions='["gpu", "long"]'),
    ),
    Planting(
        "partition-unknown",
        "warn",
        toml("daemon", control_partitions='["cpu64"]'),
        "take it out of daemon.control_partitions",
        toml("daemon", control_partitions="[]"),
    ),
    Planting(
        "partition-unknown",
        "warn",
        toml("daemon.policy_scope", gpus='"fifo"'),
        "write gpu?",
        lambda site: site.settings.pop("daemon.policy_scope") and None,
    ),
    Planting(
        "user-unknown",
        "warn",
        toml("daemon", exclude_users='["rooot"]'),
        "there is no user rooot",
        toml("daemon", exclude_users='["root"]'),
    ),
    Planting(
        "account-unknown",
        "warn",
        toml("daemon", exclude_accounts='["lab3"]'),
        "there is no account lab3",
        toml("daemon", exclude_accounts='["lab2"]'),
    ),
    Planting(
        "account-unknown",
        "warn",
        toml("fairness.quotas", lab3="8", lab2="4"),
        "there is no account lab3",
        lambda site: site.settings.pop("fairness.quotas") and None,
    ),
    Planting(
        "gpu-type-unknown",
        "warn",
        toml("fairness.gpu_weights", a10="2.0"),
        "there is no GPU type a10",
        lambda site: site.settings.pop("fairness.gpu_weights") and None,
    ),
    Planting(
        "user-unknown",
        "warn",
        toml("deadlines", users='["root", "rooot"]'),
        "there is no user rooot",
        toml("deadlines", users='["root"]'),
    ),
    Planting(
        "account-unknown",
        "warn",
        toml("deadlines", accounts='["lab2", "lab3"]'),
        "there is no account lab3",
        toml("deadlines", accounts='["lab2"]'),
    ),
    Planting(
        "qos-unknown",
        "warn",
        both(qos("high||cluster|00:00:00"), toml("deadlines", qos='["high", "hihg"]')),
        "write high?",
        toml("deadlines", qos='["high"]'),
    ),
    Planting(
        "deadlines-unused",
        "note",
        toml("deadlines", max_per_user="2"),
        "policy qssf promises none",
        toml("deadlines", max_per_user="0"),
    ),
    Planting(
        "deadline-estimates",
        "warn",
        promising(),
        "`gsched predict train`",
        toml("predict", estimator='"model"'),
    ),
    Planting(
        "deadline-heartbeats",
        "note",
        promising(),
        "nobody sees before its end",
        lambda site: toml("heartbeat", dir=f'"{site.folder}"')(site),
    ),
    Planting(
        "deadline-bound",
        "warn",
        both(promising(), toml("deadlines", warn_probability="0.97")),
        "promised with a probability of 0.95: each is at risk",
        toml("daemon.knobs", quantile="0.98"),
    ),
    Planting(
        "deadline-share",
        "note",
        promising(),
        "one user may have all GPUs promised",
        toml("deadlines", max_gpu_hours_per_user="5000.0"),
    ),
    Planting(
        "mail-command",
        "warn",
        both(promising(), toml("deadlines", mail_admin='"ops"')),
        "there is no command that sends mail",
        toml("deadlines", mail_admin='""'),
    ),
    Planting(
        "mail-command",
        "warn",
        both(promising(), toml("deadlines", mail_command='["/nowhere/mail", "{to}"]')),
        "cannot be seen (No such file or directory)",
        toml("deadlines", mail_command='["/bin/true", "{to}"]'),
    ),
    Planting(
        "mail-command",
        "warn",
        both(promising(), mailer(0o644)),
        "is no program that may be run",
        mailer(0o755),
    ),
    Planting(
        "mail-command",
        "warn",
        both(promising(), mailer(0o757)),
        "may be changed by anybody",
        mailer(0o755),
    ),
    Planting(
        "mail-command",
        "warn",
        both(promising(), mailer(0o2755)),
        "needs setuid",
        mailer(0o755),
    ),
    Planting(
        "node-unknown",
        "warn",
        toml("helper", verbs='["drain"]', nodes='["gn[01-09]"]', user='"root"'),
        "there is no node gn[05-09]",
        toml("helper", nodes='["gn[01-04]"]'),
    ),
    Planting(
        "helper-settings",
        "warn",
        toml("helper", verbs='["reboot"]', nodes='["gn01"]', user='"root"'),
        "verbs: drain, resume",
        toml("helper", verbs='["drain"]'),
    ),
    Planting(
        "helper-settings",
        "warn",
        toml("helper", verbs='["drain"]', user='"root"'),
        "helper.nodes is empty",
        toml("helper", nodes='["gn01"]'),
    ),
]


@pytest.fixture
def site(tmp_path: Path) -> PaperSite:
    return PaperSite(tmp_path)


@pytest.mark.parametrize("release", SOUND)
def test_a_sound_site_has_no_finding(tmp_path: Path, release: str) -> None:
    found = PaperSite(tmp_path, release).examine()
    assert [f for f in found if f.level != "ok"] == []
    assert {f.code for f in found} > {"slurm", "priorities", "backfill", "clock", "database"}


def test_a_sound_site_with_leases_has_no_finding(site: PaperSite) -> None:
    heartbeats = site.folder / "heartbeats"
    heartbeats.mkdir()
    heartbeats.chmod(0o1777)
    leasing()(site)
    site.configure("heartbeat", dir=f'"{heartbeats}"')
    assert site.complaints() == {}


@pytest.mark.parametrize(
    "planting", PLANTINGS, ids=[f"{p.code}-{p.level}-{i}" for i, p in enumerate(PLANTINGS)]
)
def test_what_is_planted_is_found_and_gone_when_mended(site: PaperSite, planting: Planting) -> None:
    planting.plant(site)
    found = site.complaints()
    finding = found[planting.code]
    assert finding.level == planting.level
    assert planting.says in f"{finding.found} → {finding.mend}"
    assert finding.mend
    if planting.mend is None:
        site.follow(finding.mend)
    else:
        planting.mend(site)
    assert planting.code not in site.complaints()


def test_a_knob_that_the_policy_refuses_says_nothing_of_warnings(site: PaperSite) -> None:
    both(promising(), toml("daemon.knobs", quantile="0.3"))(site)
    codes = site.complaints()
    assert "policy" in codes
    assert "deadline-bound" not in codes


def test_the_newer_releases_have_another_place_for_the_signal(tmp_path: Path) -> None:
    site = PaperSite(tmp_path, "24.11")
    site.set("PreemptParameters", "(null)")
    site.follow(site.complaints()["preempt-signal"].mend)
    assert site.get("PreemptParameters") == "send_user_signal"
    assert site.complaints() == {}


def test_a_command_that_is_missing_is_named(site: PaperSite) -> None:
    site.environ["PATH"] = str(site.folder / "bin")
    (site.folder / "bin" / "sdiag").unlink()
    found = site.complaints()
    assert found["slurm-commands"].level == "fail"
    assert "sdiag" in found["slurm-commands"].found
    assert "database" in {f.code for f in site.examine()}  # the rest is looked at nevertheless


def test_each_question_is_asked_once(site: PaperSite) -> None:
    site.configure("daemon", partitions='["gpu"]', exclude_accounts='["lab1"]')
    site.configure("helper", verbs='["drain"]', nodes='["gn01"]', user='"root"')
    assert site.complaints().keys() <= {"helper-socket-absent"}
    asked = site.asked()
    assert sorted(asked) == sorted(set(asked))
    assert len(asked) == 7


def test_a_slurm_that_hangs_is_not_waited_for_longer_than_told(site: PaperSite) -> None:
    site.configure("slurm", command_timeout_s="2")
    for name in ("sdiag", "sacctmgr"):
        line = f'echo "{name} $*" >> {site.folder}/asked.txt'
        (site.folder / "bin" / name).write_text(f"#!/bin/sh\n{line}\nexec sleep 600\n")
    found = site.complaints()
    asked = [words.split()[0] for words in site.asked()]
    assert [name for name in asked if name != "scontrol"] == ["sdiag"]  # one is enough to know
    assert {"clock-unseen", "slurmdbd-down"} <= found.keys()
    assert all("no answer within 2 s" in f.found for code, f in found.items() if "clock" in code)


def test_no_munge_and_no_slurmctld_are_told_apart(site: PaperSite) -> None:
    for said, code in (
        (MUNGE_IS_GONE, "munge-down"),
        (SLURMCTLD_IS_GONE, "slurmctld-down"),
    ):
        script = f"#!/bin/sh\necho '{said}' >&2\nexit 1\n"
        (site.folder / "bin" / "scontrol").write_text(script)
        found = site.complaints()
        assert found[code].level == "fail"
        assert "systemctl" in found[code].mend
