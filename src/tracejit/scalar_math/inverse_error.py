"""erfinv, the inverse of the error function, in single and double precision.

erfinv(x) / x is a function of w = -log(1 - x^2), the argument of which is rounded once. It is analytic around zero
and grows like the root of w; here it is sqrt(pi) / 2 + w R(t) with t = (w - 8) / (w + 8), which maps all w up to that
of the number next to one to an interval in which R changes little. One polynomial R serves for all x, and its error
counts for little where x is small. It was fitted for this package: minimax, weighted for the relative error of the
result, with coefficients rounded one after the other and the later ones fitted to what is left.
"""

from __future__ import annotations

from tracejit.scalar_math.logarithm import (
    exponent_f32,
    exponent_f64,
    log_sum_f32,
    log_sum_f64,
    mantissa_f32,
    mantissa_f64,
)
from tracejit.scalar_math.primitives import (
    copysign_f32,
    copysign_f64,
    f32,
    f64,
    fabs_f32,
    fabs_f64,
    float32,
    float64,
    fma_f32,
    fma_f64,
    inf,
    nan,
    select,
)


def erfinv_inside_f32(a: f32, w: f32) -> f32:
    """erfinv(a) for 0 <= a < 1 and w = -log(1 - a^2)."""
    t = (w - float32(8.0)) / (w + float32(8.0))
    r = float32(0.019781858)
    r = fma_f32(t, r, float32(0.07097799))
    r = fma_f32(t, r, float32(0.06757701))
    r = fma_f32(t, r, float32(-0.03565196))
    r = fma_f32(t, r, float32(-0.07021641))
    r = fma_f32(t, r, float32(0.025820004))
    r = fma_f32(t, r, float32(0.03750414))
    r = fma_f32(t, r, float32(-0.048818704))
    r = fma_f32(t, r, float32(-0.017971683))
    r = fma_f32(t, r, float32(0.034638893))
    r = fma_f32(t, r, float32(-0.07068456))
    r = fma_f32(t, r, float32(-0.09108837))
    r = fma_f32(t, r, float32(0.22190146))
    # Half the root of pi is the sum of two numbers.
    return fma_f32(a, float32(0.88622695), a * fma_f32(w, r, float32(-2.66232e-08)))


def erfinv_inside_f64(a: f64, w: f64) -> f64:
    """erfinv(a) for 0 <= a < 1 and w = -log(1 - a^2)."""
    t = (w - float64(8.0)) / (w + float64(8.0))
    r = float64(-0.0007869330755709215)
    r = fma_f64(t, r, float64(-0.005401439956618484))
    r = fma_f64(t, r, float64(-0.012998181566775463))
    r = fma_f64(t, r, float64(-0.006809561494249933))
    r = fma_f64(t, r, float64(0.023235213109619398))
    r = fma_f64(t, r, float64(0.03515808380331917))
    r = fma_f64(t, r, float64(-0.010745477446690434))
    r = fma_f64(t, r, float64(-0.04821939320504124))
    r = fma_f64(t, r, float64(-0.006483759794897604))
    r = fma_f64(t, r, float64(0.030667454003747527))
    r = fma_f64(t, r, float64(-0.008895567790071817))
    r = fma_f64(t, r, float64(-0.0180505556766098))
    r = fma_f64(t, r, float64(0.03982071818829397))
    r = fma_f64(t, r, float64(0.022735666997308016))
    r = fma_f64(t, r, float64(-0.05601892370010343))
    r = fma_f64(t, r, float64(-0.03045309014547014))
    r = fma_f64(t, r, float64(0.0418917873623838))
    r = fma_f64(t, r, float64(0.012305117732787012))
    r = fma_f64(t, r, float64(-0.02338618842882548))
    r = fma_f64(t, r, float64(0.018604224023797723))
    r = fma_f64(t, r, float64(0.0063672385781306795))
    r = fma_f64(t, r, float64(-0.05225062927013578))
    r = fma_f64(t, r, float64(-0.0006711402301587963))
    r = fma_f64(t, r, float64(0.062447463884929964))
    r = fma_f64(t, r, float64(-0.015118707513761145))
    r = fma_f64(t, r, float64(-0.06369308532812915))
    r = fma_f64(t, r, float64(0.023853419096108445))
    r = fma_f64(t, r, float64(0.03653952685113026))
    r = fma_f64(t, r, float64(-0.04874956018199267))
    r = fma_f64(t, r, float64(-0.01791823795618898))
    r = fma_f64(t, r, float64(0.03463818301299094))
    r = fma_f64(t, r, float64(-0.07068558955115158))
    r = fma_f64(t, r, float64(-0.09108836692386371))
    r = fma_f64(t, r, float64(0.2219014645160443))
    return fma_f64(
        a, float64(0.886226925452758), a * fma_f64(w, r, float64(-3.8332932499128993e-17))
    )


def erfinv_f32(x: f32) -> f32:
    """The number whose error function is x."""
    a = fabs_f32(x)
    rest = fma_f32(-a, a, float32(1.0))
    y = erfinv_inside_f32(a, -log_sum_f32(mantissa_f32(rest), exponent_f32(rest)))
    y = select(a < float32(1.0), y, select(a == float32(1.0), float32(inf), float32(nan)))
    return copysign_f32(y, x)


def erfinv_f64(x: f64) -> f64:
    """The number whose error function is x."""
    a = fabs_f64(x)
    rest = fma_f64(-a, a, float64(1.0))
    y = erfinv_inside_f64(a, -log_sum_f64(mantissa_f64(rest), exponent_f64(rest)))
    y = select(a < float64(1.0), y, select(a == float64(1.0), float64(inf), float64(nan)))
    return copysign_f64(y, x)
