"""Gradients of attention's gradients: the scores in ordinary ops, which take memory for all of them."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from .comparison import ge, le
from .contraction import matmul, transposed
from .elementwise import add, cast, mul, where
from .movement import slice as part_of
from .movement import unsqueeze
from .random import random_uniform
from .reduction import sum as total
from .source import arange
from .transcendental import exp


def fine(dtype: Any) -> Any:
    """The dtype that sums are of."""
    return dtypes.float64 if dtype is dtypes.float64 else dtypes.float32


def as_fine(x: Any) -> Any:
    """``x`` of the dtype that sums are of."""
    return cast(x, dtype=fine(x.dtype)) if x.dtype is not fine(x.dtype) else x


def columns(x: Any, first: int, count: int) -> Any:
    """Columns of a matrix."""
    last = len(x.spec.shape) - 1
    starts = tuple(first if d == last else 0 for d in range(last + 1))
    counts = tuple(count if d == last else e for d, e in enumerate(x.spec.shape))
    return part_of(x, starts=starts, counts=counts, steps=(1,) * (last + 1))


def dropping(dropout: Any, index: Any) -> dict[str, Any]:
    """The attributes that tell of dropout."""
    return {"dropout": dropout, "index": index}


class Square:
    """The scores and what becomes of them in ordinary ops, to be differentiated again; takes memory for all scores."""

    def __init__(self, q: Any, k: Any, mask: Any, lse: Any, options: dict[str, Any]) -> None:
        self.q, self.k, self.scale = as_fine(q), as_fine(k), options["scale"]
        scores = mul(matmul(self.q, transposed(self.k)), self.scale)
        if options["masked"]:
            is_bool = mask.dtype is dtypes.bool_
            scores = where(mask, scores, float("-inf")) if is_bool else add(scores, mask)
        if options["causal"]:
            queries, keys = (
                arange(start=0, step=1, count=n, dtype=dtypes.int64) for n in scores.spec.shape[-2:]
            )
            seen = le(unsqueeze(keys, dims=(0,)), unsqueeze(queries, dims=(1,)))
            scores = where(seen, scores, float("-inf"))
        self.p = exp(scores - _column(lse))
        self.shape = scores.spec.shape

    def dropped(self, x: Any, drawn: Any, options: dict[str, Any]) -> Any:
        """``x``, which is like the scores, times what dropout multiplies by."""
        low, index = options["dropout"], options["index"]
        if not low:
            return x
        if index >= 0:
            drawn = random_uniform(drawn, index=index, shape=self.shape, dtype=dtypes.float32)
        return mul(where(ge(drawn, low), 1.0 / (1.0 - low), 0.0), x)

    def to_queries(self, scores_bar: Any) -> Any:
        """The gradient of the queries for one of the scores."""
        return mul(matmul(scores_bar, self.k), self.scale)

    def to_keys(self, scores_bar: Any) -> Any:
        """The gradient of the keys for one of the scores."""
        return mul(matmul(transposed(scores_bar), self.q), self.scale)


def _column(x: Any) -> Any:
    return unsqueeze(x, dims=(len(x.spec.shape),))


def row_sum(x: Any) -> Any:
    """The sums of rows."""
    return total(x, dims=(x.ndim - 1,), keepdim=False)


def _rounded(x: Any, dtype: Any) -> Any:
    return x if x.dtype is dtype else cast(x, dtype=dtype)


def stats_rule(to: str) -> Any:
    """The gradient of the rows' logarithms."""

    def rule(
        g: Any, out: Any, q: Any, k: Any, mask: Any, scale: Any, causal: Any, masked: Any
    ) -> Any:
        options = {"scale": scale, "causal": causal, "masked": masked}
        square = Square(q, k, mask, out, options)
        return _rounded(getattr(square, to)(_column(g) * square.p), q.dtype)

    return rule


def _second(h: Any, part: str, known: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Gradients of ``attention_dq`` (part "q") or ``attention_dkv`` ("kv") for ``h``, by operand."""
    square = Square(known["q"], known["k"], known["mask"], known["lse"], options)
    g, v, h, p = as_fine(known["grad"]), as_fine(known["v"]), as_fine(h), square.p

    def dropped(x: Any) -> Any:
        return square.dropped(x, known["drawn"], options)

    rest = dropped(matmul(g, transposed(v))) - _column(known["delta"])
    found: dict[str, Any] = {}
    if part == "q":
        a = mul(matmul(h, transposed(square.k)), square.scale)
        p_bar = a * rest
        found["k"] = mul(matmul(transposed(p * rest), h), square.scale)
    else:
        width = square.k.spec.shape[-1]
        keys, values = columns(h, 0, width), columns(h, width, v.spec.shape[-1])
        a = mul(matmul(square.q, transposed(keys)), square.scale)
        p_bar = a * rest + dropped(matmul(g, transposed(values)))
        found["q"] = mul(matmul(p * rest, keys), square.scale)
        found["grad"] = matmul(dropped(p), values)
    s_bar, d_bar = p * p_bar, p * a
    shown = dropped(d_bar)
    more = {
        "grad": matmul(shown, v),
        "v": matmul(transposed(shown), g),
        "q": square.to_queries(s_bar),
        "k": square.to_keys(s_bar),
        "lse": -row_sum(s_bar),
        "delta": -row_sum(d_bar),
    }
    return {n: found[n] + x if n in found else x for n, x in more.items()}


def second_rules(part: str) -> Any:
    """The rules of a gradient's own gradient; each has the tape's names for its parameters."""

    def rule(name: str) -> Any:
        def of(
            g: Any,
            grad: Any,
            q: Any,
            k: Any,
            v: Any,
            mask: Any,
            drawn: Any,
            lse: Any,
            delta: Any,
            scale: Any,
            causal: Any,
            masked: Any,
            dropout: Any,
            index: Any,
        ) -> Any:
            known = {"grad": grad, "q": q, "k": k, "v": v, "mask": mask, "lse": lse, "delta": delta}
            known["drawn"] = drawn
            options = {"scale": scale, "causal": causal, "masked": masked}
            options |= dropping(dropout, index)
            return _rounded(_second(g, part, known, options)[name], known[name].dtype)

        return of

    return {name: rule(name) for name in ("grad", "q", "k", "v", "lse", "delta")}
