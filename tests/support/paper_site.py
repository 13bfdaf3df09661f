"""A site on paper: Slurm's commands print what a real Slurm has printed; all else is real.

For what doctor reads from Slurm's text alone. A planting changes a line of the text; a mend of
slurm.conf changes it back in the way that doctor's words say.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

from gsched.app.doctor import Finding, examine
from gsched.slurm.parse_preemption import QOS_FIELDS
from gsched_sql import History

DATA = Path(__file__).parents[1] / "data" / "slurm"
SOUND = {
    "22.05": {"SlurmctldParameters": "preempt_send_user_signal"},
    "24.11": {"PreemptParameters": "send_user_signal"},
}
"""What the recorded clusters lacked for a site without a finding, beside bf_continue."""
_SILENT = ("sbatch", "squeue", "sprio", "scancel", "sacct")


class PaperSite:
    """Slurm `release` on paper, and a state folder with a fresh history."""

    def __init__(self, folder: Path, release: str = "22.05") -> None:
        self.folder = folder
        self.state = folder / "state"
        self.settings: dict[str, dict[str, str]] = {
            "slurm": {"command_timeout_s": "20"},
            "predict": {"estimator": '"constant"'},
            "jobscript": {"dir": f'"{folder}/templates"', "python": '"/bin/true"'},
        }
        self.environ = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "TZ": "UTC"}
        (folder / "bin").mkdir()
        for name in ("config", "partitions", "nodes"):
            self.write(name, (DATA / release / f"{name}.txt").read_text())
        self.write("federation", "There are no federations.\n")
        self.write("adminlevel", "Operator\n")
        self.write("accounts", "lab1\nlab2\nroot\n")
        self.write("sdiag", (DATA / "22.05" / "sdiag.txt").read_text())
        self.set_clock(0)
        for key, value in SOUND[release].items():
            self.set(key, value)
        self.set("SchedulerParameters", "bf_continue")
        self.set("KillWait", "30 sec")
        self._commands()
        History.create(f"sqlite:///{self.state}/history.db")

    def examine(self) -> list[Finding]:
        """What doctor finds."""
        tables = [
            "\n".join([f"[{name}]", *(f"{key} = {value}" for key, value in values.items())])
            for name, values in self.settings.items()
        ]
        text = "\n".join([f'state_dir = "{self.state}"', *tables, ""])
        config = self.folder / "gsched.toml"
        config.write_text(text)
        return examine({**self.environ, "GSCHED_CONFIG": str(config)})

    def complaints(self) -> dict[str, Finding]:
        """Findings that are not ``ok``, by code."""
        return {f.code: f for f in self.examine() if f.level != "ok"}

    def configure(self, table: str, **values: str) -> None:
        """Set keys of gsched's configuration (values as TOML)."""
        self.settings.setdefault(table, {}).update(values)

    # -- Slurm's texts ----------------------------------------------------------------------

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.txt"

    def write(self, name: str, text: str) -> None:
        self.path(name).write_text(text)

    def get(self, key: str) -> str:
        """A value of ``scontrol show config``."""
        found = re.search(rf"^{key} *= (.*)$", self.path("config").read_text(), re.MULTILINE)
        assert found, key
        return found[1]

    def set(self, key: str, value: str) -> None:
        """Change a value of ``scontrol show config``."""
        text, number = re.subn(
            rf"^({key} *= ).*$", rf"\g<1>{value}", self.path("config").read_text(), flags=re.M
        )
        assert number == 1, key
        self.write("config", text)

    def set_partition(self, name: str, key: str, value: str) -> None:
        """Change a value of ``scontrol show partition``."""
        lines = self.path("partitions").read_text().split("\n")
        lines = [
            re.sub(rf" {key}=\S*", f" {key}={value}", line)
            if line.startswith(f"PartitionName={name} ")
            else line
            for line in lines
        ]
        self.write("partitions", "\n".join(lines))

    def set_clock(self, ahead_s: int) -> None:
        """Let slurmctld's clock be so far ahead of this host's."""
        script = f"sed 's/(1[0-9]*)$/('$(($(date +%s) + {ahead_s}))')/' {self.path('sdiag')}"
        path = self.folder / "bin" / "sdiag"
        path.write_text(f"#!/bin/sh\necho sdiag >> {self.folder}/asked.txt\n{script}\n")
        path.chmod(0o755)

    def set_pending(self, number: int) -> None:
        """So many jobs wait."""
        text = self.path("sdiag").read_text()
        self.write("sdiag", re.sub(r"(Jobs pending: *)\d+", rf"\g<1>{number}", text))

    def _commands(self) -> None:
        answers = {
            "scontrol": {
                "show config": "config",
                "-a -o show partition": "partitions",
                "-a -o show node": "nodes",
                "show federation": "federation",
            },
            "sacctmgr": {
                "-n -P show cluster format=cluster": "accounts",
                "-n -P show account format=account": "accounts",
                f"-n -P show qos format={QOS_FIELDS}": "qos",
                "-n -P show user where name=*format=adminlevel": "adminlevel",
            },
        }
        for name in _SILENT:
            self.command(name, {})
        for name, texts in answers.items():
            self.command(name, texts)

    def command(self, name: str, answers: Mapping[str, str]) -> None:
        """A command that prints a text for each line of words, and counts its calls."""
        cases = [
            f"{shlex.quote(words).replace('*', chr(39) + '*' + chr(39))}) cat {self.path(text)};;"
            for words, text in answers.items()
        ]
        lines = [
            "#!/bin/sh",
            f'echo "{name} $*" >> {self.folder}/asked.txt',
            'case "$*" in',
            *cases,
            f'*) echo "{name}: unexpected: $*" >&2; exit 9;;',
            "esac",
        ]
        path = self.folder / "bin" / name
        path.write_text("\n".join([*lines, ""]))
        path.chmod(0o755)

    def asked(self) -> list[str]:
        """Every command line so far."""
        return (self.folder / "asked.txt").read_text().splitlines()

    # -- doing what doctor says -------------------------------------------------------------

    def follow(self, mend: str) -> None:
        """Do what a mend says of slurm.conf, from its words."""
        if found := re.search(r"set (\w+)=(\w+) in (\w+) of slurm.conf", mend):
            self._set_flag(found[3], found[1], found[2])
        elif found := re.search(r"add (\S+) to (\w+)(?: in|,|;) ?slurm.conf", mend):
            self._add(found[2], found[1])
        elif found := re.search(r"set (\w+)(?:=| to )(\S+?)(?: or \w+)? in slurm.conf", mend):
            self.set(found[1], found[2])
        else:
            raise AssertionError(f"not a mend of slurm.conf: {mend}")

    def _set_flag(self, key: str, flag: str, value: str) -> None:
        kept = [item for item in self.get(key).split(",") if item.partition("=")[0] != flag]
        self.set(key, ",".join([*kept, f"{flag}={value}"]))

    def _add(self, key: str, flag: str) -> None:
        kept = [item for item in self.get(key).split(",") if item != "(null)"]
        self.set(key, ",".join([*kept, flag]))


def carry_out(mend: str) -> None:
    """Run the one command that a mend names, whole or in backticks."""
    quoted = re.search(r"`([^`]+)`", mend)
    subprocess.run(shlex.split(quoted[1] if quoted else mend), check=True)
