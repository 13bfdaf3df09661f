"""Tables of named columns: what ``-o``, ``-P``, ``--noheader`` and the colours mean everywhere.

- On a terminal a table is no wider than the terminal: the widest texts are cut with ``…``. In a
  pipe or a file nothing is cut; a text longer than `MAX_CELL` moves what follows on its own line.
- ``-P`` is for programs: the column's raw value (epoch seconds, seconds, plain numbers, nothing for
  an unknown one) with ``|`` between, never cut or coloured. A ``|`` in a text is written ``\\x7c``,
  a backslash ``\\\\``, a line end ``\\n``, another unprintable character ``\\xNN`` or ``\\uNNNN``:
  every line has as many fields as the header, whatever a user has called a job.
- A colour says again what a word says already.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import click

from gsched_cli.output import MAX_CELL, cut, display_width, escaped, padded, safe_text

Row = TypeVar("Row")
Command = TypeVar("Command", bound=Callable[..., Any])

MIN_CELL = 8
"""A text is never cut below so many columns, or its heading's, even if lines are then too long."""


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column of a table.

    `name` is its word for ``-o``, `heading` what stands above it. `cell` is the text for people
    (hostile text is welcome), `value` the raw value for ``-P`` (None: nothing is known), by default
    the cell. `style` names a colour of the terminal (``red``, ``green``, …), or None. `order` is
    what rows are sorted by, by default the value.
    """

    name: str
    heading: str
    cell: Callable[[Row], str]
    value: Callable[[Row], object] | None = None
    right: bool = False
    style: Callable[[Row], str | None] | None = None
    order: Callable[[Row], Any] | None = None

    def raw(self, row: Row) -> object:
        """The value for programs."""
        return self.cell(row) if self.value is None else self.value(row)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table was asked for on the command line."""

    columns: tuple[Column[Any], ...]
    parsable: bool = False
    header: bool = True
    color: bool = False


@dataclass(frozen=True, slots=True)
class Variant:
    """Another table that a command prints when its option `param` (an eager one) is given."""

    param: str
    columns: Sequence[Column[Any]]
    default: str


def table_options(
    columns: Sequence[Column[Any]], default: str, variant: Variant | None = None
) -> Callable[[Command], Command]:
    """Add ``-o``, ``-P``, ``--noheader`` and ``--color``; the command receives `layout`.

    `default` are the names of the columns shown without ``-o``, commas between.
    """

    def table(context: click.Context) -> tuple[Sequence[Column[Any]], str]:
        if variant is not None and context.params.get(variant.param) is not None:
            return variant.columns, variant.default
        return columns, default

    def chosen(context: click.Context, _: click.Parameter, text: str | None) -> Any:
        return choose_columns(*table(context), table(context)[1] if text is None else text)

    options = (
        click.option(
            "-o",
            "--format",
            "table_columns",
            metavar="COLS",
            show_default=default,
            callback=chosen,
            shell_complete=lambda context, _, text: _complete_columns(table(context)[0], text),
            help=_columns_help(columns, variant),
        ),
        click.option(
            "-P",
            "--parsable2",
            "table_parsable",
            is_flag=True,
            help="For programs: raw values with | between (\\x7c in a text), times in epoch "
            "seconds, durations in seconds.",
        ),
        click.option(
            "-h", "--noheader", "table_noheader", is_flag=True, help="No line of headings."
        ),
        click.option(
            "--color/--no-color",
            "table_color",
            default=None,
            help="Colours; by default on a terminal, without NO_COLOR.",
        ),
    )

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_layout(
            *args: Any,
            table_columns: tuple[Column[Any], ...],
            table_parsable: bool,
            table_noheader: bool,
            table_color: bool | None,
            **others: Any,
        ) -> Any:
            color = wants_color() if table_color is None else table_color
            layout = Layout(table_columns, table_parsable, not table_noheader, color)
            return command(*args, layout=layout, **others)

        wrapped: Any = with_layout
        for option in reversed(options):
            wrapped = option(wrapped)
        return wrapped  # type: ignore[no-any-return]

    return decorate


def _columns_help(columns: Sequence[Column[Any]], variant: Variant | None) -> str:
    names = ", ".join(column.name for column in columns)
    text = f"Columns, commas between; +COLS adds to the usual ones. There are: {names}."
    if variant is not None:
        others = ", ".join(column.name for column in variant.columns)
        text += f" With --{variant.param}: {others}; usually {variant.default.replace(',', ', ')}."
    return text


Order = tuple[tuple[Column[Any], bool], ...]
"""Columns to sort by, and whether each is descending."""


def sort_option(columns: Sequence[Column[Any]]) -> Callable[[Command], Command]:
    """Add ``-S``; the command receives `order`, empty for the usual order."""
    return click.option(
        "-S",
        "--sort",
        "order",
        metavar="COLS",
        default="",
        callback=lambda _ctx, _param, text: _choose_order(columns, text),
        shell_complete=lambda _ctx, _param, text: _complete_columns(columns, text, "+-"),
        help="Sort by these columns, commas between; -COL is descending.",
    )


def _choose_order(columns: Sequence[Column[Any]], text: str) -> Order:
    known = {column.name: column for column in columns}
    order = []
    for word in filter(None, (part.strip().lower() for part in text.split(","))):
        name = word.lstrip("+-") if word[0] in "+-" else word
        order.append((known[name] if name in known else _no_column(name, known), word[0] == "-"))
    return tuple(order)


def ordered(rows: Iterable[Row], order: Order) -> list[Row]:
    """`rows` sorted; equal ones keep their order, those without a value come last."""
    found = list(rows)
    for column, descending in reversed(order):
        found.sort(key=_sort_key(column, descending), reverse=descending)
    return found


def _sort_key(column: Column[Any], descending: bool) -> Callable[[Any], tuple[bool, Any]]:
    value = column.order or column.raw

    def key(row: Any) -> tuple[bool, Any]:
        found = value(row)
        return (found is not None) is descending, found if found is not None else 0

    return key


def wants_color() -> bool:
    """Whether stdout is a terminal that shows colours, and nobody has switched them off."""
    return (
        sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


def choose_columns(
    columns: Sequence[Column[Any]], default: str, text: str
) -> tuple[Column[Any], ...]:
    """The columns of ``-o text``. Raises click.BadParameter for one that does not exist."""
    known = {column.name: column for column in columns}
    if text.startswith("+"):
        text = f"{default},{text[1:]}"
    names = [name.strip().lower() for name in text.split(",")]
    chosen = {name: known[name] if name in known else _no_column(name, known) for name in names}
    return tuple(chosen.values())


def _no_column(name: str, known: Iterable[str]) -> Column[Any]:
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    raise click.BadParameter(f"no column {name!r}.{guess} There are: {', '.join(known)}")


def _complete_columns(columns: Sequence[Column[Any]], text: str, signs: str = "") -> list[str]:
    """What `text` may become: each name of its list may have a sign of `signs`, the first a +."""
    before, comma, begun = text.rpartition(",")
    sign = begun[:1] if begun[:1] and begun[:1] in (signs if comma else f"+{signs}") else ""
    begun = begun[len(sign) :]
    return [f"{before}{comma}{sign}{c.name}" for c in columns if c.name.startswith(begun)]


def print_rows(layout: Layout, rows: Iterable[Any]) -> None:
    """Print the table on stdout."""
    lines = _parsable(layout, rows) if layout.parsable else _aligned(layout, list(rows))
    sys.stdout.writelines(f"{line}\n" for line in lines)


def _parsable(layout: Layout, rows: Iterable[Any]) -> Iterable[str]:
    if layout.header:
        yield "|".join(column.name for column in layout.columns)
    for row in rows:
        yield "|".join(_field(column.raw(row)) for column in layout.columns)


def _field(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return text if text.isalnum() and text.isascii() else escaped(text).replace("|", "\\x7c")


def _aligned(layout: Layout, rows: Sequence[Any]) -> Iterable[str]:
    columns = layout.columns
    lines = [[column.heading for column in columns]] if layout.header else []
    lines += [[safe_text(column.cell(row)) for column in columns] for row in rows]
    if not lines:
        return
    right = {index for index, column in enumerate(columns) if column.right}
    widths = [max(map(display_width, cells)) for cells in zip(*lines, strict=True)]
    if sys.stdout.isatty():
        floors = [max(MIN_CELL, len(column.heading)) for column in columns]
        widths = _fitted(widths, floors, right, shutil.get_terminal_size().columns)
        lines = [
            [cut(cell, width) for cell, width in zip(line, widths, strict=True)] for line in lines
        ]
    else:
        widths = [min(width, MAX_CELL) for width in widths]
    first = len(lines) - len(rows)
    for number, line in enumerate(lines):
        cells = padded(line, widths, right)
        if layout.color and number >= first:
            cells = _painted(columns, rows[number - first], cells)
        yield "  ".join(cells).rstrip()


def _painted(columns: Sequence[Column[Any]], row: Any, cells: Iterable[str]) -> Iterator[str]:
    for column, cell in zip(columns, cells, strict=True):
        style = column.style(row) if column.style else None
        yield click.style(cell, fg=style) if style else cell


def _fitted(
    widths: Sequence[int], floors: Sequence[int], right: set[int], available: int
) -> list[int]:
    """`widths` for a terminal of `available` columns: the widest texts give way first."""
    fitted = list(widths)
    excess = sum(fitted) + 2 * (len(fitted) - 1) - available
    while excess > 0:
        texts = [i for i in range(len(fitted)) if i not in right and fitted[i] > floors[i]]
        if not texts:
            break
        fitted[max(texts, key=lambda index: fitted[index])] -= 1
        excess -= 1
    return fitted
