"""The files of past jobs that people write themselves, as manual pages: gsched's own, and maps."""

from __future__ import annotations

from gsched.model.phases import PHASE_VALUES
from gsched.model.trace import ATTEMPT_FIELDS, INTEGER_FIELDS
from gsched.traces.column_map import (
    CODES,
    COUNTS,
    DURATIONS,
    MEMORY_UNITS,
    TEXTS,
    TIME_UNITS,
    TIMES,
)
from gsched.traces.gsched_format import HEAD_LINE, VERSION
from gsched_cli.roff import head, listed, paragraph, verbatim

_PHASES = ", ".join(PHASE_VALUES)

ABOUT_FIELDS = {
    "cluster": "The cluster; --cluster beats it, gsched where there is none.",
    "job_id": "The id that users see; of an array task the array's, of a heterogeneous component "
    "the leader's. Needed.",
    "array_task": "Number of the array task.",
    "het_offset": "Number of the heterogeneous component.",
    "submit_time": "When this attempt was submitted: Slurm gives a requeued job a new time. "
    "Needed.",
    "state": "Slurm's base state: COMPLETED, FAILED, …, UNKNOWN. Needed.",
    "state_text": "The state as its source wrote it (CANCELLED by 1000); empty text: it told none. "
    "Where the column is missing, it is state.",
    "source": "Who told it: sacct, jobcomp, squeue, or a format (philly). It decides who is right "
    "where two differ. At most 64 characters; gsched where the column is missing.",
    "user": "Who submitted it.",
    "tenant": "The account, or virtual cluster.",
    "partition": "Partition, or a list of them.",
    "qos": "Quality of service.",
    "name": "The job's name.",
    "eligible_time": "When nothing but resources was missing.",
    "start_time": "When it started.",
    "end_time": "When it ended.",
    "time_limit_s": "Time limit; 2147483647 is none.",
    "num_nodes": "Nodes.",
    "num_cpus": "CPUs.",
    "num_gpus": "GPUs.",
    "requested": "Resources asked for, as cpu=8,gres/gpu:a100=2,mem=34359738368; memory in bytes. "
    "In names %, comma and = are %25, %2C and %3D.",
    "allocated": "Resources given, likewise.",
    "node_list": "Where it ran, as Slurm writes it (n[1-4]).",
    "exit_code": "Exit code.",
    "exit_signal": "Signal that ended it, 0 for none.",
    "restarts": "How often Slurm had restarted the job before this attempt.",
    "source_id": "The job's id in a source whose ids are no numbers.",
    "phase": f"What the source says that the job does: {_PHASES}.",
    "start_assumed": "1 where no start was told, and the submit time stands for it.",
    "extra": "A JSON object: what the source told and gsched has no column for.",
}
"""Each column of gsched's own file, in its order."""

_OWN = f"""\
gsched trace convert writes past jobs into a table of attempts (runs, or waits, of jobs), one a
row, as CSV or as Parquet; gsched db import --format gsched reads it. An export of the own history
(--from-history) that is imported elsewhere makes the same history.

A CSV is UTF-8 text with commas. Its first line is "{HEAD_LINE}": the version of what follows,
{VERSION}. The second line names the columns. A file without the first line, with columns in any
order, can be read too: job_id, submit_time and state are enough. An empty cell is not known. So
that a row is a line, an empty text is \\-, a backslash is \\\\, a control character is \\xHH and a
half of a surrogate pair \\uHHHH.

A Parquet file has the same columns, as 64-bit integers and as text with the same escapes; the
version is in the metadata, key gsched.attempts. Row groups hold some 100,000 rows.

Either may be packed by gzip or zstd. Columns that are not gsched's go into extra. A later version
is refused. Times are UTC epoch seconds."""

_MAP = """\
gsched db import and gsched trace convert read any table of jobs with --format csv and --columns
MAP.toml: CSV with a header (comma, semicolon, tabulator or | between columns), CSV without one, and
JSON, as a list of objects or an object a line. MAP.toml says which column is what. Columns that it
does not use are kept in extra. Names of columns are compared without case. Every mistake in the
file is told with its key before a row is read."""

_KEYS = {
    "layout": 'What the file is: "csv" (default) or "json".',
    "header": "A list: the names of the columns of a CSV without a header row.",
    "delimiter": "One character, with header; else it is a comma, or found by the header row.",
    "timezone": "The zone of times without one (Europe/Berlin); it beats --timezone.",
    "cluster": "The cluster of all rows, unless a field cluster or --cluster says otherwise; "
    "csv-NAME of the file where nothing does.",
    "[fields]": "What the columns are, see below. submit_time is needed.",
    "[requested], [allocated]": "Slurm's names of resources (cpu, mem, gres/gpu:a100): columns of "
    "counts, memory in bytes, "
    f"or with a unit: {', '.join(MEMORY_UNITS)}, or suffix where each cell has its own (50gb).",
    "[states]": "Texts of the state's column: states of Slurm; default is for all others, which "
    "else are UNKNOWN. Without it the texts are Slurm's.",
}

_SPEC = f"""\
A field is the name of a column, or a table with column, or with value for one that is the same in
every row. Further keys are none, a list of texts that mean that nothing is known (empty cells, N/A,
null and their like do so anyway), unit of times and durations ({", ".join(TIME_UNITS)}; of
durations also slurm: D-HH:MM:SS), and format of times, as strptime(3) has it. Without unit and
format a time is epoch seconds or ISO 8601."""

_MAP_FIELDS = {
    "job_id": "A number, 7_3 or 7[3] (array task), 7+1 (het component), or any text, which is "
    "kept as source_id. Without it jobs are numbered by what is told of them.",
    ", ".join(TIMES): "Times.",
    "queueing_s, duration_s": "Waiting and run time, in the place of start_time and end_time. "
    "Without waiting time a job starts when it is submitted.",
    ", ".join(d for d in DURATIONS if d not in ("queueing_s", "duration_s")): "Time limit.",
    "state": "See [states]. Without it jobs that have ended are COMPLETED.",
    ", ".join(COUNTS): "Counts.",
    ", ".join(CODES): "Whole numbers.",
    ", ".join(TEXTS): "Texts.",
    "phase": f"One of {_PHASES}.",
}

_EXAMPLE = """\
# PBS records, exit codes for states
timezone = "America/Indiana/Indianapolis"
cluster = "mason"

[fields]
job_id = "job_id"
user = "user"
name = "job_name"
submit_time = "submit"
queueing_s = { column = "wait", unit = "min", none = ["-1"] }
duration_s = { column = "walltime", unit = "slurm" }
num_gpus = { value = 0 }
state = "exit_status"
exit_code = "exit_status"

[requested]
cpu = "slots"
mem = { column = "mem_req", unit = "suffix" }

[states]
0 = "COMPLETED"
271 = "CANCELLED"
default = "FAILED\""""


def attempts_page() -> str:
    """gsched-attempts(5)."""
    lines = [*head("gsched-attempts", "5", "gsched's own file of past jobs"), ".SH DESCRIPTION"]
    for text in _OWN.split("\n\n"):
        lines += [*paragraph(text), ".PP"]
    lines += listed("COLUMNS", {f"{n} ({_kind(n)})": ABOUT_FIELDS[n] for n in ATTEMPT_FIELDS})
    lines += [".SH SEE ALSO", *paragraph("gsched-trace-convert(1), gsched-db-import(1)")]
    return "\n".join(lines) + "\n"


def columns_page() -> str:
    """gsched-columns(5)."""
    lines = [*head("gsched-columns", "5", "which column is what: MAP.toml"), ".SH DESCRIPTION"]
    lines += [*paragraph(_MAP), *listed("KEYS", _KEYS)]
    lines += [".SH FIELDS", *paragraph(_SPEC)]
    lines += listed("WHAT A FIELD CAN BE", _MAP_FIELDS)
    lines += [".SH EXAMPLE", *verbatim(_EXAMPLE)]
    lines += [".SH SEE ALSO", *paragraph("gsched-db-import(1), gsched-trace-convert(1)")]
    return "\n".join(lines) + "\n"


def _kind(name: str) -> str:
    return "integer" if name in INTEGER_FIELDS else "text"
