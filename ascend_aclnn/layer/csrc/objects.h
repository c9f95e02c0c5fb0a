/* What is known of handles: descriptions of tensors, which are shared, scalars, arrays, lists. */
#ifndef LAYER_OBJECTS_H
#define LAYER_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

/* The description of a tensor. It is never changed or freed. `id` is its number in the recording plus one. */
typedef struct description {
    struct description *next;
    uint64_t hash;
    int32_t dtype, format;
    int64_t offset;
    uint32_t rank, storage_rank, id;
    bool dense; /* its strides are those of its shape */
    int64_t numbers[]; /* shape, strides, storage shape */
} description;

/* A copy of what is behind a handle. */
typedef struct {
    char kind; /* the letter of the protocol; 0: not known */
    int32_t dtype; /* of a scalar */
    uint32_t size; /* its bytes */
    union {
        struct { /* of a tensor */
            const description *shape;
            uint64_t address;
        };
        unsigned char bytes[16]; /* of a scalar */
        struct { /* of an array or list */
            uint64_t count;
            const uint64_t *words; /* its items; freed with the handle, so only valid while the client keeps it */
        };
    };
} object;

object object_of(const void *handle);
/* Bytes from the address that data of such a tensor are: docs/recording.md. */
void byte_range(const description *shape, uint64_t *start, uint64_t *stop);
/* Takes the locks, and gives them back in parent and child of a fork. */
void objects_lock(void);
void objects_unlock(void);
/* In the child of a fork: what other threads of the parent's were making is lost. */
void objects_forget_busy(void);

#endif
