/*
 * ATB's C++ structures as C sees them: atb::Tensor, atb::SVector and what they are made of, and strings as libstdc++ lays them
 * out since C++11. include/atb/ has the same for C++.
 */
#ifndef EMU_ATB_TYPES_H
#define EMU_ATB_TYPES_H

#include "ascendcl/core/api.h"

#include "atb_data.h"

#define ATB_MOST_DIMS 8
#define ATB_IN_PLACE 64  /* elements of an SVector that lie in itself; it has room for one more */
#define ATB_MOST_ITEMS 256

typedef int32_t atb_status; /* ErrorType: ATB_NO_ERROR, ATB_ERROR_INVALID_PARAM, ... of atb_data.h */

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

/* std::string by value. The text comes from malloc, and the caller's delete gives it to free. */
typedef struct {
    char *text;
    size_t length, room, unused;
} atb_string;

atb_string atb_new_string(const char *text);

/* Elements, 0 for a tensor without axes. */
uint64_t atb_count(const atb_desc *desc);

/* Reports a refusal: as this thread's message, and on standard error, because clients drop ATB's messages. Returns the status. */
atb_status atb_refuse(atb_status status, const char *error, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same for a failure of a function of the emulator's, whose message is there. */
atb_status atb_failed(int status);

#endif
