/* The data of launches: copied from the device, compressed, kept once. */
#include "recorder.h"

#include "acl/acl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* ----------------------------------------------------------------------------------------------------- what is recorded */

static bool named(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at != NULL && *at != 0; at = strchr(at, ',')) {
        if (*at == ',') at++;
        const char *bare = strncmp(name, "aclnn", 5) == 0 ? name + 5 : name;
        size_t item = strcspn(at, ",");
        if ((item == length && strncmp(at, name, item) == 0) || (item == strlen(bare) && strncmp(at, bare, item) == 0)) return true;
    }
    return false;
}

bool data_wanted(const char *operator, uint64_t index) {
    if (settings.data == NULL || *settings.data == 0) return false;
    if (settings.all) return true;
    if (settings.first > 0) return index < settings.first;
    if (settings.sample > 0) {
        /* By the launch's number, so that two runs of a program record the same ones. */
        uint64_t hash = (index + 1) * 0x9E3779B97F4A7C15ull;
        hash = (hash ^ hash >> 32) * 0xff51afd7ed558ccdull;
        return (double)(hash >> 11) / 9007199254740992.0 < settings.sample;
    }
    return named(settings.data, operator);
}

static int captures;

/* A capture that has failed ends with an error, too: every end counts, but none below zero. */
void layer_capturing(int change) {
    int before = __atomic_load_n(&captures, __ATOMIC_ACQUIRE);
    while (before + change >= 0 && !__atomic_compare_exchange_n(&captures, &before, before + change, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
}

bool data_capturing(void) { return __atomic_load_n(&captures, __ATOMIC_ACQUIRE) > 0; }

/* The emulated device's --validate takes what the layer waits for and reads for no part of the program. */
static void count_waits(int32_t counts) {
    static void *slot;
    void (*count)(int32_t) = (void (*)(int32_t))cann_function("aclemuCountWaits", &slot);
    if (count != NULL) count(counts);
}

int data_wait(const void *stream) {
    static void *slot;
    int (*synchronise)(const void *) = (int (*)(const void *))cann_function("aclrtSynchronizeStream", &slot);
    count_waits(0);
    int status = synchronise != NULL ? synchronise(stream) : 0;
    count_waits(1);
    receive_data(NULL);
    return status;
}

/* ----------------------------------------------------------------------------------- statuses that the layer saw first */

#define MOST_LATE 64
static struct {
    const void *stream;
    int status;
} late[MOST_LATE];
static int late_count;
static pthread_mutex_t late_lock = PTHREAD_MUTEX_INITIALIZER;

void late_status(const void *stream, int status) {
    pthread_mutex_lock(&late_lock);
    if (late_count < MOST_LATE) {
        late[late_count].stream = stream;
        late[late_count].status = status;
        __atomic_store_n(&late_count, late_count + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&late_lock);
}

/* The status of the client's own synchronisation, of a stream or (all ones) of the device. */
int layer_late_status(const void *stream, int status) {
    if (status != 0 || __atomic_load_n(&late_count, __ATOMIC_ACQUIRE) == 0) return status;
    pthread_mutex_lock(&late_lock);
    for (int i = 0; i < late_count; i++) {
        if (late[i].stream != stream && stream != (const void *)UINTPTR_MAX) continue;
        status = late[i].status;
        late[i] = late[late_count - 1];
        __atomic_store_n(&late_count, late_count - 1, __ATOMIC_RELEASE);
        break;
    }
    pthread_mutex_unlock(&late_lock);
    return status;
}

/* ----------------------------------------------------------------------------------------------------------------- keys */

static file_key *keys;
static uint64_t key_count, key_room;
static const file_key no_key;

static bool is_set(const file_key *key) { return memcmp(key, &no_key, sizeof no_key) != 0; }

/* The place of a key in the table, or the empty place where it belongs. The lock is held. */
static file_key *place_of(const file_key *key) {
    uint64_t at;
    if (2 * (key_count + 1) > key_room) {
        file_key *old = keys;
        uint64_t old_room = key_room;
        key_room = key_room > 0 ? 2 * key_room : 1024;
        keys = calloc(key_room, sizeof *keys);
        if (keys == NULL) abort();
        for (uint64_t i = 0; i < old_room; i++) {
            if (is_set(&old[i])) *place_of(&old[i]) = old[i];
        }
        free(old);
    }
    memcpy(&at, key->bytes, sizeof at);
    for (at &= key_room - 1; is_set(&keys[at]) && memcmp(&keys[at], key, sizeof *key) != 0;) at = (at + 1) & (key_room - 1);
    return &keys[at];
}

void data_forget_keys(void) {
    free(keys);
    keys = NULL;
    key_count = key_room = 0;
}

/* ---------------------------------------------------------------------------------------------------------- compression */

typedef int compressor(unsigned char *result, unsigned long *size, const unsigned char *data, unsigned long count, int level);
typedef unsigned long bound(unsigned long count);

static compressor *compress_bytes;
static bound *compress_bound;

static void find_zlib(void) {
    void *library = dlopen("libz.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL) return; /* then data are kept as they are */
    compress_bound = (bound *)dlsym(library, "compressBound");
    compress_bytes = compress_bound != NULL ? (compressor *)dlsym(library, "compress2") : NULL;
}

static void put(const file_key *key, const unsigned char *bytes, uint64_t count, text *why) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct {
        file_key key;
        uint32_t codec, reserved;
        uint64_t size;
    } head = {*key, 0, 0, count};
    unsigned char *smaller = NULL;
    unsigned long size = 0;
    pthread_once(&once, find_zlib);
    if (compress_bytes != NULL && count > 64) {
        size = compress_bound(count);
        smaller = malloc(size);
        if (smaller != NULL && compress_bytes(smaller, &size, bytes, count, 1) == 0 && size < count) head.codec = 1;
    }
    if (head.codec == 0) size = count;
    recorder_lock();
    if (recorder_ready()) {
        file_key *place = place_of(key);
        if (!is_set(place)) {
            if (file_size() + size > settings.file_limit) {
                static const char words[] = "data: the file's limit is reached; ";
                text_raw(why, words, sizeof words - 1);
            } else if (file_append("DATA", &head, sizeof head, head.codec ? smaller : bytes, size)) {
                *place = *key;
                key_count++;
            }
        }
    }
    recorder_unlock();
    free(smaller);
}

bool data_of(const object *tensor, file_key *key, text *why) {
    uint64_t start, stop;
    byte_range(tensor->shape, &start, &stop);
    return stop > start && tensor->address != 0 && data_at(tensor->address + start, stop - start, key, why);
}

bool data_at(uint64_t address, uint64_t count, file_key *key, text *why) {
    static void *slot;
    char words[160];
    if (count > settings.tensor_limit) {
        text_raw(why, words, (size_t)snprintf(words, sizeof words, "data: tensors of more than %llu bytes; ",
                                              (unsigned long long)settings.tensor_limit));
        return false;
    }
    int (*copy)(void *, size_t, const void *, size_t, int) =
        (int (*)(void *, size_t, const void *, size_t, int))cann_function("aclrtMemcpy", &slot);
    unsigned char *bytes = malloc(count);
    count_waits(0);
    int status = bytes == NULL || copy == NULL ? -1 : copy(bytes, count, (const char *)(uintptr_t)address, count, ACL_MEMCPY_DEVICE_TO_HOST);
    count_waits(1);
    if (status != 0) {
        text_raw(why, words, (size_t)snprintf(words, sizeof words, "data: %llu bytes at %#llx cannot be copied (status %d); ",
                                              (unsigned long long)count, (unsigned long long)address, status));
    }
    bool kept = status == 0 && data_on_host(bytes, count, key, why);
    free(bytes);
    return kept;
}

bool data_on_host(const void *bytes, uint64_t count, file_key *key, text *why) {
    size_t before = why->length;
    file_digest(key, bytes, count);
    put(key, bytes, count, why);
    return why->length == before;
}
