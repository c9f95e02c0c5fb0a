/* Running single operators by their type name. */
#ifndef EMU_SINGLE_OPERATOR_H
#define EMU_SINGLE_OPERATOR_H

#include "ascendcl/core/api.h"

#include "acl/acl_op.h"

/* A type with its arguments, as clients give them. */
typedef struct {
    const char *type;
    int in_count, out_count;
    const aclTensorDesc *const *in_descs, *const *out_descs;
    const aclDataBuffer *const *ins, *const *outs;
    const aclopAttr *attributes;
    bool tell_shapes; /* waits, and writes the outputs' shapes into their descriptions */
} emu_single;

/* Runs it in a stream; refuses, with its name, what no aclnn operator stands for. */
LINK int emu_run_single(const char *routine, const emu_single *single, aclrtStream stream);

#endif
