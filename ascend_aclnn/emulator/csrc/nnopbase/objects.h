/* The objects behind aclTensor, aclScalar, arrays and lists. */
#ifndef EMU_OBJECTS_H
#define EMU_OBJECTS_H

#include "ascendcl/core/handles.h"
#include "ascendcl/validate/validate.h"

/* The table is locked while a tensor is read or changed: the answer of an operator may change its shape at any time. */
typedef struct {
    emu_object base;
    aclDataType dtype;
    aclFormat format;
    int64_t offset;
    uint64_t rank, storage_rank;
    int64_t *numbers; /* rank dims, rank strides, storage_rank storage dims */
    void *data;
} emu_tensor;

typedef struct {
    emu_object base;
    aclDataType dtype;
    uint64_t size;
    uint8_t bytes[16];
} emu_scalar;

/* An array's elements as 64-bit words: integers, or the bits of a double. */
typedef struct {
    emu_object base;
    uint64_t count;
    int64_t words[];
} emu_array;

typedef struct {
    emu_object base;
    uint64_t count;
    const void *members[]; /* handles, some may be NULL */
} emu_list;

/* Bytes from the start of the storage to the end of what an operator may access; EMU_NO_EXTENT when it would reach before the
 * start, or beyond any memory. */
#define EMU_NO_EXTENT UINT64_MAX
uint64_t emu_tensor_extent(const emu_tensor *tensor);
/* What a task accesses; it grows. */
typedef struct {
    emu_access *items;
    size_t count, room;
} emu_accesses;

void emu_access_add(emu_accesses *list, emu_access access, const void *address, uint64_t size, uint64_t rows, uint64_t pitch);
/* Adds the bytes of a tensor whose storage begins at an address; `access` has the rest. Many rows become one vague access. */
void emu_tensor_access(const emu_tensor *tensor, const void *address, uint64_t extent, emu_access access, emu_accesses *list);
/* Changes a tensor to a contiguous one of another shape: the shape of an output that depends on data. */
void emu_tensor_reshape(emu_tensor *tensor, uint64_t rank, const int64_t *dims);
/* Changes a tensor of rank 2 or more, with elements, to FRACTAL_NZ: blocks of 16 rows of 32 bytes. */
void emu_tensor_block(emu_tensor *tensor);

/* A copy of numbers that the caller frees with delete[]: it comes from new[] where libstdc++ is loaded. */
LINK int emu_give_numbers(const int64_t *numbers, uint64_t count, int64_t **result, uint64_t *result_count);

#endif
