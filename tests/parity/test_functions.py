"""Public functions against PyTorch: values, dtypes, shapes and gradients of float64 inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")

RNG = np.random.default_rng(7)
DATA = {
    "v": RNG.uniform(-2, 2, 5),
    "w": RNG.uniform(0.3, 2, 5),
    "x": RNG.uniform(-2, 2, (3, 4)),
    "y": RNG.uniform(-2, 2, (3, 4)),
    "p": RNG.uniform(0.05, 0.95, (3, 4)),
    "z": RNG.uniform(-2, 2, (2, 3, 4)),
    "u": RNG.uniform(-2, 2, (2, 4, 5)),
    "a": RNG.uniform(-2, 2, (4, 4)),
    "s": np.array(1.5),
    "n": np.array([1.0, np.nan, -np.inf, np.inf, 0.0, -0.0]),
}
INTEGERS = {
    "i": np.array([2, 0, 1, 2]),
    "c": np.array([1, 0, 3]),
    "g": np.array([[0, 2], [1, 1], [3, 0]]),
    "b": np.array([[True, False, True, False], [False] * 4, [True] * 4]),
    "k": np.array([[3, -1, 2], [0, 7, -4]]),
    "row": np.array([True, False, True]),
}

CASES = """
t.add(x, y, alpha=2) ; t.sub(x, y, alpha=0.5) ; t.rsub(x, 2.0) ; t.div(x, w[:4]) ; x / 3 ; 3 / w ; 2 - x ; x ** 2 ; w ** 0.5
w ** v ; 2.0 ** v ; x.pow(3) ; t.float_power(k, 2) ; t.div(x, w[:4], rounding_mode="trunc") ; t.div(k, 2, rounding_mode="trunc")
t.div(k, -2, rounding_mode="floor") ; k // 2 ; k % 3 ; t.fmod(k, -3) ; t.remainder(x, 0.7) ; t.fmod(x, 0.7) ; t.clamp(x, -1, 1)
t.clamp(x, min=0.5) ; t.clamp(x, max=y) ; t.clamp(x, x, y) ; t.clamp(k, -1, 2) ; t.clamp(k, 0.5) ; t.lerp(x, y, 0.3) ; t.lerp(x, y, p)
t.addcmul(x, y, p, value=0.5) ; t.addcdiv(x, y, p, value=2) ; t.nan_to_num(n) ; t.nan_to_num(n, 1.0, 2.0, 3.0) ; t.logit(p) ; t.xlogy(p, p)
t.sinc(v) ; t.heaviside(v.detach(), s.detach()) ; t.maximum(x, y) ; t.minimum(x, x) ; t.maximum(x, x) ; t.fmax(x, y) ; t.hypot(x, y) ; t.atan2(x, y)
t.logaddexp(x, y) ; t.copysign(x, y) ; abs(x) ; -x ; t.sign(x) ; t.round(x) ; t.round(x, decimals=1) ; t.frac(x) ; t.square(x) ; t.rsqrt(w)
t.exp(x) ; t.log(w) ; t.log1p(w) ; t.expm1(x) ; t.exp2(x) ; t.log2(w) ; t.log10(w) ; t.sqrt(w) ; t.sigmoid(x) ; t.tanh(x) ; t.erf(x) ; t.erfc(x)
t.erfinv(p) ; t.lgamma(w) ; t.digamma(w) ; t.sin(x) ; t.cos(x) ; t.tan(x) ; t.asin(p) ; t.acos(p) ; t.atan(x) ; t.sinh(x) ; t.cosh(x)
t.asinh(x) ; t.acosh(w + 1) ; t.atanh(p) ; t.reciprocal(w) ; t.polygamma(1, w) ; t.ldexp(x, i) ; t.deg2rad(x) ; t.rad2deg(x)
t.where(x > 0, x, y) ; t.where(b, x, 0.0) ; x.masked_fill(b, 2.0) ; t.isclose(x, y) ; t.isin(k, t.tensor([7, 2])) ; t.isnan(n) ; t.isinf(n)
x > y ; x == x ; k >= 0 ; ~b ; b & b ; b ^ b ; k | 3 ; k << 1 ; k >> 1 ; t.logical_xor(k, b[:2, :3]) ; t.logical_not(x)
x.reshape(2, 6) ; x.view(-1) ; x.view(4, 3) ; z.flatten(1) ; z.flatten(0, 1) ; z.unflatten(2, (2, -1)) ; z.permute(2, 0, 1) ; z.transpose(0, -1)
x.t() ; x.T ; z.mT ; z.movedim(0, 2) ; z.movedim((0, 1), (2, 0)) ; x.unsqueeze(1) ; x.unsqueeze(-1) ; x[None].squeeze() ; x[None].squeeze(0)
x[:, None].expand(3, 2, 4) ; x[:, :1].expand(-1, 5) ; t.broadcast_to(v, (2, 5)) ; z.narrow(1, 1, 2) ; z.select(1, -1) ; z.unbind(1)[2]
t.diagonal(z, 0, 1, 2) ; t.diagonal(x, 1) ; t.diag(v) ; t.diag(x) ; t.diag(v, -1) ; t.diag_embed(x) ; t.flip(z, (0, 2)) ; t.fliplr(x) ; t.roll(x, 1)
t.roll(z, (1, -1), (0, 2)) ; x.repeat(2, 1, 3) ; t.tile(x, (2,)) ; t.repeat_interleave(x, 2, 1) ; t.repeat_interleave(v, t.tensor([1, 0, 2, 1, 1]), 0)
t.cat([x, y], 1) ; t.cat([x, k[:, :1].expand(2, 4)]) ; t.stack([x, y], 1) ; t.stack([x, y], -1) ; t.hstack([x, y]) ; t.vstack([v, v]) ; t.dstack([x, y])
t.column_stack([v, w]) ; t.split(x, 3, 1)[1] ; t.split(x, [1, 3], 1)[1] ; t.chunk(v, 3)[2] ; t.tensor_split(v, 3)[0] ; t.tensor_split(v, (1, 3))[1]
t.meshgrid(v, w, indexing="ij")[1] ; t.meshgrid(v, w, indexing="xy")[0] ; t.block_diag(x, a) ; t.cartesian_prod(v, w) ; t.triu(a) ; t.tril(z, -1)
t.triu(a, 1) ; t.kron(x, a) ; t.trace(a) ; t.outer(v, w) ; t.inner(x, y) ; t.dot(v, w) ; t.mv(a, x[0]) ; t.mm(x, a) ; t.bmm(z, u) ; z @ a
x @ x[0] ; x[0] @ a ; v @ w ; z @ u ; x @ u ; z[0] @ u ; z[:1] @ u ; t.addmm(x, x, a, beta=0.5, alpha=2) ; t.addmv(x[:, 0], x, x[0]) ; t.baddbmm(z[:, :, :1], z, u)
t.tensordot(z, u, dims=([2], [1])) ; t.tensordot(x, a, 1) ; t.matrix_power(a, 3) ; t.matrix_power(a.detach(), 0) ; t.einsum("ij,jk->ik", x, a)
t.einsum("bij,bjk->bik", z, u) ; t.einsum("ii->i", a) ; t.einsum("ij->", x) ; t.einsum("...ij,...jk", z, u) ; t.einsum("i,j->ij", v, w)
t.einsum("bij,jk,k->b", z, a, x[0]) ; t.einsum("ii", a) ; t.einsum("ij,ij->j", x, y)
x.sum() ; x.sum(0) ; z.sum((0, 2)) ; z.sum((0, 2), keepdim=True) ; b.sum() ; k.sum(1) ; x.mean() ; z.mean(-1) ; x.prod() ; x.prod(1) ; x.prod(0, keepdim=True)
x.max() ; x.min() ; x.max(1).values ; x.max(1).indices ; x.min(0, keepdim=True).values ; x.amax(1) ; x.amin((0, 1)) ; x.argmax() ; x.argmin(1, keepdim=True)
x.argmax(keepdim=True) ; t.aminmax(x).max ; b.any() ; b.all(1) ; b.any(0, keepdim=True) ; x.var() ; x.var(1) ; x.var(1, unbiased=False) ; x.std(0, keepdim=True) ; x.std()
x.var(dim=(0, 1), correction=2) ; t.var_mean(x, 1)[1] ; t.std_mean(x, 1)[0] ; t.logsumexp(x, 1) ; t.logsumexp(z, (0, 2), True) ; t.nansum(n) ; t.nanmean(n[:2]) ; t.count_nonzero(k)
x.norm() ; x.norm(1) ; x.norm(dim=1) ; x.norm(3.0, dim=0) ; t.norm(x, float("inf")) ; t.norm(x.detach(), 0, dim=1) ; t.dist(x, y) ; x.cumsum(1) ; x.cumprod(0) ; k.cumsum(0)
t.cumprod(t.where(b, 0.0, x), 1) ; t.cummax(x, 1).values ; t.cummin(x, 0).indices ; t.logcumsumexp(x, 1) ; t.diff(x) ; t.diff(x, n=2, dim=0) ; x.median() ; x.median(1).values
x.median(1).indices ; t.quantile(x, 0.3) ; t.quantile(x, t.tensor([0.1, 0.9], dtype=t.float64), dim=1) ; t.quantile(x, 0.3, dim=0, keepdim=True, interpolation="lower") ; t.mode(k, 1).values
t.histc(x, 5, -2, 2) ; t.nanmedian(v)
t.gather(x, 1, g) ; t.gather(x, 1, c[:, None]) ; t.gather(x, 0, g[:2] // 2) ; x.scatter(1, g, y[:, :2]) ; x.scatter(1, g, 2.0) ; x.scatter_add(1, g, y[:, :2]) ; x.scatter_reduce(1, g, y[:, :2], "sum")
x.scatter_reduce(1, g, y[:, :2], "amax") ; x.scatter_reduce(1, g, y[:, :2], "prod") ; x.scatter_reduce(1, g, y[:, :2], "mean") ; x.scatter_reduce(1, g, y[:, :2], "amin", include_self=False)
x.scatter_reduce(1, g, y[:, :2], "mean", include_self=False) ; x.index_select(1, i) ; t.take_along_dim(x, c[:, None], 1) ; t.take(x, g) ; x.index_add(1, i, x) ; x.index_copy(1, t.tensor([1, 0]), y[:, :2])
x.index_fill(0, t.tensor([0, 2]), 5.0) ; x.masked_select(b) ; x.masked_scatter(b, y) ; t.nonzero(k) ; t.nonzero(b, as_tuple=True)[1] ; t.argwhere(b) ; t.argsort(x, 1) ; x.sort(1).values
x.sort(0, descending=True).indices ; x.topk(2).values ; x.topk(2, 0, largest=False).indices ; x.kthvalue(2).values ; t.msort(x) ; t.searchsorted(w.detach().sort().values, p.detach())
t.bucketize(p.detach(), t.tensor([0.2, 0.5], dtype=t.float64)) ; t.unique(i) ; t.unique(i, return_counts=True)[1] ; t.unique(i, return_inverse=True)[1] ; t.bincount(i) ; t.bincount(i, x[0].detach(), 6)
x.index_put((t.tensor([0, 0]), t.tensor([1, 1])), v[:2], accumulate=True) ; x.index_put((t.tensor([0, 2]),), x[0])
x[0] ; x[-1, 1:] ; x[..., 0] ; x[:, None, 1] ; z[..., None, 1::2] ; x[i[:2]] ; x[[0, 2]] ; x[i[1:3], 1] ; x[1, i] ; z[:, i[1:3]] ; z[0, :, i] ; z[i[1:3], :, i[1:3]] ; z[[0, 1], [2, 0]] ; x[b] ; x[row]
x[row, 0] ; x[:, b[0]] ; z[:, b] ; z[1, b] ; x[g // 2] ; z[0, g // 2, 0] ; x[None, ..., None] ; x[True] ; x[t.tensor(1)] ; x[t.tensor(1), i] ; x[1:1] ; x[::2, ::3] ; x[row, b[0][:2].sum()]
f.relu(x) ; f.gelu(x) ; f.gelu(x, approximate="tanh") ; f.silu(x) ; f.leaky_relu(x, 0.2) ; f.elu(x, 0.7) ; f.selu(x) ; f.celu(x, 1.3) ; f.softplus(x, 2.0) ; f.softsign(x) ; f.logsigmoid(x)
f.hardtanh(x) ; f.relu6(x * 4) ; f.hardsigmoid(x * 3) ; f.hardswish(x * 3) ; f.mish(x) ; f.tanhshrink(x) ; f.hardshrink(x) ; f.softshrink(x) ; f.threshold(x, 0.1, 20.0) ; f.glu(x) ; f.prelu(x, w[:4])
f.softmax(x, 1) ; f.softmax(z, 0) ; f.log_softmax(x, 1) ; f.softmin(x, 0) ; f.normalize(x) ; f.one_hot(i, 4) ; f.linear(x, a, x[0]) ; f.linear(z, a) ; f.bilinear(x, y, z.permute(0, 2, 1)[:, :, :1] * a[:4], v[:2])
f.layer_norm(z, (4,), a[0], a[1]) ; f.layer_norm(z, (3, 4)) ; f.rms_norm(z, (4,), a[0]) ; f.group_norm(u, 2, a[0], a[1]) ; f.batch_norm(u, None, None, a[0], a[1], training=True) ; f.instance_norm(u)
f.batch_norm(u, t.zeros(4, dtype=t.float64), t.ones(4, dtype=t.float64)) ; f.embedding(g, a) ; f.embedding(g, a, padding_idx=1)
f.mse_loss(x, y) ; f.mse_loss(x, y, reduction="sum") ; f.l1_loss(x, y) ; f.smooth_l1_loss(x, y, beta=0.5) ; f.huber_loss(x, y, delta=0.7) ; f.binary_cross_entropy(p, t.sigmoid(x))
f.binary_cross_entropy_with_logits(x, p) ; f.binary_cross_entropy_with_logits(x, p, pos_weight=w[:4].detach()) ; f.kl_div(x, p, reduction="batchmean") ; f.kl_div(x, y, log_target=True) ; f.poisson_nll_loss(x, p * 3, full=True)
f.gaussian_nll_loss(x, y, p) ; f.cosine_similarity(x, y) ; f.pairwise_distance(x, y) ; f.margin_ranking_loss(x, y, t.sign(p)) ; f.hinge_embedding_loss(x, t.sign(y)) ; f.triplet_margin_loss(x, y, p)
f.cosine_embedding_loss(x, y, t.tensor([1, -1, 1])) ; f.cross_entropy(x, c) ; f.cross_entropy(x, c, weight=w[:4].detach()) ; f.cross_entropy(x, c, reduction="none") ; f.cross_entropy(x, c, label_smoothing=0.1)
f.cross_entropy(x, c, weight=w[:4].detach(), label_smoothing=0.2) ; f.cross_entropy(x, c, ignore_index=0) ; f.cross_entropy(x, f.softmax(y, 1)) ; f.cross_entropy(x, f.softmax(y, 1), weight=w[:4].detach(), label_smoothing=0.1)
f.cross_entropy(z, g[:2] // 2 @ t.tensor([[1, 0, 1, 0], [0, 1, 0, 1]])) ; f.nll_loss(f.log_softmax(x, 1), c) ; f.cross_entropy(x[0], c[0]) ; f.cross_entropy(x, c, reduction="sum", ignore_index=1)
t.arange(5) ; t.arange(1, 10, 3) ; t.arange(0.0, 1.0, 0.1) ; t.arange(5, 0, -2) ; t.arange(3, dtype=t.float16) ; t.linspace(0, 1, 7) ; t.linspace(3, -2, 5, dtype=t.float64) ; t.logspace(0, 2, 4) ; t.eye(3, 4) ; t.full((2, 3), 7)
t.zeros(2, 3) ; t.ones((2,), dtype=t.int32) ; t.full_like(x, 3) ; x.new_zeros(2) ; x.new_full((2,), 1.5) ; t.tril_indices(3, 4, 1) ; t.scalar_tensor(3) ; k.to(t.float32) ; x.to(t.int32) ; x.float() ; x.bool() ; k.half() ; x.type_as(k)
f.scaled_dot_product_attention(z, z, u[:, :3]) ; f.scaled_dot_product_attention(z, z, z, is_causal=True) ; f.scaled_dot_product_attention(z, z, z, attn_mask=b[:, :3] | b[:, 2:3])
f.scaled_dot_product_attention(z, z, z, attn_mask=x[:, :3], scale=0.3) ; f.pad(x, (1, 2)) ; f.pad(z, (1, 0, 2, 1), value=3.0) ; f.pad(x, (-1, 2, 1, -1)) ; f.pad(x, (2, 1), mode="reflect") ; f.pad(z, (2, 1), mode="replicate")
f.pad(z, (2, 1), mode="circular") ; t.atleast_2d(s) ; t.atleast_3d(x) ; t.ravel(z) ; z.swapaxes(0, 1) ; t.clone(x) ; x.contiguous() ; x.expand_as(z) ; t.broadcast_tensors(x, v[:4])[1] ; t.result_type(x, 1).itemsize ; x.sum(dtype=t.float32) ; t.adjoint(z)
"""  # noqa: E501
EXPRESSIONS = [
    case.strip() for line in CASES.splitlines() for case in line.split(" ; ") if case.strip()
]


def inputs(of: Any) -> dict[str, Any]:
    """The data as tensors of a library; floats require gradients."""
    scope = {name: of.tensor(a, dtype=of.float64, requires_grad=True) for name, a in DATA.items()}
    return scope | {name: of.tensor(a) for name, a in INTEGERS.items()}


def evaluate(expression: str, of: Any, functional: Any) -> tuple[Any, dict[str, Any]]:
    scope = inputs(of)
    result = eval(expression, {**scope, "t": of, "f": functional})
    return result, scope


def array(x: Any) -> Any:
    return x.detach().double().numpy() if hasattr(x, "detach") else np.asarray(x)


@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides the total loss")  # of kl_div, theirs
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_as_pytorch(expression: str) -> None:
    theirs, their_inputs = evaluate(expression, torch, torch.nn.functional)
    ours, our_inputs = evaluate(expression, tj, tj)
    if not isinstance(theirs, torch.Tensor):
        assert ours == theirs
        return
    assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.")
    assert tuple(ours.shape) == tuple(theirs.shape)
    loose = 1e-6 if ours.dtype.itemsize < 8 else 1e-9
    np.testing.assert_allclose(array(ours), array(theirs), rtol=loose, atol=loose)
    assert ours.requires_grad == theirs.requires_grad
    if theirs.requires_grad:
        compare_gradients(ours, theirs, our_inputs, their_inputs)


def compare_gradients(ours: Any, theirs: Any, our_inputs: Any, their_inputs: Any) -> None:
    seed = np.cos(np.arange(max(theirs.numel(), 1)))[: theirs.numel()].reshape(theirs.shape)
    theirs.backward(torch.tensor(seed, dtype=theirs.dtype))
    ours.backward(tj.tensor(seed, dtype=ours.dtype))
    for name in DATA:
        their_gradient = their_inputs[name].grad
        our_gradient = our_inputs[name].grad
        assert (our_gradient is None) == (their_gradient is None), name
        if their_gradient is not None:
            np.testing.assert_allclose(
                array(our_gradient), array(their_gradient), rtol=1e-6, atol=1e-9, err_msg=name
            )
