#!/bin/bash
# What gsched adds to sbatch, and that sbatch's own ways stay.
. "$(dirname "$0")/lib.sh"
cd "$(mktemp -d)"

printf '#!/bin/sh\n#GSCHED --gs-none\ntrue\n#SBATCH --gres=gpu:1\n' >opt-out.sh
exits 0 gsched submit --hold opt-out.sh >answer
job=$(sed -n 's/Submitted batch job //p' answer)
equal "gs1{none}" "$(comment "$job")"
contains "warning: opt-out.sh line 4: #SBATCH after the first command (line 3)" "$said"

before=$(squeue --noheader --states=all | wc -l)
exits 0 gsched submit --gs-dry-run --gs-none -J 'two words' opt-out.sh >answer
equal "sbatch -J 'two words' '--comment=gs1{none}' opt-out.sh" "$(head -1 answer)"
equal "$(cat opt-out.sh)" "$(tail -n +3 answer)"
exits 2 gsched submit --gs-nnoe opt-out.sh
contains "did you mean --gs-none?" "$said"
equal "$before" "$(squeue --noheader --states=all | wc -l)"

exits 0 gsched submit --gs-suggest --parsable --hold --output=/dev/null --wrap true >answer
equal "" "$said" # no daemon: as if it had not been asked
[[ $(cat answer) =~ ^[0-9]+$ ]] || fail "not a job's number: $(cat answer)"
exits 9 gsched submit --gs-suggest --wait --output=/dev/null --wrap 'exit 9' >answer
contains "warning: --gs-suggest is void: sbatch --wait ends with the job" "$said"

exits 7 gsched submit --wait --quiet --output=/dev/null --wrap 'exit 7'
exits 1 gsched submit --partition=nowhere opt-out.sh
contains "sbatch: error: " "$said"
printf '#!/bin/sh\r\ntrue\r\n' >dos.sh
exits 1 gsched submit dos.sh
contains "DOS line breaks" "$said"

job=$(gsched submit --parsable --hold --job-name=stdin <opt-out.sh 2>/dev/null)
equal "gs1{none}" "$(comment "$job")"
