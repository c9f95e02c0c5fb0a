/* Both phases of an operator, called by the generated code of each operator. */
#ifndef EMU_EXECUTOR_H
#define EMU_EXECUTOR_H

#include "ascendcl/core/api.h"
#include "ascendcl/validate/validate.h"

/* One argument of a phase one; the letter of its kind (LETTER_... of protocol.h) selects the member. */
typedef union {
    const void *pointer;
    int64_t integer;
    double number;
} emu_value;

typedef struct {
    const char *name, *phase_one;
    const char *kinds;       /* a letter per parameter */
    const char *directions;  /* i, o or x (both) per parameter; s: an array or scalar that counts among the input tensors */
    const char *parameters;  /* their names, separated by spaces */
    bool any_alignment;      /* addresses need not be 32-byte aligned */
    bool no_workspace;       /* ASCEND_EMULATOR_WORKSPACE does not concern it */
    bool communicates;       /* it waits for other ranks; HCCL makes resources for its stream, which a null handle does not name */
    bool data_dependent;     /* shapes of outputs depend on data: CANN's phase two waits for them */
    const char *shown;       /* the name in findings of --validate; NULL: `name` */
} emu_operator;

/* The next phase one of this thread is of an operator that meets other ranks so (--validate). The executor frees them. */
LINK void emu_exchanges_of_next(emu_exchange *exchanges, size_t count);
LINK int emu_phase_one(const emu_operator *operator, const emu_value *values, uint64_t *workspace, aclOpExecutor **executor);
/* What the outputs would be, which are not among the arguments: of each data type, format, rank and sizes. `count` is the room. */
LINK int emu_infer(const emu_operator *operator, const emu_value *values, int64_t *words, size_t *count);
LINK int emu_phase_two(const emu_operator *operator, void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream);

#endif
