"""Facts of tensors that code reads without using their values: a recording made under others is not replayed."""

from __future__ import annotations

import math

import pytest

import tracejit as tj
from trap_tools import Stage, agree, check, user_module

#: What code can learn, and what changes the answer while the tensor stays the same object.
FACTS = {
    "requires_grad": ("1.0 if {t}.requires_grad else 2.0", "{t}.requires_grad_()"),
    "requires_grad set": ("1.0 if {t}.requires_grad else 2.0", "{t}.requires_grad = True"),
    "shape": ("float(sum({t}.shape))", "{t}.data = tj.ones(5)"),
    "size": ("float({t}.size(0))", "{t}.data = tj.ones(5)"),
    "len": ("float(len({t}))", "{t}.data = tj.ones(5)"),
    "numel": ("float({t}.numel())", "{t}.data = tj.ones(5, 2)"),
    "ndim": ("float({t}.ndim)", "{t}.data = tj.ones(5, 2)"),
    "dim": ("float({t}.dim())", "{t}.data = tj.ones(5, 2)"),
    "dtype": ("1.0 if {t}.dtype is tj.float64 else 2.0", "{t}.data = {t}.data.double()"),
    "is_floating_point": ("1.0 if {t}.is_floating_point() else 2.0", "{t}.data = {t}.data.long()"),
    "element_size": ("float({t}.element_size())", "{t}.data = {t}.data.double()"),
    "nbytes": ("float({t}.nbytes)", "{t}.data = {t}.data.double()"),
    "stride": ("float({t}.stride(0))", "{t}.data = tj.ones(6)[::2]"),
    "is_contiguous": ("1.0 if {t}.is_contiguous() else 2.0", "{t}.data = tj.ones(6)[::2]"),
    "zeros_like": ("tj.zeros_like({t}).sum() + {t}.dim()", "{t}.data = tj.ones(2, 2)"),
    "ones_like": ("tj.ones_like({t}).sum()", "{t}.data = tj.ones(5)"),
    "new_ones": ("{t}.new_ones(2).double().sum() / 3", "{t}.data = {t}.data.double()"),
    "to another's dtype": ("x.to({t}.dtype).sum()", "{t}.data = {t}.data.double()"),
    "type_as": ("x.type_as({t}).sum()", "{t}.data = {t}.data.double()"),
    "expand_as": ("x.sum().expand_as({t})", "{t}.data = tj.ones(5)"),
    "is_leaf": ("1.0 if {t}.is_leaf else 2.0", "{t}.mul_(tj.ones(3, requires_grad=True))"),
    "grad_fn": ("1.0 if {t}.grad_fn is None else 2.0", "{t}.mul_(tj.ones(3, requires_grad=True))"),
    "grad": ("1.0 if {t}.grad is None else 2.0", "{t}.grad = tj.ones(3)"),
    "storage_offset": ("float({t}.storage_offset())", "{t}.data = tj.ones(6)[2:5]"),
    "version": ("float({t}._version)", "{t}.add_(1)"),
    "version by name": ("float(getattr({t}, '_version'))", "{t}.add_(1)"),
    "attribute": ("float(getattr({t}, 'mark', 0))", "{t}.mark = 3"),
}
#: Where code finds the tensor: how it is put there, and how it is spelled.
PLACES = {
    "global": ("bank = t", "bank"),
    "item": ("held = [1, t]", "held[1]"),
    "entry": ("held = {'a': t}", "held['a']"),
    "nested": ("held = {'a': [(t,)]}", "held['a'][0][0]"),
    "attribute": (
        "class Holder: pass\nholder = Holder()\nholder.inner = Holder()\nholder.inner.kept = t",
        "holder.inner.kept",
    ),
    "slot": (
        "class Slotted:\n    __slots__ = ('kept',)\nholder = Slotted()\nholder.kept = t",
        "holder.kept",
    ),
    "class": ("class Holder:\n    kept = t", "Holder.kept"),
    "buffer": ("net = nn.Module()\nnet.register_buffer('kept', t)", "net.kept"),
    "attribute of a module": (
        "net = nn.Module()\nnet.inner = nn.Module()\nvars(net.inner)['kept'] = t",
        "net.inner.kept",
    ),
    "closure": ("def make():\n    kept = t\n    return lambda: kept\nget = make()", "get()"),
    "default": ("def get(kept=t): return kept", "get()"),
    "tensor": ("other = tj.ones(2)\nother.mate = t", "other.mate"),
    "set": ("held = frozenset([t])", "next(iter(held))"),
    "base": ("bank = t\nview = t[:2]", "bank"),
}


def scenario(place: str, fact: str) -> None:
    """A function that reads one fact, before and after it changed."""
    put, spelled = PLACES[place]
    read, change = FACTS[fact]

    def told(stage: Stage) -> None:
        source = f"t = tj.zeros(3)\n{put}\ndef f(x):\n    return x * ({read.format(t=spelled)})\n"
        world = user_module(source)
        function = stage.compile(world.f)
        x = tj.tensor([1.0, 2.0, 3.0])
        for _ in range(3):
            stage.call(function, x)
        exec(change.format(t="t"), vars(world))
        for _ in range(3):
            stage.call(function, x)

    agree(told)


@pytest.mark.parametrize("fact", FACTS)
def test_facts_of_globals(fact: str) -> None:
    scenario("global", fact)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fact", ["requires_grad", "shape", "zeros_like"])
@pytest.mark.parametrize("place", PLACES)
def test_facts_wherever_the_tensor_is_held(place: str, fact: str) -> None:
    scenario(place, fact)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("fact", FACTS)
def test_facts_of_arguments_in_containers_and_objects(fact: str) -> None:
    read, change = FACTS[fact]

    in_object, in_list = read.format(t="box.kept"), read.format(t="held['a'][0]")

    def told(stage: Stage) -> None:
        source = (
            "class Box:\n    def __init__(self, kept): self.kept = kept\n"
            f"def f(x, box): return x * ({in_object})\n"
            f"def g(x, held): return x * ({in_list})\n"
        )
        world = user_module(source)
        f, g = stage.compile(world.f), stage.compile(world.g)
        t, x = tj.zeros(3), tj.tensor([1.0, 2.0, 3.0])
        box, held = world.Box(t), {"a": [t]}
        world.t = t
        for number in range(6):
            if number == 3:
                exec(change.format(t="t"), vars(world))
            stage.call(f, x, box)
            stage.call(g, x, held)

    agree(told)


def test_unchanged_facts_are_replayed() -> None:
    """Changes of other tensors, and of values, record nothing anew."""

    def told(stage: Stage) -> None:
        bank, other = tj.zeros(3), tj.zeros(3)
        function = stage.compile(lambda x: x * 2 if bank.requires_grad else x + len(bank))
        x = tj.ones(3)
        for number in range(8):
            bank.add_(1)
            other.requires_grad_(number % 2 == 0)
            stage.note("result", function(x))

    check(told, compiled=7, recorded=1)


def test_facts_that_come_back_find_their_recording() -> None:
    def told(stage: Stage) -> None:
        bank = tj.zeros(3)
        function = stage.compile(lambda x: x * 2 if bank.requires_grad else x + len(bank))
        x = tj.ones(3)
        for number in range(8):
            bank.requires_grad_(number % 2 == 0)
            stage.note("result", function(x))

    check(told, compiled=6, recorded=2)


def test_the_change_is_named() -> None:
    bank = tj.zeros(3)
    function = tj.compile(lambda x: x * 2 if bank.requires_grad else x + 1)
    function(tj.ones(3))
    bank.requires_grad_()
    function(tj.ones(3))
    (entries,) = function.entries.values()
    assert (
        "requires_grad of closure variable 'bank' of <lambda> was False and is True"
        in entries[1].history[0]
    )


def test_a_function_that_changes_a_fact_at_every_call_has_a_recording_for_each_way() -> None:
    def told(stage: Stage) -> None:
        bank = tj.zeros(3)

        def toggle(x: tj.Tensor) -> tj.Tensor:
            bank.requires_grad_(not bank.requires_grad)
            return x * 2 if bank.requires_grad else x + 1

        function = stage.compile(toggle)
        for _ in range(6):
            stage.note("result", function(tj.ones(3)))
            stage.note("state", bank.requires_grad)

    check(told, compiled=4, recorded=2)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3), (1, 0)])
def test_strides_where_there_is_nothing(shape: tuple[int, ...]) -> None:
    x = tj.zeros(*shape)
    compiled = tj.compile(lambda x: x * 2)
    expected = tuple(
        max(1, math.prod(max(n, 1) for n in shape[i + 1 :])) for i in range(len(shape))
    )
    for found in (x, x * 2, compiled(x), compiled(x)):
        assert found.stride() == expected
