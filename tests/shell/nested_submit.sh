#!/bin/bash
# A job that submits the next one: nothing of the first job's allocation leaks into it.
. "$(dirname "$0")/lib.sh"
cd "$(mktemp -d)"

cat >first.sh <<'SCRIPT'
#!/bin/bash
#SBATCH --job-name=first --cpus-per-task=3 --gres=gpu:2
gsched submit --parsable --job-name=second --cpus-per-task=1 --output=second.out \
    --wrap 'echo "$SLURM_JOB_NAME $SLURM_CPUS_PER_TASK ${SLURM_GPUS_ON_NODE-none}"' >second
SCRIPT
exits 0 gsched submit --wait --quiet first.sh
second=$(cat second)
eventually is "$second" COMPLETED
equal "second 1 none" "$(cat second.out)"
