"""Module: registration, walking, state, modes, printing, copying, versions."""

from __future__ import annotations

import copy
import pickle
import typing
from collections import OrderedDict

import numpy as np
import pytest

import tracejit as tj
from tracejit import nn
from tracejit.nn.structure import STRUCTURE_VERSION


def tensor(*shape: int, value: float = 0.0, dtype=np.float32):
    return tj.from_numpy(np.full(shape, value, dtype))


class Scale(nn.Module):
    def __init__(self, size: int = 2) -> None:
        super().__init__()
        self.factor = nn.Parameter(tensor(size, value=3.0))
        self.register_buffer("count", tensor(1))
        self.register_buffer("cache", tensor(1), persistent=False)

    def forward(self, x, shift=0.0):
        return x * self.factor + shift


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = Scale()
        self.stack = nn.Sequential(Scale(), nn.Identity())
        self.shared = self.first


def test_members_are_registered_in_order():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["first.factor", "stack.0.factor"]
    assert [n for n, _ in net.named_parameters(remove_duplicate=False)] == [
        "first.factor",
        "stack.0.factor",
        "shared.factor",
    ]
    assert [n for n, _ in net.named_buffers()] == [
        "first.count",
        "first.cache",
        "stack.0.count",
        "stack.0.cache",
    ]
    assert [n for n, _ in net.named_modules()] == ["", "first", "stack", "stack.0", "stack.1"]
    assert [n for n, _ in net.named_children()] == ["first", "stack"]
    assert list(net.parameters(recurse=False)) == []
    assert list(net.first.parameters()) == [net.first.factor]


def test_assignment_moves_between_kinds():
    module = nn.Module()
    module.x = 3
    module.x = nn.Parameter(tensor(2))
    assert list(module._parameters) == ["x"]
    assert "x" not in module.__dict__
    module.x = nn.Identity()
    assert list(module._parameters) == []
    assert list(module._modules) == ["x"]
    module.x = None
    assert module.x is None
    del module.x
    with pytest.raises(AttributeError, match="'Module' object has no attribute 'x'"):
        _ = module.x


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("first", 3, r"cannot assign 'int' as child module 'first'"),
        ("weight", tensor(2), r"as parameter 'weight' \(tracejit.nn.Parameter or None expected\)"),
        ("mean", "x", r"cannot assign 'str' as buffer 'mean'"),
    ],
)
def test_assignment_refuses_other_kinds(name, value, message):
    module = nn.Module()
    module.first = nn.Identity()
    module.weight = nn.Parameter(tensor(2))
    module.register_buffer("mean", tensor(2))
    before = getattr(module, name)
    with pytest.raises(TypeError, match=message):
        setattr(module, name, value)
    assert getattr(module, name) is before


def test_registration_errors():
    module = nn.Module()
    with pytest.raises(KeyError, match="contain"):
        module.register_parameter("a.b", None)
    with pytest.raises(KeyError, match="be empty"):
        module.add_module("", nn.Identity())
    with pytest.raises(KeyError, match="already exists"):
        module.register_buffer("forward", tensor(1))
    with pytest.raises(TypeError, match="is not a Module subclass"):
        module.add_module("m", 3)
    with pytest.raises(TypeError, match="name should be a string"):
        module.register_buffer(3, tensor(1))

    class Early(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(tensor(1))

    with pytest.raises(AttributeError, match=r"cannot assign parameters before Module.__init__"):
        Early()


def test_lookup_by_path():
    net = Net()
    assert net.get_submodule("stack.0") is net.stack[0]
    assert net.get_submodule("") is net
    assert net.get_parameter("first.factor") is net.first.factor
    assert net.get_buffer("first.count") is net.first.count
    with pytest.raises(AttributeError, match="Sequential has no attribute `7`"):
        net.get_submodule("stack.7")
    with pytest.raises(AttributeError, match=r"`factor` is not an nn.Module"):
        net.get_submodule("first.factor")
    with pytest.raises(AttributeError, match=r"`count` is not an nn.Parameter"):
        net.get_parameter("first.count")
    net.set_submodule("stack.1", nn.Sequential())
    assert isinstance(net.stack[1], nn.Sequential)


def test_state_dict_round_trip():
    net, other = Net(), Net()
    with tj.no_grad():
        net.first.factor.copy_(tensor(2, value=7.0))
    state = net.state_dict()
    assert list(state) == [
        "first.factor",
        "first.count",
        "stack.0.factor",
        "stack.0.count",
        "shared.factor",
        "shared.count",
    ]
    assert not state["first.factor"].requires_grad
    assert net.state_dict(keep_vars=True)["first.factor"] is net.first.factor
    kept = other.first.factor
    assert repr(other.load_state_dict(state)) == "<All keys matched successfully>"
    assert other.first.factor is kept
    assert other.first.factor.tolist() == [7.0, 7.0]


def test_state_dict_shares_storage_and_assign_replaces():
    module = Scale()
    state = module.state_dict()
    state["factor"].fill_(5.0)
    assert module.factor.tolist() == [5.0, 5.0]
    new = tensor(2, value=1.0, dtype=np.float64)
    module.factor.requires_grad_(False)
    module.load_state_dict({"factor": new, "count": tensor(1)}, assign=True)
    assert isinstance(module.factor, nn.Parameter)
    assert module.factor.dtype is tj.float64
    assert not module.factor.requires_grad


def test_load_state_dict_reports_everything_at_once():
    module = nn.Sequential(OrderedDict(a=Scale(), b=Scale()))
    state = module.state_dict()
    del state["b.factor"]
    state["a.factor"] = tensor(3)
    state["extra"] = tensor(1)
    state["a.count"] = 3
    with pytest.raises(RuntimeError) as caught:
        module.load_state_dict(state)
    text = str(caught.value)
    assert text.startswith("Error(s) in loading state_dict for Sequential:\n\tMissing key(s)")
    assert 'Missing key(s) in state_dict: "b.factor". ' in text
    assert 'Unexpected key(s) in state_dict: "extra". ' in text
    assert "size mismatch for a.factor: copying a param with shape tracejit.Size([3])" in text
    assert 'While copying the parameter named "a.count"' in text
    del state["a.count"], state["a.factor"]
    result = module.load_state_dict(state, strict=False)
    assert result.missing_keys == ["a.factor", "a.count", "b.factor"]
    assert result.unexpected_keys == ["extra"]
    with pytest.raises(TypeError, match="dict-like"):
        module.load_state_dict(5)


def test_extra_state():
    class WithExtra(nn.Module):
        extra = 1

        def get_extra_state(self):
            return {"extra": self.extra}

        def set_extra_state(self, state):
            self.extra = state["extra"]

    source, target = WithExtra(), WithExtra()
    source.extra = 9
    target.load_state_dict(source.state_dict())
    assert target.extra == 9


def test_train_and_eval_reach_every_module():
    net = Net()
    net.eval()
    assert [m.training for m in net.modules()] == [False] * 5
    assert all(m.training for m in net.train().modules())
    with pytest.raises(ValueError, match="boolean"):
        net.train(3)


def test_apply_visits_children_first():
    seen = []
    net = nn.Sequential(nn.Sequential(nn.Identity()))
    assert net.apply(lambda m: seen.append(m)) is net
    assert seen == [net[0][0], net[0], net]


def test_to_converts_floating_members_and_keeps_identity():
    module = Scale()
    module.register_buffer("index", tensor(2, dtype=np.int64))
    parameter = module.factor
    parameter.grad = tensor(2, value=2.0)
    assert module.double() is module
    assert module.factor is parameter
    assert parameter.dtype is tj.float64
    assert parameter.grad.dtype is tj.float64
    assert parameter.is_leaf
    assert parameter.requires_grad
    assert module.index.dtype is tj.int64
    (module(tensor(2, dtype=np.float64)).sum()).backward()
    assert parameter.grad.tolist() == [2.0, 2.0]
    assert module.half().factor.dtype is tj.float16
    assert module.bfloat16().factor.dtype is tj.bfloat16
    assert module.to("cpu", tj.float32).factor.dtype is tj.float32
    with pytest.raises(TypeError, match="only accepts floating point or complex dtypes"):
        module.to(tj.int32)
    with pytest.raises(RuntimeError):
        module.to("nowhere")


def test_gradients_flow_after_a_conversion():
    module = Scale()
    module(tensor(2, value=1.0)).sum().backward()
    module.zero_grad()
    module.double()
    module(tensor(2, value=4.0, dtype=np.float64)).sum().backward()
    assert module.factor.grad.dtype is tj.float64
    assert module.factor.grad.tolist() == [4.0, 4.0]


def test_zero_grad_and_requires_grad():
    module = Scale()
    module(tensor(2, value=1.0)).sum().backward()
    module.zero_grad(set_to_none=False)
    assert module.factor.grad.tolist() == [0.0, 0.0]
    module.zero_grad()
    assert module.factor.grad is None
    assert not module.requires_grad_(False).factor.requires_grad


def test_repr_nests():
    net = nn.Sequential(nn.Identity(), nn.ModuleList([nn.Identity(), nn.Identity(), Scale()]))
    assert repr(net) == (
        "Sequential(\n"
        "  (0): Identity()\n"
        "  (1): ModuleList(\n"
        "    (0-1): 2 x Identity()\n"
        "    (2): Scale()\n"
        "  )\n"
        ")"
    )
    assert repr(nn.Sequential()) == "Sequential()"
    assert repr(nn.Parameter(tensor(1))) == (
        "Parameter containing:\ntensor([0.], requires_grad=True)"
    )


def test_parameter():
    data = tensor(3, value=1.0)
    parameter = nn.Parameter(data)
    assert parameter.requires_grad
    assert parameter.is_leaf
    assert isinstance(parameter, tj.Tensor)
    data.fill_(2.0)
    assert parameter.tolist() == [2.0] * 3
    assert type(parameter * 2) is tj.Tensor
    assert nn.Parameter().shape == (0,)
    with pytest.raises(RuntimeError, match="floating point"):
        nn.Parameter(tensor(2, dtype=np.int64))
    assert not nn.Parameter(tensor(2, dtype=np.int64), requires_grad=False).requires_grad
    with pytest.raises(TypeError, match="must be a Tensor"):
        nn.Parameter([1.0])


def test_buffer_class_registers():
    module = nn.Module()
    module.kept = nn.Buffer(tensor(1))
    module.lost = nn.Buffer(tensor(1), persistent=False)
    assert list(module.state_dict()) == ["kept"]
    assert [n for n, _ in module.named_buffers()] == ["kept", "lost"]
    module.kept = tensor(2)
    assert module._buffers["kept"].shape == (2,)


def test_deepcopy_and_pickle_are_independent():
    net = Net()
    net.first.factor.grad = tensor(2, value=1.0)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert twin.shared is twin.first
        assert twin.first.factor is not net.first.factor
        assert twin.first.factor.requires_grad
        assert isinstance(twin.first.factor, nn.Parameter)
        with tj.no_grad():
            twin.first.factor.fill_(-1.0)
        assert net.first.factor.tolist() == [3.0, 3.0]
        assert twin.first(tensor(2, value=1.0)).tolist() == [-1.0, -1.0]
        assert twin.first.factor.grad is None  # a copied model starts without gradients


def note(module, args, out) -> None:
    module.calls = getattr(module, "calls", 0) + 1


def test_hooks_are_copied_and_their_removal_stays_apart():
    module = Scale()
    handle = module.register_forward_hook(note)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        twin(tensor(2))
        assert twin.calls == 1
    handle.remove()
    module(tensor(2))
    assert not hasattr(module, "calls")


def test_tied_parameters_convert_once():
    net = nn.Sequential(Scale(), Scale())
    net[1].factor = net[0].factor
    net._apply(lambda t: t * 2)
    assert net[1].factor is net[0].factor
    assert net[0].factor.tolist() == [6.0, 6.0]


def test_forward_is_required():
    with pytest.raises(NotImplementedError, match='missing the required "forward" function'):
        nn.Module()(1)


# --- versions ------------------------------------------------------------------------------------


def changes(action) -> int:
    before = STRUCTURE_VERSION[0]
    action()
    return STRUCTURE_VERSION[0] - before


def test_structure_changes_are_counted():
    net = Net()
    scale = net.first
    own = scale._version
    assert changes(lambda: setattr(scale, "plain", 1)) == 1
    assert scale._version == own + 1
    assert changes(lambda: setattr(scale, "factor", nn.Parameter(tensor(2)))) >= 1
    assert changes(lambda: delattr(scale, "plain")) == 1
    assert changes(lambda: net.eval()) == 5
    handle = []
    assert changes(lambda: handle.append(scale.register_forward_hook(lambda *_: None))) == 1
    assert changes(handle[0].remove) == 1
    assert changes(lambda: net.double()) >= 2
    assert changes(lambda: net.requires_grad_(False)) >= 2
    assert changes(lambda: net.load_state_dict(Net().state_dict(), assign=True)) >= 6


def test_values_are_not_structure():
    net = Net()
    net.eval()
    other = Net().state_dict()

    def run() -> None:
        with tj.no_grad():
            net.first.factor.fill_(1.0)
        net.first(tensor(2)).sum().backward()
        net.zero_grad()
        net.load_state_dict(other)
        net.eval()
        net.first.size = net.first.__dict__.setdefault("size", 3)

    assert changes(run) == 0


def test_annotations_can_be_looked_up():
    class Own(nn.Linear):
        scale: float

    assert typing.get_type_hints(Own)["scale"] is float
