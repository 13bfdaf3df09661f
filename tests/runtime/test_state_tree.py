"""States as JSON and tensors: what goes in comes out, and what cannot go in is refused by name."""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from gsched.errors import DataError, UsageError
from gsched.runtime.checkpoint import tensor_file
from gsched.runtime.checkpoint.tree import DTYPES, Decoder, Encoder, StoredTensor


def there_and_back(value: object) -> Any:
    """Through the text of a tree; tensors come back from the encoder's own."""
    encoder = Encoder()
    form = json.loads(json.dumps(encoder.encode(value, "x"), allow_nan=False))
    return _filled(Decoder(encoder.tensors.__getitem__).decode(form), encoder)


def _filled(value: Any, encoder: Encoder) -> Any:
    if isinstance(value, StoredTensor):
        return encoder.tensors[value.name]
    if type(value) is dict:
        return {k: _filled(v, encoder) for k, v in value.items()}
    return [_filled(v, encoder) for v in value] if isinstance(value, list) else value


leaves = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
)
keys = st.text() | st.integers() | st.booleans() | st.none() | st.tuples(st.text(), st.integers())
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(keys, inner)
        | st.sets(st.integers() | st.text())
    ),
    max_leaves=20,
)


@settings(max_examples=50)
@given(values)
def test_any_value_of_plain_types_comes_back_as_it_was(value: object) -> None:
    back = there_and_back(value)
    assert back == value
    assert repr(back) == repr(value) or isinstance(value, set | dict | list | tuple)


def test_floats_that_json_does_not_know_come_back() -> None:
    back = there_and_back([math.inf, -math.inf, math.nan, -0.0])
    assert back[:2] == [math.inf, -math.inf]
    assert math.isnan(back[2])
    assert math.copysign(1, back[3]) == -1


def test_keys_that_look_like_forms_come_back() -> None:
    value = {"$tensor": 1, "a": {"$": 2}}
    assert there_and_back(value) == value


def test_counters_types_and_versions_come_back() -> None:
    assert there_and_back({"c": Counter({3: 2})})["c"] == Counter({3: 2})
    assert isinstance(there_and_back([Counter()])[0], Counter)
    assert there_and_back([torch.bfloat16]) == [torch.bfloat16]
    state = torch.nn.BatchNorm1d(2).state_dict()
    encoder = Encoder()
    back = Decoder(encoder.tensors.__getitem__).decode(encoder.encode(state, "m"))
    assert isinstance(back, OrderedDict)
    assert back._metadata == state._metadata


def test_arrays_and_scalars_of_numpy_come_back() -> None:
    array = np.arange(6, dtype=np.uint16).reshape(2, 3).T
    back = there_and_back([array, np.float32(0.1), np.array(5)])
    assert back[0].dtype == np.uint16
    assert (back[0] == array).all()
    assert type(back[1]) is np.float32
    assert back[1] == np.float32(0.1)
    assert back[2].shape == ()


def test_the_same_weights_are_kept_once_and_views_apart() -> None:
    base = torch.arange(8.0)
    encoder = Encoder()
    form = encoder.encode({"a": base, "tied": base, "view": base[:4], "odd": base[::2]}, "m")
    assert form["tied"] == form["a"] == {"$tensor": "m/a"}
    assert sorted(encoder.tensors) == ["m/a", "m/odd", "m/view"]


def test_tensors_whose_paths_are_alike_have_names_of_their_own() -> None:
    back = there_and_back({"a/b": torch.tensor(1), "a": {"b": torch.tensor(2)}})
    assert back["a/b"] == 1
    assert back["a"]["b"] == 2


class Odd:
    pass


def nested(depth: int) -> list[Any]:
    return [nested(depth - 1)] if depth else []


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"a": [Odd()]}, "x/a/0: a value of type .*Odd cannot be kept"),
        ({"a": defaultdict(int)}, "x/a: a value of type collections.defaultdict"),
        ({"a": lambda: 0}, "x/a: .*function"),
        ([torch.eye(2).to_sparse()], "x/0: a sparse"),
        ([torch.ones(2, dtype=torch.complex128)], "x/0: a tensor of torch.complex128"),
        ([torch.ones(2, device="meta")], "x/0: .*meta"),
        ([np.array([object()])], "x/0: an array of object"),
        (nested(200), "more than 100 containers"),
        (1 << 9000, "x: a whole number"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_the_path_to_it(value: object, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Encoder().encode(value, "x")


@pytest.mark.parametrize(
    "form",
    [
        {"$pickle": "gASV"},
        {"$tuple": 3},
        {"$dict": [[1]]},
        {"$dict": [[[], 1]]},
        {"$float": "1e9"},
        {"$bytes": "?"},
        {"$dtype": "save"},
        {"$tensor": "a", "offsets": ["x"]},
        {"$state_dict": []},
        json.loads("[" * 400 + "]" * 400),
    ],
)
def test_a_hostile_tree_is_refused(form: object) -> None:
    with pytest.raises(DataError):
        Decoder({}.__getitem__).decode(form)


def test_a_slot_is_a_safetensors_file_and_its_layout_stays(tmp_path: Path) -> None:
    tensors = {
        word.lower(): torch.arange(24).reshape(2, 3, 4).to(dtype)
        if dtype not in (torch.bool,)
        else torch.ones(3, dtype=torch.bool)
        for word, dtype in DTYPES.items()
    }
    tensors |= {"none": torch.empty(0, 3), "one": torch.tensor(7.0), "turned": torch.eye(3).T[1:]}
    key = tensor_file.key_of(tensors)
    layout = tensor_file.plan(key, {"state": "{}"})
    for state in ("{}", json.dumps({"step": list(range(500))})):
        header = tensor_file.header(layout, {"state": state})
        assert header is not None
        slot = memoryview(bytearray(layout.num_bytes))
        slot[: len(header)] = header
        for place, tensor in zip(tensor_file.views(layout, slot), tensors.values(), strict=True):
            place.copy_(tensor)
        (tmp_path / "file").write_bytes(slot)
        with safe_open(tmp_path / "file", framework="pt") as f:
            assert f.metadata() == {"state": state}
            for name, tensor in tensors.items():
                assert f.get_tensor(name).dtype == tensor.dtype
                assert (
                    f.get_tensor(name)
                    .view(torch.uint8 if tensor.dim() else tensor.dtype)
                    .equal(tensor.contiguous().view(torch.uint8 if tensor.dim() else tensor.dtype))
                )
    assert tensor_file.header(layout, {"state": "x" * 10_000}) is None


SCHEDULERS = torch.optim.lr_scheduler


@pytest.mark.parametrize(
    "make",
    [
        lambda o: SCHEDULERS.StepLR(o, 2),
        lambda o: SCHEDULERS.MultiStepLR(o, [2, 4]),
        lambda o: SCHEDULERS.LambdaLR(o, lambda n: 0.9**n),
        lambda o: SCHEDULERS.CosineAnnealingLR(o, 9),
        lambda o: SCHEDULERS.CosineAnnealingWarmRestarts(o, 3),
        lambda o: SCHEDULERS.OneCycleLR(o, 0.1, total_steps=20),
        lambda o: SCHEDULERS.CyclicLR(o, 0.01, 0.1, step_size_up=3, cycle_momentum=False),
        lambda o: SCHEDULERS.ReduceLROnPlateau(o, patience=1),
        lambda o: SCHEDULERS.SequentialLR(
            o, [SCHEDULERS.LinearLR(o), SCHEDULERS.ExponentialLR(o, 0.9)], [3]
        ),
        lambda o: SCHEDULERS.ChainedScheduler([SCHEDULERS.LinearLR(o), SCHEDULERS.StepLR(o, 2)]),
    ],
)
def test_every_scheduler_of_torch_goes_on_as_it_would_have(make) -> None:
    def fresh() -> tuple[Any, Any]:
        optimizer = torch.optim.AdamW([torch.ones(2, requires_grad=True)], lr=0.1)
        return optimizer, make(optimizer)

    def steps(optimizer: Any, scheduler: Any, n: int) -> list[float]:
        rates = []
        for _ in range(n):
            optimizer.step()
            plateau = isinstance(scheduler, SCHEDULERS.ReduceLROnPlateau)
            scheduler.step(*([1.0] if plateau else []))
            rates.append(optimizer.param_groups[0]["lr"])
        return rates

    optimizer, scheduler = fresh()
    steps(optimizer, scheduler, 5)
    kept = there_and_back([optimizer.state_dict(), scheduler.state_dict()])
    expected = steps(optimizer, scheduler, 6)
    other, its_scheduler = fresh()
    other.load_state_dict(kept[0])
    its_scheduler.load_state_dict(kept[1])
    assert steps(other, its_scheduler, 6) == expected
