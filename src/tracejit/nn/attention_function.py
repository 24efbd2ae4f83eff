"""Multi-head attention as a function of its weights."""

from __future__ import annotations

from typing import Any

from . import functional as F
from .attention import MultiheadAttention
from .module import Module

__all__ = ["multi_head_attention_forward"]


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """What a :class:`MultiheadAttention` of these weights computes of queries (L, N, E) and keys and values (S, N, E).

    With ``use_separate_proj_weight`` three matrices take the place of ``in_proj_weight``. Raises ``AssertionError``
    for another embedding than ``embed_dim_to_check``, ``NotImplementedError`` for static keys or values.

    >>> import tracejit as tj
    >>> x, w, o = tj.zeros(3, 1, 4), tj.ones(12, 4), tj.ones(4, 4)
    >>> attend = tj.nn.functional.multi_head_attention_forward
    >>> attend(x, x, x, 4, 2, w, None, None, None, False, 0.0, o, None)[1].shape
    tracejit.Size([1, 3, 3])
    """
    if static_k is not None or static_v is not None:
        raise NotImplementedError("multi_head_attention_forward: static_k and static_v")
    separate, size = use_separate_proj_weight, embed_dim_to_check
    layer = _layer(
        size,
        kdim=k_proj_weight.shape[1] if separate else size,
        vdim=v_proj_weight.shape[1] if separate else size,
        num_heads=num_heads,
        in_proj_weight=None if separate else in_proj_weight,
        dropout=dropout_p,
        add_zero_attn=add_zero_attn,
        training=training,
        in_proj_bias=in_proj_bias,
        q_proj_weight=q_proj_weight,
        k_proj_weight=k_proj_weight,
        v_proj_weight=v_proj_weight,
        bias_k=bias_k,
        bias_v=bias_v,
        out_proj=lambda x: F.linear(x, out_proj_weight, out_proj_bias),
    )
    shown = average_attn_weights, is_causal
    return layer.forward(query, key, value, key_padding_mask, need_weights, attn_mask, *shown)


def _layer(embed_dim: int, num_heads: int, **values: Any) -> MultiheadAttention:
    """A layer of these values, which need not be parameters."""
    layer = MultiheadAttention.__new__(MultiheadAttention)
    Module.__init__(layer)
    sizes = {"embed_dim": embed_dim, "num_heads": num_heads, "head_dim": embed_dim // num_heads}
    layer.__dict__.update(sizes, batch_first=False, **values)
    return layer
