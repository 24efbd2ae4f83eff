"""A backward pass that starts at one number and ends in leaves: one native call, and the gradients are put down.

Most backward passes of compiled code are of this kind: the loss is a number, and all that it was made from are
parameters without hooks whose gradients were cleared. What can be known beforehand is noted once per path; what cannot
is checked before anything runs, and where a check fails the general walk does it all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from ...autograd.accumulation import accumulate
from ...autograd.entry import shared_ones
from ...autograd.handle import REGISTERED
from ...autograd.late import End
from ...autograd.node import AccumulateGrad
from ...autograd.op_node import Steps
from ...layout import MemoryLayout, layout_of
from ...modes import MODES
from ...runtime.callbacks import KernelFailure
from ...tensor import Tensor
from ...tensor_core import REPLACED
from ..state.gradients import has_hooks

if TYPE_CHECKING:
    from .node import CompiledBackward
    from .site import Site

__all__ = ["MOST_PASSES", "LeafPass", "leaf_pass", "run_for_leaves", "run_into_leaves"]

Leaves = Sequence[Tensor]
#: So many kinds of steps between compiled code and the numbers that passes begin with are remembered per path.
MOST_PASSES = 16
#: Of how many numbers the gradient may consist that they hand down.
MOST_KEPT = 64


@dataclass(slots=True, eq=False)
class LeafPass:
    """What passes of one path have in common.

    ``run`` takes the saved values at ``reads``, the seed being the last of them, and the pack. ``leaves`` are what
    ``ends`` lead to, where these are the same at every call.
    """

    run: Any
    reads: tuple[int, ...]
    packed: bool
    seed: Tensor
    layouts: tuple[MemoryLayout, ...]
    ends: tuple[End, ...]
    leaves: Leaves | None


def leaf_pass(site: Site, steps: Steps | None = None) -> LeafPass | None:
    """The pass from a number for a path, None where there is none or its program was not made yet.

    The number is what the path made, or what ``steps`` made of its result.

    >>> f = tj.compile(lambda x: (x * x).sum())
    >>> x = tj.ones(2, requires_grad=True)
    >>> losses = [f(x) for _ in range(3)]
    >>> leaf_pass(losses[1].grad_fn.site) is None
    True
    >>> losses[1].backward()
    >>> len(leaf_pass(losses[1].grad_fn.site).layouts)
    1
    """
    if len(site.types) != 1 or site.seeds != (0,) or site.backward.plan.device >= 0:
        return None
    seed = _seed(site, steps)
    if seed is None:
        return None
    program = site.programs.get((layout_of(seed),))
    quick = getattr(program, "quick", None)
    if program is None or quick is None or program.copied or program.present:
        return None
    layouts = tuple([layout for _, layout, _ in program.results.kinds])
    return LeafPass(
        quick, program.reads, program.packed, seed, layouts, site.edges, _leaves(site.edges)
    )


def _seed(site: Site, steps: Steps | None) -> Tensor | None:
    """The gradient of the path's result where a pass begins with one."""
    if steps is None:
        kind = site.types[0]
        return None if kind.shape else shared_ones(kind.dtype)
    if steps.key not in site.handed:
        if len(site.handed) >= MOST_PASSES:
            return None
        made = steps.gradient(shared_ones(steps.nodes[0].out_type.dtype))
        site.handed[steps.key] = made if made is not None and _lies_close(made) else None
    return site.handed[steps.key]


def _lies_close(gradient: Tensor) -> bool:
    """Are so few numbers stored that they may be kept for good? Sums and means hand down one."""
    layout = layout_of(gradient)
    pairs = zip(layout.spec.shape, layout.strides, strict=True)
    return prod(extent for extent, stride in pairs if stride) <= MOST_KEPT


def run_into_leaves(node: CompiledBackward, found: LeafPass) -> bool:
    """Run the pass of ``node`` and leave the gradients in its leaves; False when nothing was done.

    >>> f = tj.compile(lambda x: (x * x).sum())
    >>> x = tj.ones(2, requires_grad=True)
    >>> losses = [f(x) for _ in range(3)]
    >>> losses[1].backward()
    >>> node = losses[2].grad_fn
    >>> run_into_leaves(node, leaf_pass(node.site)), x.grad
    (True, tensor([4., 4.]))
    """
    leaves = _ends(node, found)
    if leaves is None:
        return False
    gradients = _run(node, found)
    if gradients is None:
        return False
    node.passed = None
    node.release()
    layouts = found.layouts
    for i, leaf in enumerate(leaves):
        plain = leaf._grad is None and leaf._layout is layouts[i]
        if plain and leaf._requires_grad and leaf._grad_fn is None:
            leaf._grad = gradients[i]
        else:
            accumulate(leaf, gradients[i])
    return True


def run_for_leaves(
    node: CompiledBackward, found: LeafPass, wanted: Sequence[Tensor], keep: bool
) -> list[Tensor] | None:
    """The gradients of ``wanted``, which are leaves of ``node``; None when nothing was done.

    ``keep`` keeps what the node saved.

    >>> f = tj.compile(lambda x: (x * x).sum())
    >>> x = tj.ones(2, requires_grad=True)
    >>> losses = [f(x) for _ in range(3)]
    >>> losses[1].backward()
    >>> node = losses[2].grad_fn
    >>> run_for_leaves(node, leaf_pass(node.site), [x], False), run_for_leaves(node, leaf_pass(node.site), [x], False)
    ([tensor([2., 2.])], None)
    """
    leaves = _ends(node, found)
    places = {id(leaf): i for i, leaf in enumerate(leaves or ())}
    if leaves is None or not wanted:
        return None
    for x in wanted:
        if id(x) not in places or not x._requires_grad or x._grad_fn is not None:
            return None
    gradients = _run(node, found)
    if gradients is None:
        return None
    if not keep:
        asked = {id(x) for x in wanted}
        node.release_part((found.seed,), [id(leaf) in asked for leaf in leaves])
    return [gradients[places[id(x)]] for x in wanted]


def _ends(node: CompiledBackward, found: LeafPass) -> Leaves | None:
    """The leaves in which a pass of ``node`` ends, None where it has to be a walk."""
    modes = MODES
    if node.gone or node.inputs is None or node.hooked or modes.recorder is not None:
        return None
    if modes.anomaly is not None or REPLACED[0] != node.made_at:
        return None
    for version, expected in node.versions:
        if version.value != expected:
            return None
    ends = node.ends
    leaves = found.leaves if ends is found.ends else _leaves(ends)
    return None if REGISTERED[0] and any(map(has_hooks, leaves or ())) else leaves


def _run(node: CompiledBackward, found: LeafPass) -> list[Tensor] | None:
    """The gradients of all leaves; None where the program cannot serve the pass."""
    values = [*node.saved, found.seed]
    arguments = [values[i] for i in found.reads]
    if found.packed:
        arguments.append(node.pack)
    try:
        gradients: list[Tensor] = found.run(*arguments)
    except KernelFailure:
        node.site.passes.clear()
        return None
    return gradients


def _leaves(ends: tuple[End, ...]) -> Leaves | None:
    """The leaves that gradients go to, if all go to leaves, to each once."""
    leaves: list[Tensor] = []
    for end in ends:
        if type(end) is not tuple:
            if end is None:
                return None
            leaves.append(end)
        elif type(end[0]) is AccumulateGrad:
            leaves.append(end[0].variable)
        else:
            return None
    different = len(leaves) == 1 or len(set(map(id, leaves))) == len(leaves)
    return leaves if different else None
