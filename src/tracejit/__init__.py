"""tracejit: dynamic graphs into fused kernels."""

from .dtypes import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8, promote_types, get_default_dtype, set_default_dtype
from .dtypes import bool_ as bool
from . import dispatch as _dispatch
from .tensor import Tensor, install_methods as _install
_install()
from . import autograd
from .autograd import enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled
from .device import device
from .interop import from_dlpack, from_numpy
from .printing import get_printoptions, set_printoptions
from .tensor_make import as_tensor, asarray, tensor
