"""tracejit: dynamic graphs into fused kernels."""

from .dtypes import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8, promote_types, get_default_dtype, set_default_dtype
from .dtypes import bool_ as bool
from . import dispatch as _dispatch
from .tensor import Tensor, install_methods as _install
_install()
