"""How fast a GPU is: bandwidth of kernels against a copy, the cost of a call, programs against other frameworks."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import tracejit

from ..cuda.arrays import namespace
from .gpu_checks import always_in_tiles
from .gpu_jax import program
from .workloads import WORKLOADS, Workload, runner

tj: Any = tracejit
Row = dict[str, Any]
Unit = tuple[str, Callable[[], Iterable[Row]]]
#: The variable of the environment that names the file by which processes take turns.
TURN = "GPU_REPORT_TURN"


def milliseconds(
    run: Callable[[], Any], synchronize: Callable[[], Any], seconds: float = 0.5
) -> float:
    """The median time of a call, as many at a time as take a few milliseconds.

    >>> milliseconds(lambda: None, lambda: None, 0.01) < 1.0
    True
    """
    for _ in range(3):
        run()
    synchronize()
    with alone():
        return _milliseconds(run, synchronize, seconds)


@contextmanager
def alone() -> Iterator[None]:
    """Within the block, no other process of the report measures: they share a lock, the file that `TURN` names.

    >>> with alone():
    ...     pass
    """
    path = os.environ.get(TURN)
    if not path:
        yield
        return
    import fcntl

    with Path(path).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _milliseconds(run: Callable[[], Any], synchronize: Callable[[], Any], seconds: float) -> float:
    batch, taken = 1, 0.0
    while taken < 0.002 and batch < 1 << 14:
        start = time.perf_counter()
        for _ in range(batch):
            run()
        synchronize()
        taken = time.perf_counter() - start
        batch *= 2
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        for _ in range(batch):
            run()
        synchronize()
        times.append((time.perf_counter() - start) / batch)
    return 1e3 * statistics.median(times)


def bandwidth(count: int, seconds: float = 0.4) -> Iterator[Unit]:
    """Gigabytes per second of a plain copy, and of kernels that read and write as much.

    >>> [name for name, _ in bandwidth(1 << 20)]
    ['copy', 'pointwise', 'gelu', 'sum', 'softmax rows', 'column sums', 'argmax rows', 'running sums']
    """
    rows = (-1, 1024)
    programs: list[tuple[str, Any, int, tuple[int, ...]]] = [
        ("pointwise", lambda t: (t * 2 + 1).relu(), 8, (-1,)),
        ("gelu", lambda t: tj.nn.functional.gelu(t), 8, (-1,)),
        ("sum", lambda t: t.sum(), 4, (-1,)),
        ("softmax rows", lambda t: t.softmax(-1), 8, rows),
        ("column sums", lambda t: t.sum(0), 4, rows),
        ("argmax rows", lambda t: t.argmax(-1), 4, rows),
        ("running sums", lambda t: t.cumsum(-1), 8, rows),
    ]
    yield "copy", lambda: [_bandwidth_row("copy", count, *[_copy_speed(count, seconds)] * 2)]
    for name, function, moved, shape in programs:
        yield name, partial(_kernel_speed, name, function, moved, shape, count, seconds)


@cache
def _copy_speed(count: int, seconds: float) -> float:
    """Gigabytes per second of a copy."""
    module = namespace()
    x = tj.rand(count, device="cuda")
    target = module.empty_like(x.array)
    copy = milliseconds(lambda: module.copyto(target, x.array), tj.cuda.synchronize, seconds)
    return 8 * count / copy / 1e6


def _kernel_speed(
    name: str, function: Any, moved: int, shape: tuple[int, ...], count: int, seconds: float
) -> Iterator[Row]:
    compiled, given = tj.compile(function), tj.rand(count, device="cuda").reshape(shape)
    taken = milliseconds(partial(compiled, given), tj.cuda.synchronize, seconds)
    yield _bandwidth_row(name, count, moved * count / taken / 1e6, _copy_speed(count, seconds))


def _bandwidth_row(name: str, count: int, found: float, copy: float) -> Row:
    share = round(found / copy, 3)
    return {"what": name, "elements": count, "GB/s": round(found, 1), "of copy": share}


def launch_cost(depths: tuple[int, ...], seconds: float = 0.2) -> Iterator[Unit]:
    """What a call costs the host when the device has next to nothing to do.

    >>> [name for name, _ in launch_cost((1, 5))]
    ['eager', '1 sums', '5 sums']
    """
    yield "eager", partial(_eager_cost, seconds)
    for depth in depths:
        yield f"{depth} sums", partial(_compiled_cost, depth, seconds)


def _eager_cost(seconds: float) -> Iterator[Row]:
    x = tj.rand(64, device="cuda")
    taken = milliseconds(lambda: x * 2 + 1, tj.cuda.synchronize, seconds)
    yield {"what": "eager, two ops", "us per call": round(1e3 * taken, 2)}


def _compiled_cost(depth: int, seconds: float) -> Iterator[Row]:
    """With the default mode, and as a CUDA graph."""

    def chain(t: Any) -> Any:
        for _ in range(depth):
            t = (t - t.sum()).exp()  # a sum in between: a kernel of its own
        return t

    x = tj.rand(64, device="cuda")
    for mode in ("default", "reduce-overhead"):
        compiled = tj.compile(chain, mode=mode)
        for _ in range(6):
            compiled(x)
        taken = milliseconds(partial(compiled, x), tj.cuda.synchronize, seconds)
        launches = sum(p.plan.launches for e in compiled._all() for p in e.programs())
        yield {"what": f"{launches} launches, {mode}", "us per call": round(1e3 * taken, 2)}


def programs(library: str, quick: bool, seconds: float = 0.4) -> Iterator[Unit]:
    """Each of the package's own programs by tracejit, PyTorch, torch.compile or JAX.

    >>> [name for name, _ in programs("JAX", True)][:2]
    ['black_scholes', 'black_scholes_grad']
    """
    measures: dict[str, Callable[..., Iterator[Row]]] = {
        "tracejit": partial(_ours, tj.compile, "compiled ms"),
        "PyTorch": partial(_torch, False),
        "torch.compile": partial(_torch, True),
        "JAX": _jax,
    }
    for workload in WORKLOADS:
        size = min(workload.quick, 32) if quick else workload.sizes[-1]
        yield workload.name, partial(measures[library], workload, size, seconds)


def _measured(
    workload: Workload, size: int, seconds: float, library: Any, compiling: Any, name: str
) -> Iterator[Row]:
    """Milliseconds of a workload by tracejit or PyTorch, under this name."""
    function, arguments = workload.make(library, size)
    given = [x.detach().cuda().requires_grad_(x.requires_grad) for x in arguments]
    run = runner(workload, library, compiling(function), given)
    taken = round(milliseconds(run, library.cuda.synchronize, seconds), 4)
    yield {"program": workload.name, "size": size, name: taken}


def _ours(
    compiling: Any, name: str, workload: Workload, size: int, seconds: float
) -> Iterator[Row]:
    return _measured(workload, size, seconds, tj, compiling, name)


def _torch(compiled: bool, workload: Workload, size: int, seconds: float) -> Iterator[Row]:
    """PyTorch eager or compiled; nothing where it is not installed or has no GPU."""
    torch = _torch_on_a_gpu()
    if torch is not None:
        name = "torch.compile ms" if compiled else "torch eager ms"
        compiling = torch.compile if compiled else lambda f: f
        yield from _measured(workload, size, seconds, torch, compiling, name)


def _torch_on_a_gpu() -> Any:
    try:
        import torch
    except ModuleNotFoundError:
        return None
    return torch if torch.cuda.is_available() else None


def _jax(workload: Workload, size: int, seconds: float) -> Iterator[Row]:
    """JAX, jitted, products in float32; nothing where it is not installed or has no GPU."""
    try:
        import jax
    except ModuleNotFoundError:
        return
    if jax.default_backend() != "gpu":
        return
    with jax.default_matmul_precision("highest"):
        run = program(jax, workload, size)
        taken = round(milliseconds(run, lambda: None, seconds), 4)
    yield {"program": workload.name, "size": size, "jax ms": taken}


def attention(shape: tuple[int, ...], seconds: float = 0.4) -> Iterator[Unit]:
    """Attention forward and backward: in tiles, as products and a softmax, and PyTorch's."""
    for dtype in ("float32", "bfloat16"):
        for name in ("tiles", "products", "torch"):
            unit = partial(_attention_row, name, dtype, shape, seconds)
            yield f"{dtype} {name}", unit


def _attention_row(name: str, dtype: str, shape: tuple[int, ...], seconds: float) -> Iterator[Row]:
    library: Any = tj if name != "torch" else _torch_on_a_gpu()
    if library is None:
        return
    draws = [library.randn(*shape, dtype=getattr(library, dtype), device="cuda") for _ in range(3)]
    given = [x.requires_grad_() for x in draws]
    theirs = partial(library.nn.functional.scaled_dot_product_attention, is_causal=True)
    function = theirs if name == "torch" else tj.compile(_tiles if name == "tiles" else _products)
    with always_in_tiles():
        taken = _both_ways(library, function, given, seconds)
    yield {"what": f"causal attention, {dtype}", "shape": shape, f"{name} ms": taken}


def _tiles(q: Any, k: Any, v: Any) -> Any:
    return tj.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def _products(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.transpose(-2, -1) * 0.125
    hidden = tj.ones(q.shape[-2], k.shape[-2], dtype=tj.bool, device=q.device).triu(1)
    return scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v


def _both_ways(library: Any, function: Any, given: Any, seconds: float) -> float:
    """Milliseconds of a call and its backward pass."""

    def run() -> None:
        for x in given:
            x.grad = None
        function(*given).sum().backward()

    return round(milliseconds(run, library.cuda.synchronize, seconds), 4)
