"""uint16, uint32 and uint64: stored, converted and moved, as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

EXPRESSIONS = (
    *(
        "a * 2",
        "a.sum()",
        "a.to(T.int64)",
        "a == a",
        "a.view(T.int16)",
        "a + T.ones(3)",
        "a.float()",
    ),
    *(
        "T.zeros(2, dtype=T.uint64)",
        "a[1:]",
        "T.cat([a, a])",
        "T.stack([a, a])",
        "a & a",
        "a.bool()",
    ),
    *("T.tensor([-1]).to(T.uint16)", "T.tensor([3.7]).to(T.uint32)", "a.unique()", "a[[0, 2]]"),
    *("T.tensor([2**63 + 5], dtype=T.uint64)", "a.clone().fill_(3)", "T.zeros_like(a)"),
    *("T.from_numpy(numbers)", "T.where(a == 1, a, a * 2)", "T.tensor([1, 2]).type(T.uint16)"),
)
FACTS = (
    *(
        "a.dtype.itemsize",
        "a.dtype.is_signed",
        "a.tolist()",
        "T.iinfo(T.uint64).max",
        "a[0].item()",
    ),
    *("str(T.promote_types(T.uint16, T.float16))[-7:]", "a.type()[-12:]", "repr(a)[7:22]"),
    "T.can_cast(T.uint16, T.int16)",
)


def told(of: Any, expression: str) -> Any:
    names = {
        "T": of,
        "a": of.tensor([1, 2, 300], dtype=of.uint16),
        "numbers": np.array([1, 2], np.uint32),
    }
    return eval(expression, names)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_tensors(expression) -> None:
    theirs, ours = told(torch, expression), told(tj, expression)
    assert str(theirs.dtype).split(".")[1] == ours.dtype.name
    assert theirs.tolist() == ours.tolist()


@pytest.mark.parametrize("expression", FACTS)
def test_facts(expression) -> None:
    assert told(tj, expression) == told(torch, expression)


@pytest.mark.parametrize("other", ["int32", "bool", "uint8", "uint32"])
def test_integers_are_not_promoted(other) -> None:
    for of in (torch, tj):
        with pytest.raises(RuntimeError, match="attempted to promote UInt16 and"):
            of.promote_types(of.uint16, getattr(of, other))


def test_files_keep_them(tmp_path) -> None:
    kept = {name: tj.tensor([1, 60000], dtype=getattr(tj, name)) for name in ("uint16", "uint64")}
    tj.save(kept, tmp_path / "numbers.safetensors")
    found = tj.load(tmp_path / "numbers.safetensors")
    assert {name: (x.dtype, x.tolist()) for name, x in found.items()} == {
        name: (x.dtype, x.tolist()) for name, x in kept.items()
    }


@pytest.mark.filterwarnings("ignore:.*kernels do not compute with uint")
def test_compiled_functions_run_eagerly() -> None:
    compiled = tj.compile(lambda x: (x.to(tj.int64) * 2).sum())
    for _ in range(3):
        assert compiled(tj.tensor([1, 65535], dtype=tj.uint16)).item() == 131072
    assert "kernels do not compute with uint16" in str(compiled.explain())
