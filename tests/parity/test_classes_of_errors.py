"""Errors are of the classes that PyTorch's are, and what it refuses is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracejit as tj
import tracejit.nn.functional as F
from tracejit import cuda


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: tj.tensor(2**63), ValueError, "Overflow when unpacking long long"),
        (lambda x: tj.tensor(2**63), RuntimeError, "Overflow when unpacking long long"),
        (lambda x: x[0][::-1], ValueError, "step must be greater than zero"),
        (lambda x: x[0][::2], IndexError, "too many indices"),
        (lambda x: x.view(), TypeError, "missing 1 required"),
        (lambda x: x.reshape(), TypeError, "missing 1 required"),
        (lambda x: tj.full(2, 1.0), TypeError, "must be tuple of ints, not int"),
        (lambda x: tj.full((2,), np.array(2)), TypeError, r"must be Number, not numpy\.ndarray"),
        (lambda x: tj.full_like(x, np.array(2)), TypeError, r"must be Number, not numpy\.ndarray"),
        (lambda x: tj.randint(5, 2), TypeError, "must be tuple of ints, not int"),
        (lambda x: F.layer_norm(x, 2), TypeError, "must be tuple of ints, not int"),
        (lambda x: F.rms_norm(x, 2), TypeError, "must be tuple of ints, not int"),
        (lambda x: tj.Tensor(1.5), TypeError, r"data must be a sequence \(got float\)"),
    ],
)
def test_refused(call: Callable[[Any], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call(tj.arange(2.0))


@pytest.mark.skipif(cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("kind", [AssertionError, RuntimeError])
def test_without_a_gpu(kind: type[Exception]) -> None:
    with pytest.raises(kind, match="no GPU can be used"):
        tj.ones(1).cuda()


def _of_other_module(name: str) -> Any:
    """A function of PyTorch's kind: it asks the class of what it is given, and is what that should call."""

    def work(x: Any) -> Any:
        return type(x).__torch_function__(work, (type(x),), (x,), {})

    work.__module__ = "torch.nn.functional"
    work.__name__ = name
    return work


@pytest.mark.parametrize("kind", ["Tensor", "Parameter"])
def test_functions_of_pytorch_are_told_apart(kind: str) -> None:
    x = tj.ones(2) if kind == "Tensor" else tj.nn.Parameter(tj.ones(2))
    with pytest.raises(TypeError, match=r"PyTorch's gelu\(\) was given a tensor of tracejit"):
        _of_other_module("gelu")(x)
    assert tj.relu(x).tolist() == [1.0, 1.0]
