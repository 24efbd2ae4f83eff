"""Libraries that work on tensors of several packages, and what they have to know of those of this one.

``einops`` asks every subclass of its ``AbstractBackend`` whether a tensor is its own; ``opt_einsum`` takes functions
with NumPy's signatures from the package of a tensor; ``einx`` writes programs in the functions of a package. They are
told when they are imported, before or after this package.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from .import_hook import around_import
from .interop import from_numpy
from .ops.functions.einsum import einsum
from .ops.functions.joining import cat, stack
from .ops.functions.matrices import tensordot
from .ops.functions.ranges import arange
from .ops.keywords import as_called
from .tensor import Tensor

__all__ = ["EinopsOperations", "meet_libraries"]

_NAME = "tracejit"
#: The one that programs call: it may be given what stands for tensors.
_tensordot = as_called(tensordot)


class EinopsOperations:
    """The operations that ``einops`` asks of a backend, by the names and in the order of arguments that it uses."""

    framework_name = _NAME

    def is_appropriate_type(self, tensor: Any) -> bool:
        """Is this a tensor of this package?"""
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: Any) -> Any:
        """A tensor on the memory of an array, which gets a gradient where it can have one."""
        made = from_numpy(x)
        return made.requires_grad_(made.is_floating_point())

    def to_numpy(self, x: Tensor) -> Any:
        """The values of a tensor as an array."""
        return x.numpy(force=True)

    def arange(self, start: int, stop: int) -> Any:
        """The integers from ``start`` up to ``stop``."""
        return arange(start, stop)

    def shape(self, x: Tensor) -> Sequence[int]:
        """The extents of a tensor.

        Where some are found at run time they come as a list. That is nothing to look up a recipe by, so a recipe is
        made of them: it holds for any such extents.
        """
        shape: Sequence[int] = x.shape
        return shape if all(type(extent) is int for extent in shape) else list(shape)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Any:
        """The elements of a tensor in another shape."""
        return x.reshape(shape)

    def transpose(self, x: Tensor, axes: Sequence[int]) -> Any:
        """A tensor with its dimensions in another order."""
        return x.permute(axes)

    def reduce(self, x: Tensor, operation: str, axes: Sequence[int]) -> Any:
        """The sum, mean, product, least or greatest of the elements along ``axes``, or whether any or all are true."""
        if operation == "prod":  # which takes one dimension at a time
            for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
                x = x.prod(dim=axis)
            return x
        method = {"min": "amin", "max": "amax"}.get(operation, operation)
        return getattr(x, method)(dim=tuple(axes))

    def stack_on_zeroth_dimension(self, tensors: Sequence[Tensor]) -> Any:
        """Tensors of one shape as one, along a new first dimension."""
        return stack(tensors)

    def add_axis(self, x: Tensor, new_position: int) -> Any:
        """A tensor with one more dimension, of one element."""
        return x.unsqueeze(new_position)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: Mapping[int, int]) -> Any:
        """A tensor repeated along new dimensions: position among ``n_axes`` dimensions -> how often."""
        for position in sorted(pos2len):
            x = x.unsqueeze(position)
        return x.expand([pos2len.get(axis, -1) for axis in range(n_axes)])

    def tile(self, x: Tensor, repeats: Sequence[int]) -> Any:
        """A tensor repeated along its dimensions."""
        return x.repeat(repeats)

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Any:
        """Tensors one behind the other along a dimension."""
        return cat(tensors, axis)

    def is_float_type(self, x: Tensor) -> bool:
        """Are the elements floating-point numbers, so that they have a mean?"""
        return x.is_floating_point()

    def layers(self) -> ModuleType:
        """The module with layers for models of this package."""
        from . import einops_layers

        return einops_layers

    def einsum(self, pattern: str, *x: Tensor) -> Any:
        """A sum of products, by a pattern of letters."""
        return einsum(pattern, *x)


def _einops(module: ModuleType, load: Callable[[], None]) -> None:
    load()
    base: Any = getattr(module, "AbstractBackend", None)
    if base is not None and _NAME not in (c.framework_name for c in _named(base)):
        # It finds its subclasses by itself; the module keeps this one.
        backend = type(
            "TracejitBackend", (EinopsOperations, base), {"__doc__": "Tensors of tracejit."}
        )
        module.__dict__["TracejitBackend"] = backend
        loaded: Any = getattr(module, "_loaded_backends", None)
        if (
            loaded is not None
        ):  # a search among subclasses, while a run is watched, would look like state that it reads
            loaded[_NAME] = backend()


def _named(base: Any) -> list[Any]:
    return [c for c in base.__subclasses__() if hasattr(c, "framework_name")]


def _layers_for_torch(module: ModuleType, load: Callable[[], None]) -> None:
    try:
        load()
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        # Nothing else can stand in this place where there is no torch.
        from . import einops_layers

        for name in einops_layers.LAYERS:
            setattr(module, name, getattr(einops_layers, name))


def _transposed(x: Tensor, axes: Sequence[int]) -> Any:
    return x.permute(*axes)


def _contracted(x: Tensor, y: Tensor, axes: Any = 2) -> Any:
    return _tensordot(x, y, dims=axes)


def _opt_einsum(module: ModuleType, load: Callable[[], None]) -> None:
    load()
    functions: Any = getattr(module, "_cached_funcs", None)
    if functions is not None:  # what it would look for here has PyTorch's signature, not NumPy's
        functions["transpose", _NAME] = _transposed
        functions["tensordot", _NAME] = _contracted


class _InOurWords(ast.NodeTransformer):
    """What a module says of PyTorch, said of this package, which has the same functions."""

    def visit_Import(self, node: ast.Import) -> ast.AST:
        """``import torch`` in a function."""
        for alias in node.names:
            if alias.name == "torch":
                alias.name, alias.asname = _NAME, "torch"
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        """The names of the package, and of ways to use it: ``"torch"``, ``"torch.einsum"``."""
        if type(node.value) is str and node.value.partition(".")[0] == "torch":
            node.value = _NAME + node.value[len("torch") :]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """``signature.torch()``: what the functions give, which may be told where they are."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "torch" and not node.args:
            ours = f"{ast.unparse(node.func.value)}.python.import_({_NAME!r})"
            node.args.append(ast.parse(ours, mode="eval").body)
        return node


def _einx(module: ModuleType, load: Callable[[], None]) -> None:
    load()
    source = getattr(module.__loader__, "get_source", lambda name: None)(module.__name__)
    if source is None or hasattr(module, _NAME):
        return
    made = ModuleType(module.__name__)
    setattr(module, _NAME, made)
    vars(made).update(__file__=module.__file__, __package__=module.__package__)
    tree = ast.fix_missing_locations(_InOurWords().visit(ast.parse(source)))
    exec(compile(tree, str(module.__file__), "exec"), vars(made))  # which registers what it makes


def meet_libraries() -> None:
    """Tell each of them, now or when it is imported.

    >>> meet_libraries()
    """
    around_import("einops._backends", _einops)
    around_import("einops.layers.torch", _layers_for_torch)
    around_import("einx._src.frontend.impl.torch", _einx)
    around_import("opt_einsum.backends.dispatch", _opt_einsum)
