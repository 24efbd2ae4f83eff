"""How fast a GPU is: bandwidth of kernels against a copy, the cost of a call, programs against other frameworks."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import tracejit

from ..cuda.arrays import namespace
from .gpu_jax import program
from .workloads import WORKLOADS, Workload, runner

tj: Any = tracejit
Row = dict[str, Any]


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


def bandwidth(count: int, seconds: float = 0.5) -> Iterator[Row]:
    """Gigabytes per second of a plain copy, and of kernels that read and write as much."""
    module = namespace()
    x = tj.rand(count, device="cuda")
    target = module.empty_like(x.array)
    copy = milliseconds(lambda: module.copyto(target, x.array), tj.cuda.synchronize, seconds)
    reference = 8 * count / copy / 1e6
    yield {"what": "copy", "elements": count, "GB/s": round(reference, 1), "of copy": 1.0}
    rows = x.reshape(-1, 1024)
    programs: list[tuple[str, Any, int, Any]] = [
        ("pointwise", lambda t: (t * 2 + 1).relu(), 8, x),
        ("gelu", tj.nn.functional.gelu, 8, x),
        ("sum", lambda t: t.sum(), 4, x),
        ("softmax rows", lambda t: t.softmax(-1), 8, rows),
        ("column sums", lambda t: t.sum(0), 4, rows),
    ]
    for name, function, moved, given in programs:
        compiled = tj.compile(function)
        call = partial(compiled, given)
        taken = milliseconds(call, tj.cuda.synchronize, seconds)
        found = moved * count / taken / 1e6
        share = round(found / reference, 3)
        yield {"what": name, "elements": count, "GB/s": round(found, 1), "of copy": share}


def launch_cost() -> Iterator[Row]:
    """What a call costs the host when the device has next to nothing to do."""
    x = tj.rand(64, device="cuda")
    eager = milliseconds(lambda: x * 2 + 1, tj.cuda.synchronize, 0.2)
    yield {"what": "eager, two ops", "us per call": round(1e3 * eager, 2)}
    for depth in (1, 10, 50):

        def chain(t: Any, depth: int = depth) -> Any:
            for _ in range(depth):
                t = (t - t.sum()).exp()  # a sum in between: a kernel of its own
            return t

        compiled = tj.compile(chain)
        compiled(x)
        taken = milliseconds(partial(compiled, x), tj.cuda.synchronize, 0.2)
        launches = sum(p.plan.launches for e in compiled._all() for p in e.programs())
        yield {"what": f"{launches} launches", "us per call": round(1e3 * taken, 2)}


def speeds(size_of: Callable[[Workload], int], seconds: float = 0.5) -> Iterator[Row]:
    """Each program of the benchmarks, eager and compiled, and by the other frameworks that are installed."""
    for workload in WORKLOADS:
        row: Row = {"program": workload.name, "size": size_of(workload)}
        for name, measure in (("tracejit", _ours), ("torch", _torch), ("jax", _jax)):
            try:
                row.update(measure(workload, size_of(workload), seconds))
            except Exception as error:  # noqa: BLE001  (a report says what failed and goes on)
                row[name] = f"{type(error).__name__}: {error}"
        yield row


def _eager_and_compiled(
    workload: Workload, size: int, seconds: float, library: Any, names: tuple[str, str]
) -> Row:
    """Milliseconds of a workload by tracejit or PyTorch, under these names."""
    function, arguments = workload.make(library, size)
    given = [x.detach().cuda().requires_grad_(x.requires_grad) for x in arguments]
    runs = [runner(workload, library, f, given) for f in (function, library.compile(function))]
    wait = library.cuda.synchronize
    return {
        n: round(milliseconds(run, wait, seconds), 4) for n, run in zip(names, runs, strict=True)
    }


def _ours(workload: Workload, size: int, seconds: float) -> Row:
    return _eager_and_compiled(workload, size, seconds, tj, ("eager ms", "compiled ms"))


def _torch(workload: Workload, size: int, seconds: float) -> Row:
    """PyTorch eager and compiled; nothing where it is not installed or has no GPU."""
    try:
        import torch
    except ImportError:
        return {}
    if not torch.cuda.is_available():
        return {}
    names = ("torch eager ms", "torch.compile ms")
    return _eager_and_compiled(workload, size, seconds, torch, names)


def _jax(workload: Workload, size: int, seconds: float) -> Row:
    """JAX, jitted, products in float32; nothing where it is not installed or has no GPU."""
    try:
        import jax
    except ImportError:
        return {}
    if jax.default_backend() != "gpu":
        return {}
    with jax.default_matmul_precision("highest"):
        run = program(jax, workload, size)
        return {"jax ms": round(milliseconds(run, lambda: None, seconds), 4)}


def attention(shape: tuple[int, ...], seconds: float = 0.5) -> Iterator[Row]:
    """Attention forward and backward: in tiles, as products and a softmax, and PyTorch's."""
    for dtype in ("float32", "bfloat16"):
        row: Row = {"what": f"causal attention, {dtype}", "shape": shape}
        draws = [tj.randn(*shape, dtype=getattr(tj, dtype), device="cuda") for _ in range(3)]
        given = [x.requires_grad_() for x in draws]
        row["tiles ms"] = _both_ways(tj, tj.compile(_tiles), given, seconds)
        row["products ms"] = _both_ways(tj, tj.compile(_products), given, seconds)
        try:
            import torch
        except ImportError:
            torch = None
        if torch is not None and torch.cuda.is_available():
            theirs = [torch.from_dlpack(x.detach()).clone().requires_grad_() for x in given]
            function = torch.nn.functional.scaled_dot_product_attention
            call = partial(function, is_causal=True)
            row["torch ms"] = _both_ways(torch, call, theirs, seconds)
        yield row


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
