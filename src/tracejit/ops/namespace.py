"""The array namespace behind op bodies: NumPy for host arrays, CuPy for device arrays."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from types import ModuleType
from typing import Any

import numpy as np

from ..cuda.arrays import device_index, fetched, placed
from ..cuda.arrays import module_of as xp

__all__ = ["by_kernel", "extension", "special", "special_of", "wide", "xp"]

KernelFunction = Callable[[str, np.ndarray], np.ndarray | None]

#: SciPy's C module of special functions, which the package ``scipy.special`` shows under its own names.
_FUNCTIONS = "scipy.special._special_ufuncs"


_widening: list[Callable[[Any], Any]] = []


def wide(x: Any) -> Any:
    """Half precision as float32, in which bodies compute and round once; anything else as it is.

    >>> wide(np.ones(2, np.float16)).dtype, wide(np.ones(2, np.int16)).dtype
    (dtype('float32'), dtype('int16'))
    """
    if x.dtype.itemsize != 2 or x.dtype.kind in "iu":
        return x
    found = _widening[0](x) if _widening and type(x) is np.ndarray else None
    return x.astype(np.float32) if found is None else found


def set_widening(function: Callable[[Any], Any]) -> None:
    """Install what makes single precision of large arrays of half precision by a kernel, or gives None.

    >>> before = list(_widening)
    >>> set_widening(lambda x: None)
    >>> _widening[:] = before
    """
    _widening[:] = [function]


def special(name: str, *arrays: Any) -> Any:
    """The function ``name`` of ``scipy.special``, or of its CuPy counterpart.

    >>> float(special("erf", np.zeros(1))(0.0))
    0.0
    """
    if xp(*arrays) is np:
        return _on_the_host(name)
    import cupyx.scipy.special

    found = getattr(cupyx.scipy.special, name, None)
    return partial(_through_the_host, name) if found is None else found


def special_of(name: str, x: Any) -> Any:
    """A function of one argument of ``scipy.special`` at every element of ``x``, by a kernel where there is one.

    >>> special_of("erf", np.zeros(2)).tolist()
    [0.0, 0.0]
    """
    found = by_kernel(name, x)
    return special(name, x)(x) if found is None else found


def by_kernel(name: str, x: Any) -> Any:
    """The same by a kernel; None where SciPy is to compute it.

    >>> by_kernel("erf", np.zeros(2)) is None
    True
    """
    return _by_kernel(name, x) if type(x) is np.ndarray else None


def _missing(name: str, x: np.ndarray) -> None:
    del name, x


_by_kernel: KernelFunction = _missing


def set_kernel_function(function: KernelFunction) -> None:
    """Install the function from a name and an array of the host to the result, or None where SciPy is to compute it."""
    global _by_kernel
    _by_kernel = function


def _through_the_host(name: str, *arrays: Any) -> Any:
    """A function that CuPy lacks: computed on the host, the results on the device again."""
    index = max(map(device_index, arrays))
    found = _on_the_host(name)(*map(fetched, arrays))
    if isinstance(found, tuple):
        return tuple(placed(np.asarray(x), index) for x in found)
    return placed(np.asarray(found), index)


@lru_cache(maxsize=64)
def _on_the_host(name: str) -> Any:
    """The function, without importing the package around it where that can be left out.

    ``scipy.special`` takes 150 ms to import, nearly all of it for array libraries that are not used here; the C module
    that holds most of its functions takes one.
    """
    if "scipy.special" not in sys.modules:
        found = getattr(_functions(), name, None)
        if found is not None:
            return found
    import scipy.special

    return getattr(scipy.special, name)


@lru_cache(maxsize=1)
def _functions() -> ModuleType | None:
    """SciPy's C module by itself."""
    return extension(_FUNCTIONS)


def extension(name: str) -> ModuleType | None:
    """A C module of SciPy's without the package around it, None where it cannot be had; the package finds it loaded.

    >>> found = extension("scipy.linalg._flapack")
    >>> found is None or hasattr(found, "spotrf")
    True
    """
    if name in sys.modules:
        return sys.modules[name]
    inner = "/".join(name.split(".")[1:-1])
    package = importlib.util.find_spec("scipy")
    places = (package.submodule_search_locations or ()) if package else ()
    folders = [f"{place}/{inner}" for place in places]
    spec = importlib.machinery.PathFinder.find_spec(name, folders) if folders else None
    if spec is None or not isinstance(spec.loader, importlib.machinery.ExtensionFileLoader):
        return None
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except Exception:  # noqa: BLE001  (a release of SciPy that is made differently)
        return None
    return sys.modules.setdefault(name, module)
