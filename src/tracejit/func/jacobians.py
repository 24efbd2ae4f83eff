"""Jacobians and Hessians as functions, under PyTorch's names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..autograd.functional import seeds_of, stacked_rows
from ..errors import ArgumentValueError
from ..ops.elementwise import cast
from ..ops.functions.triangles import eye
from ..ops.movement import reshape
from ..tensor import Tensor
from ..trace.signature import flatten, unflatten
from .batching import may_batch, vmap
from .derivatives import Trace, positions_of

Function = Callable[..., Any]
Argnums = int | tuple[int, ...]


def jacrev(
    func: Function,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """A function that returns the Jacobian of ``func`` with respect to the argument at ``argnums``.

    Its shape is that of the result followed by that of the argument. Where the result or the argument is nested, so is
    the Jacobian: like the result, and inside like the argument. With ``has_aux`` the function returns a pair of the
    result and anything else, and so does the Jacobian. All rows are computed at once whatever ``chunk_size`` says.
    Errors are those of :func:`value_and_grad`, ``RuntimeError`` for complex arguments or results, and ``ValueError``
    for a ``chunk_size`` that is not positive.

    >>> import tracejit as tj
    >>> tj.func.jacrev(lambda x: x * x)(tj.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    >>> tj.func.jacrev(lambda p: p["a"] * p["b"])({"a": tj.tensor(2.0), "b": tj.tensor(3.0)})
    {'a': tensor(3.), 'b': tensor(2.)}
    """

    if chunk_size is not None and chunk_size <= 0:
        raise ArgumentValueError("jacrev: `chunk_size` should be greater than 0.")
    return _jacobian(func, argnums, has_aux, forward=False)


def jacfwd(
    func: Function, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Function:
    """As :func:`jacrev`, in the dtypes of the results; random numbers are drawn once.

    >>> import tracejit as tj
    >>> tj.func.jacfwd(lambda x: (x * x).double())(tj.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]], dtype=tracejit.float64)
    """
    return _jacobian(func, argnums, has_aux, forward=True)


def _jacobian(func: Function, argnums: Argnums, has_aux: bool, forward: bool) -> Function:
    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        positions = positions_of(argnums, len(args))
        trace = Trace([args[i] for i in positions])
        _check_real("inputs", trace.leaves)
        output, aux = trace.run(func, args, kwargs, positions, has_aux)
        results: list[Any] = []
        structure = flatten(output, results)
        _check_real("outputs", results)
        blocks = []
        for result in results:
            rows = _rows(trace, result)
            if forward:
                rows = [cast(x, dtype=result.dtype) for x in rows]
            blocks.append(trace.per_argument(rows))
        found = unflatten(
            structure, iter([b[0] if isinstance(argnums, int) else tuple(b) for b in blocks])
        )
        return (found, trace.plain_tree(aux)) if has_aux else found

    return jacobian


def hessian(func: Function, argnums: Argnums = 0) -> Function:
    """A function that returns the second derivatives of ``func``: the Jacobian of its Jacobian.

    >>> import tracejit as tj
    >>> tj.func.hessian(lambda x: (x * x * x).sum())(tj.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    >>> tj.func.hessian(lambda x: x * x)(tj.tensor([1.0, 2.0])).shape
    tracejit.Size([2, 2, 2])
    """
    return jacrev(jacrev(func, argnums), argnums)


def _check_real(role: str, tensors: Sequence[Any]) -> None:
    for number, x in enumerate(tensors):
        if isinstance(x, Tensor) and x.dtype.is_complex:
            raise RuntimeError(
                f"jacrev: Expected all {role} to be real but received complex tensor at flattened input idx: {number}"
            )


def _rows(trace: Trace, result: Any) -> Sequence[Any]:
    """The Jacobian of one result for every leaf of the trace: one backward pass for all elements of the result, or one
    for each.
    """
    shape, count = result.spec.shape, result.spec.numel
    if count > 1 and may_batch():
        seeds = reshape(eye(count, dtype=result.dtype), shape=(count, *shape))
        found = vmap(lambda seed: tuple(trace.gradients([result], [seed], retain=True)))(seeds)
        return [
            reshape(rows, shape=(*shape, *leaf.spec.shape))
            for rows, leaf in zip(found, trace.leaves, strict=True)
        ]
    rows = [trace.gradients([result], [seed], retain=True) for seed in seeds_of(result)]
    return [
        stacked_rows([row[position] for row in rows], result.spec.shape, leaf)
        for position, leaf in enumerate(trace.leaves)
    ]
