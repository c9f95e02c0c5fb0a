/*
 * Both phases of every operator.
 *
 * Phase one turns the arguments, without the tensors' addresses, into words. Words that were seen before need no request: their
 * plan (the device process's number for checked arguments) is known. Phase two adds the addresses and queues a launch of the
 * plan.
 */
#include "nnopbase/executor.h"

#include "ascendcl/core/activity.h"
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/device_connection.h"
#include "ascendcl/core/settings.h"
#include "ascendcl/memory/memory.h"
#include "ascendcl/memory/peers.h"
#include "ascendcl/stream/stream.h"
#include "ascendcl/validate/call_site.h"
#include "ascendcl/validate/findings.h"
#include "nnopbase/executor_cache.h"
#include "nnopbase/objects.h"
#include "nnopbase/rewriting.h"
#include "protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ADDRESS_ALIGNMENT 32u
#define MOST_PLANS 8192u
#define MOST_PLAN_BYTES (16u << 20)   /* bytes of words; the device process needs about ten times as much */

/* ---------------------------------------------------------------------------------------------------------------- plans */

typedef struct plan plan;

struct plan {
    plan *next;                /* of the same bucket */
    plan *newer, *older;       /* by last use */
    uint64_t hash;
    const emu_operator *operator;
    emu_device *device;
    uint64_t incarnation;      /* of the device process that knows the plan */
    uint64_t id;
    uint64_t workspace;
    bool repeatable;
    uint32_t uses;             /* executors and launches that refer to it */
    size_t count;
    int64_t words[];
};

static pthread_mutex_t plans_lock = PTHREAD_MUTEX_INITIALIZER;
static plan *buckets[MOST_PLANS];
static plan *newest, *oldest;
static uint32_t plan_count;
static size_t plan_bytes;
static uint64_t plan_ids;

static uint64_t hash_words(const emu_operator *operator, const int64_t *words, size_t count) {
    uint64_t hash = (uint64_t)(uintptr_t)operator;
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ (uint64_t)words[i]) * 0x9e3779b97f4a7c15ull;
        hash ^= hash >> 29;
    }
    return hash;
}

static void unlink_use(plan *p) {
    if (p->newer != NULL) p->newer->older = p->older;
    else newest = p->older;
    if (p->older != NULL) p->older->newer = p->newer;
    else oldest = p->newer;
}

static void link_newest(plan *p) {
    p->newer = NULL;
    p->older = newest;
    if (newest != NULL) newest->newer = p;
    newest = p;
    if (oldest == NULL) oldest = p;
}

static void remove_plan(plan *p) {
    plan **link = &buckets[p->hash % MOST_PLANS];
    while (*link != p) link = &(*link)->next;
    *link = p->next;
    unlink_use(p);
    plan_count--;
    plan_bytes -= p->count * sizeof(int64_t);
}

/* A known plan, with a reference; NULL when there is none. */
static plan *find_plan(const emu_operator *operator, emu_device *device, uint64_t hash, const int64_t *words, size_t count) {
    pthread_mutex_lock(&plans_lock);
    plan *p = buckets[hash % MOST_PLANS];
    while (p != NULL && !(p->hash == hash && p->operator == operator && p->device == device && p->count == count &&
                          p->incarnation == device->incarnation && memcmp(p->words, words, count * sizeof *words) == 0))
        p = p->next;
    if (p != NULL) {
        p->uses++;
        if (p != newest) {
            unlink_use(p);
            link_newest(p);
        }
    }
    pthread_mutex_unlock(&plans_lock);
    return p;
}

static void hold_plan(plan *p) {
    if (p == NULL) return;
    pthread_mutex_lock(&plans_lock);
    p->uses++;
    pthread_mutex_unlock(&plans_lock);
}

static void release_plan(plan *p) {
    if (p == NULL) return;
    pthread_mutex_lock(&plans_lock);
    p->uses--;
    pthread_mutex_unlock(&plans_lock);
}

/* Removes the least recently used plans from a full table. */
static plan *forget_old_plans(void) {
    plan *forgotten = NULL;
    pthread_mutex_lock(&plans_lock);
    if (plan_count >= MOST_PLANS || plan_bytes >= MOST_PLAN_BYTES) {
        for (plan *p = oldest, *after; p != NULL && (plan_count > MOST_PLANS / 2 || plan_bytes > MOST_PLAN_BYTES / 2); p = after) {
            after = p->newer;
            if (p->uses > 0) continue;
            remove_plan(p);
            p->next = forgotten;
            forgotten = p;
        }
    }
    pthread_mutex_unlock(&plans_lock);
    return forgotten;
}

static void drop_plans(plan *forgotten) {
    while (forgotten != NULL) {
        emu_buffer request = {0}, answer = {0};
        emu_device *device = forgotten->device;
        plan **link = &forgotten;
        while (*link != NULL) { /* one request for each device */
            plan *p = *link;
            if (p->device != device) {
                link = &p->next;
                continue;
            }
            if (p->incarnation == device->incarnation) emu_buffer_put(&request, &p->id, sizeof p->id);
            *link = p->next;
            free(p);
        }
        if (request.size > 0) emu_link_call(device, CALL_DROP, &request, &answer);
        emu_buffer_free(&request);
        emu_buffer_free(&answer);
    }
}

/* Lengths of the operator's name and kinds, words, name, kinds. */
static void put_call(emu_buffer *request, const emu_operator *operator, const int64_t *words, size_t count) {
    uint32_t name_size = (uint32_t)strlen(operator->name), kinds_size = (uint32_t)strlen(operator->kinds);
    emu_buffer_put(request, &name_size, sizeof name_size);
    emu_buffer_put(request, &kinds_size, sizeof kinds_size);
    emu_buffer_put(request, words, count * sizeof *words);
    emu_buffer_put(request, operator->name, name_size);
    emu_buffer_put(request, operator->kinds, kinds_size);
}

/* Asks the device process to check the arguments. */
static int make_plan(const emu_operator *operator, emu_device *device, uint64_t hash, const int64_t *words, size_t count,
                     plan **result) {
    drop_plans(forget_old_plans());
    plan *p = calloc(1, sizeof *p + count * sizeof *words);
    if (p == NULL) return emu_fail(ACLNN_ERR_INNER_CREATE_EXECUTOR, "EMULATOR_OUT_OF_MEMORY", "no host memory");
    pthread_mutex_lock(&plans_lock);
    p->id = ++plan_ids;
    pthread_mutex_unlock(&plans_lock);
    p->hash = hash;
    p->operator = operator;
    p->device = device;
    p->count = count;
    p->uses = 1;
    memcpy(p->words, words, count * sizeof *words);
    emu_buffer request = {0}, answer = {0};
    emu_buffer_put(&request, &p->id, sizeof p->id);
    put_call(&request, operator, words, count);
    int status = emu_link_call(device, CALL_PREPARE, &request, &answer);
    p->incarnation = device->incarnation;
    if (status == 0 && answer.size == 16) {
        uint64_t reply[2];
        memcpy(reply, answer.data, sizeof reply);
        p->workspace = reply[0];
        p->repeatable = reply[1] != 0;
        pthread_mutex_lock(&plans_lock);
        p->next = buckets[hash % MOST_PLANS];
        buckets[hash % MOST_PLANS] = p;
        link_newest(p);
        plan_count++;
        plan_bytes += count * sizeof *words;
        pthread_mutex_unlock(&plans_lock);
        *result = p;
    } else {
        if (status == 0) status = ACLNN_ERR_INNER;
        if (answer.size > 0) {
            emu_buffer_put(&answer, "", 1);
            emu_refuse(status, (const char *)answer.data, answer.size);
        }
        free(p);
    }
    emu_buffer_free(&request);
    emu_buffer_free(&answer);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------ executors */

/* A tensor among the arguments. */
typedef struct {
    const void *handle;  /* NULL: a null pointer was passed */
    uint64_t serial;
    uint64_t extent;     /* bytes, as of phase one */
    uint32_t parameter, member;
} tensor_use;

/* Any other object among the arguments, lists included. */
typedef struct {
    const void *handle;
    uint64_t serial;
    emu_kind kind;
    uint32_t parameter;
} object_use;

typedef struct {
    emu_object base;
    const emu_operator *operator;
    plan *plan;
    emu_device *device;
    emu_thread *thread;
    uint64_t workspace;
    _Atomic bool repeatable;
    bool wrapped;
    bool keyed;      /* phase one had a key: CANN records the launches of the first run, and later runs only replay them */
    _Atomic bool recorded;
    uint32_t site;   /* of --validate: of phase one, */
    emu_exchange *exchanges; /* and with which ranks it meets */
    size_t exchange_count;
    uint32_t tensor_count, object_count;
    tensor_use *tensors;
    object_use *objects;
} executor;

/* What phase one collects; one for each thread, reused. */
typedef struct {
    int64_t *words;
    size_t count, room;
    tensor_use *tensors;
    uint32_t tensor_count, tensor_room;
    object_use *objects;
    uint32_t object_count, object_room;
    const void *last_executor; /* of this thread's latest phase one */
} gathering;

static pthread_key_t gathering_key;
static pthread_once_t gathering_once = PTHREAD_ONCE_INIT;
static __thread gathering *mine;

static void free_gathering(void *object) {
    gathering *g = object;
    free(g->words);
    free(g->tensors);
    free(g->objects);
    free(g);
    mine = NULL;
}

static void make_gathering_key(void) { pthread_key_create(&gathering_key, free_gathering); }

static gathering *my_gathering(void) {
    if (mine == NULL) {
        pthread_once(&gathering_once, make_gathering_key);
        mine = calloc(1, sizeof *mine);
        if (mine == NULL) abort();
        pthread_setspecific(gathering_key, mine);
    }
    mine->count = 0;
    mine->tensor_count = mine->object_count = 0;
    return mine;
}

static int64_t *more_words(gathering *g, size_t count) {
    if (g->count + count > g->room) {
        g->room = (g->count + count) * 2 + 256;
        g->words = realloc(g->words, g->room * sizeof *g->words);
        if (g->words == NULL) abort();
    }
    g->count += count;
    return g->words + g->count - count;
}

static void put(gathering *g, int64_t word) { *more_words(g, 1) = word; }

static void use_tensor(gathering *g, tensor_use use) {
    if (g->tensor_count == g->tensor_room) {
        g->tensor_room = g->tensor_room * 2 + 32;
        g->tensors = realloc(g->tensors, g->tensor_room * sizeof *g->tensors);
        if (g->tensors == NULL) abort();
    }
    g->tensors[g->tensor_count++] = use;
}

static void use_object(gathering *g, const void *handle, emu_kind kind, uint32_t parameter) {
    if (g->object_count == g->object_room) {
        g->object_room = g->object_room * 2 + 32;
        g->objects = realloc(g->objects, g->object_room * sizeof *g->objects);
        if (g->objects == NULL) abort();
    }
    g->objects[g->object_count++] = (object_use){handle, emu_handle_serial(handle), kind, parameter};
}

/* The object behind an argument's handle; the table is locked. NULL for a null pointer, of which `absent` is the word, and for a
 * handle that is not valid, with a status. */
static void *argument(gathering *g, const void *handle, emu_kind kind, int64_t absent, int *status) {
    *status = 0;
    if (handle != NULL) return emu_object_borrow(handle, kind, status);
    put(g, absent);
    return NULL;
}

/* A tensor: 1, dtype, format, offset, extent, rank, dims, strides, storage rank, storage dims; 0 for a null pointer. */
static int put_tensor(gathering *g, const void *handle, uint32_t parameter, uint32_t member) {
    int status;
    const emu_tensor *tensor = argument(g, handle, KIND_TENSOR, 0, &status);
    if (handle == NULL) use_tensor(g, (tensor_use){NULL, 0, 0, parameter, member});
    if (tensor == NULL) return status;
    uint64_t extent = emu_tensor_extent(tensor);
    int64_t *words = more_words(g, 7 + 2 * tensor->rank + tensor->storage_rank);
    words[0] = 1;
    words[1] = tensor->dtype;
    words[2] = tensor->format;
    words[3] = tensor->offset;
    words[4] = (int64_t)extent;
    words[5] = (int64_t)tensor->rank;
    words[6] = (int64_t)tensor->storage_rank;
    memcpy(words + 7, tensor->numbers, (2 * tensor->rank + tensor->storage_rank) * sizeof *words);
    use_tensor(g, (tensor_use){handle, emu_handle_serial(handle), extent, parameter, member});
    return 0;
}

/* A scalar: 1, dtype, 16 bytes; 0 for a null pointer. */
static int put_scalar(gathering *g, const void *handle, uint32_t parameter) {
    int status;
    const emu_scalar *scalar = argument(g, handle, KIND_SCALAR, 0, &status);
    if (scalar == NULL) return status;
    int64_t *words = more_words(g, 4);
    words[0] = 1;
    words[1] = scalar->dtype;
    memcpy(words + 2, scalar->bytes, 16);
    use_object(g, handle, KIND_SCALAR, parameter);
    return 0;
}

/* An array: its length (-1 for a null pointer) and its words. */
static int put_array(gathering *g, const void *handle, emu_kind kind, uint32_t parameter) {
    int status;
    const emu_array *array = argument(g, handle, kind, -1, &status);
    if (array == NULL) return status;
    int64_t *words = more_words(g, 1 + array->count);
    words[0] = (int64_t)array->count;
    memcpy(words + 1, array->words, array->count * sizeof *words);
    use_object(g, handle, kind, parameter);
    return 0;
}

/* A list: its length (-1 for a null pointer) and its members. */
static int put_list(gathering *g, const void *handle, emu_kind kind, uint32_t parameter) {
    int status;
    const emu_list *list = argument(g, handle, kind, -1, &status);
    if (list == NULL) return status;
    put(g, (int64_t)list->count);
    use_object(g, handle, kind, parameter);
    for (uint64_t i = 0; i < list->count && status == 0; i++) {
        status = kind == KIND_TENSOR_LIST ? put_tensor(g, list->members[i], parameter, (uint32_t)i)
                                          : put_scalar(g, list->members[i], parameter);
    }
    return status;
}

/* A string: its length (-1 for a null pointer) and its bytes, padded to a word. */
static void put_string(gathering *g, const char *text) {
    if (text == NULL) {
        put(g, -1);
        return;
    }
    size_t size = strlen(text), count = (size + 7) / 8;
    int64_t *words = more_words(g, 1 + count);
    memset(words, 0, (1 + count) * sizeof *words);
    words[0] = (int64_t)size;
    memcpy(words + 1, text, size);
}

static int put_value(gathering *g, char kind, emu_value value, uint32_t parameter) {
    switch (kind) {
        case LETTER_TENSOR: return put_tensor(g, value.pointer, parameter, 0);
        case LETTER_TENSOR_LIST: return put_list(g, value.pointer, KIND_TENSOR_LIST, parameter);
        case LETTER_SCALAR: return put_scalar(g, value.pointer, parameter);
        case LETTER_SCALAR_LIST: return put_list(g, value.pointer, KIND_SCALAR_LIST, parameter);
        case LETTER_INT_ARRAY: return put_array(g, value.pointer, KIND_INT_ARRAY, parameter);
        case LETTER_FLOAT_ARRAY: return put_array(g, value.pointer, KIND_FLOAT_ARRAY, parameter);
        case LETTER_BOOL_ARRAY: return put_array(g, value.pointer, KIND_BOOL_ARRAY, parameter);
        case LETTER_STRING: put_string(g, value.pointer); return 0;
        default: put(g, value.integer); return 0; /* a double by its bits */
    }
}

/* The name of a parameter, for messages. */
static const char *parameter_name(const emu_operator *operator, uint32_t parameter, char *buffer, size_t size) {
    const char *at = operator->parameters;
    for (; parameter > 0; parameter--) at = strchr(at, ' ') + 1;
    size_t length = strcspn(at, " ");
    if (length >= size) length = size - 1;
    memcpy(buffer, at, length);
    buffer[length] = 0;
    return buffer;
}

/* Adds the argument's name to the message about its handle. */
static int invalid_argument(const emu_operator *operator, uint32_t parameter, int status) {
    char *text = emu_take_message(), name[80], more[2048];
    snprintf(more, sizeof more, "%s (argument %s)", text != NULL ? text : "", parameter_name(operator, parameter, name, sizeof name));
    free(text);
    return emu_fail_with(status, more);
}

static int no_device(void) {
    char *text = emu_take_message();
    emu_fail_with(ACLNN_ERR_RUNTIME_ERROR, text != NULL ? text : "no device is set on this thread");
    free(text);
    return ACLNN_ERR_RUNTIME_ERROR;
}

static void free_executor(void *object) {
    executor *e = object;
    release_plan(e->plan);
    emu_thread_release(e->thread);
    free(e->exchanges);
    free(e);
}

/* A tensor of the call; NULL when it is null or destroyed. The table's lock is held. */
static emu_tensor *described(const executor *e, uint32_t i) {
    int status;
    if (i >= e->tensor_count || e->tensors[i].handle == NULL) return NULL;
    return emu_object_borrow(e->tensors[i].handle, KIND_TENSOR, &status);
}

/* Changes the caller's aclTensors as CANN does. */
static void rewrite_arguments(const executor *e) {
    emu_table_lock();
    const emu_tensor *first = described(e, 0), *last = described(e, e->tensor_count - 1);
    for (uint32_t i = 0; first != NULL && last != NULL && i < e->tensor_count; i++) {
        char name[80];
        emu_tensor *tensor = described(e, i);
        if (tensor != NULL)
            emu_rewrite(
                e->operator->name, parameter_name(e->operator, e->tensors[i].parameter, name, sizeof name), tensor, first, last);
        /* A weight that gets blocks needs the memory of its blocks. */
        uint64_t blocks = tensor != NULL && tensor->format == ACL_FORMAT_FRACTAL_NZ ? emu_tensor_extent(tensor) : 0;
        if (blocks > e->tensors[i].extent) e->tensors[i].extent = blocks;
    }
    emu_table_unlock();
}

/* Turns the arguments of a call into words. */
static int gather(const emu_operator *operator, const emu_value *values, emu_context *context, gathering *g) {
    int status = 0;
    uint32_t parameter = 0;
    emu_table_lock();
    put(g, emu_option(context, ACL_OPT_DETERMINISTIC));
    for (; operator->kinds[parameter] != 0; parameter++) {
        status = put_value(g, operator->kinds[parameter], values[parameter], parameter);
        if (status != 0) break;
    }
    emu_table_unlock();
    return status != 0 ? invalid_argument(operator, parameter, status) : 0;
}

int emu_infer(const emu_operator *operator, const emu_value *values, int64_t *words, size_t *count) {
    ENTER(operator->phase_one);
    emu_context *context;
    if (emu_current_context(&context) != 0) return no_device();
    gathering *g = my_gathering();
    int status = gather(operator, values, context, g);
    if (status != 0) return status;
    emu_buffer request = {0}, answer = {0};
    put_call(&request, operator, g->words, g->count);
    status = emu_link_call(emu_context_device(context), CALL_INFER, &request, &answer);
    if (status != 0 && answer.size > 0) {
        emu_buffer_put(&answer, "", 1);
        emu_refuse(status, (const char *)answer.data, answer.size);
    }
    if (status == 0 && answer.size > *count * sizeof *words) status = ACLNN_ERR_INNER;
    if (status == 0) {
        *count = answer.size / sizeof *words;
        memcpy(words, answer.data, answer.size);
    }
    emu_buffer_free(&request);
    emu_buffer_free(&answer);
    return status;
}

static __thread struct {
    emu_exchange *items;
    size_t count;
} exchanges_of_next;

void emu_exchanges_of_next(emu_exchange *exchanges, size_t count) {
    free(exchanges_of_next.items);
    exchanges_of_next.items = exchanges;
    exchanges_of_next.count = count;
}

/* An operator of a communication group meets all ranks of it. Those between attention and FFN only leave something for the other side. */
static void meet_groups(const emu_operator *operator, const emu_value *values, int device) {
    emu_exchange *exchanges = NULL;
    size_t count = 0;
    for (uint32_t i = 0; operator->kinds[i] != 0 && strstr(operator->name, "FFN") == NULL; i++) {
        char name[80];
        const char *group = operator->kinds[i] == LETTER_STRING ? values[i].pointer : NULL;
        if (group == NULL || *group == 0 || strncmp(parameter_name(operator, i, name, sizeof name), "group", 5) != 0) continue;
        exchanges = realloc(exchanges, (count + 1) * sizeof *exchanges);
        if (exchanges == NULL) abort();
        exchanges[count] = (emu_exchange){.device = device, .publishes = true, .receives = true};
        exchanges[count].communicator = (uint32_t)strnlen(group, sizeof exchanges->key - 1);
        snprintf(exchanges[count++].key, sizeof exchanges->key, "%s", group);
    }
    emu_exchanges_of_next(exchanges, count);
}

int emu_phase_one(const emu_operator *operator, const emu_value *values, uint64_t *workspace, aclOpExecutor **result) {
    ENTER(operator->phase_one);
    emu_context *context;
    if (workspace == NULL || result == NULL)
        return emu_fail(ACLNN_ERR_PARAM_NULLPTR, NULL, "%s is a null pointer", workspace == NULL ? "workspaceSize" : "executor");
    if (emu_current_context(&context) != 0) return no_device();
    emu_device *device = emu_context_device(context);
    gathering *g = my_gathering();
    int status = gather(operator, values, context, g);
    if (status != 0) return status;
    plan *p = NULL;
    const emu_settings *settings = emu_config();
    if (!settings->noop) {
        uint64_t hash = hash_words(operator, g->words, g->count);
        p = find_plan(operator, device, hash, g->words, g->count);
        if (p == NULL) status = make_plan(operator, device, hash, g->words, g->count, &p);
        if (status != 0) return status;
    }
    size_t tensors_size = g->tensor_count * sizeof(tensor_use), objects_size = g->object_count * sizeof(object_use);
    executor *e = malloc(sizeof *e + tensors_size + objects_size);
    if (e == NULL) abort();
    tensor_use *tensors = (tensor_use *)(e + 1);
    object_use *objects = (object_use *)(tensors + g->tensor_count);
    if (tensors_size > 0) memcpy(tensors, g->tensors, tensors_size);
    if (objects_size > 0) memcpy(objects, g->objects, objects_size);
    bool set = settings->workspace >= 0 && !operator->no_workspace;
    uint64_t needed = set ? (uint64_t)settings->workspace : p != NULL ? p->workspace : 0;
    *e = (executor){
        .operator = operator, .plan = p, .device = device, .thread = emu_thread_hold(), .workspace = needed,
        .wrapped = p != NULL && emu_cache_answers(p->id), .keyed = emu_cache_has_key(), .site = emu_validates() ? emu_call_site() : 0, .tensor_count = g->tensor_count,
        .object_count = g->object_count, .tensors = tensors, .objects = objects,
    };
    if (operator->communicates && emu_validates()) {
        if (operator->shown == NULL) meet_groups(operator, values, device->id); /* else hccl.c has said how */
        e->exchanges = exchanges_of_next.items;
        e->exchange_count = exchanges_of_next.count;
        exchanges_of_next.items = NULL;
        exchanges_of_next.count = 0;
    }
    if (emu_rewrites(operator->name)) rewrite_arguments(e);
    void *handle = emu_object_new(KIND_EXECUTOR, e, free_executor);
    if (handle == NULL) return ACLNN_ERR_INNER_CREATE_EXECUTOR;
    g->last_executor = handle;
    *workspace = needed;
    *result = handle;
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------- launches */

typedef struct {
    const void *handle;
    uint64_t serial;
    void *address;   /* pinned; NULL for an empty tensor */
    emu_device *home; /* that it lies in */
    uint64_t offset, extent;
    uint32_t parameter;
} launch_tensor;

typedef struct {
    emu_task task;
    emu_device *device;
    plan *plan;
    void *workspace; /* pinned, or NULL */
    uint32_t count;
    /* of --validate */
    uint32_t timeline, site;
    uint64_t number;
    emu_accesses accesses; /* of a captured launch */
    emu_exchange *exchanges;
    size_t exchange_count;
    launch_tensor tensors[];
} launch;

static void unpin_launch(launch *l) {
    for (uint32_t i = 0; i < l->count; i++) {
        if (l->tensors[i].address != NULL) emu_memory_unpin(l->tensors[i].home, l->tensors[i].address);
        l->tensors[i].address = NULL;
    }
    if (l->workspace != NULL) emu_memory_unpin(l->device, l->workspace);
    l->workspace = NULL;
}

static void finish_launch(emu_task *task) {
    launch *l = (launch *)task;
    unpin_launch(l);
    release_plan(l->plan);
    emu_buffer_free(&l->task.request);
    free(l->accesses.items);
    free(l->exchanges);
    free(l);
}

/* New shapes of outputs: number of the tensor, rank, dims, and so on; TOLD_UNWRITTEN, 2, offset and bytes of what was left unwritten. */
static void reshape_outputs(const launch *l, const emu_buffer *answer) {
    const int64_t *words = (const int64_t *)answer->data;
    size_t count = answer->size / sizeof *words;
    emu_table_lock();
    for (size_t at = 0; at + 2 <= count; at += 2 + (size_t)words[at + 1]) {
        uint64_t which = (uint64_t)words[at], rank = (uint64_t)words[at + 1];
        int status;
        if (words[at] == TOLD_UNWRITTEN && rank == 2 && at + 4 <= count) {
            if (l->number > 0) emu_validate_unwritten(l->timeline, l->number, l->device->base + words[at + 2], (uint64_t)words[at + 3]);
            continue;
        }
        if (which >= l->count || at + 2 + rank > count) break;
        const launch_tensor *use = &l->tensors[which];
        bool alive = use->serial != 0 && emu_handle_serial(use->handle) == use->serial;
        emu_tensor *tensor = alive ? emu_object_borrow(use->handle, KIND_TENSOR, &status) : NULL;
        if (tensor != NULL) emu_tensor_reshape(tensor, rank, words + at + 2);
    }
    emu_table_unlock();
}

static int answer_launch(emu_task *task, int status, emu_buffer *answer) {
    if (status == 0 && answer->size > 0) reshape_outputs((launch *)task, answer);
    return emu_link_message(status, answer);
}

/* A captured launch keeps its plan, and lets go of its memory. */
static void describe_launch(emu_task *task, emu_captured *captured) {
    launch *l = (launch *)task;
    emu_captured_launch(captured, &task->request);
    for (uint32_t i = 0; i < l->count; i++) {
        const launch_tensor *tensor = &l->tensors[i];
        char name[48];
        if (tensor->address == NULL) continue;
        parameter_name(l->plan->operator, tensor->parameter, name, sizeof name);
        emu_captured_use(captured, tensor->home, tensor->address, tensor->extent, name);
    }
    if (l->workspace != NULL) emu_captured_use(captured, l->device, l->workspace, l->plan->workspace, "workspace");
    captured->accesses = l->accesses.items;
    captured->access_count = l->accesses.count;
    captured->site = l->site;
    captured->exchanges = l->exchanges;
    captured->exchange_count = l->exchange_count;
    l->exchanges = NULL;
    l->accesses = (emu_accesses){0};
    captured->waits = l->plan->operator->communicates;
    unpin_launch(l);
}

/* Builds the request of a launch: the plan and the tensors' addresses. */
static int address_launch(launch *l) {
    if (l->plan->incarnation != l->device->incarnation)
        return emu_fail(ACLNN_ERR_RUNTIME_ERROR, "EMULATOR_DEVICE_LOST", "the device process has been replaced since phase one");
    emu_buffer_put(&l->task.request, &l->plan->id, sizeof l->plan->id);
    for (uint32_t i = 0; i < l->count; i++) emu_buffer_put(&l->task.request, &l->tensors[i].offset, sizeof(uint64_t));
    l->task.answered = answer_launch;
    l->task.describe = describe_launch;
    return 0;
}

/* CANN's documents require aligned addresses, but programs that run on a device use others. */
static int check_alignment(const char *operator, const char *name, const void *address) {
    static _Atomic bool warned;
    emu_alignment mode = emu_config()->alignment;
    if ((uintptr_t)address % ADDRESS_ALIGNMENT == 0 || mode == ALIGNMENT_ALLOW) return 0;
    if (mode == ALIGNMENT_REFUSE)
        return emu_fail(ACLNN_ERR_PARAM_INVALID, "EMULATOR_UNALIGNED_ADDRESS", "%s (%p) is not %u-byte aligned", name, address,
                        ADDRESS_ALIGNMENT);
    if (!atomic_exchange(&warned, true))
        fprintf(stderr, "EMULATOR_UNALIGNED_ADDRESS: %s%s%s (%p) is not %u-byte aligned, as CANN's documents ask for; the program goes on, and "
                        "is not told again (ASCEND_EMULATOR_ALIGNMENT=allow|refuse)\n",
                operator != NULL ? operator : "", operator != NULL ? ": " : "", name, address, ADDRESS_ALIGNMENT);
    return 0;
}

/* The object of phase one behind a handle; NULL with a status when it has been destroyed, also if its handle is another
 * object's by now. The table is locked. */
static void *same_object(const void *handle, emu_kind kind, uint64_t serial, int *status) {
    void *object = emu_object_borrow(handle, kind, status);
    if (object == NULL || emu_handle_serial(handle) == serial) return object;
    *status = emu_fail(ACLNN_ERR_PARAM_INVALID, "EMULATOR_USE_AFTER_DESTROY",
                       "the object %p of phase one has been destroyed, its handle is another one's", handle);
    return NULL;
}

/* Checks one tensor of a launch and pins its memory. */
static int pin_tensor(const executor *e, emu_device *device, const tensor_use *use, launch_tensor *result) {
    int status;
    char name[80];
    *result = (launch_tensor){.handle = use->handle, .serial = use->serial, .extent = use->extent, .parameter = use->parameter};
    if (use->handle == NULL) return 0;
    emu_table_lock();
    const emu_tensor *tensor = same_object(use->handle, KIND_TENSOR, use->serial, &status);
    void *data = tensor != NULL ? tensor->data : NULL;
    emu_table_unlock();
    if (status != 0) return invalid_argument(e->operator, use->parameter, status);
    if (use->extent == 0) return 0;
    parameter_name(e->operator, use->parameter, name, sizeof name);
    status = e->operator->any_alignment ? 0 : check_alignment(e->operator->name, name, data);
    if (status != 0) return status;
    if (use->extent == EMU_NO_EXTENT)
        return emu_fail(ACLNN_ERR_PARAM_INVALID, "EMULATOR_OUT_OF_BOUNDS",
                        "the shape, strides and offset of %s reach outside any memory", name);
    status = emu_operand_pin(device, data, use->extent, name, &result->home, &result->offset);
    if (status != 0) return ACLNN_ERR_PARAM_INVALID;
    result->address = data;
    return 0;
}

/* The other arguments must live until phase two returns, too. */
static int check_objects(const executor *e) {
    int status = 0;
    uint32_t i = 0;
    if (e->object_count == 0) return 0;
    emu_table_lock();
    for (; i < e->object_count; i++) {
        const object_use *use = &e->objects[i];
        if (same_object(use->handle, use->kind, use->serial, &status) == NULL) break;
    }
    emu_table_unlock();
    return status != 0 ? invalid_argument(e->operator, e->objects[i].parameter, status) : 0;
}

/* ------------------------------------------------------------------------------------------------------------ --validate */

static const char *shown_name(const emu_operator *operator) { return operator->shown != NULL ? operator->shown : operator->name; }

static uint64_t row_start(const emu_access *a, uint64_t row) { return (uint64_t)(uintptr_t)a->address + row * a->pitch; }

static uint64_t access_end(const emu_access *a) { return row_start(a, a->rows - 1) + a->size; }

/* Whether two accesses have bytes in common. */
static bool share(const emu_access *a, const emu_access *b) {
    if (a->size == 0 || b->size == 0 || row_start(a, 0) >= access_end(b) || row_start(b, 0) >= access_end(a)) return false;
    for (uint64_t i = 0, j = 0; i < a->rows && j < b->rows;) {
        uint64_t left = row_start(a, i), right = row_start(b, j);
        if (left < right + b->size && right < left + a->size) return true;
        if (left < right) i++;
        else j++;
    }
    return false;
}

/* Kernels work on parts of their outputs while other parts of inputs are still to be read: outputs may share bytes with inputs only where
 * both are the same tensor, and never with each other. CANN copies an input whose elements have others between them before the kernel
 * begins (torch_npu takes the conjugate of a tensor in place that way). `tensor` is the number of each access' tensor. */
static void check_overlap(const executor *e, const emu_accesses *list, const uint32_t *tensor, uint32_t site) {
    for (size_t i = 0; i < list->count; i++) {
        const emu_access *out = &list->items[i];
        if (out->kind == ACCESS_READ || out->vague) continue;
        for (size_t j = 0; j < list->count; j++) {
            const emu_access *other = &list->items[j];
            bool outputs = other->kind != ACCESS_READ, copied = !outputs && other->rows > 1;
            if (tensor[i] == tensor[j] || copied || other->vague || (outputs && j < i) || !share(out, other)) continue;
            const tensor_use *left = &e->tensors[tensor[i]], *right = &e->tensors[tensor[j]];
            int status;
            const emu_tensor *a = emu_object_borrow(left->handle, KIND_TENSOR, &status), *b = emu_object_borrow(right->handle, KIND_TENSOR, &status);
            bool same = a != NULL && b != NULL && a->data == b->data && a->offset == b->offset && a->rank == b->rank && a->dtype == b->dtype &&
                        memcmp(a->numbers, b->numbers, 2 * a->rank * sizeof *a->numbers) == 0;
            if (same && !outputs) continue;
            emu_record later = {.task = e->operator->name, .argument = out->argument, .site = site, .stream = -1, .member = out->member};
            emu_record earlier = {.task = e->operator->name, .argument = other->argument, .stream = -1, .member = other->member};
            emu_find("memory/overlap", &earlier, &later, "{later} shares bytes with {earlier}, and is not the same tensor");
            return;
        }
    }
}

/* Operators whose outputs hold elements of their inputs and nothing that depends on them. Which elements depends for `by_index` on
 * other inputs, the values of which are not known yet. */
static const char moving[] = " aclnnAsStrided aclnnCast aclnnCat aclnnChannelShuffle aclnnCircularPad2d aclnnCircularPad3d aclnnConcatV2 aclnnConstantPadNd "
                             "aclnnExpand aclnnExpandv aclnnFlatten aclnnFlip aclnnForeachCopy aclnnIm2col aclnnInplaceCopy aclnnPadV2 aclnnPermute "
                             "aclnnReflectionPad1d aclnnReflectionPad1dV2 aclnnReflectionPad2d aclnnReflectionPad3d aclnnRepeat aclnnRepeatInterleaveInt "
                             "aclnnRepeatInterleaveIntWithDim aclnnReplicationPad1d aclnnReplicationPad2d aclnnReplicationPad3d aclnnRoll aclnnSlice aclnnSliceV2 "
                             "aclnnSplit aclnnSplitTensor aclnnSplitWithSize aclnnStack aclnnStridedSlice aclnnTril aclnnTriu ";
static const char by_index[] = " aclnnEmbedding aclnnGather aclnnGatherElementsV3 aclnnGatherNd aclnnGatherV2 aclnnGatherV3 aclnnIndex aclnnIndexSelect aclnnTake ";

static bool is_among(const char *names, const char *name) {
    char word[100];
    snprintf(word, sizeof word, " %s ", name);
    return strstr(names, word) != NULL;
}

static bool is_index(const char *argument) { return strncmp(argument, "index", 5) == 0 || strncmp(argument, "indices", 7) == 0; }

/* The bytes of the inputs that were never written: number of the tensor, offset, count. */
static void find_never_written(const launch *l, const emu_accesses *list, const uint32_t *tensor, emu_buffer *request) {
    for (size_t i = 0; i < list->count; i++) {
        uint64_t *pairs;
        size_t count = list->items[i].kind == ACCESS_READ && !list->items[i].vague ? emu_validate_never_written(&list->items[i], &pairs) : 0;
        for (size_t n = 0; n < count; n++) {
            const uint64_t range[] = {tensor[i], pairs[2 * n] - (uint64_t)(uintptr_t)l->tensors[tensor[i]].address, pairs[2 * n + 1]};
            emu_buffer_put(request, range, sizeof range);
        }
        if (count > 0) free(pairs);
    }
}

/* Asks the device process where the launch moves such bytes. */
static void validate_moves(const executor *e, const launch *l, const emu_buffer *ranges) {
    emu_buffer request = {0}, answer = {0};
    emu_buffer_put(&request, &l->plan->id, sizeof l->plan->id);
    emu_buffer_put(&request, ranges->data, ranges->size);
    if (emu_link_call(l->device, CALL_MOVE, &request, &answer) == 0) {
        for (size_t at = 0; at + 3 * sizeof(uint64_t) <= answer.size; at += 3 * sizeof(uint64_t)) {
            uint64_t range[3];
            memcpy(range, answer.data + at, sizeof range);
            const launch_tensor *t = &l->tensors[range[0]];
            if (e->operator->directions[t->parameter] != 'i') emu_validate_moved(l->timeline, l->number, (const uint8_t *)t->address + range[1], range[2]);
        }
    } else {
        free(emu_take_message()); /* the launch itself tells what is wrong */
    }
    emu_buffer_free(&request);
    emu_buffer_free(&answer);
}

/* What --validate compares, now or with each replay. */
static void validate_launch(const executor *e, launch *l, const emu_stream *stream) {
    emu_accesses list = {0};
    uint32_t *tensor = NULL;
    size_t numbered = 0;
    l->site = emu_call_site();
    bool memory = (emu_config()->validate & VALIDATE_MEMORY) != 0, indexed = memory && is_among(by_index, e->operator->name);
    bool moves = indexed || (memory && is_among(moving, e->operator->name)), now = emu_stream_runs(stream);
    emu_buffer never_written = {0};
    emu_table_lock();
    for (uint32_t i = 0; i < l->count; i++) {
        int status;
        uint32_t parameter = l->tensors[i].parameter;
        const emu_tensor *described_ = l->tensors[i].address != NULL ? same_object(l->tensors[i].handle, KIND_TENSOR, l->tensors[i].serial, &status) : NULL;
        const char *argument = e->operator->parameters;
        if (described_ == NULL) continue;
        for (uint32_t p = 0; p < parameter; p++) argument = strchr(argument, ' ') + 1;
        char direction = e->operator->directions[parameter];
        emu_access access = {
            .kind = direction == 'o' ? ACCESS_WRITE : direction == 'x' ? ACCESS_UPDATE : ACCESS_READ, .argument = argument,
            .member = e->operator->kinds[parameter] == LETTER_TENSOR_LIST ? (int)e->tensors[i].member : -1,
            .moves = !moves || (indexed && is_index(argument)) ? MOVES_NOTHING : now || indexed ? MOVES_SOME : MOVES_ALL,
            .vague = strncmp(argument, "scheduleContext", 15) == 0, /* the host and kernels talk through it while they run */
        };
        emu_tensor_access(described_, l->tensors[i].address, l->tensors[i].extent, access, &list);
        if (!memory) continue;
        tensor = realloc(tensor, (list.count + 1) * sizeof *tensor);
        if (tensor == NULL) abort();
        for (; numbered < list.count; numbered++) tensor[numbered] = i;
    }
    if (memory && !e->operator->communicates) check_overlap(e, &list, tensor, l->site);
    emu_table_unlock();
    if (moves && !indexed && now) find_never_written(l, &list, tensor, &never_written);
    free(tensor);
    emu_access workspace = {.kind = ACCESS_WRITE, .argument = "workspace", .member = -1};
    if (l->workspace != NULL) emu_access_add(&list, workspace, l->workspace, e->workspace, 1, 0);
    if (!now) {
        l->accesses = list;
        if (e->exchange_count > 0) {
            l->exchanges = malloc(e->exchange_count * sizeof *l->exchanges);
            if (l->exchanges == NULL) abort();
            memcpy(l->exchanges, e->exchanges, e->exchange_count * sizeof *l->exchanges);
            l->exchange_count = e->exchange_count;
        }
        return;
    }
    l->timeline = stream->timeline;
    l->number = emu_validate_communication(stream->timeline, shown_name(e->operator), l->site, list.items, list.count, e->exchanges, e->exchange_count);
    free(list.items);
    if (never_written.size > 0) validate_moves(e, l, &never_written);
    emu_buffer_free(&never_written);
    if (e->operator->data_dependent) emu_host_waited(stream->timeline); /* CANN's phase two waits for the shapes */
}

static int queue_launch(const executor *e, void *workspace, uint64_t size, aclrtStream handle) {
    EMU_HELD emu_stream *stream = NULL;
    if (handle == NULL && e->operator->communicates)
        return emu_fail(ACLNN_ERR_INNER, "EI0003", "stream is a null pointer, the default stream; HCCL wants one that was created");
    if (workspace == NULL && (e->workspace > 0 || size > 0))
        return emu_fail(ACLNN_ERR_PARAM_NULLPTR, "EMULATOR_WORKSPACE_TOO_SMALL", "workspace is a null pointer; %llu bytes are needed",
                        (unsigned long long)e->workspace);
    if (size < e->workspace)
        return emu_fail(ACLNN_ERR_PARAM_INVALID, "EMULATOR_WORKSPACE_TOO_SMALL", "workspaceSize is %llu; %llu bytes are needed", (unsigned long long)size,
                        (unsigned long long)e->workspace);
    if (emu_stream_acquire(handle, &stream) != 0) return no_device();
    if (e->operator->data_dependent) { /* CANN fails to read the shapes */
        int failed = emu_refuse_while_captured(stream, ACLNN_ERR_INNER, "shapes of outputs depend on data, and cannot be read");
        if (failed != 0) return failed;
    }
    emu_device *device = emu_stream_device(stream);
    launch *l = calloc(1, sizeof *l + e->tensor_count * sizeof l->tensors[0]);
    if (l == NULL) abort();
    l->task = (emu_task){.finish = finish_launch, .routine = e->operator->name};
    l->device = device;
    int status = check_objects(e);
    if (status == 0 && e->workspace > 0) {
        status = emu_memory_pin(device, workspace, size, "workspace") == 0 ? 0 : ACLNN_ERR_PARAM_INVALID;
        if (status == 0) l->workspace = workspace;
    }
    for (; status == 0 && l->count < e->tensor_count; l->count++)
        status = pin_tensor(e, device, &e->tensors[l->count], &l->tensors[l->count]);
    if (status == 0 && e->device != device)
        status = emu_fail(ACLNN_ERR_RUNTIME_ERROR, "EMULATOR_WRONG_CONTEXT", "the executor is of device %d, the stream of device %d",
                          e->device->id, device->id);
    l->plan = e->plan;
    hold_plan(l->plan);
    if (status == 0 && l->plan != NULL) status = address_launch(l);
    if (status == 0 && l->plan != NULL && emu_validates()) validate_launch(e, l, stream);
    if (status == 0 && l->plan != NULL) status = emu_stream_enqueue(stream, &l->task) == 0 ? 0 : ACLNN_ERR_RUNTIME_ERROR;
    else finish_launch(&l->task); /* refused, or ASCEND_EMULATOR_NOOP */
    return status;
}

/* An executor that runs once points into the cache of the thread that made it. */
static int check_thread(const executor *e) {
    if (e->repeatable || !emu_thread_ended(e->thread)) return 0;
    return emu_fail(ACLNN_ERR_INNER, "EMULATOR_THREAD_ENDED",
                    "the thread that ran phase one of %s has ended; CANN would touch freed memory", e->operator->name);
}

/* An executor for phase two, with a reference. One that runs once loses its handle: only one thread can run it, whatever the
 * result. */
static executor *take_executor(aclOpExecutor *handle, int *status) {
    executor *e = emu_object_acquire(handle, KIND_EXECUTOR, status);
    if (e == NULL || e->repeatable) return e;
    emu_object_release(e);
    return emu_object_destroy(handle, KIND_EXECUTOR, status);
}

int emu_phase_two(const emu_operator *operator, void *workspace, uint64_t size, aclOpExecutor *handle, aclrtStream stream) {
    ENTER_RELEASE(operator->name);
    int status;
    if (handle == NULL) LEAVE(emu_fail(ACLNN_ERR_PARAM_NULLPTR, "EMULATOR_NULL_HANDLE", "executor is a null pointer"));
    EMU_HELD executor *e = take_executor(handle, &status);
    if (e == NULL) LEAVE(status);
    uint64_t correlation = emu_activity_begin(ACTIVITY_KERNEL, operator->name, 0, 0, NULL);
    if (emu_validates()) emu_call_site_of_executor(e->site, e->repeatable);
    /* As slow as a launch queue that another thread works on may be. */
    int delay = emu_config()->launch_delay;
    if (delay > 0 && syscall(SYS_gettid) != getpid()) usleep((useconds_t)delay * 1000); /* glibc has gettid from 2.30 on */
    if (e->operator != operator)
        status = emu_fail(ACLNN_ERR_PARAM_INVALID, "EMULATOR_WRONG_EXECUTOR", "the executor %p is of %s", (void *)handle,
                          e->operator->name);
    if (status == 0) status = check_thread(e);
    if (status == 0 && entered_ == 0) status = queue_launch(e, workspace, size, stream);
    if (status == 0 && entered_ == 0 && !e->repeatable && e->plan != NULL) emu_cache_keep(e->plan->id);
    if (status == 0 && entered_ == 0 && e->repeatable) {
        if (e->recorded) emu_count_fast_run();
        e->recorded = e->keyed;
    }
    emu_activity_end(correlation, status);
    LEAVE(status);
}

/* ------------------------------------------------------------------------------------------------- repeatable executors */

static executor *acquire_executor(aclOpExecutor *handle, int *status) {
    if (handle != NULL) return emu_object_acquire(handle, KIND_EXECUTOR, status);
    *status = emu_fail(ACLNN_ERR_INNER_NULLPTR, "EMULATOR_NULL_HANDLE", "executor is a null pointer");
    return NULL;
}

API aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *handle) {
    ENTER("aclSetAclOpExecutorRepeatable");
    int status;
    EMU_HELD executor *e = acquire_executor(handle, &status);
    if (e == NULL) return status;
    if (!emu_thread_is_this(e->thread))
        return emu_fail(ACLNN_ERR_INNER, "EMULATOR_WRONG_THREAD", "phase one of %s ran on another thread", e->operator->name);
    if (mine == NULL || mine->last_executor != handle)
        return emu_fail(ACLNN_ERR_INNER, "EMULATOR_WRONG_EXECUTOR", "this thread has run another phase one since that of %s",
                        e->operator->name);
    if (e->wrapped)
        return emu_fail(ACLNN_ERR_INNER, NULL, "phase one of %s was answered from the thread's cache; that executor cannot be "
                        "repeated", e->operator->name);
    if (!emu_config()->repeatable || (e->plan != NULL && !e->plan->repeatable))
        return emu_fail(ACLNN_ERR_INNER, NULL, "%s cannot be repeated", e->operator->name);
    e->repeatable = true;
    return 0;
}

API aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *handle) {
    ENTER_RELEASE("aclDestroyAclOpExecutor");
    int status;
    if (handle == NULL) LEAVE(emu_fail(ACLNN_ERR_INNER_NULLPTR, "EMULATOR_NULL_HANDLE", "executor is a null pointer"));
    EMU_HELD executor *e = emu_object_destroy(handle, KIND_EXECUTOR, &status);
    if (e != NULL) status = check_thread(e);
    LEAVE(status);
}

typedef enum { INPUTS, OUTPUTS, INPUTS_THEN_OUTPUTS } side;

/* Whether a parameter counts on a side; `pass` is 1 when the outputs of INPUTS_THEN_OUTPUTS are counted. */
static bool counts(const emu_operator *operator, uint32_t parameter, side which, int pass) {
    char kind = operator->kinds[parameter], direction = operator->directions[parameter];
    if (kind != LETTER_TENSOR && kind != LETTER_TENSOR_LIST && direction != 's') return false;
    if (which == INPUTS) return direction != 'o';
    if (which == OUTPUTS) return direction == 'o' || direction == 'x';
    return pass == 0 ? direction != 'o' : direction == 'o';
}

/* The tensor with an index. Members of lists count one by one, a null or empty list not at all. */
static const tensor_use *tensor_at(const executor *e, side which, size_t index) {
    const char *kinds = e->operator->kinds;
    for (int pass = 0; pass < (which == INPUTS_THEN_OUTPUTS ? 2 : 1); pass++) {
        const tensor_use *use = e->tensors, *end = e->tensors + e->tensor_count;
        for (uint32_t p = 0; kinds[p] != 0; p++) {
            const tensor_use *first = use;
            while (use < end && use->parameter == p) use++;
            if (!counts(e->operator, p, which, pass)) continue;
            bool slot = e->operator->directions[p] == 's';
            size_t held = slot ? 1 : (size_t)(use - first);
            if (index < held) return slot ? NULL : first + index;
            index -= held;
        }
    }
    return NULL;
}

/* The member of the list that is parameter number `index` of a side. */
static const tensor_use *member_at(const executor *e, side which, size_t index, size_t member) {
    const char *kinds = e->operator->kinds;
    for (int pass = 0; pass < (which == INPUTS_THEN_OUTPUTS ? 2 : 1); pass++) {
        for (uint32_t p = 0; kinds[p] != 0; p++) {
            if (!counts(e->operator, p, which, pass) || index-- != 0) continue;
            for (uint32_t i = 0; i < e->tensor_count; i++) {
                if (e->tensors[i].parameter == p && e->tensors[i].member == member && kinds[p] == LETTER_TENSOR_LIST) return &e->tensors[i];
            }
            return NULL;
        }
    }
    return NULL;
}

/* Gives a tensor of phase one another address. The table is locked. */
static int set_address(const tensor_use *use, const void *handle, void *address) {
    int status;
    if (use->handle != handle)
        return emu_fail(ACLNN_ERR_PARAM_INVALID, NULL, "phase one had another tensor (%p) at this index, not %p", use->handle, handle);
    emu_tensor *tensor = emu_object_borrow(handle, KIND_TENSOR, &status);
    if (tensor != NULL) tensor->data = address;
    return status;
}

static int set_tensor(aclOpExecutor *handle, side which, size_t index, const aclTensor *tensor, void *address) {
    int status;
    if (tensor == NULL) return emu_fail(ACLNN_ERR_INNER_NULLPTR, "EMULATOR_NULL_HANDLE", "tensor is a null pointer");
    EMU_HELD executor *e = acquire_executor(handle, &status);
    if (e == NULL) return status;
    const tensor_use *use = tensor_at(e, which, index);
    if (use == NULL || use->handle == NULL)
        return emu_fail(ACLNN_ERR_PARAM_INVALID, NULL, use == NULL ? "%s has no tensor with index %zu"
                                                                   : "the tensor of %s with index %zu was null in phase one",
                        e->operator->name, index);
    status = check_alignment(NULL, "the address", address);
    if (status != 0) return status;
    emu_table_lock();
    status = set_address(use, tensor, address);
    emu_table_unlock();
    return status;
}

static int set_member(aclOpExecutor *handle, side which, size_t index, size_t member, const aclTensorList *tensors, void *address) {
    int status;
    if (tensors == NULL) return emu_fail(ACLNN_ERR_INNER_NULLPTR, "EMULATOR_NULL_HANDLE", "tensors is a null pointer");
    EMU_HELD executor *e = acquire_executor(handle, &status);
    EMU_HELD emu_list *list = e != NULL ? emu_object_acquire(tensors, KIND_TENSOR_LIST, &status) : NULL;
    if (list == NULL) return status;
    const tensor_use *use = member_at(e, which, index, member);
    if (use == NULL || use->handle == NULL || member >= list->count)
        return emu_fail(ACLNN_ERR_PARAM_INVALID, NULL, "%s has no tensor %zu in the list with index %zu", e->operator->name, member, index);
    status = check_alignment(NULL, "the address", address);
    if (status != 0) return status;
    emu_table_lock();
    status = set_address(use, list->members[member], address);
    emu_table_unlock();
    return status;
}

/* CANN has both spellings of each function. */
#define SET_TENSOR(upper, lower, which)                                                                        \
    API aclnnStatus lower(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr) {        \
        ENTER(#lower);                                                                                         \
        return set_tensor(executor, which, index, tensor, addr);                                               \
    }                                                                                                          \
    API aclnnStatus upper(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr) {        \
        ENTER(#upper);                                                                                         \
        return set_tensor(executor, which, index, tensor, addr);                                               \
    }
#define SET_MEMBER(upper, lower, which)                                                                        \
    API aclnnStatus lower(aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex,                 \
                          aclTensorList *tensors, void *addr) {                                                \
        ENTER(#lower);                                                                                         \
        return set_member(executor, which, irIndex, relativeIndex, tensors, addr);                             \
    }                                                                                                          \
    API aclnnStatus upper(aclOpExecutor *executor, size_t irIndex, const size_t relativeIndex,                 \
                          aclTensorList *tensors, void *addr) {                                                \
        ENTER(#upper);                                                                                         \
        return set_member(executor, which, irIndex, relativeIndex, tensors, addr);                             \
    }

SET_TENSOR(AclSetInputTensorAddr, aclSetInputTensorAddr, INPUTS)
SET_TENSOR(AclSetOutputTensorAddr, aclSetOutputTensorAddr, OUTPUTS)
SET_TENSOR(AclSetTensorAddr, aclSetTensorAddr, INPUTS_THEN_OUTPUTS)
SET_MEMBER(AclSetDynamicInputTensorAddr, aclSetDynamicInputTensorAddr, INPUTS)
SET_MEMBER(AclSetDynamicOutputTensorAddr, aclSetDynamicOutputTensorAddr, OUTPUTS)
SET_MEMBER(AclSetDynamicTensorAddr, aclSetDynamicTensorAddr, INPUTS_THEN_OUTPUTS)
