"""Comparing compiled with eager calls: several op calls bundled in one function, and results compared closely."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ops.table import Elementwise
from tracejit.runtime.launcher import Loop
from tracejit.runtime.plan.plan import HostCall
from tracejit.runtime.program import Program
from tracejit.runtime.threads import get_num_threads, set_num_threads
from tracejit.testing.samples import Case

#: Relative error allowed where an op calls a transcendental function or sums in another order.
CLOSE = {"f64": 1e-12, "f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2, "c128": 1e-12, "c64": 1e-5}
#: Elementwise ops whose kernels use the operations of eager exactly: results are equal bit for bit.
EXACT_CALLS = {
    "select",
    "convert",
    "maximum",
    "minimum",
    "clamp",
    "abs",
    "isnan",
    "isinf",
    "isfinite",
    "sign",
    "signbit",
}


def bundle(cases: Sequence[Case]) -> Callable[..., Any]:
    """One function of all tensor operands of ``cases``, returning a tuple of their results."""
    space: dict[str, Any] = {}
    names, lines, count = [], [], 0
    for number, case in enumerate(cases):
        arguments = []
        for operand in case.operands:
            if isinstance(operand, np.ndarray):
                arguments.append(f"t{count}")
                count += 1
            else:
                space[f"n{number}"] = operand
                arguments.append(f"n{number}")
        attributes = []
        for name, value in case.attributes.items():
            space[f"{name}_{number}"] = value
            attributes.append(f"{name}={name}_{number}")
        space[f"op_{number}"] = case.op
        lines.append(f"    r{number} = op_{number}({', '.join([*arguments, *attributes])})")
        names.append(f"r{number}")
    header = f"def bundle({', '.join(f't{i}' for i in range(count))}):"
    text = "\n".join([header, *lines, f"    return ({', '.join(names)},)"]) + "\n"
    exec(compile(text, "<bundle>", "exec"), space)
    return space["bundle"]


def operands(
    cases: Sequence[Case], lay: Callable[[Any], Any] = np.copy, grads: bool = False
) -> list[Any]:
    """Fresh tensors for a bundle, their arrays laid out by ``lay``."""
    found = []
    for case in cases:
        for position, operand in enumerate(case.operands):
            if isinstance(operand, np.ndarray):
                tensor = tj.Tensor._wrap(lay(operand))
                found.append(tensor.requires_grad_(grads and position in case.differentiable))
    return found


def backward(results: Sequence[Any], seed: int = 0) -> None:
    """Go backward from every result with fixed random weights."""
    rng = np.random.default_rng(seed)
    parts = []
    for tensor in results:
        weight = tj.from_numpy(np.asarray(rng.standard_normal(tuple(tensor.shape)))).to(tj.float64)
        if tensor.requires_grad:
            parts.append((tensor.to(tj.float64) * weight).sum())
    if parts:
        tj.stack(parts).sum().backward()


def is_exact(case: Case) -> bool:
    """Does the kernel of this op do exactly what its eager body does?"""
    import ast

    if not isinstance(case.op, Elementwise):
        return False
    tree = ast.parse(case.op.scalar or "f()", mode="eval")
    called = {
        n.func.id
        for n in ast.walk(tree)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    }
    return called <= EXACT_CALLS


def assert_same(eager: Any, compiled: Any, label: str, tolerance: float) -> None:
    """Type, strides, requires_grad, and values: NaN where NaN, the same zeros' signs, close elsewhere."""
    assert compiled.spec == eager.spec, label
    assert compiled.requires_grad == eager.requires_grad, label
    assert strides(compiled) == strides(eager), label
    assert_close(eager.detach().numpy(), compiled.detach().numpy(), label, tolerance)


def strides(tensor: Any) -> list[int]:
    """Strides of the dimensions in which there is somewhere to go."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [step for extent, step in pairs if extent > 1] if tensor.numel() else []


def assert_close(eager: Any, compiled: Any, label: str, tolerance: float) -> None:
    """Values only."""
    if eager.dtype.kind in "biu":
        np.testing.assert_array_equal(compiled, eager, err_msg=label)
        return
    if eager.dtype.kind == "c":
        eager, compiled = (np.stack((x.real, x.imag)) for x in (eager, compiled))
    a, b = np.asarray(eager, np.float64), np.asarray(compiled, np.float64)
    finite = np.abs(a[np.isfinite(a)])
    scale = tolerance * min(float(np.median(finite)) if finite.size else 0.0, 1.0)
    np.testing.assert_allclose(b, a, rtol=tolerance, atol=scale, err_msg=label)
    zeros = (a == 0) & (b == 0)
    assert np.array_equal(np.signbit(a[zeros]), np.signbit(b[zeros])), f"{label}: sign of zero"


def served(function: Any, *args: Any, **kwargs: Any) -> int:
    """How many of one call native code serves."""
    before = int(function.stats.served[0])
    function(*args, **kwargs)
    return int(function.stats.served[0]) - before


def ready(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The function compiled, with a route for these arguments."""
    found = tj.compile(function)
    for _ in range(3):
        found(*args, **kwargs)
    assert served(found, *args, **kwargs) == 1
    return found


def positions_among_rows(
    size: int = 7, rows: int = 11, width: int = 5, seed: int = 0
) -> list[tj.Tensor]:
    """A matrix, positions among its rows with repetitions, and as many rows as there are positions."""
    rng = np.random.default_rng(seed)
    table, new = rng.standard_normal((rows, width)), rng.standard_normal((size, width))
    positions = rng.integers(0, rows, size)
    return [
        tj.from_numpy(table.astype(np.float32)).requires_grad_(),
        tj.from_numpy(positions),
        tj.from_numpy(new.astype(np.float32)).requires_grad_(),
    ]


def with_gradients(function: Callable[..., Any], values: Sequence[tj.Tensor]) -> list[np.ndarray]:
    """What a function of tensors returns, and the gradients of a weighted sum of it."""
    result = function(*values)
    found = [result.detach().numpy()]
    if result.requires_grad:
        (result * tj.arange(result.numel()).reshape(result.shape).cos()).sum().backward()
        found += [v.grad.numpy() for v in values if v.grad is not None]
    return found


def assert_same_error(
    function: Callable[..., Any], x: tj.Tensor, good: tj.Tensor, wrong: tj.Tensor
) -> None:
    """``wrong`` positions are the eager error in compiled code, which computes with ``good`` ones before and after."""
    compiled = tj.compile(function, strict=True)
    for _ in range(2):
        compiled(x, good)
    with pytest.raises(IndexError) as eager:
        function(x, wrong)
    with pytest.raises(IndexError) as found:
        compiled(x, wrong)
    assert str(found.value).splitlines()[0] == str(eager.value).splitlines()[0]
    np.testing.assert_array_equal(compiled(x, good).numpy(), function(x, good).numpy())


@contextmanager
def pool_of(threads: int) -> Iterator[None]:
    """So many threads inside, and as many as before afterwards."""
    before = get_num_threads()
    set_num_threads(threads)
    try:
        yield
    finally:
        set_num_threads(before)


def host_ops(compiled: Any) -> set[str]:
    """Ops that the programs of a compiled function run as NumPy code."""
    found = programs(compiled)
    assert found
    return {i.op.name for p in found for i in p.plan.items if isinstance(i, HostCall)}


def programs(compiled: Any) -> list[Program]:
    """The programs of all that a compiled function has recorded."""
    return [program for entry in compiled._all() for program in entry.programs()]


def loops(compiled: Any) -> list[list[Loop]]:
    """The native loops of each program."""
    return [[i for i in p.plan.items if isinstance(i, Loop)] for p in programs(compiled)]
