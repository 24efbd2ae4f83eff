"""Custom differentiable functions: a ``forward`` and a ``backward`` of one's own."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import ArgumentError, AutogradError
from ..modes import MODES
from ..ops.elementwise import cast
from ..ops.movement import sum_to
from ..ops.source import full
from .node import FREED, Edge, Node
from .once import once_differentiable as once_differentiable
from .saved import INFERENCE, SavedTensor, alias_of

if TYPE_CHECKING:
    from ..tensor import Tensor
    from ..types import TensorType


class FunctionNode(Node):
    """One call of a :class:`Function`: the ``ctx`` of forward and backward, and the node in the graph."""

    function: type[Function]
    always_runs = True

    def __init__(self) -> None:
        super().__init__(())
        self.needs_input_grad: tuple[bool, ...] = ()
        self._to_save: tuple[Any, ...] = ()
        self._saved: list[SavedTensor | None] | None = []
        self._dirty: tuple[Any, ...] = ()
        self._constant: tuple[Any, ...] = ()
        self._materialize = True
        self._asks = True  # does backward ask for what was saved, as far as is known?
        self._input_types: list[Any] = []
        self._output_types: list[Any] = []  # None for those without a gradient
        self._output_kinds: list[Any] = []  # None for what is no tensor

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (inputs, outputs or others; None is allowed) for ``backward``, version checked."""
        for number, x in enumerate(tensors):
            if x is not None and not hasattr(x, "_edge"):
                raise ArgumentError(
                    f"save_for_backward can only save variables, but argument {number} is of type "
                    f"{type(x).__name__}",
                    "Store other values as attributes of ctx.",
                )
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for ``jvp``, which nothing here asks for: they are let go."""

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs ``forward`` changed in place; it must return them."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """False: ``backward`` receives None, instead of zeros, for outputs that nothing used."""
        self._materialize = value

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors given to :meth:`save_for_backward`."""
        if self._saved is None:
            raise AutogradError(FREED)
        return tuple(None if s is None else s.unpack(self) for s in self._saved)

    @property
    def saved_variables(self) -> tuple[Tensor | None, ...]:
        """What ``saved_tensors`` was called when tensors were variables."""
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    def name(self) -> str:
        """``MyFunctionBackward``."""
        return f"{self.function.__name__}Backward"

    def release(self) -> None:
        """Drop the saved tensors."""
        if self._saved:
            self._saved = None

    @property
    def keeps(self) -> bool:
        """Are there saved tensors?"""
        return bool(self._saved)

    @property
    def freed(self) -> bool:
        """Were the saved tensors dropped?"""
        return self._saved is None

    @property
    def rule(self) -> Callable[..., Any]:
        """The user's ``backward``, or ``vjp``, which is another name for it."""
        function = self.function
        if function.vjp is Function.vjp:
            return function.backward
        if function.backward is not Function.backward:
            raise AutogradError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                "implement one of them."
            )
        return function.vjp

    def result_type(self, number: int) -> TensorType | None:
        """That of a result."""
        kind: TensorType | None = self._output_kinds[number]
        return kind

    def apply(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Run the user's ``backward`` and check what it returns."""
        if self._materialize:
            grads = [
                full(shape=t.shape, value=0, dtype=t.dtype) if g is None and t is not None else g
                for g, t in zip(grads, self._output_kinds, strict=True)
            ]
        found = self.rule(self, *grads)
        results = list(found) if isinstance(found, tuple) else [found]
        count = len(self._input_types)
        if len(results) < count or any(r is not None for r in results[count:]):
            raise AutogradError(
                f"function {self.name()} returned an incorrect number of gradients (expected {count}, "
                f"got {len(results)})"
            )
        return [
            self._checked(position, gradient) if edge is not None else None
            for position, (edge, gradient) in enumerate(zip(self.edges, results, strict=False))
        ]

    def come_by(self) -> Sequence[Tensor | None]:
        """What ``backward`` makes of zeros, or of None where it asked for that."""
        return self.apply([None] * self.n_outputs)

    def _checked(self, position: int, gradient: Any) -> Any:
        """A returned gradient in its input's shape and dtype."""
        kind = self._input_types[position]
        if gradient is None or kind is None:
            return None
        if not hasattr(gradient, "_edge"):
            raise AutogradError(
                f"expected Variable or None (got {type(gradient).__name__})",
                f"It is gradient {position} of {self.name()}.",
            )
        shape = tuple(gradient.shape)
        if shape != kind.shape:
            ahead = len(shape) - len(kind.shape)
            if ahead < 0 or any(
                b not in (1, a) for a, b in zip(shape[ahead:], kind.shape, strict=True)
            ):
                raise AutogradError(
                    f"Function {self.name()} returned an invalid gradient at index {position} - got "
                    f"{list(shape)} but expected shape compatible with {list(kind.shape)}"
                )
            gradient = sum_to(gradient, kind.shape)
        return gradient if gradient.dtype is kind.dtype else cast(gradient, dtype=kind.dtype)


class Function:
    """Base of custom differentiable functions.

    Subclasses define static methods: ``forward(ctx, *args)`` and ``backward(ctx, *grads)``; or, with
    ``setup_context(ctx, inputs, output)``, a ``forward(*args)`` without context. ``backward`` returns one gradient
    (or None) per argument of ``forward``. Call it with ``apply``.

    >>> import tracejit as tj
    >>> class Double(tj.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> x = tj.tensor([1.0], requires_grad=True)
    >>> Double.apply(x)
    tensor([2.], grad_fn=<DoubleBackward>)
    """

    _node: type[FunctionNode]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._node = type(f"{cls.__name__}Backward", (FunctionNode,), {"function": cls})

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save what ``backward`` needs, when ``forward`` takes no ``ctx``."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Gradients of the arguments of ``forward`` from gradients of its outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to "
            "use it with backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Any, *grad_outputs: Any) -> Any:
        """Another name for :meth:`backward`; a class defines one of them."""
        return Function.backward(ctx, *grad_outputs)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Any) -> tuple[Any, Any]:
        """Outputs for all samples of a batch, and along which dimension samples lie in them.

        ``info`` has the ``batch_size`` and the ``randomness`` of :func:`tracejit.vmap`, ``in_dims`` tells along which
        dimension samples lie in arguments, None where there are none. Without it ``forward`` runs on samples.
        """
        raise NotImplementedError(
            "You must implement the vmap function for custom autograd.Function to use it with vmap."
        )

    #: May :func:`tracejit.vmap` make a ``vmap`` of ``forward`` and ``backward``? It does so in any case.
    generate_vmap_rule = False

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Tangents of the outputs from tangents of the arguments: a class may define it, nothing here asks for it."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise: functions are not instantiated."""
        raise AutogradError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method.",
            f"Call {type(self).__name__}.apply(...) on the class.",
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` and record the call when an argument requires grad."""
        if cls is Function:
            raise AutogradError("Function.apply: subclass Function and define forward and backward")
        args, kwargs = cls._with_defaults(args, kwargs)
        node = cls._node()
        edges = [x._edge() if hasattr(x, "_edge") else None for x in args]
        tracked = MODES.grad and any(e is not None for e in edges)
        node.needs_input_grad = tuple(e is not None for e in edges)
        recorder = MODES.recorder if tracked else None
        called = None if recorder is None else recorder.function_starts(args)
        grad, MODES.grad = MODES.grad, False
        try:
            output = cls._run(node, args, kwargs, grad)
        finally:
            MODES.grad = grad
        if not tracked:
            return output
        found = _attach(node, args, edges, output)
        if recorder is not None:
            recorder.function_ends(node, called, _as_tuple(output), _as_tuple(found))
        return found

    @classmethod
    def _run(
        cls, node: FunctionNode, args: tuple[Any, ...], kwargs: dict[str, Any], grad: bool
    ) -> Any:
        if MODES.listening:
            for_samples = _for_samples(cls, args, grad)
            if for_samples is not None:
                output = for_samples[0]
                cls.setup_context(node, args, output)
                return output
        if cls.setup_context is Function.setup_context:
            return cls.forward(node, *args, **kwargs)
        output = cls.forward(*args, **kwargs)
        cls.setup_context(node, args, output)
        return output

    @classmethod
    def _with_defaults(
        cls, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What ``setup_context`` is told, and ``backward`` has a gradient for: every argument of ``forward``."""
        if cls.setup_context is Function.setup_context:
            return args, kwargs
        bound = _signature_of(cls.forward).bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args, bound.kwargs


def _for_samples(function: type[Function], args: tuple[Any, ...], grad: bool) -> tuple[Any] | None:
    """What a function says itself about samples of a batch; None where ``forward`` is to run."""
    return None


def set_for_samples(found: Callable[..., Any]) -> None:
    """Install what asks functions about samples of batches (done once by ``tracejit.func``).

    >>> from tracejit.func.batched import of_custom
    >>> set_for_samples(of_custom)
    """
    global _for_samples
    _for_samples = found


@functools.lru_cache(maxsize=128)  # functions made in functions are let go again
def _signature_of(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _as_tuple(output: Any) -> tuple[Any, ...]:
    return output if isinstance(output, tuple) else (output,)


def _attach(
    node: FunctionNode, args: tuple[Any, ...], edges: list[Edge | None], output: Any
) -> Any:
    """Make the outputs results of ``node``."""
    node.set_edges(edges)
    node._input_types = [x.spec if hasattr(x, "_edge") else None for x in args]
    outputs = _as_tuple(output)
    node.n_outputs = len(outputs)
    inputs = {id(x) for x in args if hasattr(x, "_edge")}
    dirty, constant = set(map(id, node._dirty)), set(map(id, node._constant))
    if not dirty <= set(map(id, outputs)):
        raise AutogradError(
            "Some elements marked as dirty during the forward method were not returned as output. The "
            "inputs that are modified inplace must all be outputs of the Function."
        )
    made = []
    for number, x in enumerate(outputs):
        differentiable = hasattr(x, "_edge") and x.dtype.is_differentiable and id(x) not in constant
        node._output_types.append(x.spec if differentiable else None)
        node._output_kinds.append(x.spec if hasattr(x, "_edge") else None)
        made.append(
            _output(node, number, x, id(x) in inputs, id(x) in dirty) if differentiable else x
        )
    _save(node, outputs, made)
    return tuple(made) if isinstance(output, tuple) else made[0]


def _output(node: FunctionNode, number: int, x: Any, is_input: bool, is_dirty: bool) -> Any:
    """One output with its place in the graph; an input returned unchanged becomes a tensor of its own."""
    if is_dirty:
        x._check_inplace()
        alias = alias_of(x)
        alias._continue_from((node, number))
        x._rebase(alias)
        return x
    result = alias_of(x) if is_input or x._base is not None else x
    result._continue_from((node, number))
    return result


def _save(node: FunctionNode, outputs: Sequence[Any], made: Sequence[Any]) -> None:
    """Pack what ``forward`` asked to keep; outputs without the history that would make a cycle."""
    numbers = {id(x): n for n, x in enumerate(outputs)} | {id(x): n for n, x in enumerate(made)}
    saved: list[SavedTensor | None] = []
    for x in node._to_save:
        if x is None:
            saved.append(None)
            continue
        if x._inference:
            raise AutogradError(INFERENCE)
        number = numbers.get(id(x))
        is_result = number is not None and node._output_types[number] is not None
        saved.append(
            SavedTensor(x, is_output=is_result, number=number if is_result and number else 0)
        )
    node._saved = saved
    node._to_save = node._dirty = node._constant = ()
