/* Normalisation of rows by their mean and variance, and its gradients, each in one pass: the operations of reference/norm/layer.py
 * in its order, so the same bits. */
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
