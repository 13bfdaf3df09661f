"""Slurm's reason codes in words: what holds a job back, and what its owner can do about it.

Those of ``squeue``, "JOB REASON CODES", and of slurmctld itself, of releases 22.05 to 26.05. The
many limits of associations and QOS follow a grammar: whose, of which kind, of what, counted how.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ASK_ADMIN = "an administrator has to act"
_ASK_LESS = "ask for less, or for another QOS or account"
_WAIT = "it starts by itself when others of the same owner or group have ended"


@dataclass(frozen=True, slots=True)
class LimitName:
    """A limit as its reason code names it.

    `owner` is ``association`` or ``qos``; `kind` is ``total`` (of a group), ``most`` or ``least``;
    `resource` is ``cpu mem node gres license bb energy billing unknown jobs submit wall``;
    `counted` is "" or ``minutes`` or ``run-minutes``; `per` is "", job, node, user or account.
    """

    owner: str
    kind: str
    resource: str
    counted: str
    per: str


@dataclass(frozen=True, slots=True)
class SlurmReason:
    """A reason: its `code`, what it says in `words`, what can be done in `advice` ("" nothing).

    `nodes` are those that Slurm names as unavailable (a host list), `limit` the limit that is
    meant. An unknown code is its own words, and `is_known` is false.
    """

    code: str
    words: str
    advice: str = ""
    nodes: str = ""
    limit: LimitName | None = None
    is_known: bool = True


_CODES: dict[str, tuple[str, str]] = {
    "None": ("not looked at by the scheduler yet", ""),
    "WaitingForScheduling": ("not looked at by the scheduler yet", ""),
    "SchedDefer": ("the scheduler has put it off: so many jobs were submitted at once", ""),
    "Priority": ("jobs of higher priority wait before it", ""),
    "Resources": ("waits for free resources", ""),
    "Dependency": ("waits for another job (its --dependency)", ""),
    "DependencyNeverSatisfied": (
        "the job that it depends on ended the wrong way",
        "cancel it, or update its dependency (scontrol update jobid=… dependency=…)",
    ),
    "JobHeldUser": ("held by its user", "scontrol release lets it go"),
    "JobHeldAdmin": ("held by an administrator", _ASK_ADMIN),
    "JobHoldMaxRequeue": (
        "held: it was requeued as often as the site allows (MaxBatchRequeue)",
        "find out why it failed to launch, then scontrol release",
    ),
    "launch failed requeued held": (
        "held: it could not be launched and was put back",
        "look at its output, the prolog or the node, then scontrol release",
    ),
    "job requeued in held state": ("held: it was requeued so", "scontrol release lets it go"),
    "user env retrieval failed requeued held": (
        "held: the user's environment could not be read on the node",
        "look at the login files (.bashrc), then scontrol release",
    ),
    "BeginTime": ("its earliest start time has not come (--begin, or a requeue's delay)", ""),
    "Cleaning": ("its last attempt is being cleaned up", ""),
    "JobArrayTaskLimit": ("its array runs as many tasks at once as it allows itself (%)", ""),
    "JobLaunchFailure": (
        "it could not be launched: the file system, or the program's name",
        "look at its command and working directory",
    ),
    "NonZeroExitCode": ("it ended with an exit code other than 0", ""),
    "RaisedSignal": ("it was ended by a signal", ""),
    "SystemFailure": ("Slurm, a file system or the network failed", _ASK_ADMIN),
    "TimeLimit": ("it reached its time limit", ""),
    "InactiveLimit": ("it was inactive for longer than the site allows", ""),
    "OutOfMemory": ("it ran out of memory", ""),
    "DeadLine": ("its --deadline cannot be kept", "give it a later one, or submit it again"),
    "PartitionDown": ("its partition is down", _ASK_ADMIN),
    "PartitionInactive": ("its partition is inactive: it starts no jobs", _ASK_ADMIN),
    "PartitionTimeLimit": (
        "its time limit is longer than its partition allows",
        "shorten --time, or choose another partition",
    ),
    "PartitionNodeLimit": (
        "its number of nodes is outside of what its partition allows, or gives now",
        "change --nodes, or choose another partition",
    ),
    "PartitionConfig": (
        "its partition has no nodes such as it asks for",
        "change what it asks for, or choose another partition",
    ),
    "AccountNotAllowed": (
        "its partition does not take jobs of its account",
        "choose another partition, or another account (-A)",
    ),
    "QOSNotAllowed": (
        "its QOS is not allowed for its account or partition",
        "choose another QOS (--qos), or another partition",
    ),
    "InvalidAccount": ("its account does not exist (any more)", "set another: -A"),
    "InvalidQOS": ("its QOS does not exist (any more)", "set another: --qos"),
    "AccountingPolicy": ("a limit of its account or QOS holds it back", _ASK_LESS),
    "BadConstraints": (
        "no nodes can give what it asks for, so that Slurm has stopped looking for them",
        "change what it asks for, then scontrol release",
    ),
    "ReqNodeNotAvail": (
        "nodes that it needs are down, drained, reserved or taken",
        "",
    ),
    "NodeDown": ("a node that it needs is down", "leave out --nodelist, or wait for the repair"),
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions": (
        "nodes that it needs are down, drained, or kept for partitions that go first",
        "",
    ),
    "FrontEndDown": ("no front end node is available", _ASK_ADMIN),
    "Reservation": ("waits for its reservation to begin or to have room", ""),
    "ReservationDeleted": (
        "its reservation has been deleted",
        "take it out (scontrol update jobid=… reservationname=), then scontrol release",
    ),
    "ReservationInvalid": ("its reservation is not valid for it (any more)", "choose another"),
    "Licenses": ("waits for licences", ""),
    "Prolog": ("its PrologSlurmctld is still running", ""),
    "BurstBufferResources": ("waits for room in the burst buffer", ""),
    "BurstBufferStageIn": ("its data is being staged in to the burst buffer", ""),
    "BurstBufferOperation": ("the burst buffer failed it", _ASK_ADMIN),
    "PowerNotAvail": ("waits for electrical power", ""),
    "PowerReserved": ("waits for electrical power kept for others", ""),
    "MaxPoweredUpNodes": ("the site powers up no more nodes at once than it does now", ""),
    "MpiPortsBusy": ("no MPI ports are free on the nodes", ""),
    "FedJobLock": ("another cluster of the federation decides on it", ""),
    "MaxMemPerLimit": (
        "it asks for more memory per CPU or node than the site allows",
        "ask for less, or for more CPUs",
    ),
    "BlockMaxError": ("the block of nodes has failed too often", _ASK_ADMIN),
    "BlockFreeAction": ("the block of nodes is being freed", ""),
    "AssociationJobLimit": ("its user or account runs as many jobs as it may", _WAIT),
    "AssociationResourceLimit": ("its user or account has reached a limit", _WAIT),
    "AssociationTimeLimit": ("its user or account has used up its time", _ASK_LESS),
    "QOSJobLimit": ("its QOS runs as many jobs as it may", _WAIT),
    "QOSResourceLimit": ("its QOS has reached a limit", _WAIT),
    "QOSTimeLimit": ("its QOS has used up its time", _ASK_LESS),
    "QOSUsageThreshold": ("its fair-share is below what its QOS asks for (UsageThreshold)", ""),
}
_SENTENCES = (
    ("Job's account not permitted to use this partition", "AccountNotAllowed"),
    ("Job's QOS not permitted to use this partition", "QOSNotAllowed"),
)
"""What slurmctld writes out, with names behind it, and the code that it means."""

NODES_UNAVAILABLE = frozenset(
    code for code in _CODES if code.startswith(("ReqNodeNotAvail", "Nodes required for job"))
)
"""Codes that say that nodes cannot be had; which, and why, the nodes themselves tell."""

_HELD = frozenset(
    {
        "JobHeldUser",
        "JobHeldAdmin",
        "JobHoldMaxRequeue",
        "BadConstraints",
        "ReservationDeleted",
        "launch failed requeued held",
        "job requeued in held state",
        "user env retrieval failed requeued held",
    }
)  # fmt: skip

# of the last partition that Slurm has looked at, and no waiting changes it
_NEVER_THERE = frozenset(
    {"AccountNotAllowed", "QOSNotAllowed", "InvalidAccount", "InvalidQOS", "PartitionTimeLimit"}
)

_RESOURCES = {
    "cpu": ("cpu", "CPUs"),
    "mem": ("mem", "memory"),
    "memory": ("mem", "memory"),
    "node": ("node", "nodes"),
    "energy": ("energy", "energy"),
    "gres": ("gres", "GPUs or other generic resources"),
    "license": ("license", "licences"),
    "bb": ("bb", "burst buffer space"),
    "billing": ("billing", "billing units"),
    "unknown": ("unknown", "a resource"),
    "jobs": ("jobs", "running jobs"),
    "submitjobs": ("submit", "jobs in the queue"),
    "submitjob": ("submit", "jobs in the queue"),
    "wall": ("wall", "wall-clock time"),
    "wallduration": ("wall", "wall-clock time"),
}
_LIMIT = re.compile(
    r"(?P<owner>Assoc|QOS)?(?P<kind>Grp|Max|Min)"
    r"(?P<resource>Cpu|CPU|Memory|Mem|Node|Energy|GRES|License|BB|Billing|Unknown|SubmitJobs?|Jobs"
    r"|WallDuration|Wall)"
    r"(?P<counted>RunMinutes|RunMins|Minutes)?(?P<per>PerJob|PerNode|PerUser|PerAccount)?"
    r"(?:Limit|NotSatisfied)?"
)
_UNAVAILABLE = re.compile(r"UnavailableNodes:(?P<nodes>\S+)")


def explain_reason(text: str) -> SlurmReason:
    """A reason as squeue prints it; one that is not known is shown as it is."""
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]
    code = text.partition(",")[0].strip() or "None"
    unavailable = _UNAVAILABLE.search(text)
    nodes = unavailable["nodes"] if unavailable else ""
    spaced = text.replace("_", " ")
    for name in (code, spaced):
        if name in _CODES:
            words, advice = _CODES[name]
            if nodes and nodes != "(null)":
                words = f"{words} (unavailable: {nodes})"
            return SlurmReason(name, words, advice, nodes)
    for sentence, name in _SENTENCES:
        if spaced.startswith(sentence):
            words, advice = _CODES[name]
            return SlurmReason(name, words + spaced.removeprefix(sentence), advice)
    match = _LIMIT.fullmatch(code)
    if match is not None:
        return _limit(code, match)
    return SlurmReason(text, f"Slurm says {text}", is_known=False)


def is_held(reason: SlurmReason) -> bool:
    """Whether the reason says that nobody looks at the job until it is released."""
    return reason.code in _HELD


def never_starts_there(reason: SlurmReason) -> bool:
    """Whether the reason says that a job cannot start in the partition that it is about."""
    return reason.code in _NEVER_THERE


def _limit(code: str, match: re.Match[str]) -> SlurmReason:
    resource, what = _RESOURCES[match["resource"].lower()]
    counted = {"": "", "M": "minutes", "R": "run-minutes"}[(match["counted"] or "")[:1]]
    name = LimitName(
        owner="association" if match["owner"] == "Assoc" else "qos",
        kind={"Grp": "total", "Max": "most", "Min": "least"}[match["kind"]],
        resource=resource,
        counted=counted,
        per=(match["per"] or "").removeprefix("Per").lower(),
    )
    # that of one job: Slurm's code of the wall-clock limit of an association names no "PerJob"
    if name.resource == "wall" and name.kind == "most" and not name.per:
        name = LimitName(name.owner, name.kind, name.resource, name.counted, "job")
    return SlurmReason(code, _limit_words(name, what), _limit_advice(name), limit=name)


def _limit_words(name: LimitName, what: str) -> str:
    if name.counted == "minutes":
        what = f"{what} × minutes used so far"
    elif name.counted:
        what = f"{what} × minutes that running jobs may still use"
    if name.kind == "least":
        return f"it asks for less than its QOS demands: {what}"
    if name.per in {"job", "node"}:
        owner = "QOS" if name.owner == "qos" else "user or account"
        each = "one job" if name.per == "job" else "one node"
        return f"it asks for more than its {owner} may have for {each}: {what}"
    if name.kind == "total":
        owner = "QOS" if name.owner == "qos" else "account (or its user's share of it)"
        return f"its {owner} has reached its limit of {what}"
    whom = {"user": "its user has", "account": "its account has"}.get(name.per, "its user has")
    in_qos = " in its QOS" if name.owner == "qos" else ""
    return f"{whom} reached the limit of {what}{in_qos}"


def _limit_advice(name: LimitName) -> str:
    if name.kind == "least":
        return "ask for more, or for another QOS"
    if name.per in {"job", "node"}:
        return _ASK_LESS
    if name.counted == "minutes" or (name.resource == "wall" and name.kind == "total"):
        return "the limit has to be raised, or its use to be reset, by an administrator"
    return _WAIT
