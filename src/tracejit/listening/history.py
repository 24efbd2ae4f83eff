"""How an operator is called: what autograd notes, who is told, and what computes it.

Operators whose gradients PyTorch spells as operators get nodes of their own, which call these. Others run with the
history that they always have, and what is called in backward is seen as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from ..autograd.node import FREED, Edge, Node
from ..autograd.saved import SavedTensor
from ..errors import AutogradError
from ..modes import MODES
from ..tensor import Tensor
from .schema import is_view
from .signatures import forms_of
from .stack import LISTENERS
from .wrappers import leaves, wrappers_in

__all__ = [
    "RULES",
    "OperatorNode",
    "Rule",
    "differentiable",
    "differentiated",
    "natively",
    "parts_of",
    "row_like",
    "send",
]

#: Gives the gradient of one operand; parameters are ``g``, operands and options by name, and ``result``.
Rule = Callable[..., Any]
#: The gradients of operators, by their names and the names of operands.
RULES: dict[str, dict[str, Rule]] = {}


def differentiated(op: Any, args: Any, kwargs: Any) -> Any:
    """What an operator gives, with a place in the graph.

    >>> import tracejit as tj
    >>> differentiated(tj.ops.aten.neg.default, (tj.ones(1),), {})
    tensor([-1.])
    """
    if LISTENERS.below or not MODES.grad or not _tracked(args, kwargs):
        return send(op, args, kwargs)
    if op._opname in _WITHOUT:
        return _without_history(op, args, kwargs)
    own = op._opname.endswith("_") and not op._opname.startswith("__")
    rules = _rules_of(op, own)
    if rules is not None and not _covers(op, rules, args, kwargs):
        rules = None
    known = {} if rules is None else _known(op, args, kwargs)
    edges, places = ([], []) if rules is None else _edges(rules, known)
    if rules is None or own or op.is_view:
        result = natively(op, args, kwargs)
        if rules is None:
            return result
    else:
        result = _without_history(op, args, kwargs)
    if own and (args[0]._base is not None or not args[0]._requires_grad):
        return result
    if not any(edges):
        return result
    return _noted(op, rules, args, kwargs, result, known, edges, places)


#: Operators whose results hang on no values.
_WITHOUT = frozenset(
    """zeros_like ones_like empty_like full_like rand_like randn_like new_zeros new_ones new_empty new_full bernoulli
    detach _local_scalar_dense multinomial""".split()  # noqa: SIM905
)


def _without_history(op: Any, args: Any, kwargs: Any) -> Any:
    grad, MODES.grad = MODES.grad, False
    try:
        return send(op, args, kwargs)
    finally:
        MODES.grad = grad


def _tracked(args: Any, kwargs: Any) -> bool:
    return any(x.requires_grad for x in leaves(args, kwargs))


def _rules_of(op: Any, own: bool) -> dict[str, Rule] | None:
    """The rules of an operator; of one that writes to its first operand, where they need not know what that was."""
    if op.namespace != "aten":
        return None
    name = op._opname.removesuffix("_") if own else op._opname
    rules = RULES.get(f"{name}.{op._overloadname}")
    if rules is None or not own:
        return rules
    needed = {need for rule in rules.values() for need in _needs(rule)}
    return None if is_view(name) or any(need.startswith("self") for need in needed) else rules


def _covers(op: Any, rules: dict[str, Rule], args: Any, kwargs: Any) -> bool:
    """Is there a rule for each operand that requires grad?"""
    for name, value in _known(op, args, kwargs).items():
        if name not in rules and any(x.requires_grad for x in leaves((value,), {})):
            return False
    return True


def _needs(rule: Rule) -> tuple[str, ...]:
    code: CodeType = getattr(rule, "__code__")  # noqa: B009
    return code.co_varnames[: code.co_argcount]


def natively(op: Any, args: Any, kwargs: Any) -> Any:
    """The result with the history that it always has; computed again in backward where a listener made another one.

    >>> import tracejit as tj
    >>> natively(tj.ops.aten.sinc.default, (tj.zeros(1),), {})
    tensor([1.])
    """
    # Whoever computes a part again counts what is kept: it must be the same when a listener hands out what it had.
    counted = bool(MODES.saved_hooks) and not op.is_view and not op._opname.endswith("_")
    before = LISTENERS.natively, LISTENERS.made
    LISTENERS.natively, LISTENERS.made = None if counted else op, None
    grad, MODES.grad = MODES.grad, False
    try:
        result = send(op, args, kwargs)
        made = LISTENERS.made
    finally:
        MODES.grad = grad
        LISTENERS.natively, LISTENERS.made = before
    if made is not None and all(map(_is, parts_of(result), parts_of(made))):
        return result
    if op.is_view or op._opname.endswith("_"):
        return result
    from .again import again

    return again(op, args, kwargs, result)


def _is(a: Any, b: Any) -> bool:
    return a is b


def parts_of(result: Any) -> Sequence[Any]:
    """The results of an operator.

    >>> parts_of(3)
    (3,)
    """
    return result if isinstance(result, (tuple, list)) else (result,)


def row_like(row: Any, parts: Sequence[Any]) -> Any:
    """A tuple, named tuple or list like another one, of other parts.

    >>> row_like((1, 2), [3, 4])
    (3, 4)
    """
    return getattr(type(row), "_make", type(row))(parts)


def send(op: Any, args: Any, kwargs: Any) -> Any:
    """What an operator gives: the innermost listener answers, a class of tensors that does, or it is computed.

    >>> import tracejit as tj
    >>> send(tj.ops.aten.neg.default, (tj.ones(1),), {})
    tensor([-1.])
    """
    wrappers = wrappers_in(args, kwargs)
    if not LISTENERS.dispatch and not wrappers:
        return _computed(op, args, kwargs)
    types = tuple(dict.fromkeys(map(type, wrappers)))
    before = LISTENERS.dispatch, LISTENERS.below, MODES.grad
    LISTENERS.below, MODES.grad = True, False
    try:
        if LISTENERS.dispatch:
            *rest, mode = before[0]
            LISTENERS.dispatch = tuple(rest)
            found = mode.__torch_dispatch__(op, types, args, kwargs)
            if found is not NotImplemented:
                return found
        for x in wrappers:
            handler: Any = type(x)
            found = handler.__torch_dispatch__(op, types, args, kwargs)
            if found is not NotImplemented:
                return found
    finally:
        LISTENERS.dispatch, LISTENERS.below, MODES.grad = before
    names = ", ".join(kind.__name__ for kind in types)
    raise TypeError(
        f"Multiple dispatch failed for '{op}'; all __torch_dispatch__ handlers returned NotImplemented: {names}"
    )


def _computed(op: Any, args: Any, kwargs: Any) -> Any:
    listeners = LISTENERS
    quiet, grad = listeners.quiet, MODES.grad
    own = listeners.natively is op
    listeners.quiet = True
    if own:
        MODES.grad, listeners.natively = True, None
    elif listeners.below:
        MODES.grad = False
    try:
        result = op._function(*args, **kwargs)
    finally:
        listeners.quiet, MODES.grad = quiet, grad
    if own:
        listeners.made = result
    return result


# --- nodes ----------------------------------------------------------------------------------------

#: What PyTorch counts where forms of an operator have nodes of their own.
_NUMBERS = {
    "sum.dim_IntList": 1,
    "mean.dim": 1,
    "pow.Tensor_Tensor": 1,
    "max.default": 1,
    "min.default": 1,
    "squeeze.dim": 1,
    "unsqueeze.default": 0,
}


class OperatorNode(Node):
    """The backward step of an operator; gradients are operators again."""

    def __init__(
        self,
        op: Any,
        rules: dict[str, Rule],
        known: dict[str, Any],
        results: Sequence[Any],
        edges: Sequence[Edge | None],
        places: Sequence[tuple[str, int | None]],
    ) -> None:
        super().__init__(edges, max(len(results), 1))
        self.op, self.rules, self.places = op, rules, places
        self.kinds = {}
        for name, number in places:
            operand = known[name] if number is None else known[name][number]
            if isinstance(operand, Tensor):
                self.kinds[name, number] = operand.spec
        self.types = [x.spec if isinstance(x, Tensor) else None for x in results]
        needed = {name for rule in rules.values() for name in _needs(rule)}
        self.saved: dict[str, Any] | None = {}
        for name in sorted(needed - {"g", "grads"}):
            self.saved[name] = self._kept(name, known, results)

    def _kept(self, name: str, known: dict[str, Any], results: Sequence[Any]) -> Any:
        if name.startswith("result"):
            number = int(name[6:] or 0)
            return SavedTensor(results[number], True, number)
        if name not in known:  # of the operand that is called so
            operand, _, question = name.rpartition("_")
            answer = getattr(known[operand], question, None)
            return list(answer or ()) if question == "shape" else answer
        value = known[name]
        if isinstance(value, (list, tuple)) and any(isinstance(x, Tensor) for x in value):
            return [SavedTensor(x) if isinstance(x, Tensor) else x for x in value]
        return SavedTensor(value) if isinstance(value, Tensor) else value

    def name(self) -> str:
        """PyTorch's name of the node."""
        name = "".join(part.title() if part else "_" for part in self.op._opname.split("_"))
        number = _NUMBERS.get(f"{self.op._opname}.{self.op._overloadname}", 0)
        return f"{name.replace('_', '')}Backward{number}"

    def result_type(self, number: int) -> Any:
        """That of a result."""
        return self.types[number] if number < len(self.types) else None

    @property
    def keeps(self) -> bool:
        """Is there something that another pass would need?"""
        return bool(self.saved)

    @property
    def freed(self) -> bool:
        """Was it dropped?"""
        return self.saved is None

    def release(self) -> None:
        """Drop it."""
        if self.saved:
            self.saved = None

    def _unpacked(self) -> dict[str, Any]:
        if self.saved is None:
            raise AutogradError(FREED)
        found: dict[str, Any] = {}
        for name, kept in self.saved.items():
            if isinstance(kept, list):
                found[name] = [x.values(self) if type(x) is SavedTensor else x for x in kept]
            else:
                found[name] = kept.values(self) if type(kept) is SavedTensor else kept
        return found

    def apply(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """The gradients of its operands, by name; those of a row are one rule's."""
        known = self._unpacked()
        if all(g is None for g in grads):
            return [None] * len(self.edges)
        known["g"], known["grads"] = grads[0], grads
        found: dict[str, Any] = {}
        wanted = {
            name
            for (name, _), edge in zip(self.places, self.edges, strict=True)
            if edge is not None
        }
        for name in sorted(wanted):
            rule = self.rules[name]
            found[name] = rule(*[known[need] for need in _needs(rule)])
            if isinstance(found[name], dict):  # all of them at once
                found.update(found[name])
                break
        return [
            None if edge is None else self._fitting(found[name], name, number)
            for (name, number), edge in zip(self.places, self.edges, strict=True)
        ]

    def _fitting(self, found: Any, name: str, number: int | None) -> Any:
        """The gradient of an operand, in the shape that it had before it was broadcast, and in its type."""
        g = found if number is None else found[number]
        kind = self.kinds.get((name, number))
        if g is None or kind is None or (g.spec.shape == kind.shape and g.dtype is kind.dtype):
            return g
        from .rules import fitted

        g = fitted(g, kind.shape)
        return g if g.dtype is kind.dtype else g.to(kind.dtype)


def differentiable(x: Any) -> bool:
    """Is it a tensor that can have a gradient?

    >>> differentiable(3)
    False
    """
    return isinstance(x, Tensor) and x.dtype.is_differentiable


def _edges(rules: dict[str, Rule], known: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """Where the gradients of operands go, and which operands these are."""
    edges: list[Edge | None] = []
    places: list[tuple[str, int | None]] = []
    for name in rules:
        value = known.get(name)
        row: list[Any] = list(value) if isinstance(value, (list, tuple)) else [value]
        for number, x in enumerate(row):
            edges.append(x._edge() if differentiable(x) and x.requires_grad else None)
            places.append((name, number if isinstance(value, (list, tuple)) else None))
    return edges, places


def _noted(
    op: Any,
    rules: dict[str, Rule],
    args: Any,
    kwargs: Any,
    result: Any,
    known: dict[str, Any],
    edges: list[Edge | None],
    places: list[tuple[str, int | None]],
) -> Any:
    """The result as that of a node."""
    given = {id(x) for x in leaves(args, kwargs)}
    writes = op._opname.endswith("_")
    parts = [
        x._alias()
        if isinstance(x, Tensor)
        and not writes
        and (id(x) in given or (x._requires_grad and not op.is_view))
        else x
        for x in parts_of(result)
    ]
    node = OperatorNode(op, rules, known, parts, edges, places)
    several = any("grads" in _needs(rule) for rule in rules.values())
    for number, x in enumerate(parts if several else parts[:1]):
        if differentiable(x):
            x._requires_grad, x._grad_fn, x._output_nr = True, node, number
    return row_like(result, parts) if isinstance(result, (tuple, list)) else parts[0]


def _known(op: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    for form in forms_of(op._opname):
        if form.form == op._overloadname:
            return form.known(args, kwargs)
    return {**{f"#{i}": x for i, x in enumerate(args)}, **kwargs}
