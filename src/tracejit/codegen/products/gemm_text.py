"""LLVM assembly of matrix products: blocks of results stay in registers, the right operand is laid out in strips.

A *block* of results is ``machine.rows`` rows of up to ``machine.vectors`` vectors, a *strip* as many columns of the
right operand as a block has. For some terms of the sum at a time, as many strips as fit the second-level cache are
copied there, term by term, so that a block reads them from one end to the other; rows of the left operand are read
where they lie, and copied only where they lie across memory. A result is summed in one order, whatever part of the
product a thread computes: term by term, in runs of terms whose number depends on the length of the sum alone (`TERMS`).

This is the scheme of Goto and van de Geijn ("Anatomy of high-performance matrix multiplication", 2008) with the parts
of both operands exchanged: caches of the second level are large, and a block is wider than high.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..ir_text import FunctionText, Variable
from .gemm_pairs import Pairs, pair_declarations, pair_functions
from .gemm_strips import BLOCKS, strip_functions
from .vector_kind import Kind, declarations, inner
from .vector_machine import Machine

__all__ = ["TERMS", "gemm_text"]

#: So many terms, or pairs of them, are added in registers before the sum goes to memory.
TERMS = 512
#: Bytes of strips that are used at a time: half of a small second-level cache.
STRIPS_BYTES = 1 << 19
#: With so many blocks of rows or fewer, strips are not worth a copy where their terms lie within so many bytes.
_UNCOPIED = ((2, 1 << 62), (16, 5 << 18), (1 << 40, 1 << 18))
#: The same for operands whose rows are no multiple of so many bytes apart: those that are share few sets of a cache.
_APART, _UNCOPIED_APART = 1 << 10, (8, 7 << 18)
#: Terms of a turned left operand that lie within so many bytes are read where they lie if strips are.
_NEAR_ROWS = 1 << 17
#: So many terms before they are needed, those of a strip are asked for: one that is not copied jumps through memory.
_AHEAD = 8


def gemm_text(dtype: str, machine: Machine) -> str:
    """The module with `tracejit_product`, which is called as BLAS's ``gemm`` for ``alpha = 1, beta = 0`` is.

    Integers are words of 64 bits. In the words of row-major memory it computes C = op(A) op(B) and is given
    ``(&tb, &ta, &n, &m, &k, &one, b, &ldb, a, &lda, &zero, c, &ldc)``.

    >>> gemm_text("f32", Machine(64, 8, 3)).count("define void @tracejit_product(")
    1
    """
    if dtype == "bf16":
        kind, column = Pairs(machine), Pairs(_one_vector(machine, 4))
        return _module(kind, pair_functions(kind, column), pair_declarations(kind, column))
    plain = Kind(dtype, machine)
    narrow = Kind(dtype, _one_vector(machine, plain.nbytes))
    return _module(plain, strip_functions(plain, narrow), declarations(narrow))


def _one_vector(machine: Machine, nbytes: int) -> Machine:
    """Vectors that hold as many elements as a block has rows."""
    return Machine(machine.rows * nbytes, machine.rows, 1)


def _module(kind: Kind, laying_out: list[str], more: str) -> str:
    used = (declarations(kind), more, _DECLARATIONS)
    parts = list(dict.fromkeys(line for lines in used for line in lines.splitlines()))
    parts += [_block(kind, v) for v in range(1, kind.machine.vectors + 1)]
    return "\n".join([*parts, *laying_out, _product(kind)])


_DECLARATIONS = """declare i64 @llvm.smax.i64(i64, i64)
declare noalias ptr @malloc(i64)
declare void @free(ptr)
declare void @abort() noreturn
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"""


def _block(kind: Kind, vectors: int) -> str:
    """A block of results.

    for (t = 0; t < terms; t++) for rows i, vectors v: sum[i][v] += a[i * row + t * step] * b[t * pitch][v];
    c[i * ldc][v] = sum[i][v], added to what stands there where ``more`` says so; ``last`` masks the last vector.
    With each term a line is asked for that a later block needs: the first at ``later``, the others ``apart``.
    Of a dtype whose elements are pairs of terms, t counts pairs.
    """
    f = inner(
        kind,
        f"internal void @block.{vectors}(ptr noalias %a, i64 %row, i64 %step, i64 %rows,"
        " ptr noalias %b, i64 %pitch, i64 %last, i64 %terms, ptr noalias %c, i64 %ldc, i1 %more,"
        " ptr %later, i64 %apart)",
    )
    last = kind.as_mask(f, "%last")
    bottom = f.difference("%rows", 1)
    lines = [
        f.at("%a", f.product("%row", f.least(i, bottom)), "i8") for i in range(kind.machine.rows)
    ]
    sums = [[f.variable(kind.vector, "zeroinitializer") for _ in range(vectors)] for _ in lines]

    ahead = f.product("%pitch", _AHEAD)
    strip, at, after = f.variable("ptr", "%b"), f.variable("i64", 0), f.variable("ptr", "%later")

    def add(number_at: Callable[[FunctionText, str], str]) -> None:
        place, now = strip.get(), at.get()
        right = kind.vectors_at(f, place, vectors)
        factors = [kind.load(f, vector) for vector in right[:-1]]
        factors.append(kind.masked_load(f, right[-1], last))
        for line in kind.vectors_at(f, f.at(place, ahead, "i8"), vectors):
            kind.prefetch(f, line)
        for line, row in zip(lines, sums, strict=True):
            number = number_at(f, f.at(line, now, "i8"))
            for total, factor in zip(row, factors, strict=True):
                total.set(kind.multiply_add(f, number, factor, total.get()))
        strip.set(f.at(place, "%pitch", "i8"))
        at.set(f.sum(now, "%step"))
        if vectors == kind.machine.vectors:  # narrower blocks have no time for it
            kind.prefetch(f, after.get(), level=2)
            after.set(f.at(after.get(), "%apart", "i8"))

    whole, odd = ("%terms", None) if kind.together == 1 else f.divided("%terms", kind.together)
    with f.loop(0, whole):
        add(kind.number)
    if isinstance(kind, Pairs) and odd is not None:
        with f.when(f.compare("ne", odd, 0)):
            add(kind.single)
    for begun in (True, False):
        with f.when("%more" if begun else f.make("xor i1 %more, true")):
            _write(f, kind, sums, last, begun)
    f.add("ret void")
    return f.finish()


def _write(f: FunctionText, kind: Kind, sums: list[list[Variable]], last: str, begun: bool) -> None:
    """Sums to memory, added to what stands there where they are ``begun``; ``last`` masks the last vector of rows."""
    line = f.variable("ptr", "%c")
    for i, row in enumerate(sums):
        with f.when(f.compare("slt", i, "%rows")):
            now = line.get()
            places = kind.vectors_at(f, now, len(row))
            values = [total.get() for total in row]
            if begun:
                before = [kind.load(f, place) for place in places[:-1]]
                before.append(kind.masked_load(f, places[-1], last))
                pairs = zip(before, values, strict=True)
                values = [f.make(f"fadd {kind.vector} {old}, {new}") for old, new in pairs]
            for value, place in zip(values[:-1], places[:-1], strict=True):
                kind.store(f, value, place)
            kind.masked_store(f, values[-1], places[-1], last)
            line.set(f.at(now, "%ldc", "i8"))


class _Strips(NamedTuple):
    """How columns are divided: the first ``wider`` strips have ``base + 1`` vectors, the others ``base``."""

    f: FunctionText
    kind: Kind
    columns: str
    number: str  # of strips
    base: str
    wider: str

    @classmethod
    def of(cls, f: FunctionText, kind: Kind, columns: str) -> _Strips:
        """Strips that are as wide as each other, or nearly."""
        vectors = f.quotient_up(columns, kind.lanes)
        count = f.quotient_up(vectors, kind.machine.vectors)
        return cls(f, kind, columns, count, *f.divided(vectors, count))

    def at(self, number: str) -> tuple[str, str]:
        """The first column of a strip, and its vectors."""
        first = self.f.sum(self.f.product(number, self.base), self.f.least(number, self.wider))
        more = self.f.make(f"zext i1 {self.f.compare('slt', number, self.wider)} to i64")
        return self.f.product(first, self.kind.lanes), self.f.sum(self.base, more)

    def last(self, column: str, vectors: str) -> str:
        """Bits for those elements of the last vector of a strip that are columns of the product."""
        f, lanes = self.f, self.kind.lanes
        begin = f.sum(column, f.product(f.difference(vectors, 1), lanes))
        return self.kind.first_bits(f, f.difference(self.columns, begin))


def _product(kind: Kind) -> str:
    """The whole product.

    for some terms, some strips: { lay out the strips; for some rows: { lay out their blocks; for all of both: block } }
    """
    f = FunctionText(
        "void @tracejit_product(ptr %tb.p, ptr %ta.p, ptr %n.p, ptr %m.p, ptr %k.p, ptr %one,"
        " ptr %b, ptr %ldb.p, ptr %a, ptr %lda.p, ptr %zero, ptr %c, ptr %ldc.p)"
    )
    _Product(f, kind).write()
    return f.finish()


class _Product:
    """The words of a product, and the code that walks it."""

    def __init__(self, f: FunctionText, kind: Kind) -> None:
        self.f, self.kind = f, kind
        self.m, self.n, self.k = (f.word(f"%{name}.p", 0) for name in "mnk")
        self.lda, self.ldb = (f.product(f.word(f"%{x}.p", 0), kind.given) for x in ("lda", "ldb"))
        self.ldc = f.product(f.word("%ldc.p", 0), kind.nbytes)
        turned_a, self.turned_b = (
            f.make(f"icmp eq i8 {f.make(f'load i8, ptr %{name}.p')}, {ord('T')}")
            for name in ("ta", "tb")
        )
        self.row = self.either(turned_a, kind.given, self.lda)
        #: From term to term of the left operand, and from element to element.
        self.term = self.either(turned_a, self.lda, kind.given)
        self.step = self.either(turned_a, self.lda, kind.nbytes)
        self.strips = _Strips.of(f, kind, self.n)
        count = f.quotient_up(self.k, kind.together)
        elements = f.quotient_up(count, f.quotient_up(count, TERMS))
        self.terms = f.product(elements, kind.together)
        #: Are strips read where they lie?
        self.direct = self.uncopied() if kind.together == 1 else "false"
        self.room = f.product(elements, kind.strip_bytes)
        fitting = f.most(1, f.divided(STRIPS_BYTES, self.room)[0])
        copied = f.least(fitting, self.strips.number)
        #: Do all rows meet one strip before the next is laid out?
        self.low = f.compare("sle", self.m, BLOCKS * kind.machine.rows)
        self.at_once = self.either(
            self.direct, self.strips.number, self.either(self.low, 1, copied)
        )
        #: Are blocks of rows laid out? Numbers only where several strips meet them.
        several = f.compare("sgt", self.strips.number, 1) if kind.together == 1 else "true"
        far = f.compare("sgt", f.product(self.terms, self.lda), _NEAR_ROWS)
        worth = f.make(f"or i1 {self.other(self.direct)}, {far}")
        self.moved = f.make(f"and i1 {f.make(f'and i1 {turned_a}, {several}')}, {worth}")
        self.height = kind.machine.rows * kind.nbytes
        # One line more, so that the blocks' numbers for one term are not all in one set of the cache.
        self.block_room = f.sum(f.product(elements, self.height), 128)

    def uncopied(self) -> str:
        """Is a copy of the right operand not worth while?"""
        f = self.f
        span = f.product(self.terms, self.ldb)

        def near(blocks: int, nbytes: int) -> str:
            few = f.compare("sle", self.m, blocks * self.kind.machine.rows)
            return f.make(f"and i1 {few}, {f.compare('sle', span, nbytes)}")

        apart = f.compare("ne", f.make(f"and i64 {self.ldb}, {_APART - 1}"), 0)
        found = f.make(f"and i1 {apart}, {near(*_UNCOPIED_APART)}")
        for limits in _UNCOPIED:
            found = f.make(f"or i1 {found}, {near(*limits)}")
        return f.make(f"and i1 {found}, {self.other(self.turned_b)}")

    def either(self, condition: str, a: str | int, b: str | int) -> str:
        """One of two words."""
        return self.f.make(f"select i1 {condition}, i64 {a}, i64 {b}")

    def other(self, condition: str) -> str:
        """The opposite."""
        return self.f.make(f"xor i1 {condition}, true")

    def write(self) -> None:
        """The code."""
        f, kind = self.f, self.kind
        spare = kind.lanes * kind.strip_bytes  # what `turned` writes beyond the last term
        needed = f.sum(f.product(self.room, self.at_once), spare)
        of_strips = self.memory(self.other(self.direct), needed)
        of_blocks = self.memory(self.moved, f.product(self.block_room, BLOCKS))
        strips, blocks = f.aligned(of_strips), f.aligned(of_blocks)
        along = self.either(self.turned_b, kind.given, self.ldb)
        with (
            f.loop(0, self.k, self.terms) as t,
            f.loop(0, self.strips.number, self.at_once) as s0,
        ):
            now = f.least(self.terms, f.difference(self.k, t))
            s1 = f.least(f.sum(s0, self.at_once), self.strips.number)
            right = f.at("%b", f.product(t, along), "i8")
            with f.when(self.other(self.direct)), f.loop(s0, s1) as s:
                self.lay_out_strip(s, f.product(f.difference(s, s0), self.room), strips, right, now)
            left = f.at("%a", f.product(t, self.term), "i8")
            with f.loop(0, self.m, BLOCKS * kind.machine.rows) as i0:
                rows = f.least(BLOCKS * kind.machine.rows, f.difference(self.m, i0))
                top = f.at(left, f.product(i0, self.row), "i8")
                again = f.make(f"and i1 {self.low}, {f.compare('sgt', s0, 0)}")
                with f.when(f.make(f"and i1 {self.moved}, {self.other(again)}")):
                    f.add(
                        f"call void @columns(ptr {blocks}, ptr {top}, i64 {self.lda}, i64 {now},"
                        f" i64 {rows}, i64 {self.block_room})"
                    )
                with f.loop(0, rows, kind.machine.rows) as i, f.loop(s0, s1) as s:
                    laid = f.at(strips, f.product(f.difference(s, s0), self.room), "i8")
                    block = f"{self.block(i, blocks, top)}, i64 {self.rows_at(i, rows)}"
                    later = self.later(f.sum(i0, i), s, right)
                    self.call_block(block, s, laid, right, now, f.sum(i0, i), t, later)
        for place in (of_strips, of_blocks):
            f.add(f"call void @free(ptr {place})")
        f.add("ret void")

    def memory(self, condition: str, nbytes: str) -> str:
        """Memory where it is needed, in which a cache line begins within 64 bytes, else null.

        Without memory the process ends, as it does in other BLAS: nobody is told of a product that was not computed.
        """
        f = self.f
        found = f.variable("ptr", "null")
        with f.when(condition):
            taken = f.make(f"call ptr @malloc(i64 {f.sum(nbytes, 64)})")
            with f.when(f.make(f"icmp eq ptr {taken}, null")):
                f.add("call void @abort()")
            found.set(taken)
        return found.get()

    def lay_out_strip(self, s: str, offset: str, strips: str, right: str, now: str) -> None:
        """Copy a strip of the right operand, for ``now`` terms."""
        f = self.f
        column, vectors = self.strips.at(s)
        across = self.either(self.turned_b, self.ldb, self.kind.given)
        given = (
            f"ptr {f.at(strips, offset, 'i8')}, ptr {f.at(right, f.product(column, across), 'i8')},"
            f" i64 {self.ldb}, i64 {now}, i64 {f.difference(self.n, column)}, i64 {vectors}"
        )
        with f.when(self.turned_b):
            f.add(f"call void @turned({given})")
        with f.when(self.other(self.turned_b)):
            f.add(f"call void @copied({given})")

    def rows_at(self, i: str, rows: str) -> str:
        """How many rows the block has that begins with row ``i`` of ``rows``."""
        return self.f.least(self.kind.machine.rows, self.f.difference(rows, i))

    def block(self, i: str, blocks: str, top: str) -> str:
        """Where the block of rows lies that begins with row ``i``, and its strides."""
        f = self.f
        number = f.divided(i, self.kind.machine.rows)[0]
        moved = f.at(blocks, f.product(number, self.block_room), "i8")
        lying = f.at(top, f.product(i, self.row), "i8")
        place = f.make(f"select i1 {self.moved}, ptr {moved}, ptr {lying}")
        row = self.either(self.moved, self.kind.nbytes, self.row)
        return f"ptr {place}, i64 {row}, i64 {self.either(self.moved, self.height, self.step)}"

    def later(self, i: str, s: str, right: str) -> str:
        """What the block that begins with row ``i`` asks for, a line with each term.

        The last blocks that meet a strip ask for the one that is laid out in its place. Where nothing is to come,
        the line is one that is there.
        """
        f, kind = self.f, self.kind
        after = f.sum(s, self.at_once)
        left = f.divided(f.difference(f.difference(self.m, 1), i), kind.machine.rows)[0]
        asks = [f.compare("slt", after, self.strips.number), self.other(self.turned_b)]
        asks += [f.compare("sle", left, kind.machine.vectors), self.other(self.direct)]
        asked = "true"
        for condition in asks:
            asked = f.make(f"and i1 {asked}, {condition}")
        column = f.product(self.strips.at(after)[0], kind.given)
        place = f.at(right, f.sum(column, f.product(left, 64)), "i8")
        line = f.make(f"select i1 {asked}, ptr {place}, ptr {right}")
        return f"ptr {line}, i64 {self.either(asked, self.ldb, 0)}"

    def call_block(
        self, block: str, s: str, laid: str, right: str, now: str, i: str, t: str, later: str
    ) -> None:
        """A block of rows meets a strip: results from row ``i`` on, from term ``t`` on."""
        f, kind = self.f, self.kind
        column, vectors = self.strips.at(s)
        own = f.at(right, f.product(column, kind.nbytes), "i8")
        strip = f.make(f"select i1 {self.direct}, ptr {own}, ptr {laid}")
        pitch = self.either(self.direct, self.ldb, f.product(vectors, kind.machine.vector))
        place = f.sum(f.product(i, self.ldc), f.product(column, kind.nbytes))
        given = (
            f"{block}, ptr {strip}, i64 {pitch}, i64 {self.strips.last(column, vectors)}, i64 {now},"
            f" ptr {f.at('%c', place, 'i8')}, i64 {self.ldc}, i1 {f.compare('sgt', t, 0)},"
            f" {later}"
        )
        for wide in range(1, kind.machine.vectors + 1):
            with f.when(f.compare("eq", vectors, wide)):
                f.add(f"call void @block.{wide}({given})")
