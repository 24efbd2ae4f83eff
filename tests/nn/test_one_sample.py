"""Losses of a single sample, and statistics that a layer has to be given."""

from __future__ import annotations

from typing import Any

import pytest

import tracejit as tj
from each_way import assert_each_raises, results
from tracejit.nn import functional as F

LOGITS, LOGS, CLASS = tj.tensor([1.0, 2.0, 3.0]), tj.tensor([-1.0, -2.0, -0.5]), tj.tensor([1])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_class_may_be_a_vector_of_one(reduction: str) -> None:
    for found in results(lambda x, y: F.cross_entropy(x, y, reduction=reduction), LOGITS, CLASS):
        assert found.shape == ()
        assert found.item() == pytest.approx(1.4076059)
    for found in results(lambda x, y: F.nll_loss(x, y, reduction=reduction), LOGS, CLASS):
        assert found.shape == ()
        assert found.item() == 2.0


def test_weights_and_classes_that_do_not_count() -> None:
    weight = tj.tensor([1.0, 2.0, 3.0])
    assert F.nll_loss(LOGS, CLASS, weight).item() == 2.0
    assert F.nll_loss(LOGS, CLASS, weight, reduction="sum").item() == 4.0
    assert F.nll_loss(LOGS, tj.tensor([-100]), reduction="none").item() == 0.0
    assert F.nll_loss(LOGS, tj.tensor([-100])).isnan().item()


def test_gradients() -> None:
    def slope(x: Any, y: Any) -> Any:
        (found,) = tj.autograd.grad(F.cross_entropy(x, y), x)
        return found

    compiled = tj.compile(slope)
    for call in (slope, compiled, compiled, compiled):
        found = call(LOGITS.clone().requires_grad_(), CLASS)
        assert found.tolist() == pytest.approx([0.0900306, -0.7552715, 0.6652409])


def test_other_classes_are_refused() -> None:
    for loss in (F.cross_entropy, F.nll_loss):
        assert_each_raises(ValueError, "must have size 1", loss, LOGS, tj.tensor([1, 2]))
        assert_each_raises(RuntimeError, "0D or 1D target", loss, LOGS, tj.tensor([[1]]))
        assert_each_raises(IndexError, "Target 3 is out of bounds", loss, LOGS, tj.tensor([3]))
    smoothed = lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1)  # noqa: E731
    assert_each_raises(RuntimeError, "target size", smoothed, LOGITS, CLASS)


def test_statistics_have_to_be_given_unless_it_trains() -> None:
    x, ones = tj.tensor([[1.0], [3.0]]), tj.ones(1)
    text = "Expected running_mean and running_var to be defined when training=False"
    assert_each_raises(RuntimeError, text, lambda x: F.batch_norm(x, None, None), x)
    for given in ((ones, None), (None, ones)):
        assert_each_raises(RuntimeError, "both be None", lambda x, g=given: F.batch_norm(x, *g), x)
        with pytest.raises(ValueError, match="both be None"):
            F.batch_norm(x, *given, training=True)
    assert F.batch_norm(x, None, None, training=True).flatten().tolist() == pytest.approx(
        [-1, 1], abs=1e-4
    )
    assert F.batch_norm(tj.zeros(0, 3), None, None).shape == (0, 3)
    layer = tj.nn.BatchNorm1d(1, track_running_stats=False).eval()
    assert layer(x).flatten().tolist() == pytest.approx([-1, 1], abs=1e-4)
    with pytest.raises(RuntimeError, match="use_input_stats is false"):
        F.instance_norm(tj.ones(1, 2, 3), use_input_stats=False)
