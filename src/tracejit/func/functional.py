"""Calling a module with parameters and buffers that are not its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import ArgumentError, ArgumentValueError, AutogradError
from ..nn.module import Module
from ..tensor import Tensor
from ..trace.signature import flatten

Place = tuple[dict[str, Any], str]
_MISSING: Any = object()


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """``module(*args, **kwargs)`` with the given tensors in place of its parameters and buffers.

    Keys are dotted names; what is not given keeps its own value. A tensor given for one of several names of a shared
    parameter counts for all of them, unless ``tie_weights`` is False. Other names are attributes for the time of the
    call. Raises ``TypeError`` for values that are no tensors, ``ValueError`` for different tensors given for one shared
    parameter, ``AttributeError`` for modules that there are not and, when ``strict``, ``RuntimeError`` unless the names
    are those of the module's parameters and buffers.

    >>> import tracejit as tj
    >>> layer = tj.nn.Linear(2, 1)
    >>> new = {"weight": tj.tensor([[1.0, 2.0]]), "bias": tj.tensor([3.0])}
    >>> tj.func.functional_call(layer, new, tj.tensor([10.0, 1.0]))
    tensor([15.])
    >>> layer.bias.requires_grad
    True
    """
    given = _merged(parameter_and_buffer_dicts)
    places = _places(module)
    attributes = [name for name in given if name not in places]
    if strict and attributes:
        raise RuntimeError(f"the module has no parameter or buffer {attributes[0]!r}")
    wanted = _wanted(given, places, tie_weights, strict)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    for name in attributes:
        path, _, key = name.rpartition(".")
        places[name] = (module.get_submodule(path).__dict__, key)
    with _swapped(places, wanted):
        return module(*args, **(kwargs or {}))


def _merged(dicts: Any) -> dict[str, Tensor]:
    """One dict of all given tensors; a name given twice is an error."""
    if not isinstance(dicts, (Mapping, Sequence)):
        raise ArgumentValueError(
            "functional_call(): expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(dicts)}"
        )
    parts = [dicts] if isinstance(dicts, Mapping) else list(dicts)
    if not all(isinstance(part, Mapping) for part in parts):
        raise ArgumentValueError(
            "Expected all elements of parameter_and_buffer_dicts to be dictionaries"
        )
    found: dict[str, Tensor] = {}
    for part in parts:
        for name, tensor in part.items():
            if not isinstance(tensor, Tensor):
                raise ArgumentError(f"{name!r} must be a Tensor, not {type(tensor).__name__}")
            if name in found:
                raise ArgumentValueError(f"{name!r} appears in more than one dictionary")
            found[name] = tensor
    return found


def _places(module: Module) -> dict[str, Place]:
    """Where each parameter and buffer is kept, by dotted name."""
    found: dict[str, Place] = {}
    for path, owner in module.named_modules(remove_duplicate=False):
        for table in (owner._parameters, owner._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    found[f"{path}.{name}" if path else name] = (table, name)
    return found


def _wanted(
    given: dict[str, Tensor], places: dict[str, Place], tie: bool, strict: bool
) -> dict[str, Tensor]:
    """What to put where, shared parameters together."""
    groups: dict[int, list[str]] = {}
    for name, (table, key) in places.items():
        groups.setdefault(id(table[key]), []).append(name)
    wanted = dict(given)
    for names in groups.values():
        tensors = {id(given[name]): given[name] for name in names if name in given}
        if strict and not tensors:
            raise RuntimeError(f"no tensor is given for {names[0]!r}")
        if tie and len(tensors) > 1:
            raise ArgumentValueError(f"different tensors are given for {' and '.join(names)}")
        if tie and tensors:
            wanted |= dict.fromkeys(names, next(iter(tensors.values())))
    return wanted


@contextmanager
def _swapped(places: dict[str, Place], wanted: dict[str, Tensor]) -> Iterator[None]:
    """Other tensors in a module's tables for the time of a call; its structure counts as unchanged."""
    before = [(*places[name], places[name][0].get(places[name][1], _MISSING)) for name in wanted]
    for name, tensor in wanted.items():
        table, key = places[name]
        table[key] = tensor
    try:
        yield
    finally:
        for table, key, tensor in before:
            if tensor is _MISSING:
                del table[key]
            else:
                table[key] = tensor


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let the batch norms of a module keep no running statistics, in place: they use those of each batch. The module.

    >>> import tracejit as tj
    >>> tj.func.replace_all_batch_norm_modules_(tj.nn.BatchNorm1d(2)).running_mean is None
    True
    """
    from ..nn.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return root


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """``func`` itself: nothing here asks for functions without changes in place.

    Raises ``RuntimeError`` for other values of ``remove`` than PyTorch's.

    >>> import tracejit as tj
    >>> tj.func.functionalize(lambda x: x.clone().add_(1))(tj.ones(1))
    tensor([2.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}."
        )
    return func


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and the buffers of several modules of one kind, each stacked along a new first dimension.

    Raises ``RuntimeError`` for no modules, and for modules of different classes.

    >>> import tracejit as tj
    >>> params, buffers = tj.func.stack_module_state([tj.nn.Linear(2, 1) for _ in range(3)])
    >>> params["weight"].shape, buffers
    (tracejit.Size([3, 1, 2]), {})
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    return _stacked(parameters), _stacked(buffers)


def _stacked(states: list[dict[str, Any]]) -> dict[str, Tensor]:
    from ..ops.functions.joining import stack

    found = {}
    for name, first in states[0].items():
        rows = stack([state[name].detach() for state in states])
        found[name] = rows.requires_grad_() if first.requires_grad else rows
    return found


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """The tensor of all samples, where one stands for a sample of a batch; any other tensor itself.

    With ``recurse`` through all calls of ``vmap`` around.

    >>> import tracejit as tj
    >>> shapes = []
    >>> _ = tj.vmap(lambda x: shapes.append(debug_unwrap(x).shape) or x)(tj.ones(2, 3))
    >>> shapes
    [tracejit.Size([2, 3])]
    """
    samples = getattr(tensor._block, "samples", None)
    if samples is None:
        return tensor
    return debug_unwrap(samples) if recurse else samples


def tensors_of(output: Any) -> tuple[list[Any], Any]:
    """The tensors that a function returned, and how they are nested; ``RuntimeError`` where there are none.

    >>> import tracejit as tj
    >>> tensors_of({"a": tj.ones(1)})[0]
    [tensor([1.])]
    """
    results: list[Any] = []
    structure = flatten(output, results)
    if not results:
        raise AutogradError(
            f"expected f(*primals) to return only tensors, got unsupported type {type(output)}"
        )
    return results, structure
