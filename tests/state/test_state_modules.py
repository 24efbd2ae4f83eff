"""Guards on tensors and modules: one counter, and a comparison when it moved."""

from __future__ import annotations

from functools import partial

import pytest

import tracejit as tj
from state_helpers import expect_change, expect_same
from tracejit import nn
from tracejit.trace.state.state import watch

# -- tensors and modules ---------------------------------------------------------------------------------


def test_tensors_count_by_identity():
    weight = tj.tensor([1.0, 2.0])
    box = [weight]
    guard = watch(lambda x: x * weight + box[0])
    weight.array[0] = 9.0
    expect_same(guard)
    box[0] = tj.tensor([1.0, 2.0])
    expect_change(guard, "item 0 of closure variable 'box'", "a Tensor")


class Leaf(nn.Module):
    gain = 1.0

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(tj.tensor([1.0]))
        self.n = 1
        self.unread = 0
        self.sizes = [1, 2]

    def forward(self, x):
        return x * self.weight * self.n * self.gain * self.sizes[0] * self.scale()

    def scale(self):
        return SCALE


class Net(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(Leaf() for _ in range(depth))
        self.plain = [Leaf()]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.plain[0](x)


SCALE = 1


def net_guard():
    net = Net()
    return net, watch(Net.forward, (net,))


MODULE_CHANGES = {
    "attribute": (lambda net: setattr(net.layers[2], "n", 2), "attribute 'n' of Leaf"),
    "deleted": (lambda net: delattr(net.layers[2], "n"), "attribute 'n' of Leaf"),
    "covered method": (
        lambda net: setattr(net.layers[0], "scale", abs),
        "attribute 'scale' of Leaf",
    ),
    "list attribute": (lambda net: net.layers[1].sizes.append(1), "attribute 'sizes' of Leaf"),
    "mode": (lambda net: net.eval(), "'training'"),
    "mode of one": (lambda net: net.layers[1].eval(), "'training' of Leaf"),
    "new parameter": (
        lambda net: setattr(net.layers[0], "weight", nn.Parameter(tj.tensor([1.0]))),
        "parameter 'weight' of Leaf",
    ),
    "dtype": (lambda net: net.double(), "parameter 'weight' of Leaf"),
    "requires grad": (lambda net: net.requires_grad_(False), "parameter 'weight' of Leaf"),
    "layer replaced": (
        lambda net: net.layers.__setitem__(1, Leaf()),
        "submodule '1' of ModuleList",
    ),
    "layer added": (lambda net: net.layers.append(Leaf()), "submodule '3' of ModuleList"),
    "plain list of layers": (
        lambda net: net.plain.__setitem__(0, Leaf()),
        "attribute 'plain' of Net",
    ),
    "hidden module": (lambda net: setattr(net.plain[0], "n", 9), "attribute 'n' of Leaf"),
    "hook": (lambda net: net.layers[0].register_forward_hook(lambda *_: None), "forward hook 0"),
    "pre hook": (lambda net: net.register_forward_pre_hook(lambda *_: None), "forward_pre hook 0"),
    "class": (lambda net: setattr(net.layers[0], "__class__", Net), "the class of Leaf"),
}


@pytest.mark.parametrize("name", MODULE_CHANGES)
def test_a_module_changes(name):
    change, words = MODULE_CHANGES[name]
    net, guard = net_guard()
    expect_same(guard)
    change(net)
    expect_change(guard, words)


def test_changes_of_modules_that_do_not_matter():
    net, guard = net_guard()
    other = Leaf()
    for step in range(3):
        other.n = step
        net.layers[0].unread = step
        net.layers[0].weight.array[0] = step
        expect_same(guard)
    net.train()
    net.eval()
    net.train()
    net.register_forward_hook(lambda *_: None).remove()
    expect_same(guard)


def test_an_irrelevant_change_is_compared_once(monkeypatch):
    net, guard = net_guard()
    net.layers[0].unread = 5
    assert guard.holds()
    structure = guard.checks[0]
    monkeypatch.setattr(type(structure.snapshots[0]), "difference", lambda self: "compared again")
    assert guard.holds()


def test_a_hook_is_code_like_any_other():
    factor = 2.0

    def hook(module, args, output):
        return output * factor

    net = Leaf()
    handle = net.register_forward_hook(hook)
    guard = watch(Leaf.forward, (net,))
    factor = 3.0
    expect_change(guard, "closure variable 'factor' of hook was 2.0 and is 3.0")
    factor = 2.0
    expect_same(guard)
    handle.remove()
    expect_change(guard, "forward hook 0")


def test_code_and_classes_behind_modules(monkeypatch):
    _, guard = net_guard()
    with monkeypatch.context() as patch:
        patch.setitem(globals(), "SCALE", 2)
        expect_change(guard, "global 'SCALE' was 1 and is 2")
    with monkeypatch.context() as patch:
        patch.setattr(Leaf, "scale", lambda self: 3)
        expect_change(guard, "'scale' of class Leaf")
    with monkeypatch.context() as patch:
        patch.setattr(Leaf, "gain", 3.0)
        expect_change(guard, "'gain' of class Leaf")
    expect_same(guard)


def test_a_method_of_a_library_layer_is_replaced(monkeypatch):
    net = nn.Sequential(nn.ReLU())
    guard = watch(lambda x: net(x))
    expect_same(guard)
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, x: x)
    expect_change(guard, "'forward' of class ReLU")


def test_settings_of_library_layers():
    layer = nn.LeakyReLU(0.1)
    guard = watch(lambda x: layer(x))
    layer.negative_slope = 0.2
    expect_change(guard, "attribute 'negative_slope' of LeakyReLU", "was 0.1 and is 0.2")


def test_a_module_counts_its_calls():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x

    net = Counting()
    _, change = watch(Counting.forward, (net,)).changed_by(lambda: net(1))
    assert change is not None
    assert "attribute 'calls' of" in change
    assert change.endswith("was 0 and is 1")


def test_checks_do_not_grow_with_depth():
    def count(depth):
        class Plain(nn.Module):
            def forward(self, x):
                return x

        class Deep(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = nn.Sequential(*(Plain() for _ in range(depth)))

            def forward(self, x):
                return self.layers(x)

        return len(watch(Deep.forward, (Deep(),)).checks)

    assert count(200) == count(2)


class Marked(tj.nn.Module):
    """Its weight has an attribute of the user's; attributes are read by computed names."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tj.nn.Parameter(tj.ones(3))
        self.weight.decays = False
        self.weight.factor = 2.0

    def forward(self, x):
        read = partial(getattr, self.weight)
        return x * read("factor") * getattr(self, "wei" + "ght")


def test_what_backward_leaves_at_a_weight_is_no_state_of_the_users():
    model = Marked()
    optimizer = tj.optim.AdamW(model.parameters())

    @tj.compile
    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(6):
        step(tj.ones(2, 3))
    assert step.stats.compiled_calls >= 4, step.explain()


def test_attributes_of_weights_are_followed():
    model = Marked()
    compiled = tj.compile(model)
    for factor in (2.0, 2.0, 3.0, 3.0, "absent"):
        model.weight.factor = factor
        if factor == "absent":
            del model.weight.factor
            with pytest.raises(AttributeError, match="factor"):
                compiled(tj.ones(3))
        else:
            assert compiled(tj.ones(3)).tolist() == [factor] * 3


class Scaled(tj.nn.Parameter):
    scale = 1.0


@pytest.mark.parametrize("given", [False, True])
def test_attributes_that_hide_those_of_a_class_of_weights_are_followed(given):
    weight = Scaled(tj.ones(3))
    weight.scale = 2.0
    compiled = tj.compile((lambda w: w * w.scale) if given else (lambda: weight * weight.scale))
    for scale in (2.0, 2.0, 3.0, 3.0):
        weight.scale = scale
        assert compiled(*[weight] * given).tolist() == [scale] * 3
