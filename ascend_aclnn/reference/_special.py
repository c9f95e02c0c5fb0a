"""Special functions that NumPy lacks, on whole arrays, in the precision of the argument (float32 or float64).

float32 arguments of ``erf`` are good to a few units in the last place; everything else is computed in float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Callable

import numpy as np

from ascend_aclnn import native
from ascend_aclnn.numerics import Array, Traced, where

_PIECE = 1 << 16  # elements: the dozen temporaries of one piece stay in a core's second-level cache


def _horner(coefficients: Sequence[float], x: Array) -> Array:
    """A polynomial, highest power first."""
    if isinstance(x, Traced):
        result = x * coefficients[0]
        for c in coefficients[1:-1]:
            result = (result + c) * x
        return result + coefficients[-1]
    total: Array = x * x.dtype.type(coefficients[0])
    for c in coefficients[1:-1]:
        total += x.dtype.type(c)
        total *= x
    total += x.dtype.type(coefficients[-1])
    return total


def _in_pieces(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Applies a function to a flattened array piece by piece, so that large arrays do not go through memory each step."""

    def whole(x: Array) -> Array:
        if isinstance(x, Traced):
            return function(x)
        flat = np.ascontiguousarray(x).reshape(-1)
        result = np.empty_like(flat)
        for lo in range(0, flat.size, _PIECE):
            result[lo : lo + _PIECE] = function(flat[lo : lo + _PIECE])
        return result.reshape(np.shape(x))

    return whole


def _in_double(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Computes in float64 and gives the argument's precision back."""
    pieces = _in_pieces(function)

    def whole(x: Array) -> Array:
        x = np.asarray(x)
        return pieces(x.astype(np.float64, copy=False)).astype(x.dtype, copy=False)

    return whole


# ------------------------------------------------------------------------------------------------------ error functions

# Rational functions of W. J. Cody (1969) for erf near zero and for erfc(x) * exp(x^2) beyond, lowest power last.
_NEAR = (
    (
        1.85777706184603153e-1,
        3.16112374387056560e0,
        1.13864154151050156e2,
        3.77485237685302021e2,
        3.20937758913846947e3,
    ),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
_MIDDLE = (
    (
        2.15311535474403846e-8,
        5.64188496988670089e-1,
        8.88314979438837594e0,
        6.61191906371416295e1,
        2.98635138197400131e2,
        8.81952221241769090e2,
        1.71204761263407058e3,
        2.05107837782607147e3,
        1.23033935479799725e3,
    ),
    (
        1.0,
        1.57449261107098347e1,
        1.17693950891312499e2,
        5.37181101862009858e2,
        1.62138957456669019e3,
        3.29079923573345963e3,
        4.36261909014324716e3,
        3.43936767414372164e3,
        1.23033935480374942e3,
    ),
)
_FAR = (
    (
        1.63153871373020978e-2,
        3.05326634961232344e-1,
        3.60344899949804439e-1,
        1.25781726111229246e-1,
        1.60837851487422766e-2,
        6.58749161529837803e-4,
    ),
    (
        1.0,
        2.56852019228982242e0,
        1.87295284992346725e0,
        5.27905102951428412e-1,
        6.05183413124413191e-2,
        2.33520497626869185e-3,
    ),
)
_EDGE, _FAR_EDGE = 0.46875, 4.0


def _ratio(pair: Sequence[Sequence[float]], x: Array) -> Array:
    return _horner(pair[0], x) / _horner(pair[1], x)


def _erfc_of_magnitude(y: Array) -> Array:
    """erfc(y) for y above _EDGE; exp(-y^2) is split so that the square's rounding does not show."""
    result = np.empty_like(y)
    far = y > _FAR_EDGE
    near = ~far
    result[near] = _ratio(_MIDDLE, y[near])
    z = 1 / np.minimum(y[far], 1e150) ** 2
    result[far] = (1 / math.sqrt(math.pi) - z * _ratio(_FAR, z)) / y[far]
    head = np.trunc(np.minimum(y, 40.0) * 16) / 16
    tail = (y - head) * (y + head)
    with np.errstate(over="ignore", invalid="ignore"):
        result *= np.exp(-head * head) * np.exp(-np.where(y > 40.0, 0.0, tail))
    result[y > 27.5] = 0.0  # below the smallest float64
    return result


def _erf_double(x: Array) -> Array:
    y = np.abs(x)
    result = np.empty_like(y)
    near = y <= _EDGE
    z = x[near] * x[near]
    result[near] = x[near] * _ratio(_NEAR, z)
    rest = ~near
    result[rest] = np.copysign(1 - _erfc_of_magnitude(y[rest]), x[rest])
    result[np.isnan(x)] = np.nan
    return result


def _erfc_double(x: Array) -> Array:
    y = np.abs(x)
    result = np.empty_like(y)
    near = y <= _EDGE
    z = x[near] * x[near]
    result[near] = 1 - x[near] * _ratio(_NEAR, z)
    rest = ~near
    tail = _erfc_of_magnitude(y[rest])
    result[rest] = np.where(x[rest] < 0, 2 - tail, tail)
    result[np.isnan(x)] = np.nan
    return result


# A rational function for erf in float32: x * P(x^2) / Q(x^2), at its limit from 4 on.
_SINGLE_P = (
    -2.72614225801306e-10,
    2.77068142495902e-08,
    -2.10102402082508e-06,
    -5.69250639462346e-05,
    -7.34990630326855e-04,
    -2.95459980854025e-03,
    -1.60960333262415e-02,
)
_SINGLE_Q = (
    -1.45660718464996e-05,
    -2.13374055278905e-04,
    -1.68282697438203e-03,
    -7.37332916720468e-03,
    -1.42647390514189e-02,
)


def _erf_single(x: Array) -> Array:
    bounded = np.clip(x, np.float32(-4), np.float32(4))
    square = bounded * bounded
    return np.clip(bounded * _horner(_SINGLE_P, square) / _horner(_SINGLE_Q, square), np.float32(-1), np.float32(1))


_erf_of_single, _erf_of_double = _in_pieces(_erf_single), _in_double(_erf_double)


def erf(x: Array) -> Array:
    """The error function."""
    return (_erf_of_single if x.dtype == np.float32 else _erf_of_double)(x)


erfc = _in_double(_erfc_double)


# exp(a^2) erfc(a) (1 + 2 a) as a polynomial of (a - 2) / (a + 2), for a from 0 to 10.5, where a float32 tail ends: a Chebyshev
# fit, good to 1e-8.
_TAIL_FIT = (
    3.00163674e-05,
    -0.000357580547,
    -0.00125241133,
    0.00126804985,
    0.0086361482,
    -0.00804343506,
    -0.0542044874,
    0.1640531,
    -0.166031412,
    -0.0927638979,
    1.27697839,
)


def _normal_distribution_single(x: Array) -> Array:
    """By the tail on x's side, in float32 throughout; x^2 in two parts, since exp shows its square's rounding."""
    if isinstance(x, Traced) and native.has("exp"):
        return x.normal_distribution()
    a = np.minimum(np.abs(x) * math.sqrt(0.5), 10.5)
    height = _horner(_TAIL_FIT, (a - 2) / (a + 2)) / (1 + 2 * a)
    bounded = np.clip(x, -16, 16)
    split = bounded * 4097  # T. J. Dekker's halves of a product
    head = split - (split - bounded)
    rest = bounded - head
    square = bounded * bounded
    lost = ((head * head - square) + 2 * head * rest) + rest * rest
    tail = 0.5 * height * np.exp(-0.5 * square) * (1 - 0.5 * lost)
    return where(x > 0, 1 - tail, tail)


_normal_distribution_of_single = _in_pieces(_normal_distribution_single)


def normal_distribution(x: Array) -> Array:
    """The probability that a standard normal number is below x; no digits are lost in the left tail."""
    if x.dtype == np.float32:
        return _normal_distribution_of_single(x)
    result = np.asarray(0.5 + 0.5 * erf(x * math.sqrt(0.5)))
    tail = x < -1
    result[tail] = 0.5 * erfc(x[tail] * -math.sqrt(0.5))
    return result


def _erfinv_double(x: Array) -> Array:
    """M. Giles' approximation in single precision, then Newton's steps: on erf near zero, on log(erfc) beyond."""
    y = np.abs(x)
    w = -np.log((1 - y) * (1 + y))
    small = w < 5
    a = np.where(small, w - 2.5, np.sqrt(np.where(small, 9.0, w)) - 3.0)
    root = np.where(small, _horner(_CENTRE, a), _horner(_TAIL, a)) * y
    near = y < 0.5
    for _ in range(3):
        derivative = 2 / math.sqrt(math.pi) * np.exp(-root * root)
        rest = _erfc_double(root)
        step = np.where(near, (_erf_double(root) - y) / derivative, -np.log(rest / (1 - y)) * rest / derivative)
        root = root - step
    root = np.where(y == 1, np.inf, np.where(y == 0, 0.0, root))
    return np.where(y > 1, np.nan, np.copysign(root, x))


_CENTRE = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)
erfinv = _in_double(_erfinv_double)


def _normal_quantile_double(p: Array) -> Array:
    """sqrt(2) * erfinv(2 p - 1); in the tails, where 2 p - 1 loses p, by Newton's steps on the logarithm of the tail."""
    tail = np.minimum(p, 1 - p)
    centre = -math.sqrt(2) * _erfinv_double(1 - 2 * np.maximum(tail, 0.02))
    small = np.clip(tail, 1e-308, 0.02)
    t = np.sqrt(-2 * np.log(small))
    root = t - (2.30753 + 0.27061 * t) / (1 + 0.99229 * t + 0.04481 * t * t)
    for _ in range(4):
        rest = 0.5 * _erfc_double(root * math.sqrt(0.5))
        density = np.exp(-0.5 * root * root) / math.sqrt(2 * math.pi)
        root = root + np.log(rest / small) * rest / density
    value = np.where(tail >= 0.02, centre, -root)
    value = np.where(tail == 0, -np.inf, np.where(tail >= 0, value, np.nan))
    return np.where(p > 0.5, -value, value)


normal_quantile = _in_double(_normal_quantile_double)

# ------------------------------------------------------------------------------------------------------ Fresnel integrals


def _fresnel_double(x: Array) -> Array:
    """C + iS of magnitudes: the power series up to 1.6, beyond it a continued fraction for the rest to (1 + i) / 2."""
    near = np.minimum(x, 1.6)
    term = near + 0j
    total = term.copy()
    for k in range(1, 40):
        term = term * (0.5j * math.pi * near * near) / k
        total += term / (2 * k + 1)
    far = np.clip(x, 1.6, 1e8)
    b = 1 - 1j * math.pi * far * far
    c, d = np.full(b.shape, 1e300 + 0j), 1 / b
    h = d
    for k in range(1, 120, 2):
        a = -k * (k + 1)
        b = b + 4
        d = 1 / (a * d + b)
        c = b + a / c
        h = h * c * d
    rest = (0.5 + 0.5j) * (1 - np.exp(0.5j * math.pi * (far * far % 4)) * h * (far - 1j * far))
    result: Array = np.where(
        x <= 1.6, total, np.where(x < 1e8, rest, np.where(np.isnan(x), complex(np.nan, np.nan), 0.5 + 0.5j))
    )
    return result


def fresnel(x: Array) -> tuple[Array, Array]:
    """The integrals from 0 to x of cos and of sin of pi / 2 * t^2, in the precision of x."""
    magnitude = _fresnel_double(np.abs(np.asarray(x, np.float64)).reshape(-1)).reshape(np.shape(x))
    cosine, sine = (np.copysign(part, x).astype(x.dtype) for part in (magnitude.real, magnitude.imag))
    return cosine, sine


# ------------------------------------------------------------------------------------------------------ gamma functions

# C. Lanczos' approximation with g = 7.
_LANCZOS = (
    0.99999999999980993,
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
    -0.13857109526572012,
    9.9843695780195716e-6,
    1.5056327351493116e-7,
)


def _lgamma_double(x: Array) -> Array:
    mirrored = x < 0.5
    y = np.where(mirrored, 1 - x, x) - 1
    total = np.full_like(y, _LANCZOS[0])
    for i, c in enumerate(_LANCZOS[1:], 1):
        total += c / (y + i)
    t = y + 7.5
    value = 0.5 * math.log(2 * math.pi) + (y + 0.5) * np.log(t) - t + np.log(total)
    sine = np.abs(np.sin(np.pi * (np.abs(x) % 1.0)))
    value = np.where(mirrored, np.log(np.pi / sine) - value, value)
    value = np.where(np.isinf(x), np.inf, value)
    value = np.where((x == 1) | (x == 2), 0.0, value)
    return np.where((x <= 0) & (x == np.floor(x)), np.inf, value)


lgamma = _in_double(_lgamma_double)

# The series of digamma at infinity, in powers of 1 / x^2.
_DIGAMMA = (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12, 0.0)


def _digamma_double(x: Array) -> Array:
    mirrored = x < 0
    y = np.where(mirrored, 1 - x, x)
    shift = np.zeros_like(y)
    for _ in range(10):  # until the series converges
        low = y < 10
        shift -= np.where(low, 1 / np.where(low, y, 1.0), 0.0)
        y = y + low
    value = shift + np.log(y) - 0.5 / y - _horner(_DIGAMMA, 1 / (y * y))
    value = np.where(mirrored, value - np.pi / np.tan(np.pi * (x - np.floor(x))), value)
    value = np.where(mirrored & (x == np.floor(x)), np.nan, value)
    value = np.where(x == 0, -np.copysign(np.inf, x), value)
    return np.where(x == np.inf, np.inf, value)


digamma = _in_double(_digamma_double)

# ------------------------------------------------------------------------------------------------------ logistic functions


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)): where exp overflows, the result is a zero that lacks only what is below the normal numbers."""
    result: Array = 1 / (1 + np.exp(-x))
    return result


def log_sigmoid(x: Array) -> Array:
    """log(sigmoid(x)), without overflow."""
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


__all__ = [
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "fresnel",
    "lgamma",
    "log_sigmoid",
    "normal_distribution",
    "normal_quantile",
    "sigmoid",
    "softplus",
]
