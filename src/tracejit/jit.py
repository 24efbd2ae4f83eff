"""``tracejit.compile``: look up, replay or record.

A compiled function keeps entries per signature. An entry holds the trace tree of the paths seen so far, the tensors it
captured, and a guard on the Python state it was recorded under. A call looks up its entry, checks the guard, and runs
the tree's programs; whatever is new is run eagerly, recorded, and added.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from types import FunctionType
from typing import Any

from . import config, dtypes, scripting
from .backoff import Backoff
from .bound_function import BoundFunction, Stats, name_of
from .copied_function import OPTIONS, Copies
from .errors import ArgumentError
from .inspection import Inspection
from .locks import renewed_rlock
from .modes import MODES
from .paths import names_of_jit
from .tensor import Tensor
from .trace.arrays.arguments import ArrayUses
from .trace.arrays.unread import UnreadUses
from .trace.behind import Pending, followed_by_warm_up, warm_up
from .trace.entry import Entry, NotReplayable, Refused, UnseenSegment
from .trace.first_call import record
from .trace.idle_objects import IdleObjects
from .trace.keeping import ALIKE, BUSY, CHURN, ENDLESS, HEARD, HOOKED, Keeping
from .trace.numbers.left import handed_in, served
from .trace.numbers.numbers import ANY, UnfitError
from .trace.numbers.places import TURNS
from .trace.numbers.strays import left_over
from .trace.numbers.uses import NumberUses
from .trace.objects import ObjectUses
from .trace.replay.tracebacks import shortened
from .trace.retrace import why_new
from .trace.routes import MAX_ROUTES
from .trace.signature import call_key
from .trace.sizes.shape_uses import ShapeUses, exact
from .trace.state.calls import listening
from .trace.state.ran_codes import WideError
from .trace.tree.plan import PlanStore

log = logging.getLogger("tracejit")
globals().update({name: getattr(scripting, name) for name in scripting.__all__})
globals().update(names_of_jit())


class CompiledFunction(Keeping, Inspection, Copies):
    """A function that records itself and replays fused kernels; made by :func:`compile`."""

    __slots__ = ("_routes",)  # signatures that native code recognises, see `trace.routes`

    _routes: tuple[Any, ...]

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        strict: bool = False,
        verify: bool = False,
        background: bool = False,
        capture: bool = False,
        dynamic: bool | None = None,
    ) -> None:
        plain = isinstance(function, FunctionType)  # the attributes of other callables are state
        functools.update_wrapper(self, function, updated=("__dict__",) if plain else ())
        self.function = function
        self.strict, self.verify = strict, verify
        self.background, self.capture, self.dynamic = background, capture, dynamic
        if not (config.disabled or background):
            warm_up()
        self.name = getattr(function, "__name__", None) or name_of(function)
        self.stats = Stats()
        self._routes = ()
        self.entries: dict[Any, list[Entry]] = {}
        self.plans = PlanStore()
        self.uses = NumberUses()
        self.arrays, self.unread, self.objects = ArrayUses(), UnreadUses(), ObjectUses()
        self.shapes, self.idle = ShapeUses(dynamic), IdleObjects()
        self.reasons: list[str] = []
        self._backoffs: dict[Any, Backoff] = {}
        self._met: dict[Any, None] = {}
        self._churn, self._refused = Backoff(CHURN), Backoff(ALIKE)
        self._compiled_before = 0
        self._lock = renewed_rlock()
        self._warned: set[str] = set()
        self._own_names = {*vars(self), *dir(type(self))} - {*(vars(function) if plain else ())}

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else BoundFunction(self, instance)

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result: recorded in the first call of a signature, replayed in later ones."""
        modes = MODES
        if modes.recorder is not None or modes.builder is not None or config.disabled:
            return self.function(*args, **kwargs)
        try:
            self.stats.other_calls += 1
            if modes.listening or (modes.saved_hooks and modes.grad):
                self._explain(HEARD if modes.listening else HOOKED)
                return self._eager(args, kwargs)
            tensors: list[Tensor] = []
            structure: Any = None
            numbers: Any = ()
            for x in args:
                if not isinstance(x, Tensor):
                    break
            else:
                if not kwargs:
                    tensors = list(args)
            if not tensors and (args or kwargs):
                args, kwargs = self.unread.left_out(*self.arrays.taken(args, kwargs))
                structure, numbers = self._structure_of(args, kwargs, tensors)
            elif self.uses.held.known:
                structure, numbers = self.uses.of_tensors(args, tensors)
            unusual: Any = dtypes._default if modes.unusual is None else modes.unusual_key()
            key = call_key((modes.grad, modes.inference, unusual), structure, tensors)
            found = self.entries.get(key)
            if found is not None:
                for entry in found:
                    if entry.holds() and (not entry.pinned or entry.accepts(tensors)):
                        return self._replay(entry, tensors, args, kwargs, numbers)
            return self._unknown(key, tensors, args, kwargs, numbers)
        except Exception as error:
            error.__traceback__ = shortened(error)
            raise

    __call__ = _call  # in native code once a route was found

    def _unknown(
        self, key: Any, tensors: list[Tensor], args: Any, kwargs: Any, numbers: Any
    ) -> Any:
        """A call with a signature that has no entry of its own: served with others like it, or recorded."""
        if key[3] is ENDLESS:
            self._explain(ENDLESS)
            return self._eager(args, kwargs)
        if self.shapes.active:
            entry, wide = self._wide_entry_for(key, tensors)
            if entry is not None:
                return self._replay(entry, wide, args, kwargs, numbers)
        return self._record(key, tensors, args, kwargs)

    def _replay(
        self, entry: Entry, tensors: list[Tensor], args: Any, kwargs: Any, numbers: Any
    ) -> Any:
        """Serve a call from an entry, or say why not."""
        try:
            if self.verify:
                from .verification import replay_beside_eager

                result = replay_beside_eager(self, entry, tensors, args, kwargs, numbers)
            else:
                result = served(entry, tensors, args, kwargs, numbers)
        except (Refused, Pending, NotReplayable) as failure:
            end: Exception = failure
        else:
            self.stats.other_compiled_calls += 1
            if len(self._routes) < MAX_ROUTES and not self.verify:
                self._find_route(entry, tensors, args, kwargs)
            return result
        # Out here: errors of the eager run must not look like caused by what ended the replay.
        return self._after(end.with_traceback(None), entry, tensors, args, kwargs)

    def _after(
        self, end: Exception, entry: Entry, tensors: list[Tensor], args: Any, kwargs: Any
    ) -> Any:
        """A call that compiled code did not serve after all."""
        if entry.parts(end):
            return self._call(*args, **kwargs)
        if isinstance(end, UnseenSegment):
            return self._leave(end, entry, tensors, args, kwargs)
        if isinstance(end, Pending):
            log.debug("%s: its kernels are not there yet", self.name)
        elif isinstance(end, NotReplayable):
            if self.shapes.unserved(entry, end):
                self.forget(entry)
                return self._record(entry.key, tensors, args, kwargs)
            self._explain(str(end))
            if not (entry.alike or end.passing) and self.uses.without_sizes(entry, str(end)):
                self.forget(entry)
        result = self._eager(args, kwargs)
        if isinstance(end, Refused):
            self._explain("compiled code refused its input; eager code had no error, or caught it")
            entry.refused()
        return result

    def _ended(
        self, error: BaseException, entry: Entry, tensors: list[Tensor], names: Any, *values: Any
    ) -> Any:
        """A call that native code gave to an entry, and that ended in ``error``."""
        self.stats.other_calls += 1
        count = len(values) - len(names or ())
        args, kwargs = values[:count], dict(zip(names or (), values[count:], strict=True))
        try:
            if isinstance(error, (Refused, Pending, NotReplayable)):
                return self._after(error.with_traceback(None), entry, tensors, args, kwargs)
            raise error
        except Exception as found:
            found.__traceback__ = shortened(found)
            raise

    def _leave(
        self, branch: UnseenSegment, entry: Entry, tensors: list[Tensor], args: Any, kwargs: Any
    ) -> Any:
        """A call whose way through the tree ends before a result, with nothing done that can be seen."""
        raises = branch.segment.raises
        end = raises.get(branch.outcome) or raises.get(ANY)
        if end is not None and not (entry.open and end.doubtful):
            end.calls += 1
            result = self._eager(args, kwargs)
            end.passed()  # it came back: no error this time
            return result
        if self.shapes.missed(entry, branch) or self.uses.missed(entry, branch):
            self.forget(entry)
            return self._record(entry.key, tensors, args, kwargs)
        reason = entry.keeps_out(branch)
        if reason is None:
            return self._extend(entry, tensors, args, kwargs, entry.unseen(branch))
        self._explain(reason)
        return self._eager(args, kwargs)

    def _record(self, key: Any, tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        """A new signature, or a known one under new Python state; while another thread records, just run."""
        if self.background and not self._met and self._is_first(key):
            return followed_by_warm_up(self._eager, args, kwargs)
        if self._learns_arguments(args, kwargs):
            return self._anew(args, kwargs)
        key, tensors = exact(key, tensors)
        key, numbers = self._with_numbers(key, tensors, args, kwargs)
        key, tensors = self.shapes.learn(key, tensors)
        backoff = self._backoffs.get(key)
        if backoff is not None and backoff.wait():
            self._explain(backoff.reason)
            return self._eager(args, kwargs)
        if self._waits(key, tensors):
            return self._eager(args, kwargs)
        lock = self._lock
        try:
            if lock.acquire(blocking=False):
                found = self._entry_for(key, tensors)
                if found is not None:  # another thread was faster
                    return self._replay(found, tensors, args, kwargs, numbers)
                if not self._changes_always():
                    replaced, key = self.uses.learn_state(key, self.entries, (args, kwargs))
                    why = replaced and replaced.difference(tensors)
                    why = why or why_new(self.entries, key, tensors)
                    self.forget(replaced)
                    self._churn.note(f"{CHURN} calls in a row had new signatures (the last: {why})")
                    entry = Entry(self, key, tensors, args, kwargs)
                    return self._extend(entry, tensors, args, kwargs, why)
                self._explain(self._churn.reason)
                return self._eager(args, kwargs)
        finally:
            try:  # noqa: SIM105  (no Python code may run before the lock is free)
                lock.release()
            except RuntimeError:
                pass
        self._note(BUSY)
        return self._eager(args, kwargs)

    def _extend(self, entry: Entry, tensors: list[Tensor], args: Any, kwargs: Any, why: str) -> Any:
        """Run eagerly, recording a new path into ``entry``; while another thread records, just run."""
        lock = self._lock
        try:
            if lock.acquire(blocking=False):
                with TURNS.taken(self.uses.in_use) as mine:
                    if mine:
                        try:
                            return record(self._recorded, entry, tensors, args, kwargs, why)
                        finally:
                            left_over(entry.handed_out)
        finally:  # whether or not an interrupt let this thread know that it got the lock
            try:  # noqa: SIM105  (no Python code may run before the lock is free)
                lock.release()
            except RuntimeError:
                pass
        self._note(BUSY)
        return self._eager(args, kwargs)

    def _recorded(
        self, entry: Entry, tensors: list[Tensor], args: Any, kwargs: Any, why: str
    ) -> Any:
        """The result of a run that is recorded."""
        self.stats.recordings += 1
        self.stats.eager_calls += 1
        self._routes = ()
        log.info("%s is recorded: %s", self.name, why)
        refused: type[Exception] | None = None
        reason: str | None = None
        with listening() as listener, handed_in(args, kwargs):
            try:
                result = entry.record(tensors, args, kwargs, why)
            except UnfitError as unfit:
                refused, reason = UnfitError, str(unfit)
                if not entry.extents:
                    self.uses.give_up(reason)
            except WideError:
                refused = WideError
            except Exception:
                self._keep(entry)
                raise
        if refused is not None:  # out here: an error of the run must not look like caused by it
            self.stats.recordings -= 1
            if refused is WideError:
                return self._collected(args, kwargs)
            self.stats.eager_calls -= 1
            if entry.extents:
                return self._with_constants(entry, tensors, args, kwargs, reason)
            if entry.varying or entry.sizes:
                return self._record(entry.key, tensors, args, kwargs)
            return self._recorded(entry, tensors, args, kwargs, why)
        if self._gives_up(entry) or self._learns(listener):  # the next call is recorded once more
            self.forget(entry)
            return result
        self._judge(entry, listener.verdict(entry.guard, tensors, result))
        self._keep(entry)
        reason = entry.failure or entry.closed
        steady = entry.unstable is None and not entry.parted
        if reason and (steady or self._backoffs[entry.key].hopeless):
            self._explain(reason)
        return result


def compile(
    model: Any = None,
    *,
    strict: bool = False,
    verify: bool = False,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = None,
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
    name: str | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """Make a function, method or module record itself and replay as fused kernels.

    Usable as ``@compile``, ``@compile(...)``, ``compile(function)`` and ``compile(module)``. The first call per
    signature (dtypes, shapes, layouts, requires_grad, grad mode, other arguments) runs eagerly and is recorded; later
    calls, and the first one where it has much to compute, run compiled kernels with the same results.

    Args:
        model: a callable or an ``nn.Module``; None to make a decorator.
        strict: raise :class:`~tracejit.errors.CaptureError` instead of running eagerly (``fullgraph`` means the same).
        verify: run eagerly too at every call, compare values and gradients, and raise
            :class:`~tracejit.errors.VerificationError` on the first difference.
        mode: with "background" the first call of a signature is an eager call and nothing else, the second one is
            recorded, kernels are compiled by a thread behind the program, and calls run eagerly until they are there;
            ``f.wait()`` waits for them. "reduce-overhead" makes CUDA graphs wherever it can, not only where it pays.
        dynamic: whether one recording may serve other extents of the arguments: True from the second signature on
            that differs in nothing else, None from the third one on, False never.
        disable: return ``model`` as it is.

    The other arguments and modes are PyTorch's; they are accepted and change nothing. Raises ``TypeError`` where
    ``model`` is not callable.

    >>> import tracejit as tj
    >>> @tj.compile
    ... def f(x):
    ...     return (x * 2).relu().sum()
    >>> f(tj.ones(3)), f(tj.ones(3))
    (tensor(6.), tensor(6.))
    """
    strict = strict or fullgraph
    given: dict[str, Any] = {"strict": strict, "verify": verify, "mode": mode, "dynamic": dynamic}
    if model is None:
        return functools.partial(compile, **given, disable=disable)
    if disable:
        return model
    if isinstance(model, (staticmethod, classmethod)):
        return type(model)(compile(model.__func__, **given))
    modes = (mode == "background", mode == "reduce-overhead")
    return _compiled(model, strict, verify, *modes, dynamic)


def _compiled(model: Any, *options: Any) -> Any:
    from .compiled_module import CompiledModule, compile_module
    from .nn.module import Module

    if isinstance(model, (CompiledModule, CompiledFunction)):
        if not any(options) and options[-1] is None:
            return model
        model = model._orig_mod if isinstance(model, CompiledModule) else model.function
    if not callable(model):
        raise ArgumentError(
            f"compile() takes a function, a method or a module, not {type(model).__name__}",
            "Write @tj.compile above a def, or tj.compile(model).",
        )
    if isinstance(model, Module):
        return compile_module(model, *options)
    return CompiledFunction(model, **dict(zip(OPTIONS, options, strict=False)))
