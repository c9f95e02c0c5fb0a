#include "objects.h"

#include "layer.h"

#include "acl/acl.h"
#include "protocol.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define SHARDS 16
#define MOST_DIMS 64

typedef struct entry {
    struct entry *next;
    const void *handle;
    object value;
    uint64_t *words;
    int64_t first[4]; /* where the items lie if they are few */
} entry;

typedef struct {
    bool locked;
    entry **buckets;
    uint64_t count, size;
    entry *unused;
} __attribute__((aligned(64))) shard;

static shard shards[SHARDS];

/* A shard is locked for some dozens of instructions at a time. */
static void lock_shard(shard *s) {
    while (__atomic_exchange_n(&s->locked, true, __ATOMIC_ACQUIRE)) {
        for (int i = 0; __atomic_load_n(&s->locked, __ATOMIC_RELAXED); i++) {
            if (i % 100 == 99) sched_yield();
        }
    }
}

static void unlock_shard(shard *s) { __atomic_store_n(&s->locked, false, __ATOMIC_RELEASE); }

static uint64_t hash_of(const void *handle) { return ((uint64_t)(uintptr_t)handle >> 4) * 0x9E3779B97F4A7C15ull; }
static shard *shard_of(const void *handle) { return &shards[hash_of(handle) >> 60]; }
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

static entry *find(shard *s, const void *handle) {
    entry *e = s->size > 0 ? *bucket_of(s, handle) : NULL;
    while (e != NULL && e->handle != handle) e = e->next;
    return e;
}

static void free_words(entry *e) {
    if (e->words != NULL && e->words != (uint64_t *)e->first) free(e->words);
    e->words = NULL;
}

/* The entry of a handle, made if there is none; the shard is locked. What was there before is forgotten. */
static entry *put(shard *s, const void *handle, char kind) {
    entry *e = find(s, handle);
    if (e == NULL) {
        if (s->count >= s->size) grow(s);
        e = s->unused;
        if (e != NULL) s->unused = e->next;
        else e = malloc(sizeof *e);
        if (e == NULL) abort();
        entry **at = bucket_of(s, handle);
        e->handle = handle;
        e->words = NULL;
        e->next = *at;
        *at = e;
        s->count++;
    }
    free_words(e);
    e->value = (object){.kind = kind};
    return e;
}

object object_of(const void *handle) {
    object value = {0};
    shard *s = shard_of(handle);
    lock_shard(s);
    const entry *e = find(s, handle);
    if (e != NULL) value = e->value;
    unlock_shard(s);
    return value;
}

/* --------------------------------------------------------------------------------------------------------- descriptions */

static struct {
    pthread_mutex_t lock;
    description **buckets;
    uint64_t count, size;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

void objects_lock(void) {
    for (int i = 0; i < SHARDS; i++) lock_shard(&shards[i]);
    pthread_mutex_lock(&known.lock);
}

void objects_unlock(void) {
    pthread_mutex_unlock(&known.lock);
    for (int i = 0; i < SHARDS; i++) unlock_shard(&shards[i]);
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

static bool is_like(const description *d, int dtype, int format, int64_t offset, uint64_t rank, uint64_t storage_rank,
                    const int64_t *numbers, uint64_t count) {
    return d->dtype == dtype && d->format == format && d->offset == offset && d->rank == rank && d->storage_rank == storage_rank &&
           memcmp(d->numbers, numbers, count * sizeof *numbers) == 0;
}

/* The description that all tensors like this one share. */
static const description *describe(const int64_t *dims, uint64_t rank, int dtype, const int64_t *strides, int64_t offset,
                                   int format, const int64_t *storage, uint64_t storage_rank) {
    int64_t numbers[3 * MOST_DIMS];
    if (rank > MOST_DIMS || storage_rank > MOST_DIMS || (rank > 0 && dims == NULL) || (storage_rank > 0 && storage == NULL)) return NULL;
    uint64_t count = 0;
    int64_t step = 1;
    for (uint64_t i = 0; i < rank; i++) numbers[count++] = dims[i];
    for (uint64_t i = rank; i-- > 0;) {
        numbers[rank + i] = strides != NULL ? strides[i] : step;
        if (__builtin_mul_overflow(step, dims[i], &step)) step = 0;
    }
    count += rank;
    for (uint64_t i = 0; i < storage_rank; i++) numbers[count++] = storage[i];
    uint64_t hash = 0, salt = rank << 32 | storage_rank; /* products that do not wait for each other */
    for (uint64_t i = 0; i < count; i++, salt += 0x9E3779B97F4A7C15ull) hash += ((uint64_t)numbers[i] ^ salt) * 0xff51afd7ed558ccdull;
    hash = mixed(mixed(hash, (uint64_t)(uint32_t)dtype << 32 | (uint32_t)format), (uint64_t)offset);
    /* Descriptions live for ever, so a thread finds those that it used last without the lock. */
    static _Thread_local description *recent[64];
    description **last = &recent[hash >> 58];
    if (*last != NULL && (*last)->hash == hash && is_like(*last, dtype, format, offset, rank, storage_rank, numbers, count)) return *last;
    pthread_mutex_lock(&known.lock);
    description *d = known.size > 0 ? known.buckets[hash & (known.size - 1)] : NULL;
    for (; d != NULL; d = d->next) {
        if (d->hash == hash && is_like(d, dtype, format, offset, rank, storage_rank, numbers, count)) break;
    }
    if (d == NULL) {
        if (known.count >= known.size) grow_known();
        d = malloc(sizeof *d + count * sizeof *numbers);
        if (d == NULL) abort();
        *d = (description){.next = known.buckets[hash & (known.size - 1)], .hash = hash, .dtype = dtype, .format = format,
                           .offset = offset, .rank = (uint32_t)rank, .storage_rank = (uint32_t)storage_rank};
        memcpy(d->numbers, numbers, count * sizeof *numbers);
        known.buckets[hash & (known.size - 1)] = d;
        known.count++;
    }
    pthread_mutex_unlock(&known.lock);
    *last = d;
    return d;
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
    shard *s = shard_of(tensor);
    lock_shard(s);
    entry *e = put(s, tensor, LETTER_TENSOR);
    e->value.shape = d;
    e->value.address = (uint64_t)(uintptr_t)data;
    unlock_shard(s);
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
    shard *s = shard_of(tensor);
    lock_shard(s);
    entry *e = find(s, tensor);
    if (e != NULL && e->value.kind == LETTER_TENSOR) e->value.address = (uint64_t)(uintptr_t)data;
    unlock_shard(s);
}

void layer_moved_member(const void *list, uint64_t member, const void *data) {
    object value = object_of(list);
    if (value.kind == LETTER_TENSOR_LIST && member < value.count)
        layer_moved_tensor((const void *)(uintptr_t)value.words[member], data);
}

void layer_made_scalar(const void *scalar, const void *value, int dtype) {
    if (scalar == NULL || value == NULL) return;
    uint64_t bits = bits_of(dtype), size = bits < 8 ? bits > 0 : bits / 8;
    shard *s = shard_of(scalar);
    lock_shard(s);
    entry *e = put(s, scalar, LETTER_SCALAR);
    e->value.dtype = dtype;
    e->value.size = (uint32_t)size;
    memcpy(e->value.bytes, value, size);
    unlock_shard(s);
}

/* Room for `count` items of an array or list. */
static uint64_t *items(entry *e, uint64_t count) {
    e->words = count * sizeof *e->words <= sizeof e->first ? (uint64_t *)e->first : malloc(count * sizeof *e->words);
    if (e->words == NULL) abort();
    e->value.count = count;
    e->value.words = e->words;
    return e->words;
}

void layer_made_array(const void *array, char kind, const void *values, uint64_t count) {
    if (array == NULL) return;
    if (values == NULL) count = 0;
    shard *s = shard_of(array);
    lock_shard(s);
    uint64_t *words = items(put(s, array, kind), count);
    for (uint64_t i = 0; i < count; i++) {
        double number = kind == LETTER_FLOAT_ARRAY ? (double)((const float *)values)[i] : 0;
        if (kind == LETTER_FLOAT_ARRAY) memcpy(&words[i], &number, sizeof number);
        else words[i] = kind == LETTER_BOOL_ARRAY ? ((const uint8_t *)values)[i] != 0 : ((const uint64_t *)values)[i];
    }
    unlock_shard(s);
}

void layer_made_list(const void *list, const void *const *members, uint64_t count) {
    if (list == NULL) return;
    if (members == NULL) count = 0;
    char kind = LETTER_TENSOR_LIST;
    for (uint64_t i = 0; i < count; i++) {
        if (members[i] != NULL && object_of(members[i]).kind == LETTER_SCALAR) kind = LETTER_SCALAR_LIST;
    }
    shard *s = shard_of(list);
    lock_shard(s);
    uint64_t *words = items(put(s, list, kind), count);
    for (uint64_t i = 0; i < count; i++) words[i] = (uint64_t)(uintptr_t)members[i];
    unlock_shard(s);
}

void layer_forget(const void *handle) {
    if (handle == NULL) return;
    shard *s = shard_of(handle);
    lock_shard(s);
    entry *e = find(s, handle);
    uint64_t count = 0, *members = NULL;
    if (e != NULL) {
        if ((e->value.kind == LETTER_TENSOR_LIST || e->value.kind == LETTER_SCALAR_LIST) && e->value.count > 0) {
            count = e->value.count;
            members = malloc(count * sizeof *members); /* a list owns its members */
            if (members == NULL) abort();
            memcpy(members, e->words, count * sizeof *members);
        }
        free_words(e);
        entry **at = bucket_of(s, handle);
        while (*at != e) at = &(*at)->next;
        *at = e->next;
        e->next = s->unused;
        s->unused = e;
        s->count--;
    }
    unlock_shard(s);
    for (uint64_t i = 0; i < count; i++) layer_forget((const void *)(uintptr_t)members[i]);
    free(members);
}
