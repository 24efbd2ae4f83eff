"""Places of the Python state that a function fills itself: read at every call like arguments, stored after it.

``self.hidden = h``, ``self.cache = cat([self.cache, k])``, ``self.maps = []``: what lies in such a place is another
object after every call. Once a function was seen to change a place twice, what is there counts among its arguments
(the signature has its structure and its tensors, a replay is given them), and what the run leaves there is one more
result, which replays store in the place when nothing can fail any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import is_
from typing import TYPE_CHECKING, Any, Literal
from weakref import ReferenceType, ref

from ...numpy_numbers import NUMBERS
from ...tensor import Tensor
from ..numbers.arguments import Change, put_in
from ..numbers.places import Place, PlaceKey, place_of
from ..objects import comes_apart, take_apart
from ..recording.sent_logs import check_sent
from ..signature import (
    MAPPINGS,
    fields_of,
    flatten,
)
from ..state.checks import Read
from ..state.modules import parameter_class
from ..state.reads import Names
from ..state.values import MISSING, is_value
from .read_places import has_twin

if TYPE_CHECKING:
    from ..recording.recorder import Recorder

#: Most places that one form of call may hold, forms of calls with such places, places that were seen to change once.
MAX_HELD, MAX_FORMS, MAX_SUSPECTS = 4096, 256, 4096
#: Places of one form from which on it is looked whether they are still in use.
MANY = 64


def see(places: Iterable[Place], names: Names) -> bool:
    """Code with these ``names`` is about to be recorded: does it look at places that so far were only set?"""
    read = [p for p in places if p.blind and not names.only_sets(p.check.key)]
    for place in read:
        place.blind = False
    return bool(read)


def form_of(args: Any, kwargs: Any) -> Any:
    """What calls have in common that read the same places: the structure of their arguments but for numbers."""
    if not kwargs and all(isinstance(x, Tensor) for x in args):
        return len(args)
    return flatten((args, kwargs), [], [])


class Holding:
    """The places that one function fills, by the form of the call."""

    def __init__(self) -> None:
        self.known: dict[Any, tuple[Place, ...]] = {}
        #: Places that changed once. This keeps what holds them, so that identities stay theirs; modules may go.
        self.suspects: dict[PlaceKey, Place | ReferenceType[Any]] = {}

    def places(self, form: Any) -> tuple[Place, ...]:
        """The places that calls of a form read."""
        return self.known.get(form, ())

    @property
    def sizes(self) -> bool:
        """Do any places hold sizes?"""
        return any(place.sized for places in self.known.values() for place in places)

    def take_for_sizes(self, form: Any, places: Iterable[Place]) -> None:
        """The numbers in these places index or bound slices in calls of a form."""
        for place in places:
            place.sized = True
        self.known[form] = tuple(dict.fromkeys((*self.places(form), *places)))

    def forget(self, form: Any, reached: Collection[int]) -> None:
        """Where calls of a form read many places: do without those in objects that are not ``reached`` any more."""
        places = self.places(form)
        if len(places) > MANY:
            ends = [(p, (id(p.check.holder), id(p.owner))) for p in places]
            self.drop(form, [p for p, ids in ends if not any(x in reached for x in ids)])

    def drop(self, form: Any, places: Collection[Place]) -> None:
        """Calls of a form do not read these places any more."""
        left = tuple([place for place in self.places(form) if place not in places])
        self.known.pop(form, None)
        if left:
            self.known[form] = left

    def learn(self, form: Any, reads: Iterable[Read], names: Names) -> bool:
        """A run of code with these ``names`` changed places; True when calls of its form read more of them now."""
        found = {place.key: place for place in self.known.get(form, ())}
        count = len(found)
        for read in reads:
            place = Place(read, object, read.owner, _is_blind(read, names))
            before = self.suspects.get(place.key)
            if before is not None and (isinstance(before, Place) or before() is place.owner):
                take_apart(x for x in (read.expected, read.current()) if not is_holdable(x))
                found.setdefault(place.key, place)
            elif len(self.suspects) < MAX_SUSPECTS:
                self.suspects[place.key] = place if place.owner is None else ref(place.owner)
        if len(found) == count or len(found) > MAX_HELD:
            return False
        if form not in self.known and len(self.known) >= MAX_FORMS:
            self.known.pop(next(iter(self.known)))
        self.known[form] = tuple(found.values())
        return True


def told_apart(reads: Sequence[Read]) -> tuple[list[Place], list[Read]] | None:
    """Places with other numbers, and those that hold something else now; None where some can be neither."""
    numbers, others = [], []
    for read in reads:
        now = read.current()
        number = place_of(read, now)
        if number is not None:
            numbers.append(number)
        elif {type(read.expected), type(now)} <= {*NUMBERS, type(None)}:
            pass  # a sum of an epoch starts with 0 or None: the next call finds it as later ones do
        elif read.writable and all(is_holdable(x) or comes_apart(x) for x in (read.expected, now)):
            others.append(read)
        else:
            return None
    return numbers, others


@contextmanager
def standing_for(
    places: Sequence[Place],
    sizes: Mapping[Place, Any],
    replace: Callable[[Any], Any] | Literal[False] = False,
) -> Iterator[list[Any]]:
    """What lies in places while a function is recorded: ``sizes`` in some of them, numbers replaced in others.

    A twin stands for a tensor, list or text that the code only replaces, so that it can be seen whether it does.
    """
    changes: list[Change] = []
    found: list[Any] = []
    standing: list[tuple[Place, Any, Any]] = []
    try:
        for place in places:
            value = other = place.read()
            if place.blind and has_twin(value):
                other = _twin(value)
            elif place in sizes:
                other = sizes[place]
            elif replace:
                other = put_in(value, replace, changes)
            if other is not value:
                standing.append((place, value, other))
                place.put(other)
            found.append((other, contents(other)))
        yield found
    finally:
        for undo in reversed(changes):
            undo()
        for place, value, other in standing:
            if place.read() is other:
                place.put(value)


class Filled:
    """A place of the Python state whose list or dict stays there, and holds something else after a call."""

    owner = None

    def __init__(self, place: Place) -> None:
        self.place = place

    @property
    def name(self) -> str:
        """What users call it."""
        return f"what is in {self.place.name}"

    @property
    def key(self) -> Any:
        """What makes two of them the same."""
        return "in", self.place.key

    def read(self) -> Any:
        """What is in it."""
        return contents(self.place.read())

    def put(self, value: Any) -> None:
        """Fill it with something else."""
        target = self.place.read()
        if type(target) is list:
            target[:] = value
        else:
            target.clear()
            target.update(value)

    store = put


def contents(value: Any) -> Any:
    """A list or a dict that holds the same; anything else as it is.

    >>> contents([1, 2]), contents(3)
    ([1, 2], 3)
    """
    return value.copy() if type(value) in (list, dict) else value


def is_same(value: Any, before: Any) -> bool:
    """Does a list or dict hold the very same as before?"""
    if type(value) not in (list, dict):
        return True
    if type(value) is dict and [*value] != [*before]:
        return False
    now = [*value.values()] if type(value) is dict else value
    old = [*before.values()] if type(value) is dict else before
    return len(now) == len(old) and all(map(is_, now, old))


def _twin(value: Any) -> Any:
    """Another tensor, list, dict, tuple or text that is the same to all who look."""
    if isinstance(value, Tensor):
        return _twin_tensor(value)
    if type(value) is str:
        return (value + " ")[:-1]
    return type(value)([*value]) if isinstance(value, tuple) else value.copy()


def _twin_tensor(tensor: Tensor) -> Tensor:
    twin = tensor._alias()
    twin._requires_grad, twin._grad_fn = tensor._requires_grad, tensor._grad_fn
    twin._output_nr = tensor._output_nr
    return twin


def with_held(
    recorder: Recorder,
    places: Sequence[Place],
    before: Sequence[Any],
    result: Any,
    outside: Callable[[], Collection[int]],
    appended: Sequence[Any] = (),
) -> Any:
    """The result of a recorded run, in a tuple with what it left in ``places`` where that is something else.

    That is followed by what it ``appended`` to lists.
    """
    left: list[tuple[Any, Any, Any]] = []
    for place, (old, was) in zip(places, before, strict=True):
        now = place.read()
        filled = not is_same(old, was)
        if now is not old:
            left.append((place, now, old))
            if filled:
                recorder.unsupported(f"what is in {place.name} is changed, and replaced then")
        elif filled:
            left.append((Filled(place), contents(old), was))
    left += [(tail, tail.read(), None) for tail in appended if len(tail.target) != tail.start]
    left += [(record, record.read(), None) for record in recorder.sent]
    left += [(part, now, None) for part, now in recorder.in_arguments or ()]
    check_sent(recorder)
    for tail in appended:
        if tail.shrunk:
            recorder.overtaken = f"what was in {tail.name} was taken away meanwhile"
    for place, now, _ in left if recorder.failure is None else ():  # else it knows not all it made
        tensors: list[Any] = []
        flatten(now, tensors)
        if not all(recorder.knows(t) or id(t) in outside() for t in tensors):
            recorder.overtaken = f"another thread changed {place.name}"
    recorder.held = tuple([place for place, _, _ in left])
    return (result, *[now for _, now, _ in left]) if left else result


def without_held(recorder: Recorder, made: Any) -> Any:
    """The result of a recorded run in what :func:`with_held` made of it; the rest is put where it was found."""
    if not recorder.held:
        return made
    for place, value in zip(recorder.held, made[1:], strict=True):
        if place.read() is not value:  # it had numbers that vary
            place.put(value)
    return made[0]


def is_holdable(value: Any) -> bool:
    """Is this made of tensors, parameters, plain values and containers of such, or not there at all?"""
    if isinstance(value, Tensor):
        parameter = parameter_class()  # calls make no objects of classes derived from it
        return type(value) is parameter or parameter is None or not isinstance(value, parameter)
    kind = type(value)
    if kind is list or isinstance(value, tuple):
        return all(map(is_holdable, value))
    if kind in MAPPINGS:
        return all(map(is_holdable, value.values()))
    if value is MISSING or is_value(value):
        return True
    names = fields_of(value)
    return names is not None and all(is_holdable(getattr(value, name)) for name in names)


def holds_tensors(value: Any) -> bool:
    """Is this a tensor, or a container with some?"""
    found: list[Any] = []
    flatten(value, found)
    return bool(found)


def _is_blind(read: Read, names: Names) -> bool:
    """Is this an attribute or a global that the code sets and does not read?"""
    holder = read.holder
    lies_in_table = read.owner is not None and holder is not vars(read.owner)
    plain = isinstance(holder, dict) and isinstance(read.key, str) and not lies_in_table
    named = plain and not read.name.startswith("item ")
    return named and names.only_sets(read.key)
