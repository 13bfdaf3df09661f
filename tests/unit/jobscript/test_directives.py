from __future__ import annotations

import pytest

from gsched.errors import UsageError
from gsched.jobscript.directives import read_directives, split_words


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
        (" -H '' a", ["-H"]),
        (" -H \\ a", ["-H"]),
        (" --comment=\\\\x\\", ["--comment=\\x"]),
        (" --comment=a\\ -H", ["--comment=a", "-H"]),
        (" --comment=\\#a#b", ["--comment=#a"]),
        (" --comment='a\\' -H' -N1", ["--comment=a' -H", "-N1"]),
        (" --comment=a\u00a0b\u2003c\x1cd", ["--comment=a\u00a0b\u2003c\x1cd"]),
        (" a\vb\fc", ["a", "b", "c"]),
        (" # nothing", []),
        ("", []),
        (" $HOME `x` *", ["$HOME", "`x`", "*"]),
    ],
)
def test_words_are_split_as_sbatch_does(line, words):
    found, is_closed = split_words(line)
    assert ([word for word, _ in found], is_closed) == (words, True)


def test_an_unclosed_quote_is_noticed():
    assert split_words(" --comment='a b")[1] is False
    assert split_words(" --comment='a\\'")[1] is False


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
    assert read("#GSCHEDULER --gs-none", "# GSCHED --gs-none", "#gsched --gs-none").gsched == []
    assert [word.word for word in read("#GSCHED--gs-none").gsched] == ["--gs-none"]


def test_components_of_heterogeneous_jobs_are_kept_apart():
    found = read("#SBATCH -N1", "#SBATCH hetjob", "#SBATCH -N2", "#SBATCH packjob", "#SBATCH -N3")
    assert found.sbatch == [["-N1"], ["-N2"], ["-N3"]]


# Seen with sbatch 22.05.8.
@pytest.mark.parametrize(
    ("lines", "sections"),
    [
        (["#SBATCH -N1 hetjob -N2", "#SBATCH -N3"], [["-N1", "-N3"]]),
        (["#SBATCH hetjob -N2", "#SBATCH -N3"], [[], ["-N3"]]),
        (["#SBATCHhetjob", "#SBATCH -N3"], [[], ["-N3"]]),
        (["#SBATCH --comment 'hetjob'", "#SBATCH -N3"], [["--comment", "hetjob", "-N3"]]),
        (["#SBATCH --comment=hetjob", "#SBATCH -N1 # hetjob"], [["--comment=hetjob", "-N1"]]),
    ],
)
def test_a_component_begins_where_sbatch_begins_one(lines, sections):
    assert read(*lines).sbatch == sections


def test_what_gsched_is_asked_counts_for_all_components():
    found = read("#SBATCH -N1", "#SBATCH hetjob", "#GSCHED --gs-none", "#SBATCH -N2")
    assert found.sbatch == [["-N1"], ["-N2"]]
    assert [word.word for word in found.gsched] == ["--gs-none"]


def test_only_what_sbatch_takes_for_blank_is_blank():
    assert read("\v", "\f \r", "#SBATCH -N1").late == []
    assert read("\u00a0", "#SBATCH -N1").late == [(2, "#SBATCH")]


def test_a_shift_of_bits_opens_no_document():
    assert read("x=$((1 << n))", "#SBATCH -N1").late == [(2, "#SBATCH")]
    assert read("# cat <<EOF", "#SBATCH -N1", "EOF").sbatch == [["-N1"]]


@pytest.mark.parametrize("opening", ["cat <<EOF", "cat > x <<-'EOF'", 'cat <<"EOF" | sh'])
def test_the_text_of_a_here_document_is_no_late_directive(opening):
    found = read("#!/bin/sh", opening, "text", "#SBATCH -N1", "EOF", "#SBATCH -N2")
    assert found.late == [(6, "#SBATCH")]


def test_a_here_string_opens_no_document():
    assert read("cat <<<EOF", "#SBATCH -N1").late == [(2, "#SBATCH")]


def test_an_unclosed_quote_after_gsched_is_refused_with_its_line():
    with pytest.raises(UsageError, match=r"job\.sh line 2: unclosed quote after #GSCHED"):
        read("#!/bin/sh", "#GSCHED '--gs-none")
