"""What functions return that give values and where they are: a class for each, printed line by line."""

from __future__ import annotations

import copy
import pickle

import pytest

import tracejit as tj

FUNCTIONS = {
    "max": lambda x: x.max(1),
    "min": lambda x: x.min(1, keepdim=True),
    "sort": lambda x: x.sort(),
    "topk": lambda x: x.topk(2),
    "kthvalue": lambda x: x.kthvalue(1),
    "median": lambda x: x.median(1),
    "nanmedian": lambda x: x.nanmedian(1),
    "mode": lambda x: x.mode(1),
    "cummax": lambda x: x.cummax(1),
    "cummin": lambda x: x.cummin(1),
    "aminmax": lambda x: x.aminmax(dim=1),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [tj.float32, tj.int64])
def test_a_class_for_each_function(name: str, dtype: tj.dtype) -> None:
    x = tj.arange(6).reshape(2, 3).to(dtype)
    run, kind = FUNCTIONS[name], getattr(tj.return_types, name)
    compiled = tj.compile(run)
    found = [run(x), *(compiled(x) for _ in range(3)), tj.func.vmap(lambda x: run(x[None]))(x)]
    found += [
        copy.deepcopy(found[0]),
        pickle.loads(pickle.dumps(found[0])),
        run(x[:, :2]),
    ]
    assert [type(result) for result in found] == [kind] * len(found)
    for result in found[:4]:
        lines = [f"{field}={part!r}" for field, part in zip(kind._fields, result, strict=True)]
        assert repr(result) == f"tracejit.return_types.{name}(\n" + ",\n".join(lines) + ")"


@pytest.mark.parametrize(
    "name", ["max", "min", "sort", "topk", "kthvalue", "median", "nanmedian", "mode"]
)
def test_single_numbers_too(name: str) -> None:
    one = tj.tensor(2.0)
    run = {"topk": lambda: one.topk(1), "kthvalue": lambda: one.kthvalue(1)}.get(name)
    found = run() if run else getattr(one, name)(0)
    assert type(found) is getattr(tj.return_types, name)
    assert (found.values.item(), found.indices.item()) == (2.0, 0)
