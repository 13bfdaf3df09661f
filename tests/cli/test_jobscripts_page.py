"""gsched-jobscripts(7) against the program: templates, keys, variables, the example."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gsched import launch
from gsched.ckpt.writer.start import SOCKET_VARIABLE
from gsched.jobscript.render import Surroundings, UserScript, render
from gsched.jobscript.templates import PACKAGED, SUFFIX, Library
from gsched.telemetry.job_environment import FOLDER_VARIABLE, OF_JOB_VARIABLE

PAGE = Path(__file__).parents[2] / "man" / "man7" / "gsched-jobscripts.7"
_EXAMPLE = re.compile(r'^\.\\" example template\n\.nf\n(.*?)^\.fi\n\.\\" end$', re.M | re.S)
_VARIABLE = re.compile(r"GSCHED_[A-Z_]*[A-Z]\b")
_NAMED_ELSEWHERE = {SOCKET_VARIABLE, FOLDER_VARIABLE, OF_JOB_VARIABLE}


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text().replace("\\-", "-").replace("\\e", "\\")


def section(page: str, title: str) -> str:
    return page.partition(f"\n.SH {title}\n")[2].partition("\n.SH ")[0]


def test_every_template_and_every_key_is_on_the_page(page: str) -> None:
    text = section(page, "TEMPLATES")
    library = Library("/nowhere")
    told = re.findall(r"^\.TP\n(.+)$", text, re.M)
    assert sorted(told) == library.names()
    for name in library.names():
        own = (PACKAGED / f"{name}{SUFFIX}").read_text()
        of_it = text.partition(f".TP\n{name}\n")[2].partition("\n.TP\n")[0]
        for key in re.findall(r"^\[keys\.(\w+)\]", own, re.M):
            assert re.search(rf"\b{key}\b", of_it), (name, key)


def test_every_variable_of_a_job_is_on_the_page(page: str) -> None:
    """What the launcher and the templates name, but for what only gsched's own hooks go by."""
    files = [*Path(launch.__file__).parent.glob("*.py"), *PACKAGED.glob(f"*{SUFFIX}")]
    named = {word for file in files for word in _VARIABLE.findall(file.read_text())}
    own = {word for word in named if re.search("PROLOG|EPILOG|PYTHON|RANKS|SAMPLED|NEXT", word)}
    assert set(_VARIABLE.findall(section(page, "ENVIRONMENT"))) == named - own | _NAMED_ELSEWHERE


def test_its_template_is_one(page: str, tmp_path: Path) -> None:
    found = _EXAMPLE.search(page)
    assert found
    (tmp_path / f"ours{SUFFIX}").write_text(found[1])
    library = Library(str(tmp_path))
    template = library.get("ours")
    values = template.values({"cuda": "11.8", "grace": "77"})
    script = UserScript("train.sh", "#!/bin/sh\necho hello\n")
    made = render(library, template, values, script, Surroundings("/bin/python", checkpoints=True))
    text = made.decode()
    head, _, body = text.partition("\ngsched_python=")
    assert "#SBATCH --partition=training" in head.splitlines()
    assert "#SBATCH --signal=B:USR1@77" in head.splitlines()
    assert "module load cuda/11.8" in body.splitlines()
    assert body.index("module load") < body.index("gsched.launch --check")
    assert subprocess.run(["sh", "-n"], input=made, check=True, capture_output=True).stderr == b""


def test_the_pages_of_section_7_render_without_a_warning() -> None:
    for path in PAGE.parent.glob("*.7"):
        words = ["groff", "-K", "utf8", "-t", "-man", "-T", "utf8", "-P-cbou", "-ww", str(path)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert done.stderr == "", path.name
