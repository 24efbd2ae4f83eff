"""Results that a function cut out of, or gave another shape to, what it alone knew are tensors of their own."""

from __future__ import annotations

from typing import Any

import pytest

import tracejit as tj

F = tj.nn.functional

CALLS: dict[str, Any] = {
    "linear in three dimensions": lambda x: F.linear(x[None], x),
    "product with a vector": lambda x: tj.mv(x, x[0]),
    "product in three dimensions": lambda x: x[None] @ x,
    "Kronecker product": lambda x: tj.kron(x, x),
    "products by labels": lambda x: tj.einsum("i,j->ij", x[0], x[1]),
    "largest": lambda x: x.max(1).values,
    "smallest": lambda x: x.min(1).values,
    "median": lambda x: x.median(1).values,
    "in its place": lambda x: x.kthvalue(2, 1).values,
    "most frequent": lambda x: x.mode(1).values,
    "quantile": lambda x: x.quantile(0.5, 1),
    "mean beside deviation": lambda x: tj.std_mean(x, 1)[1],
    "logarithm of a sum": lambda x: x.logsumexp(1),
    "group norm": lambda x: F.group_norm(x[None], 3),
    "adaptive average": lambda x: F.adaptive_avg_pool2d(x[None], 2),
    "blocks": lambda x: F.unfold(x[None, None], 2),
    "rolled": lambda x: x.roll(1),
    "turned": lambda x: tj.rot90(x),
    "scattered by a mask": lambda x: x.masked_scatter(x > 0, x),
    "sampled at a grid": lambda x: F.grid_sample(
        x[None, None], x[None, None, :, :2], align_corners=False
    ),
    "spectrogram": lambda x: tj.stft(x.flatten(), 4, return_complex=True, window=tj.ones(4)),
    "Q": lambda x: tj.linalg.qr(x).Q,
    "R": lambda x: tj.linalg.qr(x).R,
    "singular vectors": lambda x: tj.linalg.svd(x).Vh,
    "eigenvalues": lambda x: tj.linalg.eigh(x @ x.mT).eigenvalues,
    "least squares": lambda x: tj.linalg.lstsq(x, x).solution,
    "factors": lambda x: tj.linalg.lu_factor(x).LU,
    "upper factor": lambda x: tj.linalg.cholesky(x @ x.mT + 9 * tj.eye(3), upper=True),
}


def _start() -> Any:
    return (tj.arange(9.0).reshape(3, 3) * 1.7).sin().add(tj.eye(3)).requires_grad_()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_no_view(name: str, compiled: bool) -> None:
    call = tj.compile(CALLS[name]) if compiled else CALLS[name]
    for _ in range(4):  # from the third on, eager code takes steps that it remembers
        found = call(_start())
        assert not found._is_view()
        assert found.detach_() is found
        assert found.is_leaf


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["largest", "linear in three dimensions", "logarithm of a sum"])
def test_changed_in_place(name: str, compiled: bool) -> None:
    """Gradients are those of the function and of what follows, in whatever order nodes are asked."""

    def run(x: Any) -> Any:
        found = CALLS[name](x)
        found.mul_(found.detach().cos())
        return found

    call = tj.compile(run) if compiled else run
    x = _start()
    plain = CALLS[name](x)
    (expected,) = tj.autograd.grad((plain * plain.detach().cos()).sum(), x)
    for _ in range(4):
        (slope,) = tj.autograd.grad(call(x).sum(), x)
        assert tj.allclose(slope, expected)


def test_a_change_in_place_of_what_is_needed_is_told() -> None:
    """Memory that a result shares with what a backward pass needs counts its changes."""
    for _ in range(4):
        x = _start()
        found = tj.linalg.qr(x)
        found.Q.add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            found.R.sum().backward()


@pytest.mark.parametrize("forgotten", [False, True])
def test_history_is_forgotten_in_compiled_code(forgotten: bool) -> None:
    weight = tj.eye(3).requires_grad_()

    @tj.compile(strict=True)
    def run(x: Any) -> Any:
        hidden = F.linear(x[None], weight)
        if forgotten:
            hidden.detach_()
        return (hidden * weight).sum()

    for _ in range(3):
        x = _start()
        found = tj.autograd.grad(run(x), [x, weight], allow_unused=True)
        assert (found[0] is None) == forgotten
        own = x.detach() if forgotten else 2 * x.detach()
        assert tj.allclose(found[1], own, atol=1e-6)
