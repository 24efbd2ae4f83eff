"""Counting the multiplications and additions of products, convolutions and attention, layer by layer."""

from __future__ import annotations

import math
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from ..aten import ATEN, Packet
from ..nn.module import Module
from ..operators import CustomOpDef
from ..tensor import Tensor
from ._python_dispatch import TorchDispatchMode
from .module_tracker import ModuleTracker
from .trees import tree_map

__all__ = ["FlopCounterMode", "register_flop_formula"]

#: The formulas, by operators.
flop_registry: dict[Any, Callable[..., Any]] = {}
suffixes = ["", "K", "M", "B", "T"]


def get_shape(i: Any) -> Any:
    """The shape of a tensor; anything else as it is.

    >>> import tracejit as tj
    >>> get_shape(tj.ones(2, 3)), get_shape(4)
    (tracejit.Size([2, 3]), 4)
    """
    return i.shape if isinstance(i, Tensor) else i


def shape_wrapper(f: Callable[..., Any]) -> Callable[..., Any]:
    """A formula that is given shapes in the place of tensors.

    >>> import tracejit as tj
    >>> shape_wrapper(lambda x, out_shape=None: (x, out_shape))(tj.ones(2), out_val=tj.ones(3))
    (tracejit.Size([2]), tracejit.Size([3]))
    """

    @wraps(f)
    def shaped(*args: Any, out_val: Any = None, **kwargs: Any) -> Any:
        args, kwargs, out_shape = tree_map(get_shape, (args, kwargs, out_val))
        return f(*args, out_shape=out_shape, **kwargs)

    return shaped


def register_flop_formula(
    targets: Any, get_raw: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: this tells how many operations an operator, or each of several, takes.

    It is called with the operator's arguments, shapes in the place of tensors, and ``out_shape``; with ``get_raw``,
    with the arguments themselves and ``out_val``. Raises ``ValueError`` for what is no operator, ``RuntimeError`` for
    one that has a formula.

    >>> import tracejit as tj
    >>> @register_flop_formula(tj.ops.aten.cosh)
    ... def cosh_flop(shape, out_shape=None):
    ...     return 20 * shape.numel()
    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = tj.cosh(tj.ones(2, 3))
    >>> counter.get_total_flops(), flop_registry.pop(tj.ops.aten.cosh) is not None
    (120, True)
    """

    def register(formula: Callable[..., Any]) -> Callable[..., Any]:
        kept = formula if get_raw else shape_wrapper(formula)
        for target in targets if isinstance(targets, (list, tuple)) else (targets,):
            if not isinstance(target, (Packet, CustomOpDef)):
                raise ValueError(
                    "register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                    f"ops.mylib.foo), got {target} which is of type {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = kept
        return formula

    return register


@register_flop_formula(ATEN.mm)
def mm_flop(a_shape: Any, b_shape: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Those of a product of matrices.

    >>> mm_flop((2, 3), (3, 4))
    48
    """
    (m, k), (k2, n) = a_shape, b_shape
    assert k == k2
    count: int = m * n * 2 * k
    return count


@register_flop_formula(ATEN.addmm)
def addmm_flop(
    self_shape: Any, a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """Those of the product in ``addmm``.

    >>> addmm_flop((4,), (2, 3), (3, 4))
    48
    """
    count: int = mm_flop(a_shape, b_shape)
    return count


@register_flop_formula(ATEN.bmm)
def bmm_flop(a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Those of a batch of products.

    >>> bmm_flop((5, 2, 3), (5, 3, 4))
    240
    """
    (b, m, k), (b2, k2, n) = a_shape, b_shape
    assert (b, k) == (b2, k2)
    count: int = b * m * n * 2 * k
    return count


@register_flop_formula(ATEN.baddbmm)
def baddbmm_flop(
    self_shape: Any, a_shape: Any, b_shape: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """Those of the products in ``baddbmm``.

    >>> baddbmm_flop((5, 2, 4), (5, 2, 3), (5, 3, 4))
    240
    """
    count: int = bmm_flop(a_shape, b_shape)
    return count


def conv_flop_count(
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    out_shape: Sequence[int],
    transposed: bool = False,
) -> int:
    """Those of a convolution.

    >>> conv_flop_count([1, 3, 8, 8], [4, 3, 3, 3], [1, 4, 6, 6])
    7776
    """
    batch, outputs = x_shape[0], (x_shape if transposed else out_shape)[2:]
    c_out, c_in, *window = w_shape
    return math.prod(outputs) * math.prod(window) * batch * c_out * c_in * 2


@register_flop_formula(ATEN.convolution)
def conv_flop(
    x_shape: Any,
    w_shape: Any,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    """Those of a call of the operator.

    >>> conv_flop([1, 3, 8, 8], [4, 3, 3, 3], None, [1, 1], [0, 0], [1, 1], False, out_shape=[1, 4, 6, 6])
    7776
    """
    return conv_flop_count(x_shape, w_shape, out_shape, transposed=transposed)


@register_flop_formula(ATEN.convolution_backward)
def conv_backward_flop(
    grad_out_shape: Any,
    x_shape: Any,
    w_shape: Any,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    _output_padding: Any,
    _groups: int,
    output_mask: Sequence[bool],
    out_shape: Any,
    **kwargs: Any,
) -> int:
    """Those of the gradients of a convolution that are asked for.

    >>> given = [1, 4, 6, 6], [1, 3, 8, 8], [4, 3, 3, 3], [4], [1, 1], [0, 0], [1, 1], False, [0, 0], 1
    >>> conv_backward_flop(*given, [False, True, False], out_shape=(None, [4, 3, 3, 3], None))
    7776
    """

    def turned(shape: Sequence[int]) -> list[int]:
        return [shape[1], shape[0], *shape[2:]]

    count = 0
    if output_mask[0]:
        count += conv_flop_count(grad_out_shape, w_shape, out_shape[0], not transposed)
    if output_mask[1]:
        pair = (
            (turned(grad_out_shape), turned(x_shape))
            if transposed
            else (turned(x_shape), turned(grad_out_shape))
        )
        count += conv_flop_count(*pair, turned(out_shape[1]), transposed=False)
    return count


def sdpa_flop_count(query_shape: Any, key_shape: Any, value_shape: Any) -> int:
    """Those of attention: both products.

    >>> sdpa_flop_count((1, 2, 5, 4), (1, 2, 5, 4), (1, 2, 5, 4))
    800
    """
    b, h, s_q, d_q = query_shape
    s_k, d_v = key_shape[2], value_shape[3]
    first: int = bmm_flop((b * h, s_q, d_q), (b * h, d_q, s_k))
    second: int = bmm_flop((b * h, s_q, s_k), (b * h, s_k, d_v))
    return first + second


def sdpa_backward_flop_count(
    grad_out_shape: Any, query_shape: Any, key_shape: Any, value_shape: Any
) -> int:
    """Those of the gradients of attention, the scores being computed again.

    >>> sdpa_backward_flop_count(*[(1, 2, 5, 4)] * 4)
    2000
    """
    b, h, s_q, d_q = query_shape
    s_k, d_v = key_shape[2], value_shape[3]
    n = b * h
    count: int = bmm_flop((n, s_q, d_q), (n, d_q, s_k))
    count += bmm_flop((n, s_q, d_v), (n, d_v, s_k)) + bmm_flop((n, s_k, s_q), (n, s_q, d_v))
    count += bmm_flop((n, s_q, s_k), (n, s_k, d_q)) + bmm_flop((n, d_q, s_q), (n, s_q, s_k))
    return count


def get_suffix_str(number: int) -> str:
    """The suffix with which a number has few digits.

    >>> get_suffix_str(123), get_suffix_str(12_345_678)
    ('', 'M')
    """
    return suffixes[max(0, min(len(suffixes) - 1, (len(str(number)) - 2) // 3))]


def convert_num_with_suffix(number: int, suffix: str) -> str:
    """The number as text with a suffix.

    >>> convert_num_with_suffix(123456, "K")
    '123.456K'
    """
    return f"{number / 1000 ** suffixes.index(suffix):.3f}{suffix}"


def convert_to_percent_str(num: int, denom: int) -> str:
    """A part of a whole as text.

    >>> convert_to_percent_str(1, 3)
    '33.33%'
    """
    return f"{num / denom:.2%}" if denom else "0%"


_HEADER = ("Module", "FLOP", "% Total")


def _cell(number: int, suffix: str) -> str:
    """A number as tables have it: whole ones as they are."""
    return convert_num_with_suffix(number, suffix) if suffix else str(number)


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as text: the first column to the left, numbers to the right."""
    rows = [[cell.strip() for cell in row] for row in rows]
    widths = [max(len(head) + 2, *(len(row[i]) for row in rows)) for i, head in enumerate(_HEADER)]
    lines = [_HEADER, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


class FlopCounterMode(TorchDispatchMode):
    """A context that counts the operations of products, convolutions and attention, and in which layers they are.

    ``depth`` says how far down layers are shown, None: all; with ``display`` the table is printed at the end.
    ``custom_mapping`` has formulas for operators that are given their arguments and ``out_val``, or shapes where they
    come from :func:`register_flop_formula`.

    >>> import tracejit as tj
    >>> with FlopCounterMode(display=False) as counter:
    ...     _ = tj.nn.Linear(3, 4)(tj.ones(2, 3))
    >>> counter.get_total_flops()
    48
    >>> print(counter.get_table())
    Module          FLOP    % Total
    ------------  ------  ---------
    Linear            48    100.00%
    - aten.addmm      48    100.00%
    """

    def __init__(
        self,
        mods: Module | list[Module] | None = None,
        depth: int | None = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        super().__init__()
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        if mods is not None:
            warnings.warn(
                "mods argument is not needed anymore, you can stop passing it", stacklevel=2
            )
        given = {
            op: formula if getattr(formula, "_get_raw", False) else shape_wrapper(formula)
            for op, formula in (custom_mapping or {}).items()
        }
        self.flop_registry = {**flop_registry, **given}
        self.mod_tracker = ModuleTracker()

    def get_total_flops(self) -> int:
        """All that were counted."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Those of each layer, by operators; ``"Global"`` has all."""
        return {name: dict(found) for name, found in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """All of it as text."""
        depth = self.depth if depth is None else depth
        depth = 999999 if depth is None else depth
        total = self.get_total_flops()
        suffix = get_suffix_str(total)

        def rows_of(name: str) -> list[list[str]]:
            own = sum(self.flop_counts[name].values())
            pairs = [(name, own), *((f"- {op}", n) for op, n in self.flop_counts[name].items())]
            return [[text, _cell(n, suffix), convert_to_percent_str(n, total)] for text, n in pairs]

        rows: list[list[str]] = []
        subsumed = False
        for name in sorted(self.flop_counts):
            if name != "Global" and name.count(".") + 1 <= depth:
                subsumed = subsumed or sum(self.flop_counts[name].values()) >= total
                rows += rows_of(name)
        if "Global" in self.flop_counts and not subsumed:
            rows = rows_of("Global") + rows
        return _table(rows or [["Global", "0", "0%"]])

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *args: Any) -> None:
        super().__exit__(*args)
        self.mod_tracker.__exit__()
        if self.display:
            sys.stdout.write(f"{self.get_table(self.depth)}\n")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run it and count."""
        kwargs = kwargs or {}
        return self._count_flops(func.overloadpacket, func(*args, **kwargs), args, kwargs)

    def _count_flops(self, packet: Any, out: Any, args: Any, kwargs: Any) -> Any:
        """Count the operations of an operator; what it gave is returned."""
        formula = self.flop_registry.get(packet)
        if formula is not None:
            count = formula(*args, **kwargs, out_val=out)
            for name in set(self.mod_tracker.parents):
                self.flop_counts[name][packet] += count
        return out
