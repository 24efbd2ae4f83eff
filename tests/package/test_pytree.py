"""utils._pytree: nested values as leaves and a form."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import tracejit as tj
from tracejit.utils import _pytree as pytree
from tracejit.utils._pytree import (
    SUPPORTED_NODES,
    _dict_flatten_with_keys,
    _namedtuple_flatten,
    _namedtuple_unflatten,
    key_get,
    keystr,
    register_pytree_node,
    tree_all,
    tree_any,
    tree_flatten,
    tree_flatten_with_path,
    tree_leaves,
    tree_leaves_with_path,
    tree_map,
    tree_map_only,
    tree_map_with_path,
    tree_structure,
    tree_unflatten,
)

Pair = namedtuple("Pair", ["a", "b"])


TREES = [
    *(1, (), [], {}, [1, (2, [])], Pair(1, [2]), OrderedDict(b=1, a=(2, None)), {"x": {}}),
    *(deque([1, (2,)], maxlen=3), defaultdict(int, {5: [6]})),
]


@pytest.mark.parametrize("tree", TREES)
def test_there_and_back(tree) -> None:
    leaves, spec = tree_flatten(tree)
    again = tree_unflatten(leaves, spec)
    assert again == tree
    assert type(again) is type(tree)
    assert spec.num_leaves == len(leaves)
    assert tree_leaves(tree) == leaves


@pytest.mark.parametrize("tree", TREES)
def test_paths_lead_to_leaves(tree) -> None:
    found, spec = tree_flatten_with_path(tree)
    assert spec == tree_structure(tree)
    assert [leaf for _, leaf in found] == tree_leaves(tree)
    assert [key_get(tree, path) for path, _ in found] == tree_leaves(tree)
    assert tree_map_with_path(lambda path, x, y: key_get(tree, path), tree, tree) == tree


def test_paths_as_text() -> None:
    tree = {"a": [Pair(1, {2: 3})]}
    assert [keystr(path) for path, _ in tree_leaves_with_path(tree)] == [
        "['a'][0].a",
        "['a'][0].b[2]",
    ]


def test_questions_about_leaves() -> None:
    assert tree_all(lambda n: n > 0, [1, {"a": 2}])
    assert not tree_all(lambda n: n > 1, [1, {"a": 2}])
    assert tree_any(lambda n: n > 1, [1, {"a": 2}])
    assert not tree_any(lambda n: n > 2, [1, {"a": 2}])


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


def test_paths_into_classes_that_programs_register() -> None:
    class Output(OrderedDict):
        """Outputs of models in a known package."""

    class Hidden(list):
        """Without steps to its items."""

    register_pytree_node(
        Output,
        lambda d: (list(d.values()), list(d)),
        lambda values, keys: Output(zip(keys, values, strict=True)),
        flatten_with_keys_fn=_dict_flatten_with_keys,
    )
    register_pytree_node(Hidden, lambda h: (list(h), None), lambda items, _: Hidden(items))
    try:
        assert [keystr(p) for p, _ in tree_leaves_with_path((Output(a=1, b=[2]),))] == [
            "[0]['a']",
            "[0]['b'][0]",
        ]
        assert type(tree_map(lambda n: n, Output(a=1))) is Output
        with pytest.raises(ValueError, match="no paths"):
            tree_leaves_with_path(Hidden([1]))
    finally:
        del SUPPORTED_NODES[Output], SUPPORTED_NODES[Hidden]


def test_classes_derived_from_named_tuples_come_apart_as_these_do_once_they_are_registered() -> (
    None
):
    class State(Pair):
        pass

    register_pytree_node(State, _namedtuple_flatten, _namedtuple_unflatten)
    try:
        doubled = tree_map(lambda n: 2 * n, State(1, [2]))
    finally:
        del SUPPORTED_NODES[State]
    assert (type(doubled), doubled) == (State, (2, [4]))


@dataclasses.dataclass
class _State:
    hidden: object
    cell: object = None
    steps: int = dataclasses.field(default=7)


@pytest.fixture
def registered():
    yield pytree.register_dataclass
    pytree.SUPPORTED_NODES.pop(_State, None)


def test_dataclasses_come_apart_into_their_fields(registered):
    registered(_State, field_names=["hidden", "cell"], drop_field_names=["steps"])
    state = _State(tj.ones(2), None, 9)
    leaves, form = pytree.tree_flatten({"s": state})
    assert [leaf.tolist() for leaf in leaves] == [[1.0, 1.0]]  # None is no leaf, as PyTorch has it
    back = pytree.tree_unflatten([3], form)["s"]
    assert (back.hidden, back.cell, back.steps) == (3, None, 7)
    assert [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(state)] == [".hidden"]
    with pytest.warns(UserWarning, match="already registered"):
        registered(_State)
    assert pytree.tree_map(lambda n: n + 1, _State(1, 2, 3)) == _State(2, 3, 4)


def test_dataclasses_name_all_their_fields(registered):
    with pytest.raises(ValueError, match=r"Missing fields in `field_names`: \['cell', 'steps'\]"):
        registered(_State, field_names=["hidden"])
    with pytest.raises(ValueError, match=r"Unexpected fields in `field_names`: \['other'\]"):
        registered(_State, field_names=["hidden", "cell", "steps", "other"])
    with pytest.raises(ValueError, match="it is not a dataclass"):
        registered(int)


def test_leaves_one_after_the_other():
    tree = {"a": [1, (2,)], "b": 3}
    assert list(pytree.tree_iter(tree)) == pytree.tree_leaves(tree)
    found = list(pytree.tree_iter(tree, is_leaf=lambda x: isinstance(x, list)))
    assert found == [[1, (2,)], 3]


def test_compiled_functions_map_over_dataclasses(registered):
    registered(_State, field_names=["hidden", "cell"], drop_field_names=["steps"])

    @tj.compile
    def double(x):
        return pytree.tree_map(lambda t: t * 2, _State(x, x + 1)).cell

    for _ in range(3):
        assert double(tj.ones(2)).tolist() == [4.0, 4.0]
    assert double.stats.compiled_calls == 2
