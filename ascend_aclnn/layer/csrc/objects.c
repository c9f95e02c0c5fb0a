#include "objects.h"

#include "layer.h"
#include "spin.h"

#include "acl/acl.h"
#include "protocol.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DIMS 64

struct set sets[SETS];
#define BUSY ((const void *)sets) /* the place is being filled */

#define SHARDS 16
typedef struct entry {
    struct entry *next;
    const void *handle;
    place at;
} entry;

typedef struct {
    bool locked;
    entry **buckets;
    uint64_t count, size;
    entry *unused;
} __attribute__((aligned(64))) shard;

static shard shards[SHARDS];
uint64_t listed_handles;

static shard *shard_of(const void *handle) { return &shards[hash_of(handle) >> 48 & (SHARDS - 1)]; }
static entry **bucket_of(shard *s, const void *handle) { return &s->buckets[hash_of(handle) >> 20 & (s->size - 1)]; }

static void grow(shard *s) {
    uint64_t size = s->size > 0 ? 4 * s->size : 64, old_size = s->size;
    entry **old = s->buckets;
    s->buckets = calloc(size, sizeof *s->buckets);
    if (s->buckets == NULL) abort();
    s->size = size;
    for (uint64_t i = 0; i < old_size; i++) {
        for (entry *e = old[i], *next; e != NULL; e = next) {
            next = e->next;
            entry **at = bucket_of(s, e->handle);
            e->next = *at;
            *at = e;
        }
    }
    free(old);
}

place *find_listed(const void *handle) {
    shard *s = shard_of(handle);
    spin_lock(&s->locked);
    entry *e = s->size > 0 ? *bucket_of(s, handle) : NULL;
    while (e != NULL && e->handle != handle) e = e->next;
    spin_unlock(&s->locked);
    return e != NULL ? &e->at : NULL;
}

static __attribute__((noinline)) place *add_listed(const void *handle) {
    shard *s = shard_of(handle);
    spin_lock(&s->locked);
    if (s->count >= s->size) grow(s);
    entry *e = s->unused;
    if (e != NULL) s->unused = e->next;
    else e = malloc(sizeof *e);
    if (e == NULL) abort();
    entry **at = bucket_of(s, handle);
    *e = (entry){.next = *at, .handle = handle};
    *at = e;
    s->count++;
    spin_unlock(&s->locked);
    __atomic_fetch_add(&listed_handles, 1, __ATOMIC_ACQ_REL);
    return &e->at;
}

static __attribute__((noinline)) void remove_listed(const void *handle) {
    shard *s = shard_of(handle);
    spin_lock(&s->locked);
    entry **at = bucket_of(s, handle), *e;
    while ((*at)->handle != handle) at = &(*at)->next;
    e = *at;
    *at = e->next;
    e->next = s->unused;
    s->unused = e;
    s->count--;
    spin_unlock(&s->locked);
    __atomic_fetch_sub(&listed_handles, 1, __ATOMIC_ACQ_REL);
}

static void free_words(place *p) {
    bool array = p->value.kind != 0 && p->value.kind != LETTER_TENSOR && p->value.kind != LETTER_SCALAR;
    if (array && p->value.words != (const uint64_t *)p->first) free((void *)(uintptr_t)p->value.words);
    p->value.kind = 0;
}

/* The place of a handle that has just been made, where it is not simply free. */
static __attribute__((noinline)) place *put_beside(const void *handle) {
    struct set *s = set_of(handle);
    place *p = find(handle);
    if (p != NULL) {
        free_words(p);
        return p;
    }
    for (int i = 0; i < WAYS; i++) {
        const void *none = NULL;
        if (__atomic_compare_exchange_n(&s->handles[i], &none, BUSY, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return &s->places[i];
    }
    return add_listed(handle);
}

/* The place of a handle that has just been made, for the caller to fill; `publish` follows. What was known of it before is forgotten. */
static inline place *put(const void *handle) {
    struct set *s = set_of(handle);
    const void *none = NULL;
    bool is_free = __atomic_load_n(&s->handles[0], __ATOMIC_ACQUIRE) == NULL && __atomic_load_n(&s->handles[1], __ATOMIC_ACQUIRE) != handle &&
                   __atomic_load_n(&listed_handles, __ATOMIC_ACQUIRE) == 0;
    if (is_free && __atomic_compare_exchange_n(&s->handles[0], &none, BUSY, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return &s->places[0];
    return put_beside(handle);
}

/* Sets the handle of a place of a set; a place of a list has it already. */
static inline bool set_handle(const place *p, struct set *s, const void *handle) {
    if (p != &s->places[0] && p != &s->places[1]) return false;
    __atomic_store_n(&s->handles[p - s->places], handle, __ATOMIC_RELEASE);
    return true;
}

static inline void publish(const place *p, const void *handle) { (void)set_handle(p, set_of(handle), handle); }

object object_of(const void *handle) {
    const object *known = known_object(handle);
    return known != NULL ? *known : (object){0};
}

/* --------------------------------------------------------------------------------------------------------- descriptions */

static struct {
    pthread_mutex_t lock;
    description **buckets;
    uint64_t count, size;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

void objects_lock(void) {
    for (int i = 0; i < SHARDS; i++) spin_lock(&shards[i].locked);
    pthread_mutex_lock(&known.lock);
}

void objects_unlock(void) {
    pthread_mutex_unlock(&known.lock);
    for (int i = 0; i < SHARDS; i++) spin_unlock(&shards[i].locked);
}

void objects_forget_busy(void) {
    for (int i = 0; i < SETS * WAYS; i++) {
        const void **handle = &sets[i / WAYS].handles[i % WAYS];
        if (*handle == BUSY) *handle = NULL;
    }
}

static uint64_t mixed(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0xff51afd7ed558ccdull;
    return hash ^ hash >> 32;
}

static void grow_known(void) {
    uint64_t size = known.size > 0 ? 4 * known.size : 1024;
    description **buckets = calloc(size, sizeof *buckets);
    if (buckets == NULL) abort();
    for (uint64_t i = 0; i < known.size; i++) {
        for (description *d = known.buckets[i], *next; d != NULL; d = next) {
            next = d->next;
            d->next = buckets[d->hash & (size - 1)];
            buckets[d->hash & (size - 1)] = d;
        }
    }
    free(known.buckets);
    known.buckets = buckets;
    known.size = size;
}

static inline bool are_equal(const int64_t *one, const int64_t *other, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) { /* memcmp reads more than a store at a time, and would wait for the client's stores */
        if (one[i] != other[i]) return false;
    }
    return true;
}

/* No strides are those of the shape. */
static inline bool is_like(const description *d, const int64_t *dims, uint64_t rank, int dtype, const int64_t *strides, int64_t offset,
                    int format, const int64_t *storage, uint64_t storage_rank) {
    return d->dtype == dtype && d->format == format && d->offset == offset && d->rank == rank && d->storage_rank == storage_rank &&
           are_equal(d->numbers, dims, rank) && (strides != NULL ? are_equal(d->numbers + rank, strides, rank) : d->dense) &&
           are_equal(d->numbers + 2 * rank, storage, storage_rank);
}

/* The description that all tensors like this one share. */
static __attribute__((noinline)) const description *find_description(const int64_t *dims, uint64_t rank, int dtype, const int64_t *strides,
                                                                     int64_t offset, int format, const int64_t *storage, uint64_t storage_rank) {
    int64_t numbers[3 * MOST_DIMS];
    if (rank > MOST_DIMS || storage_rank > MOST_DIMS || (rank > 0 && dims == NULL) || (storage_rank > 0 && storage == NULL)) return NULL;
    uint64_t count = 0;
    int64_t step = 1;
    bool dense = true;
    for (uint64_t i = 0; i < rank; i++) numbers[count++] = dims[i];
    for (uint64_t i = rank; i-- > 0;) {
        numbers[rank + i] = strides != NULL ? strides[i] : step;
        dense = dense && numbers[rank + i] == step;
        if (__builtin_mul_overflow(step, dims[i], &step)) step = 0;
    }
    count += rank;
    for (uint64_t i = 0; i < storage_rank; i++) numbers[count++] = storage[i];
    uint64_t hash = 0, salt = rank << 32 | storage_rank; /* products that do not wait for each other */
    for (uint64_t i = 0; i < count; i++, salt += 0x9E3779B97F4A7C15ull) hash += ((uint64_t)numbers[i] ^ salt) * 0xff51afd7ed558ccdull;
    hash = mixed(mixed(hash, (uint64_t)(uint32_t)dtype << 32 | (uint32_t)format), (uint64_t)offset);
    pthread_mutex_lock(&known.lock);
    description *d = known.size > 0 ? known.buckets[hash & (known.size - 1)] : NULL;
    for (; d != NULL; d = d->next) {
        if (d->hash == hash && is_like(d, dims, rank, dtype, numbers + rank, offset, format, storage, storage_rank)) break;
    }
    if (d == NULL) {
        if (known.count >= known.size) grow_known();
        d = malloc(sizeof *d + count * sizeof *numbers);
        if (d == NULL) abort();
        *d = (description){.next = known.buckets[hash & (known.size - 1)], .hash = hash, .dtype = dtype, .format = format,
                           .offset = offset, .rank = (uint32_t)rank, .storage_rank = (uint32_t)storage_rank, .dense = dense};
        memcpy(d->numbers, numbers, count * sizeof *numbers);
        known.buckets[hash & (known.size - 1)] = d;
        known.count++;
    }
    pthread_mutex_unlock(&known.lock);
    return d;
}

#define RECENT 64 /* descriptions that a thread finds without the lock: they live for ever */

/* The same, and first where this thread found it last. */
static inline __attribute__((always_inline)) const description *describe(const int64_t *dims, uint64_t rank, int dtype, const int64_t *strides, int64_t offset,
                                   int format, const int64_t *storage, uint64_t storage_rank) {
    static _Thread_local const description *recent[RECENT];
    uint64_t hash = (uint64_t)(uint32_t)dtype + (uint64_t)offset * 0xc4ceb9fe1a85ec53ull;
    if (rank > 0 && dims != NULL) { /* products that do not wait for each other */
        hash += (uint64_t)dims[0] * 0x9E3779B97F4A7C15ull + (uint64_t)dims[rank / 2] * 0xc2b2ae3d27d4eb4full;
        hash = (hash ^ (uint64_t)dims[rank - 1]) * 0xff51afd7ed558ccdull;
        if (strides != NULL) hash += (uint64_t)strides[0] * 0x9E3779B97F4A7C15ull;
    }
    const description **last = &recent[hash >> 58];
    if (*last == NULL || !is_like(*last, dims, rank, dtype, strides, offset, format, storage, storage_rank))
        *last = find_description(dims, rank, dtype, strides, offset, format, storage, storage_rank);
    return *last;
}

static uint64_t bits_of(int dtype) {
    switch (dtype) {
        case ACL_UINT1: return 1;
        case ACL_INT4: case ACL_FLOAT4_E2M1: case ACL_FLOAT4_E1M2: return 4;
        case ACL_FLOAT6_E3M2: case ACL_FLOAT6_E2M3: return 6;
        case ACL_INT8: case ACL_UINT8: case ACL_BOOL: case ACL_HIFLOAT8: case ACL_FLOAT8_E4M3FN: case ACL_FLOAT8_E5M2:
        case ACL_FLOAT8_E8M0: return 8;
        case ACL_FLOAT16: case ACL_BF16: case ACL_INT16: case ACL_UINT16: return 16;
        case ACL_FLOAT: case ACL_INT32: case ACL_UINT32: case ACL_COMPLEX32: return 32;
        case ACL_DOUBLE: case ACL_INT64: case ACL_UINT64: case ACL_COMPLEX64: return 64;
        case ACL_COMPLEX128: return 128;
        default: return 0;
    }
}

static bool private_format(int format) {
    switch (format) {
        case ACL_FORMAT_UNDEFINED: case ACL_FORMAT_NCHW: case ACL_FORMAT_NHWC: case ACL_FORMAT_ND: case ACL_FORMAT_HWCN:
        case ACL_FORMAT_NDHWC: case ACL_FORMAT_NCDHW: case ACL_FORMAT_NC: case ACL_FORMAT_NCL: return false;
        default: return true;
    }
}

void byte_range(const description *d, uint64_t *start, uint64_t *stop) {
    const int64_t *dims = d->numbers, *strides = dims + d->rank, *storage = strides + d->rank;
    int64_t low = d->offset, high = d->offset, step, count = 1;
    uint64_t bits = bits_of(d->dtype);
    *start = *stop = 0;
    for (uint32_t i = 0; i < d->rank; i++) {
        if (dims[i] <= 0 || __builtin_mul_overflow(dims[i] - 1, strides[i], &step)) return;
        if (__builtin_add_overflow(step < 0 ? low : high, step, step < 0 ? &low : &high)) return;
    }
    if (private_format(d->format)) {
        for (uint32_t i = 0; i < d->storage_rank; i++) {
            if (__builtin_mul_overflow(count, storage[i] > 0 ? storage[i] : 0, &count)) return;
        }
        low = d->offset, high = d->offset + count - 1;
    }
    if (low < 0 || high >= INT64_MAX >> 8) return;
    *start = (uint64_t)low * bits / 8;
    *stop = ((uint64_t)(high + 1) * bits + 7) / 8;
}

/* ---------------------------------------------------------------------------------------------------------------- hooks */

static void set_tensor(const void *tensor, const description *d, const void *data) {
    if (tensor == NULL || d == NULL) return;
    place *p = put(tensor);
    p->value.kind = LETTER_TENSOR;
    p->value.shape = d;
    p->value.address = (uint64_t)(uintptr_t)data;
    publish(p, tensor);
}

void layer_made_tensor(const void *tensor, const int64_t *dims, uint64_t rank, int dtype, const int64_t *strides,
                       int64_t offset, int format, const int64_t *storage, uint64_t storage_rank, const void *data) {
    if (tensor != NULL) set_tensor(tensor, describe(dims, rank, dtype, strides, offset, format, storage, storage_rank), data);
}

void layer_changed_tensor(const void *tensor, const int64_t *dims, uint64_t rank, int dtype, const int64_t *strides,
                          int64_t offset, int format, const int64_t *storage, uint64_t storage_rank, const void *data) {
    object old = object_of(tensor);
    if (old.kind != LETTER_TENSOR) return;
    const description *d = old.shape; /* null and empty values stay unchanged */
    if (dims == NULL || rank == 0) {
        dims = d->numbers, rank = d->rank;
        if (strides == NULL) strides = d->numbers + d->rank;
    }
    if (storage == NULL || storage_rank == 0) storage = d->numbers + 2 * d->rank, storage_rank = d->storage_rank;
    if (data == NULL) data = (const void *)(uintptr_t)old.address;
    set_tensor(tensor, describe(dims, rank, dtype, strides, offset, format, storage, storage_rank), data);
}

void layer_moved_tensor(const void *tensor, const void *data) {
    place *p = find(tensor);
    if (p != NULL && p->value.kind == LETTER_TENSOR) p->value.address = (uint64_t)(uintptr_t)data;
}

void layer_moved_member(const void *list, uint64_t member, const void *data) {
    object value = object_of(list);
    if (value.kind == LETTER_TENSOR_LIST && member < value.count)
        layer_moved_tensor((const void *)(uintptr_t)value.words[member], data);
}

void layer_made_scalar(const void *scalar, const void *value, int dtype) {
    if (scalar == NULL || value == NULL) return;
    uint64_t bits = bits_of(dtype), size = bits < 8 ? bits > 0 : bits / 8;
    place *p = put(scalar);
    p->value.kind = LETTER_SCALAR;
    p->value.dtype = dtype;
    p->value.size = (uint32_t)size;
    memset(p->value.bytes, 0, sizeof p->value.bytes);
    memcpy(p->value.bytes, value, size);
    publish(p, scalar);
}

/* Room for `count` items of an array or list. */
static uint64_t *items(place *p, char kind, uint64_t count) {
    uint64_t *words = count * sizeof *words <= sizeof p->first ? (uint64_t *)p->first : malloc(count * sizeof *words);
    if (words == NULL) abort();
    p->value.kind = kind;
    p->value.count = count;
    p->value.words = words;
    return words;
}

void layer_made_array(const void *array, char kind, const void *values, uint64_t count) {
    if (array == NULL) return;
    if (values == NULL) count = 0;
    place *p = put(array);
    uint64_t *words = items(p, kind, count);
    for (uint64_t i = 0; i < count; i++) {
        double number = kind == LETTER_FLOAT_ARRAY ? (double)((const float *)values)[i] : 0;
        if (kind == LETTER_FLOAT_ARRAY) memcpy(&words[i], &number, sizeof number);
        else words[i] = kind == LETTER_BOOL_ARRAY ? ((const uint8_t *)values)[i] != 0 : ((const uint64_t *)values)[i];
    }
    publish(p, array);
}

void layer_made_list(const void *list, const void *const *members, uint64_t count) {
    if (list == NULL) return;
    if (members == NULL) count = 0;
    char kind = LETTER_TENSOR_LIST;
    for (uint64_t i = 0; i < count; i++) {
        if (members[i] != NULL && object_of(members[i]).kind == LETTER_SCALAR) kind = LETTER_SCALAR_LIST;
    }
    place *p = put(list);
    uint64_t *words = items(p, kind, count);
    for (uint64_t i = 0; i < count; i++) words[i] = (uint64_t)(uintptr_t)members[i];
    publish(p, list);
}

static __attribute__((noinline)) void forget_place(const void *handle, place *p) {
    bool list = p->value.kind == LETTER_TENSOR_LIST || p->value.kind == LETTER_SCALAR_LIST;
    for (uint64_t i = 0; list && i < p->value.count; i++) layer_forget((const void *)(uintptr_t)p->value.words[i]); /* it owns its members */
    free_words(p);
    if (!set_handle(p, set_of(handle), NULL)) remove_listed(handle);
}

void layer_forget(const void *handle) {
    place *p = find(handle);
    if (p == NULL) return;
    bool plain = p->value.kind == LETTER_TENSOR || p->value.kind == LETTER_SCALAR;
    if (!plain || !set_handle(p, set_of(handle), NULL)) forget_place(handle, p);
}
