/* What is known of handles: descriptions of tensors, which are shared, scalars, arrays, lists. */
#ifndef LAYER_OBJECTS_H
#define LAYER_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

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
    uint8_t size; /* of a scalar, its bytes */
    int32_t dtype; /* of a scalar */
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

/* What is known of handles. Most are made by one thread, which also runs phase one, and destroyed by another (torch_npu's). An entry is then
   in the cache of the first: the second one does not touch it, but notes the handle, and forgets it later, together with many others. Until
   then its address may be that of a new handle, so `lives` counts. */
typedef struct entry {
    struct entry *next;
    const void *handle;
    object value;
    uint32_t lives; /* how often a handle of this address was made, less how often one was forgotten */
    int64_t first[2]; /* where the items lie if they are few */
} __attribute__((aligned(64))) entry;
struct handles {
    bool locked;
    entry **buckets, *unused;
    uint64_t count, size, shift; /* size: 1 << 64 - shift */
} __attribute__((aligned(64)));
extern struct handles handles __attribute__((visibility("hidden")));

static inline entry **bucket_for(const void *handle) {
    return &handles.buckets[((uint64_t)(uintptr_t)handle >> 4) * 0x9E3779B97F4A7C15ull >> handles.shift];
}

/* The lock of the handles is held. */
static inline entry *find_entry(const void *handle) {
    entry *e = *bucket_for(handle);
    while (e != NULL && e->handle != handle) e = e->next;
    return e;
}

/* What is known of a handle; NULL: nothing. The lock of the handles is held. */
static inline const object *known_object(const void *handle) {
    const entry *e = find_entry(handle);
    return e != NULL && e->value.kind != 0 ? &e->value : NULL;
}
object object_of(const void *handle);

/* Handles of the layer's own, which stand for values: addresses in a room. They are odd, as none of CANN's are. */
#define OWN_HANDLE 16 /* bytes of room for each */
static inline const char *own_handle(const char *room, uint32_t number) { return room + OWN_HANDLE * number + 1; }
static inline char *own_handles(uint32_t count) {
    char *room = malloc(OWN_HANDLE * (size_t)count + 1);
    if (room == NULL) abort();
    return room;
}

/* Grows where what a handle stands for has changed, and in the child of a fork: what was read of tensors before is not to be used. */
extern uint64_t objects_changes __attribute__((visibility("hidden")));
/* A thread ends: what it has noted is forgotten. */
void objects_forget_thread(void);
/* Bytes from the address that data of such a tensor are: docs/recording.md. */
void byte_range(const description *shape, uint64_t *start, uint64_t *stop);
/* Takes the locks, and gives them back in parent and child of a fork. */
void objects_lock(void);
void objects_unlock(void);

#endif
