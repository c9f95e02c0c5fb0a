/* Philox 4x32 of 10 rounds (Salmon et al., 2011): what reference/_philox.py computes with arrays of NumPy. */
#include "native.h"

#define FACTOR_0 0xD2511F53u
#define FACTOR_1 0xCD9E8D57u
#define KEY_STEP_0 0x9E3779B9u
#define KEY_STEP_1 0xBB67AE85u

/* The lower and upper halves of counters, every step-th of an array or the same one if that is 0; four words are made of each. */
#define PARAMETERS \
    uint64_t key, const uint64_t *low, size_t low_step, const uint64_t *high, size_t high_step, uint32_t *made, size_t count

static void philox_plain(PARAMETERS)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t l = low[i * low_step], h = high[i * high_step];
        uint32_t c0 = (uint32_t)l, c1 = (uint32_t)(l >> 32), c2 = (uint32_t)h, c3 = (uint32_t)(h >> 32);
        uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
        for (int round = 0; round < 10; round++) {
            uint64_t p0 = (uint64_t)c0 * FACTOR_0, p1 = (uint64_t)c2 * FACTOR_1;
            c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
            c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
            c1 = (uint32_t)p1;
            c3 = (uint32_t)p0;
            k0 += KEY_STEP_0;
            k1 += KEY_STEP_1;
        }
        uint32_t *to = made + 4 * i;
        to[0] = c0, to[1] = c1, to[2] = c2, to[3] = c3;
    }
}

#if defined(__x86_64__)
/* A word is the lower half of a 64-bit lane; the upper half is ignored until the end. */

AVX512 static void philox_avx512(PARAMETERS)
{
    const __m512i factor0 = _mm512_set1_epi64(FACTOR_0), factor1 = _mm512_set1_epi64(FACTOR_1);
    const __m512i lower = _mm512_set1_epi64(0xffffffff);
    const __m512i first = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), second = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
    size_t i = 0;
    for (; i + 32 <= count; i += 32) {
        __m512i c0[4], c1[4], c2[4], c3[4];
        uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
        for (int part = 0; part < 4; part++) {
            size_t at = i + 8 * (size_t)part;
            c0[part] = low_step ? _mm512_loadu_si512(low + at) : _mm512_set1_epi64((int64_t)low[0]);
            c2[part] = high_step ? _mm512_loadu_si512(high + at) : _mm512_set1_epi64((int64_t)high[0]);
            c1[part] = _mm512_srli_epi64(c0[part], 32);
            c3[part] = _mm512_srli_epi64(c2[part], 32);
        }
        for (int round = 0; round < 10; round++) {
            const __m512i key0 = _mm512_set1_epi64(k0), key1 = _mm512_set1_epi64(k1);
            for (int part = 0; part < 4; part++) {
                __m512i p0 = _mm512_mul_epu32(c0[part], factor0), p1 = _mm512_mul_epu32(c2[part], factor1);
                c0[part] = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p1, 32), c1[part]), key0);
                c2[part] = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(p0, 32), c3[part]), key1);
                c1[part] = p1;
                c3[part] = p0;
            }
            k0 += KEY_STEP_0;
            k1 += KEY_STEP_1;
        }
        for (int part = 0; part < 4; part++) {
            __m512i a = _mm512_or_si512(_mm512_and_si512(c0[part], lower), _mm512_slli_epi64(c1[part], 32));
            __m512i b = _mm512_or_si512(_mm512_and_si512(c2[part], lower), _mm512_slli_epi64(c3[part], 32));
            uint32_t *to = made + 4 * (i + 8 * (size_t)part);
            _mm512_storeu_si512(to, _mm512_permutex2var_epi64(a, first, b));
            _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi64(a, second, b));
        }
    }
    philox_plain(key, low + i * low_step, low_step, high + i * high_step, high_step, made + 4 * i, count - i);
}

AVX2 static void philox_avx2(PARAMETERS)
{
    const __m256i factor0 = _mm256_set1_epi64x(FACTOR_0), factor1 = _mm256_set1_epi64x(FACTOR_1);
    const __m256i lower = _mm256_set1_epi64x(0xffffffff);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i c0[2], c1[2], c2[2], c3[2];
        uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
        for (int part = 0; part < 2; part++) {
            size_t at = i + 4 * (size_t)part;
            c0[part] = low_step ? _mm256_loadu_si256((const __m256i *)(low + at)) : _mm256_set1_epi64x((int64_t)low[0]);
            c2[part] = high_step ? _mm256_loadu_si256((const __m256i *)(high + at)) : _mm256_set1_epi64x((int64_t)high[0]);
            c1[part] = _mm256_srli_epi64(c0[part], 32);
            c3[part] = _mm256_srli_epi64(c2[part], 32);
        }
        for (int round = 0; round < 10; round++) {
            const __m256i key0 = _mm256_set1_epi64x(k0), key1 = _mm256_set1_epi64x(k1);
            for (int part = 0; part < 2; part++) {
                __m256i p0 = _mm256_mul_epu32(c0[part], factor0), p1 = _mm256_mul_epu32(c2[part], factor1);
                c0[part] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c1[part]), key0);
                c2[part] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c3[part]), key1);
                c1[part] = p1;
                c3[part] = p0;
            }
            k0 += KEY_STEP_0;
            k1 += KEY_STEP_1;
        }
        for (int part = 0; part < 2; part++) {
            __m256i a = _mm256_or_si256(_mm256_and_si256(c0[part], lower), _mm256_slli_epi64(c1[part], 32));
            __m256i b = _mm256_or_si256(_mm256_and_si256(c2[part], lower), _mm256_slli_epi64(c3[part], 32));
            __m256i even = _mm256_unpacklo_epi64(a, b), odd = _mm256_unpackhi_epi64(a, b); /* counters 0 2, and 1 3 */
            uint32_t *to = made + 4 * (i + 4 * (size_t)part);
            _mm256_storeu_si256((__m256i *)to, _mm256_permute2x128_si256(even, odd, 0x20));
            _mm256_storeu_si256((__m256i *)(to + 8), _mm256_permute2x128_si256(even, odd, 0x31));
        }
    }
    philox_plain(key, low + i * low_step, low_step, high + i * high_step, high_step, made + 4 * i, count - i);
}
#endif

EXPORT void ascend_native_philox(PARAMETERS)
{
#if defined(__x86_64__)
    if (ascend_native_chosen() == 2) {
        philox_avx512(key, low, low_step, high, high_step, made, count);
        return;
    }
    if (ascend_native_chosen() == 1) {
        philox_avx2(key, low, low_step, high, high_step, made, count);
        return;
    }
#endif
    philox_plain(key, low, low_step, high, high_step, made, count);
}
