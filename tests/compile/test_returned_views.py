"""Views that compiled functions return show what those of eager code show, at the first call and at later ones."""

from __future__ import annotations

import numpy as np
import pytest

import tracejit as tj

VIEWS = {
    "turned": lambda x: (x * 2).t(),
    "a part": lambda x: (x * 2)[1:, 2],
    "nothing": lambda x: (x * 2)[:, 6:],
    "expanded": lambda x: (x * 2)[:, :1].expand(4, 9),
    "other shapes": lambda x: ((x + 1).unsqueeze(0), (x * 3).view(-1)),
    "several of one": lambda x: (x * 3).unbind(1),
    "a diagonal": lambda x: (x * 3).diagonal(),
    "pairs of numbers": lambda x: tj.view_as_real(tj.complex(x, x * 2)),
    "conjugates": lambda x: tj.view_as_complex((x * 3)[:, :4].reshape(4, 2, 2)).conj(),
    "detached": lambda x: (x * 2).t().detach(),
    "of a product with a vector": lambda x: x @ x[0],
    "one after the other": lambda x: (x * 2).t().unsqueeze(1).transpose(0, 2),
}


def described(x):
    how = x.shape, x.stride(), x.storage_offset(), x.dtype, x._base is None, x.requires_grad
    return how, np.array(x.resolve_conj().numpy())


@pytest.mark.parametrize("name", VIEWS)
def test_views_show_what_they_show_in_eager_code(name, rng) -> None:
    function = VIEWS[name]
    compiled = tj.compile(function)
    for turn in range(5):
        given = tj.tensor(rng.standard_normal((4, 6)).astype(np.float32))
        given = given.t().contiguous().t() if turn == 3 else given
        with tj.set_grad_enabled(turn % 2 == 0):
            found, expected = compiled(given), function(given)
        pairs = list(
            zip(
                tj.utils._pytree.tree_leaves(found),
                tj.utils._pytree.tree_leaves(expected),
                strict=True,
            )
        )
        for got, wanted in pairs:
            (how, values), (known, numbers) = described(got), described(wanted)
            assert how == known
            np.testing.assert_allclose(values, numbers, rtol=1e-6)
    assert compiled.stats.compiled_calls >= 2


def test_writes_to_a_returned_view_reach_what_it_is_a_view_of() -> None:
    @tj.compile
    def both(x):
        y = x * 2
        return y, y.view(-1), y.t()

    for _ in range(4):
        y, flat, turned = both(tj.ones(2, 3))
        flat[1] = 7.0
        turned[2, 1] = 8.0
        assert y.tolist() == [[2.0, 7.0, 2.0], [2.0, 2.0, 8.0]]
        assert flat._base is y
        assert turned._base is y
        assert y._version == 2
        assert turned._version == 2


def test_returned_views_take_part_in_later_gradients() -> None:
    @tj.compile
    def part(x):
        return (x * 2).t()[1]

    for _ in range(3):
        row = part(tj.ones(2, 3)).requires_grad_()
        (row * tj.tensor([1.0, 2.0])).sum().backward()
        assert row.grad.tolist() == [1.0, 2.0]


def test_a_view_of_other_sizes_is_found_again() -> None:
    @tj.compile
    def turned(x):
        return (x + 1).t()

    for rows, columns in [(2, 3), (2, 3), (2, 3), (4, 5), (4, 5), (3, 2), (2, 3)]:
        x = tj.arange(rows * columns, dtype=tj.float32).view(rows, columns)
        assert turned(x).tolist() == (x + 1).t().tolist()
