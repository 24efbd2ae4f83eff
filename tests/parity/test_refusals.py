"""Arguments that PyTorch refuses are refused, with classes that one `except` clause catches, eager and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from parity_tools import compare, same_error

import tracejit as tj

CALLS = {
    "a number as index": "x[0.0]",
    "an object as index": "x[0, t]",
    "no mask beside two positions": "x[False, :, t.tensor([0, 1])]",
    "the matrix norm of a vector": "t.linalg.matrix_norm(x[0])",
    "the matrix norm over one dimension": "t.linalg.matrix_norm(x, dim=(0,))",
    "the nuclear norm of a vector": "t.linalg.norm(x[0], 'nuc')",
    "the largest of nothing": "t.linalg.vector_norm(x[:0], float('inf'))",
    "a complex order": "t.linalg.vector_norm(x, 1j)",
    "the condition of a vector": "t.linalg.cond(x[0], 1)",
    "the reflections of a vector": "t.linalg.qr(x[0])",
    "fewer dimensions than none": "t.tensordot(x, x, -1)",
    "more dimensions than there are": "t.tensordot(x, x, 3)",
    "batches in a chain": "t.linalg.multi_dot([x, t.ones(1, 3, 3)])",
    "a chain of nothing": "t.chain_matmul()",
    "a number to fit": "t.linalg.lstsq(x, t.tensor(1.0))",
    "the bits of a floating point number": "~x",
    "infinity told in numbers": "t.isposinf(x, out=t.zeros(2, 3))",
    "powers in half of their precision": "t.float_power(x, 2, out=t.zeros(2, 3))",
    "an exponent of another dtype": "t.frexp(x, out=(t.zeros(2, 3), t.zeros(2, 3)))",
    "a grid of matrices": "t.meshgrid(x, x[0], indexing='ij')",
    "the conjugate transpose of a vector": "x[0].H",
    "the conjugate transpose of a batch": "t.ones(2, 2, 2).H",
    "the diagonal of extents that differ": "t.zeros(3, 3, 2).fill_diagonal_(1)",
    "a matrix of repetitions": "t.repeat_interleave(x.long())",
    "a grid of two dtypes": "t.meshgrid(t.ones(2), t.arange(2), indexing='ij')",
    "blocks of three dimensions": "t.block_diag(t.ones(1, 1), t.ones(1, 1, 1))",
    "the diagonal of a vector": "t.ones(3).fill_diagonal_(1)",
    "a Boolean factor": "x.add(x, alpha=True)",
    "crossing bounds": "f.hardtanh(x, 0.5, -0.5)",
    "weights in rows": "f.prelu(x, t.ones(2, 3))",
    "negative threshold": "f.softshrink(x, -0.5)",
    "crossing slopes": "f.rrelu(x, 0.3, 0.1)",
    "negative margin": "f.triplet_margin_loss(x, x, x, margin=-1.0)",
    "variances of another shape": "f.gaussian_nll_loss(x, x, t.ones(2, 2))",
    "negative tolerance": "t.isclose(x, x, atol=-0.4)",
    "a number beside a tensor": "t.isclose(x, 2)",
    "a number at the step": "t.heaviside(x, 2)",
    "a number as angle": "t.polar(x, 2)",
    "a number as imaginary part": "t.complex(x, 2)",
    "a complex filling": "x.masked_fill(x > 0, 1j)",
    "a mask of numbers": "x.masked_scatter(x, x)",
    "whole weights": "t.multinomial(x.long(), 1)",
    "a table of three dimensions": "f.embedding(t.tensor([0]), t.ones(1, 1, 1))",
    "one dimension of groups": "f.group_norm(t.ones(1), 1)",
    "boundaries in rows": "t.bucketize(x, x)",
    "nothing side by side": "t.hstack([])",
    "turns of a vector": "t.rot90(t.ones(3))",
    "one diagonal dimension": "t.diag_embed(x, 0, 1, 1)",
    "reflections of a number": "t.ormqr(t.ones(()), t.ones(()), t.ones(()))",
    "part of a number": "t.narrow(t.ones(()), 0, 0, 1)",
    "repetitions that are not whole": "t.cov(t.ones(5), fweights=t.ones(5))",
    "too few weights": "t.cov(t.ones(5), aweights=t.ones(1))",
    "a dimension twice": "t.gradient(x, spacing=0.1, dim=[1, 1])",
    "two elements across": "t.linalg.cross(x, t.ones(2, 1))",
    "vectors of another rank": "t.cross(x, t.ones(3))",
    "vectors of another size": "t.cross(t.ones(3, 3), t.ones(1, 3))",
    "vectors of another dtype": "t.cross(x, x.double())",
    "vectors of truth values": "t.cross(x > 0, x > 0)",
    "a number as vectors": "t.cross(x, 2)",
    "a list in place of a tensor": "t.amax([1.0, 2.0])",
    "an array in place of a tensor": "t.std(np.ones(3))",
    "nothing in place of a tensor": "t.sort(None)",
    "an array of sizes": "t.zeros(np.array([2, 3]))",
    "whole logarithms": "t.logaddexp2(x.long(), x.long())",
    "whole parts": "t.complex(x.bfloat16(), x.bfloat16())",
    "whole angles": "t.polar(x.long(), x.long())",
    "a batch where channels should be": "t.nn.CircularPad1d(1)(t.ones(1, 1, 3, 3))",
    "no channels to pad": "t.nn.CircularPad2d(1)(x)",
    "a bias that is a number": "t.nn.LSTM(2, 3, bias=1)",
    "an order of batches that is a number": "t.nn.GRU(2, 3, batch_first=1)",
    "a negative number of words": "t.nn.Embedding(-1, 3)",
    "a negative number of inputs": "t.nn.Linear(-1, 2)",
    "pieces of a number": "t.split(t.ones(()), 1)",
    "halves of a number": "t.chunk(t.ones(()), 2)",
    "sections of a number": "t.tensor_split(t.ones(()), 2)",
    "half of a number": "f.glu(t.ones(()))",
    "the smallest of nothing": "t.kthvalue(t.ones(2, 0), 1)",
    "quantiles of nothing": "t.quantile(t.ones(0), 0.5, 0)",
    "the mean of whole numbers": "t.nanmean(x.long())",
    "the inverse of a number": "t.linalg.pinv(t.ones(()))",
    "singular values of a vector": "t.linalg.svdvals(t.ones(3))",
    "least squares of a number": "t.linalg.lstsq(t.ones(()), t.ones(()))",
    "a vector of weights": "f.linear_cross_entropy(x, t.ones(3), t.tensor([0, 1]))",
    "numbers alone": "t.bitwise_and(2, 3)",
    "powers of numbers alone": "t.pow(2, 3)",
    "polynomials of numbers alone": "t.special.legendre_polynomial_p(2, 3)",
    "a number as one of two tensors": "t.maximum(x, 2)",
    "a number as the first of two tensors": "t.atan2(2.0, x)",
    "a number compared with a tensor": "t.eq(2, x)",
    "a number limited by a tensor": "t.clamp_min(2, x)",
    "the smaller of a number": "t.min(2, x)",
    "a result of another dtype": "t.mm(x, x.T, out=t.empty(2, 2, dtype=t.float64))",
    "positions of another dtype": "t.argmax(x, out=t.empty((), dtype=t.int32))",
    "results of which one has another dtype": "t.topk(x, 1, out=(t.empty(2, 1), t.empty(2, 1)))",
    "half a step": "t.linspace(0, 1, 3.0)",
    "no step": "t.arange(0, 3, 0)",
    "shares of another dtype": "t.lerp(x, x, t.ones(3, dtype=t.int64))",
    "a number as a factor": "t.addcmul(x, 2, x)",
    "products of the truth": "t.addcmul(x > 0, x > 0, x > 0)",
    "a complex number in place of a real one": "t.full_like(x, 1 + 2j)",
    "weights of classes of another dtype": "f.nll_loss(x, t.tensor([0, 1]), t.ones(3).double())",
    "weights of classes of half precision": "f.cross_entropy(x, t.tensor([0, 1]), t.ones(3).half())",
    "weights of pixels of another dtype": "f.cross_entropy(t.ones(2, 3, 2), t.ones(2, 2).long(), t.ones(3).double(), "
    "label_smoothing=0.1)",
    "a class of probabilities to ignore": "f.cross_entropy(x, x / 3, ignore_index=1)",
    "more targets than rows": "f.linear_cross_entropy(x, t.ones(4, 3), t.tensor([0, 1, 2]))",
    "a layer's weight of another dtype": "f.layer_norm(x, (3,), t.ones(3).double())",
    "a layer's bias of another dtype": "f.layer_norm(x, (3,), t.ones(3), t.ones(3).double())",
    "a layer's weight of half precision": "f.layer_norm(x, (3,), t.ones(3).half())",
    "a layer's weight and bias of two dtypes": "f.layer_norm(x.half(), (3,), t.ones(3), t.ones(3).half())",
    "a group's weight of another dtype": "f.group_norm(x, 3, t.ones(3).double())",
    "a batch's weight of another dtype": "f.batch_norm(x, None, None, t.ones(3).double(), training=True)",
    "a batch's statistics of another dtype": "f.batch_norm(x, t.ones(3).double(), t.ones(3).double())",
    "an instance's weight of another dtype": "f.instance_norm(t.ones(2, 3, 2), weight=t.ones(3).double())",
    "a grid of another dtype": "f.grid_sample(t.ones(1, 1, 2, 2), t.ones(1, 2, 2, 2).double(), align_corners=False)",
    "keys of another dtype": "f.scaled_dot_product_attention(x, x.double(), x)",
    "a mask of another dtype": "f.scaled_dot_product_attention(x, x, x, t.ones(2, 2).double())",
    "a sequence of another dtype": "t.nn.LSTM(3, 2)(x.double())",
    "a module of integers": "t.nn.Linear(3, 2).to(t.int64)",
    "parts that lie apart": "t.view_as_complex(t.ones(3, 4)[:, ::2])",
    "parts in columns": "t.view_as_complex(x.T)",
    "an odd number of parts between": "t.view_as_complex(x[:, :2])",
    "extremes along nothing": "t.aminmax(t.ones(2, 0, 2), dim=1)",
    "extremes of nothing": "t.aminmax(t.ones(2, 0, 2))",
    "a sparse window": "t.signal.windows.hann(3, layout=t.sparse_coo)",
    "a start that is true": "t.narrow(x, 0, t.tensor(True), 1)",
    "negative repetitions": "t.cov(x[0], fweights=t.tensor([1, -1, 2]))",
    "negative importance": "t.cov(x[0], aweights=-x[1])",
    "a complex tensor as filling": "x.masked_fill(x > 0, t.tensor(1j))",
    "nothing between the bounds": "t.zeros(3).random_(3, 1)",
    "negative weights of a draw": "t.multinomial(x - 2.0, 1)",
    "no weights of a draw": "t.multinomial(x * 0.0, 1)",
    "bins of NaN": "t.histogram(x * float('nan'), 3)",
    "quantiles beyond all": "t.quantile(x, t.tensor([0.5, 2.0]))",
    "the quantile NaN": "t.quantile(x, t.tensor([float('nan')]))",
    "an empty buffer": "t.frombuffer(bytearray(), dtype=t.float32)",
    "a buffer that ends in an element": "t.frombuffer(bytearray(7), dtype=t.float32)",
    "more elements than a buffer has": "t.frombuffer(bytearray(8), dtype=t.float32, count=3)",
    "a place behind a buffer": "t.frombuffer(bytearray(8), dtype=t.float32, offset=8)",
    "the sign of a number": "t.is_signed(2)",
    "NaN as weight of a draw": "t.multinomial(x * float('nan'), 1, replacement=True)",
    "a bias of another shape": "f.linear_cross_entropy(x, t.ones(4, 3), t.tensor([0, 1]), linear_bias=t.ones(3))",
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("compiled", [False, True])
def test_refused(name: str, compiled: bool) -> None:
    def call(t: Any, f: Any) -> Any:
        def run(x: Any) -> Any:
            return eval(CALLS[name], {"t": t, "f": f, "x": x, "np": np})

        return (tj.compile(run) if compiled and t is tj else run)(t.ones(2, 3))

    same_error(call)


X, W, B = (np.random.default_rng(4).standard_normal(s) for s in ((3, 5), (4, 2, 5), (4, 2)))


@pytest.mark.parametrize(
    "call",
    [
        "f.linear_cross_entropy(x, w[:, 0], t.tensor([0, 3, 1]), linear_bias=b[:, 0])",
        "f.linear_cross_entropy(x, w, t.tensor([[0, 3], [1, 1], [2, 0]]), linear_bias=b, reduction='sum')",
        "f.linear_cross_entropy(x, w[:, 0], t.tensor([0, 3, 1]), ignore_index=3, label_smoothing=0.1)",
        "f.linear_cross_entropy(x[0], w[:, 0], t.tensor(2), weight=b[:, 0].detach().abs())",
        "f.kl_div(x[0, 0], x[0, 1].exp(), reduction='batchmean')",
        "f.gaussian_nll_loss(x, x * 0.5, b[:3, :1].abs() + 0.1)",
    ],
)
def test_what_is_taken(call: str) -> None:
    compare(lambda t, f, x, w, b: eval(call, {"t": t, "f": f, "x": x, "w": w, "b": b}), [X, W, B])
