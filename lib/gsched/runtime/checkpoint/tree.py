"""A state as JSON and named tensors, and back: what gsched-checkpoint(5) calls the state's tree.

Plain JSON values stand for themselves. Where JSON has no word, an object with one key that starts
with ``$`` does. No pickle: what cannot be said so is refused with the path to it.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.distributed.tensor import DTensor

from gsched.errors import DataError, UsageError
from gsched.runtime.checkpoint.parts import part_of

MAX_DEPTH = 100
"""Containers within containers; deeper ones are taken for endless."""

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "C64": torch.complex64,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
"""The words of the safetensors format for torch's types."""

_WORDS = {dtype: word for word, dtype in DTYPES.items()}
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def dtype_word(dtype: torch.dtype) -> str:
    """The word of the safetensors format for `dtype`. KeyError where it has none."""
    return _WORDS[dtype]


@dataclass
class Encoder:
    """Turns states into JSON values and collects their tensors by name, without copying any."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    _names: dict[tuple[Any, ...], str] = field(default_factory=dict)

    def encode(self, value: object, path: str, depth: int = 0) -> Any:
        """`value` as a JSON value; `path` tells where it is. UsageError for what has no form."""
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            return self._whole_number(value, path)
        if kind is float:
            return value if math.isfinite(value) else {"$float": _float_word(value)}  # type: ignore[arg-type]
        if depth > MAX_DEPTH:
            raise UsageError(f"{path}: more than {MAX_DEPTH} containers within each other")
        if isinstance(value, torch.Tensor):
            return self._tensor(value, path)
        encode = _CONTAINERS.get(kind)
        if encode is not None:
            return encode(self, value, path, depth + 1)
        if isinstance(value, np.ndarray | np.generic):
            return self._array(value, path)
        if isinstance(value, torch.dtype):
            return {"$dtype": str(value).removeprefix("torch.")}
        raise UsageError(
            f"{path}: a value of type {kind.__module__}.{kind.__qualname__} cannot be kept",
            "a state is made of numbers, text, bytes, lists, tuples, sets, dicts, tensors, arrays",
        )

    def _whole_number(self, value: Any, path: str) -> Any:
        if value.bit_length() > 8192:
            raise UsageError(f"{path}: a whole number of more than 8192 bits cannot be kept")
        return value

    def _list(self, value: Any, path: str, depth: int) -> Any:
        return [self.encode(v, f"{path}/{i}", depth) for i, v in enumerate(value)]

    def _tuple(self, value: Any, path: str, depth: int) -> Any:
        return {"$tuple": self._list(value, path, depth)}

    def _set(self, value: Any, path: str, depth: int) -> Any:
        items = [self.encode(v, f"{path}/item", depth) for v in value]
        return {"$set": sorted(items, key=json.dumps)}  # the same set always has the same form

    def _bytes(self, value: Any, path: str, depth: int) -> Any:
        return {"$bytes": base64.b64encode(value).decode()}

    def _counter(self, value: Any, path: str, depth: int) -> Any:
        return {"$counter": self._pairs(value, path, depth)}

    def _dict(self, value: Any, path: str, depth: int) -> Any:
        if all(type(k) is str and not k.startswith("$") for k in value):
            return {k: self.encode(v, f"{path}/{k}", depth) for k, v in value.items()}
        return {"$dict": self._pairs(value, path, depth)}

    def _ordered_dict(self, value: Any, path: str, depth: int) -> Any:
        metadata = getattr(value, "_metadata", None)  # versions of a module's parts
        if metadata is None:
            return self._dict(value, path, depth)
        return {
            "$state_dict": self._dict(value, path, depth),
            "metadata": self.encode(metadata, f"{path}/_metadata", depth),
        }

    def _pairs(self, value: Any, path: str, depth: int) -> list[Any]:
        return [
            [self.encode(k, f"{path}/key", depth), self.encode(v, f"{path}/{k}", depth)]
            for k, v in value.items()
        ]

    def _array(self, value: Any, path: str) -> Any:
        try:
            tensor = torch.from_numpy(np.array(value, order="C", copy=True))
        except TypeError:
            raise UsageError(f"{path}: an array of {value.dtype} cannot be kept") from None
        form = {"$array": self._named(tensor, path)}
        return form | {"scalar": True} if isinstance(value, np.generic) else form

    def _tensor(self, value: torch.Tensor, path: str) -> Any:
        if isinstance(value, DTensor):
            part = part_of(value, path)
            form: dict[str, Any] = {"global_shape": list(value.shape)}
            if part is None:  # another rank has the same part, and writes it
                return {"$tensor": path, **form}
            name = self._named(part.tensor, path, is_part=True)
            return {"$tensor": name, **form, "offsets": list(part.offsets)}
        return {"$tensor": self._named(value, path)}

    def _named(self, tensor: torch.Tensor, path: str, *, is_part: bool = False) -> str:
        self._check(tensor, path)
        key = (tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride(), tensor.device)
        # weights that are tied are kept once; a part has the same name on every rank
        if tensor.numel() and not is_part and key in self._names:
            return self._names[key]
        name, n = path, 1
        while name in self.tensors:  # keys that hold a slash can give two tensors one path
            n += 1
            name = f"{path}~{n}"
        self.tensors[name] = tensor.detach()
        self._names[key] = name
        return name

    def _check(self, tensor: torch.Tensor, path: str) -> None:
        kind = type(tensor)
        if kind not in (torch.Tensor, torch.nn.Parameter):
            raise UsageError(f"{path}: a tensor of type {kind.__qualname__} cannot be kept")
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
            raise UsageError(f"{path}: a sparse, quantised or meta tensor cannot be kept")
        if tensor.dtype not in _WORDS:
            raise UsageError(f"{path}: a tensor of {tensor.dtype} cannot be kept")


_CONTAINERS: dict[type, Callable[[Encoder, Any, str, int], Any]] = {
    list: Encoder._list,
    tuple: Encoder._tuple,
    torch.Size: Encoder._tuple,
    set: Encoder._set,
    bytes: Encoder._bytes,
    dict: Encoder._dict,
    OrderedDict: Encoder._ordered_dict,
    Counter: Encoder._counter,
}
"""By exact type: a subclass may carry what its items do not tell, and would come back without."""


def _float_word(value: float) -> str:
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor that a tree names and that is still in a file.

    `global_shape` is set for a distributed tensor; `offsets` tell which part of it lies in the
    file of this rank, None: another rank's file has it.
    """

    name: str
    global_shape: tuple[int, ...] | None = None
    offsets: tuple[int, ...] | None = None


@dataclass
class Decoder:
    """The way back. `read` gives the tensor of a name, for arrays; tensors stay `StoredTensor`s.

    DataError for what `Encoder` does not make: a file may be anybody's.
    """

    read: Callable[[str], torch.Tensor]

    def decode(self, form: Any, depth: int = 0) -> Any:
        """The value that a JSON form stands for."""
        if depth > 3 * MAX_DEPTH:
            raise DataError("the state is nested too deeply")
        if isinstance(form, list):
            return [self.decode(v, depth + 1) for v in form]
        if not isinstance(form, dict):
            return form
        tag = next((k for k in form if k.startswith("$")), None)
        if tag is None:
            return {k: self.decode(v, depth + 1) for k, v in form.items()}
        decode = _TAGS.get(tag)
        if decode is None:
            raise DataError(f"the state has an unknown form {tag[:20]!r}")
        try:
            return decode(self, form, depth + 1)
        except (TypeError, ValueError, KeyError, binascii.Error) as e:
            raise DataError(f"the state has a {tag} that cannot be understood: {e}") from None

    def _tuple(self, form: Any, depth: int) -> Any:
        return tuple(self.decode(v, depth) for v in form["$tuple"])

    def _set(self, form: Any, depth: int) -> Any:
        return {self.decode(v, depth) for v in form["$set"]}

    def _bytes(self, form: Any, depth: int) -> Any:
        return base64.b64decode(form["$bytes"], validate=True)

    def _float(self, form: Any, depth: int) -> Any:
        return _FLOATS[form["$float"]]

    def _dict(self, form: Any, depth: int) -> Any:
        return {self.decode(k, depth): self.decode(v, depth) for k, v in form["$dict"]}

    def _counter(self, form: Any, depth: int) -> Any:
        return Counter({self.decode(k, depth): self.decode(v, depth) for k, v in form["$counter"]})

    def _state_dict(self, form: Any, depth: int) -> Any:
        value = OrderedDict(self.decode(form["$state_dict"], depth))
        value._metadata = OrderedDict(self.decode(form["metadata"], depth))  # type: ignore[attr-defined]
        return value

    def _dtype(self, form: Any, depth: int) -> Any:
        value = getattr(torch, str(form["$dtype"]), None)
        if not isinstance(value, torch.dtype):
            raise ValueError("no type of torch")
        return value

    def _array(self, form: Any, depth: int) -> Any:
        array = self.read(str(form["$array"])).numpy()
        return array[()] if form.get("scalar") else array

    def _tensor(self, form: Any, depth: int) -> Any:
        return StoredTensor(
            str(form["$tensor"]), _numbers(form.get("global_shape")), _numbers(form.get("offsets"))
        )


_TAGS: dict[str, Callable[[Decoder, Any, int], Any]] = {
    "$tuple": Decoder._tuple,
    "$set": Decoder._set,
    "$bytes": Decoder._bytes,
    "$float": Decoder._float,
    "$dict": Decoder._dict,
    "$counter": Decoder._counter,
    "$state_dict": Decoder._state_dict,
    "$dtype": Decoder._dtype,
    "$array": Decoder._array,
    "$tensor": Decoder._tensor,
}


def _numbers(value: Any) -> tuple[int, ...] | None:
    return None if value is None else tuple(int(v) for v in value)
