/* Normalisation of rows by their mean and variance, and its gradients, each in one pass: the operations of reference/norm in their
 * order, so the same bits. */
#include <math.h>

#include "program.h"

enum { LONGEST = 8192 };  /* columns of a row; Python calls it LONG_ROW */

/* `weight` and `bias` may be NULL; `deviations` gets their inverse. The target shares no memory with what is read. */
struct layer_norm {
    int64_t rows, columns;
    const float *x, *weight, *bias;
    float *y, *means, *deviations, epsilon;
};

#define NORM(name, attribute)                                                                                            \
    attribute static void norm_##name(const struct layer_norm *norm)                                                     \
    {                                                                                                                    \
        const size_t n = (size_t)norm->columns;                                                                          \
        const double count = (double)n;                                                                                  \
        const float *x = norm->x, *weight = norm->weight, *bias = norm->bias;                                            \
        float *y = norm->y, squares[LONGEST];                                                                            \
        for (int64_t row = 0; row < norm->rows; row++, x += n, y += n) {                                                 \
            double exact, variance;                                                                                      \
            ascend_native_sum(x, &exact, 1, n, 0);                                                                       \
            exact /= count;                                                                                              \
            float mean = (float)exact;                                                                                   \
            FOR y[i] = x[i] - mean;                                                                                      \
            FOR squares[i] = y[i] * y[i];                                                                                \
            ascend_native_sum(squares, &variance, 1, n, 0);                                                              \
            variance /= count;                                                                                           \
            exact -= (double)mean;                                                                                       \
            variance -= exact * exact;                                                                                   \
            float deviation = 1.0f / sqrtf((float)(variance < 0.0 ? 0.0 : variance) + norm->epsilon);                    \
            FOR y[i] *= deviation;                                                                                       \
            if (weight != NULL) FOR y[i] *= weight[i];                                                                   \
            if (bias != NULL) FOR y[i] += bias[i];                                                                       \
            norm->means[row] = mean;                                                                                     \
            norm->deviations[row] = deviation;                                                                           \
        }                                                                                                                \
    }

FOR_EACH_SET(NORM)

EXPORT void ascend_native_layer_norm(const struct layer_norm *norm)
{
    static void (*const norms[])(const struct layer_norm *) = {OF_EACH_SET(norm)};
    norms[ascend_native_chosen()](norm);
}

/* The gradients of x (NULL: not wanted) and, added onto float64 zeros from the first row on, of the weight and the bias. `weight` may
 * be NULL, `deviations` are inverse. `sums` 0: those of x alone. */
struct gradient {
    int64_t rows, columns, sums;
    const float *grad, *x, *means, *deviations, *weight;
    float *dx;
    double *dweight, *dbias;
};

enum { BLOCK = 1 << 15, STRIP = 512 };  /* elements of rows, and columns, that a thread takes at a time */

#define GRADIENT(name, attribute)                                                                                        \
    attribute static void through_##name(const struct gradient *g, size_t row)                                           \
    {                                                                                                                    \
        const size_t n = (size_t)g->columns;                                                                             \
        const int streamed = 4 * (int64_t)n * g->rows >= LARGE;                                                          \
        const float *x = g->x + n * row, *grad = g->grad + n * row, *weight = g->weight;                                 \
        const float mean = g->means[row], deviation = g->deviations[row];                                                \
        float product[LONGEST], weighted[LONGEST], *to = streamed ? product : g->dx + n * row;                           \
        double projection, average;                                                                                      \
        if (weight != NULL) {                                                                                            \
            FOR weighted[i] = grad[i] * weight[i], product[i] = weighted[i] * ((x[i] - mean) * deviation);               \
            grad = weighted;                                                                                             \
        } else {                                                                                                         \
            FOR product[i] = grad[i] * ((x[i] - mean) * deviation);                                                      \
        }                                                                                                                \
        ascend_native_sum(product, &projection, 1, n, 0);                                                                \
        ascend_native_sum(grad, &average, 1, n, 0);                                                                      \
        const float along = (float)(projection / (double)n), level = (float)(average / (double)n);                       \
        FOR to[i] = ((grad[i] - level) - (x[i] - mean) * deviation * along) * deviation;                                 \
        if (streamed) ascend_native_stream(g->dx + n * row, product, 4 * n);                                             \
    }                                                                                                                    \
    attribute static void over_rows_##name(const struct gradient *g, size_t first, size_t n)                             \
    {                                                                                                                    \
        const size_t columns = (size_t)g->columns, rows = (size_t)g->rows;                                               \
        double *restrict dweight = g->dweight + first, *restrict dbias = g->dbias + first;                               \
        const float *means = g->means, *deviations = g->deviations;                                                      \
        for (size_t row = 0, some; row < rows; row += some) {                                                            \
            const float *restrict y = g->grad + columns * row + first, *restrict x = g->x + columns * row + first;       \
            const float mean = means[row], deviation = deviations[row];                                                  \
            some = rows - row < 4 ? 1 : 4;                                                                               \
            if (some == 1) {                                                                                             \
                FOR dweight[i] += (double)(y[i] * ((x[i] - mean) * deviation)), dbias[i] += (double)y[i];                \
                continue;                                                                                                \
            }                                                                                                            \
            for (size_t k = 0; k < 4 * n && row + 8 <= rows; k += 16) {  /* the next rows: a strip is too short for the processor to look ahead */ \
                const size_t at = columns * (4 + k / n) + k % n;                                                         \
                __builtin_prefetch(x + at), __builtin_prefetch(y + at);                                                  \
            }                                                                                                            \
            const float *restrict y1 = y + columns, *restrict y2 = y1 + columns, *restrict y3 = y2 + columns;            \
            const float *restrict x1 = x + columns, *restrict x2 = x1 + columns, *restrict x3 = x2 + columns;            \
            const float mean1 = means[row + 1], mean2 = means[row + 2], mean3 = means[row + 3];                          \
            const float deviation1 = deviations[row + 1], deviation2 = deviations[row + 2], deviation3 = deviations[row + 3]; \
            FOR {                                                                                                        \
                dweight[i] = (((dweight[i] + (double)(y[i] * ((x[i] - mean) * deviation)))                               \
                               + (double)(y1[i] * ((x1[i] - mean1) * deviation1)))                                       \
                              + (double)(y2[i] * ((x2[i] - mean2) * deviation2)))                                        \
                             + (double)(y3[i] * ((x3[i] - mean3) * deviation3));                                         \
                dbias[i] = (((dbias[i] + (double)y[i]) + (double)y1[i]) + (double)y2[i]) + (double)y3[i];                \
            }                                                                                                            \
        }                                                                                                                \
    }                                                                                                                    \
    attribute static void gradient_##name(const struct gradient *g, int64_t *next)                                       \
    {                                                                                                                    \
        const int64_t some = BLOCK / g->columns > 0 ? BLOCK / g->columns : 1;                                            \
        const int64_t blocks = g->dx != NULL ? (g->rows + some - 1) / some : 0;                                          \
        const int64_t strips = g->sums ? (g->columns + STRIP - 1) / STRIP : 0;                                           \
        for (int64_t piece; (piece = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < blocks + strips;) {                \
            if (piece < blocks) {                                                                                        \
                for (int64_t row = piece * some; row < (piece + 1) * some && row < g->rows; row++) through_##name(g, (size_t)row); \
            } else {                                                                                                     \
                const int64_t first = (piece - blocks) * STRIP, left = g->columns - first;                               \
                over_rows_##name(g, (size_t)first, (size_t)(left < STRIP ? left : STRIP));                               \
            }                                                                                                            \
        }                                                                                                                \
    }

FOR_EACH_SET(GRADIENT)

/* Threads that pass the same `next` share the work. */
EXPORT void ascend_native_layer_norm_gradient(const struct gradient *gradient, int64_t *next)
{
    static void (*const gradients[])(const struct gradient *, int64_t *) = {OF_EACH_SET(gradient)};
    gradients[ascend_native_chosen()](gradient, next);
#if defined(__x86_64__)
    _mm_sfence();  /* what went past the caches is in order again */
#endif
}

/* Rows of `channels` times `size` elements; those of a channel have a scale and a shift (NULL: none), which are for `groups` rows. */
struct group_norm {
    int32_t type, out_type;
    int64_t rows, groups, channels, size;
    const void *x;
    const float *scale, *shift;
    void *out;
    float *means, *deviations, epsilon;
};

#define GROUP(name, attribute)                                                                                           \
    attribute static void group_##name(const struct group_norm *g, int64_t *next, float *memory)                         \
    {                                                                                                                    \
        static const int widen[] = {0, WIDEN_HALF, WIDEN_BF16}, round[] = {0, ROUND_HALF, ROUND_BF16};                   \
        const size_t n = (size_t)g->size, columns = n * (size_t)g->channels;                                             \
        const double count = (double)columns;                                                                            \
        for (int64_t row; (row = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < g->rows;) {                            \
            const size_t first = columns * (size_t)row, channel = (size_t)(row % g->groups * g->channels);               \
            const float *x = g->type == FLOAT32 ? (const float *)g->x + first : memory;                                  \
            if (g->type != FLOAT32) ascend_native_convert(widen[g->type], (const uint16_t *)g->x + first, memory, 1, columns, 0, 0); \
            double exact;                                                                                                \
            ascend_native_sum(x, &exact, 1, columns, 0);                                                                 \
            exact /= count;                                                                                              \
            const float mean = (float)exact;                                                                             \
            double variance = ascend_native_spread(x, columns, mean) / count;                                            \
            exact -= (double)mean;                                                                                       \
            variance -= exact * exact;                                                                                   \
            const float deviation = 1.0f / sqrtf((float)(variance < 0.0 ? 0.0 : variance) + g->epsilon);                 \
            for (size_t c = 0; c < (size_t)g->channels; c++, x += n) {                                                   \
                const size_t at = first + c * n;                                                                         \
                float *y = g->out_type == FLOAT32 ? (float *)g->out + at : memory + c * n;                               \
                const float scale = g->scale != NULL ? g->scale[channel + c] : 1.0f;                                     \
                if (g->shift != NULL) {                                                                                  \
                    const float shift = g->shift[channel + c];                                                           \
                    FOR y[i] = (x[i] - mean) * deviation * scale + shift;                                                \
                } else {                                                                                                 \
                    FOR y[i] = (x[i] - mean) * deviation * scale;                                                        \
                }                                                                                                        \
                if (g->out_type != FLOAT32) ascend_native_convert(round[g->out_type], y, (uint16_t *)g->out + at, 1, n, 0, 0); \
            }                                                                                                            \
            g->means[row] = mean;                                                                                        \
            g->deviations[row] = deviation;                                                                              \
        }                                                                                                                \
    }

FOR_EACH_SET(GROUP)

/* Threads that pass the same `next` share the rows. `memory` has room for a row, unless all elements are float32. */
EXPORT void ascend_native_group_norm(const struct group_norm *norm, int64_t *next, float *memory)
{
    static void (*const groups[])(const struct group_norm *, int64_t *, float *) = {OF_EACH_SET(group)};
    groups[ascend_native_chosen()](norm, next, memory);
}
