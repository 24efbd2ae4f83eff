"""Settings of PyTorch's code generator, for programs that tune it: kept, and without effect."""

from __future__ import annotations

import sys

from ._dynamo import Settings

__all__ = ["config"]

config = Settings(
    conv_1x1_as_mm=False,
    coordinate_descent_tuning=False,
    cpp=Settings(threads=-1, simdlen=None, weight_prepack=False),
    debug=False,
    epilogue_fusion=True,
    fallback_random=False,
    force_fuse_int_mm_with_mul=False,
    freezing=False,
    fx_graph_cache=True,
    max_autotune=False,
    max_autotune_gemm_backends="ATEN",
    reorder_for_compute_comm_overlap=False,
    shape_padding=True,
    trace=Settings(enabled=False),
    triton=Settings(cudagraphs=False, cudagraph_trees=True, unique_kernel_names=True),
    use_mixed_mm=False,
)
sys.modules[f"{__name__}.config"] = config  # type: ignore[assignment]
