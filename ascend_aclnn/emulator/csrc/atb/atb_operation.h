/* atb::Operation: made of a structure of parameters, set up with tensors, executed on a context's stream. */
#ifndef EMU_ATB_OPERATION_H
#define EMU_ATB_OPERATION_H

#include "atb/atb_context.h"
#include "nnopbase/executor.h"

#define ATB_MOST_SLOTS 32 /* inputs and outputs, as generated code has them */

/* An operation, from the catalog (catalog/atb.py). The operator's parameters are the inputs, the values and the outputs. */
typedef struct {
    const char *name;                  /* "PagedAttentionOperation" */
    emu_operator operator;             /* does the work */
    emu_operator parameters;           /* checks the values alone */
    size_t size;                       /* of the structure */
    uint32_t ins, values, outs;
    uint64_t on_host;                  /* a bit for each input that is read when the operation is set up */
    uint64_t (*present)(const void *structure); /* a bit for each input, then each output, that an operation has */
    void (*read)(const void *structure, emu_value *values);
    bool (*is_reserved_clear)(const void *structure);
} emu_atb_kind;

typedef struct atb_operation atb_operation;

atb_status atb_create(const emu_atb_kind *kind, const void *structure, atb_operation **operation);
atb_status atb_clone(const emu_atb_kind *kind, const atb_operation *operation, void *structure);
atb_status atb_update(const emu_atb_kind *kind, atb_operation *operation, const void *structure);

/* The C functions: makes an operation unless there is one, and sets it up with these tensors. Absent ones are NULL. */
atb_status atb_prepare(const emu_atb_kind *kind, const char *routine, const void *structure, const aclTensor *const *ins,
                       const aclTensor *const *outs, uint64_t *workspace, atb_operation **operation, atb_context *context);
atb_status atb_run(const char *routine, atb_operation *operation, void *workspace, uint64_t size, atb_context *context);

#endif
