/* What is known of handles: descriptions of tensors, which are shared, scalars, arrays, lists. */
#ifndef LAYER_OBJECTS_H
#define LAYER_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
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

/* What is known of a handle. It is changed by the thread that makes or destroys the handle, and read by those that use it: which of them
   comes first is for the client to order, as it is for CANN. */
typedef struct {
    object value;
    int64_t first[3]; /* where the items lie if they are few */
} place;

/* Most handles are in the set that their address says, where one atomic operation takes a place. Those whose set is full are in lists. Sets
   are few, so that they stay in the cache of a client whose handles are never the same. */
#define SETS 128
#define WAYS 2
struct set {
    const void *handles[WAYS]; /* NULL: free */
    place places[WAYS];
} __attribute__((aligned(64)));
extern struct set sets[SETS] __attribute__((visibility("hidden")));
extern uint64_t listed_handles __attribute__((visibility("hidden"))); /* handles in lists */
place *find_listed(const void *handle);

static inline uint64_t hash_of(const void *handle) { return ((uint64_t)(uintptr_t)handle >> 4) * 0x9E3779B97F4A7C15ull; }
static inline struct set *set_of(const void *handle) { return &sets[hash_of(handle) >> 57]; }

static inline place *find(const void *handle) {
    struct set *s = set_of(handle);
    if (handle == NULL) return NULL;
    for (int i = 0; i < WAYS; i++) {
        if (__atomic_load_n(&s->handles[i], __ATOMIC_ACQUIRE) == handle) return &s->places[i];
    }
    return __atomic_load_n(&listed_handles, __ATOMIC_ACQUIRE) > 0 ? find_listed(handle) : NULL;
}

/* What is known of a handle, in place: valid while the client keeps the handle. NULL: nothing. */
static inline const object *known_object(const void *handle) {
    const place *p = find(handle);
    return p != NULL && p->value.kind != 0 ? &p->value : NULL;
}
object object_of(const void *handle);
/* Bytes from the address that data of such a tensor are: docs/recording.md. */
void byte_range(const description *shape, uint64_t *start, uint64_t *stop);
/* Takes the locks, and gives them back in parent and child of a fork. */
void objects_lock(void);
void objects_unlock(void);
/* In the child of a fork: what other threads of the parent's were making is lost. */
void objects_forget_busy(void);

#endif
