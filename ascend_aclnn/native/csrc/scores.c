/* Rows of attention's scores: exponentials of their distance to the largest one, and the sums. */
#include "program.h"

/* The sum of a row as NumPy adds up contiguous float32: pairs of runs of at most 128, eight sums in each. */
#define SUM(name, attribute)                                                                                             \
    attribute static float sum_##name(const float *a, size_t n)                                                          \
    {                                                                                                                    \
        if (n > 128) {                                                                                                   \
            size_t half = n / 2;                                                                                         \
            half -= half % 8;                                                                                            \
            const float first = sum_##name(a, half);                                                                     \
            return first + sum_##name(a + half, n - half);                                                               \
        }                                                                                                                \
        float r[8] = {0}, sum = 0;                                                                                       \
        size_t i = 0;                                                                                                    \
        if (n >= 8) {                                                                                                    \
            for (; i < n - n % 8; i += 8)                                                                                \
                for (int k = 0; k < 8; k++) r[k] += a[i + k];                                                            \
            sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));                                     \
        }                                                                                                                \
        for (; i < n; i++) sum += a[i];                                                                                  \
        return sum;                                                                                                      \
    }
#define EXPONENTIALS(name, attribute)                                                                                    \
    attribute static void exponentials_##name(float *x, size_t rows, size_t n, float least, float *maxima, float *sums)  \
    {                                                                                                                    \
        for (size_t row = 0; row < rows; row++) {                                                                        \
            float *d = x + row * n;                                                                                      \
            float most = ascend_native_largest(d, n);                                                                    \
            maxima[row] = most = most < least ? least : most;                                                            \
            FOR d[i] -= most;                                                                                            \
        }                                                                                                                \
        ascend_native_exp(x, x, rows * n);                                                                               \
        for (size_t row = 0; row < rows; row++) sums[row] = sum_##name(x + row * n, n);                                  \
    }
FOR_EACH_SET(SUM)
FOR_EACH_SET(EXPONENTIALS)

/* In place. A row's largest score counts as `least` where it is less, NaN as itself. */
EXPORT void ascend_native_exponentials(float *x, size_t rows, size_t n, float least, float *maxima, float *sums)
{
    static void (*const sets[])(float *, size_t, size_t, float, float *, float *) = {OF_EACH_SET(exponentials)};
    const size_t some = n < TILE ? TILE / n : 1;  /* rows that stay in the first-level cache */
    for (size_t row = 0; row < rows; row += some)
        sets[ascend_native_chosen()](x + row * n, rows - row < some ? rows - row : some, n, least, maxima + row, sums + row);
}
