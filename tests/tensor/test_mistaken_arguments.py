"""What is given in place of a tensor, and tensors that cannot be what is asked of them: the errors of PyTorch."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tracejit as tj
import tracejit.nn.functional as F
from tracejit.errors import AutogradError, ConversionError

X, LABELS, ARRAY = tj.ones(2, 3), tj.tensor([0, 1]), np.ones((2, 3), np.float32)
LINEAR, EMBEDDING = tj.nn.Linear(3, 2), tj.nn.Embedding(3, 2)
CALLS = {
    "a layer": (lambda x: LINEAR(x), "input"),
    "an embedding": (lambda x: EMBEDDING(x), "input"),
    "weights": (lambda x: F.linear(X, x), "weight"),
    "scores": (lambda x: F.cross_entropy(x, LABELS), "input"),
    "targets": (lambda x: F.mse_loss(X, x), "target"),
    "an activation": (lambda x: F.hardtanh(x), "input"),
    "a norm": (lambda x: F.group_norm(x, 1), "input"),
}


@pytest.mark.parametrize("given", [ARRAY, "text", (1.0,)], ids=["array", "text", "tuple"])
@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_tensor_is_called_by_its_class(name: str, given: object):
    call, argument = CALLS[name]
    kind = "numpy.ndarray" if given is ARRAY else type(given).__name__
    for function in (call, tj.compile(call)):
        with pytest.raises(TypeError, match=rf"argument '{argument}' .*must be Tensor, not {kind}"):
            function(given)


def test_other_attribute_errors_stay_what_they_are():
    class Odd(tj.nn.Module):
        def forward(self, x):
            return F.linear(x, self.wieght)

    with pytest.raises(AttributeError, match="wieght"):
        Odd()(X)


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "bool", "float32"])
@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
def test_classes_are_long_or_byte(loss, kind: str):
    for function in (loss, tj.compile(loss)):
        with pytest.raises(RuntimeError, match="expected target dtype to be Long or Byte, but got"):
            function(X, LABELS.to(getattr(tj, kind)))
    assert loss(X, LABELS.to(tj.uint8)) == loss(X, LABELS)


@pytest.mark.parametrize(
    "asked",
    [
        lambda: bool(X > 0),
        lambda: X.item(),
        lambda: "a" in X,
        lambda: tj.tensor([None]),
    ],
    ids=["truth", "number", "text inside", "nothing"],
)
def test_what_cannot_be_converted_is_no_matter_of_gradients(asked):
    with pytest.raises(RuntimeError) as raised:
        asked()
    assert isinstance(raised.value, ConversionError)
    assert not isinstance(raised.value, AutogradError)


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda: tj.nn.Linear(3, 4)(X.double()), "Convert one of them, with .to(tj.float32)"),
        (lambda: tj.nn.Linear(3, 4)(ARRAY), "Make a tensor of it: tj.tensor(...)."),
        (lambda: tj.nn.Linear(3, 4)([[1.0, 2.0, 3.0]]), "Make a tensor of it: tj.tensor(...)."),
        (lambda: tj.relu([1.0, 2.0]), "Make a tensor of it: tj.tensor(...)."),
        (lambda: tj.nn.Embedding(3, 2)(tj.ones(1)), ".long() makes some."),
        (lambda: F.cross_entropy(X, LABELS.float()), "target.long() makes some."),
        (lambda: tj.optim.SGD(tj.nn.Linear(3, 4), lr=0.1), "model.parameters()"),
    ],
)
def test_common_mistakes_are_told_what_to_do(call, advice: str):
    with pytest.raises((TypeError, RuntimeError), match=re.escape(advice)) as caught:
        call()
    assert "test_mistaken_arguments.py" in str(caught.value)
