"""Multi-head attention: weighted means of values, the weights learned from queries and keys."""

from __future__ import annotations

import math
from typing import Any

from ...dtypes import DType, bool_
from ...ops.functions.common import constant
from ...ops.functions.joining import cat
from .. import functional as F
from .. import init
from ..attention_backends import SDPBackend, sdpa_kernel
from ..linear import Linear, empty_parameter
from ..module import Module
from ..parameter import Parameter

__all__ = [
    "MultiheadAttention",
    "NonDynamicallyQuantizableLinear",
    "SDPBackend",
    "sdpa_kernel",
]


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear under the name that the output projection of attention has in printed models."""


class MultiheadAttention(Module):
    """softmax(Q Kᵀ / sqrt(d)) V in ``num_heads`` heads of d = embed_dim / num_heads, between projections.

    Queries (L, N, E), keys (S, N, kdim) and values (S, N, vdim), batch first with ``batch_first``, or without the
    batch. Returns the outputs (L, N, E) and, with ``need_weights``, the attention (N, L, S). Raises ``AssertionError``
    or ``RuntimeError`` for shapes that do not fit. Source: Vaswani et al., 2017.

    >>> import tracejit as tj
    >>> x = tj.zeros(2, 5, 8)
    >>> out, weights = tj.nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)
    >>> out.shape, weights.shape
    (tracejit.Size([2, 5, 8]), tracejit.Size([2, 5, 5]))
    """

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    q_proj_weight: Parameter
    k_proj_weight: Parameter
    v_proj_weight: Parameter
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                "embed_dim and num_heads must be greater than 0, got "
                f"embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn
        place = {"device": device, "dtype": dtype}
        self._make_projections(bias, **place)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, **place)
        for name in ("bias_k", "bias_v"):
            extra = empty_parameter(1, 1, embed_dim, **place) if add_bias_kv else None
            self.register_parameter(name, extra)
        self._reset_parameters()

    @property
    def _qkv_same_embed_dim(self) -> bool:
        return self.kdim == self.embed_dim and self.vdim == self.embed_dim

    def _make_projections(self, bias: bool, **place: Any) -> None:
        e = self.embed_dim
        joint = self._qkv_same_embed_dim
        shapes = {
            "q_proj_weight": None if joint else (e, e),
            "k_proj_weight": None if joint else (e, self.kdim),
            "v_proj_weight": None if joint else (e, self.vdim),
            "in_proj_weight": (3 * e, e) if joint else None,
            "in_proj_bias": (3 * e,) if bias else None,
        }
        for name, shape in shapes.items():
            self.register_parameter(name, empty_parameter(*shape, **place) if shape else None)

    def _reset_parameters(self) -> None:
        """Draw new values."""
        names = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight")
        for name in names:
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """The outputs and, with ``need_weights``, the attention (of each head unless averaged).

        Bool masks are True, float masks -inf, where attention is not allowed: ``key_padding_mask`` (N, S),
        ``attn_mask`` (L, S) or (N * heads, L, S).
        """
        alone = query.ndim == 2
        _check_inputs(self, query, key, value)
        if alone:
            query, key, value = (x.unsqueeze(1) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif self.batch_first:
            query, key, value = _time_first(query, key, value)
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        out, weights = self._attend(query, key, value, key_padding_mask, attn_mask, need_weights)
        if alone:
            out = out.squeeze(1)
        elif self.batch_first:
            out = out.transpose(0, 1)
        if weights is None:
            return out, None
        weights = weights.mean(1) if average_attn_weights else weights
        return out, weights.squeeze(0) if alone else weights

    def _attend(
        self, query: Any, key: Any, value: Any, padding: Any, mask: Any, need_weights: bool
    ) -> tuple[Any, Any]:
        q, k, v = self._project(query, key, value)
        k, v, added = self._with_extras(k, v)
        q, k, v = (self._heads(x) for x in (q, k, v))
        if self.add_zero_attn:
            zeros = constant(0, q.dtype, (*tuple(k.shape)[:2], 1, self.head_dim))
            k, v = (cat([x, zeros], 2) for x in (k, v))
            added += 1
        steps, samples = query.shape[:2]
        total = _mask(padding, mask, (samples, self.num_heads, steps, key.shape[0]), q.dtype)
        if total is not None and added:
            total = F.pad(total, (0, added))
        rate = self.dropout if self.training else 0.0
        if need_weights:
            out, weights = _weighted(q, k, v, total, rate)
        else:
            out, weights = F.scaled_dot_product_attention(q, k, v, total, rate), None
        joined = out.permute(2, 0, 1, 3).reshape(steps, samples, self.embed_dim)
        return self.out_proj(joined), weights

    def _project(self, query: Any, key: Any, value: Any) -> list[Any]:
        bias = self.in_proj_bias
        if self.in_proj_weight is None:
            biases = (None,) * 3 if bias is None else bias.chunk(3)
            matrices: Any = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            return [
                F.linear(x, w, b)
                for x, w, b in zip((query, key, value), matrices, biases, strict=True)
            ]
        if query is key and key is value:
            return list(F.linear(query, self.in_proj_weight, bias).chunk(3, -1))
        biases = (None,) * 3 if bias is None else bias.chunk(3)
        matrices = self.in_proj_weight.chunk(3)
        return [
            F.linear(x, w, b) for x, w, b in zip((query, key, value), matrices, biases, strict=True)
        ]

    def _with_extras(self, k: Any, v: Any) -> tuple[Any, Any, int]:
        """Keys and values with the learned one at the end."""
        if self.bias_k is None or self.bias_v is None:
            return k, v, 0
        samples = k.shape[1]
        k = cat([k, self.bias_k.expand(1, samples, self.embed_dim)], 0)
        v = cat([v, self.bias_v.expand(1, samples, self.embed_dim)], 0)
        return k, v, 1

    def _heads(self, x: Any) -> Any:
        """(T, N, E) as (N, heads, T, d)."""
        return x.reshape(x.shape[0], x.shape[1], self.num_heads, self.head_dim).permute(1, 2, 0, 3)


def _time_first(query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
    """The first two dimensions exchanged; what was one tensor stays one."""
    q = query.transpose(0, 1)
    k = q if key is query else key.transpose(0, 1)
    return q, k, k if value is key else value.transpose(0, 1)


def _check_inputs(module: MultiheadAttention, query: Any, key: Any, value: Any) -> None:
    if query.ndim not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.ndim}-D query tensor"
        )
    if key.ndim != query.ndim or value.ndim != query.ndim:
        kind = "unbatched" if query.ndim == 2 else "batched"
        raise AssertionError(
            f"For {kind} ({query.ndim}-D) `query`, expected `key` and `value` to be {query.ndim}-D but "
            f"found {key.ndim}-D and {value.ndim}-D tensors respectively"
        )
    for name, x, size in (
        ("embedding", query, module.embed_dim),
        ("key", key, module.kdim),
        ("value", value, module.vdim),
    ):
        if x.shape[-1] != size:
            raise AssertionError(f"was expecting {name} dimension of {size}, but got {x.shape[-1]}")


def _as_float(mask: Any, dtype: DType) -> Any:
    """A mask to be added: -inf where a bool one is True."""
    if mask.dtype is bool_:
        return constant(0, dtype).masked_fill(mask, float("-inf"))
    return mask.to(dtype)


def _mask(padding: Any, mask: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """Both masks as one that can be added to scores (N, heads, L, S), None without any."""
    samples, heads, steps, keys = shape
    total = None
    if mask is not None:
        expected = (steps, keys) if mask.ndim == 2 else (samples * heads, steps, keys)
        if tuple(mask.shape) != expected:
            raise RuntimeError(
                f"The shape of the {mask.ndim}D attn_mask is {mask.shape}, but should be {expected}."
            )
        lead = (1, 1) if mask.ndim == 2 else (samples, heads)
        total = _as_float(mask, dtype).reshape(*lead, steps, keys)
    if padding is None:
        return total
    if tuple(padding.shape) != (samples, keys):
        raise AssertionError(
            f"expecting key_padding_mask shape of {(samples, keys)}, but got {padding.shape}"
        )
    own = _as_float(padding, dtype).reshape(samples, 1, 1, keys)
    return own if total is None else total + own


def _weighted(q: Any, k: Any, v: Any, mask: Any, rate: float) -> tuple[Any, Any]:
    """Outputs and attention of every head."""
    scores = (q * (1.0 / math.sqrt(q.shape[-1]))) @ k.transpose(-2, -1)
    weights = F.softmax(scores if mask is None else scores + mask, -1)
    weights = F.dropout(weights, rate) if rate else weights
    return weights @ v, weights
