/*
 * ATB's C++ structures as C sees them: atb::Tensor, atb::SVector and what they are made of. include/atb/ has the same for C++. The
 * layer reads them, too.
 */
#ifndef EMU_ATB_LAYOUT_H
#define EMU_ATB_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#define ATB_MOST_DIMS 8
#define ATB_IN_PLACE 64  /* elements of an SVector that lie in itself; it has room for one more */
#define ATB_MOST_ITEMS 256

typedef struct {
    int64_t dims[ATB_MOST_DIMS];
    uint64_t count;
} atb_dims;

typedef struct {
    int32_t dtype, format;
    atb_dims shape;
} atb_desc;

typedef struct {
    atb_desc desc;
    void *device, *host;
    uint64_t size;
} atb_tensor;

/* SVector<Tensor>, SVector<TensorDesc>: with `heap` the elements lie there. */
typedef struct {
    size_t room, count;
    atb_tensor items[ATB_IN_PLACE + 1];
    atb_tensor *heap;
} atb_tensors;

typedef struct {
    size_t room, count;
    atb_desc items[ATB_IN_PLACE + 1];
    atb_desc *heap;
} atb_descs;

typedef struct {
    atb_tensors ins, outs;
} atb_pack;

/* Where functions are in an operation's table, and in a context's: those of the classes in include/atb/, in their order. */
enum { ATB_OPERATION_DELETE = 1, ATB_OPERATION_SETUP = 6, ATB_OPERATION_EXECUTE = 7 };
enum { ATB_CONTEXT_STREAM = 3 };

#endif
