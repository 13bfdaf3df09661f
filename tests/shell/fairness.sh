#!/bin/bash
# Whose the GPUs were: from what ran here, with quotas of the site, and without a database.
. "$(dirname "$0")/lib.sh"
cd "$(mktemp -d)"

exits 69 gsched fairness
contains "no gsched daemon tells how accounts stand" "$said"
exits 0 gsched db init
for account in lab1 lab1 lab2; do
    job=$(sbatch --parsable --account=$account --gres=gpu:2 --output=/dev/null --wrap 'sleep 2')
done
ended() { [ -z "$(squeue --noheader)" ]; }
eventually ended
# only whole seconds count: the job of lab2 is known with its end
known() { gsched db ingest && [ "$(gsched fairness --since 1h --json | field known open_attempts)" = 0 ]; }
eventually known

# expected_r ACCOUNT QUOTA: by its jobs' own times, each of which asked for 2 GPUs;
# a job may wait for a second on a busy machine
expected_r() {
    gsched history --since 1h --json | python3 -c '
import json, sys
account, quota = sys.argv[1], float(sys.argv[2])
jobs = [j for j in json.load(sys.stdin)["jobs"] if j["account"] == account]
ran = sum(2 * (j["end_time"] - j["start_time"]) for j in jobs)
moments = sorted({t for j in jobs for t in (j["submit_time"], j["end_time"])})
due = sum(
    (b - a) * min(quota, 2 * sum(j["submit_time"] <= a < j["end_time"] for j in jobs))
    for a, b in zip(moments, moments[1:])
)
print(round(ran / due, 9))' "$@"
}
rounded() { python3 -c 'import sys; print(round(float(sys.stdin.read()), 9))'; }

# nobody says whose the GPUs are: equal parts of the 16
exits 0 gsched fairness --since 1h --json >answer.json
equal history "$(field told_by <answer.json)"
equal equal "$(field quota_source <answer.json)"
for place in 0 1; do
    equal 8.0 "$(field tenants $place quota_gpus <answer.json)"
    account=$(field tenants $place tenant <answer.json)
    equal "$(expected_r "$account" 8)" "$(field tenants $place r <answer.json | rounded)"
done
equal 3 "$(field jobs_counted <answer.json)"
# each asks for no more than its share: in loss is who waited for over 5 % of its time
lost=$(gsched history --since 1h --json | python3 -c '
import json, sys
jobs = json.load(sys.stdin)["jobs"]
part = [(j["end_time"] - j["start_time"]) / (j["end_time"] - j["submit_time"]) for j in jobs]
print(sum(each < 0.95 for each in part))')
equal "$lost" "$(field loss_jobs <answer.json)"

# the site says it, of fewer GPUs than are asked for
export GSCHED_FAIRNESS_QUOTAS=lab1=1,lab2=0.5
exits 0 gsched fairness --since 1h --account lab2 --json >answer.json
equal settings "$(field quota_source <answer.json)"
equal 0.5 "$(field tenants 0 quota_gpus <answer.json)"
equal "$(expected_r lab2 0.5)" "$(field tenants 0 r <answer.json | rounded)"
equal "$job" "$(field jobs 0 job <answer.json)"
exits 0 gsched fairness --since 1h --job "$job" --html page >answer
contains "lab2" "$(cat answer)"
contains "Quotas are those of now, by [fairness.quotas] of gsched.toml" "$(cat answer)"
[ -s page/index.html ] || fail "no page"
exits 2 gsched fairness --account lab3
contains "there are: lab1, lab2" "$said"
GSCHED_FAIRNESS_QUOTAS=lab1=-1 exits 78 gsched fairness
contains "lab1 = -1, allowed is 0" "$said"
