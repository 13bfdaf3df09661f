"""Configuration files of a testbed as text. Pure: nothing is read or written here."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from gsched.testbed.layout import Layout
from gsched.testbed.ports import LOOPBACK, Ports
from gsched.testbed.spec import FACTOR_KEYS, TestbedSpec

ACCOUNTING_USER = "slurm"
ACCOUNTING_DATABASE = "slurm_acct_db"
_REPEATABLE = frozenset({"nodename", "partitionname", "nodeset", "downnodes"})


def slurm_conf(
    spec: TestbedSpec,
    layout: Layout,
    ports: Ports,
    slurm_user: str,
    job_variables: Mapping[str, str],
) -> str:
    """slurm.conf. A key in `spec.extra_conf` takes the place of ours.

    With `job_variables`, jobs get them through the task prolog, see `task_prolog`.
    """
    ours = [
        *_identity(spec, layout, ports, slurm_user),
        *_paths(layout),
        *_scheduling(spec),
        *_accounting(spec, layout, ports),
        *_power_saving(spec, layout),
        *_nodes(spec, ports),
        *([f"TaskProlog={layout.etc}/task_prolog"] if job_variables else []),
    ]
    replaced = {_key(line) for line in spec.extra_conf} - _REPEATABLE
    kept = [line for line in ours if _key(line) not in replaced]
    return "".join(f"{line}\n" for line in (*kept, *spec.extra_conf))


def _key(line: str) -> str:
    return line.partition("=")[0].strip().lower()


def _identity(spec: TestbedSpec, layout: Layout, ports: Ports, slurm_user: str) -> list[str]:
    return [
        f"ClusterName={spec.cluster}",
        f"SlurmctldHost=localhost({LOOPBACK})",
        f"SlurmctldPort={ports.slurmctld}",
        f"SlurmUser={slurm_user}",
        f"SlurmdUser={slurm_user}",
        "AuthType=auth/munge",
        f"AuthInfo=socket={layout.munge_socket},cred_expire={spec.cred_expire_s}",
        # without these two, daemons and srun listen on every interface of the machine
        "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny",
    ]


def _paths(layout: Layout) -> list[str]:
    return [
        f"StateSaveLocation={layout.root}/state",
        f"SlurmdSpoolDir={layout.root}/spool/%n",
        f"SlurmctldPidFile={layout.run}/slurmctld.pid",
        f"SlurmdPidFile={layout.run}/slurmd-%n.pid",
        f"SlurmctldLogFile={layout.log}/slurmctld.log",
        f"SlurmdLogFile={layout.log}/slurmd-%n.log",
        f"PlugStackConfig={layout.etc}/plugstack.conf",
        "MailProg=/bin/true",
    ]


def _scheduling(spec: TestbedSpec) -> list[str]:
    weights = [
        f"{FACTOR_KEYS[factor]}={weight}"
        for factor, weight in sorted(spec.priority_weights.items())
    ]
    return [
        f"SchedulerType={spec.scheduler}",
        # 3 s by default: an idle node would wait that long for a job that was just submitted
        "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "DefMemPerCPU=1000",
        "PriorityType=priority/multifactor",
        "PriorityCalcPeriod=1",
        *weights,
        # no cgroups: they would need rights on the machine that a testbed must not ask for
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=10",
        "MpiDefault=none",
        "KillWait=2",
        "MinJobAge=300",
        "MaxJobCount=50000",
        "ReturnToService=2",
        "SlurmdTimeout=60",
    ]


def _accounting(spec: TestbedSpec, layout: Layout, ports: Ports) -> list[str]:
    if spec.accounting == "slurmdbd":
        tres = f",gres/gpu:{spec.gpu_type}" if spec.gpus_per_node else ""
        return [
            "AccountingStorageType=accounting_storage/slurmdbd",
            f"AccountingStorageHost={LOOPBACK}",
            f"AccountingStoragePort={ports.slurmdbd}",
            # AuthInfo's socket is not used on this way: without it, munge's default one is tried
            f"AccountingStoragePass={layout.munge_socket}",
            f"AccountingStorageTRES=gres/gpu{tres}",
            "AccountingStorageEnforce=associations,limits,qos",
        ]
    if spec.accounting == "filetxt":
        return ["JobCompType=jobcomp/filetxt", f"JobCompLoc={layout.jobcomp_file}"]
    return ["JobCompType=jobcomp/none"]


def _power_saving(spec: TestbedSpec, layout: Layout) -> list[str]:
    return [
        f"SuspendProgram={layout.etc}/node_suspend",
        f"ResumeProgram={layout.etc}/node_resume",
        f"SuspendTime={spec.suspend_time_s}",
        "SuspendTimeout=2",
        "SlurmctldParameters=power_save_interval=1",
        "ResumeTimeout=30",
        "SuspendRate=0",
        "ResumeRate=0",
    ]


def _nodes(spec: TestbedSpec, ports: Ports) -> list[str]:
    names, first = spec.node_names, ports.slurmd_first
    many = len(names) > 1
    expression = f"gn[{names[0][2:]}-{names[-1][2:]}]" if many else names[0]
    node_ports = f"[{first}-{first + len(names) - 1}]" if many else str(first)
    gres = f" Gres=gpu:{spec.gpu_type}:{spec.gpus_per_node}" if spec.gpus_per_node else ""
    return [
        *(["GresTypes=gpu"] if spec.gpus_per_node else []),
        # takes the declared CPUs and memory for true, whatever this machine has
        "SlurmdParameters=config_overrides",
        f"NodeName={expression} NodeHostname=localhost NodeAddr={LOOPBACK} Port={node_ports} "
        f"CPUs={spec.cpus_per_node} RealMemory={spec.mem_mib_per_node}{gres} State=UNKNOWN",
        "PartitionName=gpu Nodes=ALL Default=YES State=UP MaxTime=INFINITE OverSubscribe=NO",
    ]


def gpu_device(layout: Layout, index: int) -> Path:
    """The file that stands for a GPU. A count without files would leave the nodes INVALID."""
    return layout.root / "dev" / f"gpu{index}"


def task_prolog(job_variables: Mapping[str, str]) -> str:
    """The program that gives jobs variables, however little of an environment they came with."""
    lines = (f"echo export {shlex.quote(f'{k}={v}')}\n" for k, v in job_variables.items())
    return "#!/bin/sh\n" + "".join(lines)


def gres_conf(spec: TestbedSpec, layout: Layout) -> str:
    """gres.conf: typed GPUs, each with a device file."""
    if not spec.gpus_per_node:
        return ""
    first = gpu_device(layout, 0)
    devices = f"{first.parent}/gpu[0-{spec.gpus_per_node - 1}]" if spec.gpus_per_node > 1 else first
    return f"Name=gpu Type={spec.gpu_type} File={devices}\n"


def cgroup_conf() -> str:
    """cgroup.conf. slurmd loads one of the plugins in any case; v1 needs no cgroups until used,
    whereas v2, and the search for the right one, fail where the machine offers none.
    """
    return "CgroupPlugin=cgroup/v1\n"


def slurmdbd_conf(layout: Layout, ports: Ports, slurm_user: str, password: str) -> str:
    """slurmdbd.conf; holds a password and must be readable by its owner alone."""
    lines = (
        "DbdHost=localhost",
        f"DbdAddr={LOOPBACK}",
        f"DbdPort={ports.slurmdbd}",
        f"SlurmUser={slurm_user}",
        "AuthType=auth/munge",
        f"AuthInfo=socket={layout.munge_socket}",
        "CommunicationParameters=NoInAddrAny",
        f"LogFile={layout.log}/slurmdbd.log",
        f"PidFile={layout.run}/slurmdbd.pid",
        "StorageType=accounting_storage/mysql",
        f"StorageHost={LOOPBACK}",
        f"StoragePort={ports.mariadb}",
        f"StorageUser={ACCOUNTING_USER}",
        f"StoragePass={password}",
        f"StorageLoc={ACCOUNTING_DATABASE}",
    )
    return "".join(f"{line}\n" for line in lines)


def gsched_toml(spec: TestbedSpec, layout: Layout) -> str:
    """gsched's own configuration inside the testbed."""
    text = f'state_dir = "{layout.gsched_state}"\n'
    if spec.accounting == "filetxt":
        text += f'\n[slurm]\njobcomp_file = "{layout.jobcomp_file}"\n'
    return text


def power_program(action: str, layout: Layout, python: str, import_path: Path) -> str:
    """The program that Slurm calls with a host list to `suspend` or `resume` nodes."""
    command = shlex.join((python, "-m", "gsched.testbed.node_power", action, str(layout.root)))
    return (
        "#!/bin/sh\n"
        "# slurmctld leaves stdio closed and says nothing of what goes wrong here\n"
        f"exec </dev/null >>{layout.log}/power.out 2>&1\n"
        f'PYTHONPATH={shlex.quote(str(import_path))} exec {command} "$1"\n'
    )
