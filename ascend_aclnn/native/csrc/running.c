/* Running float64 sums, each rounded once: along rows, or down columns. */
#include "program.h"

enum { SIDE = 8, SPAN = 256 };  /* rows at a time, for each addition waits for the one before */

INLINE const float *widened(int type, const char *s, float *wide, size_t n)
{
    static const int widen[] = {0, WIDEN_HALF, WIDEN_BF16};
    if (type == FLOAT32) return (const float *)s;
    ascend_native_convert(widen[type], s, wide, 1, n, 0, 0);
    return wide;
}

INLINE void rounded(int type, const double *sums, char *d, size_t n)
{
    static const int round[] = {0, ROUND_DOUBLE_HALF, ROUND_DOUBLE_BF16};
    float *t = (float *)d;
    if (type == FLOAT64) memcpy(d, sums, n * sizeof *sums);
    else if (type == FLOAT32) FOR t[i] = (float)sums[i];
    else ascend_native_convert(round[type], sums, d, 1, n, 0, 0);
}

static const size_t sizes[] = {[FLOAT32] = 4, [FLOAT16] = 2, [BFLOAT16] = 2, [FLOAT64] = 8};

#define RUNNING_ARGUMENTS                                                                                                \
    int from, int to, const char *source, char *target, size_t rows, size_t columns, ptrdiff_t source_step, ptrdiff_t target_step

INLINE void along_rows(RUNNING_ARGUMENTS)
{
    float wide[SIDE][SPAN];
    double made[SIDE][SPAN];
    const float *s[SIDE];
    for (size_t r = 0; r < rows; r += SIDE) {
        const size_t side = rows - r < SIDE ? rows - r : SIDE;
        double sums[SIDE];
        for (size_t k = 0; k < SIDE; k++) sums[k] = -0.0;
        for (size_t start = 0; start < columns; start += SPAN) {
            const size_t n = columns - start < SPAN ? columns - start : SPAN;
            for (size_t k = 0; k < SIDE; k++)
                s[k] = k < side ? widened(from, source + (ptrdiff_t)(r + k) * source_step + start * sizes[from], wide[k], n) : s[0];
            for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < SIDE; k++) made[k][i] = sums[k] += (double)s[k][i];
            for (size_t k = 0; k < side; k++) rounded(to, made[k], target + (ptrdiff_t)(r + k) * target_step + start * sizes[to], n);
        }
    }
}

INLINE void down_columns(RUNNING_ARGUMENTS)
{
    float wide[TILE];
    double sums[TILE];
    for (size_t start = 0; start < columns; start += TILE) {
        const size_t n = columns - start < TILE ? columns - start : TILE;
        FOR sums[i] = -0.0;
        for (size_t r = 0; r < rows; r++) {
            const float *s = widened(from, source + (ptrdiff_t)r * source_step + start * sizes[from], wide, n);
            char *t = target + (ptrdiff_t)r * target_step + start * sizes[to];
            FOR sums[i] += (double)s[i];
            rounded(to, sums, t, n);
        }
    }
}

#define RUNNING(name, attribute)                                                                                         \
    attribute static void rows_##name(RUNNING_ARGUMENTS) { along_rows(from, to, source, target, rows, columns, source_step, target_step); } \
    attribute static void columns_##name(RUNNING_ARGUMENTS) { down_columns(from, to, source, target, rows, columns, source_step, target_step); }

FOR_EACH_SET(RUNNING)

/* Of float32, float16 or bfloat16 into one of them or float64. */
EXPORT void ascend_native_running_sum(RUNNING_ARGUMENTS, int of_columns)
{
    static void (*const sets[][2])(RUNNING_ARGUMENTS) = {
#define BOTH(name, attribute) {rows_##name, columns_##name},
        FOR_EACH_SET(BOTH)
    };
    sets[ascend_native_chosen()][of_columns](from, to, source, target, rows, columns, source_step, target_step);
}
