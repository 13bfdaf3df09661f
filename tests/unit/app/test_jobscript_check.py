"""What ``gsched jobscript check`` finds wrong with a template only by trying it."""

from __future__ import annotations

import pytest

from gsched.app.jobscript_check import check
from gsched.config.settings import JobscriptSettings, Settings

HEAD = '{# help = "x" #}\n'
EXTENDS = HEAD + '{% extends "plain.sh.j2" %}{% block environment %}'
END = "{% endblock %}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (EXTENDS + END, ""),
        (HEAD + "#!/bin/sh\n", "the user's script does not stand in its result"),
        (EXTENDS + "{% if checkpoints %}({% endif %}" + END, "the shell does not read"),
        (EXTENDS + "{% if not checkpoints %}({% endif %}" + END, "the shell does not read"),
        (EXTENDS + "{% if is_python %}({% endif %}" + END, "the shell does not read"),
        (EXTENDS + "{% if not is_python %}({% endif %}" + END, "the shell does not read"),
        (
            HEAD + "#!/bin/sh\n#SBATCH --nosuch=1\n{{ body|safe }}",
            "sbatch has no option --nosuch=1",
        ),
        (HEAD + "#!/bin/sh\n#SBATCH hetjob\n#SBATCH --no\n{{ body|safe }}", "no option --no"),
    ],
)
def test_a_template_is_tried_in_each_way(tmp_path, text, said):
    (tmp_path / "own.sh.j2").write_text(text)
    settings = Settings(jobscript=JobscriptSettings(dir=str(tmp_path), python="/bin/true"))
    found = {finding.what: finding.problem for finding in check(settings, ("own",), "")}
    assert found.keys() == {"template own", "python"}
    assert said in found["template own"]
    assert bool(said) == bool(found["template own"])
