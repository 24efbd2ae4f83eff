"""Special functions under PyTorch's names.

>>> import tracejit as tj
>>> tj.special.expit(tj.tensor([0.0]))
tensor([0.5000])
"""

from __future__ import annotations

from .ops.functions.arithmetic import round
from .ops.functions.mathematics import logit, polygamma, sinc, xlogy
from .ops.functions.polynomials import POLYNOMIALS, spherical_bessel_j0
from .ops.functions.reductions import logsumexp
from .ops.functions.softmax import log_softmax, softmax
from .ops.functions.special_functions import entr, ndtr, xlog1py
from .ops.functions.special_functions import mvlgamma as multigammaln
from .ops.keywords import publish
from .ops.special_functions import (
    airy_ai,
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    erfcx,
    i0,
    i0e,
    i1,
    i1e,
    log_ndtr,
    modified_bessel_k0,
    modified_bessel_k1,
    ndtri,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    zeta,
)
from .ops.special_functions import i0 as modified_bessel_i0
from .ops.special_functions import i1 as modified_bessel_i1
from .ops.special_functions import igamma as gammainc
from .ops.special_functions import igammac as gammaincc
from .ops.transcendental import digamma, erf, erfc, erfinv, exp2, expm1, log1p
from .ops.transcendental import digamma as psi
from .ops.transcendental import lgamma as gammaln
from .ops.transcendental import sigmoid as expit

globals().update(POLYNOMIALS)

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
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
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
    *POLYNOMIALS,
]

publish(globals(), __all__)
