"""Functions with a ``backward`` of their own, recorded: what backward does is written down as a rule.

Right after forward ran, backward runs once on stand-ins for the gradients of the outputs, on a copy of ``ctx``. What it
computes is recorded like anything else, and a statement tells what stands for what (:mod:`tracejit.ir.rules`). That run
must leave no trace but the record: it is stopped before it writes to a tensor, draws a random number or decides by a
value, and what it changed in Python is put back. Where it was stopped, the graph cannot be differentiated.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd.node import AccumulateGrad, Node, next_number
from ...cuda.arrays import placed
from ...ir.graph import Value
from ...ir.rules import rule, ruled, stand_in
from ...modes import MODES
from ...tensor import Tensor
from ...tensor_core import Version
from ..backward.freeing import acts_unasked
from ..state.calls import watching
from ..state.state import StateGuard
from .function_notes import Alias, Called, Read, Trial
from .kept_alive import KeptAlive
from .rule_effects import reachable, suspicion

if TYPE_CHECKING:
    from ...autograd.function import FunctionNode


#: How many gradients of gradients custom functions in the backward of custom functions have.
DEPTH = 2


class _Stopped(BaseException):  # code that catches every Exception must not catch it
    """Backward is about to do what cannot be part of a rule."""


class FunctionsInside:
    """The part of a recorder that follows custom functions."""

    failure: str | None
    roots: dict[int, Value]
    parents: dict[int, Any]
    external: dict[int, tuple[Tensor, Value]]
    alive: KeptAlive
    path: dict[Any, None]
    rounds: Any
    scope: Any
    emit: Callable[..., Value]
    value_of: Callable[[Tensor], Value]
    origin: Callable[[Tensor], tuple[Tensor, tuple[Any, ...]]]
    inside: Callable[[Tensor], bool]
    show: Callable[[Tensor, Value], None]
    opaque: Callable[..., None]
    unsupported: Callable[[str], None]
    hooked: Callable[..., None]
    unseen_writes: list[Version]
    careful: Callable[[str], Any]
    read_later: Callable[[Tensor], None]
    first_node: int

    def __init__(self) -> None:
        self.trial: Trial | None = None
        self.reads_later: list[Read] = []
        self.state_later: list[tuple[str, StateGuard]] = []  # of functions by name
        self.aliases: dict[int, Alias] = {}
        self.sharing: set[int] = set()  # tensors that share memory with what functions made of them
        self.followed: set[Node] = set()  # whose hooks are rules
        self.handles: list[weakref.ref[object]] = []
        self.suspicions: dict[Any, str | None] = {}

    # --- a call ------------------------------------------------------------------------------------------------------

    def function_starts(self, arguments: Sequence[Any]) -> Called | None:
        """A function whose backward is Python is about to run its forward."""
        if self.trial is not None and self.trial.depth == DEPTH:
            self.trial.untold = True
            return None
        if self.failure is not None:
            return None
        self.rounds = None  # an open loop has no place for rules
        values: list[Value | None] = []
        with self.careful("a custom function"):
            values += [self.value_of(x) if isinstance(x, Tensor) else None for x in arguments]
        origins = [id(self.origin(x)[0]) for x in arguments if isinstance(x, Tensor)]
        return Called(tuple(values), frozenset(origins), len(self.unseen_writes))

    def function_ends(
        self, node: FunctionNode, called: Called | None, raw: Sequence[Any], made: Sequence[Any]
    ) -> None:
        """Forward ran: it returned ``raw``, which became ``made``, results of ``node``."""
        if self.failure is not None or called is None:
            return
        reason: str | None = None
        with self.careful("a custom function"):
            reason = self._follow(node, called, raw, made)
        if reason is not None:
            self.opaque(f"autograd.Function {node.function.__name__}: {reason}")

    def _follow(
        self, node: FunctionNode, called: Called, raw: Sequence[Any], made: Sequence[Any]
    ) -> str | None:
        """Write the rule down; or why that is not possible."""
        chosen = [i for i, kind in enumerate(node._output_types) if kind is not None]
        changed = [made[i] for i in chosen if made[i] is raw[i] and id(raw[i]) in called.origins]
        if not all(id(x) in self.roots and id(x) not in self.external for x in changed):
            return "it changes an argument in place that the compiled function did not make"
        if not node._materialize and len(chosen) > 1:
            return "its backward may be given None for some of several gradients"
        if node.function not in self.suspicions:
            watched = watching() is not None
            self.suspicions[node.function] = suspicion(node.rule, watched)
        reason = self.suspicions[node.function]
        if reason is not None or not chosen:
            return reason or "it has no differentiable result"
        outputs = [self.value_of(raw[i]) for i in chosen]
        stands = [self._stand_in(raw[i], y) for i, y in zip(chosen, outputs, strict=True)]
        grads: list[Tensor | None] = [None] * len(raw)
        for i, (tensor, _) in zip(chosen, stands, strict=True):
            grads[i] = tensor
        twin = object.__new__(type(node))
        twin.__dict__.update(vars(node))
        name = node.function.__name__
        run = partial(twin.apply, grads)
        found = self._run(name, node.rule, vars(node), run, grads, node.function)
        if isinstance(found, str):
            return found
        results, trial = found
        reads = [(i, g) for i, g in enumerate(results) if g is not None]
        if not reads:
            return "its backward gives no gradients"
        node.silent = frozenset(
            i for i, g in enumerate(results) if g is None and node.edges[i] is not None
        )
        if acts_unasked(node, self.first_node):
            return "its backward gives no gradient for what another custom function made"
        node._asks = bool(trial.saved)
        inputs = [called.values[i] for i, _ in reads]
        gradients = [self.value_of(g) for _, g in reads]
        saved = [self.value_of(x) for x in trial.saved.values()]
        operands = [v for _, v in stands]
        attributes = {
            "outputs": len(chosen),
            "inputs": len(reads),
            "once": hasattr(node.rule, "once_differentiable"),
            "untold": trial.untold,
        }
        operands += [*outputs, *inputs, *gradients, *saved]  # type: ignore[list-item]
        token = self.emit(rule, operands, attributes, tracked=True)
        told = {id(x._writes) for x in changed}
        late = [w for w in self.unseen_writes[called.unseen :] if id(w) not in told]
        self.unseen_writes[called.unseen :] = late
        for index, (i, y) in enumerate(zip(chosen, outputs, strict=True)):
            self._rule(raw[i], made[i], self._ruled(y, token, index), called)
        return None

    def _ruled(self, value: Value, token: Value, index: int) -> Value:
        return self.emit(ruled, (value, token), {"index": index}, tracked=True)

    def _rule(self, raw: Tensor, made: Tensor, value: Value, called: Called) -> None:
        """From here on ``made`` is what the rule is of."""
        if made is not raw:
            base = self.origin(raw)[0]
            shared = id(base) in self.external or id(base) in called.origins
            own = not shared and made.is_contiguous()
            alone = own or (id(base) not in self.external and made.is_contiguous())
            self.sharing.update((id(base), id(made)))
            self.aliases[id(made)] = Alias(
                weakref.ref(made), made._writes.value, own, id(base) if alone else None
            )
            self.parents.pop(id(made), None)
        self.roots[id(made)] = value
        self.show(made, value)

    def _stand_in(self, output: Tensor, value: Value) -> tuple[Tensor, Value]:
        kind = output.spec
        tensor = Tensor._wrap(placed(np.ones(kind.shape, kind.dtype.np), output.get_device()))
        self.alive.append(tensor)
        tensor._requires_grad = True  # as one has of which gradients are taken again
        found = self.roots[id(tensor)] = self.emit(stand_in, (value,), {})
        return tensor, found

    # --- hooks on tensors ------------------------------------------------------------------------------------------

    def hook_registered(
        self, tensor: Tensor, hook: Callable[[Tensor], Any], handle: object
    ) -> None:
        """A hook on the gradient of a tensor that the run made: a rule whose result is the tensor itself."""
        self.stop_trial("registers a hook")
        if self.failure is not None:
            return
        followed = False
        if id(tensor) in self.roots and id(tensor) not in self.external:
            with self.careful("a gradient hook"):
                followed = self._follow_hook(tensor, hook)
        if not followed:
            self.hooked("register_hook() inside a compiled function", tensor._grad_fn)
            return
        self.followed.add(tensor._grad_fn)  # type: ignore[arg-type]
        self.handles.append(weakref.ref(handle))

    def _follow_hook(self, tensor: Tensor, hook: Callable[[Tensor], Any]) -> bool:
        """Write the rule of a hook down, if it does no more than compute, and sees the whole gradient."""
        value = self.roots[id(tensor)]
        node = tensor._grad_fn
        if node is None or node in self.followed or tensor._output_nr or tensor._base is not None:
            return False  # of two hooks the first runs first, of two rules the last
        used = (x for v in self.path if isinstance(v, Value) for x in v.value_operands)
        if any(x is value for x in used):
            return False  # a gradient comes another way too
        if suspicion(hook, watching() is not None) is not None:
            return False
        stand, of = self._stand_in(tensor, value)
        name = getattr(hook, "__name__", "a gradient hook")
        found = self._run(name, hook, {}, lambda: hook(stand), [stand])
        if isinstance(found, str):
            return False
        result, trial = found
        if result is None:
            return True
        if not isinstance(result, Tensor) or result.spec is not tensor.spec:
            return False
        attributes = {"outputs": 1, "inputs": 1, "once": False, "untold": trial.untold}
        operands = [of, value, value, self.value_of(result)]
        token = self.emit(rule, operands, attributes, tracked=True)
        made = self.roots[id(tensor)] = self._ruled(value, token, 0)
        self.rounds = None
        self.show(tensor, made)
        return True

    # --- the run on stand-ins ----------------------------------------------------------------------------------------

    def _run(
        self,
        name: str,
        function: Callable[..., Any],
        context: Mapping[str, Any],
        call: Callable[[], Any],
        grads: Sequence[Tensor | None],
        owner: type | None = None,
    ) -> tuple[Any, Trial] | str:
        """What ``call``, of a function that sees stand-ins ``grads``, makes of them; or why it cannot be told."""
        held = reachable(function, context)
        if isinstance(held, str):
            return held
        if owner is not None:
            held.found_in(owner)
        stands = [id(g) for g in grads if g is not None]
        before = {*self.roots, *self.parents}
        outer, listener = self.trial, watching()
        self.trial = trial = Trial(next_number(), before, frozenset(stands), {}, outer)
        grad, MODES.grad = MODES.grad, True  # for gradients of gradients
        count = len(self.reads_later)
        reason = None
        results: Any = ()
        try:
            results = call()
        except _Stopped as stopped:
            reason = str(stopped)
        except Exception as error:  # noqa: BLE001  (the pass that asks for gradients will meet it)
            reason = f"its backward fails ({type(error).__name__}: {error})"
        finally:
            MODES.grad = grad
            self.trial = outer
            changed = held.put_back()
            if listener is not None:  # which Python takes away when it stops a call
                sys.setprofile(listener.hook)
        if changed is not None:
            reason = f"its backward changes {changed}"
        if reason is not None:
            del self.reads_later[count:]
            return reason
        later = held.state()
        if isinstance(later, str):
            return later
        if later.checks:
            self.state_later.append((name, later))
        for tensor in trial.outside.values():
            self.read_later(tensor)
        return results, trial

    def stop_trial(self, what: str) -> None:
        """Something happens that a rule cannot do: the run on stand-ins ends here."""
        if self.trial is not None:
            raise _Stopped(f"its backward {what}")

    def trial_saved(self, tensor: Tensor) -> None:
        """Backward asks for a saved tensor."""
        trial = self.trial
        if trial is not None:
            trial.saved[id(self.origin(tensor)[0])] = tensor

    def trial_ran(self, op: Any, operands: Sequence[Any]) -> None:
        """Backward computed something."""
        if getattr(op, "dynamic", False):
            self.stop_trial("computes something whose size only the run tells")
        for x in operands:
            if isinstance(x, Tensor):
                self.trial_reads(x)

    def trial_reads(self, tensor: Tensor) -> None:
        """Backward computes with a tensor: one that it is given, made, or that was saved, or stays as it is."""
        trial = self.trial
        assert trial is not None
        tensor = self.origin(tensor)[0]
        number = id(tensor)
        if number in trial.saved or number in trial.known:
            return
        if number in self.roots and number not in self.external:
            if number in trial.before:
                read = Read(tensor, tensor._writes.value)
                self.reads_later.append(read)
            return
        trial.outside.setdefault(number, tensor)

    def trial_writes(self, tensor: Tensor) -> None:
        """A tensor is about to be overwritten."""
        trial = self.trial
        if trial is None:
            return
        number = id(self.origin(tensor)[0])
        made = number in self.roots and number not in self.external
        if not made or number in trial.before or number in trial.known:
            self.stop_trial("writes to a tensor that it did not make")

    def trial_turns(self, tensor: Tensor, name: str) -> None:
        """``tensor`` is about to be given another shape, or no history, by the method of this name."""
        trial = self.trial
        if trial is None:
            return
        number = id(tensor)
        made = number not in trial.before and number not in trial.known and self.inside(tensor)
        if not made or any(tensor is x for x in trial.saved.values()):
            self.stop_trial(f"calls {name}() on a tensor that it did not make")

    def trial_gradient(self, tensor: Tensor) -> None:
        """The ``.grad`` of a tensor is asked for or set."""
        if self.trial is not None and not self.inside(tensor):
            self.stop_trial("touches the .grad of a tensor")

    def trial_visits(self, node: Node, adds: bool) -> None:
        """A backward pass in backward is about to run ``node``; ``adds`` if what arrives at leaves stays there."""
        trial = self.trial
        if trial is None:
            return
        if isinstance(node, AccumulateGrad):
            if adds and (not self.inside(node.variable) or id(node.variable) in trial.before):
                self.stop_trial("adds to the gradients of tensors")
        elif node.sequence < trial.first:
            self.stop_trial("runs a backward pass through what was there before")

    # --- the end -----------------------------------------------------------------------------------------------------

    def check_functions(self, outputs: Sequence[Tensor]) -> None:
        """Refuse what a rule does not hold for: changes of what backward reads later, results that show arguments.

        The run may have changed the state that backward reads: then later passes read what it left.
        """
        for name, guard in self.state_later:
            if not guard.holds():
                self.opaque(f"it changes Python state that the backward of {name} reads later")
        given = {id(self.origin(t)[0]) for t in outputs}
        shown = {t._writes for t in outputs}
        for read in self.reads_later:
            if read.tensor._writes.value != read.version:
                self.opaque("a tensor that the backward of a custom function reads is changed")
            elif read.tensor._writes in shown:
                self.read_later(read.tensor)
        if any(handle() is not None for handle in self.handles):
            self.unsupported("it keeps the handle of a gradient hook")
        bases = Counter(a.base for number, a in self.aliases.items() if number in given)
        for number in [*self.aliases]:
            alias = self.aliases[number]
            alone = alias.base is not None and alias.base not in given and bases[alias.base] == 1
            if number in given and not (alias.own or alone):
                self.unsupported("it returns a view that a custom function returned")
            self.alias_ends(number)

    def alias_ends(self, number: int) -> None:
        """Nobody reads this tensor any more: was it, if a function returned it, changed by another name?"""
        self.sharing.discard(number)
        trial = self.trial
        while trial is not None:
            trial.before.discard(number)  # what backward makes next may have this identity
            trial = trial.outer
        found = self.aliases.pop(number, None)
        tensor = None if found is None else found.tensor()
        if found is None or tensor is None or found.own:
            return
        if tensor._writes.value != found.version:
            self.unsupported("an in-place change of what a custom function returned")
