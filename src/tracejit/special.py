"""Special functions under PyTorch's names.

>>> import tracejit as tj
>>> tj.special.expit(tj.tensor([0.0]))
tensor([0.5000])
"""

from __future__ import annotations

from .ops.functions.arithmetic import round
from .ops.functions.mathematics import logit, polygamma, sinc, xlogy
from .ops.functions.reductions import logsumexp
from .ops.functions.softmax import log_softmax, softmax
from .ops.functions.special_functions import entr, ndtr, xlog1py
from .ops.functions.special_functions import mvlgamma as multigammaln
from .ops.keywords import publish
from .ops.special_functions import (
    bessel_j0,
    bessel_j1,
    erfcx,
    i0,
    i0e,
    i1,
    i1e,
    log_ndtr,
    ndtri,
    zeta,
)
from .ops.special_functions import igamma as gammainc
from .ops.special_functions import igammac as gammaincc
from .ops.transcendental import digamma, erf, erfc, erfinv, exp2, expm1, log1p
from .ops.transcendental import digamma as psi
from .ops.transcendental import lgamma as gammaln
from .ops.transcendental import sigmoid as expit

__all__ = [
    "bessel_j0",
    "bessel_j1",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
    "zeta",
]

publish(globals(), __all__)
