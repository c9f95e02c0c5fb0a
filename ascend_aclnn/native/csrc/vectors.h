/* AVX-512: conversions and exponentials of sixteen numbers in a register. */
#ifndef ASCEND_NATIVE_VECTORS_H
#define ASCEND_NATIVE_VECTORS_H

#include "native.h"

#include <math.h>

/* The rational function's coefficients in reference/_special.py. */
#define NORMAL_FIT                                                                                                       \
    {3.00163674e-05f, -0.000357580547f, -0.00125241133f, 0.00126804985f, 0.0086361482f, -0.00804343506f,                 \
     -0.0542044874f,  0.1640531f,       -0.166031412f,   -0.0927638979f, 1.27697839f}

#if defined(__x86_64__)

AVX512 INLINE __m512 widen_half_vector(__m256i codes)
{
    __m512 v = _mm512_cvtph_ps(codes);
    __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);  /* which the conversion makes quiet */
    if (__builtin_expect(nan, 0)) {
        __m512i fraction = _mm512_slli_epi32(_mm512_cvtepu16_epi32(codes), 13);
        fraction = _mm512_or_si512(fraction, _mm512_set1_epi32((int)0xff800000u));
        v = _mm512_mask_and_ps(v, nan, v, _mm512_castsi512_ps(fraction));
    }
    return v;
}

AVX512 INLINE __m256i half_of_vector(__m512 v)
{
    __m512 sign = _mm512_and_ps(v, _mm512_set1_ps(-0.0f));
    v = _mm512_mask_or_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), sign, _mm512_set1_ps(NAN));
    return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

AVX512 INLINE __m512i round_half_vectors(__m512 v, __m512 w)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(half_of_vector(v)), half_of_vector(w), 1);
}

AVX512 INLINE __m512 widen_bf16_vector(__m256i codes)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(codes), 16));
}

/* Of each result the upper half is the code. */
AVX512 INLINE __m512i bf16_of_vector(__m512 v)
{
    __m512i b = _mm512_castps_si512(v), odd = _mm512_and_si512(_mm512_srli_epi32(b, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(b, _mm512_set1_epi32(0x7fff)), odd);
    __m512i nan = _mm512_or_si512(_mm512_and_si512(b, _mm512_set1_epi32((int)0x80000000u)), _mm512_set1_epi32(0x7fc00000));
    return _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
}

AVX512 INLINE __m512i round_bf16_vectors(__m512 v, __m512 w)
{
    const __m512i upper = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27, 25, 23,
                                           21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return _mm512_permutex2var_epi16(bf16_of_vector(v), upper, bf16_of_vector(w));
}

/* exp_of in program.c with AVX-512's own rounding and scaling. Beyond the limits the result is infinity or zero without a special case. */
AVX512 INLINE __m512 exp_of_vector(__m512 x)
{
#define ALL(number) _mm512_set1_ps(number)
    __m512 bounded = _mm512_max_ps(ALL(-104.0f), _mm512_min_ps(ALL(89.0f), x));
    __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(bounded, ALL(1.442695040888963407359924681001892137f)), 0);
    __m512 r = _mm512_fmadd_ps(n, ALL(-6.93145752e-1f), bounded);
    r = _mm512_fmadd_ps(n, ALL(-1.42860677e-6f), r);
    __m512 p = _mm512_fmadd_ps(ALL(5.082762527590693718096e-04f), r, ALL(6.757896990527504603057e-03f));
    p = _mm512_fmadd_ps(p, r, ALL(5.114512081637298353406e-02f));
    p = _mm512_fmadd_ps(p, r, ALL(2.473615434895520810817e-01f));
    p = _mm512_fmadd_ps(p, r, ALL(7.257664613233124478488e-01f));
    p = _mm512_fmadd_ps(p, r, ALL(9.999999999980870924916e-01f));
    __m512 q = _mm512_fmadd_ps(ALL(2.159509375685829852307e-02f), r, ALL(-2.742335390411667452936e-01f));
    q = _mm512_fmadd_ps(q, r, ALL(1.0f));
    __m512 y = _mm512_scalef_ps(_mm512_div_ps(p, q), n);
    return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), ALL(NAN));
#undef ALL
}

/* log_of in program.c with AVX-512's own exponent and mantissa, which know numbers without a leading 1. */
AVX512 INLINE __m512 log_of_vector(__m512 x)
{
#define ALL(number) _mm512_set1_ps(number)
    __m512 n = _mm512_add_ps(_mm512_getexp_ps(x), ALL(1.0f)), m = _mm512_getmant_ps(x, _MM_MANT_NORM_p5_1, _MM_MANT_SIGN_zero);
    __mmask16 small = _mm512_cmp_ps_mask(m, ALL(0.70710678118654752440f), _CMP_LE_OQ);
    n = _mm512_mask_sub_ps(n, small, n, ALL(1.0f));
    m = _mm512_mask_add_ps(m, small, m, m);
    __m512 r = _mm512_sub_ps(m, ALL(1.0f));
    __m512 p = _mm512_fmadd_ps(ALL(2.589979117907922693523e-02f), r, ALL(3.808837741388407920751e-01f));
    p = _mm512_fmadd_ps(p, r, ALL(1.480000633576506585156e+00f));
    p = _mm512_fmadd_ps(p, r, ALL(2.112677543073053063722e+00f));
    p = _mm512_mul_ps(_mm512_fmadd_ps(p, r, ALL(9.999999999999998702752e-01f)), r);
    __m512 q = _mm512_fmadd_ps(ALL(5.875095403124574342950e-03f), r, ALL(1.546476374983906719538e-01f));
    q = _mm512_fmadd_ps(q, r, ALL(9.864942958519418960339e-01f));
    q = _mm512_fmadd_ps(q, r, ALL(2.453006071784736363091e+00f));
    q = _mm512_fmadd_ps(q, r, ALL(2.612677543073109236779e+00f));
    q = _mm512_fmadd_ps(q, r, ALL(1.0f));
    __m512 y = _mm512_fmadd_ps(n, ALL(0.693147180559945309417232121458176568f), _mm512_div_ps(p, q));
    const __m512 zero = _mm512_setzero_ps();
    y = _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, ALL(INFINITY), _CMP_EQ_OQ), ALL(INFINITY));
    y = _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, zero, _CMP_EQ_OQ), ALL(-INFINITY));
    y = _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, zero, _CMP_LT_OQ), _mm512_castsi512_ps(_mm512_set1_epi32((int)0xffc00000u)));
    return _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), ALL(NAN));
#undef ALL
}

AVX512 INLINE __m512 logistic_of_vector(__m512 x)
{
    const __m512 one = _mm512_set1_ps(1.0f);
    return _mm512_div_ps(one, _mm512_add_ps(one, exp_of_vector(_mm512_xor_ps(x, _mm512_set1_ps(-0.0f)))));
}

/* normal_of in program.c; maxima and minima keep a NaN, which is their second operand. */
AVX512 INLINE __m512 normal_of_vector(__m512 x)
{
    static const float fit[] = NORMAL_FIT;
#define ALL(number) _mm512_set1_ps(number)
    __m512 a = _mm512_min_ps(ALL(10.5f), _mm512_mul_ps(_mm512_abs_ps(x), ALL(0.70710678118654752440f)));
    const __m512 t = _mm512_div_ps(_mm512_sub_ps(a, ALL(2.0f)), _mm512_add_ps(a, ALL(2.0f)));
    __m512 height = _mm512_mul_ps(t, ALL(fit[0]));
    for (int k = 1; k < 10; k++) height = _mm512_mul_ps(_mm512_add_ps(height, ALL(fit[k])), t);
    height = _mm512_div_ps(_mm512_add_ps(height, ALL(fit[10])), _mm512_add_ps(_mm512_add_ps(a, a), ALL(1.0f)));
    const __m512 bounded = _mm512_min_ps(ALL(16.0f), _mm512_max_ps(ALL(-16.0f), x));
    const __m512 split = _mm512_mul_ps(bounded, ALL(4097.0f)), head = _mm512_sub_ps(split, _mm512_sub_ps(split, bounded));
    const __m512 rest = _mm512_sub_ps(bounded, head), square = _mm512_mul_ps(bounded, bounded);
    __m512 lost = _mm512_sub_ps(_mm512_mul_ps(head, head), square);
    lost = _mm512_add_ps(lost, _mm512_mul_ps(_mm512_add_ps(head, head), rest));
    lost = _mm512_add_ps(lost, _mm512_mul_ps(rest, rest));
    __m512 tail = _mm512_mul_ps(_mm512_mul_ps(height, ALL(0.5f)), exp_of_vector(_mm512_mul_ps(square, ALL(-0.5f))));
    tail = _mm512_mul_ps(tail, _mm512_sub_ps(ALL(1.0f), _mm512_mul_ps(lost, ALL(0.5f))));
    return _mm512_mask_sub_ps(tail, _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ), ALL(1.0f), tail);
#undef ALL
}

#endif
#endif
