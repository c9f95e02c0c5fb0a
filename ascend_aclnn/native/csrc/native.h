/* Declarations that the files of the compiled helper share. */
#ifndef ASCEND_NATIVE_H
#define ASCEND_NATIVE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2,f16c,fma")))
#if defined(__clang__)
#define WHOLE_REGISTERS "" /* clang has no such target: it would ignore the whole attribute */
#else
#define WHOLE_REGISTERS ",prefer-vector-width=512"
#endif
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c,fma" WHOLE_REGISTERS)))
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* A macro for each instruction set, with its name and attribute, and the functions that it has made, as `chosen` counts them. */
#if defined(__x86_64__)
#define FOR_EACH_SET(macro) macro(plain, ) macro(avx2, AVX2) macro(avx512, AVX512)
#define OF_EACH_SET(function) function##_plain, function##_avx2, function##_avx512
#elif defined(__aarch64__)  /* each has NEON: nothing is plain */
#define FOR_EACH_SET(macro) macro(neon, )
#define OF_EACH_SET(function) function##_neon
#else
#define FOR_EACH_SET(macro) macro(plain, )
#define OF_EACH_SET(function) function##_plain
#endif

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

/* An operation may write over one of its operands: element by element, so that no turn of the loop needs another's result. */
#if defined(__clang__)
#define FOR _Pragma("clang loop vectorize(assume_safety)") for (size_t i = 0; i < n; i++)
#else
#define FOR _Pragma("GCC ivdep") for (size_t i = 0; i < n; i++)
#endif

INLINE uint32_t bits_of(float x) { uint32_t b; memcpy(&b, &x, 4); return b; }
INLINE float float_of(uint32_t b) { float x; memcpy(&x, &b, 4); return x; }

/* Rows of elements: their number, the elements in each, the distance between rows in bytes. */
#define ARGUMENTS const void *source, void *target, size_t rows, size_t columns, ptrdiff_t source_step, ptrdiff_t target_step
typedef void Convert(ARGUMENTS);

/* The conversions. Python reads their numbers from ascend_native_conversion. */
enum {
    WIDEN_HALF, ROUND_HALF, WIDEN_BF16, ROUND_BF16, ROUND_E4M3FN, ROUND_E5M2,
    WIDEN_E8M0, ROUND_E8M0, ROUND_INT8, ROUND_UINT8, ROUND_INT16, ROUND_INT32,
    ROUND_DOUBLE_HALF, ROUND_DOUBLE_BF16,
    CONVERSIONS
};

/* The number of the instruction set in use, in the order of FOR_EACH_SET. */
int ascend_native_chosen(void);

EXPORT void ascend_native_convert(int conversion, ARGUMENTS);

/* Float64 sums: of each row of float32 into target; of each column of floats of a type onto target. */
EXPORT void ascend_native_sum(const void *source, double *target, size_t rows, size_t columns, ptrdiff_t step);
EXPORT void ascend_native_add_columns(int type, const char *source, double *target, size_t rows, size_t columns, ptrdiff_t step);

/* The data types that a conversion reads and writes, as NumPy names them: "float16 float32"; NULL behind the last one. */
EXPORT const char *ascend_native_conversion(int conversion);

#endif
