/* Elements that are chosen: the largest of rows, and those under a mask. */
#include "program.h"

#include <math.h>

enum { BLOCK = 64, MOST_LANES = 256, MOST_CHOSEN = 64 };

/* Ordered as numbers: -0 is 0, NaN above all others. `turned` is -1 for the opposite order, else 0. */
INLINE int32_t code_of(float x, int32_t turned)
{
    const int32_t b = (int32_t)(x != x ? 0x7fc00000u : bits_of(x + 0.0f));
    return (b ^ ((b >> 31) & 0x7fffffff)) ^ turned;
}

struct chosen { size_t count, most; int32_t codes[MOST_CHOSEN]; int64_t places[MOST_CHOSEN]; };

/* Puts an element behind those that are not smaller; beyond the most that are wanted the last one is dropped. */
INLINE void insert(struct chosen *c, int32_t code, int64_t place)
{
    size_t i = c->count < c->most ? c->count++ : c->most - 1;
    for (; i > 0 && c->codes[i - 1] < code; i--) c->codes[i] = c->codes[i - 1], c->places[i] = c->places[i - 1];
    c->codes[i] = code, c->places[i] = place;
}

/* A code that `most` elements of a long row reach: the last of so many largest numbers among the largest of its columns. */
INLINE int32_t least_chosen(const float *x, size_t n, size_t most, int32_t turned)
{
    const size_t lanes = most <= MOST_CHOSEN / 4 ? MOST_LANES / 4 : MOST_LANES;
    float largest[MOST_LANES];
    struct chosen c = {.most = most};
    if (n < 4 * lanes) return INT32_MIN;
    for (size_t k = 0; k < lanes; k++) largest[k] = turned ? NAN : -INFINITY;
    for (size_t start = 0; start + lanes <= n; start += lanes)
        if (turned) for (size_t k = 0; k < lanes; k++) largest[k] = !(x[start + k] >= largest[k]) ? x[start + k] : largest[k];
        else for (size_t k = 0; k < lanes; k++) largest[k] = x[start + k] > largest[k] ? x[start + k] : largest[k];
    for (size_t k = 0; k < lanes; k++) {
        const int32_t code = code_of(largest[k], turned);
        if (c.count < most || code > c.codes[most - 1]) insert(&c, code, 0);
    }
    return c.codes[most - 1];
}

/* Whether a block may have an element that is not beyond `limit`: one that is, or a NaN. */
INLINE int32_t any_within(const float *x, float limit, int32_t turned)
{
    int32_t any = 0;
    if (turned) for (size_t k = 0; k < BLOCK; k++) any |= !(x[k] > limit);
    else for (size_t k = 0; k < BLOCK; k++) any |= !(x[k] < limit);
    return any;
}

INLINE void choose(const float *x, size_t n, size_t most, int32_t turned, int64_t *places)
{
    struct chosen c = {.most = most};
    int32_t least = least_chosen(x, n, most, turned);
    for (size_t start = 0; start < n; start += BLOCK) {
        const size_t end = start + BLOCK < n ? start + BLOCK : n;
        const int32_t limit = least ^ turned;  /* code_of, back again: NaN, which nothing is beyond, where all are wanted */
        if (end - start == BLOCK && !any_within(x + start, float_of((uint32_t)(limit ^ ((limit >> 31) & 0x7fffffff))), turned)) continue;
        for (size_t k = start; k < end; k++) {
            const int32_t code = code_of(x[k], turned);
            if (code < least) continue;
            insert(&c, code, (int64_t)k);
            if (c.count == most) least = c.codes[most - 1] + 1;
        }
    }
    memcpy(places, c.places, most * sizeof *places);
}

#define CHOOSE_ARGUMENTS const float *x, size_t rows, size_t columns, size_t most, int32_t turned, int64_t *places
#define CHOOSE(name, attribute)                                                                                          \
    attribute static void choose_##name(CHOOSE_ARGUMENTS)                                                                \
    {                                                                                                                    \
        for (size_t r = 0; r < rows; r++) choose(x + r * columns, columns, most, turned, places + r * most);             \
    }

FOR_EACH_SET(CHOOSE)

/* Where the largest elements of each row are (the smallest with `turned` = -1), of equal ones the first; at most 64 and
 * as many as a row has. */
EXPORT void ascend_native_choose(CHOOSE_ARGUMENTS)
{
    static void (*const sets[])(CHOOSE_ARGUMENTS) = {OF_EACH_SET(choose)};
    sets[ascend_native_chosen()](x, rows, columns, most, turned, places);
}

#define FILL_ARGUMENTS size_t size, const uint8_t *mask, uint64_t value, void *target, size_t n
#define FILL_WITH(bits) { uint##bits##_t *t = target; FOR t[i] = mask[i] ? (uint##bits##_t)value : t[i]; } break
#define FILL(name, attribute)                                                                                            \
    attribute static void fill_##name(FILL_ARGUMENTS)                                                                    \
    {                                                                                                                    \
        switch (size) {                                                                                                  \
        case 1: FILL_WITH(8);                                                                                            \
        case 2: FILL_WITH(16);                                                                                           \
        case 4: FILL_WITH(32);                                                                                           \
        case 8: FILL_WITH(64);                                                                                           \
        }                                                                                                                \
    }

FOR_EACH_SET(FILL)

/* Elements of 1, 2, 4 or 8 bytes become `value` where the mask is not 0. */
EXPORT void ascend_native_fill(FILL_ARGUMENTS)
{
    static void (*const sets[])(FILL_ARGUMENTS) = {OF_EACH_SET(fill)};
    sets[ascend_native_chosen()](size, mask, value, target, n);
}

enum { LINE = 64 };

/* Bytes `at` to `end` of a row, of which those from `from` to `to` are copied and the others become 0. */
INLINE void part_of_row(const char *s, char *d, size_t at, size_t end, size_t from, size_t to)
{
    for (; at < end; at++) d[at] = at >= from && at < to ? s[at] : 0;
}

#define TRIANGLE_ARGUMENTS                                                                                               \
    const char *source, char *target, size_t first, size_t last, size_t height, size_t width, size_t size,               \
        int64_t diagonal, int upper

/* Each line of the target is written once, where a copy and zeros beside it would share lines and begin anywhere in them. The
 * empty assembly keeps the compiler from calling memset and memcpy for the loops: of few bytes these are slower. */
#define TRIANGLE(name, attribute)                                                                                        \
    attribute static void triangle_##name(TRIANGLE_ARGUMENTS)                                                            \
    {                                                                                                                    \
        const size_t bytes = width * size;                                                                               \
        for (size_t row = first; row < last; row++) {                                                                    \
            const int64_t column = (int64_t)(row % height) + diagonal + !upper;                                          \
            const size_t cut = (column < 0 ? 0 : column > (int64_t)width ? width : (size_t)column) * size;               \
            const size_t from = upper ? cut : 0, to = upper ? bytes : cut;                                               \
            const char *s = source + row * bytes;                                                                        \
            char *d = target + row * bytes;                                                                              \
            size_t at = -(uintptr_t)d % LINE;                                                                            \
            if (at > bytes) at = bytes;                                                                                  \
            part_of_row(s, d, 0, at, from, to);                                                                          \
            for (int turn = 0; turn < 2; turn++) {                                                                       \
                const size_t end = turn ? bytes : cut;                                                                   \
                if ((turn == 0) == upper)                                                                                \
                    for (; at + LINE <= end; at += LINE) { memset(d + at, 0, LINE); __asm__ volatile(""); }              \
                else                                                                                                     \
                    for (; at + LINE <= end; at += LINE) { memcpy(d + at, s + at, LINE); __asm__ volatile(""); }         \
                const size_t mixed = at + LINE <= bytes ? at + LINE : bytes;                                             \
                if (turn == 0 && at < cut) { part_of_row(s, d, at, mixed, from, to); at = mixed; }                       \
            }                                                                                                            \
            part_of_row(s, d, at, bytes, from, to);                                                                      \
        }                                                                                                                \
    }

FOR_EACH_SET(TRIANGLE)

/* Rows `first` to `last` of matrices of `height` x `width` elements of `size` bytes, one behind the other: what lies on and above
 * (or below) a diagonal, zeros elsewhere. The target may be the source. */
EXPORT void ascend_native_triangle(TRIANGLE_ARGUMENTS)
{
    static void (*const sets[])(TRIANGLE_ARGUMENTS) = {OF_EACH_SET(triangle)};
    sets[ascend_native_chosen()](source, target, first, last, height, width, size, diagonal, upper);
}
