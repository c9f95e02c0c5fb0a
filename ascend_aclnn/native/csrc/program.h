/* The parts of a program, which numerics/encoding.py writes. */
#ifndef ASCEND_NATIVE_PROGRAM_H
#define ASCEND_NATIVE_PROGRAM_H

#include "native.h"

enum {
    LOAD, STORE,                                             /* an operand to a register, and back */
    ADD, SUB, MUL, DIV, MULTIPLY_ADD, MAXIMUM, MINIMUM, COPYSIGN, FMOD, REMAINDER,
    LESS, LESS_EQUAL, EQUAL, NOT_EQUAL,                      /* masks of two registers */
    AND, OR, XOR, NOT,                                       /* masks of masks */
    SELECT, CLIP,
    NEGATIVE, ABSOLUTE, SQRT, SQUARE, RECIPROCAL, RINT, FLOOR, CEIL, TRUNC, SIGN,
    IS_NAN, IS_FINITE, IS_INF, SIGN_BIT,
    EXP, LOGISTIC, LOG,                                      /* where they are NumPy's to the bit: see exp_of and log_of */
    NORMAL,                                                  /* reference/_special.py has it; with the exponential function above */
    ONES,                                                    /* 1.0 where a mask is set, else 0.0 */
    ROW_SUM, ROW_SQUARES, ROW_MAX,                           /* into an operand that has one number for each row */
    NEXT,                                                    /* from the row's first element again; from here on of numbers: */
    NUMBER_COPY, NUMBER_ADD, NUMBER_SUB, NUMBER_MUL, NUMBER_DIV, NUMBER_MAXIMUM, NUMBER_MINIMUM,
    NUMBER_LESS, NUMBER_LESS_EQUAL, NUMBER_EQUAL, NUMBER_NOT_EQUAL, NUMBER_SELECT,
    NUMBER_NEGATIVE, NUMBER_ABSOLUTE, NUMBER_SQRT, NUMBER_IS_FINITE, NUMBER_LOG,
};

enum { FLOAT32, FLOAT16, BFLOAT16, BOOL, E4M3FN, E5M2, INT8, FLOAT64 };
/* Elements of a tile; the short one is of several operands that need no widening, which the first-level cache then holds together. */
enum { TILE = 1024, SHORT_TILE = 256 };
enum { DIMS = 4, APART = 32 };  /* tiles at equal offsets in a page would stall each other */

struct instruction { int32_t operation, target, a, b, c; };
struct operand { int64_t address, type, steps[DIMS]; };      /* steps in bytes; the last axis is the innermost */

/* A program of one operation on floats of one type: the operands a and b (-1: the numbers y and z instead) and the target, which
 * is `streamed` past the caches where it would not stay in them. */
struct single { int operation, type, streamed; int32_t a, b, target; float y, z; };

/* 1 for such a program, which AVX-512 runs faster than tiles; `at`: where the operands' rows begin. */
int ascend_native_find_single(const struct instruction *code, size_t count, const float *constants, size_t constant_count,
                              const struct operand *operands, struct single *found);
void ascend_native_run_single(const struct single *single, char *const *at, size_t n);

/* A part of a program in which each operation takes the result of the one before: on AVX-512 it goes from operands to its result in
 * registers. `operand` is -1 for a number; `times` is another operand, by which that one is multiplied first, or -1. `turned`: the
 * result before is the second operand. */
struct step { int operation, turned; int32_t operand, times; float number, other; };
enum { MOST_STEPS = 12 };

/* `count` 0: none. The result goes to the operand `store` (or -1) and to the reduction `reduce` (or NULL). */
struct chain { size_t count; int32_t first, store; const struct instruction *reduce; struct step steps[MOST_STEPS]; };

void ascend_native_find_chain(const struct instruction *code, size_t count, const float *constants, size_t constant_count,
                              const struct operand *operands, struct chain *found);

/* n elements from `start` on, to floats of a type; `streamed` past the caches. */
void ascend_native_run_chain(const struct chain *chain, const struct operand *operands, char *const *at, size_t start, size_t n,
                             int type, char *to, int streamed);

/* The float64 sum of the squares, rounded to float32, of the distances of a row's elements to a number. */
double ascend_native_spread(const float *a, size_t n, float centre);

/* The largest element of a row, NaN where there is one; and the programs' exp of n elements. */
float ascend_native_largest(const float *row, size_t n);
void ascend_native_exp(const float *source, float *target, size_t n);

enum { LARGE = 1 << 23 };  /* bytes of a result from which it is written past the caches */
void ascend_native_stream(void *to, const void *from, size_t bytes);

#endif
