"""Functions that are called otherwise at the top of the package than in ``nn.functional``, as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

random = np.random.default_rng(0)
ARRAYS = {
    "x": random.normal(size=(4, 3)),
    "y": random.normal(size=(4, 3)),
    "z": random.uniform(size=(4, 3)),
    "x3": random.normal(size=(4, 3, 5)),
    "w": random.normal(size=3),
    "b": random.normal(size=3),
    "m": random.normal(size=3),
    "v": random.uniform(0.5, 1.5, 3),
    "table": random.normal(size=(7, 3)),
    "i": random.integers(0, 7, (2, 3)),
    "sign": np.sign(random.normal(size=4)),
    "logs": np.log(random.dirichlet(np.ones(5), (6, 2))),
    "targets": random.integers(1, 5, (2, 3)),
    "long": np.array([6, 6]),
    "short": np.array([3, 2]),
}
CALLS = (
    "batch_norm(x, w, b, m, v, False, 0.1, 1e-5, False)",
    "batch_norm(x, w, b, m, v, True, 0.1, 1e-5, True)",
    "batch_norm(x, None, None, None, None, True, 0.1, 1e-5, False)",
    "batch_norm(x, weight=w, bias=b, running_mean=m, running_var=v, training=False, momentum=0.1, eps=0.1,"
    " cudnn_enabled=False)",
    "instance_norm(x3, w, b, None, None, True, 0.1, 1e-5, False)",
    "instance_norm(x3, w, b, m, v, False, 0.1, 1e-5, False)",
    "layer_norm(x, (3,), w, b, 1e-5, False)",
    "layer_norm(x, [3])",
    "group_norm(x3, 3, w, b, 1e-5, cudnn_enabled=False)",
    "embedding(table, i)",
    "embedding(table, i, -1, False, False)",
    "embedding(weight=table, indices=i, padding_idx=2)",
    "dropout(x, p=0.5, train=False)",
    "dropout(x, 0.5, False)",
    "alpha_dropout(x, 0.5, False)",
    "feature_alpha_dropout(x3, 0.5, train=False)",
    *(f"kl_div(x, z, {n}, log_target={t})" for n in range(3) for t in (False, True)),
    *(f"binary_cross_entropy_with_logits(x, z, w, b, {n})" for n in range(3)),
    *(f"poisson_nll_loss(x, z, True, True, 1e-8, {n})" for n in range(3)),
    *(f"margin_ranking_loss(x[:, 0], y[:, 0], sign, 0.1, {n})" for n in range(3)),
    *(f"hinge_embedding_loss(x[:, 0], sign, 0.7, {n})" for n in range(3)),
    *(f"cosine_embedding_loss(x, y, sign, 0.1, {n})" for n in range(3)),
    *(f"triplet_margin_loss(x, y, z, 1.0, 2.0, 1e-6, True, {n})" for n in range(3)),
    *(f"ctc_loss(logs, targets, long, short, 0, {n}, True)" for n in range(3)),
)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_calls_at_the_top(call: str, compiled: bool) -> None:
    found = []
    for of in (torch, tj):
        values: dict[str, Any] = {name: of.tensor(array) for name, array in ARRAYS.items()}
        values["x"].requires_grad_()
        values["table"].requires_grad_()
        names = [name for name in ARRAYS if name in call]
        run = eval(f"lambda {', '.join(names)}: of.{call}", {"of": of})
        if compiled and of is tj:
            run = tj.compile(run)
        for _ in range(3 if compiled else 1):
            out = run(*(values[name].clone() for name in names))
        grads = []
        if out.requires_grad:
            leaves = [values[name] for name in ("x", "table") if name in names]
            grads = [
                g for g in of.autograd.grad(out.sum(), leaves, allow_unused=True) if g is not None
            ]
        found.append([t.detach().numpy() for t in (out, *grads)])
    assert len(found[0]) == len(found[1])
    for expected, result in zip(*found, strict=True):
        assert expected.dtype == result.dtype
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-9)


def test_running_statistics_are_updated() -> None:
    found = []
    for of in (torch, tj):
        x, m, v = (of.tensor(ARRAYS[name]) for name in "xmv")
        of.batch_norm(x, None, None, m, v, True, 0.5, 1e-5, False)
        found.append((m.numpy(), v.numpy()))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


def test_what_is_no_reduction_or_no_epsilon() -> None:
    with pytest.raises(ValueError, match="3 is not a valid value for reduction"):
        tj.kl_div(tj.zeros(2), tj.ones(2), 3)
    for of in (torch, tj):
        layer = of.nn.BatchNorm1d(3, eps=0.0)
        with pytest.raises(ValueError, match=r"eps must be positive during training, but got 0\.0"):
            layer(of.ones(2, 3))
        assert layer.eval()(of.ones(2, 3)).tolist() == of.ones(2, 3).tolist()


def test_forms_of_layers_are_understood() -> None:
    indices, table = tj.tensor([1, 0]), tj.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert tj.embedding(indices, table).tolist() == tj.embedding(table, indices).tolist()
    x = tj.tensor([[1.0], [3.0]])
    assert np.allclose(tj.batch_norm(x, None, None, training=True).tolist(), [[-1.0], [1.0]])
    assert tj.kl_div(x, x, reduction="sum").item() == tj.kl_div(x, x, 2).item()
    assert tj.dropout(x, 0.5, training=False).tolist() == x.tolist()
