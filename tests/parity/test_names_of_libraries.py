"""Names that libraries of models import, beside PyTorch: wrapped layers, batches in pieces, weak keys, ..."""

from __future__ import annotations

import gc
import time
from collections import namedtuple

import numpy as np
import pytest
from parity_tools import torch
from tracejit.distributed.algorithms._checkpoint import checkpoint_wrapper as ours
from tracejit.nn.parallel.scatter_gather import gather, scatter, scatter_kwargs

import tracejit as tj
from tracejit.utils import _pytree as pytree
from tracejit.utils import module_tracker, weak

Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8])
def test_norms_across_maps(size) -> None:
    values = np.random.default_rng(size).standard_normal((2, 6, 3, 2)).astype(np.float32)
    found = []
    for of in (torch, tj):
        layer = of.nn.CrossMapLRN2d(size, alpha=0.5, beta=0.6, k=1.5)
        found.append((layer(of.tensor(values)).numpy(), repr(layer)))
        with pytest.raises(ValueError, match="Expected input to be 4D, got 2D instead"):
            layer(of.ones(2, 3))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=2e-5)
    assert found[1][1] == found[0][1]


def model(of):
    layers = of.nn.Linear(3, 4), of.nn.Tanh(), of.nn.Sequential(of.nn.Linear(4, 3), of.nn.ReLU())
    made = of.nn.Sequential(*layers)
    for p in made.parameters():
        values = np.cos(np.arange(p.numel())).reshape(tuple(p.shape)).astype(np.float32)
        p.data = of.tensor(values)
    return made


def of_torch():
    from torch.distributed.algorithms._checkpoint import checkpoint_wrapper

    return checkpoint_wrapper


@pytest.mark.parametrize("name", ["checkpoint_wrapper", "offload_wrapper"])
@pytest.mark.parametrize("policy", [False, True])
def test_layers_around_others(name, policy) -> None:
    found = []
    for of, by in ((torch, of_torch()), (tj, ours)):
        made, plain = model(of), model(of)

        def chosen(module, recurse, nonwrapped_numel):
            return recurse or nonwrapped_numel > 12

        by.apply_activation_checkpointing(
            made,
            getattr(by, name),
            lambda layer, of=of: isinstance(layer, of.nn.Linear),
            auto_wrap_policy=chosen if policy else None,
        )
        made.load_state_dict(plain.state_dict())
        made[0].forward(of.ones(1, 3))
        x = of.tensor([[0.5, -1.0, 2.0]], requires_grad=True)
        (made(x) ** 2).sum().backward()
        gradients = [p.grad.numpy() for p in made.parameters()]
        named = (
            [n for n, _ in made.named_parameters()],
            list(made.state_dict()),
            made[0].in_features,
        )
        classes = [type(layer).__name__ for layer in made.modules()]
        found.append((gradients, x.grad.numpy(), named, classes))
    for one, other in zip(found[1][0], found[0][0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-4)
    assert found[1][2:] == found[0][2:]


def test_wrapped_layers_are_compiled() -> None:
    made, plain = model(tj), model(tj)
    ours.apply_activation_checkpointing(made, check_fn=lambda m: isinstance(m, tj.nn.Linear))

    @tj.compile
    def step(x):
        made.zero_grad()
        y = made(x).square().sum()
        y.backward()
        return y

    for k in range(4):
        x = tj.tensor([[0.5 + k, -1.0, 2.0]])
        plain.zero_grad()
        y = plain(x).square().sum()
        y.backward()
        assert tj.allclose(step(x), y)
        for p, q in zip(made.parameters(), plain.parameters(), strict=True):
            assert tj.allclose(p.grad, q.grad, rtol=1e-4)
    assert step.explain().stats.compiled_calls >= 1


def test_batches_in_pieces() -> None:
    batch = {"x": tj.arange(5), "p": Pair(tj.ones(5, 2), [tj.zeros(5)]), "n": 3, "e": []}
    pieces = scatter(batch, ["cpu", "cpu"])
    assert [one["x"].tolist() for one in pieces] == [[0, 1, 2], [3, 4]]
    assert [one["p"].a.shape for one in pieces] == [(3, 2), (2, 2)]
    assert [(one["n"], one["e"]) for one in pieces] == [(3, []), (3, [])]
    parts = [{"x": one["x"], "p": one["p"], "none": None} for one in pieces]
    back = gather(parts, "cpu")
    assert [back["x"].tolist(), type(back["p"])] == [batch["x"].tolist(), Pair]
    assert [back["p"].b[0].shape, back["none"]] == [(5,), None]
    given = scatter_kwargs((tj.ones(4),), {"k": tj.zeros(2)}, ["cpu", "cpu"])
    assert [[x[0].shape for x in given[0]], len(given[1])] == [[(2,), (2,)], 2]
    assert scatter_kwargs((tj.ones(4),), None, ["cpu", "cpu"])[1] == ({}, {})
    with pytest.warns(UserWarning, match="without dimensions"):
        assert gather([tj.tensor(1.0), tj.tensor(2.0)], "cpu").tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="same number of keys"):
        gather([{"a": 1}, {}], "cpu")
    w = tj.ones(4, requires_grad=True)
    gather([x * (i + 1) for i, x in enumerate(scatter(w, ["cpu"] * 2))], "cpu").sum().backward()
    assert w.grad.tolist() == [1.0, 1.0, 2.0, 2.0]


def test_dictionaries_of_objects_that_nothing_else_holds() -> None:
    one, other = tj.ones(2), tj.ones(2)
    known = weak.WeakTensorKeyDictionary({one: 1})
    known[other] = 2
    assert [known[one], known[other], len(known), 3 in known] == [1, 2, 2, False]
    del other
    gc.collect()
    assert list(known.values()) == [1]
    with pytest.raises(KeyError):
        known[tj.ones(2)]


def entered(of, tracker_class):
    """What layers a function in a model is in, forward and backward."""
    seen = []

    class Note(of.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append((sorted(tracker.parents), tracker.is_bw))
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.append((sorted(tracker.parents), tracker.is_bw))
            return g

    made, tracker = model(of), tracker_class()
    for layer in (made[0], made[1], made[2][0]):
        layer.register_forward_hook(lambda module, given, result: Note.apply(result))
    with tracker:
        made(of.ones(2, 3)).sum().backward()
        seen.append((sorted(tracker.parents), tracker.is_bw))
        made[2](of.ones(2, 4, requires_grad=True)).sum().backward()
    return seen


def test_in_which_layers_a_program_is() -> None:
    from torch.utils.module_tracker import ModuleTracker

    expected = entered(torch, ModuleTracker)
    assert len(expected) == 9
    assert entered(tj, module_tracker.ModuleTracker) == expected


def test_questions_about_nested_values() -> None:
    theirs = torch.utils._pytree
    values = (1, [1], (), Pair(1, 2), Pair, time.gmtime(0), {}, None, tuple)
    for name in ("tree_is_leaf", "is_namedtuple", "is_namedtuple_instance", "is_structseq"):
        asked = [getattr(pytree, name)(x) for x in values]
        assert asked == [getattr(theirs, name)(x) for x in values], name
    leaf = pytree.tree_structure(1)
    assert isinstance(leaf, pytree.LeafSpec)
    assert pytree.LeafSpec() == leaf
    assert not isinstance(pytree.tree_structure([1]), pytree.LeafSpec)
    assert tj.utils.data.DataLoader[int] is not None
    assert issubclass(tj.jit.TracerWarning, Warning)
    assert issubclass(tj.jit.Error, RuntimeError)


@pytest.mark.parametrize("base", [0, 1, 12345678901234, 2**62 + 5])
def test_seeds_of_workers(base) -> None:
    from torch.utils.data._utils import worker as theirs
    from tracejit.utils.data._utils import worker

    for number in (0, 3):
        assert worker._generate_state(base, number) == theirs._generate_state(base, number)
    assert worker.get_worker_info() is theirs.get_worker_info() is worker._worker_info is None


def keys_left_out(of):
    key, some = of._C.DispatchKey, of._C.DispatchKeySet
    both = some(key.AutocastCPU) | some(key.AutocastCUDA) | some(key.AutocastXPU)
    found = [repr(both), repr(both - some(key.AutocastCPU)), repr(both & some(key.AutocastCUDA))]
    found += [both.has(key.AutocastXPU), both.has(key.CPU), both == some(key.AutocastCPU)]
    found += [repr(both.remove(key.AutocastXPU)), repr(both.add(key.CPU)), str(key.Meta)]
    found += [both == both.add(key.AutocastCPU), list(key.__members__)]
    x = of.ones(2, 2)
    guard = of._C._ExcludeDispatchKeyGuard(both)
    with of.autocast("cpu", dtype=of.bfloat16):
        with guard:
            found += [of.is_autocast_enabled("cpu"), str((x @ x).dtype).split(".")[-1]]
        found += [of.is_autocast_enabled("cpu"), str((x @ x).dtype).split(".")[-1]]
    return found


def test_keys_of_functions_behind_operators() -> None:
    ours, theirs = keys_left_out(tj), keys_left_out(torch)
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(a, str) and a.startswith("DispatchKeySet"):
            # PyTorch writes the keys in an order of its own.
            assert sorted(a[15:-1].split(", ")) == sorted(b[15:-1].split(", "))
        else:
            assert a == b
    with pytest.raises(NotImplementedError, match="nothing here that goes by CUDA"):
        tj._C._ExcludeDispatchKeyGuard(tj._C.DispatchKeySet(tj._C.DispatchKey.CUDA))


def classes_of_tensors(of):
    class Meta(of._C._TensorMeta):
        def __instancecheck__(self, x):
            return x == 3 or super().__instancecheck__(x)

    class Kind(of.Tensor, metaclass=Meta):
        pass

    base = of._C._TensorMeta
    return [
        *(isinstance(k, base) for k in (of.Tensor, of.nn.Parameter, Kind, int, 3)),
        *(isinstance(x, Kind) for x in (3, 4)),
        *(isinstance(k, Meta) for k in (Kind, of.Tensor)),
    ]


def test_classes_of_classes() -> None:
    expected = [True, True, True, False, False, True, False, True, False]
    assert classes_of_tensors(tj) == classes_of_tensors(torch) == expected
    for of in (tj, torch):
        of.classes.__path__ = []
        with pytest.raises(RuntimeError, match=r"Tried to instantiate class 'lib\.Kind'"):
            _ = of.classes.lib.Kind
        with pytest.raises(OSError, match=r"Could not load|cannot open"):
            of.classes.load_library("missing.so")


def names_for_one_tensor(of):
    x = of.ones(3)
    y, parameter = x, of.nn.Parameter(x)
    again = parameter
    found = [x._cdata == y._cdata, x._cdata == x.detach()._cdata, isinstance(x._cdata, int)]
    return [*found, parameter._cdata == again._cdata, parameter._cdata == x._cdata]


def test_one_tensor_by_two_names() -> None:
    assert names_for_one_tensor(tj) == names_for_one_tensor(torch)
    compiled = tj.compile(lambda a, b: a + b if a._cdata != b._cdata else a * 7)
    x = tj.ones(2)
    for _ in range(3):
        assert compiled(x, x).tolist() == [7, 7]
        assert compiled(x, tj.ones(2)).tolist() == [2, 2]


def test_modules_without_much_in_them() -> None:
    from tracejit._jit_internal import _copy_to_script_wrapper

    import tracejit._custom_ops

    assert tracejit._custom_ops.impl_abstract is tj.library.impl_abstract
    assert _copy_to_script_wrapper(len) is len
    with pytest.raises(NotImplementedError, match="files of PyTorch are not read here"):
        tj.PyTorchFileReader("model.pt")


def test_classes_by_which_libraries_ask() -> None:
    from tracejit._dynamo import OptimizedModule

    layer = tj.nn.Linear(2, 1)
    compiled = tj.compile(layer)
    assert isinstance(compiled, OptimizedModule)
    assert compiled._orig_mod is layer
    assert not isinstance(layer, OptimizedModule)
    theirs = torch.utils._pytree
    for value in ([1], (1,), {"a": 1}, Pair(1, 2), 3):
        kind = pytree._get_node_type(value)
        assert kind is theirs._get_node_type(value)
        assert (kind in pytree.SUPPORTED_NODES) == (kind in theirs.SUPPORTED_NODES)
