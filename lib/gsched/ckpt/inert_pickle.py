"""A pickle read as a tree of plain values: nothing is imported, nothing is called.

What a pickle would import becomes an `Inert` with its name, what it would call an `Inert` with the
arguments. So the step of a checkpoint can be read, and nobody's code runs. The number of
operations and the bytes are bounded; the standard library's own unpickler would set memory aside
for whatever index a hostile pickle names.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gsched.errors import DataError

MAX_BYTES = 256 << 20
MAX_OPERATIONS = 5_000_000
"""Some five seconds of work. A checkpoint of 10,000 tensors has about 300,000."""


@dataclass(eq=False, slots=True)
class Inert:
    """What would have been imported (`args` is None) or made; `state` is what it was then given.

    `items` are the pairs that it was given as a mapping.
    """

    name: str
    args: Any = None
    state: Any = None
    items: dict[Any, Any] = field(default_factory=dict)


_MARK = Inert("mark")


class TooLargeError(DataError):
    """A pickle that may be right, and takes more time and memory than it may."""


def read_tree(data: bytes, max_operations: int = MAX_OPERATIONS) -> Any:
    """The value that a pickle holds. Raises DataError where it is none, TooLargeError."""
    if len(data) > MAX_BYTES:
        raise TooLargeError(f"it has more than {MAX_BYTES} bytes")
    machine = _Machine()
    try:
        for count, (operation, arg, _) in enumerate(pickletools.genops(data)):
            if count > max_operations:
                raise TooLargeError(f"it has more than {max_operations:,} operations")
            if operation.name == "STOP":
                return machine.stack.pop()
            machine.do(operation.name, arg)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as e:
        raise DataError(f"it is no pickle that can be followed ({type(e).__name__})") from None
    raise DataError("it has no end")


class _Machine:
    """The pickle machine's stack and memo."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def do(self, name: str, arg: Any) -> None:
        if name in _VALUES:
            self.stack.append(arg)
        elif name in _CONSTANTS:
            self.stack.append(_CONSTANTS[name]())
        elif name in _STORES:
            self.memo[len(self.memo) if arg is None else int(arg)] = self.stack[-1]
        elif name in _FETCHES:
            self.stack.append(self.memo[int(arg)])
        elif name not in _NOTHING:
            _STEPS[name](self, arg)

    def since_mark(self) -> list[Any]:
        """What lies above the topmost mark, taken off with it."""
        marks = (i for i in range(len(self.stack) - 1, -1, -1) if self.stack[i] is _MARK)
        at = next(marks, None)
        if at is None:
            raise IndexError
        items = self.stack[at + 1 :]
        del self.stack[at:]
        return items

    def last(self, number: int) -> list[Any]:
        """The topmost `number` values, taken off."""
        if len(self.stack) < number:
            raise IndexError
        items = self.stack[-number:]
        del self.stack[-number:]
        return items

    def put_pairs(self, flat: list[Any]) -> None:
        """Key, value, key, … into the mapping on top."""
        target = self.stack[-1]
        mapping = target.items if isinstance(target, Inert) else target
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            mapping[_as_key(key)] = value

    def put_items(self, values: list[Any]) -> None:
        """Values into the list on top; what another object does with them is not known."""
        if isinstance(self.stack[-1], list):
            self.stack[-1].extend(values)

    def call(self, function: Any, args: Any) -> None:
        name = function.name if isinstance(function, Inert) else type(function).__name__
        is_dict = name == "collections.OrderedDict" and args == ()
        self.stack.append({} if is_dict else Inert(name, args))


def _as_key(value: Any) -> Any:
    """A key of a dict; nested ones are made opaque: hashing them would recurse without a bound."""
    if isinstance(value, tuple):
        return value if all(isinstance(v, str | int | float) for v in value) else Inert("tuple")
    return value


def _build(machine: _Machine, _: Any) -> None:
    (state,) = machine.last(1)
    if isinstance(machine.stack[-1], Inert):
        machine.stack[-1].state = state


def _reduce(machine: _Machine, _: Any) -> None:
    machine.call(*machine.last(2))


def _new_with_keywords(machine: _Machine, _: Any) -> None:
    machine.call(*machine.last(3)[:2])


def _old_instance(machine: _Machine, arg: Any) -> None:
    machine.call(Inert(str(arg).replace(" ", ".", 1)), tuple(machine.since_mark()))


def _old_object(machine: _Machine, _: Any) -> None:
    function, *args = machine.since_mark()
    machine.call(function, tuple(args))


def _push(make: Callable[[_Machine, Any], Any]) -> Callable[[_Machine, Any], None]:
    return lambda machine, arg: machine.stack.append(make(machine, arg))


def _drop(machine: _Machine, _: Any) -> None:
    machine.stack.pop()


def _drop_since_mark(machine: _Machine, _: Any) -> None:
    machine.since_mark()


def _dict_of(machine: _Machine, _: Any) -> None:
    flat = machine.since_mark()
    machine.stack.append({})
    machine.put_pairs(flat)


_VALUES = frozenset(
    {
        "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
        "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8",
        "BYTEARRAY8", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
    }
)  # fmt: skip
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
    "EMPTY_SET": lambda: Inert("set"),
    "MARK": lambda: _MARK,
    "NEXT_BUFFER": lambda: Inert("buffer"),
}
_STORES = frozenset(("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"))
_FETCHES = frozenset(("GET", "BINGET", "LONG_BINGET"))
_NOTHING = frozenset(("PROTO", "FRAME", "READONLY_BUFFER"))
_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "LIST": _push(lambda m, _: m.since_mark()),
    "TUPLE": _push(lambda m, _: tuple(m.since_mark())),
    "TUPLE1": _push(lambda m, _: tuple(m.last(1))),
    "TUPLE2": _push(lambda m, _: tuple(m.last(2))),
    "TUPLE3": _push(lambda m, _: tuple(m.last(3))),
    "FROZENSET": _push(lambda m, _: Inert("frozenset", tuple(m.since_mark()))),
    "DICT": _dict_of,
    "APPEND": lambda m, _: m.put_items(m.last(1)),
    "APPENDS": lambda m, _: m.put_items(m.since_mark()),
    "ADDITEMS": lambda m, _: m.put_items(m.since_mark()),
    "SETITEM": lambda m, _: m.put_pairs(m.last(2)),
    "SETITEMS": lambda m, _: m.put_pairs(m.since_mark()),
    "POP": _drop,
    "POP_MARK": _drop_since_mark,
    "DUP": _push(lambda m, _: m.stack[-1]),
    "GLOBAL": _push(lambda _, arg: Inert(arg.replace(" ", ".", 1))),
    "STACK_GLOBAL": _push(lambda m, _: Inert(".".join(m.last(2)))),
    "REDUCE": _reduce,
    "NEWOBJ": _reduce,
    "NEWOBJ_EX": _new_with_keywords,
    "INST": _old_instance,
    "OBJ": _old_object,
    "BUILD": _build,
    "EXT1": _push(lambda _, arg: Inert("extension", (arg,))),
    "EXT2": _push(lambda _, arg: Inert("extension", (arg,))),
    "EXT4": _push(lambda _, arg: Inert("extension", (arg,))),
    "PERSID": _push(lambda _, arg: Inert("persistent", (arg,))),
    "BINPERSID": _push(lambda m, _: Inert("persistent", tuple(m.last(1)))),
}
