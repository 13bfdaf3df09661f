#!/bin/sh
#SBATCH --job-name=train.py
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
#SBATCH --ntasks-per-node=4
# Template ddp of gsched-jobscripts(7): the script that was submitted stands below as it was.
gsched_python=/opt/gsched/bin/python
trap '' USR1 USR2  # nothing runs yet that could take them
gsched_write() ( # what the job needs, to its private folder
    TMPDIR=$gsched_dir # some shells keep a here-document there
    head -c 198 > "$gsched_dir/slurm_script" <<'GSCHED-END-de9da6e2bade0a01' || exit
#!/usr/bin/env -S python3 -u
#SBATCH --ntasks-per-node=4
import os, sys
place = "rank {RANK} of {WORLD_SIZE}".format_map(os.environ)
os.write(1, f"{place} {sys.argv[1:]}\n".encode())  # in one piece
GSCHED-END-de9da6e2bade0a01
    cat > "$gsched_dir/ranks" <<'GSCHED-END-RANKS'
#!/bin/sh
# Starts the ranks of the script beside this file; on several nodes of a copy on each.
folder=${0%/*}
original=$folder/slurm_script
nodes=${SLURM_JOB_NUM_NODES:-1}

on_each_node() {
    srun --quiet --ntasks="$nodes" --ntasks-per-node=1 "$@" </dev/null
}

# to folders as private as this one; a file system may be full, or shared by the nodes
copy_to_each_node() {
    for place in "${folder%/*}" /tmp /dev/shm; do
        copies=$place/${folder##*/}.ranks
        script=$copies/slurm_script
        on_each_node sh -c '
            mkdir -m 700 "$1" 2>/dev/null || [ -d "$1" -a ! -L "$1" -a -O "$1" ] || exit 1
            : >"$1/.on-$(uname -n)"' sh "$copies" && sbcast --force "$original" "$script" && return
        on_each_node rm -rf "$copies" 2>/dev/null
    done
    echo "gsched: error: the script could be brought to no folder of all nodes" >&2
    exit 1
}

if [ "$nodes" -gt 1 ]; then
    trap : TERM  # srun ends then; what lies on the nodes is removed after it
    copy_to_each_node
else
    script=$original
fi
as_rank='
    export RANK="$SLURM_PROCID" LOCAL_RANK="$SLURM_LOCALID" WORLD_SIZE="$SLURM_NTASKS"
    case $SLURM_STEP_TASKS_PER_NODE in
        *,*) ;;
        *) export LOCAL_WORLD_SIZE="${SLURM_STEP_TASKS_PER_NODE%%(*}" ;;
    esac
    exec "$@"'
set -- srun --kill-on-bad-exit=1 \
    ${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"} \
    /bin/sh -c "$as_rank" rank /usr/bin/env '-S python3 -u' "$script" "$@"
[ "$nodes" -gt 1 ] || exec "$@"
"$@"
code=$?
on_each_node rm -rf "$copies" 2>/dev/null
exit "$code"
GSCHED-END-RANKS
)
for gsched_dir in "${TMPDIR:-/tmp}" /tmp /dev/shm; do
    gsched_dir=$(mktemp -d "$gsched_dir/gsched-job.XXXXXX" 2>/dev/null) || continue
    gsched_write 2>/dev/null && break
    rm -rf "$gsched_dir"
    gsched_dir=
done
if [ -z "$gsched_dir" ]; then
    echo "gsched: error: $(uname -n): the script could not be written to ${TMPDIR:-/tmp}, /tmp or /dev/shm" >&2
    exit 1
fi
export GSCHED_SCRIPT=/home/ada/train.py
export GSCHED_RANKS=script
if "$gsched_python" -I -m gsched.launch --check; then
    exec "$gsched_python" -I -m gsched.launch --job-dir "$gsched_dir" \
        --checkpoints=gsched-checkpoints \
        --every=600 \
        --grace=30 \
        --heartbeat=/shared/heartbeats \
        --phase=pretrain,eval \
        --ranks \
        -- /bin/sh "$gsched_dir/ranks" "$@"
fi
echo "gsched: error: $gsched_python cannot run gsched on $(uname -n): the script runs without it" >&2
# its checkpoints are gsched's: whoever requeued it for another job's sake would lose its work
timeout 60 scontrol update "jobid=$SLURM_JOB_ID" requeue=0 </dev/null >/dev/null 2>&1 &&
    echo "gsched: warning: so it is not requeued, and gives no GPUs up" >&2 ||
    echo "gsched: warning: it can still be requeued: scontrol update jobid=$SLURM_JOB_ID requeue=0" >&2
trap - USR2  # a script that does not know USR1 shall not be ended by a notice
exec /bin/sh "$gsched_dir/ranks" "$@"
