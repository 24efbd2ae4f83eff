"""float8 of four kinds: stored, converted and moved, as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

KINDS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")


def numbers() -> Any:
    """Numbers of all sizes, and more of those near the largest ones."""
    bits = [np.arange(0, 2**32, 655210, dtype=np.uint64).astype(np.uint32)]
    bits += [
        np.arange(low, low + 0x200000, 997, dtype=np.uint32) for low in (0x43D00000, 0x47600000)
    ]
    found = np.concatenate(bits).view(np.float32)
    return found[~np.isnan(found)]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_conversions_are_exact(kind) -> None:
    theirs = torch.from_numpy(numbers()).to(getattr(torch, kind))
    ours = tj.from_numpy(numbers()).to(getattr(tj, kind))
    np.testing.assert_array_equal(ours.view(tj.uint8).numpy(), theirs.view(torch.uint8).numpy())
    np.testing.assert_array_equal(ours.float().numpy(), theirs.float().numpy())
    np.testing.assert_array_equal(ours.half().numpy(), theirs.half().numpy())
    assert ours[:0].to(tj.float64).dtype is tj.float64
    assert ours.float().isnan().tolist() == theirs.float().isnan().tolist()


EXPRESSIONS = (
    *("a", "a[1:]", "a.tolist()", "T.zeros(2, dtype=T.float8_e5m2)", "T.cat([a, a])", "a == a"),
    *("T.tensor([1.5], dtype=T.float8_e4m3fn)", "a[0].item()", "a.abs()", "a.isnan()", "a.type()"),
    *("T.full((2,), 2.0, dtype=T.float8_e4m3fn)", "T.tensor([1000]).to(T.float8_e4m3fn)"),
    *("T.finfo(T.float8_e4m3fn)", "T.finfo(T.float8_e5m2)", "a.dtype.itemsize", "a.reshape(1, -1)"),
    *("a.clone().fill_(3)", "a.is_floating_point()", "a.to(T.bfloat16)"),
)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_as_shown(expression) -> None:
    shown = []
    for of in (torch, tj):
        a = of.tensor([0.1, 1.5, 300.0, -2.0, 1000.0, float("nan")]).to(of.float8_e4m3fn)
        found = repr(eval(expression, {"T": of, "a": a}))
        shown.append(" ".join(found.replace("tracejit", "torch").split()))
    assert shown[1] == shown[0]


def test_nothing_is_promoted() -> None:
    for of in (torch, tj):
        with pytest.raises(RuntimeError, match="attempted to promote Float8_e4m3fn and Float"):
            of.promote_types(of.float8_e4m3fn, of.float32)


@pytest.mark.filterwarnings("ignore:.*kernels do not compute with float8")
def test_gradients_go_through_conversions() -> None:
    def rounded(x):
        return (x * 1.3).to(tj.float8_e4m3fn).to(x.dtype)

    for f in (rounded, tj.compile(rounded)):
        for _ in range(3):
            x = tj.tensor([1.0, 2.0, 700.0], requires_grad=True)
            y = f(x)
            y.sum().backward()
            assert y.tolist() == [1.25, 2.5, 448.0]
            assert x.grad.tolist() == pytest.approx([1.3] * 3)


def test_files_keep_them(tmp_path) -> None:
    x = tj.tensor([0.1, -448.0]).to(tj.float8_e4m3fn)
    tj.save({"x": x}, tmp_path / "x.safetensors")
    found = tj.load(tmp_path / "x.safetensors")["x"]
    assert found.dtype is tj.float8_e4m3fn
    assert found.tolist() == x.tolist()
