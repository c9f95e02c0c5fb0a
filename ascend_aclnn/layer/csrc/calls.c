/* What is recorded of collectives beside their arguments, and single operators (aclopExecuteV2 and the like) as launches. */
#include "recorder.h"

#include "acl/acl.h"
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

static _Thread_local text call_data, call_left_out; /* of the call that is under way */
static _Thread_local bool call_with_data;

static void keep_buffer(const layer_buffer *buffer, const char *suffix) {
    file_key key;
    uint64_t size;
    if (__builtin_mul_overflow(buffer->count, bytes_of(buffer->type), &size) || size == 0 || buffer->address == NULL) return;
    if (!data_at((uint64_t)(uintptr_t)buffer->address, size, &key, &call_left_out)) return;
    if (call_data.length > 0) text_literal(&call_data, ",");
    text_literal(&call_data, "\"");
    text_raw(&call_data, buffer->name, strlen(buffer->name));
    text_raw(&call_data, suffix, strlen(suffix));
    text_literal(&call_data, "\":\"");
    text_hex(&call_data, key.bytes, sizeof key.bytes);
    text_literal(&call_data, "\"");
}

bool layer_with_data(const char *name) { return data_wanted(name, recorder_launches()); }

void layer_before_collective(const layer_frame *frame, const char *name, const layer_buffer *buffers, int count, const void *stream) {
    call_with_data = frame->outer && data_wanted(name, recorder_launches());
    call_data.length = call_left_out.length = 0;
    if (!call_with_data) return;
    if (data_capturing()) {
        text_literal(&call_left_out, "data: a stream is being captured");
        call_with_data = false;
        return;
    }
    int status = data_wait(stream);
    if (status != 0) late_status(stream, status);
    for (int i = 0; i < count; i++) {
        if (buffers[i].direction != 'o') keep_buffer(&buffers[i], "");
    }
}

void layer_after_collective(const layer_buffer *buffers, int count, int result, const void *stream) {
    if (!call_with_data || result != 0) return;
    bool writes = false;
    for (int i = 0; i < count; i++) writes = writes || buffers[i].direction != 'i';
    if (!writes) return; /* HcclSend: waiting for it would wait for the other rank */
    int status = data_wait(stream);
    if (status != 0) late_status(stream, status);
    for (int i = 0; status == 0 && i < count; i++) {
        if (buffers[i].direction != 'i') keep_buffer(&buffers[i], buffers[i].direction == 'x' ? " after" : "");
    }
}

void layer_not_recorded(const layer_frame *frame, const char *name) {
    call_data.length = call_left_out.length = 0;
    if (frame->outer && data_wanted(name, recorder_launches())) {
        static const char words[] = "data: to wait for this call could wait for ever";
        text_raw(&call_left_out, words, sizeof words - 1);
    }
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

static layer_operator *single_operator(const char *type, int inputs, int outputs) {
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
    char handles[MOST_TENSORS]; /* their addresses stand for the tensors */
    layer_value values[MOST_TENSORS];
    if (!frame->outer || type == NULL || inputs < 0 || outputs < 0 || inputs + outputs > MOST_TENSORS) return NULL;
    for (int i = 0; i < inputs + outputs; i++) {
        bool input = i < inputs;
        int at = input ? i : i - inputs;
        const void *const *descs = input ? input_descs : output_descs, *const *buffers = input ? input_buffers : output_buffers;
        values[i].pointer = &handles[i];
        know(&handles[i], descs != NULL ? descs[at] : NULL, buffers != NULL ? buffers[at] : NULL);
    }
    recorder_lock();
    layer_operator *operator = single_operator(type, inputs, outputs);
    recorder_unlock();
    layer_launch *launch = record_launch(frame, operator, values, stream);
    for (int i = 0; i < inputs + outputs; i++) layer_forget(&handles[i]);
    return launch;
}
