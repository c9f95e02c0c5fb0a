/* What is recorded of collectives beside their arguments, and single operators (aclopExecuteV2 and the like) as launches. */
#include "recorder.h"

#include "acl/acl.h"
#include "hccl/hccl.h"
#include "protocol.h"

#include <stdio.h>
#include <stdlib.h>

/* ---------------------------------------------------------------------------------------------------------- collectives */

static uint32_t asked(const char *name, void **slot, const void *comm) {
    int (*function)(const void *, uint32_t *) = (int (*)(const void *, uint32_t *))cann_function(name, slot);
    uint32_t value = 0;
    return function != NULL && function(comm, &value) == 0 ? value : 0;
}

uint64_t layer_ranks(const void *comm) {
    static void *slot;
    return asked("HcclGetRankSize", &slot, comm);
}

bool layer_is_rank(const void *comm, uint32_t rank) {
    static void *slot;
    return asked("HcclGetRankId", &slot, comm) == rank;
}

uint64_t layer_reach(const void *counts, const void *offsets, const void *comm) {
    const uint64_t *count = counts, *offset = offsets;
    uint64_t reach = 0;
    for (uint64_t i = 0, ranks = count != NULL && offset != NULL ? layer_ranks(comm) : 0; i < ranks; i++) {
        if (count[i] > 0 && offset[i] + count[i] > reach) reach = offset[i] + count[i];
    }
    return reach;
}

static uint64_t bytes_of(int type) { /* of an element of a HcclDataType */
    static const unsigned char sizes[] = {1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2, 16, 0, 1, 1, 1, 1};
    return type >= 0 && type < (int)sizeof sizes ? sizes[type] : 0;
}

uint64_t layer_row(const void *matrix, const void *comm) {
    static void *slot;
    uint64_t sum = 0, ranks = matrix != NULL ? layer_ranks(comm) : 0, rank = asked("HcclGetRankId", &slot, comm);
    for (uint64_t i = 0; i < ranks; i++) sum += ((const uint64_t *)matrix)[rank * ranks + i];
    return sum;
}

uint64_t layer_column(const void *matrix, const void *comm) {
    static void *slot;
    uint64_t sum = 0, ranks = matrix != NULL ? layer_ranks(comm) : 0, rank = asked("HcclGetRankId", &slot, comm);
    for (uint64_t i = 0; i < ranks; i++) sum += ((const uint64_t *)matrix)[i * ranks + rank];
    return sum;
}

int layer_items(const HcclSendRecvItem *items, uint32_t count, layer_buffer *buffers) {
    static const char name[] = "sendRecvInfo";
    if (items == NULL) return 0;
    buffers[0] = (layer_buffer){name, items, count * sizeof *items, HCCL_DATA_TYPE_INT8, 'h', -1};
    for (uint32_t i = 0; i < count && i < LAYER_ITEMS - 1; i++)
        buffers[i + 1] = (layer_buffer){name, items[i].buf, items[i].count, (int)items[i].dataType, items[i].sendRecvType == HCCL_RECV ? 'r' : 'i', (int)i};
    return (int)(count < LAYER_ITEMS - 1 ? count : LAYER_ITEMS - 1) + 1;
}

static _Thread_local text call_arguments, call_data, call_left_out; /* of the call that is under way */
static _Thread_local bool call_with_data;

void calls_forget_thread(void) {
    free(call_arguments.data);
    free(call_data.data);
    free(call_left_out.data);
    call_arguments = call_data = call_left_out = (text){0};
}

static bool bytes_of_buffer(const layer_buffer *buffer, uint64_t *size) {
    return !__builtin_mul_overflow(buffer->count, bytes_of(buffer->type), size) && *size > 0 && buffer->address != NULL;
}

/* Adds a key to the data of a call: NAME, or NAME[AT]. */
static void add_key(text *t, const char *name, int at, const char *suffix, const file_key *key) {
    if (t->length > 0) text_literal(t, ",");
    text_literal(t, "\"");
    text_raw(t, name, strlen(name));
    if (at >= 0) {
        text_literal(t, "[");
        text_integer(t, at);
        text_literal(t, "]");
    }
    text_raw(t, suffix, strlen(suffix));
    text_literal(t, "\":\"");
    text_hex(t, key->bytes, sizeof key->bytes);
    text_literal(t, "\"");
}

static void keep_buffer(const layer_buffer *buffer, const char *suffix) {
    file_key key;
    uint64_t size;
    if (!bytes_of_buffer(buffer, &size)) return;
    bool kept = buffer->direction == 'h' ? data_on_host(buffer->address, size, &key, &call_left_out)
                                         : data_at((uint64_t)(uintptr_t)buffer->address, size, &key, &call_left_out);
    if (kept) add_key(&call_data, buffer->name, buffer->at, suffix, &key);
}

/* --------------------------------------------------------------------------------------------------------------- receives */

/* A receive cannot be waited for where it is called: what it waits for may be called later. What it has got is copied, and recorded as a
   call named `received`, when an event behind it has passed and before anything else is launched. */
typedef struct receive {
    struct receive *next;
    uint64_t ticket;
    const void *stream;
    void *event; /* NULL: its group has not ended */
    int64_t thread;
    const char *refused; /* why its data are not recorded */
    int count;
    layer_buffer buffers[];
} receive;

static struct {
    pthread_mutex_t lock;
    receive *first;
    uint64_t tickets;
} receives = {.lock = PTHREAD_MUTEX_INITIALIZER};
static uint64_t receiving; /* how many there are */
static _Thread_local int group_depth; /* of HcclGroupStart */

static void *event_behind(const void *stream) {
    static void *create_slot, *record_slot;
    int (*create)(void **) = (int (*)(void **))cann_function("aclrtCreateEvent", &create_slot);
    int (*record)(void *, const void *) = (int (*)(void *, const void *))cann_function("aclrtRecordEvent", &record_slot);
    void *event = NULL;
    return create != NULL && record != NULL && create(&event) == 0 && record(event, stream) == 0 ? event : NULL;
}

static bool has_passed(void *event) {
    static void *slot;
    int (*query)(void *, int *) = (int (*)(void *, int *))cann_function("aclrtQueryEventStatus", &slot);
    int status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return query != NULL && query(event, &status) == 0 && status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

static void drop_event(void *event) {
    static void *slot;
    int (*destroy)(void *) = (int (*)(void *))cann_function("aclrtDestroyEvent", &slot);
    if (destroy != NULL && event != NULL) destroy(event);
}

/* Remembers the buffers of a call that are written later; its ticket. */
static uint64_t expect(const layer_buffer *buffers, int count, const void *stream) {
    receive *r = malloc(sizeof *r + (size_t)count * sizeof *buffers);
    if (r == NULL) abort();
    *r = (receive){.stream = stream, .thread = thread_id()};
    for (int i = 0; i < count; i++) {
        if (buffers[i].direction == 'r' || (group_depth > 0 && buffers[i].direction != 'i' && buffers[i].direction != 'h'))
            r->buffers[r->count++] = buffers[i];
    }
    if (group_depth == 0 && (r->event = event_behind(stream)) == NULL) r->refused = "data: no event could be recorded behind the receive";
    pthread_mutex_lock(&receives.lock);
    uint64_t ticket = r->ticket = ++receives.tickets;
    receive **at = &receives.first;
    while (*at != NULL) at = &(*at)->next;
    *at = r;
    __atomic_fetch_add(&receiving, 1, __ATOMIC_ACQ_REL);
    pthread_mutex_unlock(&receives.lock);
    return ticket;
}

void layer_group(int change) {
    group_depth += change;
    if (group_depth > 0 || __atomic_load_n(&receiving, __ATOMIC_ACQUIRE) == 0) return;
    group_depth = 0;
    layer_depth++;
    pthread_mutex_lock(&receives.lock);
    for (receive *r = receives.first; r != NULL; r = r->next) {
        if (r->event == NULL && r->refused == NULL && r->thread == thread_id() && (r->event = event_behind(r->stream)) == NULL)
            r->refused = "data: no event could be recorded behind the group";
    }
    pthread_mutex_unlock(&receives.lock);
    layer_depth--;
}

static void write_received(const receive *r) {
    text t = {0}, data = {0}, why = {0};
    const char *suffix;
    for (int i = 0; i < r->count && r->refused == NULL; i++) {
        file_key key;
        uint64_t size;
        suffix = r->buffers[i].direction == 'x' ? " after" : "";
        if (bytes_of_buffer(&r->buffers[i], &size) && data_at((uint64_t)(uintptr_t)r->buffers[i].address, size, &key, &why))
            add_key(&data, r->buffers[i].name, r->buffers[i].at, suffix, &key);
    }
    if (r->refused != NULL) text_raw(&why, r->refused, strlen(r->refused));
    text_literal(&t, "{\"call\":\"received\",\"arguments\":{\"ticket\":");
    text_address(&t, r->ticket);
    text_literal(&t, "},\"status\":0,\"times\":[");
    text_address(&t, layer_now());
    text_literal(&t, ",");
    text_address(&t, layer_now());
    text_literal(&t, "],\"data\":{");
    if (data.length > 0) text_raw(&t, data.data, data.length);
    text_literal(&t, "}");
    if (why.length > 0) {
        text_raw(&why, "", 1);
        text_literal(&t, ",\"left_out\":");
        text_string(&t, why.data);
    }
    text_literal(&t, "}");
    recorder_lock();
    if (recorder_ready()) recorder_write("CALL", &t);
    recorder_unlock();
    free(t.data);
    free(data.data);
    free(why.data);
}

void receive_data(const char *otherwise) {
    if (__atomic_load_n(&receiving, __ATOMIC_ACQUIRE) == 0 || data_capturing()) return;
    layer_depth++;
    pthread_mutex_lock(&receives.lock);
    for (receive **at = &receives.first, *r; (r = *at) != NULL;) {
        bool passed = r->refused != NULL || (r->event != NULL && has_passed(r->event));
        if (!passed && r->event != NULL && otherwise != NULL) {
            r->refused = otherwise;
            passed = true;
        }
        if (!passed) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        __atomic_fetch_sub(&receiving, 1, __ATOMIC_ACQ_REL);
        write_received(r);
        drop_event(r->event);
        free(r);
    }
    pthread_mutex_unlock(&receives.lock);
    layer_depth--;
}

void layer_received(void) { receive_data(NULL); }

void receives_lock(void) { pthread_mutex_lock(&receives.lock); }
void receives_unlock(void) { pthread_mutex_unlock(&receives.lock); }
void receives_forget(void) {
    receives.first = NULL;
    receiving = 0;
}

/* ------------------------------------------------------------------------------------------------------------------------ */

bool layer_with_data(const char *name) { return data_wanted(name, recorder_launches()); }

/* The communicator's name and this rank in it, by which the calls of several ranks are put together. */
static void write_rank(const void *comm) {
    static void *slot, *rank_slot;
    char name[129] = "";
    int (*named)(const void *, char *) = (int (*)(const void *, char *))cann_function("HcclGetCommName", &slot);
    if (named == NULL || named(comm, name) != 0) return;
    text_literal(&call_arguments, ",\"group\":");
    text_string(&call_arguments, name);
    text_literal(&call_arguments, ",\"rank\":");
    text_address(&call_arguments, asked("HcclGetRankId", &rank_slot, comm));
    text_literal(&call_arguments, ",\"ranks\":");
    text_address(&call_arguments, layer_ranks(comm));
}

void layer_before_collective(const layer_frame *frame, const char *name, const layer_buffer *buffers, int count, const void *comm,
                             const void *stream) {
    call_with_data = frame->outer && data_wanted(name, recorder_launches());
    call_arguments.length = call_data.length = call_left_out.length = 0;
    if (!frame->outer || settings.data == NULL || *settings.data == 0) return;
    write_rank(comm); /* of calls without data, too: they are counted */
    if (!call_with_data) return;
    if (data_capturing()) {
        text_literal(&call_left_out, "data: a stream is being captured");
        call_with_data = false;
        return;
    }
    bool reads = false;
    for (int i = 0; i < count; i++) reads = reads || buffers[i].direction != 'r';
    int status = reads ? data_wait(stream) : 0;
    if (status != 0) late_status(stream, status);
    for (int i = 0; i < count; i++) {
        if (buffers[i].direction != 'o' && buffers[i].direction != 'r') keep_buffer(&buffers[i], "");
    }
}

void layer_after_collective(const layer_buffer *buffers, int count, int result, const void *stream) {
    if (!call_with_data || result != 0) return;
    bool writes = false, later = false;
    for (int i = 0; i < count; i++) {
        writes = writes || buffers[i].direction == 'o' || buffers[i].direction == 'x';
        later = later || buffers[i].direction == 'r';
    }
    if (later || (writes && group_depth > 0)) {
        text_literal(&call_arguments, ",\"ticket\":");
        text_address(&call_arguments, expect(buffers, count, stream));
        return;
    }
    if (!writes) return; /* HcclSend: waiting for it would wait for the other rank */
    int status = data_wait(stream);
    if (status != 0) late_status(stream, status);
    for (int i = 0; status == 0 && i < count; i++) {
        if (buffers[i].direction == 'o' || buffers[i].direction == 'x') keep_buffer(&buffers[i], buffers[i].direction == 'x' ? " after" : "");
    }
}

void write_call_arguments(text *t) {
    if (call_arguments.length > 0) text_raw(t, call_arguments.data, call_arguments.length);
    call_arguments.length = 0;
}

void write_call_data(text *t) {
    if (call_data.length > 0) {
        text_literal(t, ",\"data\":{");
        text_raw(t, call_data.data, call_data.length);
        text_literal(t, "}");
    }
    if (call_left_out.length > 0) {
        text_raw(&call_left_out, "", 1);
        text_literal(t, ",\"left_out\":");
        text_string(t, call_left_out.data);
    }
    call_data.length = call_left_out.length = 0;
}

/* ----------------------------------------------------------------------------------------------------- single operators */

typedef struct single {
    struct single *next;
    int inputs, outputs;
    layer_operator operator;
} single;

static single *singles; /* by type and numbers of tensors; never freed. The recorder's lock is held */

layer_operator *single_operator(const char *type, int inputs, int outputs) {
    single *found = singles;
    while (found != NULL && (found->inputs != inputs || found->outputs != outputs || strcmp(found->operator.name, type) != 0)) found = found->next;
    if (found != NULL) return &found->operator;
    uint32_t count = (uint32_t)(inputs + outputs);
    found = calloc(1, sizeof *found);
    char *kinds = malloc(count + 1), *directions = malloc(count + 1);
    const char **names = calloc(count + 1, sizeof *names);
    if (found == NULL || kinds == NULL || directions == NULL || names == NULL) abort();
    for (uint32_t i = 0; i < count; i++) {
        char name[32];
        bool input = i < (uint32_t)inputs;
        snprintf(name, sizeof name, input ? "input%u" : "output%u", input ? i : i - (uint32_t)inputs);
        kinds[i] = LETTER_TENSOR;
        directions[i] = input ? 'i' : 'o';
        names[i] = strdup(name);
        if (names[i] == NULL) abort();
    }
    kinds[count] = directions[count] = 0;
    *found = (single){.next = singles, .inputs = inputs, .outputs = outputs,
                      .operator = {.name = strdup(type), .kinds = kinds, .directions = directions, .parameters = names, .count = count}};
    if (found->operator.name == NULL) abort();
    singles = found;
    return &found->operator;
}

#define MOST_TENSORS 64
#define MOST_DIMS 16

/* Makes a handle known whose description is that of an aclTensorDesc. */
static void know(const void *handle, const void *desc, const void *buffer) {
    static void *type_slot, *format_slot, *count_slot, *dim_slot, *address_slot;
    int (*type)(const void *) = (int (*)(const void *))cann_function("aclGetTensorDescType", &type_slot);
    int (*format)(const void *) = (int (*)(const void *))cann_function("aclGetTensorDescFormat", &format_slot);
    size_t (*count)(const void *) = (size_t (*)(const void *))cann_function("aclGetTensorDescNumDims", &count_slot);
    int (*dim)(const void *, size_t, int64_t *) = (int (*)(const void *, size_t, int64_t *))cann_function("aclGetTensorDescDimV2", &dim_slot);
    void *(*address)(const void *) = (void *(*)(const void *))cann_function("aclGetDataBufferAddr", &address_slot);
    int64_t dims[MOST_DIMS];
    if (desc == NULL || type == NULL || format == NULL || count == NULL || dim == NULL) return;
    size_t rank = count(desc);
    if (rank > MOST_DIMS) return; /* of an unknown rank, too */
    for (size_t i = 0; i < rank; i++) {
        if (dim(desc, i, &dims[i]) != 0) return;
    }
    const void *data = buffer != NULL && address != NULL ? address(buffer) : NULL;
    layer_made_tensor(handle, dims, rank, type(desc), NULL, 0, format(desc), dims, rank, data);
}

layer_launch *layer_before_single(const layer_frame *frame, const char *type, int inputs, const void *const *input_descs,
                                  const void *const *input_buffers, int outputs, const void *const *output_descs,
                                  const void *const *output_buffers, const void *stream) {
    char handles[OWN_HANDLE * MOST_TENSORS + 1];
    layer_value values[MOST_TENSORS];
    if (!frame->outer || type == NULL || inputs < 0 || outputs < 0 || inputs + outputs > MOST_TENSORS) return NULL;
    for (int i = 0; i < inputs + outputs; i++) {
        bool input = i < inputs;
        int at = input ? i : i - inputs;
        const void *const *descs = input ? input_descs : output_descs, *const *buffers = input ? input_buffers : output_buffers;
        values[i].pointer = own_handle(handles, (uint32_t)i);
        know(values[i].pointer, descs != NULL ? descs[at] : NULL, buffers != NULL ? buffers[at] : NULL);
    }
    recorder_lock();
    layer_operator *operator = single_operator(type, inputs, outputs);
    recorder_unlock();
    layer_launch *launch = record_launch(frame, operator, values, stream);
    for (int i = 0; i < inputs + outputs; i++) layer_forget(values[i].pointer);
    return launch;
}
