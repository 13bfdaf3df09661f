#!/bin/bash
# A deadline is answered, planned, shown and remembered: promised, refused, withdrawn.
. "$(dirname "$0")/lib.sh"
cd "$(mktemp -d)"

ask() { gsched submit --parsable --gs-wait 60 --output=/dev/null "$@" --wrap 'sleep 600'; }

# nobody who could promise anything
exits 75 gsched submit --parsable --gs-deadline now+2hours --gs-wait 1 --gs-else cancel --hold \
    --output=/dev/null --wrap true >/dev/null
contains "no gsched daemon has answered" "$said"
exits 0 gsched queue --plan >answer
contains "no gsched daemon has answered" "$said"
equal 1 "$(wc -l <answer)"
exits 78 gsched deadlines

exits 0 gsched db init
export GSCHED_DAEMON_POLICY=chronus GSCHED_DAEMON_LEASES=true
gsched daemon run --act --interval 0.5 >daemon.log 2>&1 &
daemon=$!
trap 'kill $daemon 2>/dev/null || true' EXIT
decides() { [ "$(gsched queue --json | field policy)" = chronus ]; }
eventually decides

# both nodes are taken by a job that cannot give way, for half an hour at most
filler=$(gsched submit --parsable --exclusive --nodes=2 --gres=gpu:8 --time=30 --output=/dev/null --wrap 'sleep 600')
eventually is "$filler" RUNNING

# promised: half an hour on 4 GPUs, and there are more than two hours
exits 0 ask --gs-deadline now+3hours --time=30 --gres=gpu:4 >answer
target=$(cat answer)
contains "on target with probability 0.9" "$said"
contains "plan: 4 GPUs " "$said"

# refused: it needs longer than there is; what could be had is said, and is had
code=0
ask --gs-deadline now+40minutes --time=60 --gres=gpu:8 >answer 2>said || code=$?
equal 3 "$code"
refused=$(cat answer)
contains "refused: it needs " "$(cat said)"
earliest=$(grep -o 'earliest 20[^ ;]*' said | cut -d' ' -f2)
[ "$(date -d "$earliest" +%s)" -gt "$(date -d 'now + 60 minutes' +%s)" ] || fail "earliest: $earliest"
exits 0 ask --gs-deadline "$earliest" --time=60 --gres=gpu:8 >answer
second=$(cat answer)
exits 3 ask --gs-deadline now+5minutes --time=60 --gres=gpu:8 --gs-else cancel >answer
contains "is cancelled" "$said"
third=$(cat answer)

# each task of an array has its own answer: nothing is submitted that is to wait for one of all
exits 2 ask --gs-deadline now+6hours --array=1-2 >answer
contains "is answered for each task" "$said"
equal 0 "$(wc -c <answer)"

# a job that is held is answered once it is released
held=$(gsched submit --parsable --hold --gs-deadline now+6hours --time=30 --gres=gpu:1 --output=/dev/null --wrap true)
is_open() { gsched why "$held" | grep -q '^  deadline .*not answered yet: it is not eligible yet'; }
eventually is_open
equal open "$(gsched queue -j "$held" -P -h -o target)"
scontrol release "$held"
answered() { [ "$(gsched queue -j "$held" -P -h -o target)" = on-target ]; }
eventually answered

# what is said of them
exits 0 gsched queue --plan >answer
equal "JOBID" "$(head -1 answer | cut -d' ' -f1)"
contains "on target 0.9" "$(grep "^$target " answer)"
contains "#" "$(grep "^$target  4 GPUs" answer)"
contains "|" "$(grep "^$second  8 GPUs" answer)"
if grep -q "^$refused " answer; then fail "a refused job is in the calendar"; fi
gsched queue --plan --json >plan.json
equal "$refused" "$(field refused 0 job <plan.json)"
equal 3 "$(python3 -c 'import json; print(len(json.load(open("plan.json"))["targets"]))')"
gpus=$(python3 -c '
import json, sys
targets = {t["job"]: t for t in json.load(open("plan.json"))["targets"]}
plan = targets[sys.argv[1]]["plan"]
print(sum(p["num_gpus"] * (p["end_time"] - p["start_time"]) for p in plan))' "$target")
[ "$gpus" -ge $((4 * 1800)) ] || fail "only $gpus GPU-seconds are planned"
equal on-target "$(gsched queue -j "$target" -P -h -o target)"
equal refused "$(gsched queue -j "$refused" -P -h -o target)"
gsched why "$target" >answer
contains "on target with probability" "$(grep '^  target ' answer)"
contains "4 GPUs" "$(grep '^  plan ' answer)"
gsched why "$refused" >answer
contains "refused: it needs " "$(grep '^  deadline ' answer)"
gsched show "$target" >answer
contains "on target with probability" "$(grep '^target ' answer)"

# what has become of it
state_of() { gsched deadlines --me -P -h -o jobid,state 2>/dev/null | grep "^$1|" | cut -d'|' -f2; }
equal standing "$(state_of "$target")"
equal refused "$(state_of "$refused")"
exits 0 gsched cancel "$target"
withdrawn() { [ "$(state_of "$target")" = withdrawn ]; }
eventually withdrawn
gsched why "$target" >answer
contains "was not over yet: it is CANCELLED" "$(grep '^  deadline ' answer)"
gone_from_plan() { ! gsched queue --plan -P -h -o jobid | grep -q "^$target$"; }
eventually gone_from_plan
equal 5 "$(gsched deadlines --json | field counts asked)"
equal 1 "$(gsched deadlines --json | field counts withdrawn)"
[ -n "$third" ] || fail "sbatch named no job"
kill "$daemon"
