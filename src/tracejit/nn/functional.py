"""Layers as functions: the composites of the op table under PyTorch's names.

A function is here when the table publishes it, so the list of names cannot drift from what exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ops import functions as _functions  # noqa: F401  (publishes them)
from ..ops.table import FUNCTIONS

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...


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
    *("cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div"),
    *("binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_similarity"),
    *("poisson_nll_loss", "gaussian_nll_loss", "cosine_embedding_loss", "margin_ranking_loss"),
    *("hinge_embedding_loss", "triplet_margin_loss", "pairwise_distance", "instance_norm"),
    *("scaled_dot_product_attention", "conv1d", "conv2d", "conv3d"),
)

__all__ = [name for name in _NAMES if name in FUNCTIONS]
globals().update({name: FUNCTIONS[name] for name in __all__})
