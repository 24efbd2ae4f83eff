"""Where Python keeps what native code reads: known on the versions supported, refused without a crash elsewhere."""

from __future__ import annotations

import sys

import pytest

from process_tools import printed
from tracejit.runtime.allocator import Block
from tracejit.runtime.native import layout as native_layout
from tracejit.runtime.native.layout import layout_words, slot_offset
from tracejit.runtime.native.native import native
from tracejit.tensor import Tensor

usual = pytest.mark.skipif(
    sys.implementation.name != "cpython" or object.__basicsize__ != 16,
    reason="not the usual build of CPython",
)


@usual
def test_objects_are_known_on_every_supported_python():
    assert layout_words() is not None
    assert native().knows_objects


@usual
def test_slots_lie_apart_within_their_objects():
    for cls in (Tensor, Block):
        names = [name for name in cls.__slots__ if name not in ("__weakref__", "__dict__")]
        offsets = {slot_offset(cls, name) for name in names}
        assert len(offsets) == len(names)
        assert all(16 <= offset <= cls.__basicsize__ - 8 for offset in offsets)


@pytest.mark.parametrize("place", ["_OWNER", "_NAME", "_MEMBER"])
@pytest.mark.parametrize("moved", [-8, 8])
def test_descriptors_that_are_laid_out_otherwise_are_refused(monkeypatch, place, moved):
    monkeypatch.setattr(native_layout, place, getattr(native_layout, place) + moved)
    with pytest.raises(ValueError, match="no slot"):
        slot_offset(Tensor, "_block")
    assert layout_words() is None


def test_another_definition_of_a_slot_is_refused(monkeypatch):
    monkeypatch.setattr(native_layout, "_OFFSET", 8)  # its type, no offset
    assert layout_words() is None


def test_other_objects_have_no_slots():
    class Plain:
        pass

    for name in ("missing", "__dict__", "__weakref__", "__init__"):
        with pytest.raises(ValueError, match="no slot"):
            slot_offset(Plain, name)


OTHERWISE = """
import sys
{change}
import tracejit as tj
from tracejit.runtime.native.native import native

@tj.compile
def f(x, w):
    return x @ w if x.sum() > 0 else x - w.sum()

w = tj.ones(3, 3, requires_grad=True)
for sign in (1, 1, -1, -1, 1, -1, 1):
    x = sign * tj.ones(2, 3)
    w.grad = None
    out = f(x, w)
    out.sum().backward()
    assert out.tolist() == ([[3.0] * 3] * 2 if sign > 0 else [[-10.0] * 3] * 2), out
    assert w.grad.tolist() == [[2.0 if sign > 0 else -6.0] * 3] * 3, w.grad
assert not native().knows_objects
assert f.stats.compiled_calls >= 4
print("as ever")
"""


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "change",
    [
        "sys.implementation.name = 'another'",
        "import tracejit.runtime.native.layout as n; n._plain = lambda: False",
        "import tracejit.runtime.native.layout as n; n._MEMBER = 32",
        "import tracejit.runtime.native.layout as n; n._OFFSET = 8",
        "import tracejit.runtime.native.layout as n; n._POINTER = 4",
    ],
)
def test_calls_go_through_python_where_objects_are_not_known(change):
    assert printed(OTHERWISE.format(change=change)) == "as ever\n"
