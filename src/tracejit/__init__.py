"""tracejit: dynamic graphs into fused kernels.

Tensors and functions carry PyTorch's names, signatures and semantics; ``tj.compile`` turns a function, method or module
into fused kernels while it keeps running exactly as written. Every function published by the op table is a name of this
package and, where PyTorch has one, a method of :class:`Tensor`.
"""

from __future__ import annotations

import importlib as _importlib
import math as _math
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from .trace.recording.collection import Collection as _Collection
from .trace.recording.collection import grow_old as _grow_old

_collection = _Collection()
_collection.rarely(between=1_000_000)  # what is made here stays: to look through it took an eighth

from . import (
    accelerator,
    amp,
    autograd,
    backends,
    compiler,
    cpu,
    cuda,
    fft,
    func,
    linalg,
    masked,
    nn,
    onnx,
    optim,
    overrides,
    profiler,
    sparse,
    special,
    utils,
    version,
)
from . import dispatch as _dispatch  # noqa: F401  (opens the door every op goes through)
from . import large_calls as _large_calls  # noqa: F401  (composite functions of large tensors by compiled code)
from . import ops as _ops
from . import paths as _paths  # noqa: F401  (makes the module paths that PyTorch has)
from . import steps as _steps  # noqa: F401  (remembers what functions do)
from .absent import (
    SymBool,
    SymFloat,
    SymInt,
    mps,
    sym_float,
    sym_int,
    sym_ite,
    sym_max,
    sym_min,
    sym_not,
    sym_sum,
    xpu,
)
from .amp import GradScaler, autocast
from .autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .collected import COLLECTED as _COLLECTED
from .cuda import Event, Stream
from .cuda.precision import get_float32_matmul_precision, set_float32_matmul_precision
from .determinism import (
    are_deterministic_algorithms_enabled,
    get_deterministic_debug_mode,
    is_deterministic_algorithms_warn_only_enabled,
    set_deterministic_debug_mode,
    use_deterministic_algorithms,
)
from .device import device
from .dtypes import (
    DType,
    bfloat16,
    complex64,
    complex128,
    float8_e4m3fn,
    float8_e4m3fnuz,
    float8_e5m2,
    float8_e5m2fnuz,
    float16,
    float32,
    float64,
    get_default_dtype,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    set_default_dtype,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .dtypes import bool_ as bool
from .early import load_early as _load_early
from .early import load_now as _load_now
from .errors import OutOfMemoryError
from .func import grad, value_and_grad, vmap
from .interop import from_dlpack, from_numpy, frombuffer, to_dlpack
from .libraries import meet_libraries as _meet_libraries
from .memory_formats import SPARSE as _SPARSE
from .memory_formats import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    legacy_contiguous_format,
    memory_format,
    preserve_format,
    strided,
)
from .number_limits import finfo, iinfo
from .ops import functions as _functions  # noqa: F401  (fills the registry)
from .ops.functions.native_forms import NATIVE_FORMS as _NATIVE_FORMS
from .ops.keywords import as_called as _as_called
from .ops.mixin import Size
from .printing import get_printoptions, set_printoptions
from .questions import _assert as _assert
from .questions import _assert as _assert_async  # noqa: F401  (values are there when a call returns)
from .questions import (
    get_device,
    is_complex,
    is_floating_point,
    is_inference,
    is_nonzero,
    is_same_size,
    is_signed,
    is_storage,
    is_tensor,
    numel,
    typename,
)
from .random import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from .requirements import REQUIREMENTS as _REQUIREMENTS
from .runtime.eager import draws as _draws  # noqa: F401  (lets random sources draw on devices)
from .runtime.eager import fourier as _fourier  # noqa: F401  (Fourier transforms of short rows)
from .runtime.eager import printed as _kernels  # noqa: F401  (functions and elementwise ops of large arrays)
from .runtime.eager import programs as _programs  # noqa: F401  (single ops by compiled code)
from .runtime.eager import row_orders as _row_orders  # noqa: F401  (orders of short rows)
from .runtime.eager import side_by_side as _side_by_side  # noqa: F401  (batches of small matrices)
from .serialization import load, save
from .settings import (
    get_default_device,
    get_num_interop_threads,
    get_num_threads,
    set_default_device,
    set_default_tensor_type,
    set_flush_denormal,
    set_num_interop_threads,
    set_num_threads,
)
from .tensor import Tensor
from .tensor import install_methods as _install
from .tensor_kinds import GPU_KINDS as _GPU_KINDS
from .tensor_kinds import KINDS as _KINDS
from .tensor_make import as_tensor, asarray, tensor
from .version import __version__

if _TYPE_CHECKING:
    from .typed_compile import CompiledFunction, compile, distributions, library, profile
    from .typed_functions import *  # noqa: F403

_install()

#: Modules that are imported when they are asked for.
_LATE = frozenset(
    (
        *("_C", "__config__", "_custom_ops", "_dynamo", "_inductor", "_tensor_str", "classes"),
        "distributed",
        *("distributions", "futures", "fx", "hub", "jit", "library", "multiprocessing", "nested"),
        *("profiling", "quasirandom", "signal", "storage", "testing"),
    )
)
#: Names of such modules that are names of this one, too: all of the compiler comes with them.
_LATE_NAMES = {**dict.fromkeys(("CompiledFunction", "compile"), "jit"), "profile": "profiling"}
_LATE_NAMES |= {"UntypedStorage": "storage", "PyTorchFileReader": "absent"}


def _parts(name: str) -> dict[str, _Any]:
    """Operators that are part of others, or what the compiled core has in common with this module, by their names."""
    where, names = ("aten_parts", "PARTS") if name[0] == "_" else ("_C", "SHARED")
    return dict(getattr(_importlib.import_module(f"{__name__}.{where}"), names))


def __getattr__(name: str) -> _Any:
    if name in _LATE_NAMES:
        _load_now()
        found = getattr(_importlib.import_module(f"{__name__}.{_LATE_NAMES[name]}"), name)
    elif name in _LATE:
        found = _importlib.import_module(f"{__name__}.{name}")
    elif name.startswith("_foreach_"):
        found = _importlib.import_module(f"{__name__}.foreach").foreach(name)
    else:
        if name.startswith("__") or name not in (parts := _parts(name)):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = parts[name]
    globals()[name] = found
    return found


def __dir__() -> list[str]:  # not all that the package consists of
    own = {"config", "dtypes", "errors", "functional", "random", "return_types", "types", *_LATE}
    dunders = {name for name in globals() if name.startswith("__")}
    return sorted({*__all__, *dunders, *(name for name in own if name[0] != "_")})


dtype = DType
float = float32
double = float64
half = float16
cfloat = complex64
cdouble = complex128
int = int32
long = int64
short = int16
inf = _math.inf
nan = _math.nan
pi = _math.pi
e = _math.e
newaxis = None

_PUBLISHED = {name: _as_called(target) for name, target in _ops.table.FUNCTIONS.items()}
_PUBLISHED |= _NATIVE_FORMS
vars(nn.functional).update({name: _PUBLISHED[name] for name in nn.functional.SHARED})
globals().update(_PUBLISHED | _KINDS | _SPARSE | _COLLECTED | _REQUIREMENTS)
vars(cuda).update(_GPU_KINDS)
_meet_libraries()
_grow_old()
_collection.as_before()
_load_early()

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "is_deterministic_algorithms_warn_only_enabled",
    "set_deterministic_debug_mode",
    "use_deterministic_algorithms",
    "CompiledFunction",
    "Event",
    "Generator",
    "OutOfMemoryError",
    "GradScaler",
    "Size",
    "Stream",
    "SymBool",
    "SymFloat",
    "SymInt",
    "Tensor",
    "__version__",
    "accelerator",
    "amp",
    "as_tensor",
    "asarray",
    "autocast",
    "autograd",
    "backends",
    "bfloat16",
    "bool",
    "cdouble",
    "cfloat",
    "channels_last",
    "channels_last_3d",
    "compile",
    "compiler",
    "complex128",
    "complex64",
    "contiguous_format",
    "layout",
    "legacy_contiguous_format",
    "cpu",
    "cuda",
    "default_generator",
    "device",
    "distributions",
    "double",
    "dtype",
    "e",
    "enable_grad",
    "fft",
    "finfo",
    "float",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "func",
    "get_default_device",
    "get_default_dtype",
    "get_device",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "get_printoptions",
    "get_rng_state",
    "grad",
    "half",
    "iinfo",
    "inf",
    "inference_mode",
    "initial_seed",
    "int",
    "int16",
    "int32",
    "int64",
    "int8",
    "is_complex",
    "is_floating_point",
    "is_grad_enabled",
    "is_inference",
    "is_inference_mode_enabled",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "is_storage",
    "is_tensor",
    "library",
    "linalg",
    "load",
    "long",
    "manual_seed",
    "masked",
    "memory_format",
    "mps",
    "nan",
    "newaxis",
    "nn",
    "no_grad",
    "numel",
    "onnx",
    "optim",
    "overrides",
    "pi",
    "preserve_format",
    "profile",
    "profiler",
    "promote_types",
    "save",
    "seed",
    "set_default_device",
    "set_default_dtype",
    "set_default_tensor_type",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_grad_enabled",
    "set_num_interop_threads",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "short",
    "sparse",
    "special",
    "strided",
    "sym_float",
    "sym_int",
    "sym_ite",
    "sym_max",
    "sym_min",
    "sym_not",
    "sym_sum",
    "tensor",
    "to_dlpack",
    "typename",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "utils",
    "value_and_grad",
    "version",
    "vmap",
    "xpu",
    *sorted(_KINDS | _SPARSE | _COLLECTED),
    *sorted(_PUBLISHED),
]
