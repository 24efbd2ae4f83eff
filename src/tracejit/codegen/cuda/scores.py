"""What the kernels of attention share: operands, the walk over tiles, scores and what masks do to them."""

from __future__ import annotations

from collections.abc import Callable

from ...dtypes import float32
from ...ir.graph import Value
from ...ops.random import random_uniform
from ...ops.shapes import numel
from ...sizes import call
from .. import scalar
from ..cpu.draws import NAMES, element
from ..kernel import Number, Pointer
from ..nest import Layout
from .cuda import _f32_bits, blocks_for
from .launch import DeviceText, Launch
from .tiles import SIDE, Tensor, Tiles, tiles_for

#: What is computed in tiles, and the operands of each.
KINDS = {
    "attention": ("q", "k", "v", "mask", "drawn"),
    "attention_stats": ("q", "k", "mask"),
    "attention_dq": ("g", "q", "k", "v", "mask", "drawn", "lse", "delta"),
    "attention_dkv": ("g", "q", "k", "v", "mask", "drawn", "lse", "delta"),
}


class TilePrinter:
    """Prints one op of attention."""

    keys_are_rows = False

    def __init__(self, value: Value, out: Layout, layout_of: Callable[[Value], Layout]) -> None:
        assert value.op is not None
        self.value, self.text = value, DeviceText()
        self.kind = value.op.name
        shown = dict(zip(KINDS[self.kind], value.value_operands, strict=True))
        self.masked, self.causal = value.attributes["masked"], value.attributes["causal"]
        if not self.masked:
            del shown["mask"]
        self.dropout = value.attributes.get("dropout", 0.0)
        drawn = shown.pop("drawn", None)
        self.key = None
        if self.dropout and value.attributes["index"] >= 0:
            assert drawn is not None
            self.key = layout_of(drawn)
        elif self.dropout and drawn is not None:
            shown["drawn"] = drawn
        self.tensors = {n: Tensor(self.text, n, x, layout_of(x)) for n, x in shown.items()}
        self.out = Tensor(self.text, "out", value, out, written=True)
        q, k, v = (shown.get(n, shown["k"]).spec.shape for n in ("q", "k", "v"))
        self.batch = q[:-2]
        self.sizes = {"queries": q[-2], "keys": k[-2], "width": q[-1], "depth": v[-1]}
        self.tiles: Tiles = tiles_for(self.kind, q[-1], v[-1])
        self.row_count, self.column_count = (
            ("keys", "queries") if self.keys_are_rows else ("queries", "keys")
        )

    # --- the frame ------------------------------------------------------------------------------------------------

    def write(self, name: str) -> Launch:
        """The function."""
        text, tiles = self.text, self.tiles
        rows = -(-self.sizes[self.row_count] // tiles.rows)
        tasks = numel(self.batch) * rows
        text.add(1, f"tx = thread() & {SIDE - 1}")
        text.add(1, "ty = thread() >> 4")
        self.stream()
        text.add(1, f"for task in range(block(), {self.number('tasks', tasks)}, blocks()):")
        text.add(2, f"batch = task // {self.number('row_tiles', rows)}")
        text.add(2, f"first = (task - batch * row_tiles) * {tiles.rows}")
        self.place()
        self.before()
        self.walk()
        self.finish()
        source = text.source(name, f"{self.value.spec}: tiles of {tiles.rows} by {tiles.columns}")
        return Launch(name, source, tuple(text.parameters.values()), blocks_for(tasks, 1))

    def place(self) -> None:
        """Where in the batch a block is, and where its matrices begin."""
        rest = "batch"
        for axis in reversed(range(len(self.batch))):
            if axis:
                extent = self.number(f"n{axis}", self.batch[axis])
                self.text.add(2, f"rest{axis} = {rest} // {extent}")
                self.text.add(2, f"b{axis} = {rest} - rest{axis} * {extent}")
                rest = f"rest{axis}"
            else:
                self.text.add(2, f"b0 = {rest}")
        for tensor in (*self.tensors.values(), self.out):
            tensor.begin(2, len(self.batch))

    def number(self, name: str, value: int) -> str:
        """A parameter holding an integer."""
        return self.text.parameter(name, "i64", Number(value))

    def size(self, name: str) -> str:
        """The parameter holding a length or a width."""
        return self.number(name, self.sizes[name])

    def walk(self) -> None:
        """The tiles of the other side; where later keys are not seen, only those that matter."""
        text, tiles = self.text, self.tiles
        start, stop = "0", self.size(self.column_count)
        if self.causal and self.keys_are_rows:
            text.add(2, f"start = (first // {tiles.columns}) * {tiles.columns}")
            start = "start"
        elif self.causal:
            text.add(2, f"stop = minimum_i64({stop}, first + {tiles.rows})")
            stop = "stop"
        text.add(2, f"for column in range({start}, {stop}, {tiles.columns}):")
        text.add(
            3,
            f"used = minimum_i64(int64({tiles.columns}), {self.size(self.column_count)} - column)",
        )
        self.tile()

    # --- scores ---------------------------------------------------------------------------------------------------

    def load(self, name: str, buffer: str, start: str, indent: int) -> None:
        """Rows of a tensor from ``start`` on into shared memory, zeros around them."""
        long = "queries" if name in ("q", "g") else "keys"
        wide = "width" if name in ("q", "k") else "depth"
        rows = self.tiles.rows if start == "first" else self.tiles.columns
        pad = self.tiles.pad(wide)
        self.tensors[name].load(buffer, start, self.size(long), self.size(wide), rows, pad, indent)

    def products(self, result: str, rows: str, columns: str, wide: str, indent: int) -> None:
        """Into registers: rows of one buffer times rows of another."""
        self.tiles.products(self.text, result, rows, columns, self.size(wide), wide, indent)

    def probabilities(self, indent: int, lse: str) -> None:
        """Scores in ``s`` become probabilities, or (``lse`` empty) scores that are -inf where nothing is seen."""
        text, tiles = self.text, self.tiles
        scale = self.scale()
        text.add(indent, f"for i in range({tiles.row_steps}):")
        text.add(indent + 1, f"for j in range({tiles.column_steps}):")
        row, column = f"first + ty + {SIDE} * i", f"column + tx + {SIDE} * j"
        query, key = (column, row) if self.keys_are_rows else (row, column)
        text.add(indent + 2, f"query = {query}")
        text.add(indent + 2, f"key = {key}")
        cell = f"s[i * {tiles.column_steps} + j]"
        text.add(indent + 2, f"score = {cell} * {scale}")
        seen = f"(query < {self.size('queries')}) and (key < {self.size('keys')})"
        text.add(indent + 2, f"if {seen}{' and (key <= query)' if self.causal else ''}:")
        self.mask(indent + 3)
        text.add(indent + 2, "else:")
        text.add(indent + 3, "score = float32(-inf)")
        text.add(indent + 2, f"{cell} = {f'exp_f32(score - {lse})' if lse else 'score'}")

    def mask(self, indent: int) -> None:
        """What a mask does to the score of a pair."""
        if not self.masked:
            self.text.add(indent, "pass")
            return
        tensor = self.tensors["mask"]
        found = scalar.load(tensor.at("query", "key"), tensor.value.spec.dtype)
        if tensor.value.spec.dtype.short == "bool":
            self.text.add(indent, f"score = select({found}, score, float32(-inf))")
        else:
            self.text.add(indent, f"score = score + {found}")

    def stream(self) -> None:
        """The stream that random numbers come from, where they are computed here."""
        if self.key is None:
            return
        key = self.text.parameter(
            "stream_key", "i64*", Pointer(self.key.root, self.key.offset * 8, False)
        )
        given = {"seed": f"{key}[0]"}
        step = self.number("key_step", self.key.strides[0])
        given["offset"] = f"{key}[{step}] + {self.number('call', self.value.attributes['index'])}"
        for name, found in given.items():
            self.text.add(1, f"{name} = {found}")
        for name, found in NAMES.items():
            self.text.add(1, f"{name} = {found}")

    def drop(self, indent: int) -> str:
        """Lines that compute what dropout multiplies the probability at (i, j) by; `` * kept``, or nothing."""
        if not self.dropout:
            return ""
        row, column = f"first + ty + {SIDE} * i", f"column + tx + {SIDE} * j"
        query, key = (column, row) if self.keys_are_rows else (row, column)
        queries, keys = self.size("queries"), self.size("keys")
        add = self.text.add
        if self.key is None:
            place = f"minimum_i64({query}, {queries} - 1)", f"minimum_i64({key}, {keys} - 1)"
            add(indent, f"drawn_here = {self.tensors['drawn'].at(*place)}")
        else:
            add(indent, f"i_ = uint64((batch * {queries} + {query}) * {keys} + {key})")
            add(indent, f"drawn_here = {element(random_uniform, float32, 'i_')}")
        low, large = self.factor("low", self.dropout), self.factor("large", 1 / (1 - self.dropout))
        add(indent, f"kept = select(drawn_here >= {low}, {large}, float32(0))")
        return " * kept"

    def scale(self) -> str:
        """The parameter holding the factor of the scores."""
        return self.factor("scale", self.value.attributes["scale"])

    def factor(self, name: str, number: float) -> str:
        """A parameter holding a float."""
        (bits,) = call(_f32_bits, number)
        return self.text.parameter(name, "f32", Number(bits))

    def before(self) -> None:
        """What a block does before it walks."""
        raise NotImplementedError

    def tile(self) -> None:
        """What it does at each tile."""
        raise NotImplementedError

    def finish(self) -> None:
        """What it does at the end."""
        raise NotImplementedError

    def buffer(self, name: str, rows: int, wide: str) -> None:
        """Shared memory for some rows."""
        self.text.array(name, f"shared_f32({rows * (self.tiles.pad(wide) + 1)})")

    def local(self, name: str, count: int) -> None:
        """An array of the thread."""
        self.text.array(name, f"local_f32({count})")

    def fill(self, name: str, count: int, value: str) -> None:
        """Give every element of an array of the thread a value."""
        self.text.add(2, f"for i in range({count}):")
        self.text.add(3, f"{name}[i] = float32({value})")

    def share(self, source: str, indent: int) -> None:
        """Scores of the threads to shared memory, for all of them to read."""
        text, tiles = self.text, self.tiles
        text.add(indent, f"for i in range({tiles.row_steps}):")
        text.add(indent + 1, f"for j in range({tiles.column_steps}):")
        place = f"(ty + {SIDE} * i) * {tiles.columns + 1} + tx + {SIDE} * j"
        text.add(indent + 2, f"shared[{place}] = {source}[i * {tiles.column_steps} + j]")

    def store(self, source: str, wide: str, shift: str, factor: str) -> None:
        """The rows of a result, from column ``shift`` on."""
        text, tiles = self.text, self.tiles
        steps = tiles.steps(wide)
        text.add(2, f"for i in range({tiles.row_steps}):")
        text.add(3, f"row = first + ty + {SIDE} * i")
        text.add(3, f"for n in range({steps}):")
        text.add(4, f"place = tx + {SIDE} * n")
        text.add(4, f"if (row < {self.size(self.row_count)}) and (place < {self.size(wide)}):")
        found = f"{source}[i * {steps} + n]{factor}"
        stored = scalar.store(found, self.value.spec.dtype)
        text.add(5, f"{self.out.at('row', f'({shift}place)')} = {stored}")
