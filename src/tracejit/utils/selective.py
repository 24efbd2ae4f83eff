"""Checkpoints of which some results are kept: a policy says which operators' results are not computed again."""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from ..aten import ATEN, Overload
from ..tensor import Tensor
from ._python_dispatch import TorchDispatchMode
from .trees import tree_map

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "SelectiveCheckpointContext",
    "create_selective_checkpoint_contexts",
]

#: Operators of which no policy is asked.
SAC_IGNORED_OPS = {ATEN.detach.default}


class CheckpointPolicy(enum.Enum):
    """What is to become of an operator's results: kept, or computed again; here both strengths are the same."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


class SelectiveCheckpointContext:
    """What a policy is told: is the part computed again?"""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute = is_recompute
        self.op_output = op_output


class _Kept:
    """A result that is kept, with the version it had."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.version = value._version if isinstance(value, Tensor) else None

    def get(self, mutation: bool) -> Any:
        if self.version is not None and not mutation and self.value._version != self.version:
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated"
            )
        return self.value


def _verdict(policy: Any) -> CheckpointPolicy:
    if isinstance(policy, CheckpointPolicy):
        return policy
    return CheckpointPolicy.MUST_SAVE if policy else CheckpointPolicy.PREFER_RECOMPUTE


_SAVED = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)


class _Caching(TorchDispatchMode):
    """In forward: keeps results."""

    def __init__(self, policy: Callable[..., Any], storage: dict[Any, list[Any]]) -> None:
        super().__init__()
        self.policy, self.storage = policy, storage

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if func in SAC_IGNORED_OPS:
            return out
        context = SelectiveCheckpointContext(is_recompute=False, op_output=out)
        if _verdict(self.policy(context, func, *args, **kwargs)) in _SAVED:
            keep = lambda x: _Kept(x.detach() if isinstance(x, Tensor) else x)  # noqa: E731
            self.storage[func].append(tree_map(keep, out))
        return out


class _Cached(TorchDispatchMode):
    """When the part is computed again: hands out what was kept."""

    def __init__(
        self, policy: Callable[..., Any], storage: dict[Any, list[Any]], mutation: bool
    ) -> None:
        super().__init__()
        self.policy, self.storage, self.mutation = policy, storage, mutation

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in SAC_IGNORED_OPS:
            return func(*args, **kwargs)
        context = SelectiveCheckpointContext(is_recompute=True)
        if _verdict(self.policy(context, func, *args, **kwargs)) not in _SAVED:
            return func(*args, **kwargs)
        if func not in self.storage:
            raise RuntimeError(f"{func} encountered during backward, but not found in storage")
        if not self.storage[func]:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed "
                "under selective activation checkpoint."
            )
        return tree_map(lambda x: x.get(self.mutation), self.storage[func].pop(0))


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | Sequence[Overload],
    allow_cache_entry_mutation: bool = False,
) -> tuple[Any, Any]:
    """Two contexts for ``checkpoint(context_fn=...)``, with which some results are kept instead of computed again.

    ``policy_fn_or_list`` are the operators whose results are kept, or says so for each call: it is called with a
    :class:`SelectiveCheckpointContext`, the operator and its arguments, and returns a :class:`CheckpointPolicy`.
    What was kept must not have been written to, unless ``allow_cache_entry_mutation``: ``RuntimeError`` in backward.

    >>> import functools
    >>> import tracejit as tj
    >>> from tracejit.utils.checkpoint import checkpoint
    >>> keep = functools.partial(create_selective_checkpoint_contexts, [tj.ops.aten.mm.default])
    >>> x = tj.ones(2, 2, requires_grad=True)
    >>> checkpoint(lambda x: (x @ x).sin().sum(), x, use_reentrant=False, context_fn=keep).backward()
    >>> tj.allclose(x.grad, tj.full((2, 2), 4 * tj.cos(tj.tensor(2.0)).item()))
    True
    """
    if callable(policy_fn_or_list):
        policy: Callable[..., Any] = policy_fn_or_list
    else:
        kept: list[Any] = list(policy_fn_or_list)
        for op in kept:
            if not isinstance(op, Overload):
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}. Name one form "
                    "of the operator: `ops.aten.mm.default`, not `ops.aten.mm`."
                )

        def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            return CheckpointPolicy.MUST_SAVE if op in kept else CheckpointPolicy.PREFER_RECOMPUTE

    storage: dict[Any, list[Any]] = defaultdict(list)
    return _Caching(policy, storage), _Cached(policy, storage, allow_cache_entry_mutation)
