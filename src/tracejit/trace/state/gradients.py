"""Gradients as state: what a recording expects in the ``.grad`` of tensors, and that no hook listens to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...autograd.handle import REGISTERED
from ...layout import MemoryLayout, layout_of
from ...tensor import Tensor
from .checks import Bind, Check


def lies_like(gradient: Tensor | None, layout: MemoryLayout) -> bool:
    """Is this a plain gradient of the layout?"""
    if gradient is None or gradient._base is not None or gradient._requires_grad:
        return False
    return (gradient._layout or layout_of(gradient)) is layout and not gradient._inference


@dataclass(eq=False, slots=True)
class GradientSlot(Check):
    """The gradient of a tensor is still absent, or still a tensor of the same layout; ``holder`` is its owner."""

    layout: MemoryLayout | None
    same: (
        Tensor | None
    )  # where it must be this one, because the function also reads it by another name

    @classmethod
    def of(cls, owner: Tensor, before: Tensor | None, same: bool) -> GradientSlot:
        """The check for what was found in ``owner.grad``."""
        layout = None if before is None else layout_of(before)
        name = f"the gradient of a tensor of type {owner.spec}"
        return cls(owner, name, layout, before if same else None)

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        owner = bind(self.holder)
        if self.layout is None:
            return f"{owner}._grad is not None"
        if self.same is not None:
            return f"{owner}._grad is not {bind(self.same)}"
        return f"not {bind(lies_like)}({owner}._grad, {bind(self.layout)})"

    def difference(self) -> str | None:
        """What changed, or None."""
        now = self.holder._grad
        if self.layout is None:
            return None if now is None else f"{self.name} was None and is a tensor"
        if self.same is not None:
            return None if now is self.same else f"{self.name} was replaced"
        if lies_like(now, self.layout):
            return None
        return f"{self.name} was {self.layout} and is {_describe(now)}"


@dataclass(eq=False, slots=True)
class HasGradient(Check):
    """A tensor has a gradient, of whatever kind."""

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(self.holder)}._grad is None"

    def difference(self) -> str | None:
        """What changed, or None."""
        return f"{self.name} is gone" if self.holder._grad is None else None


def _describe(gradient: Tensor | None) -> str:
    return "None" if gradient is None else f"{layout_of(gradient)} or has a history"


@dataclass(eq=False, slots=True)
class NoHooks(Check):
    """No leaf that a backward pass inside reaches has a hook; looked at again when hooks were registered anywhere."""

    seen: list[int]
    leaves: tuple[Tensor, ...]

    @classmethod
    def of(cls, leaves: tuple[Tensor, ...]) -> NoHooks:
        """The check for these leaves."""
        return cls(REGISTERED, "the gradient hooks of a leaf", [REGISTERED[0]], leaves)

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        count, seen = bind(self.holder), bind(self.seen)
        return f"{count}[0] != {seen}[0] and {bind(self.difference)}() is not None"

    def difference(self) -> str | None:
        """What changed, or None."""
        count = self.holder[0]
        for leaf in self.leaves:
            if has_hooks(leaf):
                return f"a gradient hook was added to a leaf of type {leaf.spec}"
        self.seen[0] = count
        return None


@dataclass(eq=False, slots=True)
class HookedLeaf(Check):
    """A leaf still has the hook that kept a run from being recorded."""

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"not {bind(has_hooks)}({bind(self.holder)})"

    def difference(self) -> str | None:
        """What changed, or None."""
        return None if has_hooks(self.holder) else f"{self.name} are gone"


@dataclass(eq=False, slots=True)
class KnownHooks(Check):
    """A leaf has the hooks it had, whose code and state are looked at like any other that runs."""

    numbers: tuple[int, ...]

    def broken(self, bind: Bind) -> str:
        """The condition as source."""
        return f"{bind(leaf_hooks)}({bind(self.holder)}) != {bind(self.numbers)}"

    def difference(self) -> str | None:
        """What changed, or None."""
        return None if leaf_hooks(self.holder) == self.numbers else f"{self.name} are others"


def leaf_hooks(leaf: Tensor) -> tuple[int, ...]:
    """The numbers of the hooks on the gradient of a leaf, and of those on its arrival; no two hooks share one."""
    if not leaf._hooks and not leaf._post_accumulate_hooks:
        return ()
    return (*(leaf._hooks or ()), -1, *(leaf._post_accumulate_hooks or ()))


def has_hooks(leaf: Tensor) -> bool:
    """Would a backward pass that ends at ``leaf`` run a hook there?"""
    node: Any = None if leaf._accumulate is None else leaf._accumulate()
    return bool(leaf._hooks or leaf._post_accumulate_hooks or (node is not None and node.hooked))


@dataclass(frozen=True, slots=True)
class ArgumentGradient:
    """What a recording expects of an argument: no hooks, a ``leaf`` or none, what is in a ``.grad`` it ``read``."""

    read: bool
    layout: MemoryLayout | None
    leaf: bool = True

    def broken(self, names: dict[str, Any]) -> list[str]:
        """Python conditions under which ``t`` is not as expected; adds what they refer to to ``names``."""
        names |= {"registered": REGISTERED, "has_hooks": has_hooks, "lies_like": lies_like}
        end = "(t._grad_fn is None if t._base is None else not t._flows or t._grad_fn is None)"
        found = ["registered[0] and has_hooks(t)", f"{end} is not {self.leaf}"]
        if self.read and self.layout is None:
            found.append("t._grad is not None")
        elif self.read:
            name = f"layout{len(names)}"
            names[name] = self.layout
            found.append(f"not lies_like(t._grad, {name})")
        return found
