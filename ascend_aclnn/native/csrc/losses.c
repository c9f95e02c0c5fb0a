/* Losses of rows that know their class. */
#include "program.h"

/* Chosen elements of an array, widened. */
static void gather(int type, const void *source, const size_t *places, float *target, size_t n)
{
    static const int widen[] = {0, WIDEN_HALF, WIDEN_BF16};
    uint16_t codes[TILE];
    if (type == FLOAT32) {
        for (size_t i = 0; i < n; i++) target[i] = ((const float *)source)[places[i]];
        return;
    }
    for (size_t i = 0; i < n; i++) codes[i] = ((const uint16_t *)source)[places[i]];
    ascend_native_convert(widen[type], codes, target, 1, n, 0, 0);
}

/* Of each row the weight of its class, and -weight * x[row][class]; zeros where the class is the one to ignore. Then the float64
 * sums of both: of the losses, of the weights. Returns 0 where a class is none of 0 to columns - 1; what was written is of no use then. */
EXPORT int ascend_native_nll(int type, const void *x, const void *weight, const int64_t *classes, size_t rows, size_t columns,
                             int64_t ignored, float *losses, float *weights, double *sums)
{
    for (size_t start = 0; start < rows; start += TILE) {
        size_t n = rows - start < TILE ? rows - start : TILE, places[TILE], of_weights[TILE];
        float *loss = losses + start, *w = weights + start;
        const int64_t *class = classes + start;
        for (size_t i = 0; i < n; i++) {
            int64_t known = class[i] == ignored ? 0 : class[i];
            if (known < 0 || (size_t)known >= columns) return 0;
            of_weights[i] = (size_t)known;
            places[i] = (start + i) * columns + (size_t)known;
        }
        gather(type, weight, of_weights, w, n);
        gather(type, x, places, loss, n);
        for (size_t i = 0; i < n; i++) {
            loss[i] = class[i] == ignored ? 0.0f : -w[i] * loss[i];
            w[i] = class[i] == ignored ? 0.0f : w[i];
        }
    }
    ascend_native_sum(losses, sums, 1, rows, 0, 0);
    ascend_native_sum(weights, sums + 1, 1, rows, 0, 0);
    return 1;
}
