/* Contiguous planes with other sizes: resampled along an axis, or with a number around them. */
#include "native.h"

#define RESAMPLE_ARGUMENTS                                                                                               \
    const float *x, const int64_t *places, const float *weights, float *target, size_t outer, size_t from, size_t n,     \
        size_t inner, size_t taps

/* Terms are added in the order of taps, each a product that is rounded, as NumPy does. */
#define RESAMPLE(name, attribute)                                                                                        \
    attribute static void resample_##name(RESAMPLE_ARGUMENTS)                                                            \
    {                                                                                                                    \
        for (size_t o = 0; o < outer; o++, x += from * inner, target += n * inner)                                       \
            for (size_t tap = 0; tap < taps; tap++) {                                                                    \
                const int64_t *place = places + tap * n;                                                                 \
                const float *weight = weights + tap * n;                                                                 \
                if (inner == 1) {                                                                                        \
                    if (tap == 0) FOR target[i] = x[place[i]] * weight[i];                                               \
                    else FOR target[i] += x[place[i]] * weight[i];                                                       \
                    continue;                                                                                            \
                }                                                                                                        \
                for (size_t row = 0; row < n; row++)                                                                     \
                    line_##name(x + (size_t)place[row] * inner, weight[row], target + row * inner, inner, tap);          \
            }                                                                                                            \
    }
#define LINE(name, attribute)                                                                                            \
    attribute static void line_##name(const float *s, float weight, float *t, size_t n, size_t tap)                      \
    {                                                                                                                    \
        if (tap == 0) FOR t[i] = s[i] * weight;                                                                          \
        else FOR t[i] += s[i] * weight;                                                                                  \
    }
FOR_EACH_SET(LINE)
FOR_EACH_SET(RESAMPLE)

/* An axis of `from` positions becomes one of `n`: position i is the sum of x[places[tap][i]] * weights[tap][i]. */
EXPORT void ascend_native_resample(RESAMPLE_ARGUMENTS)
{
    static void (*const sets[])(RESAMPLE_ARGUMENTS) = {OF_EACH_SET(resample)};
    sets[ascend_native_chosen()](x, places, weights, target, outer, from, n, inner, taps);
}

INLINE void put(char *target, const void *number, size_t size, size_t n)
{
    if (size == 1) memset(target, *(const char *)number, n);
    else FOR memcpy(target + i * size, number, size);
}

/* `n` times an element of 1, 2, 4, 8 or 16 bytes; returns what is behind them. */
static char *put_number(char *target, const void *number, size_t size, size_t n)
{
    switch (size) {
    case 1: put(target, number, 1, n); break;
    case 2: put(target, number, 2, n); break;
    case 4: put(target, number, 4, n); break;
    case 8: put(target, number, 8, n); break;
    default: put(target, number, 16, n);
    }
    return target + n * size;
}

/* Planes with a number around them: so many rows above and below, and columns on the left and on the right. */
EXPORT void ascend_native_pad(size_t size, const char *source, char *target, const void *number, size_t planes, size_t rows,
                              size_t columns, size_t above, size_t below, size_t left, size_t right)
{
    const size_t width = left + columns + right;
    for (size_t plane = 0; plane < planes; plane++) {
        target = put_number(target, number, size, above * width + left);
        for (size_t row = 1; row <= rows; row++, source += columns * size) {
            memcpy(target, source, columns * size);
            target = put_number(target + columns * size, number, size, row < rows ? right + left : right + below * width);
        }
    }
}
