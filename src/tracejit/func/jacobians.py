"""Jacobians and Hessians as functions, under PyTorch's names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..autograd import functional
from .derivatives import grad

Function = Callable[..., Any]
Argnums = int | tuple[int, ...]


def jacrev(func: Function, argnums: Argnums = 0, *, has_aux: bool = False) -> Function:
    """A function that returns the Jacobian of ``func`` with respect to the argument at ``argnums``.

    Its shape is that of the result followed by that of the argument; with ``has_aux`` the function returns a pair of
    the result and anything else, and so does the Jacobian.

    >>> import tracejit as tj
    >>> tj.func.jacrev(lambda x: x * x)(tj.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        chosen = argnums if isinstance(argnums, tuple) else (argnums,)
        aux: list[Any] = []

        def of_chosen(*values: Any) -> Any:
            given = list(args)
            for position, value in zip(chosen, values, strict=True):
                given[position] = value
            result = func(*given, **kwargs)
            if has_aux:
                result, extra = result
                aux[:] = [extra]
            return result

        inputs = tuple(args[i] for i in chosen)
        wanted = any(x.requires_grad for x in inputs)
        found = functional.jacobian(
            of_chosen, inputs if isinstance(argnums, tuple) else inputs[0], create_graph=wanted
        )
        return (found, aux[0]) if has_aux else found

    return jacobian


jacfwd = jacrev


def hessian(func: Function, argnums: Argnums = 0) -> Function:
    """A function that returns the second derivatives of ``func``, which returns one element.

    >>> import tracejit as tj
    >>> tj.func.hessian(lambda x: (x * x * x).sum())(tj.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """

    @functools.wraps(func)
    def second(*args: Any, **kwargs: Any) -> Any:
        return jacrev(lambda *a: grad(func, argnums)(*a, **kwargs), argnums)(*args)

    return second
