/* Programs of one operation on 16-bit numbers, with AVX-512: widened, computed and rounded in registers.
 *
 * A tile's way through the first-level cache takes twice as many instructions, which is what such programs are bound by: here
 * they take as long as a copy does.
 */
#include "program.h"
#include "vectors.h"

#if defined(__x86_64__)

enum { ROOT_BELOW = 1000, GATED };  /* two operations each: y / sqrt(x), and x * logistic(y) */

#define NUMBER(y) _mm512_set1_ps(y)
#define IS_NONE(x) _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q)
#define WHOLE_NUMBER(x, mode) _mm512_roundscale_ps(x, (mode) | _MM_FROUND_NO_EXC)
#define BOUND(x, y, order) _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, y, order) | IS_NONE(x), x)

/* Each operation with its result of x and, where it has them, y and z. */
#define OF_TWO(macro)                                                \
    macro(ADD, _mm512_add_ps(x, y))                                  \
    macro(SUB, _mm512_sub_ps(x, y))                                  \
    macro(MUL, _mm512_mul_ps(x, y))                                  \
    macro(DIV, _mm512_div_ps(x, y))                                  \
    macro(MAXIMUM, BOUND(x, y, _CMP_GT_OQ))                          \
    macro(MINIMUM, BOUND(x, y, _CMP_LT_OQ))                          \
    macro(GATED, _mm512_mul_ps(x, logistic_of_vector(y)))
#define OF_ONE(macro)                                                \
    macro(ROOT_BELOW, _mm512_div_ps(y, _mm512_sqrt_ps(x)))           \
    macro(CLIP, clipped(x, y, z))                                    \
    macro(NEGATIVE, _mm512_xor_ps(x, NUMBER(-0.0f)))                 \
    macro(ABSOLUTE, _mm512_andnot_ps(NUMBER(-0.0f), x))              \
    macro(SQRT, _mm512_sqrt_ps(x))                                   \
    macro(SQUARE, _mm512_mul_ps(x, x))                               \
    macro(RECIPROCAL, _mm512_div_ps(NUMBER(1.0f), x))                \
    macro(RINT, WHOLE_NUMBER(x, _MM_FROUND_TO_NEAREST_INT))          \
    macro(FLOOR, WHOLE_NUMBER(x, _MM_FROUND_TO_NEG_INF))             \
    macro(CEIL, WHOLE_NUMBER(x, _MM_FROUND_TO_POS_INF))              \
    macro(TRUNC, WHOLE_NUMBER(x, _MM_FROUND_TO_ZERO))                \
    macro(EXP, exp_of_vector(x))                                     \
    macro(LOGISTIC, logistic_of_vector(x))                           \
    macro(LOG, log_of_vector(x))

AVX512 INLINE __m512 clipped(__m512 x, __m512 low, __m512 high)
{
    x = BOUND(x, low, _CMP_GT_OQ);
    return BOUND(x, high, _CMP_LT_OQ);
}

#define FUNCTION(name, expression) \
    AVX512 INLINE __m512 name##_of(__m512 x, __m512 y, __m512 z) { (void)y, (void)z; return expression; }
OF_TWO(FUNCTION)
OF_ONE(FUNCTION)

/* Rounding loses the payload of a NaN. */
AVX512 INLINE __m512 read(int type, const uint16_t *s)
{
    __m256i codes = _mm256_loadu_si256((const __m256i *)s);
    return type == FLOAT16 ? _mm512_cvtph_ps(codes) : widen_bf16_vector(codes);
}

AVX512 INLINE void write(int type, uint16_t *d, __m512 v, __m512 w)
{
    _mm512_storeu_si512(d, type == FLOAT16 ? round_half_vectors(v, w) : round_bf16_vectors(v, w));
}

enum { AT_ONCE = 32 };

#define CASES(name, low, high) \
    case name: \
        for (size_t i = 0; i < n; i += AT_ONCE) \
            write(type, d + i, name##_of(read(type, a + i), low, z), name##_of(read(type, a + i + 16), high, z)); \
        break;
#define OF_ARRAYS(name, expression) CASES(name, read(type, b + i), read(type, b + i + 16))
#define OF_NUMBERS(name, expression) CASES(name, y, y)

AVX512 INLINE void each(int type, const struct single *single, const uint16_t *a, const uint16_t *b, uint16_t *d, size_t n)
{
    const __m512 y = NUMBER(single->y), z = NUMBER(single->z);
    if (single->b >= 0)
        switch (single->operation) { OF_TWO(OF_ARRAYS) }
    else
        switch (single->operation) { OF_TWO(OF_NUMBERS) OF_ONE(OF_NUMBERS) }
}

AVX512 static void each_half(const struct single *s, const uint16_t *a, const uint16_t *b, uint16_t *d, size_t n)
{
    each(FLOAT16, s, a, b, d, n);
}

AVX512 static void each_bf16(const struct single *s, const uint16_t *a, const uint16_t *b, uint16_t *d, size_t n)
{
    each(BFLOAT16, s, a, b, d, n);
}

void ascend_native_run_single(const struct single *single, char *const *at, size_t n)
{
    void (*const run)(const struct single *, const uint16_t *, const uint16_t *, uint16_t *, size_t) =
        single->type == FLOAT16 ? each_half : each_bf16;
    const uint16_t *a = (const uint16_t *)at[single->a], *b = (const uint16_t *)at[single->b < 0 ? single->a : single->b];
    uint16_t *d = (uint16_t *)at[single->target];
    size_t whole = n - n % AT_ONCE, rest = n - whole;
    run(single, a, b, d, whole);
    if (rest == 0) return;
    uint16_t last[3][AT_ONCE] = {{0}};
    memcpy(last[0], a + whole, 2 * rest);
    memcpy(last[1], b + whole, 2 * rest);
    run(single, last[0], last[1], last[2], AT_ONCE);
    memcpy(d + whole, last[2], 2 * rest);
}

#define NAMED(name, expression) case name:

/* What the instructions between the first loads and the last store do; 0 where it is nothing of the above. `a` and `b` become
 * registers, b is -1 where there is only one. */
static int found_operation(const struct instruction *p, size_t count, const float *constants, size_t constant_count,
                           struct single *found)
{
    const struct instruction *q = p + 1;
#define IS_NUMBER(r) ((r) >= 0 && (size_t)(r) < constant_count)
    *found = (struct single){.operation = p->operation, .a = p->a, .b = -1};
    if (count == 2 && p->operation == SQRT && q->operation == DIV && IS_NUMBER(q->a) && q->b == p->target) {
        found->operation = ROOT_BELOW, found->y = constants[q->a];
        return 1;
    }
    if (count == 2 && p->operation == LOGISTIC && q->operation == MUL && (q->a == p->target) != (q->b == p->target)) {
        found->operation = GATED, found->a = q->a == p->target ? q->b : q->a, found->b = p->a;
        return !IS_NUMBER(found->a);
    }
    if (count == 2 && p->operation == MAXIMUM && q->operation == MINIMUM && q->a == p->target && IS_NUMBER(p->b) && IS_NUMBER(q->b)) {
        found->operation = CLIP, found->y = constants[p->b], found->z = constants[q->b];
        return 1;
    }
    if (count != 1) return 0;
    switch (p->operation) {
    OF_TWO(NAMED)
        if (IS_NUMBER(p->b)) found->y = constants[p->b];
        else found->b = p->b;
        return !IS_NUMBER(p->a);
    OF_ONE(NAMED)
        if (p->operation == CLIP) {
            if (!IS_NUMBER(p->b) || !IS_NUMBER(p->c)) return 0;
            found->y = constants[p->b], found->z = constants[p->c];
        }
        return 1;
    }
    return 0;
#undef IS_NUMBER
}

int ascend_native_find_single(const struct instruction *code, size_t count, const float *constants, size_t constant_count,
                              const struct operand *operands, struct single *found)
{
    size_t loads = 0;
    while (loads < count && code[loads].operation == LOAD) loads++;
    if (ascend_native_chosen() != 2 || loads == 0 || loads > 2 || count < loads + 2 || count > loads + 3) return 0;
    const struct instruction *last = &code[count - 1];
    if (last->operation != STORE || last->a != last[-1].target) return 0;
    if (!found_operation(code + loads, count - loads - 1, constants, constant_count, found)) return 0;
    int32_t of[2] = {-1, -1}, registers[2] = {found->a, found->b};
    for (size_t k = 0; k < 2; k++)
        for (size_t load = 0; load < loads; load++)
            if (registers[k] == code[load].c) of[k] = code[load].target;
    found->type = (int)operands[last->target].type, found->target = last->target, found->a = of[0];
    if (of[0] < 0 || (found->b >= 0 && of[1] < 0)) return 0;
    found->b = of[1];
    const int32_t used[] = {found->a, of[1] < 0 ? of[0] : of[1], found->target};
    for (size_t k = 0; k < 3; k++)
        if (operands[used[k]].type != found->type || operands[used[k]].steps[DIMS - 1] != 2) return 0;
    return found->type == FLOAT16 || found->type == BFLOAT16;
}

#else

int ascend_native_find_single(const struct instruction *code, size_t count, const float *constants, size_t constant_count,
                              const struct operand *operands, struct single *found)
{
    (void)code, (void)count, (void)constants, (void)constant_count, (void)operands, (void)found;
    return 0;
}

void ascend_native_run_single(const struct single *single, char *const *at, size_t n) { (void)single, (void)at, (void)n; }

#endif
