"""Writes through views of tensors whose sizes only a run tells: one recording for all sizes, with gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj

Program = Callable[[Any, Any], Any]


def rows(y: Any) -> Any:
    return y[:, None] * tj.arange(1.0, 4.0)


def in_place(y: Any, w: Any) -> Any:
    c = rows(y)
    c[..., -1] += 1e-3
    return c


def assigned(y: Any, w: Any) -> Any:
    c = rows(y)
    c[:, 1] = y.sin()
    return c


def of_a_view(y: Any, w: Any) -> Any:
    c = rows(y)
    c[:, 1:][:, 0] *= w
    return c


def turned(y: Any, w: Any) -> Any:
    c = rows(y)
    c.t()[1] *= y
    return c


def two_views(y: Any, w: Any) -> Any:
    c = rows(y)
    d = c[:, 1]
    c[:, 1] += w
    d *= 2
    return c * d[:, None]


def shifted(y: Any, w: Any) -> Any:
    c = rows(y)
    c[:-1] += c[1:].clone()
    return c


def several(y: Any, w: Any) -> Any:
    c = y[:, None].expand(-1, 3).clone()
    c.unsqueeze(0)[:, :, 0].mul_(y)
    c.transpose(0, 1)[2].add_(w)
    c.diagonal()[:] = 0.0
    return c


def selected(y: Any, w: Any) -> Any:
    c = rows(y)
    i = tj.tensor(1)
    c[:, i] += y
    c[i] *= w
    return c


PROGRAMS: list[Program] = [
    in_place,
    assigned,
    of_a_view,
    turned,
    two_views,
    shifted,
    several,
    selected,
]


def masked(x: Any, w: Any) -> Any:
    return (x * w)[x > 0]


def whole(x: Any, w: Any) -> Any:
    return x * w


@pytest.mark.sampled(8)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("sizes", [masked, whole], ids=["found", "of arguments"])
def test_one_recording_serves_all_sizes(program: Program, sizes: Program) -> None:
    w = tj.tensor(1.5, requires_grad=True)

    def step(x: Any) -> Any:
        loss = program(sizes(x, w), w).square().sum()
        loss.backward()
        return loss.detach()

    compiled = tj.compile(step)
    for size in (20, 21, 23, 24, 26, 29):
        x = tj.ones(size if sizes is whole else 30)
        x[size:] = -1.0
        found = []
        for f in (step, compiled):
            w.grad = None
            found.append([f(x).item(), w.grad.item()])
        np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    assert compiled.stats.recordings == (3 if sizes is whole else 1), compiled.explain()


def test_views_from_the_recorded_call_are_written_to_later() -> None:
    w = tj.tensor(1.5, requires_grad=True)

    @tj.compile
    def run(x: Any) -> Any:
        c = rows(masked(x, w))
        part = c[:, 1]
        c[:, 0] += 1
        return c, part

    x = tj.tensor([1.0, -2.0, 3.0])
    for _ in range(3):
        c, part = run(x)
        part *= 2
        part.t_()
        (gradient,) = tj.autograd.grad(c.sum(), w)
        assert c.tolist() == [[2.5, 6.0, 4.5], [5.5, 18.0, 13.5]]
        assert gradient.item() == 4 + 4 * 4 + 4 * 3


def sums(x: tj.Tensor) -> tj.Tensor:
    """Running sums with a zero before them."""
    out = x.new_zeros(len(x) + 1)
    tj.cumsum(x, 0, out=out.narrow(0, 1, len(x)))
    return out


GIVEN = {
    "a view": sums,
    "a new tensor": lambda x: tj.add(x, 1, out=tj.empty_like(x)),
    "an operand": lambda x: tj.mul(x, 2, out=x + 0),
    "a copy": lambda x: x.new_zeros(len(x) + 2)[1:-1].copy_(x),
}


@pytest.mark.parametrize("name", GIVEN)
def test_results_in_tensors_of_sizes_that_vary(name: str) -> None:
    """Whether elements of a given tensor repeat hangs on no size."""
    for chosen in (True, False):  # a size that the run tells; one of an argument

        def function(x: tj.Tensor, chosen: bool = chosen) -> tj.Tensor:
            return GIVEN[name](x[x > 0] if chosen else x)

        compiled = tj.compile(function)
        for size in (20, 30, 26, 34, 22, 40, 28):
            x = tj.arange(float(size)) - 8
            assert compiled(x).tolist() == function(x).tolist()
        assert compiled.stats.recordings <= 3, compiled.explain()
        assert compiled.stats.compiled_calls >= 4


def test_tensors_whose_elements_repeat_are_refused_for_every_size() -> None:
    def function(x: tj.Tensor) -> tj.Tensor:
        return tj.zeros(1).expand(len(x)).copy_(x)

    compiled = tj.compile(function)
    for size in (1, 3, 1, 5, 4, 1):
        if size == 1:
            assert compiled(tj.ones(1)).tolist() == [1.0]
        else:
            with pytest.raises(RuntimeError, match="more than one element of the written-to"):
                compiled(tj.ones(size))
