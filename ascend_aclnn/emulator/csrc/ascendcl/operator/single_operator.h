/* Running single operators by type name. */
#ifndef EMU_SINGLE_OPERATOR_H
#define EMU_SINGLE_OPERATOR_H

#include "ascendcl/core/api.h"

#include "acl/acl_op.h"

/* A type with its arguments, as passed by the client. */
typedef struct {
    const char *type;
    int in_count, out_count;
    const aclTensorDesc *const *in_descs, *const *out_descs;
    const aclDataBuffer *const *ins, *const *outs;
    const aclopAttr *attributes;
    bool tell_shapes; /* waits, and writes the outputs' shapes into their descriptions */
} emu_single;

/* Runs it in a stream. Refuses, by name, a type that no aclnn operator computes. */
LINK int emu_run_single(const char *routine, const emu_single *single, aclrtStream stream);

#endif
