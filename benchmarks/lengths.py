"""Shapes that rarely come back: texts of many lengths, generated and learned, compiled and eager, beside PyTorch.

``python benchmarks/lengths.py`` runs each implementation in a process of its own with empty caches and prints, per
workload, the median time of a call while lengths are new (the first pass over them), and in the third pass, and
how long the first pass took in all, with recording and compiling. ``--calls 20`` is a smoke test.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

WIDTH, HEADS, LAYERS, WORDS = 256, 4, 4, 1_000
SHORTEST, LONGEST = 16, 128
PASSES = 3
#: The packages to import, and whether functions are compiled.
BACKENDS = {
    "tracejit eager": ("tracejit", False),
    "tracejit": ("tracejit", True),
    "PyTorch eager": ("torch", False),
    "torch.compile": ("torch", True),
}
Step = Callable[[], Iterator[Any]]


def gpt(torch: Any) -> Any:
    """A decoder that takes and returns the keys and values of the words before."""
    nn, functional = torch.nn, torch.nn.functional

    class Attention(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.into, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Any, kept: Any) -> Any:
            count, steps, _ = x.shape
            parts = self.into(x).split(WIDTH, dim=2)
            q, k, v = (p.view(count, steps, HEADS, WIDTH // HEADS).transpose(1, 2) for p in parts)
            if kept is not None:
                k, v = (torch.cat([old, new], 2) for old, new in zip(kept, (k, v), strict=True))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=kept is None)
            return self.out(y.transpose(1, 2).contiguous().view(count, steps, WIDTH)), (k, v)

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.attention = Attention()
            wide, narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
            self.inner = nn.Sequential(wide, nn.GELU(), narrow)

        def forward(self, x: Any, kept: Any) -> Any:
            y, kept = self.attention(self.before(x), kept)
            x = x + y
            return x + self.inner(self.between(x)), kept

    class Model(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(1024, WIDTH)
            self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

        def forward(self, text: Any, caches: Any = None) -> Any:
            past = 0 if caches is None else caches[0][0].shape[2]
            x = self.words(text) + self.places(torch.arange(past, past + text.shape[1]))
            kept = []
            for block, cache in zip(self.blocks, caches or [None] * LAYERS, strict=True):
                x, cache = block(x, cache)
                kept.append(cache)
            return self.head(self.norm(x)), kept

    return Model()


def whole_context(torch: Any, wrap: Callable[[Any], Any]) -> Step:
    """Words are generated one by one from all before them."""
    model = gpt(torch)
    logits = wrap(lambda text: model(text)[0][:, -1])

    def run() -> Iterator[Any]:
        text = torch.zeros(1, 8, dtype=torch.int64)
        while True:
            with torch.no_grad():
                text = torch.cat([text, logits(text).argmax(-1, keepdim=True)], 1)
            yield text

    return run


def growing_cache(torch: Any, wrap: Callable[[Any], Any]) -> Step:
    """The same with the keys and values of earlier words kept."""
    model = wrap(gpt(torch))

    def run() -> Iterator[Any]:
        text, kept = torch.zeros(1, 8, dtype=torch.int64), None
        while True:
            with torch.no_grad():
                found, kept = model(text, kept)
                text = found[:, -1].argmax(-1, keepdim=True)
            yield text

    return run


def training(torch: Any, wrap: Callable[[Any], Any]) -> Step:
    """Steps of AdamW on batches of texts of many lengths."""
    model = gpt(torch)
    functional = torch.nn.functional
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    seeds = iter(range(1_000))
    loss = wrap(
        lambda text, goal: functional.cross_entropy(model(text)[0].view(-1, WORDS), goal.view(-1))
    )

    def run() -> Iterator[Any]:
        lengths = random.Random(next(seeds))
        while True:
            text = torch.zeros(4, lengths.randrange(SHORTEST, LONGEST + 1), dtype=torch.int64)
            found = loss(text, text)
            found.backward()
            optimizer.step()
            optimizer.zero_grad()
            yield found

    return run


def recurrent(torch: Any, wrap: Callable[[Any], Any]) -> Step:
    """Steps of SGD on batches of sequences of many lengths, read by an LSTM."""
    layer, head = torch.nn.LSTM(32, 64, batch_first=True), torch.nn.Linear(64, 10)
    functional = torch.nn.functional
    optimizer = torch.optim.SGD([*layer.parameters(), *head.parameters()], lr=0.01)
    seeds = iter(range(1_000))
    loss = wrap(lambda x, goal: functional.cross_entropy(head(layer(x)[0][:, -1]), goal))

    def run() -> Iterator[Any]:
        lengths = random.Random(next(seeds))
        while True:
            x = torch.randn(16, lengths.randrange(5, 121), 32)
            found = loss(x, torch.randint(0, 10, (16,)))
            found.backward()
            optimizer.step()
            optimizer.zero_grad()
            yield found

    return run


def small_function(torch: Any, wrap: Callable[[Any], Any]) -> Step:
    """A product, a tanh, a softmax and a mean, on 100 rows and more."""
    weight, bias = torch.randn(64, 64), torch.randn(64)
    function = wrap(lambda x: torch.softmax(torch.tanh(x @ weight + bias), -1).mean(0))
    inputs = [torch.randn(100 + k, 64) for k in range(1_000)]

    def run() -> Iterator[Any]:
        for x in inputs:
            yield function(x)

    return run


WORKLOADS = (whole_context, growing_cache, training, recurrent, small_function)


def measure(backend: str, workload: str, calls: int) -> list[list[float]]:
    """Seconds of every call of every pass, in this process."""
    package, compiled = BACKENDS[backend]
    torch = importlib.import_module(package)
    torch.set_num_threads(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
    torch.manual_seed(0)
    make = next(w for w in WORKLOADS if w.__name__ == workload)
    run = make(torch, torch.compile if compiled else lambda function: function)
    passes = []
    for _ in range(PASSES):
        steps, times = run(), []
        for _ in range(calls):
            start = time.perf_counter()
            next(steps)
            times.append(time.perf_counter() - start)
        passes.append(times)
    return passes


def fresh(backend: str, workload: str, calls: int, limit: float) -> list[list[float]] | None:
    """The same in a new process with empty caches; None if that took longer than ``limit`` seconds."""
    with tempfile.TemporaryDirectory() as scratch:
        names = ("TRACEJIT_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "XDG_CACHE_HOME")
        environment = {**os.environ, **dict.fromkeys(names, scratch)}
        command = [sys.executable, __file__, "--calls", str(calls), "--one", backend, workload]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=True, timeout=limit
            )
        except subprocess.TimeoutExpired:
            return None
    found: list[list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--calls", type=int, default=100, help="calls of each pass")
    parser.add_argument("--backend", action="append", choices=BACKENDS, help="only this one")
    parser.add_argument("--limit", type=float, default=200.0, help="seconds for a process")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(*given.one, given.calls)))
        return
    print("| workload | implementation | new lengths | third pass | first pass in all |")
    print("|---|---|---|---|---|")
    for workload in WORKLOADS:
        for backend in given.backend or BACKENDS:
            if importlib.util.find_spec(BACKENDS[backend][0]) is None:
                continue
            passes = fresh(backend, workload.__name__, given.calls, given.limit)
            if passes is None:
                print(f"| {workload.__name__} | {backend} | more than {given.limit:.0f} s | | |")
                continue
            first, third = (f"{statistics.median(passes[i]) * 1e3:.3g} ms" for i in (0, -1))
            total = f"{sum(passes[0]):.3g} s"
            print(f"| {workload.__name__} | {backend} | {first} | {third} | {total} |", flush=True)


if __name__ == "__main__":
    main()
