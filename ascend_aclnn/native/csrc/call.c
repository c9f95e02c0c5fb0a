/* A call of an aclnn operator that is made again: its aclTensors get the addresses of this time, then come both phases.
   backends/npu/remembered.py does the same in Python where there is no helper. */

#include "native.h"

typedef int32_t Initialise(void *tensor, const int64_t *shape, uint64_t rank, int32_t type, const int64_t *strides, int64_t offset,
                           int32_t format, const int64_t *storage_shape, uint64_t storage_rank, void *address);
typedef int32_t SetAddress(void *tensor, void *address);
typedef int32_t PhaseTwo(void *workspace, uint64_t size, void *executor, void *stream);

/* Phase one of any operator. On x86-64 and aarch64 arguments of integer type and floating arguments take registers of their
   own, and what finds no register goes to the stack in order, 8 bytes each. As no operator has more than 8 floating arguments,
   it does not matter how the two are mixed in its prototype; and the caller clears the stack, so that a function ignores
   what it gets beyond its own arguments. */
#define EIGHT(macro, n) macro(n), macro(n + 1), macro(n + 2), macro(n + 3), macro(n + 4), macro(n + 5), macro(n + 6), macro(n + 7)
#define ALL(macro)                                                                                                      \
    EIGHT(macro, 0), EIGHT(macro, 8), EIGHT(macro, 16), EIGHT(macro, 24), EIGHT(macro, 32), EIGHT(macro, 40), EIGHT(macro, 48)
#define INTEGERS 56
#define TYPE(n) uint64_t
typedef int32_t PhaseOne(ALL(TYPE), double, double, double, double, double, double, double, double);

/* A tensor argument: aclInitTensor's arguments, in its order. `address` is the one that the aclTensor has. */
typedef struct {
    void *tensor;
    const int64_t *shape;
    uint64_t rank;
    int32_t type;
    const int64_t *strides;
    int64_t offset;
    int32_t format;
    const int64_t *storage_shape;
    uint64_t storage_rank;
    void *address;
} Tensor;

typedef struct {
    Initialise *initialise; /* NULL: the operator leaves descriptions alone */
    SetAddress *set_address;
    PhaseOne *phase_one;
    PhaseTwo *phase_two;
    uint64_t integers[INTEGERS]; /* phase one's arguments, in order; the last two in use point to the results */
    double floats[8];            /* a float is the lower half of one */
    Tensor *tensors;
    size_t count;
    uint64_t workspace_size; /* phase one's results */
    void *executor;
    int32_t status;
} Call;

/* What has been done, as native/calls.py names it: all, all but phase two, or the step that failed with `status`. */
enum { LAUNCHED, PREPARED, NOT_INITIALISED, NO_ADDRESS, NO_EXECUTOR, NOT_LAUNCHED };

/* `addresses`: one for each tensor. Phase two follows if it needs no workspace and `at_once` is set. */
EXPORT int ascend_native_call(Call *call, void *const *addresses, void *stream, int at_once)
{
    int again = call->initialise != NULL;
    for (size_t i = 0; again && i < call->count; i++) {
        Tensor *t = &call->tensors[i];
        call->status = call->initialise(t->tensor, t->shape, t->rank, t->type, t->strides, t->offset, t->format,
                                        t->storage_shape, t->storage_rank, addresses[i]);
        if (call->status) return NOT_INITIALISED;
    }
    for (size_t i = 0; i < call->count; i++) {
        Tensor *t = &call->tensors[i];
        if (addresses[i] == t->address) continue;
        if (!again || !addresses[i]) { /* aclInitTensor ignores null */
            call->status = call->set_address(t->tensor, addresses[i]);
            if (call->status) return NO_ADDRESS;
        }
        t->address = addresses[i];
    }
#define INTEGER(n) call->integers[n]
    const double *f = call->floats;
    call->status = call->phase_one(ALL(INTEGER), f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]);
    if (call->status) return NO_EXECUTOR;
    if (call->workspace_size || !at_once) return PREPARED;
    call->status = call->phase_two(NULL, 0, call->executor, stream);
    return call->status ? NOT_LAUNCHED : LAUNCHED;
}
