/* Rows that indices name, weighted and added up in float32, one after the other, and rounded once. */
#include "native.h"

enum { FLOAT32, FLOAT16, BFLOAT16 };
enum { TILE = 1024 };  /* columns at a time: sums and terms stay in the first-level cache */

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

COMBINE(plain, )
#if defined(__x86_64__)
COMBINE(avx2, AVX2)
COMBINE(avx512, AVX512)
#endif

/* Contiguous rows of one data type; `picks` and `weights` have `terms` for each row of the target, which shares no memory. */
EXPORT void ascend_native_combine(COMBINE_ARGUMENTS)
{
    static void (*const combines[])(COMBINE_ARGUMENTS) = {
        combine_plain,
#if defined(__x86_64__)
        combine_avx2, combine_avx512,
#endif
    };
    combines[ascend_native_chosen()](type, source, source_rows, picks, weights, target, rows, columns, terms);
}
