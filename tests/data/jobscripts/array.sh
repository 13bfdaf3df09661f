#!/bin/sh
#SBATCH --job-name=train.sh
#SBATCH --output=slurm-%A_%a.out
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@120
#SBATCH --time=1:00:00 --gres=gpu:1
# a comment
#SBATCH -J "two words"
# Template array of gsched-jobscripts(7): the script that was submitted stands below as it was.
gsched_python=/opt/gsched/bin/python
trap '' USR1 USR2  # nothing runs yet that could take them
gsched_write() ( # what the job needs, to its private folder
    TMPDIR=$gsched_dir # some shells keep a here-document there
    head -c 205 > "$gsched_dir/slurm_script" <<'GSCHED-END-d8b3789743efdc7d' || exit
#!/bin/bash -l
#SBATCH --time=1:00:00 --gres=gpu:1
# a comment
#SBATCH -J "two words"

echo 'it'"'"'s' $(basename "$0"), checkpoints in "${GSCHED_CHECKPOINT_DIR-nowhere}"
#SBATCH --void
printf '<%s>' "$@"
GSCHED-END-d8b3789743efdc7d
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
export GSCHED_SCRIPT='/home/ada/my code/train.sh'
if "$gsched_python" -I -m gsched.launch --check; then
    exec "$gsched_python" -I -m gsched.launch --job-dir "$gsched_dir" \
        --checkpoint-folder='runs/it'"'"'s, 5 %' \
        --every=600 \
        --grace=30 \
        --heartbeat=/shared/heartbeats \
        --phase=pretrain,eval \
        -- /bin/bash -l "$gsched_dir/slurm_script" "$@"
fi
echo "gsched: error: $gsched_python cannot run gsched on $(uname -n): the script runs without it" >&2
# its checkpoints are gsched's: whoever requeued it for another job's sake would lose its work
timeout 60 scontrol update "jobid=$SLURM_JOB_ID" requeue=0 </dev/null >/dev/null 2>&1 &&
    echo "gsched: warning: so it is not requeued, and gives no GPUs up" >&2 ||
    echo "gsched: warning: it can still be requeued: scontrol update jobid=$SLURM_JOB_ID requeue=0" >&2
trap - USR2  # a script that does not know USR1 shall not be ended by a notice
exec /bin/bash -l "$gsched_dir/slurm_script" "$@"
