"""The grammar of sbatch's and scancel's command lines, as getopt_long(3) reads them.

gsched hands a command line on as it is. To know where its own ``--gs-…`` options end and the job
script begins it must know which of Slurm's options take an argument. The tables hold the options of
Slurm 22.05 to 26.05; what a site's SPANK plugins add is learnt from ``sbatch --help``.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gsched.jobscript.own_options import VALUED as OWN_VALUED

OWN_PREFIX = "--gs-"
"""How gsched's own options begin; none of Slurm's does."""


class Kind(enum.Enum):
    """What a word of a command line is."""

    OPTION = "option"
    OWN = "own"  # an option of gsched, ``--gs-…``
    OPERAND = "operand"  # a job id; for sbatch the script, after which nothing is scanned
    SEPARATOR = "separator"  # ``:`` between the components of a heterogeneous job
    END = "end"  # ``--``


@dataclass(frozen=True, slots=True)
class Word:
    """One option (with its argument), operand or separator: ``args[start:end]``.

    `name` is the long name of an option (the letter of one not known; ``--gs-x`` of our own), or
    the whole word of anything else; `value` the argument of an option, None without one.
    """

    kind: Kind
    name: str
    value: str | None
    start: int
    end: int
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class Grammar:
    """Long option → its letter or ''. By `valued` an argument is required, by `optional` it may
    follow in the same word (``--nice=5``). `stops` says that the first operand ends the options.
    `listed` are the options that this site's release has, where it was asked.
    """

    valued: Mapping[str, str]
    optional: Mapping[str, str]
    flags: Mapping[str, str]
    stops: bool
    listed: frozenset[str] = frozenset()

    def long_name(self, name: str) -> str | None:
        """The option that `name` stands for: itself, or the only one that begins so."""
        names = [*self.valued, *self.optional, *self.flags]
        if name in names:
            return name
        near = [known for known in names if known.startswith(name)]
        if len(near) > 1:  # in one release or another
            near = [known for known in near if known in self.listed]
        return near[0] if len(near) == 1 else None

    def by_letter(self, letter: str) -> str | None:
        """The long name of a one-letter option."""
        tables = (self.valued, self.optional, self.flags)
        return next((n for table in tables for n, known in table.items() if known == letter), None)

    def learned(self, help_text: str) -> Grammar:
        """This grammar as a ``--help`` text has it: with its options that are not known yet."""
        valued, flags = dict(self.valued), dict(self.flags)
        found = _HELP_LINE.findall(help_text)
        for letter, name, argument in found:
            if self.long_name(name) != name:
                (valued if argument == "=" else flags)[name] = letter
        listed = frozenset(name for _, name, _ in found)
        return replace(self, valued=valued, flags=flags, listed=listed)


_HELP_LINE = re.compile(r"^ +(?:-(\w),? +)?--([a-z][\w-]*)(=?)", re.MULTILINE)


def scan(args: Sequence[str], grammar: Grammar, *, stops: bool | None = None) -> list[Word]:
    """The words of `args` up to and with the script, or all of them where operands are mixed in.

    `stops` says so in place of the grammar's own.
    """
    words: list[Word] = []
    index = 0
    only_operands = False
    while index < len(args):
        text = args[index]
        if only_operands or text == "-" or not text.startswith("-"):
            kind = Kind.SEPARATOR if text == ":" and not only_operands else Kind.OPERAND
            found = [Word(kind, text, None, index, index + 1)]
        elif text == "--":
            found = [Word(Kind.END, text, None, index, index + 1)]
            only_operands = True
        elif text.startswith(OWN_PREFIX):
            found = [_own_option(args, index)]
        elif text.startswith("--"):
            found = [_long_option(args, index, grammar)]
        else:
            found = list(_short_options(args, index, grammar))
        words += found
        index = found[-1].end
        if (grammar.stops if stops is None else stops) and found[-1].kind is Kind.OPERAND:
            break
    return words


def _own_option(args: Sequence[str], index: int) -> Word:
    name, equals, attached = args[index].partition("=")
    if name in OWN_VALUED and not equals and index + 1 < len(args):
        return Word(Kind.OWN, name, args[index + 1], index, index + 2)
    return Word(Kind.OWN, name, attached if equals else None, index, index + 1)


def _long_option(args: Sequence[str], index: int, grammar: Grammar) -> Word:
    name, equals, attached = args[index].removeprefix("--").partition("=")
    known = grammar.long_name(name)
    word = Word(
        Kind.OPTION,
        known or name,
        attached if equals else None,
        index,
        index + 1,
        known is not None,
    )
    if known in grammar.valued and not equals and _is_value(args, index + 1, grammar):
        return replace(word, value=args[index + 1], end=index + 2)
    return word


def _is_value(args: Sequence[str], index: int, grammar: Grammar) -> bool:
    """Whether there is a word for an option to take: sbatch cuts at ``:`` before it reads any."""
    return index < len(args) and not (grammar.stops and args[index] == ":")


def _short_options(args: Sequence[str], index: int, grammar: Grammar) -> Iterator[Word]:
    """``-Hp gpu`` is ``-H -p gpu``: letters up to the first that takes an argument."""
    letters = args[index][1:]
    for at, letter in enumerate(letters):
        known = grammar.by_letter(letter)
        rest = letters[at + 1 :]
        word = Word(Kind.OPTION, known or letter, None, index, index + 1, known is not None)
        if known in grammar.valued and not rest and _is_value(args, index + 1, grammar):
            yield replace(word, value=args[index + 1], end=index + 2)
            return
        if known in grammar.valued or known in grammar.optional:
            yield replace(word, value=rest or None)
            return
        yield word


def _table(text: str) -> dict[str, str]:
    """``account/A array/a comment`` → {account: A, array: a, comment: ''}."""
    pairs = (item.partition("/") for item in text.split())
    return {name: letter for name, _, letter in pairs}


SBATCH = Grammar(
    valued=_table("""
        account/A acctg-freq array/a batch bb bbf begin/b chdir/D cluster cluster-constraint
        clusters/M comment constraint/C container container-id container-type core-spec/S
        cores-per-socket cpu-freq cpus-per-gpu cpus-per-task/c deadline delay-boot dependency/d
        distribution/m
        error/e exclude/x export export-file extra extra-node-info/B gid gpu-bind gpu-freq gpus/G
        gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint input/i job-name/J
        kill-on-invalid-dep licenses/L mail-type mail-user mcs-label mem mem-bind mem-per-cpu
        mem-per-gpu mincpus network nodefile/F nodelist/w nodes/N ntasks/n ntasks-per-core
        ntasks-per-gpu ntasks-per-node ntasks-per-socket ntasks-per-tres open-mode output/o
        partition/p power prefer priority profile qos/q reservation segment signal
        sockets-per-node switches tasks-per-node thread-spec threads-per-core time/t
        time-min tmp tres-bind tres-per-task uid wait-all-nodes wckey wrap
    """),
    optional=_table("exclusive get-user-env nice no-kill/k oom-kill-step propagate resv-ports"),
    flags=_table("""
        consolidate-segments contiguous help/h hold/H ignore-pbs no-requeue overcommit/O
        oversubscribe/s parsable quiet/Q reboot requeue spread-job spread-segments stepmgr
        test-only usage use-min-nodes verbose/v version/V wait/W
    """),
    stops=True,
)
"""sbatch(1)."""

SCANCEL = Grammar(
    valued=_table("""
        account/A admin-comment clusters/M name/n jobname nodelist/w partition/p qos/q
        reservation/R sibling signal/s state/t user/u wckey
    """),
    optional={},
    flags=_table("""
        batch/b cron ctld full/f help hurry/H interactive/i me quiet/Q usage verbose/v version/V
    """),
    stops=False,
)
"""scancel(1)."""
