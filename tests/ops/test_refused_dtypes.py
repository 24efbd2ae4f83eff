"""Dtypes and extents at the edge: what PyTorch refuses is refused, and what it accepts has its dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tracejit as tj
from tracejit.nn import functional as F

Z = tj.tensor([1.0 + 1.0j, 2.0 - 1.0j])
X = tj.tensor([0.25, 0.5, 0.75])
INTS = tj.tensor([1, 0, 1])

REFUSED: dict[str, Callable[[], Any]] = {
    "max": lambda: Z.max(),
    "min along": lambda: Z.min(0),
    "amax": lambda: tj.amax(Z, 0),
    "argmax": lambda: Z.argmax(),
    "sort": lambda: Z.sort(),
    "argsort": lambda: Z.argsort(),
    "topk": lambda: Z.topk(1),
    "median": lambda: Z.median(),
    "kthvalue": lambda: Z.kthvalue(1),
    "cummax": lambda: Z.cummax(0),
    "elu": lambda: F.elu(INTS),
    "softplus": lambda: F.softplus(INTS),
    "hardswish": lambda: F.hardswish(INTS),
    "mish": lambda: F.mish(INTS),
    "logsigmoid": lambda: F.logsigmoid(INTS),
    "softshrink": lambda: F.softshrink(INTS),
    "glu": lambda: F.glu(tj.tensor([1, 2])),
    "mse_loss": lambda: F.mse_loss(INTS, INTS),
    "smooth_l1_loss": lambda: F.smooth_l1_loss(INTS, INTS),
    "huber_loss": lambda: F.huber_loss(INTS, X),
    "kl_div": lambda: F.kl_div(X, INTS),
    "binary_cross_entropy": lambda: F.binary_cross_entropy(X, INTS),
    "binary_cross_entropy, double": lambda: F.binary_cross_entropy(X, X.double()),
    "logits": lambda: F.binary_cross_entropy_with_logits(X, INTS),
    "lerp": lambda: tj.lerp(X, X.double(), 0.5),
    "lerp of ints": lambda: tj.lerp(INTS, INTS, 0.5),
}


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused(name: str) -> None:
    with pytest.raises(RuntimeError):
        REFUSED[name]()


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss])
def test_losses_count_numbers_as_tensors_like_any_others(loss: Callable[..., Any]) -> None:
    half = tj.tensor([1.0, 2.0]).half()
    assert loss(half, tj.tensor(0.5), reduction="none").dtype is tj.float32
    assert loss(half, half[0]).dtype is tj.float16


def test_losses_of_truths() -> None:
    truths = tj.tensor([True, False])
    x = tj.tensor([0.5, 0.25], requires_grad=True)
    loss = F.mse_loss(truths, x)
    loss.backward()
    assert loss.item() == pytest.approx((0.25 + 0.0625) / 2)
    assert x.grad.tolist() == [-0.5, 0.25]


def test_a_huber_loss_has_the_dtype_of_its_input() -> None:
    assert F.huber_loss(X.half(), X).dtype is tj.float16
    assert F.huber_loss(X, X.half()).dtype is tj.float32


def test_truths_over_no_dimension() -> None:
    x = tj.tensor([[0.0, 2.0], [1.0, 0.0]])
    assert (
        tj.all(x, dim=()).tolist() == tj.any(x, dim=()).tolist() == [[False, True], [True, False]]
    )


@pytest.mark.parametrize("divide", [tj.floor_divide, tj.remainder, tj.fmod])
def test_no_integers_are_divided_by_zero(divide: Callable[..., Any]) -> None:
    assert divide(tj.zeros(0, 3, dtype=tj.int64), 0).shape == (0, 3)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        divide(tj.zeros(1, dtype=tj.int64), 0)


def test_the_mean_of_no_soft_labels_is_nan() -> None:
    found = F.cross_entropy(tj.zeros(0, 4), tj.zeros(0, 4))
    assert found.isnan().item()
