# Helpers of the shell tests; each script begins with `. "$(dirname "$0")/lib.sh"`.
# A script runs in a private Slurm of its own, as a site's own integration tests would. Its first
# command that fails ends it.
set -euo pipefail

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

# equal EXPECTED ACTUAL
equal() { [ "$1" = "$2" ] || fail "expected '$1', got '$2'"; }

# contains PART TEXT
contains() { [[ "$2" == *"$1"* ]] || fail "'$1' is not in: $2"; }

# exits CODE COMMAND...: the command's exit code; what it prints on stderr is kept in $said
exits() {
    local expected=$1 code=0 file
    shift
    file=$(mktemp)
    "$@" 2>"$file" || code=$?
    said=$(cat "$file")
    rm -f "$file"
    [ "$code" = "$expected" ] || fail "'$*' exits with $code, not $expected: $said"
}

# eventually COMMAND...: polls until the command succeeds
eventually() {
    local deadline=$((SECONDS + 60))
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $deadline ] || fail "never came true: $*"
        sleep 0.1
    done
}

# state JOB: as squeue says it, empty when the job is gone
state() { squeue --noheader --states=all --jobs="$1" --format=%T; }
is() { [ "$(state "$1")" = "$2" ]; }

# gone JOB: Slurm knows it no more, as a waiting task of an array after its cancellation
gone() { [ -z "$(state "$1" 2>/dev/null || true)" ]; }

# comment JOB
comment() { squeue --noheader --states=all --jobs="$1" --Format=comment:200 | sed 's/ *$//'; }

# field KEY...: one value of the JSON document on stdin
field() {
    python3 -c '
import json, sys
value = json.load(sys.stdin)
for key in sys.argv[1:]:
    value = value[int(key)] if isinstance(value, list) else value[key]
print(value)' "$@"
}
