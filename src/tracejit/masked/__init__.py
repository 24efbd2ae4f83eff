"""Reductions and normalisations of the elements that a mask keeps.

``mask`` is a bool tensor that broadcasts to the input; elements where it is False take no part. Without one all do.

>>> import tracejit as tj
>>> x, mask = tj.tensor([1.0, 2.0, 4.0]), tj.tensor([True, False, True])
>>> tj.masked.sum(x, mask=mask), tj.masked.mean(x, mask=mask)
(tensor(5.), tensor(2.5000))
"""

from .elements import cumprod, cumsum, log_softmax, logaddexp, normalize, softmax, softmin
from .reductions import (
    amax,
    amin,
    argmax,
    argmin,
    logsumexp,
    mean,
    median,
    norm,
    prod,
    std,
    sum,
    var,
)

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]
