#!/bin/bash
# What policies would have done with this cluster's own last day, before any daemon acts.
. "$(dirname "$0")/lib.sh"
cd "$(mktemp -d)"

simulate() { gsched sim compare --policy fifo,sjf "$@"; }

exits 78 simulate --since 1d
contains "gsched db init" "$said"
exits 0 gsched db init
exits 65 simulate --since 1d
for seconds in 1 2 1 2; do
    sbatch --quiet --gres=gpu:2 --time=5 --output=/dev/null --wrap "sleep $seconds"
done
without=$(sbatch --parsable --output=/dev/null --wrap true)
ended() { [ -z "$(squeue --noheader)" ]; }
eventually ended
exits 0 gsched db ingest

# the history on the nodes of this Slurm
exits 0 simulate --since 1d --live --slurm --json >answer.json
equal 4 "$(field policies 0 runs 0 jobs <answer.json)"
equal slurm "$(field assumptions scheduler <answer.json)"
equal no-gpus "$(field left_out 0 reason <answer.json)"
equal "$(scontrol -o show node | grep -c Gres=gpu)" "$(field cluster nodes <answer.json)"

# the same jobs from a file, sized by themselves
exits 0 gsched trace convert --from-history -o saved.csv.gz
exits 0 simulate --format gsched saved.csv.gz --per-job jobs.csv --json >saved.json
equal 4 "$(field policies 0 runs 0 jobs <saved.json)"
equal 9 "$(wc -l <jobs.csv)"
exits 2 simulate
contains "--since 30d" "$said"
