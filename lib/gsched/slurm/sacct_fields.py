"""The fields of sacct(1): how Slurm spells them, and which hold whatever a user likes."""

from __future__ import annotations

_SPELT = """
Account AdminComment AllocCPUS AllocGRES AllocNodes AllocTRES AssocID AveCPU AveCPUFreq
AveDiskRead AveDiskWrite AvePages AveRSS AveVMSize BlockID Cluster Comment Constraints
ConsumedEnergy ConsumedEnergyRaw Container CPUTime CPUTimeRAW DBIndex DerivedExitCode Elapsed
ElapsedRaw Eligible End ExitCode Extra FailedNode Flags GID Group JobID JobIDRaw JobName Layout
Licenses MaxDiskRead MaxDiskReadNode MaxDiskReadTask MaxDiskWrite MaxDiskWriteNode
MaxDiskWriteTask MaxPages MaxPagesNode MaxPagesTask MaxRSS MaxRSSNode MaxRSSTask MaxVMSize
MaxVMSizeNode MaxVMSizeTask McsLabel MinCPU MinCPUNode MinCPUTask NCPUS NNodes NodeList NTasks
Partition Planned PlannedCPU PlannedCPURAW Priority QOS QOSRAW QOSREQ Reason ReqCPUFreq
ReqCPUFreqGov ReqCPUFreqMax ReqCPUFreqMin ReqCPUS ReqGRES ReqMem ReqNodes ReqTRES Reserved
ReservationId Reservation ResvCPU ResvCPURAW Restarts SLUID Start State StdErr StdIn StdOut Submit
SubmitLine Suspended SystemComment SystemCPU Timelimit TimelimitRaw TotalCPU TRESUsageInAve
TRESUsageInMax TRESUsageInMaxNode TRESUsageInMaxTask TRESUsageInMin TRESUsageInMinNode
TRESUsageInMinTask TRESUsageInTot TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode
TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode TRESUsageOutMinTask TRESUsageOutTot UID
User UserCPU WCKey WCKeyID WorkDir
"""
_BY_LOWER = {name.lower(): name for name in _SPELT.split()}

FREE_TEXT = frozenset(
    {
        "JobName", "Comment", "AdminComment", "SystemComment", "WorkDir", "SubmitLine", "Container",
        "Extra", "WCKey", "StdIn", "StdOut", "StdErr", "Constraints", "Licenses",
    }
)  # fmt: skip
"""Fields in which a delimiter or a line end may stand."""


def spelt(name: str) -> str:
    """A field's name as sacct prints it, whatever the case and width (``jobname%30``) it is in."""
    bare = name.strip().partition("%")[0]
    return _BY_LOWER.get(bare.lower(), bare)
