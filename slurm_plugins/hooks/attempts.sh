# What task_prolog and task_epilog share: telling the register of a job's attempts.
# Its format is in lib/gsched/telemetry/attempts.py, its place FOLDER/UID/JOB.attempts.

max_bytes=262144        # of a register that has grown beyond, only ...
kept_bytes=65536        # ... so much is kept; steps are told up to the former

limit_s=5               # a file server that hangs keeps no task longer from running

# the first of a step's tasks, or the batch script, has itself called with --tell
tell_in_time() {
    [ -n "${GSCHED_HEARTBEAT_DIR-}" ] && [ "${SLURM_PROCID-}" = 0 ] || return 0
    (
        PATH=/usr/bin:/bin:$PATH LC_ALL=C timeout -s KILL $limit_s "$0" --tell
        : # so that it is this shell that says that it was killed
    ) 2>/dev/null
}

restart_count() {
    is_number "${SLURM_RESTART_COUNT-}" && echo "$SLURM_RESTART_COUNT" || echo 0
}

is_number() {
    case $1 in '' | *[!0-9]*) return 1 ;; esac
}

# the batch script, and the shell of salloc, are no steps that a job has begun
is_step() {
    is_number "${SLURM_STEP_ID-}" && [ "$SLURM_STEP_ID" -lt 4294967280 ]
}

# $1, where it is plain enough to be put between quotes of JSON as it is
plain() {
    case $1 in *[!][A-Za-z0-9._,-]*) ;; *) printf %s "$1" ;; esac
}

# tell EVENT FACTS: one line of JSON; FACTS begin with a comma
tell() {
    is_number "${SLURM_JOB_ID-}" || return 0
    uid=${SLURM_JOB_UID-}
    is_number "$uid" || uid=$(id -u)
    job=$SLURM_JOB_ID
    if is_number "${SLURM_ARRAY_JOB_ID-}" && is_number "${SLURM_ARRAY_TASK_ID-}"; then
        job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
    fi
    file=$job.attempts
    in_own_folder "$uid" || return 0
    is_own_file "$file" || return 0
    size=0
    [ ! -e "$file" ] || size=$(wc -c <"$file") || return 0
    if [ "$size" -gt $max_bytes ]; then
        [ "$1" = begin ] || return 0
        is_own_file "$file.new" || return 0
        tail -c $kept_bytes "$file" | sed 1d >"$file.new" && mv -f "$file.new" "$file"
    fi
    printf '{"event":"%s","by":"hook","restart":%d,"time":%d%s}\n' \
        "$1" "$(restart_count)" "$(date +%s)" "$2" >>"$file"
}

# go to the user's folder; not where somebody else has put something in its place
in_own_folder() {
    cd -P "$GSCHED_HEARTBEAT_DIR" || return 1
    place=$(pwd -P)
    [ -e "$1" ] || mkdir "$1" || [ -e "$1" ] || return 1 # another job's hook may have been faster
    cd -P "./$1" || return 1
    [ "$(pwd -P)" = "${place%/}/$1" ] && [ -O . ]
}

is_own_file() {
    [ ! -L "$1" ] || return 1
    [ ! -e "$1" ] || { [ -f "$1" ] && [ -O "$1" ]; }
}
