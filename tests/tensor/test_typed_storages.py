"""The memory of tensors counted in elements, and small facts about how they lie there."""

from __future__ import annotations

import pytest

import tracejit as tj


def test_memory_counted_in_elements() -> None:
    memory = tj.arange(6.0)[2:4].storage()
    assert (memory.size(), len(memory), memory.nbytes()) == (6, 6, 24)
    assert (memory.dtype, memory.element_size()) == (tj.float32, 4)
    assert memory[5] == 5.0
    assert memory.tolist() == list(memory) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert repr(memory) == "TypedStorage(dtype=tracejit.float32, device=cpu) of size 6"
    with pytest.raises(RuntimeError, match="slices are only supported"):
        memory[1:2]


def test_memory_is_that_of_the_tensor() -> None:
    x = tj.zeros(2, 2)
    memory = x.storage()
    memory[1] = 5.0
    assert x.tolist() == [[0.0, 5.0], [0.0, 0.0]]
    copy = memory.clone()
    assert memory.fill_(1.0) is memory
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert copy.tolist() == [0.0, 5.0, 0.0, 0.0]
    assert memory.data_ptr() == x.data_ptr() == memory.untyped().data_ptr() == x.const_data_ptr()
    assert memory == x.t().storage()
    assert memory != copy


def test_halves() -> None:
    memory = tj.tensor([0.5, 2.0], dtype=tj.bfloat16).storage()
    assert (memory[0], memory.tolist()) == (0.5, [0.5, 2.0])


def test_the_order_of_dimensions() -> None:
    x = tj.ones(2, 3, 4)
    assert x.dim_order() == (0, 1, 2)
    assert x.permute(2, 0, 1).dim_order() == (1, 2, 0)
    assert tj.tensor(1.0).dim_order() == ()


def test_numbers_of_earlier_names() -> None:
    x = tj.tensor(3.0)
    assert (x.__nonzero__(), x.__long__()) == (True, 3)


def test_what_is_loaded_into_a_parameter() -> None:
    x, y = tj.zeros(2), tj.ones(2)
    assert x.module_load(y).tolist() == [1.0, 1.0]
    assert x.tolist() == [1.0, 1.0]
    assert x.module_load(y, assign=True) is y
