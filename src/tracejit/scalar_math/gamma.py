"""lgamma and digamma, in single and double precision.

In what follows a = |x| and r = 1 / a; capitals are polynomials fitted for this package (minimax, weighted for the
error of the result, coefficients rounded one after the other and the later ones fitted to what is left).

- From three on, lgamma(a) = (a - 1/2) (log(a) - 1) + (log(2 pi) - 1) / 2 + r A(r^2): Stirling's series, with A for its
  sum. One is taken from the logarithm before the parts of that are added, so that little cancels.
- Below, lgamma(2 + y) = y Q(y) for -3/4 <= y <= 1, a form that has the zero at two as a factor. Less log(a) it
  serves 1/2 <= a < 5/4 with y = a - 1, which has the zero at one; less log|x (1 + x)| it serves |x| < 1/2 with y = x.
- For x <= -1/2, lgamma(x) = -log(a |sin(pi a)| / pi) - lgamma(a).
- From two on, digamma(a) = log(a) - r / 2 - r^2 B(r^2). Between one and two it is (a - root) P(a - root), with the
  root as the sum of two numbers; below one it is digamma(1 + a) - r.
- digamma(-a) = digamma(1 + a) + pi / tan(pi a). The tangent is that of the distance d from a to the nearest integer,
  which is exact, and pi / tan(pi d) = 1 / d - d T(d^2).
"""

from __future__ import annotations

from tracejit.scalar_math.logarithm import (
    exponent_f32,
    exponent_f64,
    log_series_f64,
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
    round_f32,
    round_f64,
    select,
)


def log_less_f32(x: f32, less: f32) -> f32:
    """log(x) - less for finite x > 0 and a whole number `less` that may be near to it."""
    e = exponent_f32(x)
    low = fma_f32(e, float32(1.4286068e-06), log_sum_f32(mantissa_f32(x), float32(0.0)))
    return fma_f32(e, float32(0.693145751953125), -less) + low


def log_less_f64(x: f64, less: f64) -> f64:
    """log(x) - less for finite x > 0 and a whole number `less` that may be near to it."""
    e = exponent_f64(x)
    f = mantissa_f64(x) - float64(1.0)
    tail = fma_f64(e, float64(7.371002565167799e-13), log_series_f64(f, f / (float64(2.0) + f)))
    return fma_f64(e, float64(0.6931471805592082), -less) + (f - (float64(0.5) * f * f - tail))


def lgamma_beside_two_f32(y: f32) -> f32:
    """lgamma(2 + y) / y for -3/4 <= y <= 1."""
    q = float32(-4.605359e-05)
    q = fma_f32(y, q, float32(0.00014427434))
    q = fma_f32(y, q, float32(-0.00023958938))
    q = fma_f32(y, q, float32(0.00047817687))
    q = fma_f32(y, q, float32(-0.0011800126))
    q = fma_f32(y, q, float32(0.0029004095))
    q = fma_f32(y, q, float32(-0.007388923))
    q = fma_f32(y, q, float32(0.020579463))
    q = fma_f32(y, q, float32(-0.06735199))
    q = fma_f32(y, q, float32(0.3224671))
    return fma_f32(y, q, float32(0.42278433))


def lgamma_stirling_f32(a: f32, less: f32) -> f32:
    """lgamma(a) for a >= 3, given log(a) - 1."""
    r = float32(1.0) / a
    z = r * r
    p = float32(0.0006792531)
    p = fma_f32(z, p, float32(-0.0027699373))
    p = fma_f32(z, p, float32(0.083333164))
    return fma_f32(a - float32(0.5), less, fma_f32(r, p, float32(0.41893855)))


def sine_of_half_turns_f32(r: f32) -> f32:
    """sin(pi r) / pi for |r| <= 1/2."""
    z = r * r
    s = float32(0.024787681)
    s = fma_f32(z, s, float32(-0.19047865))
    s = fma_f32(z, s, float32(0.8117212))
    s = fma_f32(z, s, float32(-1.6449336))
    return fma_f32(r, z * s, r)


def lgamma_f32(x: f32) -> f32:
    """The logarithm of the absolute value of the gamma function at x."""
    a = fabs_f32(x)
    small = a < float32(0.5)
    low = a < float32(1.25)
    far = a >= float32(3.0)
    y = select(small, x, a - select(low, float32(1.0), float32(2.0)))
    argument = select(small, fabs_f32(fma_f32(x, x, x)), select(low | far, a, float32(1.0)))
    log = log_less_f32(argument, select(far, float32(1.0), float32(0.0)))
    found = select(far, lgamma_stirling_f32(a, log), fma_f32(y, lgamma_beside_two_f32(y), -log))
    r = fabs_f32(a - round_f32(a))
    s = a * sine_of_half_turns_f32(r)
    mirrored = -log_sum_f32(mantissa_f32(s), exponent_f32(s)) - found
    found = select(x <= float32(-0.5), mirrored, found)
    found = select((x <= float32(0.0)) & (r == float32(0.0)), float32(inf), found)
    return select(a < float32(inf), found, a)


def digamma_beside_root_f32(u: f32) -> f32:
    """digamma(1 + u) for 0 <= u <= 1."""
    v = u - float32(0.46163213)
    p = float32(0.012376075)
    p = fma_f32(v, p, float32(-0.02069427))
    p = fma_f32(v, p, float32(0.022394573))
    p = fma_f32(v, p, float32(-0.03190966))
    p = fma_f32(v, p, float32(0.048862576))
    p = fma_f32(v, p, float32(-0.07232817))
    p = fma_f32(v, p, float32(0.10780937))
    p = fma_f32(v, p, float32(-0.16393729))
    p = fma_f32(v, p, float32(0.25850093))
    p = fma_f32(v, p, float32(-0.44276324))
    p = fma_f32(v, p, float32(0.9676722))
    return (v - float32(1.243815e-08)) * p


def digamma_tail_f32(z: f32) -> f32:
    """(log(a) - 1 / (2 a) - digamma(a)) / z for z = 1 / a^2, a >= 2."""
    p = float32(-0.0018284082)
    p = fma_f32(z, p, float32(0.0035612008))
    p = fma_f32(z, p, float32(-0.008300087))
    return fma_f32(z, p, float32(0.08333239))


def cotangent_of_half_turns_f32(r: f32) -> f32:
    """pi / tan(pi r) for |r| <= 1/2."""
    z = r * r
    t = float32(5.764073)
    t = fma_f32(z, t, float32(0.26627168))
    t = fma_f32(z, t, float32(2.3735342))
    t = fma_f32(z, t, float32(1.9667947))
    t = fma_f32(z, t, float32(2.037033))
    t = fma_f32(z, t, float32(2.164587))
    t = fma_f32(z, t, float32(3.2898686))
    return fma_f32(-r, t, float32(1.0) / r)


def digamma_f32(x: f32) -> f32:
    """The derivative of lgamma at x; -inf at 0.0, inf at -0.0, nan at negative integers."""
    a = fabs_f32(x)
    # The value is wanted at a, or at 1 + a for the reflection. Both are a number at hand and a part of 1 / a.
    negative = copysign_f32(float32(1.0), x) < float32(0.0)
    near = a < float32(2.0)
    low = a < float32(1.0)
    r = float32(1.0) / a
    z = r * r
    part = select(near, select(low ^ negative, r, float32(0.0)), float32(0.5) * r)
    part = copysign_f32(part, -x)
    log = log_sum_f32(mantissa_f32(a), exponent_f32(a))
    found = select(near, digamma_beside_root_f32(select(low, a, a - float32(1.0))), log)
    found = found + select(near, part, fma_f32(-z, digamma_tail_f32(z), part))
    d = a - round_f32(a)
    found = select(negative, found + cotangent_of_half_turns_f32(d), found)
    found = select((x < float32(0.0)) & (d == float32(0.0)), float32(nan), found)
    return select(x < float32(inf), found, x)


def lgamma_beside_two_f64(y: f64) -> f64:
    """lgamma(2 + y) / y for -3/4 <= y <= 1."""
    q = float64(2.143914915909642e-09)
    q = fma_f64(y, q, float64(-9.834291069939968e-09))
    q = fma_f64(y, q, float64(1.7009656883599013e-08))
    q = fma_f64(y, q, float64(-1.7873032956375042e-08))
    q = fma_f64(y, q, float64(3.595187038160408e-08))
    q = fma_f64(y, q, float64(-1.0151553513492081e-07))
    q = fma_f64(y, q, float64(2.2308349790361572e-07))
    q = fma_f64(y, q, float64(-4.50941744188695e-07))
    q = fma_f64(y, q, float64(9.48932025894169e-07))
    q = fma_f64(y, q, float64(-2.037535272921918e-06))
    q = fma_f64(y, q, float64(4.3771242106558436e-06))
    q = fma_f64(y, q, float64(-9.440222382744062e-06))
    q = fma_f64(y, q, float64(2.0506672208211464e-05))
    q = fma_f64(y, q, float64(-4.492605357155404e-05))
    q = fma_f64(y, q, float64(9.945759721885753e-05))
    q = fma_f64(y, q, float64(-0.00022315478546523963))
    q = fma_f64(y, q, float64(0.0005096695164936108))
    q = fma_f64(y, q, float64(-0.001192753909445155))
    q = fma_f64(y, q, float64(0.0028905103312019884))
    q = fma_f64(y, q, float64(-0.007385551028769321))
    q = fma_f64(y, q, float64(0.020580808427772372))
    q = fma_f64(y, q, float64(-0.06735230105319652))
    q = fma_f64(y, q, float64(0.3224670334241133))
    return fma_f64(y, q, float64(0.42278433509846713))


def lgamma_stirling_f64(a: f64, less: f64) -> f64:
    """lgamma(a) for a >= 3, given log(a) - 1."""
    r = float64(1.0) / a
    z = r * r
    p = float64(-0.04370359266521625)
    p = fma_f64(z, p, float64(0.03717768073558462))
    p = fma_f64(z, p, float64(-0.0162587458748629))
    p = fma_f64(z, p, float64(0.005446310412661417))
    p = fma_f64(z, p, float64(-0.0018670082527794197))
    p = fma_f64(z, p, float64(0.0008399315150636261))
    p = fma_f64(z, p, float64(-0.000595195451119314))
    p = fma_f64(z, p, float64(0.0007936501935125211))
    p = fma_f64(z, p, float64(-0.002777777773392731))
    p = fma_f64(z, p, float64(0.08333333333332149))
    return fma_f64(a - float64(0.5), less, fma_f64(r, p, float64(0.4189385332046727)))


def sine_of_half_turns_f64(r: f64) -> f64:
    """sin(pi r) / pi for |r| <= 1/2."""
    z = r * r
    s = float64(2.4531406480504287e-07)
    s = fma_f64(z, s, float64(-6.97239326888184e-06))
    s = fma_f64(z, s, float64(0.00014842796515971066))
    s = fma_f64(z, s, float64(-0.0023460809228204333))
    s = fma_f64(z, s, float64(0.026147847808934484))
    s = fma_f64(z, s, float64(-0.19075182412172648))
    s = fma_f64(z, s, float64(0.8117424252833472))
    s = fma_f64(z, s, float64(-1.6449340668482264))
    return fma_f64(r, z * s, r)


def lgamma_f64(x: f64) -> f64:
    """The logarithm of the absolute value of the gamma function at x."""
    a = fabs_f64(x)
    small = a < float64(0.5)
    low = a < float64(1.25)
    far = a >= float64(3.0)
    y = select(small, x, a - select(low, float64(1.0), float64(2.0)))
    argument = select(small, fabs_f64(fma_f64(x, x, x)), select(low | far, a, float64(1.0)))
    log = log_less_f64(argument, select(far, float64(1.0), float64(0.0)))
    found = select(far, lgamma_stirling_f64(a, log), fma_f64(y, lgamma_beside_two_f64(y), -log))
    r = fabs_f64(a - round_f64(a))
    s = a * sine_of_half_turns_f64(r)
    mirrored = -log_sum_f64(mantissa_f64(s), exponent_f64(s)) - found
    found = select(x <= float64(-0.5), mirrored, found)
    found = select((x <= float64(0.0)) & (r == float64(0.0)), float64(inf), found)
    return select(a < float64(inf), found, a)


def digamma_beside_root_f64(u: f64) -> f64:
    """digamma(1 + u) for 0 <= u <= 1."""
    v = u - float64(0.46163214496836236)
    p = float64(-0.00018448012678718494)
    p = fma_f64(v, p, float64(0.00040860575227165397))
    p = fma_f64(v, p, float64(-0.00039259394292111895))
    p = fma_f64(v, p, float64(0.0004126245467064903))
    p = fma_f64(v, p, float64(-0.0007012677300455597))
    p = fma_f64(v, p, float64(0.0011055234102410728))
    p = fma_f64(v, p, float64(-0.0015891479251522631))
    p = fma_f64(v, p, float64(0.002300379986808462))
    p = fma_f64(v, p, float64(-0.0033675033869866944))
    p = fma_f64(v, p, float64(0.004927329354699808))
    p = fma_f64(v, p, float64(-0.007204798970718493))
    p = fma_f64(v, p, float64(0.010538749615647632))
    p = fma_f64(v, p, float64(-0.015424747093958363))
    p = fma_f64(v, p, float64(0.022597650369682594))
    p = fma_f64(v, p, float64(-0.0331611272732287))
    p = fma_f64(v, p, float64(0.048804288093889196))
    p = fma_f64(v, p, float64(-0.07219956123787685))
    p = fma_f64(v, p, float64(0.1078240506926405))
    p = fma_f64(v, p, float64(-0.16394270544260486))
    p = fma_f64(v, p, float64(0.2584997609556376))
    p = fma_f64(v, p, float64(-0.44276316898359147))
    p = fma_f64(v, p, float64(0.9676722454476212))
    return (v - float64(-1.5522348162858677e-17)) * p


def digamma_tail_f64(z: f64) -> f64:
    """(log(a) - 1 / (2 a) - digamma(a)) / z for z = 1 / a^2, a >= 2."""
    p = float64(27.863859545871268)
    p = fma_f64(z, p, float64(-60.375760104700724))
    p = fma_f64(z, p, float64(60.53921962351039))
    p = fma_f64(z, p, float64(-37.49196986682043))
    p = fma_f64(z, p, float64(16.219334570679788))
    p = fma_f64(z, p, float64(-5.3006005198481105))
    p = fma_f64(z, p, float64(1.404431597051778))
    p = fma_f64(z, p, float64(-0.32895387175504787))
    p = fma_f64(z, p, float64(0.07682152836946107))
    p = fma_f64(z, p, float64(-0.020806452446007564))
    p = fma_f64(z, p, float64(0.007566595799204623))
    p = fma_f64(z, p, float64(-0.004166467431109858))
    p = fma_f64(z, p, float64(0.00396825129131295))
    p = fma_f64(z, p, float64(-0.008333333314402572))
    return fma_f64(z, p, float64(0.08333333333328403))


def cotangent_of_half_turns_f64(r: f64) -> f64:
    """pi / tan(pi r) for |r| <= 1/2."""
    z = r * r
    t = float64(17.26900489497129)
    t = fma_f64(z, t, float64(-16.280662247517892))
    t = fma_f64(z, t, float64(13.156874213762919))
    t = fma_f64(z, t, float64(-2.2622773687728084))
    t = fma_f64(z, t, float64(3.1066725742913675))
    t = fma_f64(z, t, float64(1.796969655759875))
    t = fma_f64(z, t, float64(2.0267726302028106))
    t = fma_f64(z, t, float64(1.9974899508447095))
    t = fma_f64(z, t, float64(2.000294371267106))
    t = fma_f64(z, t, float64(2.000484077595291))
    t = fma_f64(z, t, float64(2.0019894052982505))
    t = fma_f64(z, t, float64(2.0081547073621295))
    t = fma_f64(z, t, float64(2.0346861240246263))
    t = fma_f64(z, t, float64(2.1646464674219956))
    t = fma_f64(z, t, float64(3.2898681336964533))
    return fma_f64(-r, t, float64(1.0) / r)


def digamma_f64(x: f64) -> f64:
    """The derivative of lgamma at x; -inf at 0.0, inf at -0.0, nan at negative integers."""
    a = fabs_f64(x)
    # The value is wanted at a, or at 1 + a for the reflection. Both are a number at hand and a part of 1 / a.
    negative = copysign_f64(float64(1.0), x) < float64(0.0)
    near = a < float64(2.0)
    low = a < float64(1.0)
    r = float64(1.0) / a
    z = r * r
    part = select(near, select(low ^ negative, r, float64(0.0)), float64(0.5) * r)
    part = copysign_f64(part, -x)
    log = log_sum_f64(mantissa_f64(a), exponent_f64(a))
    found = select(near, digamma_beside_root_f64(select(low, a, a - float64(1.0))), log)
    found = found + select(near, part, fma_f64(-z, digamma_tail_f64(z), part))
    d = a - round_f64(a)
    found = select(negative, found + cotangent_of_half_turns_f64(d), found)
    found = select((x < float64(0.0)) & (d == float64(0.0)), float64(nan), found)
    return select(x < float64(inf), found, x)
