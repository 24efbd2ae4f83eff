"""What refusals name: the class that is out of range, the function, the kind of error that PyTorch raises there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj

F = tj.nn.functional


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
@pytest.mark.parametrize("bad", [3, 5, -7])
def test_classes_out_of_range_are_named(loss: Any, bad: int, compiled: bool) -> None:
    call = tj.compile(lambda x, target: loss(x, target)) if compiled else loss
    for _ in range(4):
        assert call(tj.ones(2, 3), tj.tensor([0, -100])).shape == ()
        with pytest.raises(IndexError, match=f"Target {bad} is out of bounds") as refused:
            call(tj.ones(2, 3), tj.tensor([0, bad]))
        assert f"{loss.__name__}() takes classes from 0 to 2" in str(refused.value)


def test_losses_name_themselves() -> None:
    with pytest.raises(TypeError, match=r"mse_loss\(\): argument 'target' \(position 2\)"):
        F.mse_loss(tj.ones(2), 3)
    with pytest.raises(TypeError, match=r"smooth_l1_loss\(\): argument 'input' \(position 1\)"):
        F.smooth_l1_loss(3, target=tj.ones(2))


@pytest.mark.parametrize("compiled", [False, True])
def test_products_with_arrays_are_of_the_wider_dtype(compiled: bool) -> None:
    def product(x: Any) -> Any:
        return x @ np.full((2, 3), 2.0)

    call = tj.compile(product) if compiled else product
    for _ in range(3):
        found = call(tj.ones(2, 2))
        assert found.dtype is tj.float64
        assert found.tolist() == [[4.0] * 3] * 2
    assert (tj.ones(2, 2) @ np.ones((2, 2), "f4")).dtype is tj.float32


def test_hooks_return_tensors() -> None:
    x = tj.ones(2, requires_grad=True)
    x.register_hook(lambda g: 3)
    with pytest.raises(TypeError, match="hook returned 'int'"):
        (x * 2).sum().backward()


def test_flags_and_versions() -> None:
    x = tj.ones(2)
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        x.requires_grad = "yes"
    with tj.inference_mode():
        made = tj.ones(2)
        assert (made * 2).sum() == 4
    with pytest.raises(RuntimeError, match="do not track version counter"):
        assert made._version == 0
    for _ in range(4):
        assert F.linear(made[None], tj.ones(2, 2)).shape == (1, 2)


def test_functions_that_return_no_tensors() -> None:
    x = tj.ones(2)
    for refused in (
        lambda: tj.func.vjp(lambda z: 3, x),
        lambda: tj.func.jvp(lambda z: 3, (x,), (x,)),
        lambda: tj.func.linearize(lambda z: 3, x),
    ):
        with pytest.raises(RuntimeError, match="to return only tensors"):
            refused()
    with pytest.raises(ValueError, match="to be a dict, or a list/tuple of dicts"):
        tj.func.functional_call(tj.nn.Linear(2, 1), 3, x)
