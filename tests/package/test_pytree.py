"""utils._pytree: nested values as leaves and a form."""

from __future__ import annotations

from collections import OrderedDict, namedtuple

import pytest

import tracejit as tj
from tracejit.utils._pytree import (
    SUPPORTED_NODES,
    register_pytree_node,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_map_only,
    tree_unflatten,
)

Pair = namedtuple("Pair", ["a", "b"])


@pytest.mark.parametrize(
    "tree", [1, (), [], {}, [1, (2, [])], Pair(1, [2]), OrderedDict(b=1, a=(2, None)), {"x": {}}]
)
def test_there_and_back(tree) -> None:
    leaves, spec = tree_flatten(tree)
    again = tree_unflatten(leaves, spec)
    assert again == tree
    assert type(again) is type(tree)
    assert spec.num_leaves == len(leaves)
    assert tree_leaves(tree) == leaves


def test_maps() -> None:
    found = tree_map(lambda t: t * 2, {"a": tj.ones(1), "b": [tj.ones(2)]})
    assert found["b"][0].tolist() == [2.0, 2.0]
    assert tree_map_only(tj.Tensor, lambda t: t.item(), [tj.ones(1), "text"]) == [1.0, "text"]
    assert tree_map(len, [(1, 2), (3,)], is_leaf=lambda x: isinstance(x, tuple)) == [2, 1]


def test_forms_must_agree() -> None:
    with pytest.raises(ValueError, match="different form"):
        tree_map(lambda a, b: a, [1, 2], [1, [2]])
    with pytest.raises(ValueError, match="3 leaves"):
        tree_unflatten([1, 2, 3], tree_flatten([1, 2])[1])


def test_compiled() -> None:
    f = tj.compile(lambda tree: tree_map(lambda t: t + 1, tree))
    assert [f({"a": [tj.ones(1)]})["a"][0].item() for _ in range(3)] == [2.0, 2.0, 2.0]
    assert f.stats.compiled_calls == 2


class Box:
    def __init__(self, *items, label):
        self.items, self.label = items, label


def test_classes_that_programs_register() -> None:
    assert tree_leaves([Box(1, label="x")])[0].label == "x"
    register_pytree_node(
        Box,
        lambda box: (list(box.items), box.label),
        lambda items, label: Box(*items, label=label),
        serialized_type_name="box",
    )
    try:
        found = tree_map(lambda n: n + 1, {"a": Box(1, (2, 3), label="x")})
        assert (found["a"].items, found["a"].label) == ((2, (3, 4)), "x")
        assert tree_leaves(Box(label="y")) == []
        first, second = (tree_flatten(Box(1, label=x))[1] for x in "xy")
        assert first != second
        with pytest.raises(ValueError, match="already registered"):
            register_pytree_node(Box, None, None)
    finally:
        del SUPPORTED_NODES[Box]
