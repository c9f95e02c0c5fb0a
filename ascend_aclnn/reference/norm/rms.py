"""Normalisation of rows by their root mean square, and its gradient."""

from __future__ import annotations

import numpy as np

from ascend_aclnn.numerics import (
    SMALL,
    Array,
    for_blocks,
    round_into,
    row_products,
    rows_per_block,
    scratch,
    widen,
    workplace,
)
from ascend_aclnn.reference._moments import ONE, constant
from ascend_aclnn.reference._rows import as_matrix
from ascend_aclnn.reference.declare import reference

# dgamma is summed over at most so many runs of rows, each from its first row to its last, and then over the runs: the
# same bits whatever the number of threads.
_RUNS = 16


@reference("aclnnRmsNorm", raw=True)
def rms_norm(x: Array, gamma: Array, epsilon: float, *, out: tuple[Array, Array]) -> None:
    """rstd = 1 / sqrt(mean(x^2) + epsilon), y = x * rstd * gamma, over gamma's axes, in float32.

    The mean's order of summation is not the hardware's.
    """
    width = gamma.size
    rows = x.size // max(1, width)
    y, rstd = out
    g = widen(gamma)
    if width == 0:  # nothing to normalise, and the mean of nothing
        rstd[...] = np.nan
        return
    x = x.reshape(rows, width)
    if x.size <= SMALL:
        xs = widen(x)
        deviation = np.sqrt(row_products(xs, xs) * constant(1 / width) + constant(epsilon))
        r = np.divide(ONE, deviation.reshape(rstd.shape), workplace(rstd, "rstd"))
        ys = np.multiply((xs * r.reshape(rows, 1)).reshape(y.shape), g, workplace(y, "y"))
        round_into(y, ys)
        round_into(rstd, r)
        return

    g = g.reshape(width)
    step = rows_per_block(width)
    with as_matrix(y, rows, width) as y_rows, as_matrix(rstd, rows, 1) as rstd_rows:

        def block(lo: int, hi: int) -> None:
            dst = y_rows[lo:hi]
            xs = widen(x[lo:hi], scratch("x", dst.shape, np.float32))
            mean = row_products(xs, xs) * np.float32(1 / width)
            r = 1 / np.sqrt(mean + np.float32(epsilon))
            rstd_rows[lo:hi, 0] = r
            ys = np.multiply(xs, r[:, None], out=workplace(dst, "y"))
            ys *= g
            round_into(dst, ys, ys)

        for_blocks(rows, step, block)


@reference("aclnnRmsNormGrad", raw=True)
def rms_norm_grad(dy: Array, x: Array, rstd: Array, gamma: Array, *, out: tuple[Array, Array]) -> None:
    """xh = x * rstd, t = dy * gamma; dgamma = sum over rows of dy * xh; dx = (t - xh * mean(t * xh)) * rstd.

    In float32. rstd is not computed again. Both sums always run in the same order; the hardware's order differs, and for
    dgamma it is not even fixed.
    """
    width = gamma.size
    rows = x.size // max(1, width)
    dx, dgamma = out
    g = widen(gamma).reshape(width)
    dy, x, rstd = dy.reshape(rows, width), x.reshape(rows, width), rstd.reshape(rows, 1)
    step = rows_per_block(width)
    run = max(step, -(-rows // _RUNS))
    sums = np.zeros((-(-rows // run), width), np.float32)

    with as_matrix(dx, rows, width) as dx_rows:

        def block(lo: int, hi: int) -> None:
            dst, r = dx_rows[lo:hi], rstd[lo:hi]
            xh, t = scratch("xh", dst.shape, np.float32), workplace(dst, "t")
            dys = widen(dy[lo:hi], t)
            np.multiply(widen(x[lo:hi], xh), r, out=xh)
            sums[lo // run] += np.einsum("ij,ij->j", dys, xh)
            np.multiply(dys, g, out=t)
            m = row_products(t, xh) * np.float32(1 / width)
            xh *= m[:, None]
            t -= xh
            t *= r
            round_into(dst, t, t, xh)

        def rows_of_run(lo: int, hi: int) -> None:
            for start in range(lo, hi, step):
                block(start, min(start + step, hi))

        for_blocks(rows, run, rows_of_run)
    round_into(dgamma, np.add.reduce(sums, axis=0).reshape(gamma.shape))
