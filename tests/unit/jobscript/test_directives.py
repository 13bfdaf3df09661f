from __future__ import annotations

import pytest

from gsched.errors import UsageError
from gsched.jobscript.directives import read_directives, split_words
from gsched.jobscript.requests import OPTIONS, SubmitOptions, read_options


def read(*lines):
    return read_directives("\n".join(lines), "job.sh")


# Each pair was seen with sbatch 22.05.8: `#SBATCH --comment=…` gave this comment.
@pytest.mark.parametrize(
    ("line", "words"),
    [
        (" --comment=x", ["--comment=x"]),
        ("--comment=q", ["--comment=q"]),
        (' --comment="a #b" # -p none', ["--comment=a #b"]),
        ("  --comm='x\\y\"z'#foo", ['--comm=xy"z']),
        ("\t-H --comment w\r", ["-H", "--comment", "w"]),
        (" --comment=''", ["--comment="]),
        (" '' a", ["", "a"]),
        (" # nothing", []),
        ("", []),
        (" $HOME `x` *", ["$HOME", "`x`", "*"]),
    ],
)
def test_words_are_split_as_sbatch_does(line, words):
    assert split_words(line) == (words, True)


def test_an_unclosed_quote_is_noticed():
    assert split_words(" --comment='a b") == (["--comment=a b"], False)


def test_directives_count_until_the_first_command():
    found = read(
        "#!/bin/sh",
        "#SBATCH -p gpu",
        "",
        "   # a comment",
        "#GSCHED --gs-none",
        "#SBATCH --comment=x",
        "module load cuda",
        "#SBATCH -N 2",
        "#GSCHED --gs-dry-run",
    )
    assert found.sbatch == [["-p", "gpu", "--comment=x"]]
    assert [(word.line, word.word) for word in found.gsched] == [(5, "--gs-none")]
    assert found.first_command == 7
    assert found.late == [(8, "#SBATCH"), (9, "#GSCHED")]


def test_an_indented_directive_is_a_comment():
    assert read("#!/bin/sh", " #SBATCH -N1", "\t#GSCHED --gs-none").sbatch == [[]]


def test_a_word_that_only_begins_like_the_mark_is_a_comment():
    assert read("#GSCHEDULER --gs-none", "# GSCHED --gs-none").gsched == []


def test_components_of_heterogeneous_jobs_are_kept_apart():
    found = read("#SBATCH -N1", "#SBATCH hetjob", "#SBATCH -N2", "#SBATCH packjob", "#SBATCH -N3")
    assert found.sbatch == [["-N1"], ["-N2"], ["-N3"]]


@pytest.mark.parametrize("opening", ["cat <<EOF", "cat > x <<-'EOF'", 'cat <<"EOF" | sh'])
def test_the_text_of_a_here_document_is_no_late_directive(opening):
    found = read("#!/bin/sh", opening, "text", "#SBATCH -N1", "EOF", "#SBATCH -N2")
    assert found.late == [(6, "#SBATCH")]


def test_a_here_string_opens_no_document():
    assert read("cat <<<EOF", "#SBATCH -N1").late == [(2, "#SBATCH")]


def test_an_unclosed_quote_after_gsched_is_refused_with_its_line():
    with pytest.raises(UsageError, match=r"job\.sh line 2: unclosed quote after #GSCHED"):
        read("#!/bin/sh", "#GSCHED '--gs-none")


def test_options_come_from_the_command_line_and_from_the_script():
    directives = read("#GSCHED --gs-none").gsched
    assert read_options([], directives, "job.sh") == SubmitOptions(opts_out=True)
    assert read_options(["--gs-dry-run"], directives, "job.sh") == SubmitOptions(True, True)
    assert read_options([], [], "job.sh") == SubmitOptions()


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("--gs-nnoe", "no such option '--gs-nnoe'", "did you mean --gs-none?"),
        ("--gs-zzzzzzzzz", "no such option", "see `gsched submit --help`"),
        ("--gs-none=yes", "option --gs-none takes no value", ""),
        ("--gs-n", "no such option '--gs-n'", ""),
    ],
)
def test_what_is_no_option_is_named(word, message, hint):
    with pytest.raises(UsageError) as caught:
        read_options([word], [], "job.sh")
    assert message in caught.value.message
    assert hint in caught.value.hint
    with pytest.raises(UsageError, match=r"job\.sh line 3: "):
        read_options([], read("#!/bin/sh", "", f"#GSCHED {word}").gsched, "job.sh")


def test_every_option_has_a_help_text():
    assert all(name.startswith("--gs-") and text.endswith(".") for name, text in OPTIONS.items())
