/* Launches and calls become records. */
#include "recorder.h"
#include "spin.h"
#include "times.h"

#include "protocol.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

recorder_settings settings;

static bool lock;
static bool failed;
static uint64_t launches, calls;
static uint32_t tensor_count, operator_count;
static uint64_t fork_count; /* grows in each child, so that numbers of an older file are known */

_Thread_local int layer_depth __attribute__((tls_model("initial-exec")));
bool layer_records;
static _Thread_local int64_t this_thread;
static _Thread_local int32_t this_device = -1;

/* What a thread keeps for its next call is freed as it ends. */
static pthread_key_t thread_key;
static void forget_thread(void *unused);

__attribute__((constructor)) static void make_thread_key(void) {
    if (pthread_key_create(&thread_key, forget_thread) != 0) abort();
}

int64_t thread_id(void) {
    if (this_thread == 0) {
        this_thread = syscall(SYS_gettid);
        (void)pthread_setspecific(thread_key, &thread_key);
    }
    return this_thread;
}

void recorder_lock(void) { spin_lock(&lock); }
void recorder_unlock(void) { spin_unlock(&lock); }

/* ------------------------------------------------------------------------------------------------------ CANN's functions */

#define MOST_LIBRARIES 64
static void *libraries[MOST_LIBRARIES];
static int library_count;

void *layer_open(const char *path) {
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "ascend-aclnn layer: %s\n", dlerror());
        return NULL;
    }
    int at = __atomic_fetch_add(&library_count, 1, __ATOMIC_ACQ_REL);
    if (at < MOST_LIBRARIES) __atomic_store_n(&libraries[at], library, __ATOMIC_RELEASE);
    return library;
}

void *layer_find(void *library, const char *name, void **slot) {
    void *function = library != NULL ? dlsym(library, name) : NULL;
    if (function == NULL) {
        fprintf(stderr, "ascend-aclnn layer: the CANN that is in use has lost %s since the layer was built\n", name);
        abort();
    }
    __atomic_store_n(slot, function, __ATOMIC_RELEASE);
    return function;
}

void *cann_function(const char *name, void **slot) {
    void *function = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    int count = __atomic_load_n(&library_count, __ATOMIC_ACQUIRE);
    for (int i = 0; function == NULL && i < count && i < MOST_LIBRARIES; i++) {
        void *library = __atomic_load_n(&libraries[i], __ATOMIC_ACQUIRE);
        function = library != NULL ? dlsym(library, name) : NULL;
    }
    if (function != NULL) __atomic_store_n(slot, function, __ATOMIC_RELEASE);
    return function;
}

void layer_device_changed(void) { this_device = -1; }

int32_t current_device(void) {
    static void *slot;
    if (this_device < 0) {
        int (*get_device)(int32_t *) = (int (*)(int32_t *))cann_function("aclrtGetDevice", &slot);
        layer_depth++;
        if (get_device == NULL || get_device(&this_device) != 0) this_device = -1;
        layer_depth--;
    }
    return this_device < 0 ? 0 : this_device;
}

/* ------------------------------------------------------------------------------------------------------------- the file */

static uint64_t number_of(const char *name, uint64_t otherwise) {
    const char *value = getenv(name);
    return value != NULL && *value != 0 ? strtoull(value, NULL, 10) : otherwise;
}

static void pending_lock(void);
static void pending_unlock(void);
static void pending_forget(void);

static void before_fork(void) {
    receives_lock();
    spin_lock(&lock);
    pending_lock();
    objects_lock();
}

static void after_fork(void) {
    objects_unlock();
    pending_unlock();
    spin_unlock(&lock);
    receives_unlock();
}

static void in_child(void) {
    data_forget_keys();
    call_site_forget();
    file_abandon(); /* the child's own file is created at its first call */
    launches = calls = 0;
    tensor_count = operator_count = 0;
    fork_count++;
    this_thread = 0;
    pending_forget();
    objects_changes++; /* the ids of descriptions are those of the parent's file */
    receives_forget();
    after_fork();
}

__attribute__((constructor)) static void set_up(void) {
    settings.file = getenv("ASCEND_LAYER_RECORD");
    settings.header = getenv("ASCEND_LAYER_HEADER");
    settings.data = getenv("ASCEND_LAYER_DATA");
    settings.tensor_limit = number_of("ASCEND_LAYER_TENSOR_LIMIT", 1ull << 30);
    settings.file_limit = number_of("ASCEND_LAYER_FILE_LIMIT", 16ull << 30);
    settings.stacks = number_of("ASCEND_LAYER_STACKS", 0) != 0;
    if (settings.data != NULL) {
        settings.all = strcmp(settings.data, "all") == 0;
        if (strncmp(settings.data, "first=", 6) == 0) settings.first = strtoull(settings.data + 6, NULL, 10);
        if (strncmp(settings.data, "sample=", 7) == 0) settings.sample = strtod(settings.data + 7, NULL);
    }
    layer_records = settings.file != NULL && *settings.file != 0;
    if (layer_records) pthread_atfork(before_fork, after_fork, in_child);
}

/* FILE, FILE with .rankN where the process is one of several, and then .2, .3, ... where that is taken. */
static bool create(void) {
    char path[4096];
    const char *dot = strrchr(settings.file, '.'), *slash = strrchr(settings.file, '/');
    if (dot == NULL || (slash != NULL && dot < slash)) dot = settings.file + strlen(settings.file);
    int stem = (int)(dot - settings.file);
    const char *rank = getenv("RANK") != NULL ? getenv("RANK") : getenv("RANK_ID");
    char part[32] = "";
    if (rank != NULL && *rank != 0) snprintf(part, sizeof part, ".rank%lu", strtoul(rank, NULL, 10));
    for (int number = 1; number < 10000; number++) {
        if (number == 1) snprintf(path, sizeof path, "%.*s%s%s", stem, settings.file, part, dot);
        else snprintf(path, sizeof path, "%.*s%s.%d%s", stem, settings.file, part, number, dot);
        if (file_create(path)) {
            times_start(path);
            return true;
        }
        if (errno != EEXIST) break;
    }
    fprintf(stderr, "ascend-aclnn layer: %s cannot be created (%s); nothing is recorded\n", path, strerror(errno));
    return false;
}

static bool is_kept(const char *variable) {
    static const char *const kept[] = {"ASCEND_", "HCCL_", "ACL", "TASK_QUEUE_ENABLE=", "RANK", "WORLD_SIZE=", "LOCAL_RANK=",
                                       "MASTER_", "PYTORCH_NPU_", "NPU_", "CPU_AFFINITY_CONF=", "MULTI_STREAM_"};
    static const char *const secret[] = {"KEY", "TOKEN", "SECRET", "PASSW", "ASCEND_LAYER_"};
    const char *equals = strchr(variable, '=');
    for (size_t i = 0; i < sizeof secret / sizeof *secret; i++) {
        const char *at = strstr(variable, secret[i]);
        if (at != NULL && at < equals) return false;
    }
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (strncmp(variable, kept[i], strlen(kept[i])) == 0) return equals != NULL;
    }
    return false;
}

static void write_header(void) {
    extern char **environ;
    static void *slot;
    text t = {0};
    char buffer[4096], moment[64], name[256] = "";
    const char *(*soc_name)(void) = (const char *(*)(void))cann_function("aclrtGetSocName", &slot);
    layer_depth++;
    const char *soc = soc_name != NULL ? soc_name() : NULL;
    layer_depth--;
    text_literal(&t, "{");
    if (settings.header != NULL && settings.header[0] == '{' && settings.header[1] != '}') {
        text_raw(&t, settings.header + 1, strlen(settings.header) - 2); /* what ascend-aclnn layer run knows */
        text_literal(&t, ",");
    }
    text_literal(&t, "\"soc\":");
    text_string(&t, soc != NULL ? soc : "");
    text_literal(&t, ",\"program\":[");
    FILE *file = fopen("/proc/self/cmdline", "re");
    size_t count = file != NULL ? fread(buffer, 1, sizeof buffer - 1, file) : 0;
    if (file != NULL) fclose(file);
    buffer[count] = 0;
    for (size_t at = 0; at < count; at += strlen(buffer + at) + 1) {
        if (at > 0) text_literal(&t, ",");
        text_string(&t, buffer + at);
    }
    text_literal(&t, "],\"environment\":{");
    bool any = false;
    for (char **at = environ; *at != NULL; at++) {
        const char *equals = strchr(*at, '=');
        if (!is_kept(*at) || equals == NULL || equals - *at >= (ptrdiff_t)sizeof name) continue;
        snprintf(name, sizeof name, "%.*s", (int)(equals - *at), *at);
        if (any) text_literal(&t, ",");
        any = true;
        text_string(&t, name);
        text_literal(&t, ":");
        text_string(&t, equals + 1);
    }
    text_literal(&t, "},\"process\":");
    text_integer(&t, getpid());
    if (gethostname(name, sizeof name) != 0) name[0] = 0;
    name[sizeof name - 1] = 0;
    text_literal(&t, ",\"host\":");
    text_string(&t, name);
    time_t seconds = time(NULL);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    strftime(moment, sizeof moment, "%Y-%m-%dT%H:%M:%SZ", &parts);
    text_literal(&t, ",\"started\":");
    text_string(&t, moment);
    text_literal(&t, ",\"clock\":\"CLOCK_MONOTONIC, ns\",\"data\":");
    text_string(&t, settings.data != NULL ? settings.data : "");
    const char *rank = getenv("RANK") != NULL ? getenv("RANK") : getenv("RANK_ID");
    text_literal(&t, ",\"rank\":");
    text_integer(&t, rank != NULL && *rank != 0 ? strtol(rank, NULL, 10) : -1);
    text_literal(&t, "}");
    recorder_write("HEAD", &t);
    free(t.data);
}

bool recorder_ready(void) {
    if (file_is_open()) return true;
    if (failed) return false;
    if (!create()) {
        failed = true;
        return false;
    }
    write_header();
    return true;
}

void recorder_write(const char type[4], const text *t) {
    if (t->length > 1u << 24) return; /* longer than a reader takes: a list of millions */
    recorder_append(type, t->data, t->length);
}

void recorder_append(const char type[4], const void *payload, size_t length) {
    if (!file_append(type, NULL, 0, payload, length) && !failed) {
        failed = true;
        fprintf(stderr, "ascend-aclnn layer: the recording ends here: %s\n", strerror(errno));
    }
}

__attribute__((destructor)) static void finish(void) {
    spin_lock(&lock);
    if (file_is_open()) {
        text t = {0};
        text_literal(&t, "{\"launches\":");
        text_address(&t, launches);
        text_literal(&t, ",\"calls\":");
        text_address(&t, calls);
        text_literal(&t, "}");
        recorder_write("DONE", &t);
        free(t.data);
        file_close();
    }
    failed = true;
    spin_unlock(&lock);
}

/* A thread's own text, which keeps its memory. */
static _Thread_local text scratch_text;

static text *scratch(void) {
    scratch_text.length = 0;
    return &scratch_text;
}

/* ------------------------------------------------------------------------------------------------------------- messages */

static _Thread_local char *message; /* aclGetRecentErrMsg's text, read by the layer before the client has asked */

/* Reads the text of a failure, and keeps it for the client. */
static const char *read_message(void) {
    static void *slot;
    const char *(*recent)(void) = (const char *(*)(void))cann_function("aclGetRecentErrMsg", &slot);
    layer_depth++;
    const char *found = recent != NULL ? recent() : NULL;
    layer_depth--;
    if (found != NULL) {
        free(message);
        message = strdup(found);
    }
    return message != NULL ? message : "";
}

static _Thread_local char *given; /* the text that the client has got */

const char *layer_message(const char *found) {
    if (found != NULL && *found != 0) return found;
    if (message == NULL) return found;
    free(given);
    given = message;
    message = NULL;
    return given;
}

/* ------------------------------------------------------------------------------------------------------------- launches */

#define MOST_WORDS 48 /* of the values of a brief record; a longer one is JSON */

struct layer_launch {
    /* What phase one writes, and another thread may read: two lines of the cache where the values are few. */
    const void *key; /* of a slot: the executor; NULL: it is free; BUSY: it is being changed, or its launch is under way */
    layer_operator *operator;
    uint64_t begin, end, workspace;
    int64_t site;
    uint64_t changes; /* objects_changes as the words were made */
    int32_t thread, status;
    const void *executor;
    uint32_t word_count; /* 0: it has none */
    bool repeatable;
    uint64_t words[MOST_WORDS]; /* its values, as they are in a brief record */
    /* What is not needed of most launches, or phase two's. */
    const void *stream;
    uint64_t begin_two, index, place; /* of its record in the file, if that is a brief one; 0: it is not */
    uint64_t file; /* which of the process's files, after forks */
    layer_launch *next;
    char *strings; /* copies of the strings, one behind the other */
    char *handles; /* of its own, which stand for values */
    uint32_t handle_count;
    bool with_data;
    layer_value values[];
};

/* Launches between their phases. Most are in the slot of their executor, and need neither a lock nor memory; the others are in lists. */
#define BUCKETS 256
#define USUAL_VALUES 26
static union slot {
    layer_launch launch;
    char room[sizeof(layer_launch) + USUAL_VALUES * sizeof(layer_value)];
} __attribute__((aligned(64))) slots[BUCKETS];
#define BUSY ((const void *)slots)
static struct {
    pthread_mutex_t lock;
    layer_launch *first;
} pending[BUCKETS] = {[0 ... BUCKETS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};
static uint64_t listed; /* launches in lists */

static void pending_lock(void) {
    for (int i = 0; i < BUCKETS; i++) pthread_mutex_lock(&pending[i].lock);
}

static void pending_unlock(void) {
    for (int i = 0; i < BUCKETS; i++) pthread_mutex_unlock(&pending[i].lock);
}

/* In the child of a fork: what other threads of the parent's were changing is lost. */
static void pending_forget(void) {
    for (int i = 0; i < BUCKETS; i++) {
        if (slots[i].launch.key == BUSY) slots[i].launch.key = NULL;
    }
}

static inline unsigned bucket_of(const void *executor) { return (unsigned)((uint64_t)(uintptr_t)executor * 0x9E3779B97F4A7C15ull >> 56); }

static inline bool in_slot(const layer_launch *launch) {
    const union slot *slot = (const union slot *)(const void *)launch;
    return slot >= slots && slot < slots + BUCKETS;
}

/* Asks for the first two lines of a slot, which the thread of phase two has had, to write them soon. */
static inline void take_lines(const union slot *slot) {
    for (int at = 0; at < 128; at += 64) {
#ifdef __x86_64__
        __asm__ volatile("prefetchw %0" : : "m"(slot->room[at])); /* the compiler's own only reads */
#else
        __builtin_prefetch(&slot->room[at], 1);
#endif
    }
}

/* A launch with room for so many values, in the slot of its executor if that is free. */
static inline layer_launch *new_launch(const void *executor, uint32_t count) {
    union slot *slot = &slots[bucket_of(executor)];
    const void *none = NULL;
    if (executor != NULL && count <= USUAL_VALUES && __atomic_load_n(&slot->launch.key, __ATOMIC_RELAXED) == NULL &&
        __atomic_compare_exchange_n(&slot->launch.key, &none, BUSY, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
        slot->launch.executor = executor;
        return &slot->launch;
    }
    layer_launch *launch = malloc(sizeof *launch + count * sizeof launch->values[0]);
    if (launch == NULL) abort();
    launch->executor = executor;
    launch->strings = launch->handles = NULL;
    return launch;
}

static __attribute__((noinline)) void free_handles(char *handles, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) layer_forget(own_handle(handles, i));
    free(handles);
}

static inline void free_launch(layer_launch *launch) {
    if (launch == NULL) return;
    if (launch->strings != NULL) free(launch->strings);
    if (launch->handles != NULL) free_handles(launch->handles, launch->handle_count);
    launch->strings = launch->handles = NULL;
    if (in_slot(launch)) __atomic_store_n(&launch->key, NULL, __ATOMIC_RELEASE);
    else free(launch);
}

static void forget_thread(void *unused) {
    (void)unused;
    free(scratch_text.data);
    free(message);
    free(given);
    scratch_text = (text){0};
    message = given = NULL;
    calls_forget_thread();
    objects_forget_thread();
    this_thread = 0; /* if another destructor calls, once more */
}

static __attribute__((noinline)) layer_launch *take_listed(const void *executor) {
    unsigned bucket = bucket_of(executor);
    pthread_mutex_lock(&pending[bucket].lock);
    layer_launch **at = &pending[bucket].first, *found;
    while (*at != NULL && (*at)->executor != executor) at = &(*at)->next;
    found = *at;
    if (found != NULL) {
        *at = found->next;
        __atomic_fetch_sub(&listed, 1, __ATOMIC_ACQ_REL);
    }
    pthread_mutex_unlock(&pending[bucket].lock);
    return found;
}

/* Takes what is known of an executor out of the table. */
static inline layer_launch *take(const void *executor) {
    layer_launch *here = &slots[bucket_of(executor)].launch;
    const void *expected = executor;
    if (executor == NULL) return NULL;
    if (__atomic_load_n(&here->key, __ATOMIC_RELAXED) == executor &&
        __atomic_compare_exchange_n(&here->key, &expected, BUSY, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return here;
    return __atomic_load_n(&listed, __ATOMIC_ACQUIRE) != 0 ? take_listed(executor) : NULL;
}

static inline void keep(layer_launch *launch) {
    if (in_slot(launch)) {
        __atomic_store_n(&launch->key, launch->executor, __ATOMIC_RELEASE);
        return;
    }
    unsigned bucket = bucket_of(launch->executor);
    pthread_mutex_lock(&pending[bucket].lock);
    launch->next = pending[bucket].first;
    pending[bucket].first = launch;
    __atomic_fetch_add(&listed, 1, __ATOMIC_ACQ_REL);
    pthread_mutex_unlock(&pending[bucket].lock);
}

void layer_repeatable(const void *executor) {
    layer_launch *launch = take(executor);
    if (launch == NULL) return;
    launch->repeatable = true;
    keep(launch);
}

void layer_owns(const void *executor, char *handles, uint32_t count) {
    layer_launch *launch = take(executor);
    if (launch == NULL) { /* of a function that made none, and returned success */
        free_handles(handles, count);
        return;
    }
    launch->handles = handles;
    launch->handle_count = count;
    keep(launch);
}

void layer_forget_executor(const void *executor) { free_launch(take(executor)); }

static void write_operator(layer_operator *operator) {
    text t = {0};
    operator->id = ++operator_count;
    text_literal(&t, "{\"id\":");
    text_address(&t, operator->id - 1);
    text_literal(&t, ",\"name\":");
    text_string(&t, operator->name);
    text_literal(&t, ",\"parameters\":[");
    for (uint32_t i = 0; i < operator->count; i++) {
        if (i > 0) text_literal(&t, ",");
        text_string(&t, operator->parameters[i]);
    }
    text_literal(&t, "],\"directions\":[");
    for (uint32_t i = 0; i < operator->count; i++) {
        if (i > 0) text_literal(&t, ",");
        char direction = operator->directions[i];
        text_string(&t, direction == 'o' ? "out" : direction == 'x' ? "inout" : "in");
    }
    text_literal(&t, "]}");
    recorder_write("PROT", &t);
    free(t.data);
}

static void write_numbers(text *t, const int64_t *numbers, uint64_t count) {
    text_literal(t, "[");
    for (uint64_t i = 0; i < count; i++) {
        if (i > 0) text_literal(t, ",");
        text_integer(t, numbers[i]);
    }
    text_literal(t, "]");
}

static __attribute__((noinline)) uint32_t write_description(const description *shape) {
    description *d = (description *)shape; /* only its id changes */
    uint32_t generation = (uint32_t)(fork_count << 28);
    __atomic_store_n(&d->id, ++tensor_count | generation, __ATOMIC_RELAXED); /* phase one reads it without the lock */
    text t = {0};
    text_literal(&t, "{\"id\":");
    text_address(&t, tensor_count - 1);
    text_literal(&t, ",\"dtype\":");
    text_integer(&t, d->dtype);
    text_literal(&t, ",\"format\":");
    text_integer(&t, d->format);
    text_literal(&t, ",\"shape\":");
    write_numbers(&t, d->numbers, d->rank);
    text_literal(&t, ",\"strides\":");
    write_numbers(&t, d->numbers + d->rank, d->rank);
    text_literal(&t, ",\"offset\":");
    text_integer(&t, d->offset);
    text_literal(&t, ",\"storage_shape\":");
    write_numbers(&t, d->numbers + 2 * d->rank, d->storage_rank);
    text_literal(&t, "}");
    recorder_write("TENS", &t);
    free(t.data);
    return tensor_count - 1;
}

/* Its id plus one if it has been written to this file; 0: not yet. */
static inline uint32_t written_id(const description *d) {
    uint32_t written = __atomic_load_n(&d->id, __ATOMIC_RELAXED), id = written ^ (uint32_t)(fork_count << 28);
    return written != 0 && id >> 28 == 0 ? id : 0;
}

/* The id of a description, which is written when it is first used. The lock is held. */
static uint32_t tensor_id(const description *d) {
    uint32_t id = written_id(d);
    return id != 0 ? id - 1 : write_description(d);
}

static void write_unknown(text *t, const void *handle) {
    text_literal(t, "{\"unknown\":");
    text_address(t, (uint64_t)(uintptr_t)handle);
    text_literal(t, "}");
}

static void write_key(text *t, const file_key *key) {
    text_literal(t, "\"");
    text_hex(t, key->bytes, sizeof key->bytes);
    text_literal(t, "\"");
}

/* A tensor; `keys` has the keys of its bytes, or NULL. */
static void write_tensor(text *t, const object *tensor, const file_key *key) {
    text_literal(t, "{\"tensor\":");
    text_address(t, tensor_id(tensor->shape));
    text_literal(t, ",\"address\":");
    text_address(t, tensor->address);
    if (key != NULL) {
        text_literal(t, ",\"before\":");
        write_key(t, key);
    }
    text_literal(t, "}");
}

static void write_scalar(text *t, const object *scalar) {
    text_literal(t, "{\"scalar\":");
    text_integer(t, scalar->dtype);
    text_literal(t, ",\"bytes\":\"");
    text_hex(t, scalar->bytes, scalar->size);
    text_literal(t, "\"}");
}

/* Keys of the tensors of a launch, in order; `known` tells which there are. */
typedef struct {
    file_key *keys;
    bool *known;
    size_t count, at;
} key_list;

static const file_key *next_key(key_list *list) {
    size_t at = list->at++;
    return at < list->count && list->known[at] ? &list->keys[at] : NULL;
}

static void write_list(text *t, const object *list, key_list *keys) {
    bool tensors = list->kind == LETTER_TENSOR_LIST;
    if (tensors) text_literal(t, "{\"tensors\":[");
    else text_literal(t, "{\"scalars\":[");
    for (uint64_t i = 0; i < list->count; i++) {
        const void *handle = (const void *)(uintptr_t)list->words[i];
        object member = object_of(handle);
        if (i > 0) text_literal(t, ",");
        if (member.kind == LETTER_TENSOR && tensors) write_tensor(t, &member, next_key(keys));
        else if (member.kind == LETTER_SCALAR && !tensors) write_scalar(t, &member);
        else text_literal(t, "null");
    }
    text_literal(t, "]}");
}

#define MOST_ITEMS (1u << 20) /* of an array or list in a record */

static void write_array(text *t, const object *array) {
    if (array->kind == LETTER_INT_ARRAY) {
        text_literal(t, "{\"integers\":");
        write_numbers(t, (const int64_t *)array->words, array->count);
    } else {
        bool floats = array->kind == LETTER_FLOAT_ARRAY;
        if (floats) text_literal(t, "{\"floats\":[");
        else text_literal(t, "{\"booleans\":[");
        for (uint64_t i = 0; i < array->count; i++) {
            double number;
            memcpy(&number, &array->words[i], sizeof number);
            if (i > 0) text_literal(t, ",");
            if (floats) text_number(t, number);
            else if (array->words[i] != 0) text_literal(t, "true");
            else text_literal(t, "false");
        }
        text_literal(t, "]");
    }
    text_literal(t, "}");
}

static void write_handle(text *t, const void *handle, key_list *keys) {
    object value = object_of(handle);
    if (handle == NULL) text_literal(t, "null");
    else if (value.kind == 0 || (value.kind != LETTER_TENSOR && value.kind != LETTER_SCALAR && value.count > MOST_ITEMS)) write_unknown(t, handle);
    else if (value.kind == LETTER_TENSOR) write_tensor(t, &value, next_key(keys));
    else if (value.kind == LETTER_SCALAR) write_scalar(t, &value);
    else if (value.kind == LETTER_TENSOR_LIST || value.kind == LETTER_SCALAR_LIST) write_list(t, &value, keys);
    else write_array(t, &value);
}

#define MOST_TEXT ((1u << 24) - 4096) /* of a record's values: a reader takes 16 MiB */

static void write_values(text *t, const layer_operator *operator, const layer_value *values, const char *string, key_list *keys) {
    size_t begin = t->length;
    text_literal(t, "[");
    for (uint32_t i = 0; i < operator->count; i++) {
        if (i > 0) text_literal(t, ",");
        switch (operator->kinds[i]) {
            case LETTER_STRING:
                if (values[i].pointer == NULL) {
                    text_literal(t, "null");
                } else {
                    text_literal(t, "{\"string\":");
                    text_string(t, string);
                    text_literal(t, "}");
                    string += strlen(string) + 1;
                }
                break;
            case LETTER_DOUBLE:
                text_literal(t, "{\"number\":");
                text_number(t, values[i].number);
                text_literal(t, "}");
                break;
            case 'i': text_integer(t, values[i].integer); break;
            default: write_handle(t, values[i].pointer, keys);
        }
    }
    if (t->length > MOST_TEXT) { /* lists of millions */
        t->length = begin;
        text_literal(t, "[");
        for (uint32_t i = 0; i < operator->count; i++) {
            if (i > 0) text_literal(t, ",");
            write_unknown(t, values[i].pointer);
        }
    }
    text_literal(t, "]");
}

/* --------------------------------------------------------------------------------------------------- brief records (LAUN) */

/* A brief record is 64-bit words that are written where they stay, in the file. Those of its values are made in phase one, by the thread
   that has made the handles. */
#define HEAD_WORDS 9 /* with the one for what phase two returns */
#define CHECK_FACTOR 0x9E3779B97F4A7C15ull

static inline uint64_t two_halves(uint64_t low, uint64_t high) { return (uint32_t)low | high << 32; }

static inline uint32_t check_of(uint64_t sum) { return (uint32_t)(sum * CHECK_FACTOR >> 32); } /* the last word counts as the others do */

/* The words of a value of a brief record, of which there is room for `room`; its kind, or -1 where it has no place in one. The lock of the
   handles is held. */
static inline int value_words(uint64_t **at, ptrdiff_t room, char kind, const layer_value *value) {
    uint64_t *to = *at;
    if (kind != 'i' && kind != LETTER_DOUBLE && value->pointer == NULL) return BRIEF_NULL;
    if (room < 3) return -1;
    if (kind == 'i' || kind == LETTER_DOUBLE) {
        *to = (uint64_t)value->integer; /* or the bits of a number */
        *at = to + 1;
        return kind == 'i' ? BRIEF_INTEGER : BRIEF_NUMBER;
    }
    const object *known = kind != LETTER_STRING ? known_object(value->pointer) : NULL;
    if (known == NULL) return -1;
    if (known->kind == LETTER_TENSOR) {
        uint64_t id = written_id(known->shape), address = known->address;
        if (id-- == 0) return -1;
        bool near = (address | id << 32) >> 48 == 0;
        *to++ = near ? address | id << 48 : id;
        if (!near) *to++ = address;
        *at = to;
        return near ? BRIEF_TENSOR : BRIEF_FAR_TENSOR;
    }
    if (known->kind == LETTER_SCALAR) {
        *to++ = two_halves((uint32_t)known->dtype, known->size);
        memcpy(to, known->bytes, sizeof known->bytes);
        *at = to + (known->size > 8 ? 2 : 1);
        return BRIEF_SCALAR;
    }
    bool booleans = known->kind == LETTER_BOOL_ARRAY;
    if ((!booleans && known->kind != LETTER_INT_ARRAY) || known->count >= (uint64_t)room) return -1;
    *to++ = known->count;
    for (uint64_t i = 0; i < known->count; i++) *to++ = known->words[i];
    *at = to;
    return booleans ? BRIEF_BOOLEANS : BRIEF_INTEGERS;
}

/* The words of all values, behind them their kinds, a byte each; how many. 0: one needs JSON, or is a tensor whose description is not written. */
static inline uint32_t make_words(const layer_operator *operator, const layer_value *values, uint64_t words[MOST_WORDS]) {
    uint32_t count = operator->count, kind_words = (count + 7) / 8;
    if (count > USUAL_VALUES) return 0;
    uint64_t *at = words, *end = words + MOST_WORDS - kind_words, kinds[(USUAL_VALUES + 7) / 8] = {0};
    bool known = true;
    spin_lock(&handles.locked);
    for (uint32_t i = 0; i < count && known; i++) {
        int kind = value_words(&at, end - at, operator->kinds[i], &values[i]);
        known = kind >= 0;
        kinds[i / 8] |= (uint64_t)(kind & 0xFF) << i % 8 * 8;
    }
    spin_unlock(&handles.locked);
    if (!known) return 0;
    for (uint32_t i = 0; i < kind_words; i++) *at++ = kinds[i];
    return (uint32_t)(at - words);
}

static inline void set_words(layer_launch *launch, const uint64_t *words, uint32_t count, uint64_t changes) {
    for (uint32_t i = 0; i < count; i++) launch->words[i] = words[i];
    launch->word_count = count;
    launch->changes = changes;
}

static __attribute__((noinline)) bool renew_words(layer_launch *launch) {
    uint64_t words[MOST_WORDS], changes = __atomic_load_n(&objects_changes, __ATOMIC_ACQUIRE);
    set_words(launch, words, make_words(launch->operator, launch->values, words), changes);
    return launch->word_count > 0;
}

/* Writes the descriptions of a launch's tensors that have not been; whether there were some. */
static __attribute__((noinline)) bool write_descriptions(const layer_launch *launch) {
    uint32_t before = tensor_count;
    for (uint32_t i = 0; i < launch->operator->count; i++) {
        object value = launch->operator->kinds[i] == LETTER_TENSOR ? object_of(launch->values[i].pointer) : (object){0};
        if (value.kind == LETTER_TENSOR) (void)tensor_id(value.shape);
    }
    return tensor_count != before;
}

/* Whether a launch has the words of a brief record, as its tensors are now. */
static inline bool has_words(layer_launch *launch) {
    bool valid = launch->word_count > 0 && !launch->repeatable && launch->changes == __atomic_load_n(&objects_changes, __ATOMIC_ACQUIRE);
    return valid || renew_words(launch) || (write_descriptions(launch) && renew_words(launch));
}

typedef struct {
    uint64_t *at, check;
} words;

static inline void put_word(words *w, uint64_t word) {
    *w->at++ = word;
    w->check = w->check * CHECK_FACTOR + word;
}

/* Writes a launch without data and errors in few bytes; false where it has a value that needs JSON. */
static inline bool write_brief(layer_launch *launch, const void *workspace, uint64_t size) {
    if ((launch->index | (launch->end - launch->begin)) >> 32 != 0 || !has_words(launch)) return false;
    uint64_t *room = file_room((HEAD_WORDS + MOST_WORDS) * sizeof *room);
    if (room == NULL) return false;
    words w = {.at = room + 1};
    bool has_workspace = size != 0 || workspace != NULL, has_site = launch->site >= 0;
    unsigned flags = (launch->repeatable ? BRIEF_REPEATABLE : 0) | (has_workspace ? BRIEF_WORKSPACE : 0) | (has_site ? BRIEF_SITE : 0);
    put_word(&w, two_halves((launch->operator->id & 0x0FFFFFFFu) - 1, launch->index));
    put_word(&w, launch->begin);
    put_word(&w, two_halves(launch->end - launch->begin, (uint64_t)launch->thread));
    put_word(&w, two_halves((uint64_t)thread_id(), (uint64_t)(uint16_t)current_device() | (uint64_t)flags << 16));
    put_word(&w, (uint64_t)(uintptr_t)launch->stream);
    if (has_workspace) {
        put_word(&w, size);
        put_word(&w, (uint64_t)(uintptr_t)workspace);
    }
    if (has_site) put_word(&w, (uint64_t)launch->site);
    for (uint32_t i = 0; i < launch->word_count; i++) put_word(&w, launch->words[i]);
    launch->place = file_finish("LAUN", check_of(w.check), (uint64_t)(w.at - room) * sizeof *room);
    return true;
}

/* Says in a brief record, in its first word, that phase two has succeeded; false where the launch has none. */
static inline bool write_brief_return(const layer_launch *launch, uint64_t end) {
    uint64_t later = launch->begin_two - launch->end, duration = end - launch->begin_two;
    if (launch->place == 0 || (later | duration) >> 32 != 0) return false;
    recorder_lock();
    file_fill(launch->place, two_halves(later, duration > 0 ? duration : 1));
    recorder_unlock();
    return true;
}

static __attribute__((noinline)) void write_long(const layer_launch *launch, const void *workspace, uint64_t size, key_list *keys,
                                                 const char *error, const text *left_out) {
    const layer_operator *operator = launch->operator;
    text *t = scratch();
    text_literal(t, "{\"index\":");
    text_address(t, launch->index);
    text_literal(t, ",\"op\":");
    text_address(t, (operator->id & 0x0FFFFFFFu) - 1);
    text_literal(t, ",\"args\":");
    write_values(t, operator, launch->values, launch->strings, keys);
    text_literal(t, ",\"status\":");
    text_integer(t, launch->status);
    text_literal(t, ",\"workspace\":[");
    text_address(t, size);
    text_literal(t, ",");
    text_address(t, (uint64_t)(uintptr_t)workspace);
    text_literal(t, "]");
    if (launch->repeatable) text_literal(t, ",\"repeatable\":true");
    text_literal(t, ",\"stream\":");
    text_address(t, (uint64_t)(uintptr_t)launch->stream);
    text_literal(t, ",\"device\":");
    text_integer(t, current_device());
    text_literal(t, ",\"threads\":[");
    text_integer(t, launch->thread);
    text_literal(t, ",");
    text_integer(t, thread_id());
    text_literal(t, "],\"times\":[");
    text_address(t, launch->begin);
    text_literal(t, ",");
    text_address(t, launch->end);
    text_literal(t, "]");
    if (launch->site >= 0) {
        text_literal(t, ",\"site\":");
        text_integer(t, launch->site);
    }
    if (error != NULL && *error != 0) {
        text_literal(t, ",\"error\":");
        text_string(t, error);
    }
    if (left_out->length > 0) {
        text_literal(t, ",\"left_out\":");
        text_string(t, left_out->data);
    }
    text_literal(t, "}");
    recorder_write("OPER", t);
}

/* Numbers a launch; the lock is held. */
static inline void number(layer_launch *launch) {
    layer_operator *operator = launch->operator;
    if ((operator->id & 0xF0000000u) != (uint32_t)(fork_count << 28) || operator->id == 0) {
        write_operator(operator);
        operator->id |= (uint32_t)(fork_count << 28);
    }
    launch->index = launches;
    launch->place = 0;
    launch->file = fork_count;
    __atomic_store_n(&launches, launches + 1, __ATOMIC_RELAXED); /* read without the lock */
}

/* Writes a launch; the lock is held. */
static void write_launch(layer_launch *launch, const void *workspace, uint64_t size, key_list *keys, const char *error,
                         const text *left_out) {
    number(launch);
    bool plain = launch->status == 0 && keys->count == 0 && (error == NULL || *error == 0) && left_out->length == 0;
    if (!plain || !write_brief(launch, workspace, size)) write_long(launch, workspace, size, keys, error, left_out);
}

void layer_phase_one(const layer_frame *frame, layer_operator *operator, const layer_value *values, int status,
                     const uint64_t *workspace, void *const *executor) {
    if (!frame->outer) return;
    const void *handle = executor != NULL && status == 0 ? *executor : NULL;
    take_lines(&slots[bucket_of(handle)]);
    uint64_t end = layer_now(), words[MOST_WORDS], changes = __atomic_load_n(&objects_changes, __ATOMIC_ACQUIRE);
    uint32_t word_count = make_words(operator, values, words); /* while the slot comes from the other thread's cache */
    free_launch(take(handle)); /* of an executor that was never run */
    layer_launch *launch = new_launch(handle, operator->count);
    launch->operator = operator;
    launch->begin = frame->begin;
    launch->end = end;
    launch->workspace = workspace != NULL && status == 0 ? *workspace : 0;
    launch->thread = (int32_t)thread_id();
    launch->site = settings.stacks || status != 0 ? call_site() : -1;
    launch->status = status;
    launch->repeatable = false;
    set_words(launch, words, word_count, changes);
    for (uint32_t i = 0; i < operator->count; i++) launch->values[i] = values[i];
    size_t length = 0;
    for (uint32_t i = 0; i < operator->count; i++) {
        if (operator->kinds[i] != LETTER_STRING || values[i].pointer == NULL) continue;
        size_t more = strlen(values[i].pointer) + 1;
        launch->strings = realloc(launch->strings, length + more);
        if (launch->strings == NULL) abort();
        memcpy(launch->strings + length, values[i].pointer, more);
        length += more;
    }
    if (handle != NULL) {
        keep(launch);
        return;
    }
    const char *error = read_message();
    key_list none = {0};
    launch->stream = NULL;
    recorder_lock();
    if (recorder_ready()) write_launch(launch, NULL, 0, &none, error, &(text){0});
    recorder_unlock();
    free_launch(launch);
}

/* Calls `visit` with every tensor of a launch, in the order in which it is written; `direction` is that of its parameter. */
static void visit_tensors(const layer_launch *launch, void (*visit)(const object *tensor, char direction, void *context), void *context) {
    const layer_operator *operator = launch->operator;
    for (uint32_t i = 0; i < operator->count; i++) {
        char kind = operator->kinds[i];
        if (kind != LETTER_TENSOR && kind != LETTER_TENSOR_LIST) continue;
        object value = object_of(launch->values[i].pointer);
        if (value.kind == LETTER_TENSOR) visit(&value, operator->directions[i], context);
        for (uint64_t k = 0; value.kind == LETTER_TENSOR_LIST && k < value.count; k++) {
            object member = object_of((const void *)(uintptr_t)value.words[k]);
            if (member.kind == LETTER_TENSOR) visit(&member, operator->directions[i], context);
        }
    }
}

typedef struct {
    key_list list;
    text left_out;
    bool outputs;
} collection;

static void collect(const object *tensor, char direction, void *context) {
    collection *c = context;
    if (c->list.count % 16 == 0) {
        c->list.keys = realloc(c->list.keys, (c->list.count + 16) * sizeof *c->list.keys);
        c->list.known = realloc(c->list.known, c->list.count + 16);
        if (c->list.keys == NULL || c->list.known == NULL) abort();
    }
    bool wanted = c->outputs ? direction == 'o' || direction == 'x' : direction != 'o';
    bool known = wanted && data_of(tensor, &c->list.keys[c->list.count], &c->left_out);
    c->list.known[c->list.count++] = known;
}

static void free_collection(collection *c) {
    free(c->list.keys);
    free(c->list.known);
    free(c->left_out.data);
}

/* Notes that work before a launch had failed; which launch it was is not known. */
static void note_late(const layer_launch *launch, int status, const char *error) {
    text t = {0}, words = {0};
    text_literal(&words, "before a launch of ");
    text_raw(&words, launch->operator->name, strlen(launch->operator->name));
    text_literal(&words, " its stream had failed with status ");
    text_integer(&words, status);
    text_literal(&words, ": ");
    text_raw(&words, error, strlen(error) + 1);
    text_literal(&t, "{\"text\":");
    text_string(&t, words.data);
    text_literal(&t, "}");
    recorder_lock();
    if (recorder_ready()) recorder_write("NOTE", &t);
    recorder_unlock();
    free(words.data);
    free(t.data);
}

uint64_t recorder_launches(void) { return __atomic_load_n(&launches, __ATOMIC_RELAXED); }

/* Records a launch that is seen in one piece. */
static layer_launch *record_whole(const layer_frame *frame, layer_operator *operator, const layer_value *values, const void *workspace,
                                  uint64_t size, const void *stream, const char *why) {
    layer_launch *launch = new_launch(NULL, operator->count);
    text left_out = {0};
    key_list none = {0};
    *launch = (layer_launch){.operator = operator, .begin = frame->begin, .end = frame->begin, .thread = (int32_t)thread_id(), .stream = stream,
                             .site = settings.stacks ? call_site() : -1};
    if (operator->count > 0) memcpy(launch->values, values, operator->count * sizeof launch->values[0]);
    if (why != NULL) {
        text_raw(&left_out, why, strlen(why) + 1); /* with the zero at its end */
        left_out.length--;
    }
    layer_depth++;
    recorder_lock();
    if (recorder_ready()) write_launch(launch, workspace, size, &none, NULL, &left_out);
    recorder_unlock();
    layer_depth--;
    free(left_out.data);
    launch->begin_two = layer_now();
    return launch;
}

layer_launch *record_launch(const layer_frame *frame, layer_operator *operator, const layer_value *values, const void *stream) {
    bool wanted = data_wanted(operator->name, recorder_launches());
    return record_whole(frame, operator, values, NULL, 0, stream, wanted ? "data: of single operators they are not recorded" : NULL);
}

layer_launch *layer_before_unknown(const layer_frame *frame, layer_operator *operator, void *workspace, uint64_t size, void *stream) {
    if (!frame->outer) return NULL;
    return record_whole(frame, operator, NULL, workspace, size, stream, "arguments: the operator's library has no header that declares it");
}

/* A launch whose data are recorded, or may be. */
static __attribute__((noinline)) void before_with_data(layer_launch *launch, void *workspace, uint64_t size, void *stream) {
    collection c = {0};
    launch->with_data = data_wanted(launch->operator->name, recorder_launches());
    if (!launch->with_data) receive_data("data: an operator without data was launched before they had come");
    if (launch->with_data && data_capturing()) {
        launch->with_data = false;
        text_literal(&c.left_out, "data: a stream is being captured");
    }
    layer_depth++;
    if (launch->with_data) {
        int status = data_wait(stream);
        if (status != 0) {
            note_late(launch, status, read_message());
            late_status(stream, status);
        }
        visit_tensors(launch, collect, &c);
    }
    text_raw(&c.left_out, "", 1);
    c.left_out.length--;
    recorder_lock();
    if (recorder_ready()) write_launch(launch, workspace, size, &c.list, NULL, &c.left_out);
    recorder_unlock();
    layer_depth--;
    free_collection(&c);
}

layer_launch *layer_before_phase_two(void *workspace, uint64_t size, void *executor, void *stream) {
    if (layer_depth != 1) return NULL;
    layer_launch *launch = take(executor);
    if (launch == NULL) return NULL;
    launch->stream = stream;
    launch->with_data = false;
    if (size < launch->workspace && workspace != NULL) size = launch->workspace; /* --validate sees a workspace that is too small */
    if (settings.data != NULL && *settings.data != 0) {
        before_with_data(launch, workspace, size, stream);
    } else {
        recorder_lock();
        if (recorder_ready()) {
            number(launch);
            if (!write_brief(launch, workspace, size)) write_long(launch, workspace, size, &(key_list){0}, NULL, &(text){0});
        }
        recorder_unlock();
    }
    launch->begin_two = layer_now();
    return launch;
}

/* The keys of the data after a launch, an item for each parameter. */
static void write_after(text *t, const layer_launch *launch, key_list *keys) {
    const layer_operator *operator = launch->operator;
    text_literal(t, ",\"after\":[");
    for (uint32_t i = 0; i < operator->count; i++) {
        char kind = operator->kinds[i];
        object value = {0};
        if (kind == LETTER_TENSOR || kind == LETTER_TENSOR_LIST) value = object_of(launch->values[i].pointer);
        if (i > 0) text_literal(t, ",");
        uint64_t count = value.kind == LETTER_TENSOR ? 1 : value.kind == LETTER_TENSOR_LIST ? value.count : 0;
        if (value.kind == LETTER_TENSOR_LIST) text_literal(t, "[");
        for (uint64_t k = 0; k < count; k++) {
            bool member = value.kind == LETTER_TENSOR || object_of((const void *)(uintptr_t)value.words[k]).kind == LETTER_TENSOR;
            const file_key *key = member ? next_key(keys) : NULL;
            if (k > 0) text_literal(t, ",");
            if (key != NULL) write_key(t, key);
            else text_literal(t, "null");
        }
        if (value.kind == LETTER_TENSOR_LIST) text_literal(t, "]");
        else if (count == 0) text_literal(t, "null");
    }
    text_literal(t, "]");
}

void layer_after_phase_two(layer_launch *launch, int status) {
    if (launch == NULL) return;
    uint64_t end = layer_now();
    bool elsewhere = launch->file != fork_count; /* phase two has forked, and a child's file does not have its parent's launches */
    if (elsewhere || (status == 0 && !launch->with_data && write_brief_return(launch, end))) {
        if (launch->repeatable) keep(launch);
        else free_launch(launch);
        return;
    }
    collection c = {.outputs = true};
    const char *error = status != 0 ? read_message() : NULL;
    int late = 0;
    layer_depth++;
    if (launch->with_data && status == 0) {
        late = data_wait(launch->stream);
        if (late != 0) {
            error = read_message();
            late_status(launch->stream, late);
        }
        visit_tensors(launch, collect, &c);
    }
    text_raw(&c.left_out, "", 1);
    c.left_out.length--;
    text *t = scratch();
    text_literal(t, "{\"index\":");
    text_address(t, launch->index);
    text_literal(t, ",\"status\":");
    text_integer(t, status);
    text_literal(t, ",\"times\":[");
    text_address(t, launch->begin_two);
    text_literal(t, ",");
    text_address(t, end);
    text_literal(t, "]");
    if (late != 0) {
        text_literal(t, ",\"late\":");
        text_integer(t, late);
    }
    if (c.list.count > 0) write_after(t, launch, &c.list);
    if (error != NULL && *error != 0) {
        text_literal(t, ",\"error\":");
        text_string(t, error);
    }
    if (c.left_out.length > 0) {
        text_literal(t, ",\"left_out\":");
        text_string(t, c.left_out.data);
    }
    text_literal(t, "}");
    recorder_lock();
    if (recorder_ready()) recorder_write("RETN", t);
    recorder_unlock();
    layer_depth--;
    free_collection(&c);
    if (launch->repeatable) keep(launch);
    else free_launch(launch);
}

/* ---------------------------------------------------------------------------------------------------------- other calls */

void layer_call(const layer_frame *frame, const layer_function *function, const layer_value *values, int64_t status) {
    if (!frame->outer) return;
    uint64_t end = layer_now();
    int64_t site = settings.stacks ? call_site() : -1;
    text *t = scratch();
    text_literal(t, "{\"call\":");
    text_string(t, function->name);
    text_literal(t, ",\"arguments\":{");
    for (uint32_t i = 0; function->kinds[i] != 0; i++) {
        const void *pointer = values[i].pointer;
        if (i > 0) text_literal(t, ",");
        text_string(t, function->parameters[i]);
        text_literal(t, ":");
        switch (function->kinds[i]) {
            case 's': text_string(t, pointer != NULL ? pointer : ""); break;
            case 'i': text_integer(t, values[i].integer); break;
            case 'o': text_address(t, pointer != NULL && status == 0 ? *(const uint64_t *)pointer : 0); break;
            case 'u': text_integer(t, pointer != NULL && status == 0 ? *(const int32_t *)pointer : 0); break;
            default: text_address(t, (uint64_t)(uintptr_t)pointer);
        }
    }
    write_call_arguments(t);
    text_literal(t, "},\"status\":");
    text_integer(t, status);
    text_literal(t, ",\"device\":");
    text_integer(t, current_device());
    text_literal(t, ",\"thread\":");
    text_integer(t, thread_id());
    text_literal(t, ",\"times\":[");
    text_address(t, frame->begin);
    text_literal(t, ",");
    text_address(t, end);
    text_literal(t, "]");
    if (status != 0) {
        const char *error = read_message();
        if (*error != 0) {
            text_literal(t, ",\"error\":");
            text_string(t, error);
        }
    }
    if (site >= 0) {
        text_literal(t, ",\"site\":");
        text_integer(t, site);
    }
    write_call_data(t);
    text_literal(t, "}");
    recorder_lock();
    if (recorder_ready()) {
        recorder_write("CALL", t);
        calls++;
    }
    recorder_unlock();
}
