"""Parametrizations against PyTorch: where they start, further ones on top, assignments, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import tracejit as tj

torch = pytest.importorskip("torch", reason="the oracle of these tests is PyTorch")


def kinds(t: Any) -> dict[str, Any]:
    class Symmetric(t.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).mT

        def right_inverse(self, x: Any) -> Any:
            return x.triu()

    class Exponential(t.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.exp()

        def right_inverse(self, x: Any) -> Any:
            return x.log()

    class Double(t.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2

    class Refusing(Double):
        def right_inverse(self, x: Any) -> Any:
            raise NotImplementedError

    class Narrow(Double):
        def right_inverse(self, x: Any) -> Any:
            return x.float()

    class Number(Double):
        def right_inverse(self, x: Any) -> Any:
            return 3

    return {c.__name__: c for c in (Symmetric, Exponential, Double, Refusing, Narrow, Number)}


def layer(t: Any, *names: str, unsafe: bool = False) -> Any:
    made = t.nn.Linear(2, 2, bias=False).double()
    with t.no_grad():
        made.weight.copy_(t.tensor([[1.0, 2.0], [3.0, 4.0]]))
    for name in names:
        p = kinds(t)[name]()
        t.nn.utils.parametrize.register_parametrization(made, "weight", p, unsafe=unsafe)
    return made


def facts(t: Any, names: tuple[str, ...]) -> Any:
    made = layer(t, *names)
    return made.weight.tolist(), made.parametrizations.weight.original.tolist()


@pytest.mark.parametrize(
    "names",
    [
        ("Symmetric", "Exponential"),
        ("Double", "Exponential"),
        ("Exponential", "Double"),
        ("Refusing",),
        ("Refusing", "Symmetric"),
        ("Double", "Refusing"),
    ],
)
def test_further_ones_are_applied_to_what_is_there(names: tuple[str, ...]) -> None:
    """What is learned stays as it is, so that optimizers and checkpoints keep it."""
    assert facts(tj, names) == facts(torch, names)


@pytest.mark.parametrize(
    "names", [("Narrow",), ("Number",), ("Double", "Narrow"), ("Double", "Number")]
)
def test_inverses_of_another_kind_are_refused(names: tuple[str, ...]) -> None:
    for t in (torch, tj):
        with pytest.raises(ValueError):
            layer(t, *names)


@pytest.mark.parametrize("names", [("Double",), ("Symmetric", "Double")])
def test_values_are_assigned_by_inverses_alone(names: tuple[str, ...]) -> None:
    for t in (torch, tj):
        made = layer(t, *names)
        with pytest.raises(RuntimeError, match="does not implement right_inverse"):
            made.weight = t.ones(2, 2).double()


def test_assigned_values_may_have_another_shape_but_not_another_dtype() -> None:
    for t in (torch, tj):
        made = layer(t, "Symmetric")
        made.weight = t.ones(3, 3).double()
        assert made.weight.tolist() == [[1.0] * 3] * 3
        with pytest.raises(ValueError):
            made.weight = t.ones(3, 3)


def test_one_that_is_unsafe_is_told() -> None:
    for t in (torch, tj):
        made = layer(t, "Double")
        assert not made.parametrizations.weight.unsafe
        again = kinds(t)["Double"]()
        t.nn.utils.parametrize.register_parametrization(made, "weight", again, unsafe=True)
        assert made.parametrizations.weight.unsafe


@pytest.mark.parametrize("kind", ["matrix_exp", "cayley"])
def test_orthogonal_maps_without_a_place_to_start_from(kind: str) -> None:
    found = []
    for t in (torch, tj):
        made = layer(t)
        t.nn.utils.parametrizations.orthogonal(made, orthogonal_map=kind, use_trivialization=False)
        found.append(made.weight.detach().numpy())
    assert abs(found[0] - found[1]).max() < 1e-12


def test_no_sequences_are_refused() -> None:
    for t in (torch, tj):
        with pytest.raises(RuntimeError, match="empty list"):
            t.nn.utils.rnn.pad_sequence([])
