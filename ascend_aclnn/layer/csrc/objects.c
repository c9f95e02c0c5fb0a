#include "objects.h"

#include "layer.h"
#include "recorder.h"
#include "spin.h"

#include "acl/acl.h"
#include "protocol.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MOST_DIMS 64

#define FEW 1024
static entry *few[FEW];
struct handles handles = {.buckets = few, .size = FEW, .shift = 64 - 10};
uint64_t objects_changes;

#define ENTRIES 64 /* that are allocated at once */

static __attribute__((noinline)) void make_entries(void) {
    entry *made = aligned_alloc(sizeof *made, ENTRIES * sizeof *made);
    if (made == NULL) abort();
    for (int i = 0; i < ENTRIES; i++) made[i].next = i + 1 < ENTRIES ? &made[i + 1] : NULL;
    handles.unused = made;
}

static __attribute__((noinline)) void grow(void) {
    entry **old = handles.buckets;
    uint64_t old_size = handles.size;
    handles.size *= 4, handles.shift -= 2;
    handles.buckets = calloc(handles.size, sizeof *handles.buckets);
    if (handles.buckets == NULL) abort();
    for (uint64_t i = 0; i < old_size; i++) {
        for (entry *e = old[i], *next; e != NULL; e = next) {
            next = e->next;
            entry **at = bucket_for(e->handle);
            e->next = *at;
            *at = e;
        }
    }
    if (old != few) free(old);
}

static bool is_plain(const object *value) { return value->kind == 0 || value->kind == LETTER_TENSOR || value->kind == LETTER_SCALAR; }

static void free_words(entry *e) {
    if (!is_plain(&e->value) && e->value.words != (const uint64_t *)e->first) free((void *)(uintptr_t)e->value.words);
    e->value.kind = 0;
}

/* The entry of a handle that has just been made, for the caller to fill; its lock is held. */
static inline entry *born(const void *handle) {
    entry *e = find_entry(handle);
    if (e != NULL) {
        free_words(e);
        e->lives++;
        return e;
    }
    if (handles.unused == NULL) make_entries();
    if (handles.count >= handles.size) grow();
    e = handles.unused;
    handles.unused = e->next;
    handles.count++;
    entry **at = bucket_for(handle);
    e->next = *at;
    e->handle = handle;
    e->value.kind = 0;
    e->lives = 1;
    *at = e;
    return e;
}

/* One handle of this address is gone; the entry is, if it was the last. */
static void died(const void *handle) {
    entry **at = bucket_for(handle), *e;
    while (*at != NULL && (*at)->handle != handle) at = &(*at)->next;
    e = *at;
    if (e == NULL || --e->lives > 0) return;
    free_words(e);
    *at = e->next;
    e->next = handles.unused;
    handles.unused = e;
    handles.count--;
}

object object_of(const void *handle) {
    spin_lock(&handles.locked);
    const object *known = known_object(handle);
    object copy = known != NULL ? *known : (object){0};
    spin_unlock(&handles.locked);
    return copy;
}

/* --------------------------------------------------------------------------------------------------------- descriptions */

static struct {
    pthread_mutex_t lock;
    description **buckets;
    uint64_t count, size;
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

void objects_lock(void) {
    spin_lock(&handles.locked);
    pthread_mutex_lock(&known.lock);
}

void objects_unlock(void) {
    pthread_mutex_unlock(&known.lock);
    spin_unlock(&handles.locked);
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

static inline void set_tensor(object *value, const description *d, const void *data) {
    value->kind = d != NULL ? LETTER_TENSOR : 0;
    value->shape = d;
    value->address = (uint64_t)(uintptr_t)data;
}

void layer_made_tensor(const void *tensor, const int64_t *dims, uint64_t rank, int dtype, const int64_t *strides,
                       int64_t offset, int format, const int64_t *storage, uint64_t storage_rank, const void *data) {
    if (tensor == NULL) return;
    const description *d = describe(dims, rank, dtype, strides, offset, format, storage, storage_rank);
    spin_lock(&handles.locked);
    set_tensor(&born(tensor)->value, d, data);
    spin_unlock(&handles.locked);
}

static void has_changed(void) { __atomic_fetch_add(&objects_changes, 1, __ATOMIC_RELEASE); }

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
    d = describe(dims, rank, dtype, strides, offset, format, storage, storage_rank);
    spin_lock(&handles.locked);
    entry *e = find_entry(tensor);
    if (e != NULL && d != NULL) set_tensor(&e->value, d, data);
    spin_unlock(&handles.locked);
    has_changed();
}

void layer_moved_tensor(const void *tensor, const void *data) {
    spin_lock(&handles.locked);
    entry *e = find_entry(tensor);
    if (e != NULL && e->value.kind == LETTER_TENSOR) e->value.address = (uint64_t)(uintptr_t)data;
    spin_unlock(&handles.locked);
    has_changed();
}

void layer_moved_member(const void *list, uint64_t member, const void *data) {
    object value = object_of(list);
    if (value.kind == LETTER_TENSOR_LIST && member < value.count)
        layer_moved_tensor((const void *)(uintptr_t)value.words[member], data);
}

void layer_made_scalar(const void *scalar, const void *value, int dtype) {
    uint64_t bits = bits_of(dtype), size = bits < 8 ? bits > 0 : bits / 8;
    object made = {.kind = value != NULL ? LETTER_SCALAR : 0, .size = (uint8_t)size, .dtype = dtype};
    if (scalar == NULL) return;
    if (value != NULL) memcpy(made.bytes, value, size);
    spin_lock(&handles.locked);
    born(scalar)->value = made;
    spin_unlock(&handles.locked);
}

/* Room for `count` items of an array or list. */
static uint64_t *items(entry *e, char kind, uint64_t count) {
    uint64_t *words = count * sizeof *words <= sizeof e->first ? (uint64_t *)e->first : malloc(count * sizeof *words);
    if (words == NULL) abort();
    e->value.kind = kind;
    e->value.count = count;
    e->value.words = words;
    return words;
}

void layer_made_array(const void *array, char kind, const void *values, uint64_t count) {
    if (array == NULL) return;
    if (values == NULL) count = 0;
    spin_lock(&handles.locked);
    uint64_t *words = items(born(array), kind, count);
    for (uint64_t i = 0; i < count; i++) {
        double number = kind == LETTER_FLOAT_ARRAY ? (double)((const float *)values)[i] : 0;
        if (kind == LETTER_FLOAT_ARRAY) memcpy(&words[i], &number, sizeof number);
        else words[i] = kind == LETTER_BOOL_ARRAY ? ((const uint8_t *)values)[i] != 0 : ((const uint64_t *)values)[i];
    }
    spin_unlock(&handles.locked);
}

void layer_made_list(const void *list, const void *const *members, uint64_t count) {
    if (list == NULL) return;
    if (members == NULL) count = 0;
    char kind = LETTER_TENSOR_LIST;
    spin_lock(&handles.locked);
    for (uint64_t i = 0; i < count; i++) {
        const object *member = known_object(members[i]);
        if (member != NULL && member->kind == LETTER_SCALAR) kind = LETTER_SCALAR_LIST;
    }
    uint64_t *words = items(born(list), kind, count);
    for (uint64_t i = 0; i < count; i++) words[i] = (uint64_t)(uintptr_t)members[i];
    spin_unlock(&handles.locked);
}

/* What is known of a handle is not so any more, whatever was noted of earlier ones with its address. */
static void forget(const void *handle) {
    entry *e = find_entry(handle);
    if (e == NULL) return;
    free_words(e);
    died(handle);
}

void layer_forget(const void *handle) {
    spin_lock(&handles.locked);
    const object *known = known_object(handle);
    bool list = known != NULL && (known->kind == LETTER_TENSOR_LIST || known->kind == LETTER_SCALAR_LIST);
    for (uint64_t i = 0; list && i < known->count; i++) forget((const void *)(uintptr_t)known->words[i]); /* it owns its members */
    forget(handle);
    spin_unlock(&handles.locked);
}

#define NOTED 1024 /* more addresses would be in the cache, fewer be forgotten too often */
typedef struct {
    uint32_t count;
    bool forgotten; /* a list is being destroyed, and its members are forgotten with it */
    const void *handles[NOTED];
} notes;
static _Thread_local notes *noted; /* of a thread that has destroyed a tensor or scalar */

static void forget_noted(void) {
    spin_lock(&handles.locked);
    for (uint32_t i = 0; i < noted->count; i++) died(noted->handles[i]);
    spin_unlock(&handles.locked);
    noted->count = 0;
}

static __attribute__((noinline)) void make_notes(void) {
    noted = calloc(1, sizeof *noted);
    if (noted == NULL) abort();
    (void)thread_id(); /* its end is seen from now on */
}

void objects_forget_thread(void) {
    if (noted == NULL) return;
    forget_noted();
    free(noted);
    noted = NULL;
}

void layer_destroyed(const void *handle) {
    if (noted == NULL) make_notes();
    if (noted->forgotten) return;
    noted->handles[noted->count++] = handle;
    if (noted->count == NOTED) forget_noted();
}

void layer_forget_list(const void *list) {
    layer_forget(list);
    if (noted == NULL) make_notes();
    noted->forgotten = true;
}

void layer_forgot_list(void) { noted->forgotten = false; }
