"""What a recorded run does with numbers that may differ from call to call.

Each stands in for a number of the user's while the run is recorded. Arithmetic makes more of them; a comparison becomes
a guard on its outcome, a value that Python has to see becomes a guard on that value, which is a constant from there on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from ...autograd.grad_mode import no_grad
from ...autograd.op_node import OpNode
from ...extents import Extent
from ...ir.graph import Value
from ...ops.functions.common import as_type
from ...ops.kinds import operand_info
from ...ops.table import Elementwise, Op
from ...standing import stands
from ...tensor import Tensor
from ...types import Scalar
from ...varying import VaryingFloat, VaryingInt, is_varying, plain
from ...varying_arrays import VaryingArray
from ..numbers.clocks import ClocksInside
from ..numbers.compared_items import compared_in, comparison_of_item
from ..numbers.drawn import BOOLS, choices, outcomes, ways
from ..numbers.fitness import check_codes
from ..numbers.logged_texts import LoggedTexts
from ..numbers.numbers import LATE, ItemRead, Number, NumberGuard, UnfitError, outcome_key
from ..numbers.percents import PercentsInside
from ..numbers.plain_parts import plain_parts
from ..numbers.texts import TextsInside
from ..sizes.found_sizes import has_extents, user_line
from ..state.picked_items import PickedItem
from .arrays_drawn import ArraysDrawn

#: Numbers of a list that are read one by one.
MAX_ITEMS = 32
#: The same for bools, each of which is a branch.
MAX_BOOLS = 8
#: What generators draw one by one.
_NUMBERS = frozenset({int, float})
#: Among how many paths random numbers may decide.
MAX_WAYS = 64

if TYPE_CHECKING:
    from ..numbers.places import Place, PlaceKey
    from ..state.checks import Check
    from .inputs import Signature


class NumbersInside(ArraysDrawn, TextsInside, PercentsInside, LoggedTexts, ClocksInside):
    """The part of a recorder that follows numbers."""

    signature: Signature
    failure: str | None
    guards: dict[tuple[Value, Any], None]
    path: dict[Any, None]
    unsupported: Callable[[str], None]
    value_of: Callable[[Tensor], Value]
    guard: Callable[[Tensor, Scalar], Scalar]
    end_piece: Callable[[Any], None]
    scope: Any
    foreseen: dict[tuple[int, str], dict[str, Any]]
    watched: Any
    stop_trial: Callable[[str], None]
    again: Callable[[Any], None]
    not_in_rounds: Callable[[], None]
    all_written: Callable[[], None]

    def __init__(self) -> None:
        TextsInside.__init__(self)
        PercentsInside.__init__(self)
        LoggedTexts.__init__(self)
        ClocksInside.__init__(self)
        self.sizes_read = False  # has a size become a number?
        self.pinned: dict[Number, Any] = {}  # numbers whose value a guard has fixed
        self.handed_out: list[ref[Any]] = []
        self.on_the_tape: list[Any] = []  # the steps of what was computed from numbers
        self.item_lines: Collection[Any] = ()  # where numbers are read from tensors that vary
        self.lists_read: set[Any] = set()  # where lists of sizes were read
        self.value_lists: set[Any] = set()  # where lists are more than that, and read one by one
        self.stores: dict[Any, Any] = {}  # what the run put in places that vary, and in arguments
        self.found_in_places: dict[Place, Any] = {}  # what lay in the former
        self.items_read: set[Number] = set()
        self.ways = 1.0  # among which what was drawn decides
        self.drawn: dict[Number, float] = {}  # from Python's generators, of how many numbers each
        self.standing: frozenset[PlaceKey] = (
            frozenset()
        )  # the places in which numbers stand that vary
        self.codes: Sequence[CodeType] = ()  # of the recorded function, and of what it calls
        self.state_checks: Sequence[Check] = ()  # of the Python state that it can read
        self.sums_followed = True  # do all its ways to ``sum`` keep numbers varying?
        self.follow: Callable[[], Any] | None = None  # lets functions of numbers keep them varying
        self.fit = True  # can this code do with numbers that stand for sizes?

    @property
    def showed_sizes_or_numbers(self) -> bool:
        """Did the user's code get numbers that stand for those of other calls?"""
        return bool(self.handed_out) or self.scope is not None

    def more_than_sizes(self, reason: str) -> None:
        """What was read as a list of sizes is more: from the next recording on, the numbers are read one by one."""
        self.value_lists |= self.lists_read
        self.unsupported(reason)

    def follows_items(self, tensor: Tensor) -> bool:
        """Are the values, which are asked for as a list, few enough to be read one by one?"""
        kind = tensor.spec
        if self.failure is not None or has_extents(kind.shape) or len(kind.shape) > 2:
            return False
        most = MAX_BOOLS if kind.dtype.category == "bool" else MAX_ITEMS
        few = tensor.array.size <= most and kind.shape[:1] <= (most,)
        if kind.dtype.category == "int" and len(kind.shape) == 1:
            few = few and self.is_value_list(tensor)
        return bool(few and not kind.dtype.is_complex)

    def is_value_list(self, tensor: Tensor) -> bool:
        """Are the ints of a vector, asked for as a list, no sizes, as far as is known of the line?"""
        line, array = user_line(), tensor.array
        if line not in self.value_lists and array.size and int(array.min()) < 0:
            self.value_lists.add(line)
        return line in self.value_lists

    # --- making them -----------------------------------------------------------------------------------------------

    def varying(self, number: Number, value: Any) -> Any:
        """What the user's code gets for ``number``: it asks what listens, so nothing else may have that place."""
        self.all_written()
        made = _standing_for(value)(value, number, self)
        self.handed_out.append(ref(made))
        return made

    def foreseen_as_they_are(self) -> None:
        """Plain numbers in the places where those stood that schedules will set."""
        for (_, key), space in self.foreseen.items():
            dict.__setitem__(space, key, plain(space[key]))

    def let_go_of_numbers(self) -> None:
        """The run is over, or not recorded any further: its tape may outlive it, and computes with values."""
        # What it stores would look, to those who search for numbers that are left somewhere, like the user's.
        self.stores = {place: plain_parts(x) for place, x in self.stores.items()}
        for made in (self.texts, self.percents, self.formatted, self.messages):
            made.clear()
        while self.on_the_tape:
            node = self.on_the_tape.pop()
            if isinstance(node, OpNode):
                node.operands = plain_parts(node.operands)
                if node.saved:
                    node.saved = {name: plain(x) for name, x in node.saved.items()}

    def varies(self, source: Value, value: Scalar) -> bool:
        """Is a number read from ``source`` one that varies? The first time it is read decides."""
        number = self.signature.numbers.known.get(("item", source))
        if number in self.items_read or (source, outcome_key(value)) in self.guards:
            return number in self.items_read
        return user_line() in self.item_lines

    def compared(self, tensor: Tensor, value: Scalar) -> bool:
        """Is the number that a tensor holds compared at once, and nothing else? Then the outcome is the guard."""
        found = comparison_of_item(tensor.dtype.is_floating_point)
        dtype = None if found is None else compared_in(tensor.dtype, found[2])
        if found is None or dtype is None:
            return False
        compare, op, limit = found
        with no_grad():
            outcome = op(as_type(tensor.detach(), dtype), limit)
        self.guard(outcome, compare(value, limit))
        return True

    def item(self, source: Value, value: Scalar) -> Any:
        """Python reads the number that ``source`` holds."""
        number = self.signature.numbers.source("item", source, type(value), "item")
        if number not in self.items_read:
            self.items_read.add(number)
            self.end_piece(ItemRead(source, number, user_line()))
            self.path[number] = None
        return self.varying(number, value)

    def follow_sizes(self) -> None:
        """From here on there are sizes that the run told, which Python may compute with."""
        reason = self.follow_numbers()
        if reason is not None:
            self.fit = False
            self.unsupported(f"sizes that only the run tells: {reason}")

    def follow_numbers(self) -> str | None:
        """From here on numbers may vary that did not when the run began, unless the code cannot do with them: why."""
        try:
            check_codes(self.codes, self.state_checks, self.sums_followed)
        except UnfitError as error:
            return str(error)
        if self.follow is not None:
            self.follow()
        return None

    def size(self, extent: Extent) -> Any:
        """A size that the run told, as a number for Python to compute with."""
        self.sizes_read = True
        if not self.fit:
            return int(extent)
        compute = self.signature.sizes.numbered(extent)
        return self.varying(self.signature.numbers.size(extent.terms, compute), extent.value)

    def number_derived(self, name: str, operands: Sequence[Any], value: Any) -> Any:
        """The result of an operation; a constant where all operands are."""
        known = self._operands(operands)
        if not any(isinstance(x, Number) for x in known):
            return value
        number = self.signature.numbers.operation(name, known, type(value))
        if number in self.pinned:
            return value
        self._step(number)
        return self.varying(number, value)

    # --- what Python sees ---------------------------------------------------------------------------------------------

    def number_seen(self, name: str, operands: Sequence[Any], value: Any) -> None:
        """Python sees the result of an operation."""
        known = self._operands(operands)
        if any(isinstance(x, Number) for x in known):
            self.number_forced(self.signature.numbers.operation(name, known, type(value)), value)

    def number_forced(self, number: Number, value: Any) -> None:
        """Python sees a number: from here on it is a constant."""
        self._refuse_late(number)
        if number not in self.pinned:
            self._decide(number)
            self._step(number)
            self.pinned[number] = value
            self.end_piece(NumberGuard(number, value, user_line()))

    def _decide(self, number: Number) -> None:
        """What follows hangs on a number: one drawn from many others, or a time, hardly comes again."""
        found = ways(number, self.drawn)
        if number.kind not in BOOLS and outcomes(number, self.clocks) == math.inf:
            self.unsupported("a time decides, which is another one in each call")
        self.ways *= found
        if self.ways > MAX_WAYS:
            self.unsupported("random numbers decide among too many ways to go on")

    def _operands(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Numbers for the operands that vary, values for all others."""
        known = self._told(operands)
        for x in known:
            self._refuse_late(x)
        return known

    def _told(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """The same where late numbers will do."""
        return tuple(
            x._number
            if stands(x) and x._owner is self and x._number not in self.pinned
            else plain(x)
            for x in operands
        )

    def _refuse_late(self, x: Any) -> None:
        if isinstance(x, Number) and x.name == LATE:
            self.unsupported(f"{x.label}, which is set at the end of the call, is computed with")

    def late(self, read: Callable[[], Any], key: Any, value: float, label: str) -> Any:
        """What the user's code gets for a number that ``read`` gives when everything else has run."""
        return self.varying(self.signature.numbers.late(read, key, label), value)

    def number_called(
        self, function: Callable[..., Any], operands: Sequence[Any], key: Any, label: str
    ) -> Number:
        """The number that ``function`` makes of others, and of what else it reads, at every call."""
        number = self.number_foreseen(function, operands, key, label)
        self._step(number)
        return number

    def number_drawn(
        self, method: Callable[..., Any], given: Sequence[Any], named: Mapping[str, Any]
    ) -> Any:
        """The number, or the array, that a method of a generator draws, now and in every call."""
        self.stop_trial("draws a random number")
        self.not_in_rounds()
        values = [plain(x) for x in given]
        kinds = self.kinds_drawn(given, named)
        value = self._draw(partial(method, **named) if named else method, values, kinds)
        if type(value) not in kinds:
            return value
        if type(value) is np.ndarray:
            return self.array_drawn(method, given, named, value)
        generator = method.__self__  # type: ignore[attr-defined]
        key = ("drawn", id(generator), method.__name__, len(self.drawn))
        known = self.number_foreseen(method, given, key, f"{method.__name__}()", type(value))
        self.drawn[known] = choices(method, values)
        self.signature.numbers.generators[id(generator)] = generator
        self._step(known)
        return self.varying(known, value)

    def item_picked(self, method: Callable[..., Any], given: Sequence[Any]) -> Any:
        """The number of an item to be checked, which decides nothing; every call draws one."""
        self.stop_trial("draws a random number")
        value = self._draw(method, given, _NUMBERS)
        self.again(PickedItem())
        return value

    def _draw(self, method: Callable[..., Any], given: Sequence[Any], kinds: Any) -> Any:
        if self.watched is None:
            return method(*given)
        return self.watched.draw(self, method, given, kinds)

    def number_foreseen(
        self,
        function: Callable[..., Any],
        operands: Sequence[Any],
        key: Any,
        label: str,
        kind: type = float,
    ) -> Number:
        """The same, which only calls compute that do something with it."""
        known = self._operands(operands)
        keys = [x if isinstance(x, Number) else outcome_key(x) for x in known]
        return self.signature.numbers.call(function, known, (key, *keys), label, kind)

    def _step(self, number: Number) -> None:
        """A call has to know this number; what it is computed from comes first."""
        for x in number.operands:
            if isinstance(x, Number) and x not in self.path:
                self._step(x)
        self.path.setdefault(number)

    # --- into the graph -----------------------------------------------------------------------------------------------

    def operand(self, op: Op, operands: Sequence[Any], position: int, attributes: Any) -> Any:
        """What stands in the graph for a number among operands: a cell of the type its literal would get."""
        x = operands[position]
        if not is_varying(x):
            return x
        (number,) = self._operands([x])
        if not isinstance(number, Number):
            return number
        if not isinstance(op, Elementwise):
            return x._forced()
        infos = tuple(operand_info(y.spec if isinstance(y, Tensor) else plain(y)) for y in operands)
        promoted = op.types(infos, attributes)
        dtype = promoted[0][position]
        if (
            op.types((*infos[:position], (dtype, 1), *infos[position + 1 :]), attributes)
            != promoted
        ):
            return x._forced()
        self._step(number)
        return self.signature.cell(number, dtype)

    def returned(self, results: Sequence[Any]) -> tuple[tuple[int, Any], ...]:
        """The numbers among the results, by position."""
        found = [(i, x) for i, x in enumerate(results) if stands(x)]
        numbers = self._told([x for _, x in found])
        for number in numbers:
            if isinstance(number, Number) and number.name != LATE:
                self._step(number)
        return tuple((i, number) for (i, _), number in zip(found, numbers, strict=True))

    def stored(self) -> tuple[tuple[Place, Any], ...]:
        """The numbers that the run left in places of the Python state."""
        found = []
        for place, left in self.stores.items():
            x = self.size(left) if type(left) is Extent else left
            if type(plain(x)) is not place.kind:
                self.unsupported(f"it changes Python state: the type of {place.name}")
            (number,) = self._operands([x])
            if isinstance(number, Number):
                self._step(number)
            found.append((place, number))
        return tuple(found)

    def constants(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Attributes with the values of numbers."""
        return {name: _constant(x) for name, x in attributes.items()}


def _standing_for(value: Any) -> Any:
    """The class of what stands for a value."""
    if type(value) is np.ndarray:
        return VaryingArray
    return VaryingFloat if isinstance(value, float) else VaryingInt


#: Types of attributes that hold no varying numbers.
_PLAIN = frozenset({int, bool, float, str, type(None)})


def _constant(x: Any) -> Any:
    kind = type(x)
    if kind in _PLAIN or (kind is tuple and _PLAIN.issuperset(map(type, x))):
        return x
    if is_varying(x):
        return x._forced()
    return tuple(map(_constant, x)) if type(x) is tuple else x
