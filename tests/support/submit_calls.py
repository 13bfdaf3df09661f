"""Invocations of sbatch, good and bad, for tests/slurm/test_submit_parity.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from support.machine import slurm_release

ANCHOR_ID = 5_000_001
"""A held job that is there while the invocations run; no other number looks like a job's id."""

SCRIPT = "#!/bin/sh\n#SBATCH --job-name=script --comment=script\ntrue\n"
ENV_SCRIPT = '#!/bin/sh\nenv | sort\necho args: "$@"\n'
HET = "#!/bin/sh\n#SBATCH -c1 --comment=a\n#SBATCH hetjob\n#SBATCH -c2 --comment=b\ntrue\n"


@dataclass(frozen=True)
class Call:
    """One invocation. In `argv`, `by_bash` and `env`, {here} is the working folder.

    `by_bash` is a command line for bash in place of `argv`, with `submit` for the program. `code`
    is the exit code expected of both; `said` what gsched adds on stderr; `own` are words that only
    gsched gets, first; `makes` are commands for a shell that prepare the folder; `settles` is what
    the job's record shows once Slurm has looked at the job.
    """

    name: str
    argv: tuple[str, ...] = ("job.sh",)
    script: str | bytes = SCRIPT
    stdin: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    by_bash: str = ""
    code: int = 0
    said: str = ""
    own: tuple[str, ...] = ()
    user: str = "games"
    makes: str = ""
    runs: bool = False
    settles: str = ""


def call(name, argv="job.sh", **options):
    """A Call; `argv` as one text is split at blanks."""
    words = tuple(argv.split()) if isinstance(argv, str) else tuple(argv)
    return Call(name, words, **options)


def script(*lines, end="true"):
    return "".join(f"{line}\n" for line in ("#!/bin/sh", *lines, end))


IN_PATH = {"PATH": "{here}/bin:/usr/bin:/bin"}
LATER = "Reason=BeginTime"
BEHIND = (
    "gsched: warning: --gs-none: an argument of job.sh, no option of this submission; gsched's "
    "options stand before the script\n"
)
LATE = "gsched: warning: job.sh line 3: #SBATCH after the first command (line 2) is void\n"

SCRIPTS = [
    call("plain"),
    call("dot-slash", "./job.sh"),
    call("absolute", "{here}/job.sh"),
    call("below", "sub/job.sh", makes="mkdir sub; mv job.sh sub"),
    call("above", "../parity/job.sh"),
    call("executable", makes="chmod +x job.sh"),
    call("symlink", "link.sh", makes="ln -s job.sh link.sh"),
    call("dangling-symlink", "link.sh", makes="ln -s none link.sh", code=1),
    call("in-path", "x.sh", env=IN_PATH, makes="mkdir bin; mv job.sh bin/x.sh"),
    call("in-path-and-here", "job.sh", env=IN_PATH, makes="mkdir bin; echo >bin/job.sh"),
    call("dot-slash-not-in-path", "./x.sh", env=IN_PATH, makes="mkdir bin; mv job.sh bin/x.sh",
         code=1),
    call("chdir", "-D sub x.sh", makes="mkdir sub; mv job.sh sub/x.sh"),
    call("chdir-dot-slash", "-D sub ./job.sh", makes="mkdir sub"),
    call("chdir-missing", "-D /nonexistent/x job.sh"),
    call("missing", "nosuch.sh", code=1),
    call("directory", "./sub", makes="mkdir sub", code=1),
    call("empty-name", ("",), code=1),
    call("dash", "-", code=1),
    call("blanks-in-name", ("a b.sh",), makes="mv job.sh 'a b.sh'"),
    call("utf8-name", "模型.sh", makes="mv job.sh 模型.sh"),
    call("dash-name", ("--", "-x.sh"), makes="mv job.sh ./-x.sh"),
    call("double-dash", "-H -- job.sh"),
    call("empty", script="", code=1),
    call("blank", script=" \n\n", code=1),
    call("no-shebang", script="true\n", code=1),
    call("shebang-only", script="#!/bin/sh"),
    call("no-last-newline", script="#!/bin/sh\n#SBATCH -J x"),
    call("crlf", script="#!/bin/sh\r\ntrue\r\n", code=1),
    call("nul", script="#!/bin/sh\n\0true\n", code=1),
    call("bom", script="\ufeff#!/bin/sh\ntrue\n", code=1),
    call("binary", script=b"\x7fELF\x02\x01\x01\0\xff\xfe", code=1),
    call("not-utf8", script=b"#!/bin/sh\n#SBATCH -J \xff\xe9\necho \xff\n"),
    call("huge-line", script=script("#" + "x" * 200_000)),
    call("too-big", script=script("#" + "x" * 5_000_000), code=1),
    call(
        "script-arguments",
        ("job.sh", "-p", "nosuch", "--gs-none", ":", "", "a b", "$x", "*"),
        said=BEHIND,
    ),
]  # fmt: skip
STDIN = [
    call("stdin", "", stdin=SCRIPT),
    call("stdin-with-options", "-N1 -J x", stdin=SCRIPT),
    call("stdin-empty", "", code=1),
    call("stdin-no-shebang", "", stdin="true\n", code=1),
    call("stdin-crlf", "", stdin="#!/bin/sh\r\ntrue\r\n", code=1),
    call("stdin-unread", "job.sh", stdin="#!/bin/sh\n#SBATCH -J wrong\n"),
    call("stdin-not-utf8", "", by_bash=r"printf '#!/bin/sh\n#\xff\ntrue\n' | submit"),
    call("stdin-file", by_bash="submit <job.sh"),
    call("stdin-here-document", by_bash="submit -J x <<'EOF'\n#!/bin/sh\necho $HOME\nEOF"),
    call("stdin-closed", by_bash="submit <&-", code=1),
    call("stdin-closed-with-script", by_bash="submit job.sh <&-"),
    call("dev-stdin", by_bash="submit /dev/stdin <job.sh"),
    call("dev-stdin-pipe", by_bash="cat job.sh | submit /dev/stdin"),
    call("process-substitution", by_bash="submit <(cat job.sh) 1 2"),
    call("named-pipe", by_bash="mkfifo p; cat job.sh >p & submit ./p",
         said="gsched: warning: ./p is no regular file: #GSCHED lines in it are not seen\n"),
    call("stdout-closed", by_bash="submit job.sh >&-"),
    call("stderr-closed", by_bash="submit -p nosuch job.sh 2>&-", code=1),
    call("stdout-to-nobody", by_bash="exec 3> >(true); wait $!; submit job.sh >&3",
         code=141),
    call("stdout-full", by_bash="submit job.sh >/dev/full"),
    call("all-closed", by_bash="submit job.sh <&- >&- 2>&-"),
]  # fmt: skip
WRAP = [
    call("wrap", ("--wrap", "echo hi")),
    call("wrap-equals", ("--wrap=echo 'hi' \"$HOME\"\necho 2", "-J", "x")),
    call("wrap-utf8", ("--wrap", "echo 模型 é")),
    call("wrap-with-script", ("--wrap", "true", "job.sh"), code=1),
    call("wrap-colon", "--wrap :", code=255),
    call("wrap-empty", ("--wrap=",)),
    call("wrap-missing", "--wrap", code=255),
    call("wrap-leaves-stdin", ("--wrap", "true"), stdin=SCRIPT),
    call("wrap-abbreviated", ("--wra", "true")),
]
ARRAYS = [
    call(f"array-{text}", ("--array", text, "job.sh"), code=code)
    for text, code in {
        "0-3": 0, "1,3,5-7": 0, "0-15:4": 0, "0-9%2": 0, "1-10:3%1": 0, "7": 0,
        "a": 1, "5-1": 1, "1-": 1, "0-1000000": 1, "1%": 0, "": 0, "1,,2": 0, "-1": 1,
    }.items()
]  # fmt: skip
HETEROGENEOUS = [
    call("het", "-c1 : -c2 job.sh"),
    call("het-three", "-c1 --comment=x : -c2 : -c3 job.sh a b"),
    call("het-wrap", ("-c1", "--wrap", "true", ":", "-c2")),
    call("het-script", script=HET),
    call("het-script-and-line", "-J x : -J y job.sh", script=HET),
    call("het-options-for-all", "-J x job.sh", script=HET),
    call("het-packjob", script=HET.replace("hetjob", "packjob")),
    call("het-colon-first", ": -c2 job.sh"),
    call("het-colon-last", "job.sh :"),
    call("het-glued-colon", "-c1 :job.sh", code=1),
    call("het-array", "--array=1-2 : -c2 job.sh", code=1),
    call("het-bad-component", "-c1 : -p nosuch job.sh", code=1),
    call("het-parsable", "--parsable : -c2 job.sh"),
    call("het-stdin", "-c1 : -c2", stdin=SCRIPT),
]
OPTIONS = [
    call("glued-letters", "-Hpgpu job.sh"),
    call("glued-number", "-N1 -n2 job.sh"),
    call("node-range", "-N 1-2 job.sh"),
    call("time-word", "--time 5 job.sh"),
    call("time-equals", "--time=1-2:03:04 job.sh"),
    call("abbreviation", "--job-n x --part gpu job.sh"),
    call("ambiguous", "--ntasks-per=1 job.sh", code=255),
    call("exact-beats-longer", "--mem=2G job.sh"),
    call("unknown-long", "--nosuch job.sh", code=255),
    call("unknown-long-value", "--nosuch=3 job.sh", code=255),
    call("unknown-short", "-y job.sh", code=255),
    call("missing-value", "-p", code=255),
    call("missing-long-value", "job.sh --partition"),
    call("value-for-a-flag", "--hold=1 job.sh", code=255),
    call("repeated", "-J a -J b --job-name=c job.sh"),
    call("value-like-an-option", "-J --hold job.sh"),
    call("value-like-ours", "-J --gs-none --comment --gs-x=1 job.sh"),
    call("colon-as-value", "-J : job.sh", code=1),
    call("hold", "--hold job.sh"),
    call("nice", "--nice job.sh"),
    call("nice-value", "--nice=5 job.sh"),
    call("nice-separate", "--nice 5 job.sh", code=1),
    call("nice-negative", "--nice=-5 job.sh", code=1),
    call("exclusive", "--exclusive job.sh"),
    call("exclusive-user", "--exclusive=user job.sh"),
    call("no-kill-glued", "-koff job.sh"),
    call("begin", "--begin=2037-01-02T03:04:05 job.sh", settles=LATER),
    call("begin-relative", "--begin now+1hour job.sh", settles=LATER),
    call("begin-bad", "--begin=tomorrowish job.sh", code=255),
    call("deadline-bad", "--deadline=xx job.sh", code=255),
    call("dependency", "-d afterok:{anchor} job.sh"),
    call("dependency-singleton", "--dependency=singleton -J x job.sh"),
    call("dependency-bad", "--dependency=nosuch:1 job.sh", code=1),
    call("comment", ("--comment", 'it\'s "quoted" $x `y` \\', "job.sh")),
    call("comment-utf8", ("--comment=模型 é 🙂", "job.sh")),
    call("comment-newline", ("--comment=a\nb\tc", "job.sh")),
    call("comment-json", ('--comment={"a": [1, 2]}', "job.sh")),
    call("comment-empty", ("--comment=", "job.sh")),
    call("comment-long", ("--comment=" + "x" * 2000, "job.sh"), code=1),
    call("comment-like-a-token", ("--comment=x gs1{none}", "job.sh")),
    call("uid", "--uid=0 job.sh", code=255),
    call("gid", "--gid=0 job.sh", code=255),
    call("uid-by-root", "--uid=games job.sh", user="root"),
    call("root", user="root"),
    call("another-user", user="news"),
    call("output", "-o out-%j.txt -e err/%x -i /dev/zero --open-mode=append job.sh"),
    call("resources", "--gres=gpu:2 -c3 --mem-per-cpu=100 -t 90 job.sh"),
    call("gpus", "-G a100:2 -N1 job.sh"),
    call("gpus-per-node", "--gpus-per-node=2 --ntasks-per-node=2 job.sh"),
    call("nodelist", "-w gn0[1-2] -x gn02 job.sh", code=1),
    call("nodefile", "-F nodes job.sh", makes="echo gn02 >nodes"),
    call("signal", "--signal=B:USR1@60 --requeue job.sh"),
    call("mail", "--mail-type=END,FAIL --mail-user=a@example.org job.sh"),
    call("propagate", "--propagate=NOFILE job.sh"),
    call("bad-partition", "-p nosuch job.sh", code=1),
    call("bad-gres", "--gres=nosuch:1 job.sh", code=1),
    call("bad-time", "-t 5x job.sh", code=255),
    call("bad-memory", "--mem=4X job.sh", code=255),
    call("bad-nodes", "-N 0x job.sh", code=255),
    call("bad-nodelist", "-w gn99 job.sh", code=1),
    call("bad-count", "-n 0 job.sh", code=1),
    call("bad-mail-type", "--mail-type=SOME job.sh", code=255),
    call("bad-signal", "--signal=NOSUCH job.sh", code=255),
    call("bad-reservation", "--reservation=nosuch job.sh", code=1),
    call("bad-constraint", "-C nosuch job.sh", code=1),
    call("bad-license", "-L nosuch job.sh", code=1),
    call("too-many-nodes", "-N 100 job.sh", code=1 if slurm_release() < (24, 0) else 0),
    call("account-anything", "-A lab1 -q normal --wckey=x job.sh"),
    call("gres-help", "--gres=help"),
    call("hint-help", "--hint=help", code=1),
]
ANSWERS = [
    call("parsable", "--parsable job.sh"),
    call("quiet", "-Q job.sh"),
    call("quiet-bad", "-Q -p nosuch job.sh", code=1),
    call("verbose", "-v job.sh"),
    call("very-verbose-bad", "-vv -p nosuch job.sh", code=1),
    call("version", "-V"),
    call("version-wins", "--version -p nosuch --gs-nosuch x"),
    call("usage", "--usage"),
    call("help-by-letter", "-h"),
    call("help-among-others", "-H -h job.sh"),
    call("test-only", "--test-only -p run job.sh"),
    call("test-only-bad", "--test-only -p nosuch job.sh", code=1),
    call("test-only-never", "--test-only -p run -N 100 job.sh", code=1),
    call("test-only-parsable", "--parsable --test-only -p run --wrap true"),
    call("cluster-without-slurmdbd", "-M nosuch job.sh", code=1),
    call("own-cluster-without-slurmdbd", "-M testbed --parsable job.sh", code=1),
]
VARIABLES = [
    call("env-partition", env={"SBATCH_PARTITION": "nosuch"}, code=1),
    call("env-partition-line-wins", "-p gpu job.sh", env={"SBATCH_PARTITION": "nosuch"}),
    call("env-time", env={"SBATCH_TIMELIMIT": "7"}),
    call("env-bad-time", env={"SBATCH_TIMELIMIT": "x"}, code=255),
    call("env-name-beats-script", env={"SBATCH_JOB_NAME": "variable"}),
    call("line-beats-env-beats-script", "-J line job.sh", env={"SBATCH_JOB_NAME": "variable"}),
    call("env-array", env={"SBATCH_ARRAY_INX": "1-3%1"}),
    call("env-gres", env={"SBATCH_GRES": "gpu:1", "SBATCH_ACCOUNT": "lab2", "SBATCH_QOS": "q"}),
    call("env-export", env={"SBATCH_EXPORT": "X,Y=2", "X": "1", "Z": "3"}),
    call("env-output", env={"SBATCH_OUTPUT": "o-%j", "SBATCH_ERROR": "e-%j"}),
    call("env-flag", env={"SBATCH_EXCLUSIVE": "user", "SBATCH_NO_REQUEUE": "1"}),
    call("env-exit-code", "-p nosuch job.sh", env={"SLURM_EXIT_ERROR": "9"}, code=9),
    call("env-cluster", env={"SLURM_CLUSTERS": "nosuch"}, code=1),
    call("env-odd", env={"BASH_FUNC_f%%": "() { :\n}", "é": "\n", "EMPTY": ""}),
    call("export-none", "--export=NONE job.sh", env={"X": "1"}),
    call("export-some", "--export=X,Y=2 job.sh", env={"X": "1", "Z": "3"}),
    call("export-all-and", "--export=ALL,Y=2 job.sh", env={"X": "1"}),
    call("export-file", "--export-file=vars job.sh", makes=r"printf 'A=1\0B=x y\0' >vars"),
    call("export-file-missing", "--export-file=vars job.sh", code=1),
    call("locale-c", env={"LC_ALL": "C"}),
    call("locale-unset", user="root", env={"LC_ALL": "", "LANG": "", "LC_CTYPE": ""}),
    call("locale-posix", user="root", env={"LC_ALL": "", "LANG": "POSIX", "LC_CTYPE": "C"}),
]
DIRECTIVES = [
    call("directives", script=script("#SBATCH -N1 -c 2", "", "# x", "#SBATCH --time 9")),
    call("directive-bad", script=script("#SBATCH --nosuch"), code=255),
    call("directive-extra-word", script=script("#SBATCH -N1 word"), code=255),
    call("directive-unclosed", script=script("#SBATCH --comment='x"), code=1),
    call("directive-late", script=script("true", "#SBATCH --comment=x"), said=LATE),
    call("directive-late-bad", script=script("true", "#SBATCH --nosuch"), said=LATE),
    call("directive-in-here-document", script=script("cat <<E", "#SBATCH -N2", "E")),
    call("directive-slurm", script=script("#SLURM -N2")),
    call("directive-pbs", script=script("#PBS -N pbs", "#BSUB -J bsub")),
    call("directive-ignored-pbs", "--ignore-pbs job.sh", script=script("#PBS -N pbs")),
    call("directive-gsched", script=script("#GSCHED --gs-none", "#SBATCH --comment=x")),
    call("directive-gsched-late", script=script("true", "#GSCHED --gs-none"),
         said=LATE.replace("SBATCH", "GSCHED")),
]  # fmt: skip
OWN = [
    replace(known, name=f"own-{known.name}", own=("--gs-none",))
    for known in (*SCRIPTS, *STDIN, *WRAP, *ARRAYS, *HETEROGENEOUS, *OPTIONS, *ANSWERS, *DIRECTIVES)
    if known.name in {
        "plain", "missing", "missing-value", "script-arguments", "stdin", "wrap", "wrap-colon",
        "array-0-9%2", "het-three", "het-wrap", "het-script-and-line", "double-dash",
        "colon-as-value", "comment", "comment-utf8", "comment-newline", "test-only", "version",
        "usage", "parsable", "process-substitution", "directives", "directive-late", "unknown-long",
    }
]  # fmt: skip
SITE = [  # see LUA
    call("banner", "-J banner job.sh"),
    call("banner-parsable", "--parsable -J banner job.sh"),
    call("refused-by-filter", "-J filtered job.sh", code=1),
    call("refused-by-site", "-J refused job.sh", code=1),
    call("told-by-site", "-J told job.sh"),
    call("test-only-refused", "--test-only -J refused job.sh", code=1),
]
ENDED = [
    call("run", "-p run -t 5 -w gn01 job.sh 1 2", script=ENV_SCRIPT, runs=True),
    call("run-export-none", "-p run -t 5 -w gn01 --export=NONE job.sh", script=ENV_SCRIPT,
         runs=True),
    call("run-name-pattern", "-p run -t 5 -w gn01 -J x -o o-%x-%u-%j job.sh", script=ENV_SCRIPT,
         runs=True),
    call("run-in-chdir", "-p run -t 5 -w gn01 -D sub job.sh", script=ENV_SCRIPT,
         makes="mkdir -m777 sub; cp job.sh sub", runs=True),
    call("run-array", "-p run -t 5 -w gn01 -a 1-2%1 job.sh",
         script=script(end="echo $SLURM_ARRAY_TASK_ID"), runs=True),
    call("wait", ("-W", "-p", "run", "-t", "5", "--wrap", "exit 42"), code=42, runs=True),
    call("wait-array",
         ("-W", "-p", "run", "-t", "5", "-a", "0-2", "--wrap", "exit $SLURM_ARRAY_TASK_ID"), code=2,
         runs=True),
    call("wait-by-variable", ("-p", "run", "-t", "5", "--wrap", "exit 3"),
         env={"SBATCH_WAIT": "1"}, code=3, runs=True),
]  # fmt: skip
CALLS = [
    *SCRIPTS, *STDIN, *WRAP, *ARRAYS, *HETEROGENEOUS, *OPTIONS, *ANSWERS, *VARIABLES, *DIRECTIVES,
    *OWN, *SITE, *ENDED,
]  # fmt: skip
WITH_ACCOUNTS = [
    call("cluster", "-M testbed job.sh"),
    call("cluster-parsable", "-M testbed --parsable job.sh"),
    call("cluster-unknown", "-M nosuch job.sh", code=1),
    call("cluster-by-variable", "--parsable job.sh", env={"SLURM_CLUSTERS": "testbed"}),
    call("cluster-all", "-M all job.sh"),
    call("account", "-A lab1 job.sh"),
    call("account-of-others", "-A lab2 job.sh", code=1),
    call("account-unknown", "-A nosuch job.sh", code=1),
    call("qos-unknown", "-q nosuch job.sh", code=1),
]
