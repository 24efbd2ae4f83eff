"""What a compiled call costs beside its kernels: nothing to compute, many arguments, a deep module, a branch."""

from __future__ import annotations

from typing import Any

import pytest

import tracejit as tj


def compiled(function: Any, *args: Any) -> Any:
    """A compiled function that has been recorded and compiled for ``args``."""
    found = tj.compile(function, strict=True)
    for _ in range(3):
        found(*args)
    assert found.stats.compiled_calls == 2
    return found


@pytest.mark.benchmark(group="replay overhead")
@pytest.mark.parametrize("count", [1, 10, 50])
def test_arguments(benchmark: Any, count: int) -> None:
    """One small kernel for any number of tensors."""

    def total(*tensors: Any) -> Any:
        result = tensors[0] + 1.0
        for t in tensors[1:]:
            result = result + t
        return result

    args = [tj.ones(4) for _ in range(count)]
    assert benchmark(compiled(total, *args), *args).sum().item() == 4 * (count + 1)


@pytest.mark.benchmark(group="replay overhead")
@pytest.mark.parametrize("depth", [1, 10, 50])
def test_module_depth(benchmark: Any, depth: int) -> None:
    """The guard on a module must not grow with its depth."""
    layers = [layer for _ in range(depth) for layer in (tj.nn.Linear(4, 4), tj.nn.ReLU())]
    model = tj.nn.Sequential(*layers)

    def function(x: Any) -> Any:
        return model(x)

    x = tj.ones(2, 4)
    with tj.no_grad():
        replay = compiled(function, x)
        assert benchmark(replay, x).shape == (2, 4)


@pytest.mark.benchmark(group="replay overhead")
@pytest.mark.parametrize("guards", [1, 4])
def test_branches(benchmark: Any, guards: int) -> None:
    """Every data-dependent branch reads one value back."""

    def function(x: Any) -> Any:
        for k in range(guards):
            x = x + 1.0 if x.sum() > k else x - 1.0
        return x

    x = tj.ones(4)
    assert benchmark(compiled(function, x), x).shape == (4,)


@pytest.mark.benchmark(group="replay overhead")
def test_program_alone(benchmark: Any) -> None:
    """The program of one kernel without guards and lookup: the floor of the above."""
    x = tj.ones(4)
    function = compiled(lambda x: x + 1.0, x)
    (program,) = [p for entries in function.entries.values() for e in entries for p in e.programs()]
    assert len(benchmark(program.run, x)) == 1
