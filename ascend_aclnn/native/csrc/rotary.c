/* Rotary position embedding of halves: each element times its cosine, and the element of the other half times its sine. */
#include "program.h"

#define ROTARY_ARGUMENTS                                                                                                 \
    int type, const char *x, const char *cosines, const char *sines, char *target, size_t rows, size_t positions, size_t size
#define ROTARY(name, attribute)                                                                                          \
    attribute static void rotary_##name(ROTARY_ARGUMENTS)                                                                \
    {                                                                                                                    \
        static const int widen[] = {0, WIDEN_HALF, WIDEN_BF16}, round[] = {0, ROUND_HALF, ROUND_BF16};                   \
        const size_t bytes = size * (type == FLOAT32 ? 4 : 2), half = size / 2, n = half;                                \
        float wide[3][TILE], made[TILE];                                                                                 \
        for (size_t row = 0, some; row < rows; row += some) {                                                            \
            const size_t position = row % positions, left = positions - position;                                        \
            some = TILE / size < left ? TILE / size : left;                                                              \
            if (some > rows - row) some = rows - row;                                                                    \
            const char *from[3] = {x + row * bytes, cosines + position * bytes, sines + position * bytes};               \
            const float *wider[3];                                                                                       \
            for (int k = 0; k < 3; k++) {                                                                                \
                wider[k] = type == FLOAT32 ? (const float *)from[k] : wide[k];                                           \
                if (type != FLOAT32) ascend_native_convert(widen[type], from[k], wide[k], 1, some * size, 0, 0);         \
            }                                                                                                            \
            for (size_t r = 0; r < some; r++) {                                                                          \
                const float *a = wider[0] + r * size, *b = a + half, *c = wider[1] + r * size, *s = wider[2] + r * size; \
                float *d = made + r * size;                                                                              \
                FOR d[i] = a[i] * c[i] + -b[i] * s[i];                                                                   \
                FOR d[half + i] = b[i] * c[half + i] + a[i] * s[half + i];                                               \
            }                                                                                                            \
            if (type == FLOAT32) memcpy(target + row * bytes, made, some * bytes);                                       \
            else ascend_native_convert(round[type], made, target + row * bytes, 1, some * size, 0, 0);                   \
        }                                                                                                                \
    }

FOR_EACH_SET(ROTARY)

/* Contiguous rows of an even size of at most 1024, of float32, float16 or bfloat16; row r has position r % positions. */
EXPORT void ascend_native_rotary(ROTARY_ARGUMENTS)
{
    static void (*const sets[])(ROTARY_ARGUMENTS) = {OF_EACH_SET(rotary)};
    sets[ascend_native_chosen()](type, x, cosines, sines, target, rows, positions, size);
}
