"""Where a random story plays: eagerly the first time, compiled the second; what is observed after each of its steps.

A story is a Python module whose names are its world. Its steps stand in ``with stage.step():``; after each, everything
that can be reached from the module's names is looked at.
"""

from __future__ import annotations

import linecache
import random
import re
import sys
import threading
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import Any

import numpy as np

from .fuzz_programs import Input, tensor_of
from .noise import disturb, disturbed
from .soundness_look import Look, look_at

#: What messages say beyond what happened: the user's line, and which operation of many had kept an overwritten value.
_DETAILS = re.compile(r"\n.*|(?<= by an inplace operation): .*", re.DOTALL)
#: Where a story is that fails outside of its steps.
END = "the end"
#: What the arguments of calls in several threads are multiplied by.
_FACTORS = (1, -1, 2, 1, -2, 1)


class Stage:
    """One showing of a story: ``compiling`` or not; with ``noise``, all that is computed is a rounding away."""

    def __init__(self, compiling: bool, noise: int | None = None) -> None:
        import tracejit

        self.compiling = compiling
        self.package: Any = tracejit
        self.noise = None if noise is None else np.random.default_rng(noise)
        self.looks: list[Look] = []
        self.functions: list[Any] = []
        self.tensors = 0
        self.space: dict[str, Any] = {}

    # --- what stories call ---------------------------------------------------------------------------------------

    def compile(self, function: Any) -> Any:
        """The function or module, compiled in the second showing."""
        if not self.compiling:
            return function
        compiled = self.package.compile(function)
        self.functions.append(compiled)
        return compiled

    def tensor(
        self,
        *shape: int,
        dtype: str = "float32",
        layout: str = "contiguous",
        grad: bool = False,
        below: int = 5,
    ) -> Any:
        """The next tensor of the story; integers are at least zero and ``below`` something."""
        rng = np.random.default_rng(self.tensors)
        self.tensors += 1
        made = tensor_of(Input("", shape, dtype, layout, grad, False, 0, below), rng)
        if self.noise is not None:
            disturb([made], self.noise)
        return made

    @contextmanager
    def step(self) -> Iterator[None]:
        """A step of the story: what it raises is observed, then the world."""
        error = ""
        if not self.looks and self.noise is not None:
            modules = [x for x in self.space.values() if isinstance(x, self.package.nn.Module)]
            disturb({id(p): p for m in modules for p in m.parameters()}.values(), self.noise)
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                yield
        except Exception as raised:
            error = f"{type(raised).__name__}: {_DETAILS.sub('', str(raised))}"
        frame = sys._getframe(2)
        number = frame.f_lineno + 1
        line = linecache.getline(frame.f_code.co_filename, number).strip()
        self.looks.append(look_at(self.space, f"line {number}: {line}", error))

    def backward(
        self,
        *results: Any,
        retain: bool = False,
        part: slice = slice(None),
        towards: tuple[Any, ...] = (),
    ) -> None:
        """Go backward from the tensors in ``results`` that have a history, or a ``part``, to all or ``towards`` some.

        Gradients of what is no leaf are laid out alike, since eager ones may be expanded.
        """
        ends = [t for t in towards if t.requires_grad]
        if towards and not ends:
            return
        found = {id(t): t for t in _tensors(results)[part] if t.requires_grad}
        seeds = [
            self.package.from_numpy(weights(tuple(t.shape))).to(t.dtype) for t in found.values()
        ]
        try:
            if found:
                self.package.autograd.backward(
                    list(found.values()), seeds, retain_graph=retain, inputs=ends or None
                )
        except RuntimeError:
            forget_gradients(found.values())
            raise
        for t in ends:
            if not t.is_leaf and t.grad is not None:
                t.grad = t.grad.contiguous()

    def at_once(self, function: Any, *arguments: Any, **options: Any) -> list[Any]:
        """What calls with arguments of their own return or raise: in as many threads, or in turn when not compiling."""
        tj = self.package
        found: list[Any] = [None] * len(_FACTORS)
        recording, inference = tj.is_grad_enabled(), tj.is_inference_mode_enabled()

        def call(number: int, factor: float) -> None:
            own = [(t.detach() * factor).requires_grad_(t.requires_grad) for t in arguments]
            try:
                with (
                    np.errstate(all="ignore"),
                    tj.inference_mode(inference),
                    tj.set_grad_enabled(recording),
                ):
                    found[number] = function(*own, **options)
            except Exception as error:
                found[number] = type(error).__name__

        threads = [threading.Thread(target=call, args=pair) for pair in enumerate(_FACTORS)]
        for thread in threads:
            if self.compiling:
                thread.start()
            else:
                thread.run()
        for thread in threads if self.compiling else ():
            thread.join()
        return found

    def slopes(self, result: Any, *inputs: Any, order: int = 2) -> Any:
        """Derivatives of the sum of ``result``, up to this order; laid out alike, since eager ones may be expanded.

        Only first derivatives free what they pass: second ones through compiled code free nothing of the first call.
        """
        last = order == 1
        tj = self.package
        parts = [t.double().sum() for t in _tensors(result) if t.requires_grad]
        found: list[Any] = []
        while parts and order:
            order -= 1
            made = tj.autograd.grad(
                sum(parts[1:], parts[0]),
                inputs,
                retain_graph=not last,
                create_graph=order > 0,
                allow_unused=True,
            )
            found += [g if g is None else g.detach().contiguous() for g in made]
            parts = [g.double().square().sum() for g in made if g is not None and g.requires_grad]
        return found


def forget_gradients(results: Collection[Any]) -> None:
    """How far a pass came before its error depends on when garbage was collected: its gradients are not compared."""
    stack = [t.grad_fn for t in results]
    for leaf in (t for t in results if t.is_leaf):
        leaf.grad = None
    seen = set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            leaf.grad = None
        stack.extend(edge[0] for edge in node.edges if edge is not None)


def weights(shape: tuple[int, ...]) -> np.ndarray:
    """A gradient that is not the same everywhere."""
    return np.asarray((1.0 + np.arange(int(np.prod(shape))) % 7 / 8.0).reshape(shape))


def _tensors(value: Any) -> list[Any]:
    """The tensors of a nested value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [t for v in value for t in _tensors(v)]
    return [value] if hasattr(value, "requires_grad") and hasattr(value, "grad_fn") else []


def play(text: str, filename: str, compiling: bool, noise: int | None = None) -> Stage:
    """One showing of the story ``text``."""
    stage = Stage(compiling, noise)
    threads = stage.package.get_num_threads()
    stage.package.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    # A module of its own: there dataclasses look for what names mean.
    module = sys.modules["story"] = ModuleType("story")
    stage.space = vars(module)
    stage.space.update(__file__=filename, stage=stage)
    try:
        with nullcontext() if stage.noise is None else disturbed(stage.noise):
            exec(compile(text, filename, "exec"), stage.space)
    except Exception as error:  # outside all steps: the end of the story
        stage.looks.append(look_at(stage.space, END, f"{type(error).__name__}: {error}"))
    finally:
        del sys.modules["story"]
        stage.package.set_grad_enabled(True)
        stage.package.set_default_dtype(stage.package.float32)
        stage.package.set_autocast_enabled("cpu", False)
        stage.package.set_num_threads(threads)
    return stage


def counts(functions: Sequence[Any]) -> tuple[int, int]:
    """Calls, and those that ran compiled."""
    kept = [getattr(f, "stats", None) for f in functions]
    found = [s for s in kept if s is not None]
    return sum(s.calls for s in found), sum(s.compiled_calls for s in found)
