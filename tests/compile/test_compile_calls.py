"""compile(): what can be compiled and called, and what goes in and comes out."""

from __future__ import annotations

import copy
import functools
import pickle
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tracejit as tj

nn = tj.nn
Pair = namedtuple("Pair", ["a", "b"])


@dataclass
class Batch:
    x: Any
    scale: float = 1.0

    def scaled(self) -> Any:
        return self.x * self.scale


def settled(f: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of a call that certainly ran compiled."""
    f(*args, **kwargs)
    before = f.stats.compiled_calls
    result = f(*args, **kwargs)
    assert f.stats.compiled_calls == before + 1, str(f.explain())
    return result


def test_decorator_with_and_without_arguments() -> None:
    @tj.compile
    def f(x):
        """Doc."""
        return x * 2

    @tj.compile(strict=True)
    def g(x):
        return x * 3

    assert f.__name__ == "f"
    assert f.__doc__ == "Doc."
    assert settled(f, tj.ones(2)).tolist() == [2, 2]
    assert settled(g, tj.ones(2)).tolist() == [3, 3]
    assert g.strict


def test_methods_of_two_instances() -> None:
    class Model:
        def __init__(self, scale):
            self.scale = scale
            self.w = tj.full((2,), scale)

        @tj.compile
        def run(self, x):
            return x * self.scale + self.w

    a, b = Model(2.0), Model(5.0)
    for _ in range(3):
        assert a.run(tj.ones(2)).tolist() == [4, 4]
        assert b.run(tj.ones(2)).tolist() == [10, 10]
    assert Model.run.stats.compiled_calls == 4
    assert "signature" in str(a.run.explain())
    a.scale = 3.0
    assert a.run(tj.ones(2)).tolist() == [5, 5]
    assert a.run == a.run
    assert a.run != b.run


def test_static_and_class_methods_both_ways() -> None:
    class Tools:
        factor = 3

        @staticmethod
        @tj.compile
        def inner(x):
            return x + 1

        @tj.compile
        @staticmethod
        def outer(x):
            return x + 2

        @tj.compile
        @classmethod
        def by_class(cls, x):
            return x * cls.factor

    for _ in range(2):
        assert Tools.inner(tj.ones(1)).item() == Tools().inner(tj.ones(1)).item() == 2
        assert Tools.outer(tj.ones(1)).item() == Tools().outer(tj.ones(1)).item() == 3
        assert Tools.by_class(tj.ones(1)).item() == Tools().by_class(tj.ones(1)).item() == 3
    Tools.factor = 4
    assert Tools.by_class(tj.ones(1)).item() == 4


def test_lambdas_partials_bound_methods_and_callables() -> None:
    class Adder:
        amount = 1.0

        def __call__(self, x):
            return x + self.amount

        def twice(self, x):
            return x + 2 * self.amount

    adder = Adder()
    cases = [
        (tj.compile(lambda x: x * 2), 2.0),
        (tj.compile(functools.partial(lambda y, x: x * y, 3.0)), 3.0),
        (tj.compile(adder), 2.0),
        (tj.compile(adder.twice), 3.0),
    ]
    for f, expected in cases:
        assert settled(f, tj.ones(1)).item() == expected
    adder.amount = 10.0
    assert cases[2][0](tj.ones(1)).item() == 11
    assert cases[3][0](tj.ones(1)).item() == 21


def test_what_cannot_be_compiled() -> None:
    with pytest.raises(TypeError, match=r"compile\(\) takes a function.*not int"):
        tj.compile(3)
    with pytest.raises(TypeError, match="unexpected keyword"):
        tj.compile(lambda x: x, strickt=True)


def test_stacked_compile_inlines() -> None:
    inner = tj.compile(lambda x: x * 2)
    outer = tj.compile(lambda x: inner(x) + 1)
    assert settled(outer, tj.ones(2)).tolist() == [3, 3]
    assert inner.stats.calls == 0
    assert tj.compile(inner) is inner
    assert tj.compile(inner, strict=True).strict


def test_nested_inputs_and_outputs() -> None:
    @tj.compile
    def f(data, pair, batch):
        a, (b, c) = data["x"], data["y"]
        return {
            "pair": Pair(a + pair.a, b * pair.b),
            "list": [c, c + 1, None, "text", 3],
            "batch": Batch(batch.scaled(), 7.0),
            "ordered": OrderedDict(k=a * 2),
        }

    def call():
        data = {"x": tj.ones(2), "y": [tj.ones(2) * 2, tj.ones(2) * 3]}
        return f(data, Pair(tj.ones(2), tj.ones(2) * 4), Batch(tj.ones(2), 5.0))

    call()
    result = call()
    assert f.stats.compiled_calls == 1, f.explain()
    assert type(result["pair"]) is Pair
    assert result["pair"].a.tolist() == [2, 2]
    assert result["pair"].b.tolist() == [8, 8]
    assert [x if not isinstance(x, tj.Tensor) else x.tolist() for x in result["list"]] == [
        [3, 3],
        [4, 4],
        None,
        "text",
        3,
    ]
    assert type(result["batch"]) is Batch
    assert result["batch"].x.tolist() == [5, 5]
    assert result["batch"].scale == 7.0
    assert type(result["ordered"]) is OrderedDict


def test_outputs_keep_their_identities() -> None:
    def f(x):
        y = x + 1
        return y, y, x, x + 1, y.view(-1), y.detach()

    for grad in (True, False):
        x = tj.ones(2, requires_grad=grad)
        a, b, c, d, e, g = settled(tj.compile(f), x)
        assert a is b
        assert c is x
        assert d is not a
        assert d.numpy(force=True).ctypes.data != a.numpy(force=True).ctypes.data
        assert e.data_ptr() == a.data_ptr() == g.data_ptr()
        assert e is not a
        with tj.no_grad():
            d.add_(5)
        assert a.tolist() == [2, 2]
        assert (g.requires_grad, a.requires_grad) == (False, grad)


def test_equal_results_are_separate_tensors() -> None:
    f = tj.compile(lambda x: (x.exp() + 1, x.exp() + 1, x.clone(), x.clone()))
    for grad in (False, True):
        out = settled(f, tj.ones(4, requires_grad=grad))
        pointers = {t.data_ptr() for t in out}
        assert len(pointers) == 4


def test_a_view_of_an_input_stays_one() -> None:
    f = tj.compile(lambda x: (x[1:], x.T, x.reshape(-1)))
    x = tj.arange(6.0).reshape(3, 2)
    rows, transposed, flat = settled(f, x)
    rows.fill_(9.0)
    assert x.tolist() == [[0, 1], [9, 9], [9, 9]]
    assert transposed.tolist() == [[0, 9, 9], [1, 9, 9]]
    assert flat.tolist() == [0, 1, 9, 9, 9, 9]
    y = tj.ones(3, 2, requires_grad=True)
    view = settled(f, y)[0]
    assert view.requires_grad
    view.sum().backward()
    assert y.grad.tolist() == [[0, 0], [1, 1], [1, 1]]


def test_fresh_objects_are_made_again_and_generators_run_eagerly() -> None:
    class Box:
        def __init__(self, value):
            self.value = value

    f = tj.compile(lambda x: Box(x * 2))
    for k in range(4):
        assert f(tj.ones(1) * k).value.item() == 2 * k
    assert f.stats.compiled_calls == 3
    g = tj.compile(lambda x: (y for y in [x, x + 1]))
    for k in range(3):
        assert [y.item() for y in g(tj.ones(1) * k)] == [k, k + 1]


def test_containers_from_outside_stay_themselves() -> None:
    held: list[Any] = []
    f = tj.compile(lambda x, box: (x + 1, box, held))
    for _ in range(3):
        box = {"k": 1}
        _, same, also = f(tj.ones(1), box)
        assert same is box
        assert also is held

    def twice(x):
        made = [x + 1]
        return made, made

    g = tj.compile(twice)
    for _ in range(3):
        a, b = g(tj.ones(1))
        assert a is b


def test_lists_among_the_arguments_are_appended_to() -> None:
    f = tj.compile(lambda x, out: out.append(x * 2))
    for k in range(4):
        out: list[Any] = []
        f(tj.ones(1) * k, out)
        assert [x.item() for x in out] == [2 * k]
    assert f.stats.compiled_calls == 2


def test_captured_tensors_are_read_at_every_call() -> None:
    w = tj.ones(2)
    f = tj.compile(lambda x: x * w)
    assert settled(f, tj.ones(2)).tolist() == [1, 1]
    w.fill_(7.0)
    assert f(tj.ones(2)).tolist() == [7, 7]
    w.data = tj.arange(3.0)
    for _ in range(3):
        assert f(tj.ones(3)).tolist() == [0, 1, 2]
    w.data = tj.full((1,), 5.0)
    for _ in range(3):
        assert f(tj.ones(3)).tolist() == [5, 5, 5]


def test_an_argument_that_is_a_captured_tensor() -> None:
    w = tj.tensor([2.0], requires_grad=True)
    f = tj.compile(lambda x: x * w)
    other = tj.tensor([10.0], requires_grad=True)
    for first, second in ((w, other), (other, w)):
        f = tj.compile(lambda x: x * w)
        for _ in range(3):
            for x in (first, second, first):
                w.grad = other.grad = None
                y = f(x)
                assert y.item() == x.item() * 2
                y.backward()
                if x is w:
                    assert w.grad.item() == 4
                else:
                    assert (w.grad.item(), other.grad.item()) == (10, 2)
    assert f.stats.compiled_calls > 0


def test_modules() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2))
    f = tj.compile(model)
    assert isinstance(f, nn.Sequential)
    assert [n for n, _ in f.named_parameters()] == [n for n, _ in model.named_parameters()]
    assert f.state_dict().keys() == model.state_dict().keys()
    x = tj.rand(5, 3)
    for training in (True, False, True, False):
        f.train(training)
        assert model.training is training
        assert all(m.training is training for m in model.modules())
        for _ in range(3):
            tj.manual_seed(1)
            expected = model(x)
            tj.manual_seed(1)
            assert np.allclose(f(x).tolist(), expected.tolist(), atol=1e-6)
    assert f.stats.compiled_calls >= 6
    assert len(f.explain().signatures) == 2
    assert len(f) == 4
    assert f[0] is model[0]


def test_modules_inside_modules_copied_and_pickled() -> None:
    inner = nn.Linear(2, 2)
    outer = nn.Sequential(tj.compile(inner), nn.Tanh())
    x = tj.ones(1, 2)
    for _ in range(3):
        assert np.allclose(outer(x).tolist(), inner(x).tanh().tolist())
    assert len(list(outer.parameters())) == 2
    twin = copy.deepcopy(tj.compile(inner))
    with tj.no_grad():
        inner.weight.zero_()
    assert twin.weight.abs().sum().item() > 0
    again = pickle.loads(pickle.dumps(twin))
    assert np.array_equal(settled(again, x).tolist(), settled(twin, x).tolist())


def test_a_replaced_parameter_and_a_late_hook_are_seen() -> None:
    model = nn.Linear(2, 1, bias=False)
    f = tj.compile(model)
    x = tj.ones(1, 2)
    settled(f, x)
    f.weight = nn.Parameter(tj.full((1, 2), 3.0))
    assert [f(x).item() for _ in range(3)] == [6, 6, 6]
    seen = []
    handle = f.register_forward_hook(lambda module, args, out: out * 2)
    assert [f(x).item() for _ in range(3)] == [12, 12, 12]
    handle.remove()
    handle = model.register_forward_hook(lambda module, args, out: seen.append(1))
    assert [f(x).item() for _ in range(5)] == [6] * 5
    assert len(seen) == 5


@tj.compile
def module_level(x):
    return x * 2


def test_copies_and_pickles_of_functions() -> None:
    assert pickle.loads(pickle.dumps(module_level)) is module_level
    assert copy.deepcopy(module_level) is module_level
    again = pickle.loads(pickle.dumps(tj.compile(abs_of)))
    assert settled(again, -tj.ones(1)).item() == 1


def abs_of(x):
    return x.abs()


def test_attributes_of_callables_are_not_copied() -> None:
    class Scaler:
        def __init__(self):
            self.entries = "mine"
            self.scale = 2.0

        def __call__(self, x):
            return x * self.scale

    scaler = Scaler()
    f = tj.compile(scaler)
    assert settled(f, tj.ones(1)).item() == 2
    assert not hasattr(f, "scale")


def test_compiled_methods_of_modules() -> None:
    class Net(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.layer = nn.Linear(2, width)

        @tj.compile
        def forward(self, x):
            return self.layer(x).sum() if self.training else self.layer(x)

    a, b = Net(2), Net(3)
    x = tj.ones(1, 2)
    for _ in range(3):
        for net in (a, b):
            net.train()
            net(x).backward()
            net.eval()
            assert net(x).shape == (1, net.layer.out_features)
    assert Net.forward.stats.compiled_calls == 8
    assert np.allclose(a.layer.weight.grad.tolist(), 3)
