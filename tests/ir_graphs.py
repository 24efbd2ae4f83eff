"""Graphs for tests: random ones over the op table, and comparison of arrays bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np

import tracejit as tj
from tracejit.ir import Builder, Graph, Value, parse
from tracejit.ops.table import (
    Elementwise,
    Ints,
    Movement,
    Op,
    Reduction,
    all_ops,
    lookup,
)
from tracejit.types import TensorType

SHAPES = ((), (1,), (3,), (2, 3), (1, 3), (3, 2), (2, 1), (0, 3), (2, 1, 3), (3, 3))
FLOATS = (tj.float32, tj.float64, tj.float16, tj.bfloat16)
OTHERS = (tj.bool, tj.uint8, tj.int8, tj.int32, tj.int64)
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 0.5)


def documented(module: Any, which: str) -> Graph:
    """The graph that the docstring of a pass shows after ``which`` ("Before" or "After")."""
    return parse((module.__doc__ or "").split(f"{which}::")[1].split("}")[0] + "}")


NUMBERS = (0, 1, -1, 2, 3, True, False, 0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 4.0, 1.5, np.inf, np.nan)


#: They, or their gradients, refuse matrices that are singular or not finite.
DECOMPOSITIONS = {
    "cholesky_lower",
    "determinant",
    "determinant_sign",
    "eigen_symmetric",
    "inverse",
    "log_abs_determinant",
    "sign_and_log_determinant",
    "qr_packed",
    "solve",
    "svd_packed",
}


def random_array(rng: np.random.Generator, kind: TensorType, special: bool = True) -> np.ndarray:
    """Values of ``kind``; floats with NaN, infinities and both zeros among them."""
    if kind.dtype is tj.bool:
        return np.asarray(rng.integers(0, 2, kind.shape), bool)
    if not kind.dtype.is_floating_point:
        return np.asarray(rng.integers(0 if kind.dtype is tj.uint8 else -5, 6, kind.shape)).astype(
            kind.dtype.np
        )
    values = np.asarray(rng.normal(size=kind.shape))
    if special:
        values = np.where(rng.random(kind.shape) < 0.3, rng.choice(SPECIAL, kind.shape), values)
    return np.asarray(values).astype(kind.dtype.np)


def assert_same_bits(found: Any, expected: Any) -> None:
    """Equal dtype, shape and bits; every NaN counts as the same."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if found.dtype.kind in "biu":
        assert np.array_equal(found, expected), (found, expected)
        return
    if found.dtype.kind == "c":
        found, expected = (np.stack((x.real, x.imag)) for x in (found, expected))
    nans = np.isnan(expected)
    assert np.array_equal(np.isnan(found), nans), (found, expected)
    found, expected = (np.where(nans, a.dtype.type(0), a) for a in (found, expected))
    assert np.array_equal(found, expected), (found, expected)
    assert np.array_equal(np.signbit(found), np.signbit(expected)), (found, expected)


class GraphMaker:
    """Adds random statements to a builder; each is also run, so the graph runs on ``arrays``."""

    def __init__(self, seed: int, dtypes: tuple[Any, ...], special: bool = True) -> None:
        self.rng = np.random.default_rng(seed)
        self.builder = Builder("random")
        self.arrays: list[np.ndarray] = []
        self.known: dict[Value, Any] = {}
        self.dtypes = dtypes
        self.special = special
        for _ in range(int(self.rng.integers(1, 4))):
            kind = TensorType(self.pick(SHAPES), self.pick(dtypes))
            self.input(kind, random_array(self.rng, kind, special))

    def pick(self, choices: Any) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def value(self) -> Value:
        """A value of the graph so far, recent ones more often."""
        values = list(self.known)
        return values[-1 - min(int(self.rng.exponential(3.0)), len(values) - 1)]

    def add(self, op: Op) -> bool:
        """One statement, if the operands drawn fit the op."""
        operands, attributes = self.draw(op)
        if operands is None or getattr(op, "dynamic", False):  # shapes that depend on data
            return False
        try:
            kinds = [x.spec if isinstance(x, Value) else x for x in operands]
            if op.infer(kinds, attributes).numel > 200:
                return False
            self.emit(op, operands, attributes)
        except (RuntimeError, TypeError, ValueError, IndexError, AssertionError, KeyError):
            return False
        return True

    def draw(self, op: Op) -> tuple[Any, dict[str, Any]]:
        """Operands and attributes for ``op``; None for operands when it has attributes of an unknown kind."""
        x = self.value()
        if op.name == "full":
            shape, dtype = self.pick(SHAPES), self.pick(self.dtypes)
            value = self.pick(NUMBERS)
            if not dtype.is_floating_point and (value != value or abs(value) == np.inf):
                value = 1
            return (), {"shape": shape, "value": value, "dtype": dtype}
        if op.name == "cast":
            return (x,), {"dtype": self.pick(self.dtypes)}
        if op.name == "cat":
            return (x, *(self.value() for _ in range(int(self.rng.integers(3))))), {"dim": 0}
        if isinstance(op, Elementwise) and not op.attributes:
            operands = [x, *(self.value() for _ in op.operands[1:])]
            if op.name == "pow" and operands[1].dtype is tj.bool:
                return None, {}  # has no gradient, as in PyTorch
            if len(operands) > 1 and self.rng.random() < 0.4:
                operands[int(self.rng.integers(len(operands)))] = self.pick(NUMBERS)
            return tuple(operands), {}
        if isinstance(op, Reduction) and set(op.attributes) == {"dims", "keepdim"}:
            dims = tuple(d for d in range(x.ndim) if self.rng.random() < 0.6)
            dims = dims if op.combine else dims[:1]
            return (x,), {"dims": dims, "keepdim": bool(self.rng.random() < 0.5)}
        if isinstance(op, Movement):
            return self.draw_movement(op, x)
        return self.draw_sample(op)

    def draw_sample(self, op: Op) -> tuple[Any, dict[str, Any]]:
        """Operands in the shapes of one of the op's own samples: new inputs, tied to the graph where possible."""
        samples = [s for s in op.samples if s.error is None]
        if not samples or len(self.arrays) > 8:
            return None, {}
        sample = self.pick(samples)
        dtype = self.pick([d for d in self.dtypes if d.is_floating_point])
        return tuple(self.sample_operand(w, dtype) for w in sample.operands), dict(
            sample.attributes
        )

    def sample_operand(self, wanted: Any, dtype: Any) -> Any:
        if isinstance(wanted, (bool, int, float)):
            return wanted
        if isinstance(wanted, Ints):
            wanted = self.rng.integers(wanted.low, wanted.high, wanted.shape)
        if not isinstance(wanted, tuple):
            array = np.asarray(wanted)
            return self.input(TensorType(array.shape, tj.dtypes.from_numpy(array.dtype)), array)
        kind = TensorType(wanted, dtype)
        fresh, other = self.input(kind, random_array(self.rng, kind, self.special)), self.value()
        add = lookup("add")
        try:
            tied = add.infer((kind, other.spec), {}) == kind
        except RuntimeError:
            tied = False
        return self.emit(add, (fresh, other), {}) if tied else fresh

    def input(self, kind: TensorType, array: np.ndarray) -> Value:
        value = self.builder.input(f"x{len(self.arrays)}", kind)
        self.arrays.append(array)
        self.known[value] = array
        return value

    def emit(self, op: Op, operands: Any, attributes: dict[str, Any]) -> Value:
        arrays = [self.known[x] if isinstance(x, Value) else x for x in operands]
        array = op.evaluate(arrays, attributes)
        value = self.builder.emit(op, operands, attributes, ("model.py", len(self.known)))
        self.known[value] = array
        return value

    def draw_movement(self, op: Op, x: Value) -> tuple[Any, dict[str, Any]]:
        shape = x.spec.shape
        if op.name == "reshape":
            options = ((x.spec.numel,), (*shape, 1), (1, *shape), shape[::-1])
            return (x,), {"shape": self.pick(options)}
        if op.name == "permute":
            return (x,), {"dims": tuple(int(d) for d in self.rng.permutation(x.ndim))}
        if op.name == "expand":
            shape = tuple(int(self.rng.integers(1, 4)) if e == 1 else e for e in shape)
            return (x,), {"shape": (2, *shape) if self.rng.random() < 0.3 else shape}
        if op.name == "unsqueeze":
            return (x,), {"dims": (int(self.rng.integers(x.ndim + 1)),)}
        if op.name == "squeeze":
            return (x,), {"dims": tuple(d for d, e in enumerate(shape) if e == 1)}
        if op.name == "slice" and shape:
            starts = tuple(int(self.rng.integers(max(e, 1))) for e in shape)
            counts = tuple(
                int(self.rng.integers(e - s + 1)) for e, s in zip(shape, starts, strict=True)
            )
            return (x,), {"starts": starts, "counts": counts, "steps": (1,) * len(shape)}
        return None, {}


def random_graph(
    seed: int, size: int = 12, dtypes: tuple[Any, ...] = FLOATS + OTHERS, special: bool = True
) -> tuple[Graph, list[np.ndarray]]:
    """A graph of about ``size`` statements over the whole op table, and inputs it runs on."""
    maker = GraphMaker(seed, dtypes, special)
    by_kind: dict[str, list[Op]] = {}
    for op in all_ops():
        refused = any(rule.refuses for rule in op.grads.values())
        if op.name not in DECOMPOSITIONS and not refused:
            by_kind.setdefault(op.kind, []).append(op)
    kinds = ("elementwise", "elementwise", "elementwise", *by_kind)
    with np.errstate(all="ignore"):
        for _ in range(60 * size):
            if len(maker.builder.body) >= size:
                break
            maker.add(maker.pick(by_kind[maker.pick(kinds)]))
    values = list(maker.known)
    count = min(len(values), int(maker.rng.integers(1, 4)))
    outputs = [maker.value() for _ in range(count)]
    floats = [v for v in values if v.dtype.is_floating_point]
    outputs += floats[-1:]
    for value in values[::5]:
        if value.spec.numel == 1 and value.spec.dtype is tj.bool:
            maker.builder.guard(value, bool(maker.known[value].reshape(())), ("model.py", 99))
    return maker.builder.finish(outputs), maker.arrays
