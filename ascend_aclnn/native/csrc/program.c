/* Programs: a formula of whole arrays, run over rows in tiles that stay in the first-level cache.
 *
 * numerics/programs.py makes them from the NumPy formulas of references. Every instruction is one operation of NumPy on
 * float32 (or on masks, which have all bits set where a condition holds), rounded as NumPy rounds it, so the bits are the
 * same; only the order is another: all of the formula on a tile, instead of each operation on the whole block.
 */
#include "program.h"
#include "vectors.h"

#include <math.h>

/* The sum of a row, or of its squares, as NumPy adds up contiguous float64: pairs of runs of at most 128, eight sums in each.
 * Whoever calls it adds 0.0, so that a sum of negative zeros is 0. */
INLINE double term(float x, int squares) { return squares ? (double)x * (double)x : (double)x; }

/* The same fused, as squares of float32 are exact in float64. GCC 12 keeps eight sums in one register so, which it does not of
 * additions: half the time. */
INLINE double plus(double sum, float x, int squares, int fused)
{
    return fused ? __builtin_fma((double)x, squares ? (double)x : 1.0, sum) : sum + term(x, squares);
}

INLINE double sum_of_run(const float *restrict a, size_t n, int squares, int fused)
{
    if (n < 8) {
        double sum = -0.0;
        for (size_t i = 0; i < n; i++) sum = plus(sum, a[i], squares, fused);
        return sum;
    }
    double r[8];
    for (int k = 0; k < 8; k++) r[k] = term(a[k], squares);
    size_t i = 8;
    for (; i < n - n % 8; i += 8)
        for (int k = 0; k < 8; k++) r[k] = plus(r[k], a[i + k], squares, fused);
    double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
    for (; i < n; i++) sum = plus(sum, a[i], squares, fused);
    return sum;
}

/* Four runs of equal size side by side, as each addition waits for the one before. */
INLINE double sum_of_four_runs(const float *restrict a, size_t n, int squares, int fused)
{
    double r[4][8], sums[4];
    for (size_t j = 0; j < 4; j++)
        for (int k = 0; k < 8; k++) r[j][k] = term(a[j * n + k], squares);
    for (size_t i = 8; i < n; i += 8) {
        const float *next = a + 16 * n + 4 * i;  /* the hardware prefetches only sequential reads; 8 KB ahead, for memory takes longer than four runs */
        __builtin_prefetch(next), __builtin_prefetch(next + 16);
        for (size_t j = 0; j < 4; j++)
            for (int k = 0; k < 8; k++) r[j][k] = plus(r[j][k], a[j * n + i + k], squares, fused);
    }
    for (int j = 0; j < 4; j++) {
        for (int k = 0; k < 8; k += 2) r[j][k] += r[j][k + 1];
        sums[j] = (r[j][0] + r[j][2]) + (r[j][4] + r[j][6]);
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

#define RUNS(name, attribute, fused)                                                                                               \
    attribute INLINE double sum_of_run_##name(const float *a, size_t n, int squares) { return sum_of_run(a, n, squares, fused); }         \
    attribute INLINE double sum_of_four_runs_##name(const float *a, size_t n, int squares) { return sum_of_four_runs(a, n, squares, fused); }

#if defined(__aarch64__)
RUNS(neon, , 1)
#else
RUNS(plain, , 0)
#endif
#if defined(__x86_64__)
RUNS(avx2, AVX2, 1)

/* The same, eight sums in a register, of numbers of any type that a program reads; with `centre` of the squares of float32 of their
 * distances to it. */
AVX512 INLINE __m512d plus_eight(__m512d sums, int type, const char *a, int squares, const float *centre)
{
    __m256 wide = type == FLOAT32   ? _mm256_loadu_ps((const float *)a)
                        : type == FLOAT16 ? _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)a))
                                          : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)a)), 16));
    if (centre) wide = _mm256_sub_ps(wide, _mm256_set1_ps(*centre)), wide = _mm256_mul_ps(wide, wide);
    const __m512d x = _mm512_cvtps_pd(wide);
    return squares ? _mm512_fmadd_pd(x, x, sums) : _mm512_add_pd(sums, x);
}

AVX512 INLINE __m512d eight_sums(int type, const char *a, size_t n, int squares, const float *centre)
{
    const size_t size = type == FLOAT32 ? 4 : 2;
    __m512d sums = plus_eight(_mm512_set1_pd(-0.0), type, a, squares, centre);
    for (size_t i = 8; i < n - n % 8; i += 8) sums = plus_eight(sums, type, a + size * i, squares, centre);
    return sums;
}

AVX512 INLINE double sum_of_eight(__m512d sums)
{
    double r[8];
    _mm512_storeu_pd(r, sums);
    return ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
}

AVX512 INLINE double sum_of_run_avx512(const float *a, size_t n, int squares)
{
    if (n < 8) return sum_of_run(a, n, squares, 0);
    double sum = sum_of_eight(eight_sums(FLOAT32, (const char *)a, n, squares, NULL));
    for (size_t i = n - n % 8; i < n; i++) sum = sum + term(a[i], squares);
    return sum;
}

AVX512 INLINE double sum_of_four(int type, const char *a, size_t n, int squares, const float *centre)
{
    __m512d r[4];  /* one run after the other: memory is read in order, and the processor begins the next run while it waits */
    for (size_t j = 0; j < 4; j++) r[j] = eight_sums(type, a + j * n * (type == FLOAT32 ? 4 : 2), n, squares, centre);
    /* pairs of neighbours of two runs side by side, then pairs of these pairs, then of those */
    __m512d first = _mm512_add_pd(_mm512_unpacklo_pd(r[0], r[1]), _mm512_unpackhi_pd(r[0], r[1]));
    __m512d second = _mm512_add_pd(_mm512_unpacklo_pd(r[2], r[3]), _mm512_unpackhi_pd(r[2], r[3]));
    __m512d fours = _mm512_add_pd(_mm512_shuffle_f64x2(first, second, 0x88), _mm512_shuffle_f64x2(first, second, 0xdd));
    double sums[8];
    _mm512_storeu_pd(sums, _mm512_add_pd(fours, _mm512_shuffle_f64x2(fours, fours, 0xb1)));
    return (sums[0] + sums[1]) + (sums[4] + sums[5]);
}

AVX512 INLINE double sum_of_four_runs_avx512(const float *a, size_t n, int squares)
{
    return sum_of_four(FLOAT32, (const char *)a, n, squares, NULL);
}

/* Sums of numbers as they are stored, in the order of those of float32; n is a multiple of 8. */
#define OF_KIND(sum, ...) (centre ? sum(__VA_ARGS__, 0, centre) : squares ? sum(__VA_ARGS__, 1, NULL) : sum(__VA_ARGS__, 0, NULL))
#define STORED(type)                                                                                                        \
    AVX512 static double sum_##type(const char *a, size_t n, int squares, const float *centre)                              \
    {                                                                                                                       \
        if (n <= 128) return sum_of_eight(OF_KIND(eight_sums, type, a, n));                                                 \
        if (n > 256 && n <= 512 && n % 32 == 0) return OF_KIND(sum_of_four, type, a, n / 4);                                \
        size_t half = n / 2;                                                                                                \
        half -= half % 8;                                                                                                   \
        double first = sum_##type(a, half, squares, centre);                                                                \
        return first + sum_##type(a + half * (type == FLOAT32 ? 4 : 2), n - half, squares, centre);                         \
    }
STORED(FLOAT32)
STORED(FLOAT16)
STORED(BFLOAT16)
#undef OF_KIND
#endif

#define PAIRWISE(name, attribute)                                                                        \
    attribute static double sum_##name(const float *a, size_t n, int squares)                            \
    {                                                                                                    \
        if (n <= 128) return squares ? sum_of_run_##name(a, n, 1) : sum_of_run_##name(a, n, 0);          \
        if (n > 256 && n <= 512 && n % 32 == 0)                                                          \
            return squares ? sum_of_four_runs_##name(a, n / 4, 1) : sum_of_four_runs_##name(a, n / 4, 0); \
        size_t half = n / 2;                                                                             \
        half -= half % 8;                                                                                \
        double first = sum_##name(a, half, squares);                                                     \
        return first + sum_##name(a + half, n - half, squares);                                          \
    }

/* Operations on x and y, where y may be a constant. */
#define BINARY(expression)                                                          \
    if ((size_t)p->b < constant_count) {                                            \
        const float y = constants[p->b];                                            \
        FOR { const float x = a[i]; d[i] = expression; }                            \
    } else {                                                                        \
        FOR { const float x = a[i], y = b[i]; d[i] = expression; }                  \
    }                                                                               \
    break
#define MASK(condition) float_of(0u - (uint32_t)(condition))

INLINE float fmod_of(float x, float y)
{
    /* Exact in float64 where the quotient has at most 29 bits: then quotient * y has 53. */
    double q = trunc((double)x / (double)y);
    double r = (double)x - q * (double)y;
    r += (r != 0 && (r < 0) != (x < 0)) ? ((x < 0) == (y < 0) ? (double)y : -(double)y) : 0.0;
    return copysignf((float)r, x);
}

INLINE float remainder_of(float y, float mod)
{
    float away = mod + y;
    return mod == 0 ? copysignf(0.0f, y) : (y < 0) != (mod < 0) ? away : mod;
}

/* exp as NumPy computes it with AVX-512 or AVX2: x = n log(2) + r, a rational function of r, products and sums rounded once.
 * native/__init__.py compares it with NumPy's before it is used. Without FMA instructions nobody asks for it. */
INLINE float exp_of(float x)
{
    float n = x * 1.442695040888963407359924681001892137f;
    n = (n + 12582912.0f) - 12582912.0f;                     /* 1.5 * 2^23: to the nearest */
    float r = __builtin_fmaf(n, -6.93145752e-1f, x);
    r = __builtin_fmaf(n, -1.42860677e-6f, r);
    float p = __builtin_fmaf(5.082762527590693718096e-04f, r, 6.757896990527504603057e-03f);
    p = __builtin_fmaf(p, r, 5.114512081637298353406e-02f);
    p = __builtin_fmaf(p, r, 2.473615434895520810817e-01f);
    p = __builtin_fmaf(p, r, 7.257664613233124478488e-01f);
    p = __builtin_fmaf(p, r, 9.999999999980870924916e-01f);
    float q = __builtin_fmaf(2.159509375685829852307e-02f, r, -2.742335390411667452936e-01f);
    q = __builtin_fmaf(q, r, 1.0f);
    float y = p / q;
    /* times 2^n in two exact steps and one that rounds */
    float bounded = n < -200.0f ? -200.0f : n > 200.0f ? 200.0f : n;
    int32_t whole = (int32_t)(bounded == bounded ? bounded : 0.0f), half = whole >> 1;
    y = y * float_of((uint32_t)(half + 127) << 23) * float_of((uint32_t)(whole - half + 127) << 23);
    y = x > 88.72283935546875f ? INFINITY : y;
    y = x < -103.97208404541015625f ? 0.0f : y;
    return x != x ? float_of(0x7fc00000u) : y;
}

INLINE float logistic_of(float x) { return 1.0f / (1.0f + exp_of(-x)); }

/* log as NumPy computes it with AVX-512 or AVX2: x = 2^n m with m in (sqrt(1/2), sqrt(2)], a rational function of m - 1. */
INLINE float log_of(float x)
{
    const float smallest = 1.17549435e-38f;  /* below it a number has no leading 1 */
    uint32_t b = bits_of(x < smallest ? x * 0x1p23f : x);
    float n = (float)((int32_t)(b >> 23) - (x < smallest ? 126 + 23 : 126));
    float m = float_of((b & 0x7fffffu) | 0x3f000000u);
    n = m <= 0.70710678118654752440f ? n - 1.0f : n;
    m = m <= 0.70710678118654752440f ? m + m : m;
    float r = m - 1.0f;
    float p = __builtin_fmaf(2.589979117907922693523e-02f, r, 3.808837741388407920751e-01f);
    p = __builtin_fmaf(p, r, 1.480000633576506585156e+00f);
    p = __builtin_fmaf(p, r, 2.112677543073053063722e+00f);
    p = __builtin_fmaf(p, r, 9.999999999999998702752e-01f) * r;
    float q = __builtin_fmaf(5.875095403124574342950e-03f, r, 1.546476374983906719538e-01f);
    q = __builtin_fmaf(q, r, 9.864942958519418960339e-01f);
    q = __builtin_fmaf(q, r, 2.453006071784736363091e+00f);
    q = __builtin_fmaf(q, r, 2.612677543073109236779e+00f);
    q = __builtin_fmaf(q, r, 1.0f);
    float y = __builtin_fmaf(n, 0.693147180559945309417232121458176568f, p / q);
    y = x == INFINITY ? INFINITY : x == 0 ? -INFINITY : y;
    return x != x ? float_of(0x7fc00000u) : x < 0 ? float_of(0xffc00000u) : y;
}

/* The normal distribution's function, operation by operation as reference/_special.py has it. */
INLINE float normal_of(float x)
{
    static const float fit[] = NORMAL_FIT;
    float a = float_of(bits_of(x) & 0x7fffffffu) * 0.70710678118654752440f;
    a = (a < 10.5f) | (a != a) ? a : 10.5f;
    const float t = (a - 2.0f) / (a + 2.0f);
    float height = t * fit[0];
    for (int k = 1; k < 10; k++) height = (height + fit[k]) * t;
    height = (height + fit[10]) / (a * 2.0f + 1.0f);
    float bounded = (x > -16.0f) | (x != x) ? x : -16.0f;
    bounded = (bounded < 16.0f) | (bounded != bounded) ? bounded : 16.0f;
    const float split = bounded * 4097.0f, head = split - (split - bounded), rest = bounded - head, square = bounded * bounded;
    const float lost = ((head * head - square) + head * 2.0f * rest) + rest * rest;
    const float tail = height * 0.5f * exp_of(square * -0.5f) * (1.0f - lost * 0.5f);
    return x > 0 ? 1.0f - tail : tail;
}

#define EXPONENTIALS(name, attribute)                                                                   \
    attribute static void exp_##name(const float *a, float *d, size_t n) { FOR d[i] = exp_of(a[i]); }   \
    attribute static void logistic_##name(const float *a, float *d, size_t n) { FOR d[i] = logistic_of(a[i]); } \
    attribute static void log_##name(const float *a, float *d, size_t n) { FOR d[i] = log_of(a[i]); }   \
    attribute static void normal_##name(const float *a, float *d, size_t n) { FOR d[i] = normal_of(a[i]); }

#if defined(__aarch64__)
EXPONENTIALS(neon, )
#else
EXPONENTIALS(plain, )
#endif
#if defined(__x86_64__)
EXPONENTIALS(avx2, AVX2)

#define VECTORS(name)                                                                                   \
    AVX512 static void name##_avx512(const float *a, float *d, size_t n)                                \
    {                                                                                                   \
        size_t i = 0;                                                                                   \
        for (; i + 16 <= n; i += 16) _mm512_storeu_ps(d + i, name##_of_vector(_mm512_loadu_ps(a + i))); \
        __mmask16 rest = (__mmask16)((1u << (n - i)) - 1);                                              \
        _mm512_mask_storeu_ps(d + i, rest, name##_of_vector(_mm512_maskz_loadu_ps(rest, a + i)));       \
    }
VECTORS(exp)
VECTORS(logistic)
VECTORS(log)
VECTORS(normal)
#endif

/* NumPy's maximum and minimum. Of zeros that differ in sign x86 takes the second one; on AArch64 0.0 is larger than -0.0. */
#if defined(__aarch64__)
INLINE float larger(float x, float y) { return x == y ? float_of(bits_of(x) & bits_of(y)) : (x > y) | (x != x) ? x : y; }
INLINE float smaller(float x, float y) { return x == y ? float_of(bits_of(x) | bits_of(y)) : (x < y) | (x != x) ? x : y; }
#else
INLINE float larger(float x, float y) { return ((x > y) | (x != x)) ? x : y; }
INLINE float smaller(float x, float y) { return ((x < y) | (x != x)) ? x : y; }
#endif

/* The largest of a run, NaN where there is one. */
INLINE float largest(const float *a, size_t n)
{
    float lanes[64];
    uint32_t none[64] = {0};
    for (int k = 0; k < 64; k++) lanes[k] = -INFINITY;
    size_t i = 0;
    for (; i + 64 <= n; i += 64)
        for (int k = 0; k < 64; k++) {
            lanes[k] = a[i + k] > lanes[k] ? a[i + k] : lanes[k];
            none[k] |= a[i + k] != a[i + k];
        }
    for (size_t k = 0; i < n; i++, k++) {
        lanes[k] = a[i] > lanes[k] ? a[i] : lanes[k];
        none[k] |= a[i] != a[i];
    }
    for (int half = 32; half > 0; half /= 2)
        for (int k = 0; k < half; k++) {
            lanes[k] = lanes[k + half] > lanes[k] ? lanes[k + half] : lanes[k];
            none[k] |= none[k + half];
        }
    return none[0] ? NAN : lanes[0];
}

#define LARGEST(name, attribute) attribute static float largest_##name(const float *a, size_t n) { return largest(a, n); }
#if defined(__aarch64__)
LARGEST(neon, )
#else
LARGEST(plain, )
#endif
#if defined(__x86_64__)
LARGEST(avx2, AVX2)

/* The same in the same order: of zeros that differ in sign the result is one or the other by its place. */
AVX512 static float largest_avx512(const float *a, size_t n)
{
    __m512 lanes[4];
    __mmask16 none = 0;
    for (int k = 0; k < 4; k++) lanes[k] = _mm512_set1_ps(-INFINITY);
    size_t i = 0;
    for (; i + 64 <= n; i += 64)
        for (int k = 0; k < 4; k++) {
            const __m512 x = _mm512_loadu_ps(a + i + 16 * (size_t)k);
            lanes[k] = _mm512_max_ps(x, lanes[k]);
            none |= _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        }
    for (int k = 0; i < n; i += 16, k++) {
        const __m512 x = _mm512_mask_loadu_ps(lanes[k], (__mmask16)(n - i < 16 ? (1u << (n - i)) - 1 : 0xffffu), a + i);
        lanes[k] = _mm512_max_ps(x, lanes[k]);
        none |= _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    }
    if (none) return NAN;
    __m512 v = _mm512_max_ps(_mm512_max_ps(lanes[3], lanes[1]), _mm512_max_ps(lanes[2], lanes[0]));
    v = _mm512_max_ps(_mm512_shuffle_f32x4(v, v, 0xee), v);  /* eight further on, then four, two and one */
    v = _mm512_max_ps(_mm512_shuffle_f32x4(v, v, 0x55), v);
    v = _mm512_max_ps(_mm512_permute_ps(v, 0xee), v);
    v = _mm512_max_ps(_mm512_permute_ps(v, 0x55), v);
    return _mm512_cvtss_f32(v);
}
#endif

/* Sums longer than a tile: the tiles are nodes of the same tree. Returns the size of the tile that begins at `start`. */
INLINE size_t tile_size(size_t start, size_t width)
{
    while (width > TILE) {
        size_t half = width / 2;
        half -= half % 8;
        if (start < half) {
            width = half;
        } else {
            start -= half;
            width -= half;
        }
    }
    return width;
}

enum { DEPTH = 64 };
struct sum { double firsts[DEPTH]; };  /* first halves whose second half is still missing, by their depth in the tree */

/* Puts the sum of a tile into the tree; the last one completes that of the row. */
INLINE void add_tile(struct sum *sum, double made, size_t start, size_t width, double *result)
{
    size_t first = 0, n = width, depth = 0;
    uint64_t seconds = 0;  /* a bit for each half on the way to the tile */
    for (; n > TILE; depth++) {
        size_t half = n / 2;
        half -= half % 8;
        if (start < first + half) {
            n = half;
        } else {
            seconds |= (uint64_t)1 << depth;
            first += half;
            n -= half;
        }
    }
    for (; depth > 0; depth--) {
        if (!(seconds >> (depth - 1) & 1)) {
            sum->firsts[depth - 1] = made;
            return;
        }
        made = sum->firsts[depth - 1] + made;
    }
    *result = made + 0.0;
}

/* Code with a variant for each instruction set. */
struct kernels {
    double (*sum)(const float *, size_t, int);
    void (*exp)(const float *, float *, size_t), (*logistic)(const float *, float *, size_t), (*log)(const float *, float *, size_t);
    void (*normal)(const float *, float *, size_t);
    void (*stream)(char *, const char *, size_t);
    float (*largest)(const float *, size_t);
};

/* Copies bytes past the caches, whole lines of them: memory that does not stay in a cache need not be read into it first. */
#define STREAM(name, attribute, vector, read, write)                                                     \
    attribute static void stream_##name(char *to, const char *from, size_t bytes)                        \
    {                                                                                                    \
        size_t i = (64 - ((uintptr_t)to & 63)) % 64;                                                     \
        if (i > bytes) i = bytes;                                                                        \
        memcpy(to, from, i);                                                                             \
        for (; i + 64 <= bytes; i += 64)                                                                 \
            for (size_t k = i; k < i + 64; k += sizeof(vector)) write((vector *)(to + k), read((const vector *)(from + k))); \
        memcpy(to + i, from + i, bytes - i);                                                             \
    }

#if defined(__x86_64__)
STREAM(plain, , __m128i, _mm_loadu_si128, _mm_stream_si128)
STREAM(avx2, AVX2, __m256i, _mm256_loadu_si256, _mm256_stream_si256)
STREAM(avx512, AVX512, __m512i, _mm512_loadu_si512, _mm512_stream_si512)
#else
static void stream_plain(char *to, const char *from, size_t bytes) { memcpy(to, from, bytes); }
#define stream_neon stream_plain
#endif

void ascend_native_stream(void *to, const void *from, size_t bytes)
{
    static void (*const streams[])(char *, const char *, size_t) = {OF_EACH_SET(stream)};
    streams[ascend_native_chosen()](to, from, bytes);
}

enum { CACHED = 5 << 23 };  /* bytes of all operands that a cache may still have from their last use */

/* Whether a result goes past the caches: it is large, contiguous along its last axis, and the program does not read it. Operands of
 * 16 bits that the last cache holds together are faster through it. */
INLINE int is_streamed(const struct operand *o, const struct instruction *code, size_t instructions, const struct operand *operands,
                       size_t operand_count, const int64_t *sizes)
{
    static const int64_t of_type[] = {[FLOAT32] = 4, [FLOAT16] = 2, [BFLOAT16] = 2, [FLOAT64] = 0};
    const int64_t size = of_type[o->type], count = sizes[0] * sizes[1] * sizes[2] * sizes[3];
    int64_t all = 0;
#if !defined(__x86_64__)
    return 0;
#endif
    if (size == 0 || o->steps[DIMS - 1] != size || size * count < LARGE) return 0;
    for (size_t k = 0; k < operand_count; k++) {
        int64_t of_operand = of_type[operands[k].type];
        for (size_t axis = 0; axis < DIMS; axis++) of_operand *= operands[k].steps[axis] == 0 ? 1 : sizes[axis];
        all += of_operand;
    }
    if (size == 2 && all <= CACHED) return 0;
    for (size_t k = 0; k < instructions; k++)
        if (code[k].operation == LOAD && operands[code[k].target].address == o->address) return 0;
    return 1;
}

INLINE void load(const struct operand *o, const char *at, float *d, size_t count)
{
    static const int widen[] = {0, WIDEN_HALF, WIDEN_BF16};
    ptrdiff_t step = (ptrdiff_t)o->steps[DIMS - 1];
    size_t n = step == 0 ? 1 : count;  /* a number for the whole row is read once */
    if (o->type == BOOL) {
        FOR d[i] = MASK(*(const uint8_t *)(at + (ptrdiff_t)i * step) != 0);
    } else if (o->type == FLOAT32) {
        FOR d[i] = *(const float *)(at + (ptrdiff_t)i * step);
    } else if (step == 2) {
        ascend_native_convert(widen[o->type], at, d, 1, n, 0, 0);
    } else {
        uint16_t codes[TILE];
        FOR codes[i] = *(const uint16_t *)(at + (ptrdiff_t)i * step);
        ascend_native_convert(widen[o->type], codes, d, 1, n, 0, 0);
    }
    const float number = d[0];
    for (size_t i = n; i < count; i++) d[i] = number;
}

INLINE void store(const struct operand *o, char *at, const float *s, size_t n, int streamed, const struct kernels *kernels)
{
    static const int round[] = {0, ROUND_HALF, ROUND_BF16, 0, ROUND_E4M3FN, ROUND_E5M2, ROUND_INT8};
    ptrdiff_t step = (ptrdiff_t)o->steps[DIMS - 1];
    if (o->type == BOOL && step == 1) {
        FOR ((uint8_t *)at)[i] = (uint8_t)(bits_of(s[i]) & 1);
    } else if (o->type == BOOL) {
        FOR *(uint8_t *)(at + (ptrdiff_t)i * step) = (uint8_t)(bits_of(s[i]) & 1);
    } else if (streamed && o->type == FLOAT32) {
        kernels->stream(at, (const char *)s, 4 * n);
    } else if (streamed) {
        uint16_t codes[TILE] __attribute__((aligned(64)));
        ascend_native_convert(round[o->type], s, codes, 1, n, 0, 0);
        kernels->stream(at, (const char *)codes, 2 * n);
    } else if (o->type == FLOAT32 && step == 4) {
        if ((const void *)s != (const void *)at) memcpy(at, s, 4 * n);
    } else if (o->type == FLOAT32) {
        FOR *(float *)(at + (ptrdiff_t)i * step) = s[i];
    } else if (o->type == E4M3FN || o->type == E5M2 || o->type == INT8) {
        uint8_t codes[TILE];
        ascend_native_convert(round[o->type], s, codes, 1, n, 0, 0);
        FOR *(uint8_t *)(at + (ptrdiff_t)i * step) = codes[i];
    } else if (step == 2) {
        ascend_native_convert(round[o->type], s, at, 1, n, 0, 0);
    } else {
        uint16_t codes[TILE];
        ascend_native_convert(round[o->type], s, codes, 1, n, 0, 0);
        FOR *(uint16_t *)(at + (ptrdiff_t)i * step) = codes[i];
    }
}

/* True where the next instruction only copies the result of this one. Its memory may be an operand's, which FMOD and
 * REMAINDER read once more after they have written. */
INLINE int stored_as_is(const struct instruction *p, const struct operand *operands, const char *streamed)
{
    if (p[1].operation != STORE || p[1].a != p->target || p->operation == FMOD || p->operation == REMAINDER) return 0;
    const struct operand *o = &operands[p[1].target];
    return o->type == FLOAT32 && o->steps[DIMS - 1] == 4 && !streamed[p[1].target];
}

/* How many steps of a polynomial, from p on, can be done at once: 4, 2 or 1. Each but the first replaces the result before. */
INLINE size_t polynomial_steps(const struct instruction *p, const struct instruction *end, size_t constant_count)
{
    size_t steps = 1;
    if (p->b == p->target) return 1;
    for (const struct instruction *q = p + 1; q < end && steps < 4; q++, steps++)
        if (q->operation != MULTIPLY_ADD || q->target != p->target || q->a != p->target || q->b != p->b
            || (size_t)q->c >= constant_count)
            break;
    return steps == 3 ? 2 : steps;
}

/* The sum of a tile that a part of a program loads for nothing else, or of squares of distances to a number, without a copy of it;
 * 0 where that is not what it does. */
INLINE int add_stored(const struct instruction *p, size_t count, const struct chain *chain, const struct operand *operands,
                      char *const *at, size_t start, size_t n, double *sum)
{
#if defined(__x86_64__)
    static double (*const sums[])(const char *, size_t, int, const float *) = {sum_FLOAT32, sum_FLOAT16, sum_BFLOAT16};
    const struct step *s = chain->steps;
    const int is_centred = chain->count == 2 && chain->store < 0 && chain->reduce->operation == ROW_SUM && s[1].operation == SQUARE
                           && s->operation == SUB && !s->turned && s->operand >= 0 && s->times < 0
                           && operands[s->operand].type == FLOAT32 && operands[s->operand].steps[DIMS - 1] == 0;
    const int is_plain = count == 2 && p->operation == LOAD && operands[p->target].steps[DIMS - 1] == 2 && p[1].a == p->c
                         && (p[1].operation == ROW_SUM || p[1].operation == ROW_SQUARES);
    if (ascend_native_chosen() != 2 || n % 8 || !(is_centred || is_plain)) return 0;
    const int32_t of = is_centred ? chain->first : p->target;
    const char *from = at[of] + start * (operands[of].type == FLOAT32 ? 4 : 2);
    *sum = sums[operands[of].type](from, n, is_plain && p[1].operation == ROW_SQUARES, is_centred ? (const float *)at[s->operand] : NULL);
    return 1;
#else
    (void)p, (void)count, (void)chain, (void)operands, (void)at, (void)start, (void)n, (void)sum;
    return 0;
#endif
}

/* Asks for some of the memory of the next tile while this one is computed: the processor itself looks ahead only where one operand is
 * read on and on. A share of each operand's lines after each instruction, as it can wait for a few lines at a time. */
INLINE void prefetch(const struct instruction *loads, size_t count, size_t share, size_t shares, const struct operand *operands,
                     char *const *at, size_t next, size_t n)
{
    const size_t low = 2 * n * share / shares, high = 2 * n * (share + 1) / shares;
    for (size_t k = 0; k < count; k++) {
        const struct operand *o = &operands[loads[k].target];
        if (loads[k].operation != LOAD || o->steps[DIMS - 1] != 2) continue;
        const char *line = at[loads[k].target] + 2 * next;
        for (size_t i = (low + 63) & ~(size_t)63; i < high; i += 64) __builtin_prefetch(line + i);
    }
}

/* A tile added to the sum of its row, or compared with the row's maximum. */
INLINE void reduce(const struct instruction *p, const float *a, size_t n, size_t start, size_t width, struct sum *sums, char *to,
                   const struct kernels *kernels)
{
    if (p->operation == ROW_MAX) {
        float *result = (float *)to, most = kernels->largest(a, n);
        if (start == 0 || most > *result || most != most) *result = most;
    } else {
        add_tile(&sums[-2 - p->b], kernels->sum(a, n, p->operation == ROW_SQUARES), start, width, (double *)to);
    }
}

/* Some instructions on the elements of a row, from `first` to `end`. */
INLINE void one_part(const struct instruction *code, size_t first, size_t end, const struct operand *operands,
                     char *const *at, float (*tiles)[TILE + APART], float **registers, size_t width, struct sum *sums, const struct kernels *kernels,
                     const float *constants, size_t constant_count, const char *streamed, const struct chain *chain)
{
    float tile[TILE];
    int sums_up = 0;
    if (chain->count && chain->reduce == NULL) {
        ascend_native_run_chain(chain, operands, at, 0, width, (int)operands[chain->store].type, at[chain->store], streamed[chain->store]);
        return;
    }
    size_t loads = 0, narrow = 0;
    for (size_t number = first; first == 0 && number < end; number++) {
        if (code[number].operation != LOAD) continue;
        loads++, narrow += operands[code[number].target].steps[DIMS - 1] == 2;
    }
    const size_t most = loads > 1 && narrow == 0 ? SHORT_TILE : TILE;
    for (size_t number = first; number < end; number++) sums_up |= code[number].operation == ROW_SUM || code[number].operation == ROW_SQUARES;
    for (size_t start = 0, n; start < width; start += n) {
        n = sums_up ? tile_size(start, width) : width - start < most ? width - start : most;
        if (sums_up) {
            const struct instruction *p = &code[first];
            double sum;
            if (add_stored(p, end - first, chain, operands, at, start, n, &sum)) {
                const struct instruction *last = &code[end - 1];
                add_tile(&sums[-2 - last->b], sum, start, width, (double *)at[last->target]);
                continue;
            }
        }
        if (chain->count) {
            const struct instruction *p = chain->reduce;
            float *made = chain->store < 0 ? tile : (float *)at[chain->store] + start;
            ascend_native_run_chain(chain, operands, at, start, n, FLOAT32, (char *)made, 0);
            reduce(p, made, n, start, width, sums, at[p->target], kernels);
            continue;
        }
        for (size_t number = first; number < end; number++) {
            const struct instruction *p = &code[number];
            if (narrow > 1) prefetch(code + first, end - first, number - first, end - first, operands, at, start + n, n);
            const float *a = p->a < 0 ? 0 : registers[p->a], *b = p->b < 0 ? 0 : registers[p->b];
            const float *c = p->c < 0 ? 0 : registers[p->c];
            float *d = 0;
            if (p->operation >= ADD && p->operation < ROW_SUM) {
                d = tiles[p->target];
                if (number + 1 < end && stored_as_is(p, operands, streamed)) {  /* into the result itself */
                    const struct operand *o = &operands[p[1].target];
                    d = (float *)(at[p[1].target] + (ptrdiff_t)start * (ptrdiff_t)o->steps[DIMS - 1]);
                }
                registers[p->target] = d;
            }
            switch (p->operation) {
            case LOAD: {
                const struct operand *o = &operands[p->target];
                ptrdiff_t step = (ptrdiff_t)o->steps[DIMS - 1];
                char *from = at[p->target] + (ptrdiff_t)start * step;
                if (o->type == FLOAT32 && step == 4) {
                    registers[p->c] = (float *)from;
                } else if (step != 0 || start == 0) {  /* a number for the whole row keeps its register */
                    registers[p->c] = tiles[p->c];
                    load(o, from, tiles[p->c], step != 0 ? n : width < TILE ? width : TILE);  /* a later tile may be larger */
                }
                break;
            }
            case STORE: {
                const struct operand *o = &operands[p->target];
                store(o, at[p->target] + (ptrdiff_t)start * (ptrdiff_t)o->steps[DIMS - 1], a, n, streamed[p->target], kernels);
                break;
            }
            case ADD: BINARY(x + y);
            case SUB: BINARY(x - y);
            case MUL: BINARY(x * y);
            case DIV: BINARY(x / y);
            case MULTIPLY_ADD:  /* rounded twice */
                if ((size_t)p->c < constant_count) {
                    const size_t steps = polynomial_steps(p, code + end, constant_count);
                    float z[4] = {0};
                    for (size_t k = 0; k < steps; k++) z[k] = constants[p[k].c];
                    if (steps == 4) FOR d[i] = (((a[i] * b[i] + z[0]) * b[i] + z[1]) * b[i] + z[2]) * b[i] + z[3];
                    else if (steps == 2) FOR d[i] = (a[i] * b[i] + z[0]) * b[i] + z[1];
                    else FOR d[i] = a[i] * b[i] + z[0];
                    number += steps - 1;
                } else {
                    FOR d[i] = a[i] * b[i] + c[i];
                }
                break;
            case MAXIMUM: BINARY(larger(x, y));
            case MINIMUM: BINARY(smaller(x, y));
            case COPYSIGN: FOR d[i] = float_of((bits_of(a[i]) & 0x7fffffffu) | (bits_of(b[i]) & 0x80000000u)); break;
            case FMOD:
            case REMAINDER: {
                int large = 0;  /* infinities, NaN, zero divisors and quotients of more than 29 bits */
                FOR large |= !(fabsf(a[i]) < fabsf(b[i]) * 0x1p28f) || !(fabsf(b[i]) < INFINITY);
                if (large)
                    for (size_t i = 0; i < n; i++) d[i] = fmodf(a[i], b[i]);
                else
                    FOR d[i] = fmod_of(a[i], b[i]);
                if (p->operation == REMAINDER) FOR d[i] = remainder_of(b[i], d[i]);
                break;
            }
            case LESS: BINARY(MASK(x < y));
            case LESS_EQUAL: BINARY(MASK(x <= y));
            case EQUAL: BINARY(MASK(x == y));
            case NOT_EQUAL: BINARY(MASK(x != y));
            case AND: FOR d[i] = float_of(bits_of(a[i]) & bits_of(b[i])); break;
            case OR: FOR d[i] = float_of(bits_of(a[i]) | bits_of(b[i])); break;
            case XOR: FOR d[i] = float_of(bits_of(a[i]) ^ bits_of(b[i])); break;
            case NOT: FOR d[i] = float_of(~bits_of(a[i])); break;
            case SELECT:
                if ((size_t)p->c < constant_count) {
                    const uint32_t other = bits_of(constants[p->c]);
                    FOR d[i] = float_of((bits_of(a[i]) & bits_of(b[i])) | (~bits_of(a[i]) & other));
                } else {
                    FOR d[i] = float_of((bits_of(a[i]) & bits_of(b[i])) | (~bits_of(a[i]) & bits_of(c[i])));
                }
                break;
            case CLIP:
                if ((size_t)p->b < constant_count && (size_t)p->c < constant_count) {
                    const float low = constants[p->b], high = constants[p->c];
                    FOR d[i] = ((a[i] > low) | (a[i] != a[i])) ? a[i] : low;
                    FOR d[i] = ((d[i] < high) | (d[i] != d[i])) ? d[i] : high;
                } else {
                    FOR tile[i] = ((a[i] > b[i]) | (a[i] != a[i])) ? a[i] : b[i];
                    FOR d[i] = ((tile[i] < c[i]) | (tile[i] != tile[i])) ? tile[i] : c[i];
                }
                break;
            case NEGATIVE: FOR d[i] = float_of(bits_of(a[i]) ^ 0x80000000u); break;
            case ABSOLUTE: FOR d[i] = float_of(bits_of(a[i]) & 0x7fffffffu); break;
            case SQRT: FOR d[i] = sqrtf(a[i]); break;
            case SQUARE: FOR d[i] = a[i] * a[i]; break;
            case RECIPROCAL: FOR d[i] = 1.0f / a[i]; break;
            case RINT: FOR d[i] = rintf(a[i]); break;
            case FLOOR: FOR d[i] = floorf(a[i]); break;
            case CEIL: FOR d[i] = ceilf(a[i]); break;
            case TRUNC: FOR d[i] = truncf(a[i]); break;
            case SIGN: FOR {  /* 1 with the sign, or nothing */
                const uint32_t one = (bits_of(a[i]) & 0x80000000u) | 0x3f800000u;
                d[i] = a[i] != a[i] ? a[i] : float_of(one & (0u - (uint32_t)(a[i] != 0)));
            } break;
            case IS_NAN: FOR d[i] = MASK(a[i] != a[i]); break;
            case IS_FINITE: FOR d[i] = MASK((bits_of(a[i]) & 0x7fffffffu) < 0x7f800000u); break;
            case IS_INF: FOR d[i] = MASK((bits_of(a[i]) & 0x7fffffffu) == 0x7f800000u); break;
            case SIGN_BIT: FOR d[i] = float_of((uint32_t)((int32_t)bits_of(a[i]) >> 31)); break;
            case EXP: kernels->exp(a, d, n); break;
            case LOGISTIC: kernels->logistic(a, d, n); break;
            case LOG: kernels->log(a, d, n); break;
            case NORMAL: kernels->normal(a, d, n); break;
            case ONES: FOR d[i] = float_of(bits_of(a[i]) & 0x3f800000u); break;
            case ROW_SUM:
            case ROW_SQUARES:
            case ROW_MAX: reduce(p, a, n, start, width, sums, at[p->target], kernels); break;
            }
        }
    }
}

INLINE double number_of(const struct operand *o, const char *at)
{
    return o->type == FLOAT64 ? *(const double *)at : o->type == FLOAT32 ? (double)*(const float *)at : *(const uint8_t *)at != 0;
}

/* An operation on numbers of a row. Of float32 float64 gives the same results: rounding them a second time changes nothing
 * where the first has at least twice the bits and two. */
INLINE void numbers(const struct instruction *p, const struct operand *operands, char *const *at)
{
    double x = p->a < 0 ? 0 : number_of(&operands[p->a], at[p->a]), y = p->b < 0 ? 0 : number_of(&operands[p->b], at[p->b]);
    double z = p->c < 0 ? 0 : number_of(&operands[p->c], at[p->c]), made = 0;
    switch (p->operation) {
    case NEXT: return;
    case NUMBER_COPY: made = x; break;
    case NUMBER_ADD: made = x + y; break;
    case NUMBER_SUB: made = x - y; break;
    case NUMBER_MUL: made = x * y; break;
    case NUMBER_DIV: made = x / y; break;
    case NUMBER_MAXIMUM: made = x > y || x != x ? x : y; break;
    case NUMBER_MINIMUM: made = x < y || x != x ? x : y; break;
    case NUMBER_LESS: made = x < y; break;
    case NUMBER_LESS_EQUAL: made = x <= y; break;
    case NUMBER_EQUAL: made = x == y; break;
    case NUMBER_NOT_EQUAL: made = x != y; break;
    case NUMBER_SELECT: made = x != 0 ? y : z; break;
    case NUMBER_NEGATIVE: made = -x; break;
    case NUMBER_ABSOLUTE: made = fabs(x); break;
    case NUMBER_SQRT: made = sqrt(x); break;
    case NUMBER_IS_FINITE: made = fabs(x) < INFINITY; break;
    case NUMBER_LOG: made = log_of((float)x); break;  /* of a float32 */
    }
    const struct operand *o = &operands[p->target];
    if (o->type == FLOAT64) *(double *)at[p->target] = made;
    else if (o->type == FLOAT32) *(float *)at[p->target] = (float)made;
    else *(uint8_t *)at[p->target] = made != 0;
}

/* What there is to do: the sizes of four axes, and the rows and the elements of each row that make a piece. */
struct work { int64_t sizes[DIMS], rows, columns; };

/* Runs a program over an array of four axes. `constants` fill the first registers. Threads that are given the same `next`,
 * which is 0 at first, share the pieces: each takes the next one until none is left. */
INLINE void run(const struct instruction *code, size_t instructions, const float *constants, size_t constant_count,
                size_t register_count, const struct operand *operands, size_t operand_count, const struct work *work,
                size_t sum_count, int64_t *next, const struct kernels *kernels)
{
    struct sum sums[sum_count + 1];
    float tiles[register_count][TILE + APART] __attribute__((aligned(64)));
    float *registers[register_count];
    char *at[operand_count], streamed[operand_count];
    const int64_t *sizes = work->sizes, width = sizes[DIMS - 1], rows = sizes[0] * sizes[1] * sizes[2];
    const int64_t across = (width + work->columns - 1) / work->columns, down = (rows + work->rows - 1) / work->rows;
    struct single single;
    const int is_single = ascend_native_find_single(code, instructions, constants, constant_count, operands, &single);
    for (size_t k = 0; k < operand_count; k++) streamed[k] = (char)is_streamed(&operands[k], code, instructions, operands, operand_count, sizes);
    if (is_single) single.streamed = streamed[single.target];
    struct chain chains[instructions];  /* of the part that begins there */
    for (size_t first = 0, end = 0; first < instructions; first = end) {
        while (end < instructions && code[end].operation < NEXT) end++;
        ascend_native_find_chain(code + first, end - first, constants, constant_count, operands, &chains[first]);
        while (end < instructions && code[end].operation >= NEXT) end++;
    }
    for (size_t r = 0; r < register_count; r++) registers[r] = tiles[r];
    for (size_t r = 0; r < constant_count; r++)
        for (size_t i = 0; i < TILE; i++) tiles[r][i] = constants[r];
    for (int64_t piece; (piece = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < across * down;) {
        int64_t start = piece % across * work->columns, last = (piece / across + 1) * work->rows;
        size_t columns = (size_t)(width - start < work->columns ? width - start : work->columns);
        for (int64_t row = piece / across * work->rows; row < last && row < rows; row++) {
            int64_t z = row % sizes[2], y = row / sizes[2] % sizes[1], x = row / sizes[2] / sizes[1];
            for (size_t k = 0; k < operand_count; k++) {
                const struct operand *o = &operands[k];
                at[k] = (char *)(intptr_t)(o->address + x * o->steps[0] + y * o->steps[1] + z * o->steps[2] + start * o->steps[3]);
            }
            if (is_single) {
                ascend_native_run_single(&single, at, columns);
                continue;
            }
            for (size_t first = 0, end = 0; first < instructions; first = end) {
                while (end < instructions && code[end].operation < NEXT) end++;
                one_part(code, first, end, operands, at, tiles, registers, columns, sums, kernels, constants, constant_count, streamed, &chains[first]);
                for (; end < instructions && code[end].operation >= NEXT; end++) numbers(&code[end], operands, at);
            }
        }
    }
}

#define RUN_ARGUMENTS                                                                                                    \
    const struct instruction *code, size_t instructions, const float *constants, size_t constant_count,                  \
        size_t register_count, const struct operand *operands, size_t operand_count, const struct work *work,            \
        size_t sum_count, int64_t *next
#define RUN(name, attribute)                                                                                             \
    PAIRWISE(name, attribute)                                                                                            \
    attribute static void run_##name(RUN_ARGUMENTS)                                                                      \
    {                                                                                                                    \
        const struct kernels kernels = {sum_##name, exp_##name, logistic_##name, log_##name, normal_##name, stream_##name, largest_##name};                            \
        run(code, instructions, constants, constant_count, register_count, operands, operand_count, work, sum_count,     \
            next, &kernels);                                                                                             \
    }

FOR_EACH_SET(RUN)

EXPORT void ascend_native_run(RUN_ARGUMENTS)
{
    static void (*const runs[])(RUN_ARGUMENTS) = {OF_EACH_SET(run)};
    runs[ascend_native_chosen()](code, instructions, constants, constant_count, register_count, operands, operand_count,
                                 work, sum_count, next);
#if defined(__x86_64__)
    _mm_sfence();  /* what went past the caches is in order again */
#endif
}

/* Sums of squares of distances to a number, in the order of a row's sum. */
#define SPREAD(name, attribute)                                                                          \
    attribute static double spread_##name(const float *a, size_t width, float centre)                    \
    {                                                                                                    \
        struct sum sums;                                                                                 \
        float tile[TILE];                                                                                \
        double made = 0;                                                                                 \
        for (size_t start = 0, n; start < width; start += n, a += n) {                                   \
            n = tile_size(start, width);                                                                 \
            FOR tile[i] = (a[i] - centre) * (a[i] - centre);                                             \
            add_tile(&sums, sum_##name(tile, n, 0), start, width, &made);                                \
        }                                                                                                \
        return made;                                                                                     \
    }
FOR_EACH_SET(SPREAD)

double ascend_native_spread(const float *a, size_t n, float centre)
{
    static double (*const spreads[])(const float *, size_t, float) = {OF_EACH_SET(spread)};
#if defined(__x86_64__)
    if (ascend_native_chosen() == 2 && n % 8 == 0 && n > 0) return sum_FLOAT32((const char *)a, n, 0, &centre);
#endif
    return spreads[ascend_native_chosen()](a, n, centre);
}

/* A program of elements for lists of float32 tensors that lie in one memory. Operand k of item i is the tensor number first + i,
 * `starts` bytes behind its offset; its elements are `step` bytes apart, 0 where one stands for all. */
struct place { int64_t first, step, written; };
struct placed {
    char *memory;
    const struct instruction *code;
    size_t instructions;
    const float *constants;
    size_t constant_count, register_count;
    const struct place *places;
    size_t operand_count;
    const int64_t *starts, *sizes; /* bytes of each tensor, elements of each item */
    size_t count;
};

/* Whether an item may be written before another item is read, and no element before it is read itself. */
static int are_apart(const struct placed *p, const int64_t *offsets)
{
    for (size_t k = 0; k < p->operand_count; k++) {
        const struct place *to = &p->places[k];
        for (size_t i = 0; i < p->count; i++) {
            const int64_t number = to->first + (int64_t)i, at = offsets[number] + p->starts[number], size = p->sizes[i] * 4;
            if (at % 4 != 0) return 0;
            for (size_t m = 0; to->written && m < p->operand_count; m++) {
                const struct place *from = &p->places[m];
                for (size_t j = 0; !from->written && j < p->count; j++) {
                    const int64_t other = from->first + (int64_t)j, begin = offsets[other] + p->starts[other];
                    if (begin >= at + size || at >= begin + (from->step ? p->sizes[j] * 4 : 4)) continue;
                    if (i != j || begin != at || from->step != to->step) return 0;
                }
            }
        }
    }
    return 1;
}

/* Runs it on tensors at these offsets in the memory, one item after the other. 0, with nothing written, where the order would
 * show or an address is not a multiple of 4. */
EXPORT int ascend_native_run_placed(const struct placed *p, const int64_t *offsets)
{
    if (!are_apart(p, offsets)) return 0;
    struct operand operands[p->operand_count];
    for (size_t i = 0; i < p->count; i++) {
        for (size_t k = 0; k < p->operand_count; k++) {
            const int64_t number = p->places[k].first + (int64_t)i;
            const intptr_t address = (intptr_t)(p->memory + offsets[number] + p->starts[number]);
            operands[k] = (struct operand){address, FLOAT32, {0, 0, 0, p->places[k].step}};
        }
        const struct work work = {{1, 1, 1, p->sizes[i]}, 1, p->sizes[i]};
        int64_t next = 0;
        ascend_native_run(p->code, p->instructions, p->constants, p->constant_count, p->register_count, operands,
                          p->operand_count, &work, 0, &next);
    }
    return 1;
}

/* The programs' exp and log, to be compared with NumPy's. */
#define COMPARED(name)                                                                   \
    EXPORT void ascend_native_##name(const float *source, float *target, size_t n)       \
    {                                                                                    \
        static void (*const sets[])(const float *, float *, size_t) = {OF_EACH_SET(name)}; \
        sets[ascend_native_chosen()](source, target, n);                                 \
    }
COMPARED(exp)
COMPARED(log)

float ascend_native_largest(const float *row, size_t n)
{
    static float (*const sets[])(const float *, size_t) = {OF_EACH_SET(largest)};
    return sets[ascend_native_chosen()](row, n);
}

/* ------------------------------------------------------------------------------------------------ sums */

#define SUMS(name, attribute)                                                                                            \
    attribute static void rows_##name(const char *source, double *target, size_t rows, size_t columns, ptrdiff_t step)   \
    {                                                                                                                    \
        for (size_t r = 0; r < rows; r++) target[r] = sum_##name((const float *)(source + (ptrdiff_t)r * step), columns, 0) + 0.0; \
    }                                                                                                                    \
    attribute static void columns_##name(int type, const char *source, double *target, size_t rows, size_t columns, ptrdiff_t step) \
    {                                                                                                                    \
        static const int widen[] = {0, WIDEN_HALF, WIDEN_BF16};                                                          \
        const size_t size = type == FLOAT32 ? 4 : 2;                                                                     \
        float wide[4][TILE];                                                                                             \
        const float *row[4];                                                                                             \
        for (size_t start = 0; start < columns; start += TILE) {                                                         \
            size_t n = columns - start < TILE ? columns - start : TILE;                                                  \
            double *restrict d = target + start;                                                                         \
            for (size_t r = 0, some; r < rows; r += some) {                                                              \
                some = rows - r < 4 ? 1 : 4;                                                                             \
                for (size_t k = 0; k < some; k++) {                                                                      \
                    row[k] = (const float *)(source + (ptrdiff_t)(r + k) * step + start * size);                         \
                    if (type != FLOAT32) ascend_native_convert(widen[type], row[k], wide[k], 1, n, 0, 0), row[k] = wide[k]; \
                }                                                                                                        \
                const float *s = row[0], *t = row[1], *u = row[2], *v = row[3];                                          \
                if (some == 4)                                                                                           \
                    for (size_t i = 0; i < n; i++) d[i] = (((d[i] + (double)s[i]) + (double)t[i]) + (double)u[i]) + (double)v[i]; \
                else                                                                                                     \
                    for (size_t i = 0; i < n; i++) d[i] += (double)s[i];                                                 \
            }                                                                                                            \
        }                                                                                                                \
    }

FOR_EACH_SET(SUMS)

#if defined(__x86_64__)
/* The same of a multiple of 8 columns, from numbers as they are stored; eight rows at a time, as each sum is read and written again. */
AVX512 INLINE void add_columns(int type, const char *source, double *target, size_t rows, size_t columns, ptrdiff_t step)
{
    const size_t size = type == FLOAT32 ? 4 : 2;
    for (size_t start = 0; start < columns; start += 2 * TILE) {
        const size_t end = columns - start < 2 * TILE ? columns : start + 2 * TILE;
        size_t r = 0;
        for (; r + 8 <= rows; r += 8)
            for (size_t i = start; i < end; i += 8) {
                const char *at = source + (ptrdiff_t)r * step + i * size;
                __m512d sums = _mm512_loadu_pd(target + i);
                if (size == 2 && i % 32 == 0)  /* of float32 the processor looks far enough ahead */
                    for (int k = 8; k < 16; k++) __builtin_prefetch(at + k * step);
                for (int k = 0; k < 8; k++) sums = plus_eight(sums, type, at + k * step, 0, NULL);
                _mm512_storeu_pd(target + i, sums);
            }
        for (; r < rows; r++)
            for (size_t i = start; i < end; i += 8)
                _mm512_storeu_pd(target + i, plus_eight(_mm512_loadu_pd(target + i), type, source + (ptrdiff_t)r * step + i * size, 0, NULL));
    }
}

AVX512 static void add_stored_columns(int type, const char *source, double *target, size_t rows, size_t columns, ptrdiff_t step)
{
    if (type == FLOAT32) add_columns(FLOAT32, source, target, rows, columns, step);
    else if (type == FLOAT16) add_columns(FLOAT16, source, target, rows, columns, step);
    else add_columns(BFLOAT16, source, target, rows, columns, step);
}
#endif

EXPORT void ascend_native_add_columns(int type, const char *source, double *target, size_t rows, size_t columns, ptrdiff_t step)
{
    static void (*const adds[])(int, const char *, double *, size_t, size_t, ptrdiff_t) = {OF_EACH_SET(columns)};
    size_t done = 0;
#if defined(__x86_64__)
    if (ascend_native_chosen() == 2) add_stored_columns(type, source, target, rows, done = columns - columns % 8, step);
#endif
    adds[ascend_native_chosen()](type, source + done * (type == FLOAT32 ? 4 : 2), target + done, rows, columns - done, step);
}

EXPORT void ascend_native_sum(const void *source, double *target, size_t rows, size_t columns, ptrdiff_t step)
{
    static void (*const sums[])(const char *, double *, size_t, size_t, ptrdiff_t) = {OF_EACH_SET(rows)};
    sums[ascend_native_chosen()](source, target, rows, columns, step);
}
