"""Options that layers refuse, and dtypes of what losses return."""

from __future__ import annotations

from typing import Any

import pytest

import tracejit as tj

F = tj.nn.functional


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [tj.bfloat16, tj.float16, tj.float32, tj.float64], ids=str)
def test_soft_margins_of_whole_labels_have_the_dtype_of_the_scores(dtype: Any) -> None:
    scores = tj.linspace(-2, 2, 6).reshape(2, 3).to(dtype).requires_grad_()
    labels = tj.tensor([[1, 0, 1], [0, 0, 1]])
    expected = F.multilabel_soft_margin_loss(scores.detach().double(), labels.double()).item()
    loss = tj.compile(F.multilabel_soft_margin_loss)
    for found in (
        F.multilabel_soft_margin_loss(scores, labels),
        *(loss(scores, labels) for _ in range(3)),
    ):
        assert found.dtype is dtype
        assert found.item() == pytest.approx(expected, rel=2e-2)
        (gradient,) = tj.autograd.grad(found, scores)
        assert gradient.dtype is dtype
    with pytest.raises(RuntimeError, match="bool"):
        F.multilabel_soft_margin_loss(scores, labels.bool())


@pytest.mark.parametrize("training", [True, False])
def test_no_variance_is_made_smaller(training: bool) -> None:
    layer = tj.nn.BatchNorm1d(3, eps=-1.0).train(training)
    for called in (layer, tj.compile(layer)):
        with pytest.raises(ValueError, match="eps must be"):
            called(tj.ones(2, 3))
    x = tj.tensor([[1.0], [2.0]])
    assert F.batch_norm(x, tj.zeros(1), tj.ones(1), eps=0.0).tolist() == x.tolist()


@pytest.mark.parametrize("kind", [tj.nn.RNN, tj.nn.GRU])
def test_only_long_memory_is_projected(kind: Any) -> None:
    with pytest.raises(ValueError, match="only supported for LSTM, not RNN or GRU"):
        kind(2, 3, proj_size=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'projected'"):
        kind(2, 3, projected=1)
    assert kind(2, 3, device="cpu", dtype=tj.float64).weight_ih_l0.dtype is tj.float64


@pytest.mark.parametrize("kind", [tj.nn.RNN, tj.nn.GRU, tj.nn.LSTM])
def test_recurrent_layers_refuse_sizes_of_nothing(kind: Any) -> None:
    for sizes, name in (((0, 5), "input_size"), ((-1, 5), "input_size"), ((5, 0), "hidden_size")):
        with pytest.raises(ValueError, match=f"{name} must be greater than zero"):
            kind(*sizes)
    with pytest.raises(TypeError, match="input_size should be of type int"):
        kind(2.0, 5)
