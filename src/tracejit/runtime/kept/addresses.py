"""Where this process has the functions that kept plans call."""

from __future__ import annotations

from collections.abc import Callable

from ..blas import routine_address
from ..fourier import constants_address
from ..machine_code import kernels, vector_modules
from ..machine_code.promised import GoneError, Promised, promise
from ..tiled.tiled_loops import tiled_loop_function
from ..tiled.tiles import tiles_function

__all__ = ["find"]

#: How a function is found, by the first word of what its address is the address of.
_FINDERS: dict[str, Callable[..., int | None]] = {
    "kernel": kernels.stored_address,
    "vector": vector_modules.stored_address,
    "blas": routine_address,
    "tiles": tiles_function,
    "tiled_loop": tiled_loop_function,
    "fourier": constants_address,
}


def find(origin: tuple[str, ...]) -> Promised:
    """The address of a function by its origin, looked for when it is asked for.

    That raises `GoneError` where it would have to be compiled, or is in no library here.

    >>> from tracejit.runtime.machine_code.promised import settled
    >>> address = find(("kernel", "0" * 64, "no_such_function"))
    >>> settled(address)
    Traceback (most recent call last):
    ...
    tracejit.runtime.machine_code.promised.GoneError: no_such_function
    """

    def look() -> int:
        address = _FINDERS[origin[0]](*origin[1:])
        if address is None:
            raise GoneError(origin[-1])
        return address

    return promise(look, *origin)
