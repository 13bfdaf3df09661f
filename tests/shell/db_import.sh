#!/bin/bash
# Files of past jobs come in beside the site's own jobs; their sums are those of the files.
. "$(dirname "$0")/lib.sh"
cd "$(mktemp -d)"

awk 'BEGIN {
    print "timestamp,duration,num_gpus,gpu_time,cluster"
    for (n = 0; n < 3000; n++)
        printf "2017-10-%02d %02d:%02d:%02d,%d.0,%d,%d.0,vc%d\n", n % 28 + 1, n % 24, n % 60, n % 59,
            n, n % 8 + 1, n * (n % 8 + 1), n % 5
}' >trace.csv
gpu_time=$(awk -F, 'NR > 1 { sum += $4 } END { print sum }' trace.csv)

exits 78 gsched db import --format philly trace.csv
contains "gsched db init" "$said"
exits 0 gsched db init
job=$(gsched submit --parsable --gres=gpu:1 --output=/dev/null --wrap true)
eventually is "$job" COMPLETED
exits 0 gsched db ingest

# plain, packed, from a pipe, in parts and in another order: the same jobs
(head -n 1 trace.csv && tail -n 1000 trace.csv) | gzip >last.csv.gz
head -n 2001 trace.csv >first.csv
exits 0 gsched db import --format philly last.csv.gz first.csv
gsched history --limit 4000 --json >parts
exits 0 gsched db import --format philly - <trace.csv
gzip -k trace.csv
exits 0 gsched db import --format philly trace.csv trace.csv.gz
contains "read once" "$said"
gsched history --limit 4000 --json | cmp - parts || fail "another import has changed the history"
equal 3001 "$(gsched db stats --json | field rows jobs)"
equal "$gpu_time" "$(gsched db import --format philly --json trace.csv | field total gpu_time_s)"

# what is wrong is said, and what is right is kept
truncate -s -100 trace.csv.gz
exits 65 gsched db import --format philly trace.csv.gz
echo "never,a,job" >>trace.csv
exits 65 gsched db import --format philly trace.csv
contains "line 3002" "$said"
exits 0 gsched db import --format philly --keep-going trace.csv
exits 65 gsched db import --format swf trace.csv
contains "--format philly" "$said"
equal 3001 "$(gsched db stats --json | field rows jobs)"
