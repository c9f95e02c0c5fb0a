/* Normalisation of rows by their mean and variance, and its gradients, each in one pass: the operations of reference/norm in their
 * order, so the same bits. */
#include <math.h>

#include "program.h"

enum { LONGEST = 8192 };  /* columns of a row; Python calls it LONG_ROW */

#define NORM_ARGUMENTS                                                                                                   \
    const float *x, const float *weight, const float *bias, size_t rows, size_t columns, float epsilon, float *y,        \
        float *means, float *deviations

#define NORM(name, attribute)                                                                                            \
    attribute static void norm_##name(NORM_ARGUMENTS)                                                                    \
    {                                                                                                                    \
        size_t n = columns;                                                                                              \
        double count = (double)n;                                                                                        \
        float squares[LONGEST];                                                                                          \
        for (size_t row = 0; row < rows; row++, x += n, y += n) {                                                        \
            double exact, variance;                                                                                      \
            ascend_native_sum(x, &exact, 1, n, 0, 0);                                                                    \
            exact /= count;                                                                                              \
            float mean = (float)exact;                                                                                   \
            FOR y[i] = x[i] - mean;                                                                                      \
            FOR squares[i] = y[i] * y[i];                                                                                \
            ascend_native_sum(squares, &variance, 1, n, 0, 0);                                                           \
            variance /= count;                                                                                           \
            exact -= (double)mean;                                                                                       \
            variance -= exact * exact;                                                                                   \
            float deviation = 1.0f / sqrtf((float)(variance < 0.0 ? 0.0 : variance) + epsilon);                          \
            FOR y[i] *= deviation;                                                                                       \
            if (weight != NULL) FOR y[i] *= weight[i];                                                                   \
            if (bias != NULL) FOR y[i] += bias[i];                                                                       \
            means[row] = mean;                                                                                           \
            deviations[row] = deviation;                                                                                 \
        }                                                                                                                \
    }

FOR_EACH_SET(NORM)

/* `deviations` gets their inverse. The target shares no memory with what is read. */
EXPORT void ascend_native_layer_norm(NORM_ARGUMENTS)
{
    static void (*const norms[])(NORM_ARGUMENTS) = {OF_EACH_SET(norm)};
    norms[ascend_native_chosen()](x, weight, bias, rows, columns, epsilon, y, means, deviations);
}

#define GRADIENT_ARGUMENTS                                                                                               \
    const float *grad, const float *x, const float *means, const float *deviations, const float *weight, size_t rows,    \
        size_t columns, float *dx, double *dweight, double *dbias

#define GRADIENT(name, attribute)                                                                                        \
    attribute static void gradient_##name(GRADIENT_ARGUMENTS)                                                            \
    {                                                                                                                    \
        size_t n = columns;                                                                                              \
        double count = (double)n;                                                                                        \
        float normed[LONGEST], product[LONGEST], weighted[LONGEST];                                                      \
        for (size_t row = 0; row < rows; row++, grad += n, x += n, dx += n) {                                            \
            float mean = means[row], deviation = deviations[row];                                                        \
            const float *g = weight != NULL ? weighted : grad;                                                           \
            double projection, average;                                                                                  \
            FOR normed[i] = (x[i] - mean) * deviation;                                                                   \
            FOR dbias[i] += (double)grad[i];                                                                             \
            FOR dweight[i] += (double)(grad[i] * normed[i]);                                                             \
            if (weight != NULL) FOR weighted[i] = grad[i] * weight[i];                                                   \
            FOR product[i] = g[i] * normed[i];                                                                           \
            ascend_native_sum(product, &projection, 1, n, 0, 0);                                                         \
            ascend_native_sum(g, &average, 1, n, 0, 0);                                                                  \
            float along = (float)(projection / count), level = (float)(average / count);                                 \
            FOR dx[i] = ((g[i] - level) - normed[i] * along) * deviation;                                                \
        }                                                                                                                \
    }

FOR_EACH_SET(GRADIENT)

/* The gradients of the weight and of the bias are added onto float64 zeros, from the first row on. */
EXPORT void ascend_native_layer_norm_gradient(GRADIENT_ARGUMENTS)
{
    static void (*const gradients[])(GRADIENT_ARGUMENTS) = {OF_EACH_SET(gradient)};
    gradients[ascend_native_chosen()](grad, x, means, deviations, weight, rows, columns, dx, dweight, dbias);
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
            ascend_native_sum(x, &exact, 1, columns, 0, 0);                                                              \
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
