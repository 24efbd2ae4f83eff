"""Operators with names: what they compute, their gradients, and functions compiled around them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

import tracejit as tj
from tracejit.library import Library, custom_op, infer_schema
from tracejit.schemas import Schema

_numbers = itertools.count()


def fresh() -> str:
    return f"tests{next(_numbers)}"


def sine() -> Any:
    """An operator with a gradient that keeps its input and a number."""
    space = fresh()

    @custom_op(f"{space}::sine", mutates_args=())
    def scaled(x: tj.Tensor, scale: float = 2.0) -> tj.Tensor:
        return tj.sin(x) * scale

    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, scale = inputs
        ctx.save_for_backward(x)
        ctx.scale = scale

    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return grad * x.cos() * ctx.scale, None

    scaled.register_autograd(backward, setup_context=setup_context)
    return scaled


def test_calls_bind_arguments_as_functions_do() -> None:
    op, x = sine(), tj.linspace(0, 1, 4)
    by_name = getattr(tj.ops, op._namespace).sine
    expected = (x.sin() * 3).tolist()
    for found in (
        op(x, 3.0),
        op(x, scale=3.0),
        op(scale=3.0, x=x),
        by_name(x, 3.0),
        by_name.default(x, 3.0),
    ):
        assert found.tolist() == expected
    assert op(x).tolist() == (x.sin() * 2).tolist()
    with pytest.raises(TypeError):
        op(x, other=1)


def test_gradients_are_those_that_were_registered() -> None:
    op = sine()
    x = tj.linspace(0, 1, 4, requires_grad=True)
    op(x, 3.0).sum().backward()
    tj.testing.assert_close(x.grad, (x.cos() * 3).detach())
    with tj.no_grad():
        assert not op(x).requires_grad


@pytest.mark.parametrize("gradient", [False, True])
def test_compiled_functions_follow_them(gradient: bool) -> None:
    op = sine()
    function = tj.compile(lambda x: op(x * 2, 1.5).sum(), strict=True)
    for _ in range(4):
        x = tj.linspace(0, 1, 4, requires_grad=gradient)
        y = function(x)
        tj.testing.assert_close(y.detach(), ((x * 2).sin() * 1.5).sum().detach())
        if gradient:
            y.backward()
            tj.testing.assert_close(x.grad, ((x * 2).cos() * 3).detach())
    assert function.stats.compiled_calls == 3


def test_python_state_that_an_operator_reads_is_compared() -> None:
    table = {"factor": 3.0}

    @custom_op(f"{fresh()}::scaled", mutates_args=())
    def scaled(x: tj.Tensor) -> tj.Tensor:
        return x * table["factor"]

    function = tj.compile(lambda x: scaled(x) + 1)
    found = []
    for factor in (3.0, 3.0, 3.0, 5.0, 5.0, 3.0):
        table["factor"] = factor
        found.append(function(tj.ones(1)).item())
    assert found == [4, 4, 4, 6, 6, 4]
    assert function.stats.compiled_calls >= 3
    scaled.register_kernel("cpu", lambda x: x * 100)
    assert function(tj.ones(1)).item() == 101


def test_operators_that_do_more_than_compute_run_eagerly(capsys: Any) -> None:
    @custom_op(f"{fresh()}::printing", mutates_args=())
    def printing(x: tj.Tensor) -> tj.Tensor:
        print("here")
        return x * 2

    function = tj.compile(lambda x: printing(x) + 1)
    for _ in range(3):
        assert function(tj.ones(1)).item() == 3
    assert capsys.readouterr().out == "here\n" * 3
    assert "may do more than compute" in str(function.explain())


def test_without_a_gradient_only_the_backward_pass_is_refused() -> None:
    @custom_op(f"{fresh()}::both", mutates_args=())
    def both(x: tj.Tensor, others: Sequence[tj.Tensor]) -> tuple[tj.Tensor, tj.Tensor]:
        return x + others[0], x * 2

    first, second = both(tj.ones(2, requires_grad=True), [tj.ones(2)])
    assert first.requires_grad
    assert second.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        first.sum().backward()


@pytest.mark.parametrize("compiled", [False, True])
def test_operators_write_to_what_they_say(compiled: bool) -> None:
    @custom_op(f"{fresh()}::add_to", mutates_args=("x",))
    def add_to(x: tj.Tensor, by: float) -> None:
        x.add_(by)

    def function(x: Any) -> Any:
        add_to(x, 2.0)
        return x * 2

    run = tj.compile(function) if compiled else function
    for _ in range(3):
        x = tj.zeros(2)
        assert run(x).tolist() == [4, 4]
        assert x.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="non-functional operator"):
        add_to.register_autograd(lambda ctx: None)


def test_a_result_is_no_argument() -> None:
    @custom_op(f"{fresh()}::same", mutates_args=())
    def same(x: tj.Tensor) -> tj.Tensor:
        return x

    with pytest.raises(RuntimeError, match="must not also be an input"):
        same(tj.ones(2))


def test_libraries_define_and_implement() -> None:
    space = fresh()
    library = Library(space, "DEF")
    assert (
        library.define("shifted(Tensor x, Tensor? y=None, *, Scalar by=3) -> Tensor") == "shifted"
    )
    ops = getattr(tj.ops, space)
    with pytest.raises(NotImplementedError, match="nothing is registered"):
        ops.shifted(tj.ones(1))
    library.impl("shifted", lambda x, y=None, *, by=3: x + by + (0 if y is None else y), "CPU")
    assert ops.shifted(tj.ones(1)).item() == 4
    assert ops.shifted(tj.ones(1), tj.ones(1), by=1).item() == 3
    library.define("doubled(Tensor x) -> Tensor")
    Library(space, "IMPL", "CompositeImplicitAutograd").impl("doubled", lambda x: x * 2)
    x = tj.ones(2, requires_grad=True)
    ops.doubled(x).sum().backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="does not exist"):
        library.impl("missing", lambda x: x)
    with pytest.raises(AttributeError):
        ops.missing  # noqa: B018
    with pytest.raises(ValueError, match="Unsupported kind"):
        Library(space, "OTHER")


def test_functions_of_the_module_do_the_same() -> None:
    name = f"{fresh()}::five"
    tj.library.define(name, "(Tensor x) -> Tensor")

    @tj.library.impl(name, "cpu")
    def five(x: Any) -> Any:
        return x * 5

    tj.library.register_autograd(name, lambda ctx, grad: grad * 5)
    x = tj.ones(2, requires_grad=True)
    space, _, own = name.partition("::")
    getattr(getattr(tj.ops, space), own)(x).sum().backward()
    assert x.grad.tolist() == [5, 5]
    with pytest.raises(ValueError, match="namespace::name"):
        tj.library.define("five", "(Tensor x) -> Tensor")


SCHEMAS: dict[str, str] = {
    "def f(x: tj.Tensor) -> tj.Tensor: ...": "(Tensor x) -> Tensor",
    "def f(x: tj.Tensor, n: int = 2, *, a: bool, s: str = 'k') -> None: ...": (
        '(Tensor x, SymInt n=2, *, bool a, str s="k") -> ()'
    ),
    "def f(x: Optional[tj.Tensor], xs: Sequence[tj.Tensor], n: list[int]) -> tuple[tj.Tensor, int]: ...": (
        "(Tensor? x, Tensor[] xs, SymInt[] n) -> (Tensor, SymInt)"
    ),
    "def f(x: tj.Tensor | None = None, d: tj.dtype = tj.float32) -> Sequence[tj.Tensor]: ...": (
        "(Tensor? x=None, ScalarType d=float32) -> Tensor[]"
    ),
}


@pytest.mark.parametrize("text", SCHEMAS)
def test_schemas_of_functions(text: str) -> None:
    space: dict[str, Any] = {"tj": tj, "Sequence": Sequence}
    exec(f"from typing import Optional\n{text}", space)
    assert infer_schema(space["f"], mutates_args=()) == SCHEMAS[text]


@pytest.mark.parametrize(
    "text",
    [
        "def f(x): ...",
        "def f(x: dict): ...",
        "def f(x: tj.Tensor, *rest): ...",
        "def f(x: object): ...",
    ],
)
def test_functions_that_have_none(text: str) -> None:
    space: dict[str, Any] = {"tj": tj}
    exec(text, space)
    with pytest.raises(ValueError, match="infer_schema"):
        infer_schema(space["f"], mutates_args=())


def test_defaults_of_types_are_kept() -> None:
    @custom_op(f"{fresh()}::cast", mutates_args=())
    def cast(x: tj.Tensor, dtype: tj.dtype = tj.float64) -> tj.Tensor:
        return x.to(dtype)

    assert cast(tj.ones(1)).dtype is tj.float64


def test_schemas_are_taken_apart() -> None:
    found = Schema.of(
        'f(Tensor(a!) x, int[2] n=[1, 2], *, float y=1.5, str s="a, b", bool? b=None) -> (Tensor, int)'
    )
    assert (found.name, found.mutated) == ("f", ("x",))
    assert found.bind((1,), {"b": True}) == ((1, [1, 2]), {"y": 1.5, "s": "a, b", "b": True})
    with pytest.raises(ValueError, match="no schema"):
        Schema.of("f(Tensor x)")


def test_libraries_written_against_another_package_are_said_to_be_missing() -> None:
    with pytest.raises(OSError, match="Could not load this library: ops"):
        tj.ops.load_library("ops.so")
    assert not tj.ops.loaded_libraries
