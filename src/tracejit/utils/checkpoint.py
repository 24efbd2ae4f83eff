"""Checkpoints: what a part of the forward pass computes is dropped, and computed again when backward needs it.

Tensors that the tape would keep are replaced by empty handles. The first handle that backward opens runs the part
again, with the random state it had, and fills all of them in the order in which they were made.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any
from weakref import ref

from ..amp.switching import settings, under
from ..autograd.grad_mode import enable_grad
from ..autograd.graph import saved_tensors_hooks
from ..modes import MODES
from ..random import get_rng_state, set_rng_state
from ..tensor import Tensor

__all__ = [
    "CheckpointError",
    "checkpoint",
    "checkpoint_sequential",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

#: Names of modules that are loaded when one of them is asked for.
_LATE = {
    **dict.fromkeys(("SAC_IGNORED_OPS", "CheckpointPolicy"), "selective"),
    "SelectiveCheckpointContext": "selective",
    "create_selective_checkpoint_contexts": "selective",
    **dict.fromkeys(("CheckpointFunction", "check_backward_validity"), "reentrant"),
    **dict.fromkeys(("detach_variable", "_infer_device_type"), "reentrant"),
    **dict.fromkeys(("_get_autocast_kwargs", "_get_device_module"), "reentrant"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f".{_LATE[name]}", __package__)
    found = globals()[name] = getattr(module, name)
    return found


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, whose intermediate values are computed again in backward instead of kept.

    ``context_fn`` returns two context managers: one for forward, one for the second computation; those of
    :func:`create_selective_checkpoint_contexts` keep some results. With
    ``preserve_rng_state`` both draw the same random numbers. ``use_reentrant``, ``debug`` and ``early_stop`` are
    accepted and change nothing. Raises ``RuntimeError`` in backward when the second computation keeps
    other tensors than the first (``determinism_check="none"`` compares their number only).

    Inside a compiled function the part is recorded like any other code: what is kept and what is computed again is
    decided for the whole program. Where the second computation would differ, because the part writes to tensors from
    outside or the function changes later what the part reads, it is compiled together with a backward pass in the same
    function; results that lead to such a part make that function run eagerly. Where such a tensor changes between a
    compiled call and its backward pass, that pass raises ``RuntimeError``.

    >>> import tracejit as tj
    >>> from tracejit.utils.checkpoint import checkpoint
    >>> x = tj.tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint(lambda t: t.exp().sin().sum(), x).backward()
    >>> tj.allclose(x.grad, (x.exp().cos() * x.exp()).detach())
    True
    """
    first, second = (
        (contextlib.nullcontext(), contextlib.nullcontext()) if context_fn is None else context_fn()
    )
    if not MODES.grad:
        with first:
            return function(*args, **kwargs)
    recorder = MODES.recorder
    recorded = recorder is not None and recorder.failure is None
    kind = _RecordedFrame if recorded else _Frame
    frame = kind(lambda: function(*args, **kwargs), second, preserve_rng_state)
    frame.compare = determinism_check != "none"
    with frame.listening(), first:
        return function(*args, **kwargs)


class _Handle:
    """Stands for one kept tensor: its place in the order, and what the tensor was."""

    __slots__ = ("__weakref__", "kept", "kind", "place")

    def __init__(self, place: int, kind: Any) -> None:
        self.place = place
        self.kind = kind
        self.kept: Any = None


class _Frame:
    """One checkpointed call: the handles it gave out, and the tensors of its latest second computation."""

    compare: bool

    def __init__(self, run: Callable[[], Any], context: Any, preserve: bool) -> None:
        self.run = run
        self.context = context
        self.random = get_rng_state() if preserve else None
        self.autocast = settings()
        self.handles: list[ref[_Handle]] = []
        self.values: dict[int, Any] = {}

    def listening(self) -> AbstractContextManager[None]:
        """Inside, the tape keeps handles."""
        return saved_tensors_hooks(self.pack, self.unpack)

    def pack(self, tensor: Any) -> _Handle:
        """A handle in place of a tensor to keep."""
        handle = _Handle(len(self.handles), tensor.spec)
        self.handles.append(ref(handle))
        return handle

    def unpack(self, handle: _Handle) -> Any:
        """The tensor of a handle, computed again if need be; each computation serves a handle once."""
        if handle.place not in self.values:
            self.recompute()
        if handle.place not in self.values:
            self.refuse(f"{len(self.handles)} tensors were kept in forward, fewer when run again")
        value = self.values.pop(handle.place)
        if self.compare and value.spec != handle.kind:
            self.refuse(f"a tensor kept in forward was {handle.kind}, when run again {value.spec}")
        return value

    def refuse(self, what: str) -> None:
        """Say that the two computations differ."""
        raise RuntimeError(
            f"checkpoint: the second computation differs from the first: {what}. "
            "The function must compute the same for the same arguments."
        )

    def recompute(self) -> None:
        """Run the part again and keep what its tape keeps."""
        place = 0

        def keep(tensor: Any) -> Any:
            nonlocal place
            if place < len(self.handles) and self.handles[place]() is not None:
                self.values[place] = tensor.detach()
            place += 1
            return tensor

        now = None
        if self.random is not None:
            now = get_rng_state()
            set_rng_state(self.random)
        try:
            with (
                enable_grad(),
                under(self.autocast),
                saved_tensors_hooks(keep, lambda tensor: tensor),
                self.context,
            ):
                self.run()
        finally:
            if now is not None:
                set_rng_state(now)
        if self.compare and place != len(self.handles):
            self.refuse(f"{len(self.handles)} tensors were kept in forward, {place} when run again")


class _RecordedFrame(_Frame):
    """A call in a run that is recorded: backward passes of the run take what was kept, as long as that is the same.

    A second computation of the same would be written down for nothing. Backward passes after the run compute again, as
    those of any checkpoint.
    """

    def __init__(self, run: Callable[[], Any], context: Any, preserve: bool) -> None:
        super().__init__(run, context, preserve)
        self.recorder = ref(MODES.recorder)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Handles that the recorder need not know of, for what comes back is what was kept."""
        before = MODES.saved_hooks
        MODES.saved_hooks = (*before, _Hooks((self.pack, self.unpack)))
        try:
            with MODES.recorder.part(self.run) as self.part:
                yield
            if (
                self.random is not None
                and get_rng_state().array.tolist() == self.random.array.tolist()
            ):
                self.random = None  # nothing was drawn
        finally:
            MODES.saved_hooks = before

    def pack(self, tensor: Any) -> _Handle:
        """A handle that keeps the tensor too."""
        handle = super().pack(tensor)
        handle.kept = tensor, tensor._writes.value
        return handle

    def unpack(self, handle: _Handle) -> Any:
        """The tensor as it was kept, or computed again."""
        recorder: Any = self.recorder()
        if recorder is None or recorder is not MODES.recorder or recorder.failure is not None:
            return super().unpack(handle)
        tensor, version = handle.kept
        if tensor._writes.value == version and not self.part.changed:
            return tensor
        if self.random is not None:
            recorder.unsupported("a checkpointed part draws its random numbers again in backward")
        return super().unpack(handle)


class _Hooks(tuple[Any, ...]):
    """The hooks of a recorded part, the same to a recorder as those of any other."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Hooks)

    def __hash__(self) -> int:
        return hash(_Hooks)


class CheckpointError(RuntimeError):
    """What PyTorch raises where a second computation differs: here that is a plain ``RuntimeError``."""


def noop_context_fn() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Two contexts that do nothing, for ``context_fn``.

    >>> len(noop_context_fn())
    2
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Accepted and without effect.

    >>> with set_checkpoint_debug_enabled(True):
    ...     pass
    """
    yield


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Accepted and without effect: a second computation always goes to the end.

    >>> with set_checkpoint_early_stop(False):
    ...     pass
    """
    yield


def checkpoint_sequential(
    functions: Sequence[Callable[..., Any]] | Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
) -> Any:
    """A chain of functions (or ``nn.Sequential``) cut into ``segments``; all but the last are checkpointed.

    >>> import tracejit as tj
    >>> from tracejit.utils.checkpoint import checkpoint_sequential
    >>> checkpoint_sequential([tj.exp, tj.log, tj.sqrt], 2, tj.tensor([4.0]))
    tensor([2.])
    """
    chain = list(functions.children() if hasattr(functions, "children") else functions)
    size = len(chain) // segments

    def part(low: int, high: int) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for function in chain[low:high]:
                value = function(value)
            return value

        return run

    for number in range(segments - 1):
        input = checkpoint(
            part(number * size, (number + 1) * size),
            input,
            use_reentrant=use_reentrant,
            preserve_rng_state=preserve_rng_state,
        )
    return part((segments - 1) * size, len(chain))(input)


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The devices of ``args`` with random generators of their own, and the states of these.

    There are none: numbers on every device come from the one generator of :func:`tracejit.get_rng_state`.

    >>> import tracejit as tj
    >>> get_device_states(tj.ones(2))
    ([], [])
    """
    del args
    return [], []


def set_device_states(
    devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None
) -> None:
    """Put back what :func:`get_device_states` found. Raises ``ValueError`` for states of other devices.

    >>> set_device_states([], [])
    """
    if devices or states:
        raise ValueError("devices have no random generators of their own")
