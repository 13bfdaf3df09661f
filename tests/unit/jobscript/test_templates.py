from __future__ import annotations

import os

import pytest

from gsched.errors import ConfigError, UsageError
from gsched.jobscript.render import Surroundings, UserScript, render
from gsched.jobscript.template_choice import parse_runtime
from gsched.jobscript.templates import Key, Library

SCRIPT = UserScript("job", "#!/bin/sh\necho mine\n")
REQUIRED = '{# help = "x"\n[keys.a]\nhelp = "y"\nrequired = true\n'
OWN = """\
{#
help = "The site's own."

[keys.module]
help = "what is loaded"
default = "cuda/12"
#}
{% extends "plain.sh.j2" %}
{% block environment %}
module load {{ values.module }}
{{ super() }}
{%- endblock %}
"""


@pytest.fixture
def site(tmp_path):
    """Write files of a site's folder; the library over it."""

    def write(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.sh.j2").write_text(text)
        return Library(str(tmp_path))

    return write


def rendered(library, name, **given):
    template = library.get(name)
    return render(library, template, template.values(given), SCRIPT, Surroundings("p")).decode()


def test_a_site_adds_a_template_with_keys_of_its_own(site):
    library = site(own=OWN)
    assert library.names() == ["array", "ddp", "debug", "evaluation", "own", "plain", "requeue"]
    template = library.get("own")
    assert (template.is_site, template.help, template.checkpoints) == (
        True, "The site's own.", "asked",
    )  # fmt: skip
    assert "\nmodule load 'cuda; reboot'\n" in rendered(library, "own", module="cuda; reboot")
    assert "echo mine\n" in rendered(library, "own")


def test_a_sites_template_stands_in_for_ours_and_may_extend_it(site):
    text = '{# help = "Ours." #}\n{% extends "gsched/requeue.sh.j2" %}\n'
    text += "{% block directives %}\n{{ super() }}\n#SBATCH --qos=preemptible\n{% endblock %}\n"
    library = site(requeue=text)
    template = library.get("requeue")
    assert (template.is_site, template.help) == (True, "Ours.")
    assert [key.name for key in template.keys] == ["grace", "folder", "at_timeout", "log"]
    assert "#SBATCH --qos=preemptible\n" in rendered(library, "requeue")
    assert "#SBATCH --qos=preemptible\n" in rendered(library, "array")  # extends requeue


def test_a_template_has_the_keys_of_what_it_extends_and_its_own_win(site):
    text = '{#\nhelp = "x"\n[keys.grace]\nhelp = "other"\ndefault = 7\n#}\n'
    library = site(own=text + '{% extends "requeue.sh.j2" %}')
    keys = {key.name: key for key in library.get("own").keys}
    assert (keys["grace"].help, keys["grace"].default) == ("other", 7)
    assert keys["log"].choices == ("append", "attempts")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/bin/sh\n", "begins with no comment"),
        ("{# help = 1 #}\n", "says no help"),
        ("{# helf #}\n", "not valid TOML"),
        ('{# help = "x"\nhepl = "y" #}\n', "unknown 'hepl'"),
        ('{# help = "x"\ncheckpoints = "often" #}\n', "none of always, asked, never"),
        ('{# help = "x"\n[keys.a]\ndefault = 1 #}\n', "key a is not understood"),
        ('{# help = "x"\n[keys.a]\nhelp = "y"\ndefault = [1] #}\n', "key a is not understood"),
        ('{# help = "x"\n[keys.a]\nhelp = "y"\ndefault = 1\nminimum = 2 #}\n', "key a is not"),
        ('{# help = "x"\nkeys = 3 #}\n', "keys is no table"),
        ('{# help = "x"\nkeys.a = 3 #}\n', "key a is not understood"),
        ('{# help = "x"\n[keys.a]\nhelp = 1\ndefault = 1 #}\n', "key a is not"),
        ('{# help = "x"\n[keys.a]\nhelp = "y"\ndefault = 1.5 #}\n', "key a is not"),
        (REQUIRED + 'default = 1\nminimum = "1" #}\n', "key a is not"),
        (REQUIRED + "default = 1\nmaximum = true #}\n", "key a is not"),
        (REQUIRED + "default = 1\nminimum = 3\nmaximum = 2 #}\n", "key a is not"),
        (REQUIRED + 'default = "a"\nchoices = "ab" #}\n', "key a is not"),
        (REQUIRED + 'default = "a"\nchoices = [1] #}\n', "key a is not"),
        (REQUIRED + 'default = "a"\nneeds_checkpoints = 1 #}\n', "key a is not"),
        (REQUIRED + 'default = "a"\nunknown = 1 #}\n', "key a is not"),
        ('{# help = "x" #}\n{% extends "own.sh.j2" %}\n', "extends itself"),
        ('{# help = "x" #}\n{% extends "none.sh.j2" %}\n', "no such template to extend"),
        ('{# help = "x" #}\n\n{% if %}\n', "line 3"),
    ],
)
def test_a_faulty_template_is_said_with_its_file(site, text, said):
    with pytest.raises(ConfigError, match=rf"own\.sh\.j2.*{said}|{said}"):
        site(own=text).get("own")


def test_a_template_that_is_no_text_or_cannot_be_read_is_said(site, tmp_path):
    library = site(own="")
    (tmp_path / "own.sh.j2").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        library.get("own")


def test_a_template_that_takes_the_place_of_ours_cannot_extend_itself(site):
    library = site(requeue='{# help = "x" #}\n{% extends "requeue.sh.j2" %}\n')
    for name in ("requeue", "array"):
        with pytest.raises(ConfigError, match=r"/requeue\.sh\.j2: extends itself") as caught:
            library.get(name)
        assert 'extends "gsched/requeue.sh.j2"' in caught.value.hint


@pytest.mark.parametrize(
    "code", ["{{ 1 / 0 }}", "{{ 'a' * 10 ** 15 }}", "{{ 1 + 'a' }}", "{{ [].pop() }}",
             "{{ 'a'.index('b') }}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"],
)  # fmt: skip
def test_what_the_code_in_a_template_raises_is_said_with_its_file(site, code):
    with pytest.raises(ConfigError, match=r"/own\.sh\.j2: "):
        rendered(site(own=f'{{# help = "x" #}}\n#!/bin/sh\n{code}\n'), "own")


def test_a_file_may_be_included_twice(site):
    text = '{# help = "x" #}\n{% include "part.sh.j2" %}{% include "part.sh.j2" %}\n'
    assert rendered(site(part='{# help = "y" #}\nx\n', own=text), "own").count("x") == 2


@pytest.mark.parametrize("where", ["file", "x" * 300])
def test_a_folder_that_cannot_be_read_is_said(tmp_path, where):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"jobscript\.dir, .* cannot be read"):
        Library(str(tmp_path / where)).get("plain")
    assert Library(str(tmp_path / "none")).get("plain").is_site is False


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_others_can_write_is_not_run_in_a_users_name(site, tmp_path, what):
    library = site(own=OWN)
    (tmp_path / "own.sh.j2" if what == "file" else tmp_path).chmod(0o777)
    with pytest.raises(ConfigError, match="anybody may write"):
        library.get("own")


def test_root_obeys_nobody_elses_template(site, tmp_path, monkeypatch):
    library = site(own=OWN)
    if os.geteuid() == 0:
        os.chown(tmp_path / "own.sh.j2", 13, 13)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(ConfigError, match="belongs to another user"):
        library.get("own")


def test_a_template_that_is_none_has_a_near_name():
    with pytest.raises(UsageError) as caught:
        Library("").get("requeu")
    assert caught.value.hint == "did you mean requeue?"
    for name in ("base", "../base", "", "gsched/plain"):
        with pytest.raises(UsageError, match="no such template") as caught:
            Library("").get(name)


def test_values_are_of_their_keys_type_within_its_bounds():
    number = Key("n", "", 5, minimum=1, maximum=9)
    assert number.parse("9") == 9
    for wrong in ("0", "10", "x", "", "1.0", "٣"):
        with pytest.raises(UsageError, match=r"no whole number from 1 to 9"):
            number.parse(wrong)
    flag = Key("f", "", False)
    assert [flag.parse(text) for text in ("yes", "TRUE", "1", "no", "0")] == [
        True, True, True, False, False,
    ]  # fmt: skip
    with pytest.raises(UsageError, match="neither yes nor no"):
        flag.parse("x")
    chosen = Key("c", "", "a", choices=("a", "b"))
    assert chosen.parse("b") == "b"
    with pytest.raises(UsageError, match="none of a, b"):
        chosen.parse("c")


def test_unknown_and_needed_keys_are_said_with_those_that_are_known():
    with pytest.raises(UsageError, match="no key 'gace'") as caught:
        Library("").get("requeue").values({"gace": "1"})
    assert caught.value.hint == "it has: grace, folder, at_timeout, log"
    with pytest.raises(UsageError, match="needs folder"):
        Library("").get("evaluation").values({"folder": ""})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ddp", ("ddp", {})),
        ("ddp,nproc=4,launcher=torchrun", ("ddp", {"nproc": "4", "launcher": "torchrun"})),
        (r"x,a=b\,c\\,d==", ("x", {"a": "b,c\\", "d": "="})),
        ("x,a=", ("x", {"a": ""})),
        ("x,a=\n b", ("x", {"a": "\n b"})),
    ],
)
def test_a_choice_is_a_name_and_values(text, expected):
    assert parse_runtime(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no template"), (",a=1", "no template"), ("x,a", "no key=value"),
        ("x,=1", "no key=value"), ("x,", "no key=value"), ("x,a=1,a=2", "a is given twice"),
        ("x,a=\\", "ends with a backslash"),
    ],
)  # fmt: skip
def test_a_choice_that_is_none_is_said(text, said):
    with pytest.raises(UsageError, match=said):
        parse_runtime(text)
