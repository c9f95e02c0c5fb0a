/* Programs of one operation, or a few of the usual combinations, on floats of one type, with AVX-512: widened, computed and rounded in registers.
 *
 * A tile's way through the first-level cache takes twice as many instructions, which is what such programs of 16-bit numbers are
 * bound by; of float32, results can go past the caches so. Here they take as long as a copy does.
 */
#include "program.h"
#include "vectors.h"

#if defined(__x86_64__)

enum { ROOT_BELOW = 1000, GATED, LEAKY };  /* several operations each: y / sqrt(x), x * logistic(y), and x where it is positive, else y * x */

#define NUMBER(y) _mm512_set1_ps(y)
#define IS_NONE(x) _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q)
#define WHOLE_NUMBER(x, mode) _mm512_roundscale_ps(x, (mode) | _MM_FROUND_NO_EXC)
#define OR_NONE(x, bound) _mm512_mask_mov_ps(bound, IS_NONE(x), x)  /* the processor's maximum of a NaN and a number is the second one */

/* Each operation with its result of x and, where it has them, y and z. */
#define OF_TWO(macro)                                                \
    macro(ADD, _mm512_add_ps(x, y))                                  \
    macro(SUB, _mm512_sub_ps(x, y))                                  \
    macro(MUL, _mm512_mul_ps(x, y))                                  \
    macro(DIV, _mm512_div_ps(x, y))                                  \
    macro(MAXIMUM, OR_NONE(x, _mm512_max_ps(x, y)))                  \
    macro(MINIMUM, OR_NONE(x, _mm512_min_ps(x, y)))                  \
    macro(GATED, _mm512_mul_ps(x, logistic_of_vector(y)))
#define OF_ONE(macro)                                                \
    macro(ROOT_BELOW, _mm512_div_ps(y, _mm512_sqrt_ps(x)))           \
    macro(LEAKY, leaky(x, y))                                        \
    macro(CLIP, clipped(x, y, z))                                    \
    macro(SIGN, sign_of_vector(x))                                   \
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
    x = OR_NONE(x, _mm512_max_ps(x, low));
    return OR_NONE(x, _mm512_min_ps(x, high));
}

AVX512 INLINE __m512 leaky(__m512 x, __m512 slope)
{
    return _mm512_mask_mov_ps(_mm512_mul_ps(slope, x), _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_GT_OQ), x);
}

/* 1 with the sign, or nothing. */
AVX512 INLINE __m512 sign_of_vector(__m512 x)
{
    const __m512 one = _mm512_or_ps(_mm512_and_ps(x, NUMBER(-0.0f)), NUMBER(1.0f));
    return _mm512_mask_mov_ps(_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_NEQ_UQ), one), IS_NONE(x), x);
}

#define FUNCTION(name, expression) \
    AVX512 INLINE __m512 name##_of(__m512 x, __m512 y, __m512 z) { (void)y, (void)z; return expression; }
OF_TWO(FUNCTION)
OF_ONE(FUNCTION)

enum { AT_ONCE = 32 };  /* elements: two vectors of float32, which become one of 16 bits */
struct pair { __m512 low, high; };

/* Of 16-bit numbers rounding loses the payload of a NaN. */
AVX512 INLINE struct pair read(int type, const char *s)
{
    if (type == FLOAT32) return (struct pair){_mm512_loadu_ps(s), _mm512_loadu_ps(s + 64)};
    const __m256i low = _mm256_loadu_si256((const __m256i *)s), high = _mm256_loadu_si256((const __m256i *)(s + 32));
    if (type == FLOAT16) return (struct pair){_mm512_cvtph_ps(low), _mm512_cvtph_ps(high)};
    return (struct pair){widen_bf16_vector(low), widen_bf16_vector(high)};
}

AVX512 INLINE void write_vector(int streamed, char *d, __m512i v)
{
    if (streamed) _mm512_stream_si512((__m512i *)d, v);
    else _mm512_storeu_si512(d, v);
}

AVX512 INLINE void write(int type, int streamed, char *d, struct pair v)
{
    if (type == FLOAT32) {
        write_vector(streamed, d, _mm512_castps_si512(v.low));
        write_vector(streamed, d + 64, _mm512_castps_si512(v.high));
    } else {
        write_vector(streamed, d, type == FLOAT16 ? round_half_vectors(v.low, v.high) : round_bf16_vectors(v.low, v.high));
    }
}

#define CASES(name, second) \
    case name: \
        for (size_t i = 0; i < size * n; i += size * AT_ONCE) { \
            const struct pair x = read(type, a + i), y = second; \
            write(type, streamed, d + i, (struct pair){name##_of(x.low, y.low, z), name##_of(x.high, y.high, z)}); \
        } \
        break;
#define OF_ARRAYS(name, expression) CASES(name, read(type, b + i))
#define OF_NUMBERS(name, expression) CASES(name, numbers)

AVX512 INLINE void each(int type, int streamed, const struct single *single, const char *a, const char *b, char *d, size_t n)
{
    const struct pair numbers = {NUMBER(single->y), NUMBER(single->y)};
    const __m512 z = NUMBER(single->z);
    const size_t size = type == FLOAT32 ? 4 : 2;
    if (single->b >= 0)
        switch (single->operation) { OF_TWO(OF_ARRAYS) }
    else
        switch (single->operation) { OF_TWO(OF_NUMBERS) OF_ONE(OF_NUMBERS) }
}

#define EACH_ARGUMENTS const struct single *single, const char *a, const char *b, char *d, size_t n
#define EACH(type) \
    AVX512 static void each_##type(EACH_ARGUMENTS) { each(type, 0, single, a, b, d, n); } \
    AVX512 static void each_##type##_streamed(EACH_ARGUMENTS) { each(type, 1, single, a, b, d, n); }
EACH(FLOAT32)
EACH(FLOAT16)
EACH(BFLOAT16)

typedef void Each(EACH_ARGUMENTS);

/* Fewer elements than a turn of the loop has. */
static void few(Each *run, const struct single *single, size_t size, const char *a, const char *b, char *d, size_t n)
{
    char padded[3][4 * AT_ONCE] = {{0}};
    if (n == 0) return;
    memcpy(padded[0], a, size * n);
    memcpy(padded[1], b, size * n);
    run(single, padded[0], padded[1], padded[2], AT_ONCE);
    memcpy(d, padded[2], size * n);
}

void ascend_native_run_single(const struct single *single, char *const *at, size_t n)
{
    static Each *const runs[][2] = {
        [FLOAT32] = {each_FLOAT32, each_FLOAT32_streamed},
        [FLOAT16] = {each_FLOAT16, each_FLOAT16_streamed},
        [BFLOAT16] = {each_BFLOAT16, each_BFLOAT16_streamed},
    };
    Each *const run = runs[single->type][0];
    const size_t size = single->type == FLOAT32 ? 4 : 2;
    const char *a = at[single->a], *b = at[single->b < 0 ? single->a : single->b];
    char *d = at[single->target];
    size_t first = 0;  /* up to a whole line of the cache */
    const int streamed = single->streamed && (uintptr_t)d % size == 0;
    if (streamed) {
        first = (64 - ((uintptr_t)d & 63)) % 64 / size;
        if (first > n) first = n;
        few(run, single, size, a, b, d, first);
    }
    const size_t whole = (n - first) / AT_ONCE * AT_ONCE, last = first + whole, from = size * first;
    runs[single->type][streamed](single, a + from, b + from, d + from, whole);
    few(run, single, size, a + size * last, b + size * last, d + size * last, n - last);
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
    if (count == 3 && p->operation == LESS && q->operation == MUL && q[1].operation == SELECT && IS_NUMBER(p->a) && IS_NUMBER(q->a)
        && constants[p->a] == 0 && q->b == p->b && q[1].a == p->target && q[1].b == p->b && q[1].c == q->target) {
        found->operation = LEAKY, found->a = p->b, found->y = constants[q->a];
        return !IS_NUMBER(p->b);
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
    if (ascend_native_chosen() != 2 || loads == 0 || loads > 2 || count < loads + 2 || count > loads + 4) return 0;
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
        if (operands[used[k]].type != found->type || operands[used[k]].steps[DIMS - 1] != (found->type == FLOAT32 ? 4 : 2)) return 0;
    const int long_ones = found->operation == EXP || found->operation == LOGISTIC || found->operation == LOG || found->operation == GATED;
    if (found->type == FLOAT32) return !long_ones;  /* a tile at a time takes them no longer, and waits less for memory */
    return found->type == FLOAT16 || found->type == BFLOAT16;
}

/* ------------------------------------------------------------------------------------------------ chains */

enum { QUAD = 64 };  /* elements at a time: four vectors, whose operations do not wait for each other */

AVX512 INLINE void fetch(int type, const char *s, const __mmask16 *some, __m512 *v)
{
    if (type == FLOAT32) {
        for (int k = 0; k < 4; k++) v[k] = _mm512_maskz_loadu_ps(some[k], s + 64 * k);
    } else if (type == FLOAT16) {
        for (int k = 0; k < 4; k++) v[k] = _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(some[k], s + 32 * k));
    } else {
        for (int k = 0; k < 4; k++) v[k] = widen_bf16_vector(_mm256_maskz_loadu_epi16(some[k], s + 32 * k));
    }
}

#define STEP_OF_TWO(name, expression)                                      \
    case name:                                                             \
        if (s->turned) for (int k = 0; k < 4; k++) v[k] = name##_of(y[k], v[k], z); \
        else for (int k = 0; k < 4; k++) v[k] = name##_of(v[k], y[k], z);  \
        break;
#define STEP_OF_ONE(name, expression)                                      \
    case name:                                                             \
        for (int k = 0; k < 4; k++) v[k] = name##_of(v[k], y[k], z);       \
        break;

/* n elements from i on, at most QUAD. */
AVX512 INLINE void one_quad(const struct chain *chain, const struct operand *operands, char *const *at, size_t i, size_t n, int type,
                            char *to, int streamed)
{
    __m512 v[4], y[4], factors[4];
    __mmask16 some[4];
    for (size_t k = 0; k < 4; k++) some[k] = (__mmask16)(n >= 16 * k + 16 ? 0xffffu : n > 16 * k ? (1u << (n - 16 * k)) - 1 : 0);
#define OPERAND(o, into) fetch((int)operands[o].type, at[o] + i * (operands[o].type == FLOAT32 ? 4 : 2), some, into)
    OPERAND(chain->first, v);
    for (const struct step *s = chain->steps; s < chain->steps + chain->count; s++) {
        const __m512 z = NUMBER(s->other);
        if (s->operand >= 0) OPERAND(s->operand, y);
        else for (int k = 0; k < 4; k++) y[k] = NUMBER(s->number);
        if (s->times >= 0) {
            OPERAND(s->times, factors);
            for (int k = 0; k < 4; k++) y[k] = _mm512_mul_ps(y[k], factors[k]);
        }
        switch (s->operation) { OF_TWO(STEP_OF_TWO) OF_ONE(STEP_OF_ONE) }
    }
#undef OPERAND
    for (int k = 0; k < 4 && type == FLOAT32; k++)
        if (streamed) _mm512_stream_ps((float *)to + 16 * k, v[k]);
        else _mm512_mask_storeu_ps((float *)to + 16 * k, some[k], v[k]);
    for (int k = 0; k < 4 && type != FLOAT32; k += 2) {
        const __m512i codes = type == FLOAT16 ? round_half_vectors(v[k], v[k + 1]) : round_bf16_vectors(v[k], v[k + 1]);
        if (streamed) _mm512_stream_si512((__m512i *)(to + 32 * k), codes);
        else _mm512_mask_storeu_epi16(to + 32 * k, (__mmask32)some[k] | (__mmask32)some[k + 1] << 16, codes);
    }
}

AVX512 static float number_at(const struct operand *o, const char *at)
{
    __m512 v[4];
    const __mmask16 one[4] = {1, 0, 0, 0};
    fetch((int)o->type, at, one, v);
    return _mm512_cvtss_f32(v[0]);
}

AVX512 void ascend_native_run_chain(const struct chain *given, const struct operand *operands, char *const *at, size_t start, size_t n,
                                    int type, char *to, int streamed)
{
    struct chain chain = *given;
    for (struct step *s = chain.steps; s < chain.steps + chain.count; s++) {  /* numbers of the row */
        if (s->times >= 0 && operands[s->times].steps[DIMS - 1] == 0) {
            const int32_t operand = s->operand;
            s->operand = s->times, s->times = operand;
        }
        if (s->operand < 0 || operands[s->operand].steps[DIMS - 1] != 0) continue;
        s->number = number_at(&operands[s->operand], at[s->operand]);
        s->operand = -1;
        if (s->times < 0 || operands[s->times].steps[DIMS - 1] != 0) continue;
        s->number *= number_at(&operands[s->times], at[s->times]);
        s->times = -1;
    }
    const size_t size = type == FLOAT32 ? 4 : 2, end = start + n;
    size_t i = start;
    streamed = streamed && (uintptr_t)to % size == 0;
    if (streamed) {  /* up to a whole line of the cache */
        size_t few = (64 - ((uintptr_t)to & 63)) % 64 / size;
        few = few < n ? few : n;
        if (few) one_quad(&chain, operands, at, i, few, type, to, 0);
        i += few;
    }
    if (streamed) for (; i + QUAD <= end; i += QUAD) one_quad(&chain, operands, at, i, QUAD, type, to + (i - start) * size, 1);
    else for (; i + QUAD <= end; i += QUAD) one_quad(&chain, operands, at, i, QUAD, type, to + (i - start) * size, 0);
    if (i < end) one_quad(&chain, operands, at, i, end - i, type, to + (i - start) * size, 0);
}

static int is_narrow_or_float(const struct operand *o) { return o->type == FLOAT32 || o->type == FLOAT16 || o->type == BFLOAT16; }
static int in_a_row(const struct operand *o) { return is_narrow_or_float(o) && o->steps[DIMS - 1] == (o->type == FLOAT32 ? 4 : 2); }

enum { REGISTERS = 64, NO_OPERAND = -1, RESULT = -2, CONSTANT = -3 };

/* What a register holds: an operand, or one of the above. */
struct search { const int32_t *loaded; const float *constants; size_t constant_count; int32_t result; struct chain *chain; };

static int32_t holds(const struct search *s, int32_t r)
{
    if (r < 0 || r >= REGISTERS) return NO_OPERAND;
    if ((size_t)r < s->constant_count) return CONSTANT;
    return r == s->result ? RESULT : s->loaded[r];
}

/* Adds a step with the register of its other operand, or -1, and of that one's factor, or -1; 0 where it cannot. */
static int add_step(struct search *s, int operation, int turned, int32_t r, int32_t factor)
{
    struct chain *c = s->chain;
    if (c->count == MOST_STEPS) return 0;
    struct step *step = &c->steps[c->count++];
    *step = (struct step){operation, turned, -1, -1, 0, 0};
    if (r < 0) return 1;
    const int32_t held = holds(s, r), times = factor < 0 ? NO_OPERAND : holds(s, factor);
    if (held == CONSTANT) step->number = s->constants[r];
    else if (held >= 0) step->operand = held;
    else return 0;
    if (factor < 0) return 1;
    step->times = times;
    return held >= 0 && times >= 0;
}

/* One instruction on the result so far. */
static int add_instruction(struct search *s, const struct instruction *p)
{
    const int first = p->a == s->result, second = p->b == s->result;
    switch (p->operation) {
    case ADD: case SUB: case MUL: case DIV: case MAXIMUM: case MINIMUM:
        if (first && second) return p->operation == MUL && add_step(s, SQUARE, 0, -1, -1);
        return (first || second) && add_step(s, p->operation, second, first ? p->b : p->a, -1);
    case MULTIPLY_ADD:  /* rounded twice */
        if (first + second + (p->c == s->result) != 1) return 0;
        if (p->c == s->result) return add_step(s, ADD, 1, p->a, p->b);
        return add_step(s, MUL, 0, first ? p->b : p->a, -1) && add_step(s, ADD, 0, p->c, -1);
    case CLIP:
        if (!first || holds(s, p->b) != CONSTANT || holds(s, p->c) != CONSTANT || !add_step(s, CLIP, 0, p->b, -1)) return 0;
        s->chain->steps[s->chain->count - 1].other = s->constants[p->c];
        return 1;
    case SIGN: case NEGATIVE: case ABSOLUTE: case SQRT: case SQUARE: case RECIPROCAL: case RINT: case FLOOR: case CEIL: case TRUNC:
    case EXP: case LOGISTIC: case LOG: return first && add_step(s, p->operation, 0, -1, -1);
    }
    return 0;
}

void ascend_native_find_chain(const struct instruction *code, size_t count, const float *constants, size_t constant_count,
                              const struct operand *operands, struct chain *found)
{
    int32_t loaded[REGISTERS];
    struct search s = {loaded, constants, constant_count, NO_OPERAND, found};
    int stores = 0, ended = 0;
    *found = (struct chain){.first = -1, .store = -1};
    if (ascend_native_chosen() != 2) return;
    for (size_t k = 0; k < REGISTERS; k++) loaded[k] = NO_OPERAND;
    for (const struct instruction *p = code; p < code + count; p++) {
        if (p->operation == LOAD) {
            const struct operand *o = &operands[p->target];
            if (p->c >= REGISTERS || !is_narrow_or_float(o) || (o->steps[DIMS - 1] != 0 && !in_a_row(o))) goto none;
            loaded[p->c] = p->target;
        } else if (p->operation == STORE) {
            if (p->a != s.result || stores++ || !in_a_row(&operands[p->target])) goto none;
            found->store = p->target, ended = 1;
        } else if (p->operation >= ROW_SUM) {
            if (p->a != s.result || found->reduce != NULL) goto none;
            found->reduce = p, ended = 1;
        } else {
            if (s.result < 0) {  /* the first operation begins with an operand that has all elements */
                const int32_t of[] = {p->a, p->b, p->c};
                for (int k = 0; k < 3 && s.result < 0; k++) {
                    const int32_t held = holds(&s, of[k]);
                    if (held >= 0 && operands[held].steps[DIMS - 1] != 0) s.result = of[k], found->first = held;
                }
            }
            if (ended || s.result < 0 || !add_instruction(&s, p)) goto none;
            s.result = p->target;
        }
    }
    if (found->count && ended && (found->reduce == NULL || found->store < 0 || operands[found->store].type == FLOAT32)) return;
none:
    found->count = 0;
}

#else

void ascend_native_find_chain(const struct instruction *code, size_t count, const float *constants, size_t constant_count,
                              const struct operand *operands, struct chain *found)
{
    (void)code, (void)count, (void)constants, (void)constant_count, (void)operands;
    found->count = 0;
}

void ascend_native_run_chain(const struct chain *chain, const struct operand *operands, char *const *at, size_t start, size_t n,
                             int type, char *to, int streamed)
{
    (void)chain, (void)operands, (void)at, (void)start, (void)n, (void)type, (void)to, (void)streamed;
}

int ascend_native_find_single(const struct instruction *code, size_t count, const float *constants, size_t constant_count,
                              const struct operand *operands, struct single *found)
{
    (void)code, (void)count, (void)constants, (void)constant_count, (void)operands, (void)found;
    return 0;
}

void ascend_native_run_single(const struct single *single, char *const *at, size_t n) { (void)single, (void)at, (void)n; }

#endif
