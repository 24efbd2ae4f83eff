"""Published functions: in-place twins, views and their writes, shape rules, scalar rules, and errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tracejit as tj
from tracejit.ops.functions.native_forms import NATIVE_FORMS
from tracejit.ops.keywords import as_called
from tracejit.ops.table import FUNCTIONS, METHODS, Movement, all_ops
from tracejit.testing import samples

X = np.random.default_rng(5).uniform(-2, 2, (3, 4)).astype(np.float32)


def test_every_function_is_a_name_of_the_package() -> None:
    assert set(FUNCTIONS) <= set(tj.__all__)
    plain = {name: as_called(target) for name, target in FUNCTIONS.items()}
    assert all(getattr(tj, name) is NATIVE_FORMS.get(name, plain[name]) for name in plain)
    assert all(getattr(tj.nn.functional, name) is not NATIVE_FORMS[name] for name in NATIVE_FORMS)
    assert all(hasattr(tj.Tensor, name) for name in METHODS)


INPLACE: dict[str, tuple[Any, ...]] = {
    "add_": (2,),
    "sub_": (0.5,),
    "mul_": (tj.tensor(X),),
    "div_": (3,),
    "pow_": (2,),
    "clamp_": (-1, 1),
    "neg_": (),
    "abs_": (),
    "exp_": (),
    "sqrt_": (),
    "relu_": (),
    "sigmoid_": (),
    "tanh_": (),
    "round_": (),
    "masked_fill_": (tj.tensor(X > 0), 7.0),
    "lerp_": (tj.ones(3, 4), 0.25),
    "addcmul_": (tj.tensor(X), tj.tensor(X)),
    "addcdiv_": (tj.tensor(X), tj.ones(3, 4)),
    "triu_": (),
    "cumsum_": (1,),
    "scatter_": (1, tj.tensor([[0], [1], [2]]), 9.0),
    "index_add_": (0, tj.tensor([0]), tj.ones(1, 4)),
}


@pytest.mark.parametrize("name", INPLACE)
def test_inplace_twins(name: str) -> None:
    x = tj.tensor(X)
    pointer = x.data_ptr()
    expected = getattr(tj.tensor(X), name[:-1])(*INPLACE[name])
    result = getattr(x, name)(*INPLACE[name])
    assert result is x
    assert x.data_ptr() == pointer
    assert np.array_equal(x.numpy(), expected.numpy(), equal_nan=True)


def test_inplace_keeps_dtype_or_refuses() -> None:
    x = tj.tensor([1, 2])
    assert x.add_(3).dtype is tj.int64
    with pytest.raises(RuntimeError, match="can't be cast"):
        x.mul_(0.5)
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        tj.ones(2).add_(tj.ones(3, 2))
    y = tj.tensor([1.5, 2.5])
    y += 1
    y *= tj.tensor([2, 2])
    assert y.tolist() == [5.0, 7.0]


VIEWS = [op for op in all_ops() if isinstance(op, Movement) and op.is_view]


@pytest.mark.parametrize("op", VIEWS, ids=lambda op: op.name)
def test_writing_through_a_view_is_its_write_rule(op: Movement) -> None:
    for case in samples.cases(op):
        base = tj.tensor(case.operands[0])
        view = op(base, **case.attributes)
        if not view.array.flags.writeable:
            assert op.name == "expand"
            continue
        value = tj.full(tuple(view.shape), -5.0, dtype=base.dtype)
        functional = op.write(base.clone(), value, **case.attributes)
        view.copy_(value)
        assert tj.equal(base, functional), case


def test_view_never_copies() -> None:
    x = tj.tensor(X)
    x.view(12)[0] = 9
    assert float(x[0, 0]) == 9
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        x.t().view(12)
    assert x.t().reshape(12).shape == (12,)


def test_softmax_of_extremes() -> None:
    inf = math.inf
    assert tj.softmax(tj.tensor([1000.0, 1000.0]), 0).tolist() == [0.5, 0.5]
    assert tj.softmax(tj.tensor([-inf, 0.0]), 0).tolist() == [0.0, 1.0]
    assert bool(tj.softmax(tj.tensor([-inf, -inf]), 0).isnan().all())
    assert tj.log_softmax(tj.tensor([0.0, -1e9]), 0).tolist() == [0.0, -1e9]
    assert tj.softmax(tj.ones(0, 3), 0).shape == (0, 3)
    assert float(tj.softmax(tj.tensor(3.0), 0)) == 1.0


def test_cross_entropy_without_targets_is_nan_and_ignores() -> None:
    logits = tj.tensor(X)
    ignored = tj.tensor([-100, -100, -100])
    assert math.isnan(float(tj.cross_entropy(logits, ignored)))
    assert float(tj.cross_entropy(logits, ignored, reduction="sum")) == 0
    part = tj.cross_entropy(logits, tj.tensor([1, -100, 2]))
    kept = tj.cross_entropy(logits[[0, 2]], tj.tensor([1, 2]))
    assert math.isclose(float(part), float(kept), rel_tol=1e-6)


def test_extremes_share_or_route_the_gradient() -> None:
    x = tj.tensor([[2.0, 2.0, 1.0]], requires_grad=True)
    x.amax().backward()
    assert x.grad.tolist() == [[0.5, 0.5, 0.0]]
    x.grad = None
    x.max(1).values.sum().backward()
    assert x.grad.tolist() == [[1.0, 0.0, 0.0]]
    x.grad = None
    x.clamp(min=2.0).sum().backward()
    assert x.grad.tolist() == [[1.0, 1.0, 0.0]]
    x.grad = None
    (x - 2).abs().sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0, -1.0]]


def test_standard_deviation_and_norm_at_zero_have_zero_gradient() -> None:
    x = tj.zeros(3, requires_grad=True)
    (x.std() + x.norm() + x.norm(3.0)).backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_gather_of_one_per_row_has_an_elementwise_gradient() -> None:
    x = tj.tensor(X, requires_grad=True)
    index = tj.tensor([[1], [3], [0]])
    (tj.gather(x, 1, index) * 2).sum().backward()
    expected = np.zeros_like(X)
    np.put_along_axis(expected, index.numpy(), 2, 1)
    assert np.array_equal(x.grad.numpy(), expected)


@pytest.mark.parametrize("dtype", [tj.float16, tj.bfloat16])
def test_half_precision_accumulates_wide(dtype: tj.dtype) -> None:
    x = tj.full((4096,), 1.0, dtype=dtype)
    assert float(x.sum()) == 4096
    assert float(x.mean()) == 1
    big = tj.full((8,), 60000.0 if dtype is tj.float16 else 4e37, dtype=dtype)
    assert float(big.mean()) == float(big[0])
    assert tj.layer_norm(big, (8,)).dtype is dtype


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda x: x.reshape(5), RuntimeError, "shape '.5.' is invalid for input of size 12"),
        (lambda x: x.reshape(-1, -1), RuntimeError, "only one dimension can be inferred"),
        (lambda x: x.permute(0), RuntimeError, "number of dimensions"),
        (lambda x: x.permute(0, 0), RuntimeError, "duplicate dims"),
        (lambda x: x.sum(2), IndexError, "Dimension out of range"),
        (lambda x: x.sum((0, 0)), RuntimeError, "multiple times"),
        (lambda x: x.expand(3, 5), RuntimeError, "must match the existing size"),
        (lambda x: x + tj.ones(3), RuntimeError, "must match the size of tensor b"),
        (lambda x: x @ x, RuntimeError, "inner sizes differ"),
        (lambda x: x @ tj.tensor(1.0), RuntimeError, "at least 1D"),
        (lambda x: x @ x.t().double(), RuntimeError, "same dtype"),
        (lambda x: tj.bmm(x, x), RuntimeError, "3D"),
        (lambda x: tj.cat([]), ValueError, "non-empty"),
        (lambda x: tj.cat([x, tj.ones(2, 2)]), RuntimeError, "Sizes of tensors must match"),
        (lambda x: tj.cat(x), TypeError, "must be tuple of Tensors"),
        (lambda x: tj.stack([x, x[0]]), RuntimeError, "equal size"),
        (lambda x: x.split([1, 1]), RuntimeError, "sum exactly to 3"),
        (lambda x: x.squeeze(5), IndexError, "Dimension out of range"),
        (lambda x: x.gather(1, tj.tensor([[4]])), RuntimeError, "index 4 is out of bounds"),
        (lambda x: x.select(0, 3), IndexError, "out of range"),
        (lambda x: x.narrow(0, 2, 2), RuntimeError, "exceeds dimension size"),
        (lambda x: x.topk(9), RuntimeError, "out of range"),
        (lambda x: tj.zeros(-1), RuntimeError, "negative dimension"),
        (lambda x: tj.zeros(2, device="cuda"), RuntimeError, "not available"),
        (lambda x: tj.arange(0, 3, 0), RuntimeError, "step must be nonzero"),
        (lambda x: tj.arange(3, 0), RuntimeError, "inconsistent with step sign"),
        (lambda x: tj.max(tj.ones(0)), RuntimeError, "Expected reduction dim"),
        (lambda x: tj.amax(tj.ones(0, 2), 0), IndexError, "non-zero size"),
        (lambda x: tj.layer_norm(x, (3,)), RuntimeError, "normalized_shape"),
        (lambda x: tj.cross_entropy(x, tj.tensor([0, 1])), ValueError, "batch_size"),
        (lambda x: tj.cross_entropy(x, tj.tensor([0, 1, 4])), IndexError, "out of bounds"),
        (lambda x: tj.mse_loss(x, x, reduction="what"), ValueError, "not a valid value"),
        (lambda x: tj.embedding(tj.tensor([3]), x), IndexError, "index 3 is out of bounds"),
        (lambda x: tj.div(x, x, rounding_mode="up"), RuntimeError, "rounding_mode"),
        (lambda x: tj.clamp(x), RuntimeError, "At least one of"),
        (lambda x: tj.einsum("ij,jk->ik", x), RuntimeError, "operands"),
        (lambda x: tj.add(x, "a"), TypeError, "must be Tensor"),
        (lambda x: x.to("nowhere"), RuntimeError, "Expected one of"),
    ],
)
def test_bad_input(call: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        call(tj.tensor(X))


def test_scalar_expressions_call_known_functions() -> None:
    """Every scalar expression has its helpers in float32 or, for bit operations, in int64."""
    import ast

    from tracejit.ops.table import Elementwise
    from tracejit.scalar_math import library as scalar_math

    known = set(scalar_math.namespace())
    for op in all_ops():
        if not isinstance(op, Elementwise) or op.scalar is None:
            continue
        tree = ast.parse(op.scalar, mode="eval")
        calls = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call)}  # type: ignore[attr-defined]
        for name in calls - {"convert", "select"}:
            assert {f"{name}_f32", f"{name}_i64", f"f{name}_f32"} & known, (op.name, name)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dim", [0, -1])
def test_gradients_that_backward_functions_of_programs_ask_for(name: str, dim: int) -> None:
    g = tj.tensor(X[::-1].copy())
    x = tj.tensor(X, requires_grad=True)
    out = getattr(tj, name)(x, dim)
    out.backward(g)
    mine = getattr(tj, f"_{name}")(x.detach(), dim, False)
    found = getattr(tj, f"_{name}_backward_data")(g, mine, dim, tj.float32)
    assert tj.equal(mine, out)
    tj.testing.assert_close(found, x.grad)


def test_a_new_tensor_of_a_tensor_is_compiled() -> None:
    def f(x: Any) -> Any:
        windows = x.new_tensor(tj.arange(4).unfold(0, 2, 1))
        return windows, x.new_tensor(x * 2)

    x = tj.ones(3, dtype=tj.float64, requires_grad=True)
    compiled = tj.compile(f)
    with pytest.warns(UserWarning, match=r"rather than tensor.new_tensor\(sourceTensor\)"):
        compiled(x)
    compiled(x)
    windows, twice = compiled(x)
    assert compiled.stats.compiled_calls == 2
    assert windows.dtype is tj.float64
    assert windows.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert twice.tolist() == [2, 2, 2]
    assert not twice.requires_grad
