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

/* Float64, rounded once to a type. */
static void round_once(int type, double x, void *to)
{
    if (type == FLOAT32) *(float *)to = (float)x;
    else ascend_native_convert(type == FLOAT16 ? ROUND_DOUBLE_HALF : ROUND_DOUBLE_BF16, &x, to, 1, 1, 0, 0);
}

enum { MEAN = 1, SUM };  /* reductions */
struct nll {
    int32_t type, loss_type, whole_type, reduction;
    int64_t rows, columns, ignored;
    const void *x, *weight;
    const int64_t *classes;
    void *loss, *whole;
};
enum { MOST_ROWS = 8192 };  /* that NumPy adds up as one; Python calls it LONG_ROW */

/* Of each row -weight * x[row][class], with the weight of its class; zeros where the class is the one to ignore. Or the float64 sums
 * of both, that of the losses divided by the other one for their mean. Returns 0, with nothing written, where a class is none of 0 to
 * columns - 1. */
EXPORT int ascend_native_nll(const struct nll *nll)
{
    static const int round[] = {0, ROUND_HALF, ROUND_BF16};
    const size_t rows = (size_t)nll->rows, columns = (size_t)nll->columns;
    float losses[MOST_ROWS], weights[MOST_ROWS];
    double sum, whole = 0;
    for (size_t start = 0; start < rows; start += TILE) {
        size_t n = rows - start < TILE ? rows - start : TILE, places[TILE], of_weights[TILE];
        float *loss = losses + start, *w = weights + start;
        const int64_t *class = nll->classes + start;
        for (size_t i = 0; i < n; i++) {
            int64_t known = class[i] == nll->ignored ? 0 : class[i];
            if (known < 0 || (size_t)known >= columns) return 0;
            of_weights[i] = (size_t)known;
            places[i] = (start + i) * columns + (size_t)known;
        }
        gather(nll->type, nll->weight, of_weights, w, n);
        gather(nll->type, nll->x, places, loss, n);
        for (size_t i = 0; i < n; i++) {
            loss[i] = class[i] == nll->ignored ? 0.0f : -w[i] * loss[i];
            w[i] = class[i] == nll->ignored ? 0.0f : w[i];
        }
    }
    if (nll->reduction != MEAN && nll->reduction != SUM) {
        if (nll->loss_type == FLOAT32) memcpy(nll->loss, losses, 4 * rows);
        else ascend_native_convert(round[nll->loss_type], losses, nll->loss, 1, rows, 0, 0);
    } else {
        ascend_native_sum(losses, &sum, 1, rows, 0);
        ascend_native_sum(weights, &whole, 1, rows, 0);
        round_once(nll->loss_type, nll->reduction == MEAN ? sum / whole : sum, nll->loss);
    }
    round_once(nll->whole_type, whole, nll->whole);
    return 1;
}
