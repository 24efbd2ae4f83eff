"""Planning a recorded function for a GPU that is not here, so that its kernels are in the store when needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.cuda.kernels import Building, building
from .backward.backward import BoundBackward
from .tree.bound import Bound
from .tree.plan import Example, SymbolicTree, packs_of
from .tree.structure import structure_of

if TYPE_CHECKING:
    from .entry import Entry


def build_for_device(entry: Entry, architecture: str) -> Building:
    """The kernels of everything an entry recorded, forward and backward, compiled for an architecture.

    Gradients are planned for the order in memory they usually come in. Raises `UnsupportedArchitectureError` for an
    architecture that is not known, and the entry's own reason where nothing could be recorded.
    """
    if entry.failure is not None:
        raise ValueError(f"{entry.owner.name} runs eagerly: {entry.failure}")
    signature, before = entry.signature, entry.signature.device
    signature.device = 0
    try:
        with building(architecture) as made:
            _plan(entry)
    finally:
        signature.device = before
    return made


def _plan(entry: Entry) -> None:
    """Plan the tree, and for each path its backward pass; nothing is bound to a device."""
    wants = [entry.wants_gradient(s.value) for s in entry.signature.sources]
    found = structure_of(entry.root, entry.signature, entry.strides, wants)
    symbolic = SymbolicTree(entry.owner.name, entry.signature)
    plan = symbolic.plan(entry.root, entry.strides, found, entry.wants_gradient)
    names = dict(zip(plan.values, found.values, strict=True))
    sizes = Example(plan, found)
    packs = packs_of(plan.root)
    for leaf in plan.leaves:
        if leaf.backward:
            bound = Bound(plan.scope, sizes.at(leaf, None), names, plan.lock)
            BoundBackward(leaf.backward, bound, packs[leaf]).prepare()
