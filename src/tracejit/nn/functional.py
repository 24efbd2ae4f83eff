"""Layers as functions: the composites of the op table under PyTorch's names.

A function is here when the table publishes it, so the list of names cannot drift from what exists.
"""

from __future__ import annotations

import importlib
from typing import Any

from ..ops import functions as _functions  # noqa: F401  (publishes them)
from ..ops.keywords import publish
from ..ops.table import FUNCTIONS
from ..ops.tensors_only import refusing
from . import grad as grad

#: Functions that need layers: they are imported when they are asked for.
_LATE = {
    "multi_head_attention_forward": "attention_function",
    **dict.fromkeys(("_canonical_mask", "_none_or_dtype", "_verify_batch_size"), "attention_parts"),
    **dict.fromkeys(("_in_projection", "_in_projection_packed"), "attention_parts"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__package__}.{_LATE[name]}"), name)


_MAXIMA = ("max_pool", "adaptive_max_pool")
_SPATIAL = (
    *("conv_transpose", "avg_pool", "adaptive_avg_pool", "lp_pool", "max_unpool", "dropout"),
    *_MAXIMA,
)
_NAMES = (
    *(
        "linear",
        "bilinear",
        "embedding",
        "one_hot",
        "dropout",
        "pad",
        "normalize",
        "unfold",
        "fold",
    ),
    *("relu", "relu6", "gelu", "silu", "mish", "elu", "selu", "celu", "leaky_relu", "prelu", "glu"),
    *("sigmoid", "tanh", "logsigmoid", "softplus", "softsign", "tanhshrink", "hardtanh"),
    *("hardswish", "hardsigmoid", "hardshrink", "softshrink", "threshold", "gumbel_softmax"),
    *("softmax", "softmin", "log_softmax", "layer_norm", "rms_norm", "group_norm", "batch_norm"),
    *(
        "cross_entropy",
        "linear_cross_entropy",
        "nll_loss",
        "mse_loss",
        "l1_loss",
        "smooth_l1_loss",
        "huber_loss",
        "kl_div",
    ),
    *("binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_similarity"),
    *("poisson_nll_loss", "gaussian_nll_loss", "cosine_embedding_loss", "margin_ranking_loss"),
    *("hinge_embedding_loss", "triplet_margin_loss", "pairwise_distance", "instance_norm"),
    *("scaled_dot_product_attention", "conv1d", "conv2d", "conv3d", "conv_tbc"),
    *(f"{name}{rank}d" for name in _SPATIAL for rank in (1, 2, 3)),
    *(f"{name}{rank}d_with_indices" for name in _MAXIMA for rank in (1, 2, 3)),
    *("alpha_dropout", "feature_alpha_dropout", "rrelu", "local_response_norm", "embedding_bag"),
    *(
        "interpolate",
        "upsample",
        "upsample_nearest",
        "upsample_bilinear",
        "pixel_shuffle",
        "pixel_unshuffle",
        "channel_shuffle",
        "native_channel_shuffle",
    ),
    *("grid_sample", "affine_grid", "grouped_mm", "pdist", "ctc_loss"),
    *("soft_margin_loss", "multi_margin_loss", "multilabel_margin_loss"),
    *("multilabel_soft_margin_loss", "triplet_margin_with_distance_loss"),
    *(f"fractional_max_pool{rank}d{also}" for rank in (2, 3) for also in ("", "_with_indices")),
    "threshold_",
    *(f"{name}_" for name in ("relu", "elu", "selu", "celu", "leaky_relu", "hardtanh", "rrelu")),
)

__all__ = [name for name in _NAMES if name in FUNCTIONS]
globals().update({name: FUNCTIONS[name] for name in __all__})
_threshold = FUNCTIONS["threshold"]
#: Those that are the same objects at the top of the package.
SHARED = (
    *("adaptive_avg_pool1d", "avg_pool1d", "bilinear", "celu_", "channel_shuffle", "conv_tbc"),
    *(f"{name}{rank}d" for name in ("conv", "conv_transpose") for rank in (1, 2, 3)),
    *("cosine_similarity", "native_channel_shuffle", "pairwise_distance", "pdist"),
    *("pixel_shuffle", "pixel_unshuffle", "prelu", "relu_", "rrelu_", "selu_", "threshold_"),
)
#: Those here that take ``out=``.
_WRITING = (
    *("avg_pool2d", "avg_pool3d", "gelu", "hardshrink", "linear", "logsigmoid"),
    *("normalize", "softplus", "softshrink"),
)
publish(globals(), _WRITING)
globals().update(
    {name: refusing(FUNCTIONS[name]) for name in ("embedding", "fold", "one_hot", "unfold")}
)
