#!/bin/bash
# The history takes in what ran, whatever the jobs are called; queue and why answer without a daemon.
. "$(dirname "$0")/lib.sh"
cd "$(mktemp -d)"

exits 0 gsched doctor >answer
exits 0 gsched db init

names=(plain $'two\nlines' 'a|b|c' "it's \"quoted\"" $'\e[31mred' '模型' "$(printf 'x%.0s' {1..1000})")
for name in "${names[@]}"; do
    job=$(gsched submit --parsable --job-name="$name" --gres=gpu:1 --output=/dev/null --wrap true)
done
eventually is "$job" COMPLETED
ended() { [ "$(squeue --noheader --states=all --format=%T | grep -c COMPLETED)" = ${#names[@]} ]; }
eventually ended
ingested() {
    gsched db ingest >rows && [ "$(gsched history --json | grep -o '"state": "COMPLETED"' | wc -l)" = $((2 * ${#names[@]})) ]
}
eventually ingested
gsched history --json >first
exits 0 gsched db ingest
gsched history --json | cmp - first || fail "a second ingest has changed the history"
gsched history >table
equal $((${#names[@]} + 1)) "$(wc -l <table)"
if grep -q $'\e' table first; then fail "a control character has come through"; fi

filler=$(gsched submit --parsable --exclusive --nodes=2 --output=/dev/null --wrap 'sleep 600')
eventually is "$filler" RUNNING
waiting=$(gsched submit --parsable --job-name=waits --gres=gpu:4 --output=/dev/null --wrap true)
eventually is "$waiting" PENDING
equal waits "$(gsched queue --json | field jobs 0 name)"
equal None "$(gsched queue --json | field policy)"
contains "$waiting \"waits\"" "$(gsched why "$waiting")"
exits 0 gsched queue >answer
contains "no predictions" "$said"
equal "$waiting" "$(gsched show "$waiting" --json | field job)"
exits 2 gsched why 999999
exits 2 gsched why not-a-job
exits 0 gsched cancel "$waiting" "$filler"
