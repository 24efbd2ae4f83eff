"""erf and erfc, in single and double precision.

Near zero erf(x) = x + x P(x^2). Beyond, erfc(a) = exp(-a^2) Q(t) / (1 + 2 a) with t = (a - k) / (a + k), which maps
the whole half line to a short interval where Q is nearly constant. exp(-a^2) is taken of the exact square, as a high
part and a correction, because an error in the exponent is magnified by a^2. In single precision erf alone is cheaper:
erf(a) = 1 - r^4, where a polynomial r of a low degree suffices because erf is near one.
"""

from __future__ import annotations

from tracejit.scalar_math.exponential import (
    exp_sum_f32,
    exp_sum_f64,
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
    select,
)


def erf_near_f32(x: f32) -> f32:
    """erf(x) for |x| <= 1.15."""
    z = x * x
    p = float32(6.856363e-05)
    p = fma_f32(z, p, float32(-0.0007688852))
    p = fma_f32(z, p, float32(0.0051494753))
    p = fma_f32(z, p, float32(-0.026832161))
    p = fma_f32(z, p, float32(0.1128304))
    p = fma_f32(z, p, float32(-0.37612575))
    p = fma_f32(z, p, float32(0.12837915))
    return fma_f32(x, p, x)


def erf_far_f32(a: f32) -> f32:
    """erf(a) for a >= 1.15, as 1 - r^4 with a polynomial r; one from 3.95 on."""
    a = select(a > float32(3.95), float32(3.95), a)
    r = float32(-0.00018262485)
    r = fma_f32(a, r, float32(0.0032782517))
    r = fma_f32(a, r, float32(-0.022473808))
    r = fma_f32(a, r, float32(0.06695973))
    r = fma_f32(a, r, float32(-0.052064884))
    r = fma_f32(a, r, float32(-0.06166049))
    r = fma_f32(a, r, float32(-0.30985743))
    r = fma_f32(a, r, float32(1.0057722))
    square = r * r
    return fma_f32(-square, square, float32(1.0))


def erf_near_f64(x: f64) -> f64:
    """erf(x) for |x| <= 1."""
    z = x * x
    p = float64(5.942520764541217e-11)
    p = fma_f64(z, p, float64(-1.136407967259516e-09))
    p = fma_f64(z, p, float64(1.4657478736563318e-08))
    p = fma_f64(z, p, float64(-1.6349967042581344e-07))
    p = fma_f64(z, p, float64(1.6460967473510496e-06))
    p = fma_f64(z, p, float64(-1.4925593183256573e-05))
    p = fma_f64(z, p, float64(0.00012055331023845695))
    p = fma_f64(z, p, float64(-0.0008548326978396167))
    p = fma_f64(z, p, float64(0.00522397762477506))
    p = fma_f64(z, p, float64(-0.02686617064507232))
    p = fma_f64(z, p, float64(0.11283791670954854))
    p = fma_f64(z, p, float64(-0.3761263890318375))
    p = fma_f64(z, p, float64(0.1283791670955126))
    return fma_f64(x, p, x)


def erfc_far_f32(a: f32) -> f32:
    """erfc(a) for a >= 0.45."""
    a = select(a > float32(10.2), float32(10.2), a)
    t = (a - float32(2.0)) / (a + float32(2.0))
    q = float32(-0.00025168317)
    q = fma_f32(t, q, float32(-0.0012465331))
    q = fma_f32(t, q, float32(0.001164096))
    q = fma_f32(t, q, float32(0.008646293))
    q = fma_f32(t, q, float32(-0.008009366))
    q = fma_f32(t, q, float32(-0.054208584))
    q = fma_f32(t, q, float32(0.164049))
    q = fma_f32(t, q, float32(-0.166031))
    q = fma_f32(t, q, float32(-0.09276377))
    q = fma_f32(t, q, float32(1.2769784))
    square = a * a
    lost = fma_f32(a, a, -square)
    return exp_sum_f32(-square, -lost) * (q / (fma_f32(float32(2.0), a, float32(1.0))))


def erfc_far_f64(a: f64) -> f64:
    """erfc(a) for a >= 0.45."""
    a = select(a > float64(27.3), float64(27.3), a)
    t = (a - float64(4.0)) / (a + float64(4.0))
    q = float64(1.9571546139672505e-09)
    q = fma_f64(t, q, float64(-9.425891709056655e-09))
    q = fma_f64(t, q, float64(-1.8275629611488915e-08))
    q = fma_f64(t, q, float64(1.0260403615064347e-07))
    q = fma_f64(t, q, float64(7.511643448969567e-08))
    q = fma_f64(t, q, float64(-8.18702701728823e-07))
    q = fma_f64(t, q, float64(2.9343329359615437e-07))
    q = fma_f64(t, q, float64(5.705938527297444e-06))
    q = fma_f64(t, q, float64(-1.1221848510212011e-05))
    q = fma_f64(t, q, float64(-2.439782229866707e-05))
    q = fma_f64(t, q, float64(0.00015062162109215943))
    q = fma_f64(t, q, float64(-0.00019925702814116094))
    q = fma_f64(t, q, float64(-0.0007577732781540536))
    q = fma_f64(t, q, float64(0.0050319700289917614))
    q = fma_f64(t, q, float64(-0.016197734059060165))
    q = fma_f64(t, q, float64(0.03716751553275362))
    q = fma_f64(t, q, float64(-0.06633036581212354))
    q = fma_f64(t, q, float64(0.09373283499859127))
    q = fma_f64(t, q, float64(-0.1010390660363082))
    q = fma_f64(t, q, float64(0.06809705425468703))
    q = fma_f64(t, q, float64(0.015379652102619809))
    q = fma_f64(t, q, float64(-0.13962111684056247))
    q = fma_f64(t, q, float64(1.2329951186255526))
    square = a * a
    lost = fma_f64(a, a, -square)
    return exp_sum_f64(-square, -lost) * (q / (fma_f64(float64(2.0), a, float64(1.0))))


def erf_f32(x: f32) -> f32:
    """The error function of x."""
    a = fabs_f32(x)
    return copysign_f32(select(a < float32(1.15), erf_near_f32(a), erf_far_f32(a)), x)


def erf_f64(x: f64) -> f64:
    """The error function of x."""
    a = fabs_f64(x)
    y = select(a < float64(1.0), erf_near_f64(a), float64(1.0) - erfc_far_f64(a))
    return copysign_f64(y, x)


def erfc_f32(x: f32) -> f32:
    """1 - erf(x), without cancellation for large x."""
    a = fabs_f32(x)
    far = erfc_far_f32(a)
    far = select(x < float32(0.0), float32(2.0) - far, far)
    return select(a < float32(0.5), float32(1.0) - erf_near_f32(x), far)


def erfc_f64(x: f64) -> f64:
    """1 - erf(x), without cancellation for large x."""
    a = fabs_f64(x)
    far = erfc_far_f64(a)
    far = select(x < float64(0.0), float64(2.0) - far, far)
    return select(a < float64(0.5), float64(1.0) - erf_near_f64(x), far)
