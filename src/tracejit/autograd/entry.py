"""The two ways to ask for gradients: ``backward`` (into ``.grad``) and ``grad`` (returned)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..answering import ANSWERS
from ..cuda.arrays import MODULES, placed
from ..errors import ArgumentError, ArgumentValueError, AutogradError, warn
from ..layout import layout_of
from ..modes import MODES
from ..ops.elementwise import clone
from ..ops.source import full
from . import engine
from .graph import GradientEdge
from .node import Edge, Node

if TYPE_CHECKING:
    from ..dtypes import DType
    from ..tensor import Tensor

    One: TypeAlias = Tensor | GradientEdge
    Inputs: TypeAlias = One | Sequence[One] | Mapping[Any, One]


def backward(
    tensors: One | Sequence[One],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Tensor | Sequence[Tensor | None] | None = None,
    inputs: Inputs | None = None,
) -> None:
    """Accumulate gradients of ``tensors`` into the ``.grad`` of the leaves, weighted with ``grad_tensors``.

    ``grad_variables`` is what those were called before. Raises ``RuntimeError`` when both are given.
    See :meth:`tracejit.Tensor.backward` for the arguments and errors.

    >>> import tracejit as tj
    >>> x = tj.tensor([1.0, 2.0], requires_grad=True)
    >>> tj.autograd.backward([x * 2, x * 3], [tj.tensor([1.0, 1.0]), tj.tensor([1.0, 0.0])])
    >>> x.grad
    tensor([5., 2.])
    """
    keep = create_graph if retain_graph is None else retain_graph
    if grad_variables is not None:
        grad_tensors = _renamed(grad_tensors, grad_variables)
    if inputs is None:
        root = None if create_graph or grad_tensors is not None else _plain_root(tensors)
        roots = (
            [root]
            if root is not None
            else _roots(_as_tuple(tensors, "tensors"), _gradients(grad_tensors), create_graph)
        )
        engine.run(roots, retain_graph=keep, create_graph=create_graph)
        return
    roots = _roots(_as_tuple(tensors, "tensors"), _gradients(grad_tensors), create_graph)
    wanted = _wanted(inputs, "backward")
    for tensor in wanted:
        if type(tensor) is not GradientEdge and not tensor.is_leaf:
            tensor.retain_grad()
    edges = _edges_of(wanted)
    engine.run(roots, retain_graph=keep, create_graph=create_graph, capture=edges, accumulate=True)


def _renamed(grad_tensors: Any, grad_variables: Any) -> Any:
    warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
    if grad_tensors is not None:
        raise RuntimeError(
            "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. "
            "Please only use `grad_tensors`."
        )
    return grad_variables


def grad(
    outputs: One | Sequence[One],
    inputs: Inputs,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of ``outputs`` (weighted with ``grad_outputs``) with respect to ``inputs``; ``.grad`` is untouched.

    They are a tuple; where ``inputs`` is a dict, a dict with its keys.
    An input that ``outputs`` do not depend on is a ``RuntimeError``, or None with ``allow_unused``, or zeros with
    ``materialize_grads``. ``only_inputs`` is always so. With ``is_grads_batched`` the first dimension of every tensor
    in ``grad_outputs`` counts gradients to start from, and that of every result what became of them.
    ``outputs`` and ``inputs`` may be edges (:func:`tracejit.autograd.graph.get_gradient_edge`), which stand for tensors
    as they were; these cannot be materialized.

    >>> import tracejit as tj
    >>> x = tj.tensor(3.0, requires_grad=True)
    >>> (first,) = tj.autograd.grad(x * x * x, x, create_graph=True)
    >>> tj.autograd.grad(first, x)
    (tensor(18.),)
    """
    if allow_unused is False and materialize_grads:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    wanted = _wanted(inputs, "grad")
    if isinstance(inputs, dict):
        options = (grad_outputs, retain_graph, create_graph, only_inputs, allow_unused)
        found = grad(outputs, wanted, *options, is_grads_batched, materialize_grads)
        return dict(zip(inputs, found, strict=True))
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        several = _batches(_as_tuple(outputs, "outputs"), _gradients(grad_outputs))
        unused = allow_unused or materialize_grads
        last = len(several) - 1
        passes = [
            grad(outputs, wanted, g, keep or i < last, create_graph, allow_unused=unused)
            for i, g in enumerate(several)
        ]
        return _stacked(passes, wanted if materialize_grads else (), create_graph)
    node = getattr(outputs, "_grad_fn", None)
    if node is not None and node.ends_in_leaves and grad_outputs is None and not create_graph:
        short = node.for_leaves(outputs, wanted, keep)
        if short is not None:
            return tuple(short)
    roots = _roots(_as_tuple(outputs, "outputs"), _gradients(grad_outputs), create_graph)
    edges = _edges_of(wanted)
    captured = engine.run(roots, retain_graph=keep, create_graph=create_graph, capture=edges)
    found = [captured.get(edge) for edge in edges]
    if not (allow_unused or materialize_grads):
        _refuse_gaps(found)
    if materialize_grads:
        found = [*_without_gaps(found, wanted, create_graph)]
    return tuple(map(_laid_out, found))


def _refuse_gaps(found: Sequence[Tensor | None]) -> None:
    if None in map(_presence, found):
        raise AutogradError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior."
        )


def _laid_out(gradient: Tensor | None) -> Tensor | None:
    """A gradient without gaps, parts that repeat, or elements that run backwards: code calls ``view`` on gradients.

    Dimensions may be in any order, and one element may stand for all, as in PyTorch.
    """
    layout = None if gradient is None else layout_of(gradient)
    if layout is None or layout.is_contiguous:
        return gradient
    expected = 1
    steps = zip(layout.strides, layout.spec.shape, strict=True)
    strides = sorted((stride, n) for stride, n in steps if n > 1)
    for stride, n in strides:
        if stride != expected:
            return clone(gradient) if any(stride for stride, _ in strides) else gradient
        expected *= n
    return gradient


def _batches(outputs: tuple[Any, ...], gradients: Any) -> list[tuple[Any, ...]]:
    """The gradients to start from, one pass after the other."""
    if gradients is None or None in map(_presence, gradients):
        raise AutogradError("is_grads_batched=True needs a gradient for every output")
    for position, (output, gradient) in enumerate(zip(outputs, gradients, strict=False)):
        if not gradient.ndim or gradient.shape[1:] != output.shape:
            raise AutogradError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of "
                f"corresponding output, but a mismatch was detected: grad_output[{position}] has a shape of "
                f"{gradient.shape!r} and output[{position}] has a shape of {output.shape!r}."
            )
    counts = {gradient.shape[0] for gradient in gradients}
    if len(counts) != 1 or 0 in counts:
        raise ArgumentValueError(
            f"Expected one batch size, of at least 1, but got {sorted(counts)}"
        )
    return list(zip(*(gradient.unbind(0) for gradient in gradients), strict=True))


def _stacked(
    passes: list[tuple[Any, ...]], zeros_like: Sequence[Any], create_graph: bool
) -> tuple[Any, ...]:
    """What the passes found for each input, one after the other; None where it was not used, or zeros."""
    from ..ops.functions.joining import stack

    found = [None if x[0] is None else stack(x) for x in zip(*passes, strict=True)]
    if zeros_like:
        return tuple(_without_gaps(found, zeros_like, create_graph))
    return tuple(found)


def _presence(value: object) -> bool | None:
    return None if value is None else True


def _as_tuple(tensors: Any, what: str) -> tuple[Any, ...]:
    """One tensor or a sequence of them as a tuple, checked."""
    one = hasattr(tensors, "_edge") or type(tensors) is GradientEdge
    found = (tensors,) if one else tuple(tensors)
    for x in found:
        if not hasattr(x, "_edge") and type(x) is not GradientEdge:
            raise ArgumentError(f"{what} should be Tensors, but got {type(x).__name__}")
    return found


def _wanted(inputs: Any, function: str) -> tuple[Any, ...]:
    """The inputs that ``function`` was given: one, a sequence, or the values of a dict."""
    if isinstance(inputs, Mapping):
        if type(inputs) is not dict:
            raise ArgumentError(
                f"`inputs` argument to `{function}()` must be a dict, not {type(inputs).__name__}. "
                "Other Mapping types are not supported."
            )
        inputs = inputs.values()
    wanted = _as_tuple(inputs, "inputs")
    if not wanted:
        raise AutogradError(f"`inputs` argument to `{function}()` cannot be empty.")
    return wanted


def _gradients(given: Any) -> tuple[Any, ...] | None:
    if given is None or hasattr(given, "_edge"):
        return None if given is None else (given,)
    return tuple(given)


def _edges_of(inputs: Sequence[Any]) -> list[Edge]:
    edges: list[Edge] = []
    for x in inputs:
        if type(x) is GradientEdge:
            edges.append((x.node, x.output_nr))
            continue
        if not x.requires_grad:
            raise AutogradError("One of the differentiated Tensors does not require grad")
        # A view without a history, of a tensor that requires grad, has no edge: none of the outputs lead there.
        edges.append(x._edge() or (Node(()), 0))
    return edges


def _roots(
    outputs: Sequence[Any], gradients: Sequence[Any] | None, create_graph: bool
) -> list[tuple[Edge, Tensor]]:
    """Where the walk starts, and with which gradients."""
    if gradients is None:
        gradients = [None] * len(outputs)
    if len(gradients) != len(outputs):
        raise AutogradError(
            f"got {len(outputs)} tensors and {len(gradients)} gradients; their numbers must agree"
        )
    roots = []
    for position, (output, gradient) in enumerate(zip(outputs, gradients, strict=True)):
        if type(output) is GradientEdge:
            roots.append(((output.node, output.output_nr), _edge_seed(output, gradient)))
            continue
        edge = output._edge()
        if edge is None:
            raise AutogradError(
                f"element {position} of tensors does not require grad and does not have a grad_fn"
            )
        roots.append((edge, _seed(output, gradient, position)))
    return roots


#: Ones to start from, one tensor per dtype: for nodes that only read them.
_shared_ones: dict[DType, Tensor] = {}


def _plain_root(tensor: Any) -> tuple[Edge, Tensor] | None:
    """Where the walk starts from a 0-d tensor that is no view; None for anything else."""
    node = getattr(tensor, "_grad_fn", None)
    if node is None or tensor._base is not None or MODES.recorder is not None:
        return None
    kind = tensor.spec
    if kind.shape or MODES.listening or tensor._shown_at is not None:
        return None
    ones = shared_ones(kind.dtype)
    if not node.only_reads or node.hooked:  # it may pass on what it gets, or show it to somebody
        if MODULES:
            return None
        ones = ones._wrap(ones.array.copy())
    return (node, tensor._output_nr), ones


def shared_ones(dtype: DType) -> Tensor:
    """A one to start from, for nodes that only read it.

    >>> shared_ones(tj.float32)
    tensor(1.)
    """
    ones = _shared_ones.get(dtype)
    if ones is None:
        from ..tensor import Tensor

        array = np.ones((), dtype.np)
        array.flags.writeable = False  # whoever wants to keep it has to copy it
        ones = _shared_ones[dtype] = Tensor._wrap(array)
    return ones


def _seed(output: Tensor, gradient: Any, position: int) -> Tensor:
    """The gradient to start from, checked; ones for a single element."""
    kind = output.spec
    if gradient is None:
        if kind.numel != 1:
            raise AutogradError(
                "grad can be implicitly created only for scalar outputs",
                f"The output has type {kind}: pass gradient=, or reduce it with sum() or mean() first.",
            )
        return _ones(output)
    if not hasattr(gradient, "_edge"):
        raise ArgumentError(
            f"gradients can be either Tensors or None, but got {type(gradient).__name__}"
        )
    if gradient.spec.shape != kind.shape:
        raise AutogradError(
            f"Mismatch in shape: grad_output[{position}] has a shape of {gradient.shape!r} and "
            f"output[{position}] has a shape of {output.shape!r}."
        )
    if gradient.dtype is not kind.dtype:
        if gradient.dtype.is_complex or kind.dtype.is_complex:
            raise AutogradError(
                "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
                f"dtype: grad_output[{position}] has a dtype of {gradient.dtype!r} and output[{position}] has a dtype "
                f"of {output.dtype!r}."
            )
        from ..ops.elementwise import cast

        gradient = cast(gradient, dtype=kind.dtype)
    result: Tensor = gradient
    return result


def _edge_seed(edge: GradientEdge, gradient: Any) -> Tensor:
    """The gradient to start from at an edge: given, or a one where the edge is known to stand for a number."""
    kind = edge.node.result_type(edge.output_nr)
    if gradient is not None:
        if kind is not None and gradient.spec != kind:
            raise AutogradError(f"Mismatch: grad_output is {gradient.spec}, the edge has {kind}")
        found: Tensor = gradient
        return found
    if kind is None or kind.shape:
        raise AutogradError("grad can be implicitly created only for scalar outputs")
    one: Tensor = full(shape=(), value=1.0, dtype=kind.dtype)
    return one


def _ones(like: Tensor) -> Tensor:
    """The gradient of a tensor with respect to itself."""
    kind = like.spec
    if MODES.listening or like._shown_at is not None:
        heard: Tensor = ANSWERS.ones_like(like)
        return heard
    if MODES.recorder is None:
        return like._wrap(placed(np.ones(kind.shape, kind.dtype.np), like._device_index()))
    ones: Tensor = full(shape=kind.shape, value=1.0, dtype=kind.dtype)
    return ones


def _without_gaps(found: Sequence[Any], inputs: Sequence[Any], requires_grad: bool) -> list[Tensor]:
    """The gradients found, and zeros for the inputs that have none."""
    if any(g is None and type(x) is GradientEdge for g, x in zip(found, inputs, strict=True)):
        raise AutogradError(
            "materialize_grads cannot be used when the given input is a GradientEdge"
        )
    return [
        _zeros(x, requires_grad) if g is None else g for g, x in zip(found, inputs, strict=True)
    ]


def _zeros(like: Tensor, requires_grad: bool) -> Tensor:
    zeros: Tensor = full(shape=like.spec.shape, value=0, dtype=like.dtype)
    return zeros.requires_grad_() if requires_grad else zeros
