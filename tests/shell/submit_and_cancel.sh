#!/bin/bash
# A job from its submission to its cancellation; scripts that parse sbatch go on working.
. "$(dirname "$0")/lib.sh"
cd "$(mktemp -d)"

cat >train.sh <<'SCRIPT'
#!/bin/bash
#SBATCH --job-name=train --gres=gpu:2
#SBATCH --comment="my own comment"
echo "$@" >arguments
sleep 600
SCRIPT

out=$(gsched submit train.sh --epochs 3 --gs-none)
contains "Submitted batch job " "$out"
job=${out##* }
eventually is "$job" RUNNING
equal "my own comment" "$(comment "$job")"
eventually test -s arguments
equal "--epochs 3 --gs-none" "$(cat arguments)"

exits 0 gsched cancel "$job"
eventually is "$job" CANCELLED

job=$(gsched submit --parsable --hold --gs-none --array=1-3 train.sh)
equal "my own comment gs1{none}" "$(comment "$job" | head -1)"
exits 0 gsched cancel "${job}_2"
eventually gone "${job}_2"
exits 2 gsched cancel "$job" "not-a-job"
contains "not a job id" "$said"
eventually is "${job}_1" PENDING
exits 0 gsched cancel "$job"
eventually is "$job" CANCELLED
exits 1 gsched cancel --user=root 999999
contains "scancel: error" "$said"
