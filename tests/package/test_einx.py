"""einx on tensors of this package: eagerly, compiled, and with gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from process_tools import printed

einx = pytest.importorskip("einx", reason="einx is not installed (pip install einx)")


def values(*shape: int) -> np.ndarray:
    return np.random.standard_normal(shape).astype(np.float32)


#: What einx makes of a tensor (2, 3, 4), one (2, 3) and indices (2, 5), and the same of arrays.
CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "added": (lambda x, y, i: einx.add("a b c, a b", x, y), lambda x, y, i: x + y[..., None]),
    "turned": (
        lambda x, y, i: einx.id("a b (c d) -> (b a) d c", x, c=2),
        lambda x, y, i: x.reshape(2, 3, 2, 2).transpose(1, 0, 3, 2).reshape(6, 2, 2),
    ),
    "summed": (lambda x, y, i: einx.sum("a [b] c", x), lambda x, y, i: x.sum(1)),
    "chosen": (
        lambda x, y, i: einx.where("a b, a b c, ", y > 0, x, -1.0),
        lambda x, y, i: np.where(y[..., None] > 0, x, np.float32(-1)),
    ),
    "looked up": (
        lambda x, y, i: einx.get_at("a [b] c, a i -> a i c", x, i),
        lambda x, y, i: np.take_along_axis(x, i[..., None], 1),
    ),
    "multiplied": (
        lambda x, y, i: einx.dot("a b c, a b -> a c", x, y),
        lambda x, y, i: np.einsum("abc,ab->ac", x, y),
    ),
    "joined": (
        lambda x, y, i: einx.id("a b, a c -> a (b + c)", y, 2 * y),
        lambda x, y, i: np.concatenate([y, 2 * y], 1),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_operations_give_what_numpy_gives_eagerly_and_compiled(name: str) -> None:
    ours, reference = CASES[name]
    compiled = tj.compile(ours)
    for _ in range(3):  # the compiled function comes first: einx knows nothing by then
        x, y, i = values(2, 3, 4), values(2, 3), np.random.randint(0, 3, (2, 5))
        tensors = [tj.from_numpy(a) for a in (x, y, i)]
        for function in (compiled, ours):
            np.testing.assert_allclose(
                function(*tensors).numpy(), reference(x, y, i), rtol=1e-5, atol=1e-6
            )
    assert (compiled.stats.recordings, compiled.stats.compiled_calls) == (1, 2)


def test_what_einx_computes_with_is_its_own_affair() -> None:
    """It writes a program, names of which it draws, and keeps that under keys of a class from elsewhere."""
    name = "add"

    @tj.compile
    def f(x: tj.Tensor, y: tj.Tensor) -> Any:
        return getattr(einx, name)("first second, first -> second first", x, y)

    for _ in range(3):
        x, y = values(2, 3), values(2)
        assert np.array_equal(f(tj.from_numpy(x), tj.from_numpy(y)).numpy(), (x + y[:, None]).T)
    assert (f.stats.recordings, f.stats.compiled_calls) == (1, 2)


def test_gradients_flow_through() -> None:
    x = tj.from_numpy(values(2, 3, 4)).requires_grad_()
    y = tj.from_numpy(values(2, 3))
    einx.multiply("a b c, a b", x, y).sum().backward()
    assert x.grad.equal(y[..., None].expand(2, 3, 4))


@pytest.mark.parametrize("first", ["einx", "tracejit"])
def test_the_order_of_imports_does_not_matter(first: str) -> None:
    second = "tracejit" if first == "einx" else "einx"
    found = printed(
        f"import {first}, {second}, sys\n"
        "print(einx.add('a, b -> a b', tracejit.ones(2), tracejit.ones(3)).shape)\n"
        "print('torch' in sys.modules)"
    )
    assert found.splitlines() == ["tracejit.Size([2, 3])", "False"]
