"""The testbed itself: a real Slurm comes up, serves several users, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import gsched
from gsched.errors import PermissionDeniedError, TryAgainError, UnavailableError
from gsched.testbed import layout, loopback, processes
from gsched.testbed.cluster import Testbed, look_at
from gsched.testbed.processes import MARK
from gsched.testbed.spec import TestbedSpec
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

GSCHED = str(Path(sys.executable).parent / "gsched")
FreshBed = Callable[..., Testbed]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can reach, as pytest's own is not."""
    path = Path(tempfile.mkdtemp(prefix="gsched-test-", dir="/var/tmp"))
    yield path
    shutil.rmtree(path)


def gsched_testbed(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [GSCHED, "testbed", *words], capture_output=True, text=True, timeout=120, check=False
    )


def pids_naming(text: str | Path) -> dict[int, str]:
    """Processes with `text` in their command line, environment or working folder, found by hand."""
    found = {}
    ours = {os.getpid(), os.getppid()}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in ours:
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            environ = (entry / "environ").read_bytes()
            folder = os.fsencode((entry / "cwd").readlink())
        except OSError:
            continue  # ended meanwhile
        if str(text).encode() in b"\0".join((command, environ, folder)):
            found[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def listening_addresses(pids: set[int]) -> set[tuple[str, int]]:
    """(address in hex, port) of every TCP socket on which one of `pids` listens."""
    inodes = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = str(descriptor.readlink())
            except FileNotFoundError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    addresses = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                address, port = fields[1].split(":")
                addresses.add((address, int(port, 16)))
    return addresses


def submit(bed: Testbed, user: str | None, *words: str) -> int:
    answer = bed.run(["sbatch", "--parsable", *words], user)
    assert answer.returncode == 0, answer.stderr
    return int(answer.stdout)


def job_state(bed: Testbed, job: int) -> str:
    return bed.run(["squeue", "-h", "-t", "all", "-j", str(job), "-o", "%T"]).stdout.strip()


def wait_for_state(bed: Testbed, job: int, state: str) -> None:
    wait_for(lambda: job_state(bed, job) == state, f"job {job} to be {state}")


def block_of(bed: Testbed) -> range:
    base = bed.status().base_port
    assert base is not None
    return range(base, base + bed.spec.num_ports)


def listeners(ports: range) -> set[str]:
    """Sockets (inode numbers) that listen on some of `ports`; see proc(5).

    By socket and not by port: a testbed that starts beside this one may take a port as soon as it
    is free.
    """
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[9] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) in ports}


def test_eight_nodes_of_typed_gpus_come_up_idle(
    fresh_bed: FreshBed, record_property: Callable[[str, object], None]
) -> None:
    bed = Testbed.temporary(num_nodes=8)
    started = bed.start()
    try:
        record_property("start_s", round(started.duration_s, 3))
        print(f"8 nodes idle after {started.duration_s:.2f} s")
        nodes = bed.run(["sinfo", "-h", "-N", "-o", "%N %t %c %m %G"]).stdout.splitlines()
    finally:
        bed.stop()
        bed.remove()
    assert nodes == [f"gn{i:02d} idle 64 512000 gpu:a100:8" for i in range(1, 9)]


def test_each_user_has_a_home_a_queue_entry_and_no_power_over_others(bed: Testbed) -> None:
    jobs = {
        user: submit(bed, user, "-A", f"free-{user}", "--gres=gpu:8", "--wrap", "sleep 60")
        for user in ("games", "news", "backup", "mail")
    }
    rows = bed.run(["squeue", "-h", "-o", "%A %u %a"]).stdout.splitlines()
    assert sorted(rows) == sorted(f"{job} {user} free-{user}" for user, job in jobs.items())
    refused = bed.run_as("games", ["scancel", str(jobs["news"])])
    assert "Access/permission denied" in refused.stderr
    assert bed.run_as("games", ["scancel", str(jobs["games"])]).returncode == 0
    wait_for_state(bed, jobs["games"], "CANCELLED")
    assert job_state(bed, jobs["news"]) in ("PENDING", "RUNNING")


def test_a_command_runs_as_its_user_alone_and_without_foreign_slurm_variables(
    bed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBATCH_PARTITION", "elsewhere")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    monkeypatch.setenv("GSCHED_STATE_DIR", "/elsewhere")
    answer = bed.run_as("news", ["sh", "-c", "id -un; id -Gn; pwd; echo $HOME $USER; env"])
    home = str(bed.layout.home("news"))
    lines = answer.stdout.splitlines()
    assert lines[:4] == ["news", "news", home, f"{home} news"]
    variables = dict(line.split("=", 1) for line in lines[4:] if "=" in line)
    foreign = {"SBATCH_PARTITION", "SLURM_JOB_ID", "SQUEUE_FORMAT", "GSCHED_STATE_DIR"}
    assert not foreign & set(variables)
    assert variables["SLURM_CONF"] == str(bed.layout.slurm_conf)
    assert variables["GSCHED_CONFIG"] == str(bed.layout.gsched_toml)


def test_a_job_sees_the_gpus_that_it_asked_for(bed: Testbed) -> None:
    script = "echo devices=$CUDA_VISIBLE_DEVICES"
    first = submit(bed, "games", "-w", "gn01", "--gres=gpu:a100:3", "--wrap", f"{script}; sleep 60")
    wait_for_state(bed, first, "RUNNING")
    second = submit(bed, "games", "-w", "gn01", "--gpus=a100:2", "--wrap", script)
    wait_for_state(bed, second, "COMPLETED")
    outputs = [
        (bed.layout.home("games") / f"slurm-{job}.out").read_text() for job in (first, second)
    ]
    assert outputs == ["devices=0,1,2\n", "devices=3,4\n"]
    unknown = bed.run_as("games", ["sbatch", "--gres=gpu:h100:1", "--wrap", "true"])
    assert unknown.returncode != 0


def test_pending_jobs_have_a_base_priority_that_site_factors_cannot_reach(bed: Testbed) -> None:
    submit(bed, "games", "-N4", "--gres=gpu:8", "--wrap", "sleep 60")
    waiting = submit(bed, "games", "-N4", "--gres=gpu:8", "--wrap", "sleep 60")
    priority = bed.run(["squeue", "-h", "-j", str(waiting), "-o", "%Q"]).stdout.strip()
    assert 1_000_000 <= int(priority) < 1_100_000


def test_finished_jobs_are_on_record_and_gsched_is_told_where(bed: Testbed) -> None:
    job = submit(bed, "news", "-J", "on-record", "--wrap", "true")
    wait_for(
        lambda: f"JobId={job} UserId=news" in bed.layout.jobcomp_file.read_text(),
        f"job {job} in {bed.layout.jobcomp_file}",
    )
    toml = bed.layout.gsched_toml.read_text()
    assert f'state_dir = "{bed.layout.root}/gsched"' in toml
    assert f'jobcomp_file = "{bed.layout.jobcomp_file}"' in toml
    assert (bed.layout.root / "gsched").stat().st_mode & 0o777 == 0o755


def test_everything_listens_on_loopback_only(fresh_bed: FreshBed) -> None:
    bed = fresh_bed(num_nodes=2)
    with subprocess.Popen(["srun", "-N2", "sleep", "60"], env=bed.env()) as srun:
        try:
            step = ["squeue", "-h", "-s", "-o", "%i"]
            wait_for(lambda: ".0" in bed.run(step).stdout, "the step of srun")
            found = listening_addresses(set(pids_naming(bed.layout.root)))
        finally:
            srun.kill()
    assert {port for _, port in found} >= {block_of(bed)[0], block_of(bed)[3], block_of(bed)[4]}
    assert len(found) > 3, "srun itself should listen as well"
    assert {address for address, _ in found} == {"0100007F"}


def test_a_stop_leaves_no_process_no_listener_and_no_folder(fresh_bed: FreshBed) -> None:
    bed = fresh_bed(num_nodes=2)
    stubborn = "trap '' TERM; setsid sleep 600 & while :; do sleep 600; done"
    job = submit(bed, "games", "--wrap", stubborn)
    ordinary = submit(bed, "news", "--wrap", "sleep 600")
    pending = submit(bed, "news", "-N2", "--exclusive", "--wrap", "sleep 600")
    wait_for_state(bed, ordinary, "RUNNING")
    wait_for(lambda: "sleep 600" in str(pids_naming(bed.layout.slurm_conf)), f"job {job} to run")
    ports = block_of(bed)
    listening = listeners(ports)
    assert len(listening) >= 3  # slurmctld and two slurmd
    assert len(pids_naming(bed.layout.root)) >= 8
    assert bed.stop() >= 8
    assert pids_naming(bed.layout.root) == {}
    assert not listening & listeners(ports)
    record = bed.layout.jobcomp_file.read_text()
    assert f"JobId={ordinary} " in record
    assert f"JobId={pending} " in record
    assert bed.stop() == 0
    assert look_at(bed.layout.root).state == "stopped"


def test_a_shell_that_only_exported_the_variables_survives_a_stop(fresh_bed: FreshBed) -> None:
    bed = fresh_bed(num_nodes=1)
    variables = {**os.environ, "SLURM_CONF": str(bed.layout.slurm_conf)}
    argv = ["tail", "-f", str(bed.layout.log / "slurmctld.log")]
    with subprocess.Popen(argv, env=variables, stdout=subprocess.DEVNULL) as bystander:
        try:
            bed.stop()
            assert bystander.poll() is None
        finally:
            bystander.kill()


def test_a_testbed_of_the_same_path_in_a_container_is_not_touched(folder: Path) -> None:
    script = "import os, sys; os.chroot(sys.argv[1]); print('ready', flush=True); input()"
    variables = {**os.environ, MARK: str(folder / "bed")}
    argv = [sys.executable, "-c", script, str(folder)]
    with subprocess.Popen(
        argv, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as inside:
        assert inside.stdout is not None
        assert inside.stdout.readline() == b"ready\n"
        assert processes.find(folder / "bed") == []
        inside.kill()


def test_two_testbeds_started_at_once_do_not_meet() -> None:
    command = [GSCHED, "testbed", "run", "--nodes", "2", "--", "sh", "-c"]
    script = "scontrol show config | grep SlurmctldPort; sinfo -h -o '%D %t'; sleep 0.5"
    running = [
        subprocess.Popen([*command, script], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    outputs = [process.communicate(timeout=60)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert all(output.endswith("2 idle\n") for output in outputs)
    assert len({output.splitlines()[0] for output in outputs}) == 3


def test_a_port_in_use_is_named(fresh_bed: FreshBed) -> None:
    base = block_of(fresh_bed(num_nodes=1))[0]
    bed = Testbed.temporary(num_nodes=1, base_port=base)
    with pytest.raises(UnavailableError, match=f"port {base} on 127.0.0.1 is in use"):
        bed.start()
    assert not bed.layout.root.exists()


def blocked_signals(bed: Testbed, node: str) -> set[int]:
    """Signals that a node's slurmd does not get."""
    (pid,) = [p.pid for p in bed.status().processes if p.argv[-2:] == ("-N", node)]
    status = Path(f"/proc/{pid}/status").read_text()
    mask = int(status.partition("SigBlk:")[2].split()[0], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def test_nodes_power_down_and_wake_and_a_woken_one_still_stops(fresh_bed: FreshBed) -> None:
    bed = fresh_bed(num_nodes=2)
    node = ["scontrol", "update", "nodename=gn02"]
    bed.run([*node, "state=power_down"])
    wait_for(lambda: bed.status().nodes.get("gn02") == "idle~", "gn02 to sleep")
    assert not any("slurmd -N gn02" in line for line in pids_naming(bed.layout.root).values())
    bed.run([*node, "state=power_up"])
    wait_for(lambda: bed.status().nodes.get("gn02") == "idle", "gn02 to wake")
    assert signal.SIGTERM not in blocked_signals(bed, "gn02")
    awake = bed.run_as("games", ["srun", "-N2", "--gres=gpu:8", "printenv", "SLURMD_NODENAME"])
    assert sorted(awake.stdout.split()) == ["gn01", "gn02"]
    actions = (bed.layout.log / "power.log").read_text().split()
    assert actions[1:3] + actions[4:6] == ["suspend", "gn02", "resume", "gn02"]
    bed.stop()
    assert pids_naming(bed.layout.root) == {}


def test_slurmctld_can_be_restarted_and_killed_under_running_jobs(fresh_bed: FreshBed) -> None:
    bed = fresh_bed(num_nodes=2)
    job = submit(bed, "games", "--wrap", "sleep 600")
    wait_for_state(bed, job, "RUNNING")
    bed.restart_slurmctld()
    assert job_state(bed, job) == "RUNNING"
    bed.kill_slurmctld()
    assert "DOWN" in bed.run(["scontrol", "ping"]).stdout
    assert bed.status().state == "incomplete"
    bed.start_slurmctld()
    assert job_state(bed, job) == "RUNNING"
    assert bed.status().nodes == {"gn01": "mixed", "gn02": "idle"}


def test_slurmdbd_keeps_accounts_and_history_over_a_restart(fresh_bed: FreshBed) -> None:
    bed = fresh_bed(num_nodes=2, accounting="slurmdbd")
    rows = bed.run(["sacctmgr", "-nP", "show", "assoc", "format=account,user"]).stdout.split()
    assert {"lab1|games", "lab1|news", "lab2|backup", "lab2|mail"} <= set(rows)
    admins = bed.run(["sacctmgr", "-nP", "show", "user", "format=user,adminlevel"]).stdout.split()
    assert "root|Administrator" in admins
    foreign = bed.run_as("games", ["sbatch", "-A", "lab2", "--wrap", "true"])
    assert "Invalid account" in foreign.stderr
    job = submit(bed, "mail", "--gres=gpu:a100:2", "--wrap", "true")
    ask = ["sacct", "-aXnP", "-S", "now-1hours", "-o", "jobid,user,account,state,alloctres"]

    def history() -> str:
        return bed.run(ask).stdout

    wait_for(lambda: "COMPLETED" in history(), f"sacct to show job {job}")
    assert history().startswith(f"{job}|mail|lab2|COMPLETED|")
    assert "gres/gpu:a100=2" in history()
    assert {address for address, _ in listening_addresses(set(pids_naming(bed.layout.root)))} == {
        "0100007F"
    }
    assert (bed.layout.etc / "slurmdbd.conf").stat().st_mode & 0o777 == 0o600
    intruder = bed.run_as(
        "games", ["mariadb", "--no-defaults", "-h127.0.0.1", f"-P{block_of(bed)[2]}", "-uroot"]
    )
    assert "Access denied" in intruder.stderr
    bed.stop()
    assert not bed.start().already_running
    assert history().startswith(f"{job}|mail|lab2|COMPLETED|")


def test_one_user_alone_can_have_a_testbed(folder: Path) -> None:
    """As root, this test goes through another user; gsched.testbed needs nothing but itself."""
    source = Path(gsched.__file__).parent
    shutil.copytree(source, folder / "lib" / "gsched", ignore=shutil.ignore_patterns("__pycache__"))
    home = folder / "home"
    home.mkdir()
    folder.chmod(0o755)
    user = pwd.getpwnam("games" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name)
    os.chown(home, user.pw_uid, user.pw_gid)
    script = (
        "from pathlib import Path; from gsched.testbed.cluster import Testbed;"
        "from gsched.testbed.spec import TestbedSpec;"
        f"bed = Testbed(TestbedSpec(root=Path('{home}/bed'), num_nodes=2)); bed.start();"
        "print(bed.run(['sbatch', '--wait', '--gres=gpu:1', '-o', 'out', '--wrap', 'id -un']));"
        "print((bed.layout.home(bed.run(['id', '-un']).stdout.strip()) / 'out').read_text());"
        "print(bed.stop())"
    )
    argv = ["/usr/bin/python3", "-c", script]
    if os.getuid() == 0:
        groups = (f"--regid={user.pw_gid}", "--clear-groups")
        argv = ["setpriv", f"--reuid={user.pw_uid}", *groups, *argv]
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(folder / "lib"), "HOME": str(home)}
    answer = subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines()[-3] == user.pw_name
    assert pids_naming(home) == {}


def test_folders_of_others_and_folders_with_files_are_refused(folder: Path) -> None:
    (folder / "precious").write_text("keep me")
    answer = gsched_testbed("start", "--root", str(folder))
    assert answer.returncode == 2
    assert "is not a testbed" in answer.stderr
    assert gsched_testbed("stop", "--remove", "--root", str(folder)).returncode == 2
    assert [entry.name for entry in folder.iterdir()] == ["precious"]
    theirs = folder / "theirs"
    theirs.mkdir()
    os.chown(theirs, pwd.getpwnam("games").pw_uid, -1)
    with pytest.raises(PermissionDeniedError, match="belongs to user"):
        Testbed(TestbedSpec(root=theirs)).start()
    with pytest.raises(PermissionDeniedError, match="can be changed by others"):
        Testbed(TestbedSpec(root=theirs / "below")).start()


def test_a_daemon_that_dies_is_reported_with_its_last_words(folder: Path) -> None:
    bed = Testbed(TestbedSpec(root=folder / "bed", extra_conf=("SelectType=select/nonsense",)))
    folder.chmod(0o755)
    with pytest.raises(UnavailableError, match=r"slurmctld did not start: .*nonsense") as failure:
        bed.start()
    assert str(bed.layout.log) in failure.value.hint
    assert pids_naming(bed.layout.root) == {}


def test_start_status_and_stop_of_a_testbed_that_stays(folder: Path) -> None:
    folder.chmod(0o755)
    here = ("--root", str(folder / "bed"))
    assert gsched_testbed("status", *here).returncode == 3
    started = gsched_testbed("start", "--nodes", "2", *here)
    assert started.returncode == 0, started.stderr
    try:
        shell = 'eval "$1"; sinfo -h -o "%D %t"; echo "$GSCHED_CONFIG"'
        used = subprocess.run(
            ["sh", "-c", shell, "sh", started.stdout], capture_output=True, text=True, check=True
        )
        assert used.stdout.splitlines() == ["2 idle", f"{folder}/bed/etc/gsched.toml"]
        status = json.loads(gsched_testbed("status", "--json", *here).stdout)
        assert status["state"] == "running"
        assert status["nodes"] == {"gn01": "idle", "gn02": "idle"}
        assert {p["pid"] for p in status["processes"]} == set(pids_naming(folder / "bed"))
        again = gsched_testbed("start", "--nodes", "2", *here)
        assert (again.returncode, again.stdout) == (0, started.stdout)
        assert "runs already" in again.stderr
        other = gsched_testbed("start", "--nodes", "3", *here)
        assert other.returncode == 75
        assert "num_nodes: 2 → 3" in other.stderr
        inside = gsched_testbed("run", *here, "--", "sh", "-c", "exit 9")
        assert inside.returncode == 9
        assert json.loads(gsched_testbed("status", "--json", *here).stdout) == status
    finally:
        stopped = gsched_testbed("stop", "--remove", *here)
    assert stopped.returncode == 0, stopped.stderr
    assert pids_naming(folder / "bed") == {}
    assert not (folder / "bed").exists()


def test_a_start_while_another_start_or_stop_is_at_work_is_refused(folder: Path) -> None:
    folder.chmod(0o755)
    bed = Testbed(TestbedSpec(root=folder / "bed", num_nodes=1))
    (folder / "bed").mkdir()
    with layout.exclusive(bed.layout), pytest.raises(TryAgainError, match="another gsched"):
        bed.start()


def test_what_a_kill_left_in_a_folder_is_cleared_by_the_next_start_there(folder: Path) -> None:
    folder.chmod(0o755)
    here = ("--root", str(folder / "bed"), "--nodes", "2")
    bed = Testbed(TestbedSpec(root=folder / "bed", num_nodes=2))
    assert gsched_testbed("start", *here).returncode == 0
    try:
        job = submit(bed, "games", "--wrap", "sleep 600")
        wait_for_state(bed, job, "RUNNING")
        left = set(pids_naming(folder / "bed"))
        for pid, command in pids_naming(folder / "bed").items():
            if command.startswith(("slurmctld", "slurmstepd")):
                os.kill(pid, signal.SIGKILL)
        again = gsched_testbed("start", *here)
        assert again.returncode == 0, again.stderr
        assert "that an earlier testbed had left" in again.stderr
        assert not left & set(pids_naming(folder / "bed"))
        assert bed.run(["squeue", "-h"]).stdout == ""
    finally:
        assert gsched_testbed("stop", *here[:2]).returncode == 0


def test_run_passes_code_output_and_arguments_on() -> None:
    answer = gsched_testbed(
        "run", "--nodes", "1", "--", "sh", "-c", 'echo "$@"; exit 7', "x", "a b"
    )
    assert (answer.returncode, answer.stdout) == (7, "a b\n")
    killed = gsched_testbed("run", "--nodes", "1", "--", "sh", "-c", "kill -KILL $$")
    assert killed.returncode == 128 + signal.SIGKILL
    missing = gsched_testbed("run", "--", "no-such-command")
    assert missing.returncode == 127
    assert missing.stderr == "gsched: error: command not found: no-such-command\n"


def started_run(script: str, *prefix: str) -> tuple[subprocess.Popen[str], Path]:
    """A `testbed run` whose command has said where its testbed lies."""
    command = f'echo "$SLURM_CONF"; {script}'
    heeding = ("env", "--default-signal=INT")  # a test run in the background ignores it
    process = subprocess.Popen(
        [*heeding, *prefix, GSCHED, "testbed", "run", "--nodes", "2", "--", "sh", "-c", command],
        stdin=subprocess.DEVNULL,  # a terminal would send ^C to the command itself
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    root = Path(process.stdout.readline().strip()).parent.parent
    assert layout.Layout(root).record.exists()
    return process, root


@contextmanager
def ended(
    process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM
) -> Iterator[None]:
    """Send a signal at the end of the block, however it ends, and wait for the process."""
    with process:
        try:
            yield
        finally:
            process.send_signal(number)


def test_a_machine_whose_name_is_not_local_still_listens_on_loopback_only() -> None:
    prefix = ["unshare", "--uts", "sh", "-c", 'hostname elsewhere.invalid && exec "$@"', "sh"]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        # a container that may not rename itself; every other test here has met the case then
        assert not loopback.is_local_name()
        prefix = []
    process, root = started_run("srun -N2 sleep 600", *prefix)
    with ended(process):
        wait_for(lambda: "slurmstepd: [1.0]" in str(pids_naming(root)), "the step of srun")
        found = listening_addresses(set(pids_naming(root)))
    assert len(found) > 3, "srun itself should listen as well"
    assert {address for address, _ in found} == {"0100007F"}
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_run_cleans_up_when_it_gets_a_signal(number: signal.Signals) -> None:
    process, root = started_run("sleep 600 & wait")
    with ended(process, number):
        pass
    assert process.returncode == 128 + number
    assert pids_naming(root) == {}
    assert not root.exists()


def test_what_a_killed_run_leaves_is_cleared_by_the_next_start_of_any() -> None:
    process, root = started_run("sbatch -o /dev/null --wait --wrap 'sleep 600'")
    with ended(process, signal.SIGKILL):
        wait_for(lambda: "slurm_script" in str(pids_naming(root)), "the job to run")
    assert look_at(root).state == "abandoned"
    orphans = pids_naming(root)
    assert any(command.startswith("slurmctld") for command in orphans.values())
    assert any("slurm_script" in command for command in orphans.values())
    assert gsched_testbed("run", "--nodes", "1", "--", "true").returncode == 0
    assert pids_naming(root) == {}
    assert not root.exists()
