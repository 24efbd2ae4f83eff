"""Read what the compiler did: the graph, the kernels, the line that made each, and the reasons.

python examples/reading_the_ir.py
"""

from __future__ import annotations

import inspect

import tracejit as tj


@tj.compile
def normalised(x: tj.Tensor, scale: tj.Tensor) -> tj.Tensor:
    """Softmax of scaled rows, written out."""
    scores = x * scale
    shifted = scores - scores.amax(dim=-1, keepdim=True)
    weights = shifted.exp()
    return weights / weights.sum(dim=-1, keepdim=True)


def line_of(text: str) -> int:
    """The line of this file that holds a piece of `normalised`."""
    lines, first = inspect.getsourcelines(normalised.function)
    return first + next(n for n, line in enumerate(lines) if text in line)


def main() -> None:
    """One program, four views."""
    x, scale = tj.randn(32, 100), tj.tensor(2.0)
    with tj.no_grad():
        for _ in range(3):
            result = normalised(x, scale)
    assert tj.allclose(result.sum(dim=-1), tj.ones(32))

    (graph,) = normalised.graphs
    print("1. the graph: every line knows the Python line it came from\n")
    print(graph)
    assert "exp(" in str(graph)
    assert f"reading_the_ir.py:{line_of('shifted.exp()')}" in str(graph)

    print("\n2. the kernel: all of it in one pass over rows, written in a subset of Python\n")
    (kernel,) = normalised.kernels
    print(kernel.source)
    assert "exp_bounded_f32" in kernel.source  # nothing is above the largest number

    print("\n3. the kernel lines that come from `shifted.exp()`\n")
    lines = normalised.code_for(line_of("shifted.exp()"))
    print("\n".join(lines))
    assert any("exp_bounded_f32" in line for line in lines)

    # Another shape is recorded again, but its kernels exist: extents are arguments of a kernel.
    with tj.no_grad():
        for _ in range(2):
            normalised(tj.randn(7, 13), scale)
    assert len(normalised.kernels) == 1

    print("\n4. the report: signatures, recordings, what ran eagerly and why\n")
    print(normalised.explain())
    assert "f32[32, 100]" in str(normalised.explain())


if __name__ == "__main__":
    main()
