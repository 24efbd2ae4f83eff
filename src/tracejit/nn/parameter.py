"""Parameter: a tensor that a module registers when it is assigned as an attribute."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd.grad_mode import no_grad
from ..cuda.arrays import fetched, placed
from ..listening.classes import disabled
from ..meta import META
from ..modes import MODES
from ..ops.functions.factories import empty
from ..ops.slabs import copied
from ..tensor import Tensor
from ..tensor_parts import PLAIN


class Parameter(Tensor):
    """A leaf tensor that requires grad and belongs to the module it is assigned to.

    Shares storage (and its version counter) with ``data``; without ``data`` it is empty. Raises
    ``RuntimeError`` for integer data unless ``requires_grad=False``.

    >>> import tracejit as tj
    >>> tj.nn.Parameter(tj.zeros(2)).requires_grad
    True
    """

    __slots__ = ()
    __torch_function__ = staticmethod(disabled)

    def __new__(
        cls, data: Tensor | None = None, requires_grad: bool = True, *args: Any, **kwargs: Any
    ) -> Parameter:
        """The parameter itself; that of a subclass may be given other data than the call."""
        if (args or kwargs) and cls is Parameter:
            raise TypeError(f"Parameter() takes data and requires_grad, not {args or kwargs}")
        made: Parameter = object.__new__(cls)
        if isinstance(data, Tensor):
            made._fill(data, requires_grad)
        return made

    def __init__(
        self, data: Tensor | None = None, requires_grad: bool = True, *args: Any, **kwargs: Any
    ) -> None:
        if hasattr(self, "_array"):
            return  # `__new__` did it all
        if data is None:
            data = empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(
                f"Parameter(): data must be a Tensor, not {type(data).__name__}; use tj.tensor(...) first"
            )
        self._fill(data, requires_grad)

    def _fill(self, data: Tensor, requires_grad: bool) -> None:
        self._share(data)
        self._inference = data._inference
        if requires_grad:
            self.requires_grad_()

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:  # without the gradient, as PyTorch's
        found = memo.get(id(self))
        if found is None and MODES.recorder is not None:
            found = memo[id(self)] = _copied_inside(self)
        if found is None:
            array, index = copied(self.array), self._device_index()
            found = _rebuild(type(self), array, self.requires_grad, _attributes(self), index)
            memo[id(self)] = found
        result: Parameter = found
        return result

    def __reduce_ex__(self, protocol: Any) -> Any:
        array, index = fetched(self.array), self.get_device()
        return _rebuild, (type(self), array, self.requires_grad, _attributes(self), index)

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


PLAIN.add(Parameter)


def _copied_inside(parameter: Parameter) -> Parameter:
    """A deep copy whose operations a recorder hears of."""
    with no_grad():
        found = type(parameter)(parameter.detach().contiguous().clone(), parameter.requires_grad)
        found.__dict__.update(_attributes(parameter))
    return found


def _attributes(parameter: Parameter) -> dict[str, Any]:
    """What users attached; hooks and the place in the graph stay with the original."""
    return {k: v for k, v in vars(parameter).items() if not hasattr(Tensor, k)}


def _rebuild(
    cls: type[Parameter],
    array: Any,
    requires_grad: bool,
    attributes: dict[str, Any],
    index: int = -1,
) -> Parameter:
    if MODES.recorder is not None:  # no operation made these values
        MODES.recorder.unsupported(f"a {cls.__name__} is made inside a compiled function")
    if index != META:
        array = placed(np.ascontiguousarray(fetched(array)).reshape(array.shape), index)
    parameter = cls(Tensor._wrap(array), requires_grad)
    parameter.__dict__.update(attributes)
    return parameter


class Buffer(Tensor):
    """A tensor that a module registers as a buffer when it is assigned as an attribute.

    Shares storage with ``data``; ``persistent=False`` keeps it out of ``state_dict()``.

    >>> import tracejit as tj
    >>> module = tj.nn.Module()
    >>> module.mean = tj.nn.Buffer(tj.zeros(2))
    >>> list(module.state_dict())
    ['mean']
    """

    __slots__ = ()  # others may become one (`as_subclass`), which takes as many

    def __new__(cls, *args: Any, **kwargs: Any) -> Buffer:
        """What ``__init__`` fills."""
        made: Buffer = object.__new__(cls)
        return made

    def __init__(self, data: Tensor, persistent: bool = True) -> None:
        self._share(data)
        self.persistent = persistent
