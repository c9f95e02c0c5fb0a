/* Products of a few rows by matrices of 16 bits, which are widened as they are read.
 *
 * Each sum is one chain of fused multiplications and additions, from the first k to the last one. BLAS adds a small product so, too,
 * on many processors: numerics/products.py compares them before it uses this.
 */
#include "program.h"

/* Matrices a of m x k and out of m x n, contiguous float32, and b of k x n, whose columns are contiguous, `step` elements apart. */
struct few_rows {
    int64_t a, b, out, type, m, n, k, step;
};

/* What of b is widened at a time stays in the first cache; a register block has ROWS rows of all of its columns. */
enum { MOST_ROWS = 16, ROWS = 3, COLUMNS = 32, DEPTH = 64 };

#if defined(__x86_64__)

#define UNROLLED _Pragma("GCC unroll 8")

AVX2 INLINE __m256 widen_eight(const uint16_t *at, int of_half)
{
    const __m128i codes = _mm_loadu_si128((const __m128i *)at);
    return of_half ? _mm256_cvtph_ps(codes) : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(codes), 16));
}

/* The same of less than eight; the others are 0. */
AVX2 INLINE __m256 widen_some(const uint16_t *at, size_t count, int of_half)
{
    uint16_t codes[8] = {0};
    memcpy(codes, at, count * sizeof *codes);
    return widen_eight(codes, of_half);
}

/* Eight rows of eight as eight columns, `step` floats apart. */
AVX2 INLINE void store_turned(const __m256 *r, float *to, size_t step)
{
    __m256 pair[8], four[8];
    UNROLLED
    for (int i = 0; i < 8; i += 2) {
        pair[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        pair[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    UNROLLED
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            four[i + 2 * j] = _mm256_shuffle_ps(pair[i + j], pair[i + j + 2], 0x44);
            four[i + 2 * j + 1] = _mm256_shuffle_ps(pair[i + j], pair[i + j + 2], 0xee);
        }
    UNROLLED
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + (size_t)i * step, _mm256_permute2f128_ps(four[i], four[i + 4], 0x20));
        _mm256_storeu_ps(to + (size_t)(i + 4) * step, _mm256_permute2f128_ps(four[i], four[i + 4], 0x31));
    }
}

/* `depth` rows of `count` columns of b; columns that b does not have are 0. The processor does not foresee where the next ones lie. */
AVX2 INLINE void widen_block(float *to, const uint16_t *b, int64_t step, size_t depth, size_t count, int of_half)
{
    for (size_t j = 0; j < COLUMNS; j += 8)
        for (size_t k = 0; k < depth; k += 8) {
            const uint16_t *at = b + (int64_t)j * step + (int64_t)k;
            if (k % 32 == 0)
                for (int i = 0; i < 8; i++) _mm_prefetch((const char *)(at + (COLUMNS + i) * step), _MM_HINT_T0);
            __m256 r[8];
            UNROLLED
            for (size_t i = 0; i < 8; i++)
                r[i] = j + i >= count     ? _mm256_setzero_ps()
                       : depth - k >= 8   ? widen_eight(at + (int64_t)i * step, of_half)
                                          : widen_some(at + (int64_t)i * step, depth - k, of_half);
            store_turned(r, to + k * COLUMNS + j, COLUMNS);
        }
}

/* Adds the products of `rows` rows of a and a block of b onto their sums. */
AVX2 INLINE void multiply_rows(const float *a, size_t a_row, const float *b, float *sums, size_t depth, const int rows)
{
    __m256 r[ROWS][COLUMNS / 8];
    UNROLLED
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < COLUMNS / 8; j++) r[i][j] = _mm256_loadu_ps(sums + i * COLUMNS + 8 * j);
    for (size_t k = 0; k < depth; k++, b += COLUMNS) {
        UNROLLED
        for (int i = 0; i < rows; i++) {
            const __m256 x = _mm256_broadcast_ss(a + (size_t)i * a_row + k);
            UNROLLED
            for (int j = 0; j < COLUMNS / 8; j++) r[i][j] = _mm256_fmadd_ps(x, _mm256_loadu_ps(b + 8 * j), r[i][j]);
        }
    }
    UNROLLED
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < COLUMNS / 8; j++) _mm256_storeu_ps(sums + i * COLUMNS + 8 * j, r[i][j]);
}

AVX2 INLINE void multiply(const struct few_rows *p, int of_half)
{
    float block[DEPTH * COLUMNS], sums[MOST_ROWS * COLUMNS];
    const float *const a = (const float *)(intptr_t)p->a;
    const size_t m = (size_t)p->m, n = (size_t)p->n, deep = (size_t)p->k;
    for (size_t column = 0; column < n; column += COLUMNS) {
        const uint16_t *b = (const uint16_t *)(intptr_t)p->b + (int64_t)column * p->step;
        const size_t count = n - column < COLUMNS ? n - column : COLUMNS;
        memset(sums, 0, m * COLUMNS * sizeof *sums);
        for (size_t k = 0; k < deep; k += DEPTH) {
            const size_t depth = deep - k < DEPTH ? deep - k : DEPTH;
            widen_block(block, b + k, p->step, depth, count, of_half);
            for (size_t i = 0; i < m; i += ROWS) {
                const float *rows = a + i * deep + k;
                if (m - i >= 3) multiply_rows(rows, deep, block, sums + i * COLUMNS, depth, 3);
                else if (m - i == 2) multiply_rows(rows, deep, block, sums + i * COLUMNS, depth, 2);
                else multiply_rows(rows, deep, block, sums + i * COLUMNS, depth, 1);
            }
        }
        float *out = (float *)(intptr_t)p->out + column;
        for (size_t i = 0; i < m; i++) memcpy(out + i * n, sums + i * COLUMNS, count * sizeof *out);
    }
}

AVX2 static void multiply_halves(const struct few_rows *p) { multiply(p, 1); }
AVX2 static void multiply_bf16s(const struct few_rows *p) { multiply(p, 0); }

EXPORT int ascend_native_multiplies_few_rows(void) { return ascend_native_chosen() > 0; }

/* Up to MOST_ROWS rows. */
EXPORT void ascend_native_multiply_few_rows(const struct few_rows *p)
{
    (p->type == FLOAT16 ? multiply_halves : multiply_bf16s)(p);
}

#else

EXPORT int ascend_native_multiplies_few_rows(void) { return 0; }

EXPORT void ascend_native_multiply_few_rows(const struct few_rows *p) { (void)p; }

#endif
