/* Products of bfloat16 matrices by AVX512-BF16, summed in float32.
 *
 * The instruction adds the products of two pairs of numbers onto a sum, one after the other, each with one rounding to nearest;
 * denormal operands and results count as 0. So the last bits differ from those of BLAS on widened operands.
 */
#include "program.h"

/* Matrices a of m x k and b of k x n, and `out` of m x n, whose rows are contiguous; steps in elements. */
struct product {
    int64_t a, b, out, out_type, batches, m, n, k;
    int64_t a_batch, a_row, a_k, b_batch, b_k, b_column, out_batch, out_row;
};

/* A register block of the result, and how much of the operands the caches hold: of b a strip of COLUMNS in the first one, of a the
 * rows of a piece in the second. */
enum { ROWS = 14, COLUMNS = 32, DEPTH = 384, PIECE_ROWS = 36 * ROWS, PIECE_COLUMNS = 512 };
enum { OF_A = PIECE_ROWS * DEPTH / 2, OF_B = COLUMNS * DEPTH / 2, OF_SUMS = PIECE_ROWS * PIECE_COLUMNS };

#if defined(__x86_64__) && (defined(__clang__) || __GNUC__ >= 10)

#include <cpuid.h>

#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 14")
#endif
#define AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,f16c,fma" WHOLE_REGISTERS)))

INLINE uint32_t two(const uint16_t *at, ptrdiff_t step, int both)
{
    return at[0] | (both ? (uint32_t)at[step] << 16 : 0);
}

/* `count` rows of a, and pairs of them beside each other: those of the first pair of columns, those of the next. */
INLINE void pack(uint32_t *to, size_t width, const uint16_t *from, ptrdiff_t row_step, ptrdiff_t k_step, size_t count, size_t depth)
{
    const size_t pairs = depth / 2;
    for (size_t i = 0; i < count; i++) {
        const uint16_t *s = from + (ptrdiff_t)i * row_step;
        if (k_step == 1)
            for (size_t p = 0; p < pairs; p++) memcpy(&to[p * width + i], s + 2 * p, 4);
        else
            for (size_t p = 0; p < pairs; p++) to[p * width + i] = two(s + (ptrdiff_t)(2 * p) * k_step, k_step, 1);
        if (depth % 2) to[pairs * width + i] = two(s + (ptrdiff_t)(depth - 1) * k_step, k_step, 0);
    }
    for (size_t i = count; i < width; i++)
        for (size_t p = 0; p < pairs + depth % 2; p++) to[p * width + i] = 0;
}

/* The same of COLUMNS columns of b whose rows are contiguous. */
AVX512_BF16 INLINE void pack_rows(uint32_t *to, const uint16_t *from, ptrdiff_t k_step, size_t count, size_t depth)
{
    const __mmask32 some = (__mmask32)((1ull << count) - 1);
    for (size_t k = 0; k < depth; k += 2, to += COLUMNS) {
        const uint16_t *s = from + (ptrdiff_t)k * k_step;
        const __m512i first = _mm512_maskz_loadu_epi16(some, s);
        const __m512i second = k + 1 < depth ? _mm512_maskz_loadu_epi16(some, s + k_step) : _mm512_setzero_si512();
        const __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(first));
        const __m512i high = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(first, 1));
        const __m512i more = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(second)), 16);
        const __m512i most = _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(second, 1)), 16);
        _mm512_storeu_si512(to, _mm512_or_si512(low, more));
        _mm512_storeu_si512(to + COLUMNS / 2, _mm512_or_si512(high, most));
    }
}

/* A register block: sums of `pairs` pairs, onto those of before unless they are the first. */
AVX512_BF16 static void multiply_block(size_t pairs, const uint32_t *a, const uint32_t *b, float *sums, int first)
{
    __m512 r[ROWS][2];
    UNROLLED
    for (int i = 0; i < ROWS; i++) r[i][0] = r[i][1] = _mm512_setzero_ps();
    for (; pairs > 0; pairs--, a += ROWS, b += COLUMNS) {
        const __m512bh low = (__m512bh)_mm512_loadu_si512(b), high = (__m512bh)_mm512_loadu_si512(b + 16);
        UNROLLED
        for (int i = 0; i < ROWS; i++) {
            const __m512bh x = (__m512bh)_mm512_set1_epi32((int)a[i]);
            r[i][0] = _mm512_dpbf16_ps(r[i][0], x, low);
            r[i][1] = _mm512_dpbf16_ps(r[i][1], x, high);
        }
    }
    UNROLLED
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < 2; j++) {
            float *at = sums + i * PIECE_COLUMNS + 16 * j;
            _mm512_storeu_ps(at, first ? r[i][j] : _mm512_add_ps(_mm512_loadu_ps(at), r[i][j]));
        }
}

/* Rows and columns of one product. */
AVX512_BF16 static void multiply_piece(const struct product *p, int64_t batch, size_t row, size_t rows, size_t column, size_t columns,
                                       float *memory)
{
    uint32_t *const of_a = (uint32_t *)memory, *const of_b = of_a + OF_A;
    float *const sums = memory + OF_A + OF_B;
    const uint16_t *const a = (const uint16_t *)(intptr_t)p->a + batch * p->a_batch + (int64_t)row * p->a_row;
    const uint16_t *const b = (const uint16_t *)(intptr_t)p->b + batch * p->b_batch + (int64_t)column * p->b_column;
    for (size_t k = 0; k == 0 || k < (size_t)p->k; k += DEPTH) {
        const size_t depth = (size_t)p->k - k < DEPTH ? (size_t)p->k - k : DEPTH, pairs = (depth + 1) / 2;
        for (size_t i = 0; i < rows; i += ROWS)
            pack(of_a + i * pairs, ROWS, a + (int64_t)i * p->a_row + (int64_t)k * p->a_k, p->a_row, p->a_k, rows - i < ROWS ? rows - i : ROWS, depth);
        for (size_t j = 0; j < columns; j += COLUMNS) {
            const uint16_t *from = b + (int64_t)j * p->b_column + (int64_t)k * p->b_k;
            const size_t count = columns - j < COLUMNS ? columns - j : COLUMNS;
            if (p->b_column == 1) pack_rows(of_b, from, p->b_k, count, depth);
            else pack(of_b, COLUMNS, from, p->b_column, p->b_k, count, depth);
            for (size_t i = 0; i < rows; i += ROWS) multiply_block(pairs, of_a + i * pairs, of_b, sums + i * PIECE_COLUMNS + j, k == 0);
        }
    }
    const size_t size = p->out_type == FLOAT32 ? 4 : 2;
    char *out = (char *)(intptr_t)p->out + (size_t)(batch * p->out_batch + (int64_t)row * p->out_row + (int64_t)column) * size;
    if (p->out_type == BFLOAT16)
        ascend_native_convert(ROUND_BF16, sums, out, rows, columns, 4 * PIECE_COLUMNS, 2 * p->out_row);
    else
        for (size_t i = 0; i < rows; i++) memcpy(out + i * size * (size_t)p->out_row, sums + i * PIECE_COLUMNS, columns * size);
}

/* 1 where the processor has such instructions, and AVX-512 is used. */
EXPORT int ascend_native_multiplies_bf16(void)
{
    unsigned a, b, c, d;
    return ascend_native_chosen() == 2 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}

#else

EXPORT int ascend_native_multiplies_bf16(void) { return 0; }

static void multiply_piece(const struct product *p, int64_t batch, size_t row, size_t rows, size_t column, size_t columns, float *memory)
{
    (void)p, (void)batch, (void)row, (void)rows, (void)column, (void)columns, (void)memory;
}

#endif

/* Floats of memory that each thread needs. */
EXPORT int64_t ascend_native_product_memory(void) { return OF_A + OF_B + OF_SUMS; }

/* How many parts of at most `most` there are, all of nearly the same size, which is a multiple of `of`. */
static int64_t part(int64_t n, int64_t most, int64_t of)
{
    const int64_t parts = (n + most - 1) / most, size = (n + parts - 1) / parts;
    return (size + of - 1) / of * of;
}

/* Threads that are passed the same `next`, which is 0 at first, share the pieces. What a piece is depends on the sizes only, and so
 * do the bits. */
EXPORT void ascend_native_multiply_bf16(const struct product *p, float *memory, int64_t *next)
{
    if (p->m <= 0 || p->n <= 0) return;
    const int64_t rows = part(p->m, PIECE_ROWS, ROWS), columns = part(p->n, PIECE_COLUMNS / (p->batches * p->m < 2 * PIECE_ROWS ? 4 : 1), COLUMNS);
    const int64_t down = (p->m + rows - 1) / rows, across = (p->n + columns - 1) / columns;
    for (int64_t piece; (piece = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < p->batches * down * across;) {
        const int64_t batch = piece / (down * across), row = piece / across % down * rows, column = piece % across * columns;
        multiply_piece(p, batch, (size_t)row, (size_t)(p->m - row < rows ? p->m - row : rows), (size_t)column,
                       (size_t)(p->n - column < columns ? p->n - column : columns), memory);
    }
}
