/* Widening to float32 and rounding to 16 and 8 bits, half to even: bit for bit what numerics/convert.py does with NumPy.
 *
 * The loops are written once, without branches, and compiled for several instruction sets; the best one that the
 * processor has is chosen when the library is loaded. With AVX2, AVX-512 and NEON float16 uses the processor's own conversion,
 * whose only difference is NaN, which is put right here; NEON makes a signalling NaN quiet, and so does NumPy on such a processor. Each function takes rows: their number, the elements in each, and the
 * distance between the rows in bytes.
 */
#include "program.h"
#include "vectors.h"

#include <math.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* ------------------------------------------------------------------------------------------------ one element */

#if !defined(__aarch64__)
INLINE float widen_half(uint16_t h)
{
    uint32_t magnitude = (uint32_t)(h & 0x7fff) << 13;
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t special = magnitude | 0x7f800000u;                                /* infinity and NaN keep their bits */
    uint32_t finite = bits_of(float_of(magnitude) * float_of(0x77800000u));    /* times 2^112, exact */
    return float_of(sign | ((h & 0x7c00) == 0x7c00 ? special : finite));
}
#endif

INLINE uint16_t round_half(float x)
{
    uint32_t b = bits_of(x), sign = b >> 16 & 0x8000, a = b & 0x7fffffff;
    uint32_t normal = (a + 0xfff + (a >> 13 & 1) - 0x38000000u) >> 13;
    uint32_t tiny = bits_of(float_of(a < 0x38800000u ? a : 0) + 0.5f) - 0x3f000000u;  /* 0.5's last bit is 2^-24 */
    uint32_t code = a < 0x38800000u ? tiny : normal;
    code = a >= 0x477ff000u ? 0x7c00 : code;
    code = a > 0x7f800000u ? 0x7e00 : code;
    return (uint16_t)(sign | code);
}

INLINE float widen_bf16(uint16_t h) { return float_of((uint32_t)h << 16); }

INLINE uint16_t round_bf16(float x)
{
    uint32_t b = bits_of(x);
    uint32_t rounded = (b + 0x7fff + (b >> 16 & 1)) >> 16;
    return (uint16_t)((b & 0x7fffffff) > 0x7f800000u ? (b >> 16 & 0x8000) | 0x7fc0 : rounded);
}

/* float64 to float32, inexact values to their neighbour with an odd last bit, so that a second rounding does no harm. */
INLINE float to_odd(double x)
{
    float near = (float)x;
    double back = (double)near, size = fabs(x);
    uint32_t b = bits_of(near), finite = size < (double)INFINITY;
    b -= (fabs(back) > size) & finite;
    b |= (back != x) & finite;
    return float_of(b);
}

INLINE uint16_t round_double_bf16(double x) { return round_bf16(to_odd(x)); }

INLINE uint16_t round_double_half(double x) { return round_half(to_odd(x)); }

/* To a float of 8 bits with `mantissa` bits and the least normal exponent `least`: the code, without the sign, of the
 * rounded magnitude; `largest` is the largest finite value, `beyond` and `nan` the codes of what is larger or no number. */
INLINE uint8_t round_small(float x, int mantissa, int least, float largest, uint8_t beyond, uint8_t nan)
{
    uint32_t b = bits_of(x), a = b & 0x7fffffff;
    uint32_t low = (uint32_t)(127 + least) << 23, high = (uint32_t)(127 + 20) << 23;
    uint32_t e = a & 0x7f800000u;
    e = e < low ? low : e;
    e = e > high ? high : e;
    float magic = float_of(e + ((uint32_t)(23 - mantissa) << 23));
    float rounded = (float_of(a) + magic) - magic;
    uint32_t r = bits_of(rounded);
    uint32_t normal = (r >> (23 - mantissa)) - ((uint32_t)(126 + least) << mantissa);
    float scaled = (r < low ? rounded : 0.0f) * float_of((uint32_t)(127 + mantissa - least) << 23);
    uint32_t code = r < low ? (uint32_t)(int32_t)scaled : normal;
    code = rounded > largest ? beyond : code;
    code = a > 0x7f800000u ? nan : code;
    return (uint8_t)((b >> 24 & 0x80) | code);
}

INLINE uint8_t round_e4m3fn(float x) { return round_small(x, 3, -6, 448.0f, 0x7f, 0x7f); }
INLINE uint8_t round_e5m2(float x) { return round_small(x, 2, -14, 57344.0f, 0x7c, 0x7e); }

/* A scale: a power of two from 2^-127 (code 0) to 2^127, 255 for NaN, which zeros and negative numbers become too. */
INLINE float widen_e8m0(uint8_t code)
{
    uint32_t b = code == 0 ? 0x00400000u : (uint32_t)code << 23;
    return float_of(code == 255 ? 0x7fc00000u : b);
}

INLINE uint8_t round_e8m0(float x)
{
    uint32_t b = bits_of(x);
    uint32_t code = b < 0x00800000u ? b > 0x00400000u : (b + 0x00400000u) >> 23;  /* half way goes up */
    return (uint8_t)((b - 1) >= 0x7f800000u || code > 255 ? 255 : code);
}

/* To the nearest whole number, half to even; those out of range saturate, NaN is 0. */
#define WHOLE(name, type, least, beyond, largest)                                     \
    INLINE type round_##name(float x)                                                 \
    {                                                                                 \
        float r = rintf(x);                                                           \
        int32_t whole = (int32_t)(((r >= (least)) & (r < (beyond))) ? r : 0.0f);      \
        whole = r >= (beyond) ? (largest) : whole;                                    \
        return (type)(r < (least) ? (int32_t)(least) : whole);                        \
    }
WHOLE(int8, int8_t, -128.0f, 128.0f, 127)
WHOLE(uint8, uint8_t, 0.0f, 256.0f, 255)
WHOLE(int16, int16_t, -32768.0f, 32768.0f, 32767)
WHOLE(int32, int32_t, -2147483648.0f, 2147483648.0f, 2147483647)

/* The same, cut off towards zero. */
INLINE int32_t cut_int32(float x)
{
    int32_t whole = (int32_t)(((x >= -2147483648.0f) & (x < 2147483648.0f)) ? x : 0.0f);
    whole = x >= 2147483648.0f ? INT32_MAX : whole;
    return x < -2147483648.0f ? INT32_MIN : whole;
}

/* ------------------------------------------------------------------------------------------------ rows of elements */

#define ROWS(from, to, convert)                                                              \
    for (size_t row = 0; row < rows; row++) {                                                \
        const from *restrict s = (const from *)((const char *)source + (ptrdiff_t)row * source_step); \
        to *restrict d = (to *)((char *)target + (ptrdiff_t)row * target_step);              \
        for (size_t i = 0; i < columns; i++) d[i] = convert(s[i]);                           \
    }

#define BFLOATS(name, attribute)                                                                               \
    attribute static void widen_bf16_##name(ARGUMENTS) { ROWS(uint16_t, float, widen_bf16) }                   \
    attribute static void round_bf16_##name(ARGUMENTS) { ROWS(float, uint16_t, round_bf16) }

#define FAMILY(name, attribute)                                                                                \
    attribute static void round_e4m3fn_##name(ARGUMENTS) { ROWS(float, uint8_t, round_e4m3fn) }                \
    attribute static void round_e5m2_##name(ARGUMENTS) { ROWS(float, uint8_t, round_e5m2) }                    \
    attribute static void widen_e8m0_##name(ARGUMENTS) { ROWS(uint8_t, float, widen_e8m0) }                    \
    attribute static void round_e8m0_##name(ARGUMENTS) { ROWS(float, uint8_t, round_e8m0) }                    \
    attribute static void round_int8_##name(ARGUMENTS) { ROWS(float, int8_t, round_int8) }                     \
    attribute static void round_uint8_##name(ARGUMENTS) { ROWS(float, uint8_t, round_uint8) }                  \
    attribute static void round_int16_##name(ARGUMENTS) { ROWS(float, int16_t, round_int16) }                  \
    attribute static void round_int32_##name(ARGUMENTS) { ROWS(float, int32_t, round_int32) }                  \
    attribute static void cut_##name(const float *source, int32_t *target, size_t n) { FOR target[i] = cut_int32(source[i]); } \
    attribute static void round_double_half_##name(ARGUMENTS) { ROWS(double, uint16_t, round_double_half) }    \
    attribute static void round_double_bf16_##name(ARGUMENTS) { ROWS(double, uint16_t, round_double_bf16) }

#if defined(__aarch64__)
BFLOATS(neon, )
FAMILY(neon, )

/* Four numbers at a time; the last vector is padded with numbers that are not stored. */
#define FOURS(from, to, convert)                                                                     \
    for (size_t row = 0; row < rows; row++) {                                                        \
        const from *s = (const from *)((const char *)source + (ptrdiff_t)row * source_step);         \
        to *d = (to *)((char *)target + (ptrdiff_t)row * target_step);                               \
        size_t i = 0;                                                                                \
        for (; i + 4 <= columns; i += 4) convert(s + i, d + i);                                      \
        if (i < columns) {                                                                           \
            from last[4] = {0};                                                                      \
            to converted[4];                                                                         \
            memcpy(last, s + i, (columns - i) * sizeof *s);                                          \
            convert(last, converted);                                                                \
            memcpy(d + i, converted, (columns - i) * sizeof *d);                                     \
        }                                                                                            \
    }

INLINE void widen_half_vector(const uint16_t *s, float *d)
{
    vst1q_f32(d, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(s))));
}

INLINE void round_half_vector(const float *s, uint16_t *d)
{
    float32x4_t v = vld1q_f32(s);
    uint16x4_t sign = vand_u16(vshrn_n_u32(vreinterpretq_u32_f32(v), 16), vdup_n_u16(0x8000));
    uint16x4_t number = vmovn_u32(vceqq_f32(v, v));
    vst1_u16(d, vbsl_u16(number, vreinterpret_u16_f16(vcvt_f16_f32(v)), vorr_u16(sign, vdup_n_u16(0x7e00))));
}

static void widen_half_neon(ARGUMENTS) { FOURS(uint16_t, float, widen_half_vector) }
static void round_half_neon(ARGUMENTS) { FOURS(float, uint16_t, round_half_vector) }
#else
BFLOATS(plain, )
FAMILY(plain, )
static void widen_half_plain(ARGUMENTS) { ROWS(uint16_t, float, widen_half) }
static void round_half_plain(ARGUMENTS) { ROWS(float, uint16_t, round_half) }
#endif

#if defined(__x86_64__)
BFLOATS(avx2, AVX2)
FAMILY(avx2, AVX2)
FAMILY(avx512, AVX512)

AVX2 static void widen_half_f16c(ARGUMENTS)
{
    for (size_t row = 0; row < rows; row++) {
        const uint16_t *s = (const uint16_t *)((const char *)source + (ptrdiff_t)row * source_step);
        float *d = (float *)((char *)target + (ptrdiff_t)row * target_step);
        size_t i = 0;
        for (; i + 8 <= columns; i += 8) {
            __m256 v = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(s + i)));
            _mm256_storeu_ps(d + i, v);
            if (_mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)))
                for (size_t k = i; k < i + 8; k++) d[k] = widen_half(s[k]);
        }
        for (; i < columns; i++) d[i] = widen_half(s[i]);
    }
}

AVX2 static void round_half_f16c(ARGUMENTS)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    const __m256 sign = _mm256_set1_ps(-0.0f);
    for (size_t row = 0; row < rows; row++) {
        const float *s = (const float *)((const char *)source + (ptrdiff_t)row * source_step);
        uint16_t *d = (uint16_t *)((char *)target + (ptrdiff_t)row * target_step);
        size_t i = 0;
        for (; i + 8 <= columns; i += 8) {
            __m256 v = _mm256_loadu_ps(s + i);
            __m256 quiet = _mm256_or_ps(_mm256_and_ps(v, sign), nan);
            v = _mm256_blendv_ps(v, quiet, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
            _mm_storeu_si128((__m128i *)(d + i), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
        }
        for (; i < columns; i++) d[i] = round_half(s[i]);
    }
}

/* A vector, or two, at a time; the last elements by a mask. */
#define WIDEN512(convert)                                                                                      \
    for (size_t row = 0; row < rows; row++) {                                                                  \
        const uint16_t *s = (const uint16_t *)((const char *)source + (ptrdiff_t)row * source_step);           \
        float *d = (float *)((char *)target + (ptrdiff_t)row * target_step);                                   \
        size_t i = 0;                                                                                          \
        for (; i + 16 <= columns; i += 16)                                                                     \
            _mm512_storeu_ps(d + i, convert(_mm256_loadu_si256((const __m256i *)(s + i))));                    \
        __mmask16 rest = (__mmask16)((1u << (columns - i)) - 1);                                               \
        if (rest) _mm512_mask_storeu_ps(d + i, rest, convert(_mm256_maskz_loadu_epi16(rest, s + i)));          \
    }
#define ROUND512(convert)                                                                                      \
    for (size_t row = 0; row < rows; row++) {                                                                  \
        const float *s = (const float *)((const char *)source + (ptrdiff_t)row * source_step);                 \
        uint16_t *d = (uint16_t *)((char *)target + (ptrdiff_t)row * target_step);                             \
        size_t i = 0;                                                                                          \
        for (; i + 32 <= columns; i += 32)                                                                     \
            _mm512_storeu_si512(d + i, convert(_mm512_loadu_ps(s + i), _mm512_loadu_ps(s + i + 16)));          \
        __mmask32 rest = (__mmask32)((1ull << (columns - i)) - 1);                                             \
        if (rest) {                                                                                            \
            __m512 low = _mm512_maskz_loadu_ps((__mmask16)rest, s + i);                                        \
            __m512 high = _mm512_maskz_loadu_ps((__mmask16)(rest >> 16), s + i + 16);                          \
            _mm512_mask_storeu_epi16(d + i, rest, convert(low, high));                                         \
        }                                                                                                      \
    }

AVX512 static void widen_half_avx512(ARGUMENTS) { WIDEN512(widen_half_vector) }
AVX512 static void round_half_avx512(ARGUMENTS) { ROUND512(round_half_vectors) }
AVX512 static void widen_bf16_avx512(ARGUMENTS) { WIDEN512(widen_bf16_vector) }
AVX512 static void round_bf16_avx512(ARGUMENTS) { ROUND512(round_bf16_vectors) }
#endif

/* ------------------------------------------------------------------------------------------------ instruction sets */

#define REST(name)                                                                                                  \
    widen_bf16_##name, round_bf16_##name, round_e4m3fn_##name, round_e5m2_##name, widen_e8m0_##name, round_e8m0_##name, \
        round_int8_##name, round_uint8_##name, round_int16_##name, round_int32_##name,                                     \
        round_double_half_##name, round_double_bf16_##name

static const struct instruction_set {
    const char *name;
    Convert *conversions[CONVERSIONS];
} sets[] = {
#if defined(__aarch64__)
    {"neon", {widen_half_neon, round_half_neon, REST(neon)}},
#else
    {"plain", {widen_half_plain, round_half_plain, REST(plain)}},
#endif
#if defined(__x86_64__)
    {"avx2", {widen_half_f16c, round_half_f16c, REST(avx2)}},
    {"avx512", {widen_half_avx512, round_half_avx512, REST(avx512)}},
#endif
};

static int chosen;

/* __builtin_cpu_supports needs data that zig's compiler library does not initialise. */
static int available(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d, kept, rest;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
    const unsigned needed = bit_OSXSAVE | bit_F16C | bit_FMA;
    if ((c & needed) != needed) return 0;
    __asm__ volatile("xgetbv" : "=a"(kept), "=d"(rest) : "c"(0));  /* the registers that the system keeps */
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2) || (kept & 0x06) != 0x06) return 0;
    const unsigned wide = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
    return (b & wide) == wide && (kept & 0xe6) == 0xe6 ? 2 : 1;
#else
    return 0;
#endif
}

__attribute__((constructor)) static void choose(void) { chosen = available(); }

/* target[i] = table[source[i]], of entries of 1, 2 or 4 bytes; the table has one for each value of 16 bits. */
EXPORT void ascend_native_look_up(const void *source, const void *table, void *target, size_t count, size_t size)
{
    const uint16_t *s = source;
    if (size == 1)
        for (size_t i = 0; i < count; i++) ((uint8_t *)target)[i] = ((const uint8_t *)table)[s[i]];
    else if (size == 2)
        for (size_t i = 0; i < count; i++) ((uint16_t *)target)[i] = ((const uint16_t *)table)[s[i]];
    else
        for (size_t i = 0; i < count; i++) ((uint32_t *)target)[i] = ((const uint32_t *)table)[s[i]];
}

int ascend_native_chosen(void) { return chosen; }

/* The instruction set in use. */
EXPORT const char *ascend_native_instructions(void) { return sets[chosen].name; }

EXPORT const char *ascend_native_conversion(int conversion)
{
    static const char *const types[CONVERSIONS] = {
        [WIDEN_HALF] = "float16 float32",          [ROUND_HALF] = "float32 float16",
        [WIDEN_BF16] = "bfloat16 float32",         [ROUND_BF16] = "float32 bfloat16",
        [ROUND_E4M3FN] = "float32 float8_e4m3fn",  [ROUND_E5M2] = "float32 float8_e5m2",
        [WIDEN_E8M0] = "float8_e8m0fnu float32",   [ROUND_E8M0] = "float32 float8_e8m0fnu",
        [ROUND_INT8] = "float32 int8",             [ROUND_UINT8] = "float32 uint8",
        [ROUND_INT16] = "float32 int16",           [ROUND_INT32] = "float32 int32",
        [ROUND_DOUBLE_HALF] = "float64 float16",   [ROUND_DOUBLE_BF16] = "float64 bfloat16",
    };
    return conversion >= 0 && conversion < CONVERSIONS ? types[conversion] : NULL;
}

/* Uses another one, by its name, for tests. Returns -1 where the processor lacks it. */
EXPORT int ascend_native_use(const char *name)
{
    for (int number = 0; number <= available(); number++)
        if (strcmp(sets[number].name, name) == 0) {
            chosen = number;
            return 0;
        }
    return -1;
}

EXPORT void ascend_native_convert(int conversion, ARGUMENTS)
{
    sets[chosen].conversions[conversion](source, target, rows, columns, source_step, target_step);
}

/* Floats of a type to int32, cut off; a tile of 16-bit ones is widened at a time. */
EXPORT void ascend_native_cut_off(int type, const void *source, int32_t *target, size_t n)
{
    static void (*const cuts[])(const float *, int32_t *, size_t) = {OF_EACH_SET(cut)};
    static const int widen[] = {0, WIDEN_HALF, WIDEN_BF16};
    float wide[TILE];
    for (size_t start = 0, some; start < n; start += some) {
        some = n - start < TILE ? n - start : TILE;
        const float *s = type == FLOAT32 ? (const float *)source + start : wide;
        if (type != FLOAT32) ascend_native_convert(widen[type], (const uint16_t *)source + start, wide, 1, some, 0, 0);
        cuts[chosen](s, target + start, some);
    }
}
