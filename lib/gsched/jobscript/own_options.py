"""gsched's own options of a submission, on the command line or after ``#GSCHED``."""

from __future__ import annotations

OPTIONS = {
    "--gs-none": "Keep gsched away from this job: it is never moved, whatever the policy says.",
    "--gs-deadline": "Ask for the job to have ended by this time.",
    "--gs-soft-deadline": "Worth REWARD to have ended by this time; may be repeated.",
    "--gs-profile": "Before the job, run its script for so long on few nodes, to know its speed.",
    "--gs-phase": "What the job does: some of pretrain,eval,sft,debug.",
    "--gs-shareable": "The job may share its GPUs with another one.",
    "--gs-checkpoint": "The job saves before it is stopped, and comes back; each SECONDS as well.",
    "--gs-runtime": "Wrap the script by a template; `gsched jobscript list` has their names.",
    "--gs-suggest": "Tell what gsched expects of the job, and a time limit that would help.",
    "--gs-wait": "Wait so long for gsched's answer; exit code 3 if refused, 75 if none came.",
    "--gs-else": "Without a good answer: cancel the job, or leave it in the queue [best-effort].",
    "--gs-dry-run": "Print the sbatch command line and the script; submit nothing.",
}
"""Option → help."""

VALUED = {
    "--gs-deadline": "TIME",
    "--gs-soft-deadline": "TIME=REWARD",
    "--gs-phase": "PHASE[,PHASE]",
    "--gs-runtime": "NAME[,KEY=VALUE]",
    "--gs-wait": "SECONDS",
    "--gs-else": "cancel|best-effort",
}
"""The options that take a value, ``--gs-x=value`` or ``--gs-x value`` → how help names it."""

OPTIONAL = {"--gs-checkpoint": "SECONDS", "--gs-profile": "SECONDS"}
"""The options that may take a value, ``--gs-x=value`` alone → how help names it."""
