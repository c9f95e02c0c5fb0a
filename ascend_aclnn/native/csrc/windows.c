/* Windows over contiguous planes of float32: their maxima, their sums, and what goes back to chosen places. */
#include "program.h"

/* How windows lie along an axis, as reference/pooling.py has it. */
struct axis { int64_t size, number, kernel, stride, before, dilation; };

/* Which windows, from *low up to the result, have an element at place k, and which element that is in the first of them. */
INLINE int64_t windows_at(const struct axis *a, int64_t k, int64_t *low, int64_t *first)
{
    const int64_t offset = k * a->dilation - a->before, last = a->size - 1 - offset;
    *low = offset < 0 ? (a->stride - 1 - offset) / a->stride : 0;
    *first = offset + *low * a->stride;
    const int64_t high = last < 0 ? 0 : last / a->stride + 1;
    return high < a->number ? high : a->number;
}

/* The usual strides as constants, which the compiler needs to vectorise. */
#define WITH_STRIDE(call, stride) \
    if ((stride) == 1) call(1); \
    else if ((stride) == 2) call(2); \
    else call(stride)

/* One place of windows side by side, the element `number` of the first: a NaN stays, of equal ones the first. */
INLINE void larger_ones(const float *s, int64_t stride, int32_t number, float *best, int32_t *at, size_t n)
{
    FOR {
        const float v = s[(int64_t)i * stride];
        const int better = (at[i] < 0) | (!(v <= best[i]) & (best[i] == best[i]));
        best[i] = better ? v : best[i];
        at[i] = better ? number + (int32_t)((int64_t)i * stride) : at[i];
    }
}

INLINE void maxima_of_plane(const float *x, const struct axis *rows, const struct axis *columns, float *best, int32_t *at)
{
    for (int64_t i = 0; i < rows->number; i++, best += columns->number, at += columns->number) {
        for (int64_t j = 0; j < columns->number; j++) best[j] = 0, at[j] = -1;
        for (int64_t k = 0; k < rows->kernel; k++) {
            const int64_t row = i * rows->stride - rows->before + k * rows->dilation;
            if (row < 0 || row >= rows->size) continue;
            for (int64_t l = 0; l < columns->kernel; l++) {
                int64_t low, first, high = windows_at(columns, l, &low, &first);
                if (low >= high) continue;
                const int64_t number = row * columns->size + first;
#define CALL(stride) larger_ones(x + number, stride, (int32_t)number, best + low, at + low, (size_t)(high - low))
                WITH_STRIDE(CALL, columns->stride);
#undef CALL
            }
        }
    }
}

INLINE void add_ones(const double *s, int64_t stride, double *target, size_t n) { FOR target[i] += s[(int64_t)i * stride]; }

/* Sums over rows first, in `memory`, then over columns. */
INLINE void sums_of_plane(const float *x, const struct axis *rows, const struct axis *columns, double *memory, double *target)
{
    const size_t n = (size_t)columns->size;
    for (int64_t i = 0; i < rows->number; i++, target += columns->number) {
        memset(memory, 0, n * sizeof *memory);
        for (int64_t k = 0; k < rows->kernel; k++) {
            const int64_t row = i * rows->stride - rows->before + k * rows->dilation;
            if (row < 0 || row >= rows->size) continue;
            const float *s = x + row * columns->size;
            FOR memory[i] += (double)s[i];
        }
        memset(target, 0, (size_t)columns->number * sizeof *target);
        for (int64_t l = 0; l < columns->kernel; l++) {
            int64_t low, first, high = windows_at(columns, l, &low, &first);
            if (low >= high) continue;
#define CALL(stride) add_ones(memory + first, stride, target + low, (size_t)(high - low))
            WITH_STRIDE(CALL, columns->stride);
#undef CALL
        }
    }
}

#define MAXIMA_ARGUMENTS const float *x, size_t planes, const struct axis *axes, float *best, int32_t *at
#define SUMS_ARGUMENTS const float *x, size_t planes, const struct axis *axes, double *memory, double *target
#define WINDOWS(name, attribute)                                                                                         \
    attribute static void maxima_##name(MAXIMA_ARGUMENTS)                                                                \
    {                                                                                                                    \
        const int64_t size = axes[0].size * axes[1].size, number = axes[0].number * axes[1].number;                      \
        for (int64_t p = 0; p < (int64_t)planes; p++) maxima_of_plane(x + p * size, axes, axes + 1, best + p * number, at + p * number); \
    }                                                                                                                    \
    attribute static void sums_##name(SUMS_ARGUMENTS)                                                                    \
    {                                                                                                                    \
        const int64_t size = axes[0].size * axes[1].size, number = axes[0].number * axes[1].number;                      \
        for (int64_t p = 0; p < (int64_t)planes; p++) sums_of_plane(x + p * size, axes, axes + 1, memory, target + p * number); \
    }

FOR_EACH_SET(WINDOWS)

/* The largest element of each window, 0 where there is none, and its place in the plane, -1 there. */
EXPORT void ascend_native_maxima(MAXIMA_ARGUMENTS)
{
    static void (*const sets[])(MAXIMA_ARGUMENTS) = {OF_EACH_SET(maxima)};
    sets[ascend_native_chosen()](x, planes, axes, best, at);
}

/* `memory`: a number for each column. */
EXPORT void ascend_native_window_sums(SUMS_ARGUMENTS)
{
    static void (*const sets[])(SUMS_ARGUMENTS) = {OF_EACH_SET(sums)};
    sets[ascend_native_chosen()](x, planes, axes, memory, target);
}

/* target[p][place] = the float64 sum of the values of plane p that name the place, rounded once; `memory`: a plane. Returns 0
 * where a place is none of 0 to size - 1. */
EXPORT int ascend_native_scatter(int type, const float *values, const int32_t *places, size_t planes, size_t count, size_t size,
                                 double *memory, char *target)
{
    static const int round[] = {0, ROUND_DOUBLE_HALF, ROUND_DOUBLE_BF16};
    for (size_t p = 0; p < planes; p++, values += count, places += count, target += size * (type == FLOAT32 ? 4 : 2)) {
        memset(memory, 0, size * sizeof *memory);
        for (size_t i = 0; i < count; i++) {
            if ((uint32_t)places[i] >= size) return 0;
            memory[places[i]] += (double)values[i];
        }
        if (type == FLOAT32) for (size_t i = 0; i < size; i++) ((float *)target)[i] = (float)memory[i];
        else ascend_native_convert(round[type], memory, target, 1, size, 0, 0);
    }
    return 1;
}
