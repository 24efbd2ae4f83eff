"""Attention as an op: memory that grows with the length and not with its square, forward and backward.

``attention(q, k, v, mask)`` is ``softmax(q k^T scale + mask) v``. What the backward pass needs of the softmax is one
number per row (`attention_stats`, the logarithm of its sum), so scores are computed again there, tile by tile (Dao et
al. 2022). Without a mask (``masked`` is False) any tensor stands in its place. Bodies take some rows at a time.
"""

# mypy: disable-error-code="has-type"
# (gradient rules name ops that are declared by the very decorator they stand in)

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import dtypes
from ..errors import ShapeError
from ..types import Shape, TensorType
from .comparison import le
from .contraction import matmul, transposed
from .elementwise import add, cast, mul, where
from .movement import slice as part_of
from .movement import unsqueeze
from .namespace import xp
from .reduction import sum as total
from .source import arange
from .table import Array, Sample, contraction
from .transcendental import exp

#: Scores that a body holds at a time.
PIECE = 1 << 24


def _out_type(
    q: TensorType, k: TensorType, v: TensorType, mask: TensorType, **_: Any
) -> TensorType:
    if q.shape[:-2] != k.shape[:-2] or k.shape[:-1] != v.shape[:-1] or q.shape[-1] != k.shape[-1]:
        raise ShapeError(f"attention: queries {q}, keys {k} and values {v} do not fit")
    return TensorType((*q.shape[:-1], v.shape[-1]), q.dtype)


def _stats_type(q: TensorType, k: TensorType, mask: TensorType, **_: Any) -> TensorType:
    return TensorType(q.shape[:-1], _fine(q.dtype))


def _dq_type(g: TensorType, q: TensorType, *_: TensorType, **__: Any) -> TensorType:
    return q


def _dkv_type(
    g: TensorType, q: TensorType, k: TensorType, v: TensorType, *_: TensorType, **__: Any
) -> TensorType:
    return TensorType((*k.shape[:-1], k.shape[-1] + v.shape[-1]), k.dtype)


def _fine(dtype: Any) -> Any:
    return dtypes.float64 if dtype is dtypes.float64 else dtypes.float32


# --- bodies ---------------------------------------------------------------------------------------------------------


def _pieces(q: Array, k: Array) -> Iterator[slice]:
    """Rows of the queries, so many that their scores are not too much."""
    row = max(1, int(np.prod(q.shape[:-2])) * k.shape[-2])
    step = max(1, PIECE // row)
    for start in range(0, q.shape[-2], step):
        yield slice(start, start + step)


def _wide(x: Array) -> Array:
    return x if x.dtype.itemsize == 8 else x.astype(np.float32)


def _scores(q: Array, k: Array, mask: Array, rows: slice, options: dict[str, Any]) -> Array:
    """The scores of some queries, -inf where they see nothing."""
    n = xp(q)
    own = _wide(q[..., rows, :])
    found = n.matmul(own, _wide(k).swapaxes(-1, -2)) * own.dtype.type(options["scale"])
    if options["masked"]:
        shown = n.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))[..., rows, :]
        low = own.dtype.type(-np.inf)
        found = n.where(shown, found, low) if shown.dtype == np.bool_ else found + _wide(shown)
    if options["causal"]:
        numbers = n.arange(q.shape[-2])[rows, None]
        seen = n.arange(k.shape[-2])[None] <= numbers
        found = n.where(seen, found, own.dtype.type(-np.inf))
    return found


def _lse(scores: Array, masked: bool) -> Array:
    """The logarithm of each row's sum; inf where a mask leaves nothing, so that every probability is zero."""
    n = xp(scores)
    top = scores.max(-1)
    base = n.where(top == -np.inf, top.dtype.type(0), top)
    sums = n.exp(scores - base[..., None]).sum(-1)
    found = base + n.log(sums)
    return n.where(sums == 0, found.dtype.type(np.inf), found) if masked else found


def _zeros(x: Array, shape: Shape, dtype: Any = None) -> Array:
    return xp(x).zeros(shape, x.dtype if dtype is None else dtype)


def _score_gradients(
    g: Array, q: Array, k: Array, v: Array, mask: Array, lse: Array, delta: Array, **options: Any
) -> Iterator[tuple[slice, Array, Array]]:
    """For some rows at a time the probabilities and the gradients of the scores."""
    n = xp(q)
    for rows in _pieces(q, k):
        p = n.exp(_scores(q, k, mask, rows, options) - lse[..., rows, None])
        d = n.matmul(_wide(g[..., rows, :]), _wide(v).swapaxes(-1, -2))
        yield rows, p, p * (d - delta[..., rows, None])


# --- gradients --------------------------------------------------------------------------------------------------------


def _float(x: Any) -> Any:
    return cast(x, dtype=_fine(x.dtype)) if x.dtype is not _fine(x.dtype) else x


def _delta(g: Any, out: Any) -> Any:
    """What the gradients of a row's scores have in common."""
    return _row_sum(mul(_float(g), _float(out)))


def _saved(g: Any, out: Any, q: Any, k: Any, v: Any, mask: Any, options: dict[str, Any]) -> Any:
    return (g, q, k, v, mask, attention_stats(q, k, mask, **options), _delta(g, out))


def _query_rule(
    g: Any, out: Any, q: Any, k: Any, v: Any, mask: Any, scale: Any, causal: Any, masked: Any
) -> Any:
    options = {"scale": scale, "causal": causal, "masked": masked}
    return attention_dq(*_saved(g, out, q, k, v, mask, options), **options)


def _columns(x: Any, first: int, count: int) -> Any:
    """Columns of a matrix."""
    last = len(x.spec.shape) - 1
    starts = tuple(first if d == last else 0 for d in range(last + 1))
    counts = tuple(count if d == last else e for d, e in enumerate(x.spec.shape))
    return part_of(x, starts=starts, counts=counts, steps=(1,) * (last + 1))


def _key_rule(
    g: Any, out: Any, q: Any, k: Any, v: Any, mask: Any, scale: Any, causal: Any, masked: Any
) -> Any:
    options = {"scale": scale, "causal": causal, "masked": masked}
    found = attention_dkv(*_saved(g, out, q, k, v, mask, options), **options)
    return _columns(found, 0, k.spec.shape[-1])


def _value_rule(
    g: Any, out: Any, q: Any, k: Any, v: Any, mask: Any, scale: Any, causal: Any, masked: Any
) -> Any:
    options = {"scale": scale, "causal": causal, "masked": masked}
    found = attention_dkv(*_saved(g, out, q, k, v, mask, options), **options)
    return _columns(found, k.spec.shape[-1], v.spec.shape[-1])


class _Square:
    """The scores and what becomes of them in ordinary ops, to be differentiated again; takes memory for all scores."""

    def __init__(self, q: Any, k: Any, mask: Any, lse: Any, options: dict[str, Any]) -> None:
        self.q, self.k, self.scale = _float(q), _float(k), options["scale"]
        scores = mul(matmul(self.q, transposed(self.k)), self.scale)
        if options["masked"]:
            is_bool = mask.dtype is dtypes.bool_
            scores = where(mask, scores, float("-inf")) if is_bool else add(scores, mask)
        if options["causal"]:
            rows, columns = (
                arange(start=0, step=1, count=n, dtype=dtypes.int64) for n in scores.spec.shape[-2:]
            )
            seen = le(unsqueeze(columns, dims=(0,)), unsqueeze(rows, dims=(1,)))
            scores = where(seen, scores, float("-inf"))
        self.p = exp(scores - _column(lse))

    def to_queries(self, scores_bar: Any) -> Any:
        """The gradient of the queries for one of the scores."""
        return mul(matmul(scores_bar, self.k), self.scale)

    def to_keys(self, scores_bar: Any) -> Any:
        """The gradient of the keys for one of the scores."""
        return mul(matmul(transposed(scores_bar), self.q), self.scale)


def _column(x: Any) -> Any:
    return unsqueeze(x, dims=(len(x.spec.shape),))


def _row_sum(x: Any) -> Any:
    return total(x, dims=(x.ndim - 1,), keepdim=False)


def _rounded(x: Any, dtype: Any) -> Any:
    return x if x.dtype is dtype else cast(x, dtype=dtype)


def _stats_rule(to: str) -> Any:
    """The gradient of the rows' logarithms."""

    def rule(
        g: Any, out: Any, q: Any, k: Any, mask: Any, scale: Any, causal: Any, masked: Any
    ) -> Any:
        options = {"scale": scale, "causal": causal, "masked": masked}
        square = _Square(q, k, mask, out, options)
        return _rounded(getattr(square, to)(_column(g) * square.p), q.dtype)

    return rule


def _second(h: Any, part: str, known: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Gradients of ``attention_dq`` (part "q") or ``attention_dkv`` ("kv") for ``h``, by operand."""
    square = _Square(known["q"], known["k"], known["mask"], known["lse"], options)
    g, v, h, p = _float(known["grad"]), _float(known["v"]), _float(h), square.p
    rest = matmul(g, transposed(v)) - _column(known["delta"])
    found: dict[str, Any] = {}
    if part == "q":
        a = mul(matmul(h, transposed(square.k)), square.scale)
        p_bar = a * rest
        found["k"] = mul(matmul(transposed(p * rest), h), square.scale)
    else:
        width = square.k.spec.shape[-1]
        keys, values = _columns(h, 0, width), _columns(h, width, v.spec.shape[-1])
        a = mul(matmul(square.q, transposed(keys)), square.scale)
        p_bar = a * rest + matmul(g, transposed(values))
        found["q"] = mul(matmul(p * rest, keys), square.scale)
        found["grad"] = matmul(p, values)
    s_bar, d_bar = p * p_bar, p * a
    more = {
        "grad": matmul(d_bar, v),
        "v": matmul(transposed(d_bar), g),
        "q": square.to_queries(s_bar),
        "k": square.to_keys(s_bar),
        "lse": -_row_sum(s_bar),
        "delta": -_row_sum(d_bar),
    }
    return {n: found[n] + x if n in found else x for n, x in more.items()}


def _rules(part: str) -> Any:
    """The rules of a gradient's own gradient; each has the tape's names for its parameters."""

    def rule(name: str) -> Any:
        def of(
            g: Any,
            grad: Any,
            q: Any,
            k: Any,
            v: Any,
            mask: Any,
            lse: Any,
            delta: Any,
            scale: Any,
            causal: Any,
            masked: Any,
        ) -> Any:
            known = {"grad": grad, "q": q, "k": k, "v": v, "mask": mask, "lse": lse, "delta": delta}
            options = {"scale": scale, "causal": causal, "masked": masked}
            return _rounded(_second(g, part, known, options)[name], known[name].dtype)

        return of

    return {name: rule(name) for name in ("grad", "q", "k", "v", "lse", "delta")}


# --- ops --------------------------------------------------------------------------------------------------------------


def _samples(shapes: tuple[Any, ...]) -> tuple[Sample, ...]:
    """Plain and causal."""
    plain = {"scale": 0.7, "masked": False}
    return tuple(Sample(shapes, {**plain, "causal": causal}) for causal in (False, True))


_Q, _K, _V = (1, 3, 2), (1, 2, 2), (1, 2, 2)
_SAVED = (_Q, _Q, _K, _V, _Q, (1, 3), (1, 3))


@contraction(
    _out_type,
    grad={"q": _query_rule, "k": _key_rule, "v": _value_rule},
    samples=(
        *_samples((_Q, _K, _V, _Q)),
        Sample(
            ((2, 5, 3), (2, 4, 3), (2, 4, 2), (5, 4)),
            {"scale": 0.5, "causal": False, "masked": True},
        ),
        Sample(
            (_Q, (1, 2, 3), _V, _Q),
            {"scale": 0.5, "causal": False, "masked": False},
            RuntimeError,
            "do not fit",
        ),
    ),
)
def attention(
    q: Array, k: Array, v: Array, mask: Array, *, scale: float, causal: bool, masked: bool
) -> Array:
    """``softmax(q k^T scale + mask) v`` for (..., L, E), (..., S, E), (..., S, V) and a mask that broadcasts to scores.

    A bool mask is True where attention is allowed; ``causal`` lets row i see keys up to i.
    """
    options = {"scale": scale, "causal": causal, "masked": masked}
    result = _zeros(q, (*q.shape[:-1], v.shape[-1]))
    for rows in _pieces(q, k) if k.shape[-2] else ():
        scores = _scores(q, k, mask, rows, options)
        p = xp(q).exp(scores - _lse(scores, masked)[..., None])
        result[..., rows, :] = xp(q).matmul(p, _wide(v)).astype(q.dtype)
    return result


@contraction(
    _stats_type,
    grad={"q": _stats_rule("to_queries"), "k": _stats_rule("to_keys")},
    samples=_samples((_Q, _K, _Q)),
)
def attention_stats(
    q: Array, k: Array, mask: Array, *, scale: float, causal: bool, masked: bool
) -> Array:
    """The logarithm of the sum of each row's exponentials of scores: what a softmax divides by."""
    options = {"scale": scale, "causal": causal, "masked": masked}
    result = _zeros(q, q.shape[:-1], np.float64 if q.dtype.itemsize == 8 else np.float32)
    for rows in _pieces(q, k) if k.shape[-2] else ():
        result[..., rows] = _lse(_scores(q, k, mask, rows, options), masked)
    return result


@contraction(_dq_type, grad=_rules("q"), samples=_samples(_SAVED))
def attention_dq(
    grad: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Array,
    lse: Array,
    delta: Array,
    *,
    scale: float,
    causal: bool,
    masked: bool,
) -> Array:
    """The gradient of `attention` for its queries: ``lse`` are its stats, ``delta`` the row sums of grad * out."""
    options = {"scale": scale, "causal": causal, "masked": masked}
    result = _zeros(q, q.shape)
    for rows, _, d in _score_gradients(grad, q, k, v, mask, lse, delta, **options):
        result[..., rows, :] = (xp(q).matmul(d, _wide(k)) * d.dtype.type(scale)).astype(q.dtype)
    return result


@contraction(_dkv_type, grad=_rules("kv"), samples=_samples(_SAVED))
def attention_dkv(
    grad: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Array,
    lse: Array,
    delta: Array,
    *,
    scale: float,
    causal: bool,
    masked: bool,
) -> Array:
    """The gradients of `attention` with respect to its keys and values, side by side: (..., S, E + V)."""
    n, options = xp(q), {"scale": scale, "causal": causal, "masked": masked}
    wide = np.float64 if q.dtype.itemsize == 8 else np.float32
    keys, values = _zeros(k, k.shape, wide), _zeros(v, v.shape, wide)
    for rows, p, d in _score_gradients(grad, q, k, v, mask, lse, delta, **options):
        keys += n.matmul(d.swapaxes(-1, -2), _wide(q[..., rows, :]))
        values += n.matmul(p.swapaxes(-1, -2), _wide(grad[..., rows, :]))
    return n.concatenate([keys * wide(scale), values], -1).astype(k.dtype)
