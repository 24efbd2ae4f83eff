"""Functions take the kinds of elements that PyTorch's take, and refuse the others with its class of error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from parity_tools import close, torch

import tracejit as tj

KINDS = ["bool", "uint8", "int32", "int64", "complex64", "float32"]

#: Of a library, a dtype, and what makes ones of a shape in it.
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mm": lambda of, d, ones: of.mm(ones(2, 2), ones(2, 2)),
    "dot": lambda of, d, ones: of.dot(ones(2), ones(2)),
    "bmm": lambda of, d, ones: of.bmm(ones(1, 2, 2), ones(1, 2, 2)),
    "addmv": lambda of, d, ones: of.addmv(ones(2), ones(2, 2), ones(2)),
    "einsum": lambda of, d, ones: of.einsum("ij,jk", ones(2, 2), ones(2, 2)),
    "vecdot": lambda of, d, ones: of.linalg.vecdot(ones(2, 2), ones(2, 2)),
    "linear": lambda of, d, ones: of.nn.functional.linear(ones(2, 2), ones(2, 2)),
    "conv2d": lambda of, d, ones: of.nn.functional.conv2d(ones(1, 1, 3, 3), ones(1, 1, 2, 2)),
    "conv_transpose1d": lambda of, d, ones: of.nn.functional.conv_transpose1d(
        ones(1, 1, 3), ones(1, 1, 2)
    ),
    "avg_pool2d": lambda of, d, ones: of.nn.functional.avg_pool2d(ones(1, 2, 4, 4), 2),
    "max_pool1d": lambda of, d, ones: of.nn.functional.max_pool1d(ones(1, 2, 4), 2),
    "max_pool2d": lambda of, d, ones: of.nn.functional.max_pool2d(ones(1, 2, 4, 4), 2),
    "max_unpool1d": lambda of, d, ones: of.nn.functional.max_unpool1d(
        ones(1, 2, 4), of.arange(4).expand(1, 2, 4), 2
    ),
    "linear interpolation": lambda of, d, ones: of.nn.functional.interpolate(
        ones(1, 2, 4), scale_factor=2, mode="linear"
    ),
    "nearest interpolation": lambda of, d, ones: of.nn.functional.interpolate(
        ones(1, 2, 4, 4), scale_factor=2
    ),
    "reflected": lambda of, d, ones: of.nn.functional.pad(ones(1, 2, 4), (1, 1), mode="reflect"),
    "replicated": lambda of, d, ones: of.nn.functional.pad(ones(1, 2, 4), (1, 1), mode="replicate"),
    "group_norm": lambda of, d, ones: of.nn.functional.group_norm(ones(1, 2, 4), 1),
    "batch_norm": lambda of, d, ones: of.nn.functional.batch_norm(
        ones(1, 2, 4), None, None, training=True
    ),
    "instance_norm": lambda of, d, ones: of.nn.functional.instance_norm(ones(1, 2, 4)),
    "unfold": lambda of, d, ones: of.nn.functional.unfold(ones(1, 2, 4, 4), 2),
    "fold": lambda of, d, ones: of.nn.functional.fold(ones(1, 8, 9), (4, 4), 2),
    "grid_sample": lambda of, d, ones: of.nn.functional.grid_sample(
        ones(1, 1, 3, 3), ones(1, 2, 2, 2), align_corners=False
    ),
    "affine_grid": lambda of, d, ones: of.nn.functional.affine_grid(
        ones(1, 2, 3), (1, 1, 2, 2), align_corners=False
    ),
    "embedding_bag": lambda of, d, ones: of.nn.functional.embedding_bag(
        of.tensor([[0]]), ones(2, 2)
    ),
    "attention": lambda of, d, ones: of.nn.functional.scaled_dot_product_attention(
        ones(1, 2, 2), ones(1, 2, 2), ones(1, 2, 2)
    ),
    "nll_loss": lambda of, d, ones: of.nn.functional.nll_loss(ones(2, 3), of.tensor([0, 1])),
    "multi_margin_loss": lambda of, d, ones: of.nn.functional.multi_margin_loss(
        ones(2, 3), of.tensor([0, 1])
    ),
    "logits": lambda of, d, ones: of.nn.functional.binary_cross_entropy_with_logits(
        ones(2), ones(2)
    ),
    "hinge_embedding_loss": lambda of, d, ones: of.nn.functional.hinge_embedding_loss(
        ones(2), ones(2)
    ),
    "pdist": lambda of, d, ones: of.nn.functional.pdist(ones(2, 2)),
    "relu6": lambda of, d, ones: of.nn.functional.relu6(ones(2)),
    "arange": lambda of, d, ones: of.arange(0, 2, dtype=d),
    "linspace": lambda of, d, ones: of.linspace(0, 3, 4, dtype=d),
    "logspace": lambda of, d, ones: of.logspace(0, 1, 4, dtype=d),
    "tril_indices": lambda of, d, ones: of.tril_indices(2, 2, dtype=d),
    "triu_indices": lambda of, d, ones: of.triu_indices(2, 2, dtype=d),
    "bincount": lambda of, d, ones: of.bincount(ones(3)),
    "cov": lambda of, d, ones: of.cov(ones(2, 3)),
    "cumsum": lambda of, d, ones: of.cumsum(ones(2), 0, dtype=d),
    "cumprod": lambda of, d, ones: of.cumprod(ones(2), 0, dtype=d),
    "isin": lambda of, d, ones: of.isin(ones(3), ones(2)),
    "igamma": lambda of, d, ones: of.igamma(ones(2), ones(2)),
    "deg2rad": lambda of, d, ones: of.deg2rad(ones(2)),
    "nansum": lambda of, d, ones: of.nansum(ones(2)),
    "unique": lambda of, d, ones: of.unique(ones(2)),
    "searchsorted": lambda of, d, ones: of.searchsorted(ones(3), ones(2)),
    "repeat_interleave": lambda of, d, ones: of.repeat_interleave(ones(2)),
    "gradient": lambda of, d, ones: of.gradient(ones(3)),
    "index_reduce": lambda of, d, ones: of.index_reduce(
        ones(3), 0, of.tensor([0, 1]), ones(2), "amax"
    ),
    "scatter_reduce amax": lambda of, d, ones: of.scatter_reduce(
        ones(3), 0, of.tensor([0, 1]), ones(2), "amax"
    ),
    "scatter_reduce mean": lambda of, d, ones: of.scatter_reduce(
        ones(3), 0, of.tensor([0, 1]), ones(2) * 3, "mean"
    ),
    "where": lambda of, d, ones: of.where(of.tensor([True, False]), ones(2), 300),
}


def _outcome(of: Any, name: str, kind: str) -> Any:
    dtype = getattr(of, kind)
    try:
        found = CALLS[name](of, dtype, lambda *shape: of.ones(*shape).to(dtype))
    except (RuntimeError, ValueError) as error:
        return next(
            k for k in (NotImplementedError, RuntimeError, ValueError) if isinstance(error, k)
        )
    return found[0] if isinstance(found, tuple) else found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CALLS)
def test_kinds_are_taken_and_refused_alike(name: str, kind: str) -> None:
    ours, theirs = _outcome(tj, name, kind), _outcome(torch, name, kind)
    if isinstance(theirs, type):
        assert isinstance(ours, type), f"{theirs.__name__} was expected"
        assert issubclass(ours, theirs) or theirs is RuntimeError
    else:
        close(ours, theirs, 1e-5)


def test_random_numbers_of_whole_numbers_are_not_implemented() -> None:
    for of in (tj, torch):
        with pytest.raises(NotImplementedError):
            of.rand(2, dtype=of.int64)
        with pytest.raises(NotImplementedError):
            of.zeros(2, dtype=of.int64).normal_()


@pytest.mark.parametrize("value", [255, -1, 256, -300])
@pytest.mark.parametrize("kind", ["uint8", "int8", "int32"])
def test_numbers_of_where_fit_into_whole_numbers(kind: str, value: int) -> None:
    outcomes = []
    for of in (tj, torch):
        x, mask = of.ones(2, dtype=getattr(of, kind)), of.tensor([True, False])
        try:
            outcomes.append(of.where(mask, x, value))
            assert of.equal(x.where(mask, value), outcomes[-1])
        except RuntimeError:
            outcomes.append(None)
    ours, theirs = outcomes
    assert (ours is None) == (theirs is None)
    if theirs is not None:
        close(ours, theirs)


def test_memory_around_a_detached_view_is_reached_and_written() -> None:
    results = []
    for of in (tj, torch):
        whole = of.arange(12.0).reshape(3, 4)
        part = whole[1:, 1:3].detach()
        shown = part.as_strided((3, 2), (4, 1), 0)
        shown.mul_(10.0)
        results.append((shown, whole, part, part.as_strided((2, 2), (1, 2))))
        with pytest.raises(RuntimeError, match="out of bounds for storage"):
            part.as_strided((13,), (1,), 0)
    for ours, theirs in zip(*results, strict=True):
        close(ours, theirs)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("complex_", [False, True])
def test_factors_of_cholesky_solve_have_gradients_as_whole_matrices(
    upper: bool, complex_: bool
) -> None:
    a, b, g, h = np.random.default_rng(0).standard_normal((4, 3, 3))
    if complex_:
        a, b, g, h = a + 1j * b, b - 1j * a, g + 1j * h, h + 1j * a
    a = (np.triu if upper else np.tril)(a + 3 * np.eye(3))
    found = []
    for of in (tj, torch):
        dtype = of.complex128 if complex_ else of.float64
        factor, right, seed, again = (of.tensor(x).to(dtype) for x in (a, b, g, h))
        factor.requires_grad_(), right.requires_grad_()
        out = of.cholesky_solve(right, factor, upper)
        first = of.autograd.grad(out, (right, factor), seed, create_graph=True)
        second = of.autograd.grad(first, (right, factor), (again, again))
        found.append([out, *first, *second])
    for ours, theirs in zip(*found, strict=True):
        close(ours, theirs, 1e-8)


def test_statistics_of_native_group_norm_have_gradients() -> None:
    values = np.random.default_rng(0).standard_normal((2, 4, 3))
    found = []
    for of in (tj, torch):
        x = of.tensor(values, requires_grad=True)
        out, mean, rstd = of.native_group_norm(x, None, None, 2, 4, 3, 2, 1e-5)
        total = (out * out.detach().cos()).sum() + (mean * 3).sum() + (rstd * rstd).sum()
        found.append([out, mean, rstd, *of.autograd.grad(total, x)])
    for ours, theirs in zip(*found, strict=True):
        close(ours, theirs, 1e-8)
