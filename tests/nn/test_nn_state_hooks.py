"""Hooks and overridden methods around saving and loading the values of modules."""

from __future__ import annotations

import copy
from collections import OrderedDict

import pytest

import tracejit as tj
from tracejit import nn


class Frozen(nn.Module):
    """Drops a value that older files carry, as frozen batch norms do."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", tj.ones(2))

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        state_dict.pop(prefix + "num_batches_tracked", None)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


def test_a_module_drops_what_older_files_carry():
    model = nn.Sequential(Frozen(), nn.Linear(1, 1))
    values = {**model.state_dict(), "0.num_batches_tracked": tj.tensor(3)}
    assert model.load_state_dict(values).unexpected_keys == []
    assert "0.num_batches_tracked" in values


def test_a_module_saves_more():
    class Noted(nn.Linear):
        def _save_to_state_dict(self, destination, prefix, keep_vars):
            super()._save_to_state_dict(destination, prefix, keep_vars)
            destination[prefix + "note"] = "x"

    assert list(nn.Sequential(Noted(1, 1)).state_dict()) == ["0.weight", "0.bias", "0.note"]


@pytest.mark.parametrize("with_module", [True, False])
def test_hooks_rename_before_loading(with_module):
    model = nn.Sequential(nn.Linear(1, 1))

    def rename(*args):
        values, prefix = args[1:3] if with_module else args[:2]
        values[prefix + "weight"] = values.pop(prefix + "kernel")

    handle = model[0]._register_load_state_dict_pre_hook(rename, with_module=with_module)
    values = {"0.kernel": tj.full((1, 1), 4.0), "0.bias": tj.zeros(1)}
    # The hook of a child sees the names below it: the module above reports nothing but what it knows itself.
    assert model.load_state_dict(values).missing_keys == []
    assert model[0].weight.item() == 4.0
    handle.remove()
    with pytest.raises(RuntimeError, match="Missing key"):
        model.load_state_dict({"0.kernel": tj.ones(1, 1), "0.bias": tj.zeros(1)})


def test_hooks_after_loading_may_forgive():
    model = nn.Linear(1, 1)
    model.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    assert model.load_state_dict({"weight": tj.ones(1, 1)}).missing_keys == []
    model.register_load_state_dict_post_hook(lambda module, keys: keys)
    with pytest.raises(AssertionError, match="not expected"):
        model.load_state_dict(model.state_dict())


def test_hooks_around_saving():
    model, seen = nn.Sequential(nn.Linear(1, 1)), []
    model.register_state_dict_pre_hook(lambda module, prefix, keep: seen.append((prefix, keep)))
    model[0]._register_state_dict_hook(
        lambda m, values, prefix, meta: values.pop(prefix + "bias") and None
    )
    assert list(model.state_dict(keep_vars=True)) == ["0.weight"]
    assert seen == [("", True)]


def test_numbers_that_had_a_dimension_once():
    layer = nn.BatchNorm1d(1)
    values = {**layer.state_dict(), "num_batches_tracked": tj.tensor([5])}
    layer.load_state_dict(values)
    assert layer.num_batches_tracked.item() == 5


def test_hooks_change_nothing_of_calls():
    model = nn.Linear(1, 1)
    expected = model(tj.ones(1))
    model.register_load_state_dict_pre_hook(lambda *_: None)
    assert tj.equal(tj.compile(model)(tj.ones(1)), expected)
    assert tj.equal(model(tj.ones(1)), expected)


class Turned(nn.Module):
    """Its second version saves the values with the other sign."""

    _version = 2

    def __init__(self):
        super().__init__()
        self.register_buffer("shift", tj.ones(2))

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *others):
        if local_metadata.get("version", 1) < 2:
            state_dict[prefix + "shift"] = -state_dict[prefix + "shift"]
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)


def test_a_module_is_told_which_version_of_it_was_saved(tmp_path):
    model = nn.Sequential(nn.BatchNorm1d(2), Turned())
    values = model.state_dict()
    assert dict(values._metadata) == {"": {"version": 1}, "0": {"version": 2}, "1": {"version": 2}}
    model.load_state_dict(values)
    assert model[1].shift.tolist() == [1.0, 1.0]
    model.load_state_dict(copy.deepcopy(values))
    tj.save({"model": values}, tmp_path / "model")
    model.load_state_dict(tj.load(tmp_path / "model")["model"])
    assert model[1].shift.tolist() == [1.0, 1.0]
    model.load_state_dict(dict(values))  # which says nothing of versions
    assert model[1].shift.tolist() == [-1.0, -1.0]
    hook = model[1].register_state_dict_post_hook(lambda *given: seen.append(given[3]))
    seen: list[dict[str, int]] = []
    model.state_dict()
    hook.remove()
    assert seen == [{"version": 2}]


def test_values_without_a_count_of_batches_load():
    model = nn.BatchNorm1d(2)
    values = dict(model.state_dict())
    del values["num_batches_tracked"]
    assert repr(model.load_state_dict(values)) == "<All keys matched successfully>"
    found = model.load_state_dict({"weight": tj.zeros(2)}, strict=False)
    missing = ["bias", "running_mean", "running_var"]
    assert repr(found) == f"_IncompatibleKeys(missing_keys={missing}, unexpected_keys=[])"
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        fresh = model.state_dict()
        del fresh["num_batches_tracked"]
        model.load_state_dict(fresh)


def test_the_tables_of_hooks_are_looked_through_and_cleared():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    called: list[str] = []
    first = model[0].register_forward_pre_hook(lambda module, args: called.append("pre"))
    last = model[0].register_forward_hook(lambda *_, **__: called.append("kw"), with_kwargs=True)
    compiled = tj.compile(model)
    for _ in range(3):
        compiled(tj.ones(1, 2))
    assert list(model[0]._forward_pre_hooks) == [first.id]
    model[0]._forward_hooks[last.id](None, None, None)
    assert called.count("kw") >= 2
    assert not model[0]._backward_hooks
    model[0]._forward_hooks = OrderedDict()
    model[0]._forward_pre_hooks.clear()
    called.clear()
    compiled(tj.ones(1, 2))
    model(tj.ones(1, 2))
    assert called == []
    last.remove()
    model[1]._forward_hooks[7] = lambda module, args, output: output + 1
    assert compiled(tj.zeros(1, 2)).tolist() == model(tj.zeros(1, 2)).tolist()
    assert model[1](tj.zeros(1)).tolist() == [1.0]
