"""Tensors kept for backward that may be written to: what was kept is copied before that happens."""

from __future__ import annotations

import weakref
from typing import Any

from ..autograd.graph import saved_tensors_hooks
from ..errors import AutogradError
from ..listening.history import parts_of
from ..listening.quiet import quietly
from ..listening.wrappers import leaves
from ._python_dispatch import TorchDispatchMode

__all__ = ["allow_mutation_on_saved_tensors"]


class _Kept:
    """A kept tensor, or the copy that was made of it."""

    def __init__(self, tensor: Any, block: Any) -> None:
        self.tensor, self.block = tensor, block


class _Copying(TorchDispatchMode):
    """Copies what is kept of memory that an operator is about to write to."""

    def __init__(self, kept: dict[int, list[weakref.ref[_Kept]]]) -> None:
        super().__init__()
        self.kept = kept

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.is_mutable and args:
            for x in leaves(parts_of(args[0]), {}):
                for reference in self.kept.pop(id(x._writes), ()):
                    one = reference()
                    if one is not None:
                        one.tensor = quietly(one.tensor.clone)
        return func(*args, **(kwargs or {}))


class allow_mutation_on_saved_tensors:  # noqa: N801
    """Inside, tensors that backward needs may be written to: it gets what they were.

    The backward pass has to be inside, too: ``AssertionError``. Blocks cannot be nested: ``RuntimeError``.

    >>> import tracejit as tj
    >>> x = tj.tensor([2.0], requires_grad=True)
    >>> with allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     z = (y**2).sum()
    ...     _ = y.sin_()
    ...     z.backward()
    >>> x.grad
    tensor([4.])
    """

    _inside = False

    def __enter__(self) -> allow_mutation_on_saved_tensors:
        if allow_mutation_on_saved_tensors._inside:
            raise AutogradError("allow_mutation_on_saved_tensors contexts cannot be nested")
        self.kept: dict[int, list[weakref.ref[_Kept]]] = {}
        self.open = True
        self._hooks = saved_tensors_hooks(self._pack, self._unpack)
        self._mode = _Copying(self.kept)
        self._hooks.__enter__()
        self._mode.__enter__()
        allow_mutation_on_saved_tensors._inside = True
        return self

    def __exit__(self, *error: Any) -> None:
        self._mode.__exit__(*error)
        self._hooks.__exit__(*error)
        self.clear()
        self.open = allow_mutation_on_saved_tensors._inside = False

    def clear(self) -> None:
        """Copy nothing more of what was kept so far."""
        self.kept.clear()

    def _pack(self, tensor: Any) -> _Kept:
        one = _Kept(tensor, self)
        self.kept.setdefault(id(tensor._writes), []).append(weakref.ref(one))
        return one

    def _unpack(self, one: _Kept) -> Any:
        if not self.open:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
                "originally recorded."
            )
        return one.tensor
