"""Is what a GPU computes what the host computes? Every op, whole programs forward and backward, and training.

Each check is a function without arguments that raises `AssertionError`, with a name; tests and the report run the same.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np

import tracejit

from .. import dtypes
from ..cuda.arrays import namespace
from ..ops.functions import attention as attention_function
from ..ops.table import Elementwise, Op, all_ops
from . import samples
from .workloads import WORKLOADS, Workload

tj: Any = tracejit
Check = Callable[[], None]

#: Relative to the size of a result as a whole: libraries round elementary functions in their own way.
CLOSE = {"float64": 1e-9, "float32": 3e-4, "float16": 1e-2, "bfloat16": 4e-2}
CLOSE |= {"complex128": CLOSE["float64"], "complex64": CLOSE["float32"]}
#: Decompositions whose vectors may be turned round, in any order: magnitudes are compared, each row's in order.
_TURNED = ("complement", "eigen_general", "eigen_symmetric", "qr_packed", "svd_packed")
#: Kinds of ops that read no tensor of a device.
_OF_NO_TENSOR = ("source", "randomsource")
_DTYPES = (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16)


def checks() -> Iterator[tuple[str, Check]]:
    """Every check with its name, those that tell most first: CuPy compiles a kernel for each op and dtype.

    >>> "op add float32" in dict(checks())
    True
    """
    yield "memory", memory
    yield "interop", interop
    yield "random numbers", random_numbers
    yield "refused indices", refused_indices
    yield "attention", attention
    yield "convolutions", convolutions
    yield "loops", loops
    yield "open loops", open_loops
    yield "along rows", along_rows
    for workload in WORKLOADS:
        yield f"program {workload.name}", partial(one_program, workload)
    yield "threads", threads
    yield "graphs", graphs
    yield "sizes", sizes
    yield "training", training
    if importlib.util.find_spec("torch") is not None:
        yield "interop with PyTorch", interop_with_torch
    for dtype in _DTYPES:
        for op in all_ops():
            if op.name != "to_device":
                yield f"op {op.name} {dtype.name}", partial(one_op, op, dtype)


def close(found: Any, expected: Any, what: str) -> None:
    """`AssertionError` unless two tensors hold the same numbers, up to rounding.

    >>> import tracejit as tj
    >>> close(tj.ones(2), tj.ones(2), "ones")
    """
    assert found.spec == expected.spec, f"{what}: {found.spec}, expected {expected.spec}"
    kind = dtypes.complex128 if found.dtype.is_complex else dtypes.float64
    a, b = (t.detach().cpu().to(kind).numpy() for t in (found, expected))
    limit = CLOSE.get(found.dtype.name, 0.0)
    finite = b[np.isfinite(b)]
    size = float(np.sqrt(np.mean(np.square(abs(finite))))) if finite.size else 0.0
    with np.errstate(invalid="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (abs(a - b) <= limit * (abs(b) + size))
    if not same.all():
        index = tuple(int(i) for i in np.argwhere(~same)[0])
        raise AssertionError(f"{what} at {list(index)}: {a[index]}, expected {b[index]}")


def poison(nbytes: int = 1 << 24) -> None:
    """Fill memory that programs will be given with numbers that show when they are not overwritten."""
    for _ in range(2):
        tj.full((nbytes // 4,), float("nan"), device="cuda")


def one_op(op: Op, dtype: dtypes.DType) -> None:
    """An op eagerly on samples of a dtype, and compiled on those that choose other kernels."""
    for number, case in enumerate(samples.cases(op, dtype)):
        expected = tj.from_numpy(np.array(op.evaluate(case.operands, case.attributes)))
        moved = [_moved(x) for x in case.operands]
        what = f"{op.name} {case.label} {dtype.name}"
        _same(op, op(*moved, **case.attributes), expected, what)
        if number and not (isinstance(op, Elementwise) and case.label.startswith("((37")):
            continue
        if not op.dynamic and op.kind not in _OF_NO_TENSOR:
            function = tj.compile(lambda *xs, a=case.attributes: op(*xs, **a))
            for _ in range(2):
                found = function(*moved)
            _same(op, found, expected, f"compiled {what}")
            assert function.stats.compiled_calls == 1, str(function.explain())


def _same(op: Op, found: Any, expected: Any, what: str) -> None:
    if op.name in _TURNED:
        found, expected = (x.abs().sort(-1)[0] for x in (found, expected))
    close(found, expected, what)


def _moved(x: Any) -> Any:
    return tj.from_numpy(x.copy()).cuda() if isinstance(x, np.ndarray) else x


def _results(function: Any, arguments: Sequence[Any]) -> list[Any]:
    result = function(*arguments)
    leaves = [x for x in arguments if x.requires_grad]
    if leaves:
        result.sum().backward()
    return [result, *(x.grad for x in leaves)]


def one_program(workload: Workload, size: int | None = None) -> None:
    """A program of the benchmarks, compiled on the device, against eager code on the host."""
    function, arguments = workload.make(tj, workload.quick if size is None else size)
    expected = _results(function, arguments)
    compiled = tj.compile(function)
    for _ in range(3):
        poison(1 << 20)
        there = [x.detach().cuda().requires_grad_(x.requires_grad) for x in arguments]
        found = _results(compiled, there)
    assert compiled.stats.compiled_calls == 2, str(compiled.explain())
    for number, (a, b) in enumerate(zip(found, expected, strict=True)):
        close(a, b, f"{workload.name} {number}")


def sizes() -> None:
    """Rows of every length around the borders between kernels, aligned and not."""
    compiled = tj.compile(lambda x: (x.softmax(-1) * x).sum(-1) + x.amax(-1))
    for columns in (1, 3, 31, 32, 33, 127, 128, 1000, 1024, 1025, 4096, 5001):
        x = tj.randn(7, columns + 1)[:, 1:]
        expected = (x.softmax(-1) * x).sum(-1) + x.amax(-1)
        for given in (x.cuda(), x.contiguous().cuda()):
            for _ in range(2):
                close(compiled(given), expected, f"rows of {columns}")


def random_numbers() -> None:
    """Draws on a device are those of the host, bit for bit."""
    function = tj.compile(lambda x: tj.nn.functional.dropout(x, 0.3) + tj.rand_like(x))
    found = {}
    for device in ("cpu", "cuda"):
        tj.manual_seed(11)
        x = tj.ones(1000, device=device)
        found[device] = [function(x).tolist() for _ in range(3)]
    assert found["cpu"] == found["cuda"], "draws differ"


def attention() -> None:
    """Attention in tiles and as products, forward and backward, around the borders of tiles."""
    eager = tj.nn.functional.scaled_dot_product_attention
    for ways in (always_in_tiles, nullcontext):
        function = tj.compile(eager)
        for shape in ((2, 33, 16), (1, 3, 70, 64), (1, 65, 128)):
            given = [tj.randn(*shape).requires_grad_() for _ in range(3)]
            for options in ({}, {"is_causal": True}, {"dropout_p": 0.3}):
                with ways():
                    agree(eager, function, given, f"attention of {shape}", **options)


@contextmanager
def always_in_tiles() -> Iterator[None]:
    """Within the block, no attention on a device is small enough for products.

    >>> with always_in_tiles():
    ...     pass
    """
    before = attention_function.FEW_SCORES
    attention_function.FEW_SCORES = 0
    try:
        yield
    finally:
        attention_function.FEW_SCORES = before


def convolutions() -> None:
    """Convolutions of every kind, forward and backward, around the borders of squares."""
    shapes = (
        ((2, 3, 9, 11), (5, 3, 3, 3), {"padding": 1}),
        ((3, 70, 8, 9), (65, 70, 3, 2), {"stride": 2, "dilation": (1, 2)}),
        ((9, 16, 12, 12), (24, 8, 3, 3), {"padding": 1, "groups": 2}),
        ((4, 6, 30, 20), (6, 1, 5, 5), {"padding": 2, "groups": 6}),
    )
    eager = tj.nn.functional.conv2d
    for shape, kernel, options in shapes:
        given = [tj.randn(*sizes).requires_grad_() for sizes in (shape, kernel)]
        agree(eager, tj.compile(eager), given, f"convolution of {shape} by {kernel}", **options)


def agree(eager: Any, compiled: Any, given: Sequence[Any], what: str, **options: Any) -> None:
    """Calls of a compiled function on a device, and its gradients, are those of eager execution on the host.

    >>> import tracejit as tj
    >>> if tj.cuda.is_available():
    ...     agree(tj.exp, tj.compile(tj.exp), [tj.randn(3).requires_grad_()], "exp")
    """
    expected = _gradients(eager, given, options)
    for _ in range(2):
        there = [x.detach().cuda().requires_grad_() for x in given]
        found = _gradients(compiled, there, options)
        for a, b in zip(found, expected, strict=True):
            close(a, b, what)


def _gradients(function: Any, given: Sequence[Any], options: Any) -> list[Any]:
    tj.manual_seed(5)
    result = function(*given, **options)
    return [result, *tj.autograd.grad(result.square().sum(), list(given))]


def loops() -> None:
    """A loop of many rounds is queued by native code, and computes what the rounds do."""

    def rounds(x: Any, w: Any) -> Any:
        for _ in range(40):
            x = (x @ w).tanh() + x * 0.5
        return x

    function = tj.compile(rounds)
    x, w = tj.randn(5, 8), tj.randn(8, 8) * 0.1
    for _ in range(3):
        close(function(x.cuda(), w.cuda()), rounds(x, w), "a loop")


def open_loops() -> None:
    """A loop that its data end has as many rounds as on the host, without a recording for each number of them."""

    def function(x: Any) -> Any:
        while (x * x).sum() > 1:
            x = x * 0.5 + 1e-3
        return x

    compiled = tj.compile(function)
    for size in (3.0, 3.0, 700.0, 0.1, 50.0, 2e4):
        x = tj.linspace(0.1, 1, 1000) * size
        close(compiled(x.cuda()), function(x), f"a loop from {size} on")
    assert compiled.stats.compiled_calls >= 3, str(compiled.explain())


def along_rows() -> None:
    """Positions of extremes and running results, along memory and across it, of rows that are cut into parts too."""

    def along(x: Any, dim: int) -> Any:
        return x.argmax(dim), x.cumsum(dim), x.cumprod(dim), x.cummax(dim)[1]

    compiled = tj.compile(along)
    for *shape, dim in ((5, 7, 0), (5, 7, 1), (2, 2100, 1), (2050, 16, 0)):
        x = 2.0 ** tj.randint(-1, 2, tuple(shape))  # of which sums and products are exact
        for _ in range(2):
            found = compiled(x.cuda(), dim)
        for number, (a, b) in enumerate(zip(found, along(x, dim), strict=True)):
            close(a, b, f"result {number} of {shape} along {dim}")


def threads() -> None:
    """Programs and draws in a thread that never used the GPU before."""
    function = tj.compile(lambda x: (x * 2).exp() - tj.rand_like(x))
    x = tj.ones(1000, device="cuda")
    function(x)  # recorded here: what follows is the program
    results = []
    for run in (_here, _in_a_thread):
        tj.manual_seed(3)
        results.append(run(lambda: [function(x).tolist() for _ in range(3)]))
    assert results[0] == results[1], "another thread computes something else"


def _here(function: Callable[[], Any]) -> Any:
    return function()


def _in_a_thread(function: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def graphs() -> None:
    """Programs that run as CUDA graphs, with inputs that move and without."""

    def function(x: Any) -> Any:
        for _ in range(4):
            x = (x - x.sum()).tanh()
        return x

    compiled = tj.compile(function, mode="reduce-overhead")
    kept = []
    for k in range(12):
        x = tj.full((300,), 0.01 * k)
        kept.append((compiled(x.cuda()), function(x)))
    for number, (found, expected) in enumerate(kept):
        close(found, expected, f"call {number}")


def refused_indices() -> None:
    """An index out of range is an error, eager and compiled, and nothing is broken afterwards."""
    function = tj.compile(lambda x, y: tj.nn.functional.cross_entropy(x * 2, y))
    x = tj.randn(4, 5).cuda()
    for target in (1, 2, 9, 3):
        y = tj.full((4,), target).cuda()
        if target < 5:
            close(function(x, y), tj.nn.functional.cross_entropy(x.cpu() * 2, y.cpu()), "loss")
            continue
        try:
            function(x, y)
        except IndexError:
            continue
        raise AssertionError("an index out of range was accepted")


def memory() -> None:
    """What is freed is given back, and counted."""
    tj.cuda.synchronize()
    before = tj.cuda.memory_allocated()
    x = tj.zeros(1 << 20, device="cuda")
    assert tj.cuda.memory_allocated() >= before + (1 << 22)
    del x
    assert tj.cuda.memory_allocated() <= before, "memory is not given back"
    assert tj.cuda.max_memory_allocated() >= before + (1 << 22)


def interop() -> None:
    """CuPy reads and writes the memory of tensors."""
    x = tj.arange(6.0, device="cuda")
    array = namespace().asarray(x)
    array += 1
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    assert tj.from_dlpack(x).data_ptr() == tj.as_tensor(array).data_ptr() == x.data_ptr()


def interop_with_torch() -> None:
    """PyTorch, where it can use the GPU, reads and writes the memory of tensors, and the other way round."""
    try:
        torch = importlib.import_module("torch")
    except (ImportError, OSError):  # one that does not start says so among the versions
        return
    if not torch.cuda.is_available():
        return
    x = tj.arange(4.0, device="cuda") * 2
    theirs = torch.from_dlpack(x)
    theirs += 1
    torch.cuda.synchronize()
    assert theirs.data_ptr() == torch.as_tensor(x, device="cuda").data_ptr() == x.data_ptr()
    assert x.tolist() == [1.0, 3.0, 5.0, 7.0]
    for given in (torch.arange(3.0, device="cuda") + 1, torch.ones(3, device="cuda").bfloat16()):
        ours = tj.from_dlpack(given)
        ours *= 2
        tj.cuda.synchronize()
        assert ours.data_ptr() == given.data_ptr()
        assert ours.tolist() == given.tolist()


def training() -> None:
    """A few whole compiled training steps follow those of the host."""
    losses = {}
    for device in ("cpu", "cuda"):
        tj.manual_seed(0)
        model = tj.nn.Sequential(tj.nn.Linear(64, 32), tj.nn.GELU(), tj.nn.Linear(32, 10)).to(
            device
        )
        optimizer = tj.optim.AdamW(model.parameters(), lr=0.01)
        x, y = tj.randn(50, 64).to(device), tj.randint(0, 10, (50,)).to(device)

        def step(x: Any, y: Any, model: Any = model, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            loss = tj.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        compiled = tj.compile(step)
        losses[device] = [compiled(x, y).item() for _ in range(8)]
    np.testing.assert_allclose(losses["cuda"], losses["cpu"], rtol=1e-3)
