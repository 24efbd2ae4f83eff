"""Addresses of functions that say of what they are, and of functions that are still being compiled.

A plan needs the addresses of its kernels only to be copied into the table of a program. So it is made with numbers that
stand for them, and while it is made (and the next plans of the same program) threads compile the kernels. Binding the
program waits for them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

__all__ = ["Address", "GoneError", "Promised", "located", "promise", "settled"]

#: What an address is the address of: a kind, and names that tell which. Empty where nobody would find it again.
Origin = tuple[str, ...]


class GoneError(LookupError):
    """A function that was compiled once would have to be compiled again."""


class Address(int):
    """The address of a function, with its ``origin``: another process has the function elsewhere."""

    origin: Origin


class Promised(Address):
    """A number that stands for an address: none that any function has, nor a size (as a float64 it is no number)."""


def located(address: int, *origin: str) -> Address:
    """An address that says of what it is.

    >>> address = located(4096, "vector", "0a1b", "f")
    >>> address == 4096, address.origin
    (True, ('vector', '0a1b', 'f'))
    """
    found = Address(address)
    found.origin = origin
    return found


_numbers = count(0x7FF4_0000_0000_0000)
_addresses: dict[int, int | Callable[[], int]] = {}


def promise(make: Callable[[], int], *origin: str) -> Promised:
    """A number that stands for the address that ``make`` returns, when it is asked for.

    >>> address = promise(lambda: 4096)
    >>> address == 4096, settled(address)
    (False, 4096)
    """
    found = Promised(next(_numbers))
    found.origin = origin
    _addresses[found] = make
    return found


def settled(address: int) -> int:
    """The address that a number stands for; raises what making the function raises. Other numbers stand for themselves.

    >>> settled(4096)
    4096
    """
    found = _addresses.get(address, address)
    if callable(found):
        found = _addresses[address] = found()
    return found
