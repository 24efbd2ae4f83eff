"""``ops.aten``: operators by PyTorch's names, called and kept in tables."""

from __future__ import annotations

import pytest

import tracejit as tj

ATEN = tj.ops.aten
X = tj.tensor([[3.0, 1.0, 2.0], [0.0, -1.0, 5.0]])
CALLS = (
    ("add.Tensor", (X, X)),
    ("sub.Tensor", (X, 2.0)),
    ("mm.default", (X, X.t())),
    ("relu.default", (X,)),
    ("gelu.default", (X,)),
    ("index_select.default", (X, 1, tj.tensor([2, 0]))),
    ("index.Tensor", (X, [None, tj.tensor([2, 0])])),
    ("slice.Tensor", (X, 1, 0, 3, 2)),
    ("slice.Tensor", (X, -1, 1)),
    ("select.int", (X, 0, 1)),
    ("cat.default", ([X, X], 1)),
    ("flip.default", (X, [0])),
    ("unsqueeze.default", (X, 0)),
    ("squeeze.dim", (X[:1], 0)),
    ("clone.default", (X,)),
    ("alias.default", (X,)),
    ("detach.default", (X,)),
    ("view.default", (X, [3, 2])),
    ("sum.dim_IntList", (X, [1])),
    ("_to_copy.default", (X,)),
)


@pytest.mark.parametrize(("path", "args"), CALLS)
def test_calls_give_what_pytorch_gives(path: str, args: tuple[object, ...]) -> None:
    torch = pytest.importorskip("torch", reason="the oracle of this test is PyTorch")
    packet, form = path.split(".")

    def theirs(value: object) -> object:
        if isinstance(value, tj.Tensor):
            return torch.tensor(value.tolist())
        return [theirs(x) for x in value] if isinstance(value, list) else value

    found = getattr(getattr(ATEN, packet), form)(*args)
    wanted = getattr(getattr(torch.ops.aten, packet), form)(*map(theirs, args))
    assert tuple(found.shape) == tuple(wanted.shape)
    assert tj.allclose(found, tj.from_numpy(wanted.numpy()))


def test_forms_are_kept_and_named() -> None:
    assert ATEN.add.Tensor is ATEN.add.Tensor
    assert ATEN.add.Tensor in {ATEN.add.Tensor: 1}
    assert ATEN.add.Tensor.overloadpacket is ATEN.add
    assert (ATEN.add.Tensor.name(), ATEN.mm.default.name()) == ("aten::add.Tensor", "aten::mm")
    assert repr(ATEN.add.Tensor) == "<OpOverload(op='aten.add', overload='Tensor')>"
    assert not hasattr(ATEN, "no_such_operator")
    assert not hasattr(ATEN.add, "__wrapped__")
    with pytest.raises(NotImplementedError, match="libraries only name it"):
        ATEN._sparse_addmm.default(X)


def test_calls_inside_of_compiled_functions() -> None:
    def f(x: tj.Tensor) -> tj.Tensor:
        return ATEN.add.Tensor(ATEN.mul(x, 2.0), tj.ops.aten.relu.default(x)).sum()

    compiled = tj.compile(f, strict=True)
    x = X.clone().requires_grad_()
    for _ in range(3):
        x.grad = None
        compiled(x).backward()
        assert x.grad is not None
        assert x.grad.tolist() == [[3.0, 3.0, 3.0], [2.0, 2.0, 3.0]]


def test_classes_that_take_no_functions_over() -> None:
    class Plain(tj.Tensor):
        __torch_function__ = tj._C._disabled_torch_function_impl

    assert Plain.__torch_function__(max, (), (1, 2)) == 2


def test_values_are_printed_without_what_is_around_them() -> None:
    assert tj._tensor_str._tensor_str(tj.tensor([1.0, 2.5]), indent=0) == "[1.0000, 2.5000]"


def test_nobody_else_is_called() -> None:
    rpc = tj.distributed.rpc
    assert not rpc.is_available()
    rpc.shutdown()
    for call in (rpc.init_rpc, rpc.rpc_sync, rpc.rpc_async, rpc.remote):
        with pytest.raises(NotImplementedError, match="single process"):
            call("worker")
