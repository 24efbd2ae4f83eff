"""Attention as an op: memory that grows with the length and not with its square, forward and backward.

``attention(q, k, v, mask)`` is ``softmax(q k^T scale + mask) v``. What the backward pass needs of the softmax is one
number per row (`attention_stats`, the logarithm of its sum), so scores are computed again there, tile by tile (Dao et
al. 2022). Without a mask (``masked`` is False) any tensor stands in its place. Bodies take some rows at a time.

With ``dropout`` a probability stays, larger, where a uniform number is not below ``dropout``: ``drawn`` holds these
numbers, one for each score, or (``index`` not negative) the key of the draw they come from.
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
from .attention_rules import (
    as_fine,
    columns,
    dropping,
    fine,
    row_sum,
    second_rules,
    stats_rule,
)
from .elementwise import mul
from .library_threads import multiplied
from .namespace import xp
from .random import random_uniform
from .table import Array, Sample, contraction

#: Scores that a body holds at a time.
PIECE = 1 << 24


def _out_type(
    q: TensorType, k: TensorType, v: TensorType, mask: TensorType, drawn: TensorType, **_: Any
) -> TensorType:
    if q.shape[:-2] != k.shape[:-2] or k.shape[:-1] != v.shape[:-1] or q.shape[-1] != k.shape[-1]:
        raise ShapeError(f"attention: queries {q}, keys {k} and values {v} do not fit")
    return TensorType((*q.shape[:-1], v.shape[-1]), q.dtype)


def _stats_type(q: TensorType, k: TensorType, mask: TensorType, **_: Any) -> TensorType:
    return TensorType(q.shape[:-1], fine(q.dtype))


def _dq_type(g: TensorType, q: TensorType, *_: TensorType, **__: Any) -> TensorType:
    return q


def _dkv_type(
    g: TensorType, q: TensorType, k: TensorType, v: TensorType, *_: TensorType, **__: Any
) -> TensorType:
    return TensorType((*k.shape[:-1], k.shape[-1] + v.shape[-1]), k.dtype)


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
    found = multiplied(own, _wide(k).swapaxes(-1, -2)) * own.dtype.type(options["scale"])
    if options["masked"]:
        shown = n.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))[..., rows, :]
        low = own.dtype.type(-np.inf)
        found = n.where(shown, found, low) if shown.dtype == np.bool_ else found + _wide(shown)
    if options["causal"]:
        numbers = n.arange(q.shape[-2])[rows, None]
        seen = n.arange(k.shape[-2])[None] <= numbers
        found = n.where(seen, found, own.dtype.type(-np.inf))
    return found


def _kept(q: Array, k: Array, drawn: Array, options: dict[str, Any]) -> Array | None:
    """What dropout multiplies every probability by, None without dropout."""
    low, index = options["dropout"], options["index"]
    if not low:
        return None
    shape = (*q.shape[:-1], k.shape[-2])
    if index >= 0:
        made = {"index": index, "shape": shape, "dtype": dtypes.float32}
        drawn = xp(q).asarray(random_uniform.evaluate((drawn,), made))
    n, dtype = xp(q), _wide(q).dtype.type
    return n.where(drawn >= low, dtype(1.0 / (1.0 - low)), dtype(0))


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
    g: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Array,
    drawn: Array,
    lse: Array,
    delta: Array,
    **options: Any,
) -> Iterator[tuple[slice, Array, Array]]:
    """For some rows at a time what values are weighted by, and the gradients of the scores."""
    n, kept = xp(q), _kept(q, k, drawn, options)
    for rows in _pieces(q, k):
        p = n.exp(_scores(q, k, mask, rows, options) - lse[..., rows, None])
        d = multiplied(_wide(g[..., rows, :]), _wide(v).swapaxes(-1, -2))
        if kept is None:
            yield rows, p, p * (d - delta[..., rows, None])
        else:
            factor = kept[..., rows, :]
            yield rows, p * factor, p * (d * factor - delta[..., rows, None])


# --- gradients --------------------------------------------------------------------------------------------------------


def _delta(g: Any, out: Any) -> Any:
    """What the gradients of a row's scores have in common."""
    return row_sum(mul(as_fine(g), as_fine(out)))


def _rule_of(make: Any) -> Any:
    """A gradient rule: ``make`` for what the gradients are computed from, and the attributes."""

    def rule(
        g: Any,
        out: Any,
        q: Any,
        k: Any,
        v: Any,
        mask: Any,
        drawn: Any,
        scale: Any,
        causal: Any,
        masked: Any,
        dropout: Any,
        index: Any,
    ) -> Any:
        options = {"scale": scale, "causal": causal, "masked": masked}
        rows = attention_stats(q, k, mask, **options), _delta(g, out)
        return make((g, q, k, v, mask, drawn, *rows), options | dropping(dropout, index))

    return rule


def _keys(saved: Any, options: dict[str, Any]) -> Any:
    return columns(attention_dkv(*saved, **options), 0, saved[2].spec.shape[-1])


def _values(saved: Any, options: dict[str, Any]) -> Any:
    k, v = saved[2:4]
    found = attention_dkv(*saved, **options)
    return columns(found, k.spec.shape[-1], v.spec.shape[-1])


# --- ops --------------------------------------------------------------------------------------------------------------


def _samples(shapes: tuple[Any, ...]) -> tuple[Sample, ...]:
    """Plain and causal."""
    plain = {"scale": 0.7, "masked": False}
    return tuple(Sample(shapes, {**plain, "causal": causal}) for causal in (False, True))


def _dropped(shapes: tuple[Any, ...]) -> tuple[Sample, ...]:
    """Plain, causal, and with dropout by numbers of the operand before the last two, and by a key."""
    rest = {"scale": 0.7, "masked": False, "dropout": 0.4, "causal": False}
    keyed = tuple(np.array([7, 3]) if x is _DRAWN else x for x in shapes)
    plain = tuple(Sample(s.operands, {**s.attributes, **_WHOLE}) for s in _samples(shapes))
    return (*plain, Sample(shapes, {**rest, "index": -1}), Sample(keyed, {**rest, "index": 2}))


_WHOLE = {"dropout": 0.0, "index": -1}
_Q, _K, _V = (1, 3, 2), (1, 2, 2), (1, 2, 2)
_DRAWN = np.array([[[0.1, 0.9], [0.6, 0.3], [0.5, 0.7]]], np.float32)
_SAVED = (_Q, _Q, _K, _V, _Q, _DRAWN, (1, 3), (1, 3))


@contraction(
    _out_type,
    total=True,
    grad={
        "q": _rule_of(lambda saved, options: attention_dq(*saved, **options)),
        "k": _rule_of(_keys),
        "v": _rule_of(_values),
    },
    samples=(
        *_dropped((_Q, _K, _V, _Q, _DRAWN)),
        Sample(
            ((2, 5, 3), (2, 4, 3), (2, 4, 2), (5, 4), _Q),
            {"scale": 0.5, "causal": False, "masked": True, **_WHOLE},
        ),
        Sample(
            (_Q, (1, 2, 3), _V, _Q, _Q),
            {"scale": 0.5, "causal": False, "masked": False, **_WHOLE},
            RuntimeError,
            "do not fit",
        ),
    ),
)
def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array,
    drawn: Array,
    *,
    scale: float,
    causal: bool,
    masked: bool,
    dropout: float,
    index: int,
) -> Array:
    """``softmax(q k^T scale + mask) v`` for (..., L, E), (..., S, E), (..., S, V) and a mask that broadcasts to scores.

    A bool mask is True where attention is allowed; ``causal`` lets row i see keys up to i.
    """
    options = {"scale": scale, "causal": causal, "masked": masked, **dropping(dropout, index)}
    kept = _kept(q, k, drawn, options)
    result = _zeros(q, (*q.shape[:-1], v.shape[-1]))
    for rows in _pieces(q, k) if k.shape[-2] else ():
        scores = _scores(q, k, mask, rows, options)
        p = xp(q).exp(scores - _lse(scores, masked)[..., None])
        p = p if kept is None else p * kept[..., rows, :]
        result[..., rows, :] = multiplied(p, _wide(v)).astype(q.dtype)
    return result


@contraction(
    _stats_type,
    total=True,
    grad={"q": stats_rule("to_queries"), "k": stats_rule("to_keys")},
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


@contraction(_dq_type, total=True, grad=second_rules("q"), samples=_dropped(_SAVED))
def attention_dq(
    grad: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Array,
    drawn: Array,
    lse: Array,
    delta: Array,
    *,
    scale: float,
    causal: bool,
    masked: bool,
    dropout: float,
    index: int,
) -> Array:
    """The gradient of `attention` for its queries: ``lse`` are its stats, ``delta`` the row sums of grad * out."""
    options = {"scale": scale, "causal": causal, "masked": masked, **dropping(dropout, index)}
    result = _zeros(q, q.shape)
    for rows, _, d in _score_gradients(grad, q, k, v, mask, drawn, lse, delta, **options):
        result[..., rows, :] = (multiplied(d, _wide(k)) * d.dtype.type(scale)).astype(q.dtype)
    return result


@contraction(_dkv_type, total=True, grad=second_rules("kv"), samples=_dropped(_SAVED))
def attention_dkv(
    grad: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Array,
    drawn: Array,
    lse: Array,
    delta: Array,
    *,
    scale: float,
    causal: bool,
    masked: bool,
    dropout: float,
    index: int,
) -> Array:
    """The gradients of `attention` with respect to its keys and values, side by side: (..., S, E + V)."""
    n, options = xp(q), {"scale": scale, "causal": causal, "masked": masked}
    options |= dropping(dropout, index)
    wide = np.float64 if q.dtype.itemsize == 8 else np.float32
    keys, values = _zeros(k, k.shape, wide), _zeros(v, v.shape, wide)
    for rows, p, d in _score_gradients(grad, q, k, v, mask, drawn, lse, delta, **options):
        keys += multiplied(d.swapaxes(-1, -2), _wide(q[..., rows, :]))
        values += multiplied(p.swapaxes(-1, -2), _wide(grad[..., rows, :]))
    return n.concatenate([keys * wide(scale), values], -1).astype(k.dtype)
