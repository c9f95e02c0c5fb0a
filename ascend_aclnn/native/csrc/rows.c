/* Rows that indices name, added up: runs of them in float64, weighted ones in float32, rounded once. */
#include "program.h"

#define COMBINE_ARGUMENTS                                                                                                \
    int type, const char *source, size_t source_rows, const int64_t *picks, const float *weights, char *target,          \
        size_t rows, size_t columns, size_t terms

/* A row whose index is past the end, or whose weight is zero, adds nothing; without any, the result is zero. */
#define COMBINE(name, attribute)                                                                                         \
    attribute static void combine_##name(COMBINE_ARGUMENTS)                                                              \
    {                                                                                                                    \
        static const int widen[] = {0, WIDEN_HALF, WIDEN_BF16}, round[] = {0, ROUND_HALF, ROUND_BF16};                   \
        size_t size = type == FLOAT32 ? 4 : 2;                                                                           \
        float sums[TILE], wide[TILE];                                                                                    \
        for (size_t row = 0; row < rows; row++)                                                                          \
            for (size_t start = 0; start < columns; start += TILE) {                                                     \
                size_t n = columns - start < TILE ? columns - start : TILE;                                              \
                char *t = target + (row * columns + start) * size;                                                       \
                float *sum = type == FLOAT32 ? (float *)t : sums;                                                        \
                for (size_t k = 0; k < terms; k++) {                                                                     \
                    size_t pick = (size_t)picks[row * terms + k];                                                        \
                    float weight = weights != NULL ? weights[row * terms + k] : 1.0f;                                    \
                    if (pick >= source_rows || weight == 0.0f) {                                                         \
                        if (k == 0) memset(sum, 0, n * sizeof *sum);                                                     \
                        continue;                                                                                        \
                    }                                                                                                    \
                    const char *s = source + (pick * columns + start) * size;                                            \
                    const float *term = (const float *)s;                                                                \
                    if (type != FLOAT32) {                                                                               \
                        float *to = k == 0 ? sum : wide;                                                                 \
                        ascend_native_convert(widen[type], s, to, 1, n, 0, 0);                                           \
                        term = to;                                                                                       \
                    }                                                                                                    \
                    if (k == 0) {                                                                                        \
                        if (weights != NULL) for (size_t i = 0; i < n; i++) sum[i] = term[i] * weight;                   \
                        else if (term != sum) memcpy(sum, term, n * sizeof *sum);                                        \
                    } else if (weights != NULL) {                                                                        \
                        for (size_t i = 0; i < n; i++) sum[i] += term[i] * weight;                                       \
                    } else {                                                                                             \
                        for (size_t i = 0; i < n; i++) sum[i] += term[i];                                                \
                    }                                                                                                    \
                }                                                                                                        \
                if (type != FLOAT32) ascend_native_convert(round[type], sum, t, 1, n, 0, 0);                             \
            }                                                                                                            \
    }

FOR_EACH_SET(COMBINE)

/* Contiguous rows of one data type; `picks` and `weights` have `terms` for each row of the target, which shares no memory. */
EXPORT void ascend_native_combine(COMBINE_ARGUMENTS)
{
    static void (*const combines[])(COMBINE_ARGUMENTS) = {OF_EACH_SET(combine)};
    combines[ascend_native_chosen()](type, source, source_rows, picks, weights, target, rows, columns, terms);
}

/* To a row of target for each run the sum of the rows of source that `order` names from starts[run] on, in that order. */
#define RUNS(name, attribute)                                                                                            \
    attribute static void runs_##name(const char *source, int wide, double *target, size_t columns, ptrdiff_t step,      \
                                      const int64_t *order, const int64_t *starts, size_t runs, size_t count,            \
                                      const int64_t *rows)                                                               \
    {                                                                                                                    \
        double sums[TILE];                                                                                               \
        for (size_t run = 0; run < runs; run++)                                                                          \
            for (size_t start = 0; start < columns; start += TILE) {                                                     \
                size_t n = columns - start < TILE ? columns - start : TILE;                                              \
                size_t first = (size_t)starts[run], end = run + 1 < runs ? (size_t)starts[run + 1] : count;              \
                for (size_t k = first; k < end; k++) {                                                                   \
                    const char *at = source + (ptrdiff_t)order[k] * step;                                                \
                    const double *d = (const double *)at + start;                                                        \
                    const float *s = (const float *)at + start;                                                          \
                    if (wide && k == first) FOR sums[i] = d[i];                                                          \
                    else if (wide) FOR sums[i] += d[i];                                                                  \
                    else if (k == first) FOR sums[i] = (double)s[i];                                                     \
                    else FOR sums[i] += (double)s[i];                                                                    \
                }                                                                                                        \
                double *t = target + (size_t)rows[run] * columns + start;                                                \
                FOR t[i] += sums[i];                                                                                     \
            }                                                                                                            \
    }

FOR_EACH_SET(RUNS)

#define RUNS_ARGUMENTS                                                                                                   \
    const char *source, int wide, double *target, size_t columns, ptrdiff_t step, const int64_t *order,                  \
        const int64_t *starts, size_t runs, size_t count, const int64_t *rows

/* `wide`: source is float64, else float32. */
EXPORT void ascend_native_add_runs(RUNS_ARGUMENTS)
{
    static void (*const adds[])(RUNS_ARGUMENTS) = {OF_EACH_SET(runs)};
    adds[ascend_native_chosen()](source, wide, target, columns, step, order, starts, runs, count, rows);
}

/* target[rows[run]] = x[rows[run]] + the sum of a run of rows of values, as above: float64 sums of floats of one type. */
#define ADD_ROWS(name, attribute)                                                                                        \
    attribute static void add_rows_##name(ADD_ROWS_ARGUMENTS)                                                            \
    {                                                                                                                    \
        static const int widen[] = {0, WIDEN_HALF, WIDEN_BF16}, round[] = {0, ROUND_DOUBLE_HALF, ROUND_DOUBLE_BF16};     \
        size_t size = type == FLOAT32 ? 4 : 2;                                                                           \
        double sums[TILE];                                                                                               \
        float wide[TILE];                                                                                                \
        for (size_t run = 0; run < runs; run++)                                                                          \
            for (size_t start = 0; start < columns; start += TILE) {                                                     \
                size_t n = columns - start < TILE ? columns - start : TILE;                                              \
                size_t first = (size_t)starts[run], end = run + 1 < runs ? (size_t)starts[run + 1] : count;              \
                for (size_t k = first; k <= end; k++) {                                                                  \
                    const char *row = k < end ? values + (size_t)order[k] * columns * size : x + (size_t)rows[run] * columns * size; \
                    const float *s = (const float *)(row + start * size);                                                \
                    if (type != FLOAT32) ascend_native_convert(widen[type], s, wide, 1, n, 0, 0), s = wide;              \
                    if (k == first) FOR sums[i] = (double)s[i];                                                          \
                    else FOR sums[i] += (double)s[i];                                                                    \
                }                                                                                                        \
                char *t = target + ((size_t)rows[run] * columns + start) * size;                                         \
                if (type == FLOAT32) FOR ((float *)t)[i] = (float)sums[i];                                               \
                else ascend_native_convert(round[type], sums, t, 1, n, 0, 0);                                            \
            }                                                                                                            \
    }

#define ADD_ROWS_ARGUMENTS                                                                                               \
    int type, const char *x, const char *values, char *target, size_t columns, const int64_t *order,                     \
        const int64_t *starts, size_t runs, size_t count, const int64_t *rows

FOR_EACH_SET(ADD_ROWS)

/* Contiguous rows of float32, float16 or bfloat16; `starts` and `count` are places in `order`. */
EXPORT void ascend_native_add_rows(ADD_ROWS_ARGUMENTS)
{
    static void (*const adds[])(ADD_ROWS_ARGUMENTS) = {OF_EACH_SET(add_rows)};
    adds[ascend_native_chosen()](type, x, values, target, columns, order, starts, runs, count, rows);
}
