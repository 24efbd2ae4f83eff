"""What functions compute inside autocast, beside PyTorch."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from parity_tools import close, torch

import tracejit as tj

CALLS = [
    "F.mse_loss(b, p)",
    "F.l1_loss(b, p)",
    "F.smooth_l1_loss(b, p)",
    "F.huber_loss(b, p)",
    "F.kl_div(b, p)",
    "F.poisson_nll_loss(b, p)",
    "F.binary_cross_entropy_with_logits(b, p)",
    "F.cross_entropy(b, p)",
    "F.binary_cross_entropy(p, p)",
    "F.cross_entropy(b, y)",
    "F.cross_entropy(b, y, label_smoothing=0.1)",
    "F.nll_loss(b, y)",
    "F.multi_margin_loss(b, y)",
    "F.soft_margin_loss(b, s)",
    "F.hinge_embedding_loss(b, s)",
    "F.margin_ranking_loss(b, p, s)",
    "F.cosine_embedding_loss(b, p, s[:, 0])",
    "F.triplet_margin_loss(b, p, p + 1)",
    "b.prod(1)",
    "b.quantile(0.5)",
    "t.cdist(b, p)",
    "b.trace()",
    "b.softmax(1)",
    "F.pad(b[None, None], (1, 1, 1, 1), mode='replicate')",
    "F.pad(b[None, None], (1, 1, 1, 1), mode='circular')",
    "F.avg_pool3d(b.reshape(1, 1, 2, 3, 4), 2)",
    "t.addmm(f[:, :1], f, f.T)",
    "t.addbmm(f[:, :1], f[None], f.T[None])",
    "t.dot(f[0], f[1])",
    "t.mv(f, f[0])",
    "F.prelu(f, t.ones(1))",
    "f @ f.T",
    "t.addmv(f[:, 0], f, f[0])",
    "t.tensordot(f, f, dims=2)",
    "t.tensordot(f, f[0], dims=1)",
    "t.inner(f, f)",
    "t.inner(f[0], f[0])",
    "t.linalg.vecdot(f, f)",
    "F.bilinear(f, f, f.reshape(2, 3, 4)[:, :2].repeat(1, 2, 1), f[0, :2])",
    "t.linalg.inv(m)",
    "t.linalg.inv_ex(m)[0]",
    "t.linalg.solve(m, m + 1)",
    "t.linalg.solve_ex(m.float(), m.float())[0]",
    "t.linalg.cholesky(m @ m.T)",
    "t.linalg.cholesky_ex(m @ m.T)[0]",
    "t.cholesky_inverse(t.linalg.cholesky(m @ m.T).to(t.bfloat16))",
    "t.cholesky_solve(m, t.linalg.cholesky(m @ m.T).to(t.bfloat16))",
    "t.linalg.svdvals(b)",
    "t.linalg.svd(b)[1]",
    "t.linalg.eigvalsh(m + m.T)",
    "t.linalg.eigh(m + m.T)[0]",
    "t.linalg.eigvals(m).abs().sum()",
    "t.linalg.eig(m)[0].abs().sum()",
    "t.linalg.qr(b)[1].abs()",
    "t.linalg.qr(f[:, :0])[1]",
    "t.linalg.cond(m)",
    "t.linalg.matrix_rank(m)",
    "t.linalg.lstsq(b, b)[0]",
    "t.linalg.householder_product(f, f[0])",
    "t.linalg.householder_product(b, b[0])",
    "t.ormqr(f, f[0], f)",
    "t.geqrf(b)[0].abs()",
    "t.linalg.tensorinv(m.reshape(2, 2, 4))",
    "t.linalg.tensorsolve(m, m[0])",
    "t.triangular_solve(m, m)[0]",
    "t.pinverse(b)",
    "t.inverse(m)",
    "t.linalg.lu_solve(*t.linalg.lu_factor(m.float()), m.float())",
    "t.fft.fft(b).abs()",
    "t.fft.rfft2(b).abs()",
    "t.fft.irfft(b)",
    "t.polar(p, b).abs()",
    "F.adaptive_avg_pool3d(b.reshape(1, 1, 2, 3, 4), 2)",
    "F.adaptive_max_pool3d(b.reshape(1, 1, 2, 3, 4), 2)",
    "F.max_pool3d(b.reshape(1, 1, 2, 3, 4), 2)",
    "F.max_pool3d(b.reshape(1, 1, 2, 3, 4), 2, return_indices=True)[0]",
    "F.max_unpool2d(*F.max_pool2d(b[None], 2, return_indices=True), 2)",
    "F.pad(b.reshape(1, 2, 3, 2, 2), (1, 1, 1, 1, 1, 1), mode='reflect')",
    "t.index_copy(f, 0, t.tensor([1]), b[:1])",
    "t.index_copy(b, 0, t.tensor([1]), f[:1])",
    "t.svd_lowrank(f, 4)[1] * 0",
]


def _run(call: str, names: dict[str, Any]) -> Any:
    t = names["t"]
    with t.autocast("cpu", dtype=t.bfloat16):
        return eval(call, names)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_dtypes_and_values(call: str, compiled: bool) -> None:
    rng = np.random.default_rng(0)
    x, p = rng.normal(size=(6, 4)), rng.random((6, 4)) * 0.8 + 0.1
    found: list[Any] = []
    for t in (tj, torch):
        f = t.tensor(x, dtype=t.float32)
        names = {"t": t, "F": t.nn.functional, "f": f, "b": f.to(t.bfloat16), "s": f.sign()}
        names |= {"p": t.tensor(p).to(t.bfloat16), "y": t.tensor([0, 1, 2, 3, 0, 1])}
        names["m"] = (t.tensor(x[:4], dtype=t.float32) + 4 * t.eye(4)).to(t.bfloat16)
        run = tj.compile(_run) if compiled and t is tj else _run
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(1 + 2 * compiled):
                out = run(call, names)
            found.append(out)
    assert str(found[0].dtype).rpartition(".")[2] == str(found[1].dtype).rpartition(".")[2]
    exact = found[0].dtype is not tj.bfloat16 and "bilinear" not in call
    close(*(x.double() for x in found), tolerance=1e-5 if exact else 2e-2)


LAYERS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"num_layers": 2, "bidirectional": True, "batch_first": True},
    {"proj_size": 2},
]


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("way", LAYERS)
@pytest.mark.parametrize("state", [False, True])
def test_lstm(way: dict[str, Any], state: bool, compiled: bool) -> None:
    """Outputs and states have the dtype of autocast, unless the library that PyTorch asks knows no such layer."""
    x = np.random.default_rng(0).normal(size=(3, 3, 4)).astype("float32")
    found: list[Any] = []
    weights: dict[str, Any] = {}
    for t in (torch, tj):
        layer = t.nn.LSTM(4, 4, **way)
        if t is torch:
            weights = {name: w.detach().numpy() for name, w in layer.named_parameters()}
        layer.load_state_dict({name: t.tensor(w) for name, w in weights.items()})
        rows = way.get("num_layers", 1) * (1 + way.get("bidirectional", False))
        ends = [t.ones(rows, 3, way.get("proj_size", 4)), t.ones(rows, 3, 4)]

        def run(x: Any, layer: Any = layer, t: Any = t, ends: Any = ends) -> Any:
            with t.autocast("cpu", dtype=t.bfloat16):
                out, (hidden, cell) = layer(x, tuple(ends)) if state else layer(x)
            return out, hidden, cell

        call = tj.compile(run) if compiled and t is tj else run
        for _ in range(1 + 2 * compiled):
            leaf = t.tensor(x, requires_grad=True)
            outs = call(leaf)
        total = sum(o.float().sum() for o in outs)
        found.append((*outs, *t.autograd.grad(total, [leaf, layer.weight_ih_l0])))
    for theirs, ours in zip(*found, strict=True):
        assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
        close(ours.double(), theirs.double(), tolerance=6e-2)
