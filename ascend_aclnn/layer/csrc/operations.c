/*
 * ATB's operations. Setup and Execute are virtual functions of C++, which no shim has. An operation that a client makes gets a table of
 * virtual functions of its own: a copy of its class's, in which these two, and the destructor that frees it, are the layer's.
 */
#include "recorder.h"

#include "acl/acl.h"
#include "atb/atb_layout.h"
#include "protocol.h"

#include <link.h>
#include <stdlib.h>

#define BEFORE 16 /* words in front of a table: offsets of bases and the type, by which C++ casts */
#define FUNCTIONS 128 /* more than a class has; what lies behind its table is copied, too, and not used */

typedef struct {
    const layer_operation *kind;
    const void *const *table; /* of the class */
    layer_value *parameters; /* the values of the kind's operator: inputs, parameters, outputs */
    layer_operator *operator; /* of the last set-up, and its values: those, or the tensors one after the other */
    layer_value *values;
    uint64_t present; /* which inputs and outputs the parameters ask for */
    uint32_t tensors;
    char *handles; /* their addresses stand for the tensors */
    const void *copy[BEFORE + FUNCTIONS];
} operation_state;

static const void *const *table_of(const void *operation) { return *(const void *const *const *)operation; }

static operation_state *state_of(const void *operation) {
    return (operation_state *)((char *)(uintptr_t)table_of(operation) - offsetof(operation_state, copy[BEFORE]));
}

/* Forgets the tensors of the last call, and has handles for those of another one; they are the same if their number is. */
static void renew_tensors(operation_state *state, uint32_t count) {
    for (uint32_t i = 0; i < state->tensors; i++) layer_forget(own_handle(state->handles, i));
    if (state->tensors == count) return;
    free(state->handles);
    state->handles = own_handles(count);
    state->tensors = count;
}

static const atb_tensor *items_of(const atb_tensors *tensors) { return tensors->heap != NULL ? tensors->heap : tensors->items; }

/* What ATB reads on the host, as an array of integers. */
static void know_on_host(const void *handle, const int64_t *dims, uint64_t rank, const void *host) {
    uint64_t count = 1;
    for (uint64_t i = 0; i < rank; i++) count *= dims[i] > 0 ? (uint64_t)dims[i] : 0;
    int64_t *numbers = host != NULL && count < 1u << 20 ? malloc((count + 1) * sizeof *numbers) : NULL;
    for (uint64_t i = 0; numbers != NULL && i < count; i++) numbers[i] = ((const int32_t *)host)[i];
    layer_made_array(handle, LETTER_INT_ARRAY, numbers, count);
    free(numbers);
}

static layer_value known_tensor(const void *handle, const atb_tensor *tensor, bool on_host) {
    const atb_dims *shape = &tensor->desc.shape;
    if (shape->count > ATB_MOST_DIMS || (shape->count == 0 && tensor->device == NULL && tensor->host == NULL))
        return (layer_value){.pointer = NULL};
    if (on_host) know_on_host(handle, shape->dims, shape->count, tensor->host);
    else layer_made_tensor(handle, shape->dims, shape->count, tensor->desc.dtype, NULL, 0, tensor->desc.format, shape->dims, shape->count, tensor->device);
    return (layer_value){.pointer = handle};
}

static uint32_t bits(uint64_t word, uint32_t from, uint32_t count) {
    return (uint32_t)__builtin_popcountll(word >> from & ((1ull << count) - 1));
}

/* Makes the tensors of a call known. They are the parameters' where their numbers are those that these ask for, else the first, the second, ... */
static void know_pack(operation_state *state, const atb_pack *pack) {
    const layer_operation *kind = state->kind;
    const atb_tensor *in = items_of(&pack->ins), *out = items_of(&pack->outs);
    if (pack->ins.count > ATB_MOST_ITEMS || pack->outs.count > ATB_MOST_ITEMS) return;
    uint32_t ins = (uint32_t)pack->ins.count, outs = (uint32_t)pack->outs.count, number = 0;
    renew_tensors(state, ins + outs);
    bool named = kind->operator != NULL && ins == bits(state->present, 0, kind->ins) && outs == bits(state->present, kind->ins, kind->outs);
    if (state->values != state->parameters) free(state->values);
    state->operator = kind->operator;
    state->values = state->parameters;
    if (!named) {
        recorder_lock();
        state->operator = single_operator(kind->name, (int)ins, (int)outs);
        recorder_unlock();
        state->values = calloc(ins + outs + 1, sizeof *state->values);
        if (state->values == NULL) abort();
        for (; number < ins + outs; number++)
            state->values[number] = known_tensor(own_handle(state->handles, number), number < ins ? in++ : out++, false);
        return;
    }
    for (uint32_t slot = 0; slot < kind->ins + kind->outs; slot++) {
        layer_value *value = &state->values[slot < kind->ins ? slot : slot + kind->values];
        *value = (layer_value){.pointer = NULL};
        if ((state->present >> slot & 1) == 0) continue;
        bool on_host = slot < kind->ins && (kind->on_host >> slot & 1) != 0;
        *value = known_tensor(own_handle(state->handles, number++), slot < kind->ins ? in++ : out++, on_host);
    }
}

/* The parameters of an operation, which has not been set up with them. */
static void read_structure(operation_state *state, const void *structure) {
    const layer_operation *kind = state->kind;
    if (kind->operator == NULL) return;
    if (state->parameters == NULL) state->parameters = calloc(kind->operator->count + 1, sizeof *state->parameters);
    if (state->parameters == NULL) abort();
    state->present = kind->present(structure);
    kind->read(structure, state->parameters + kind->ins);
}

static int set_up_operation(void *self, const atb_pack *pack, uint64_t *workspace, void *context) {
    LAYER_ENTER;
    operation_state *state = state_of(self);
    int (*real)(void *, const atb_pack *, uint64_t *, void *) = (int (*)(void *, const atb_pack *, uint64_t *, void *))state->table[ATB_OPERATION_SETUP];
    int status = real(self, pack, workspace, context);
    if (!frame_.outer) return status;
    know_pack(state, pack);
    if (state->operator == NULL) return status;
    layer_phase_one(&frame_, state->operator, state->values, status, workspace, &self);
    layer_repeatable(self); /* it may be executed again as it was set up */
    return status;
}

const void *layer_stream_of(const void *context) {
    if (context == NULL) return NULL;
    const void *(*stream)(const void *) = (const void *(*)(const void *))table_of(context)[ATB_CONTEXT_STREAM];
    return stream(context);
}

static int execute_operation(void *self, const atb_pack *pack, uint8_t *workspace, uint64_t size, void *context) {
    LAYER_ENTER;
    operation_state *state = state_of(self);
    int (*real)(void *, const atb_pack *, uint8_t *, uint64_t, void *) =
        (int (*)(void *, const atb_pack *, uint8_t *, uint64_t, void *))state->table[ATB_OPERATION_EXECUTE];
    if (frame_.outer && pack->ins.count + pack->outs.count == state->tensors) know_pack(state, pack); /* they may lie elsewhere by now */
    layer_launch *launch = frame_.outer ? layer_before_phase_two(workspace, size, self, (void *)(uintptr_t)layer_stream_of(context)) : NULL;
    int status = real(self, pack, workspace, size, context);
    layer_after_phase_two(launch, status);
    return status;
}

static bool is_ours(const void *operation) {
    return operation != NULL && table_of(operation)[ATB_OPERATION_SETUP] == (const void *)set_up_operation;
}

void layer_forget_operation(void *operation) {
    layer_forget_executor(operation);
    if (!is_ours(operation)) return;
    operation_state *state = state_of(operation);
    *(const void *const **)operation = state->table;
    renew_tensors(state, 0);
    if (state->values != state->parameters) free(state->values);
    free(state->parameters);
    free(state);
}

static void delete_operation(void *self) {
    LAYER_PASS;
    (void)frame_;
    void (*real)(void *) = (void (*)(void *))state_of(self)->table[ATB_OPERATION_DELETE];
    layer_forget_operation(self);
    real(self);
}

/* Copies as much around a class's table as the library has in memory. */
typedef struct {
    const void *const *table;
    const void **copy;
} copied_table;

static int copy_table(struct dl_phdr_info *library, size_t size, void *context) {
    const copied_table *c = context;
    (void)size;
    for (int i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &library->dlpi_phdr[i];
        const void *const *begin = (const void *const *)(library->dlpi_addr + part->p_vaddr);
        const void *const *end = (const void *const *)(library->dlpi_addr + part->p_vaddr + part->p_memsz / sizeof(void *) * sizeof(void *));
        if (part->p_type != PT_LOAD || c->table < begin || c->table >= end) continue;
        for (int k = 0; k < BEFORE + FUNCTIONS; k++) {
            const void *const *from = c->table + k - BEFORE;
            if (from >= begin && from < end) c->copy[k] = *from;
        }
        return 1;
    }
    return 0;
}

void layer_made_operation(const layer_frame *frame, const layer_operation *kind, const void *structure, void *operation) {
    if (!frame->outer || operation == NULL || is_ours(operation)) return;
    operation_state *state = calloc(1, sizeof *state);
    if (state == NULL) abort();
    state->kind = kind;
    state->table = table_of(operation);
    copied_table copied = {state->table, state->copy};
    if (dl_iterate_phdr(copy_table, &copied) == 0) { /* a table that no library has: the operation stays as it is */
        free(state);
        return;
    }
    read_structure(state, structure);
    state->copy[BEFORE + ATB_OPERATION_DELETE] = (const void *)delete_operation;
    state->copy[BEFORE + ATB_OPERATION_SETUP] = (const void *)set_up_operation;
    state->copy[BEFORE + ATB_OPERATION_EXECUTE] = (const void *)execute_operation;
    *(const void *const **)operation = &state->copy[BEFORE];
}

void layer_changed_operation(const void *structure, void *operation) {
    layer_forget_executor(operation);
    if (!is_ours(operation)) return;
    read_structure(state_of(operation), structure);
}

void layer_prepared(const layer_frame *frame, const layer_operation *kind, const void *structure, const void *const *ins,
                    const void *const *outs, int status, const uint64_t *workspace, void *const *operation) {
    if (!frame->outer) return;
    layer_value *values = calloc(kind->operator->count + 1, sizeof *values);
    char *handles = own_handles(kind->ins);
    if (values == NULL) abort();
    uint64_t present = kind->present(structure);
    kind->read(structure, values + kind->ins);
    for (uint32_t slot = 0; slot < kind->ins + kind->outs; slot++) {
        layer_value *value = &values[slot < kind->ins ? slot : slot + kind->values];
        if ((present >> slot & 1) != 0) value->pointer = slot < kind->ins ? ins[slot] : outs[slot - kind->ins];
        object tensor = object_of(value->pointer);
        /* ATB has read it, and so can the layer; of a call that it refused, the address may be anything. */
        bool on_host = status == 0 && slot < kind->ins && (kind->on_host >> slot & 1) != 0 && tensor.kind == LETTER_TENSOR;
        if (!on_host || (tensor.shape->dtype != ACL_INT32 && tensor.shape->dtype != ACL_UINT32)) continue;
        const int32_t *host = (const int32_t *)(uintptr_t)tensor.address;
        know_on_host(own_handle(handles, slot), tensor.shape->numbers, tensor.shape->rank, host != NULL ? host + tensor.shape->offset : NULL);
        value->pointer = own_handle(handles, slot);
    }
    layer_phase_one(frame, kind->operator, values, status, workspace, operation);
    if (status == 0) {
        layer_owns(*operation, handles, kind->ins);
        layer_repeatable(*operation); /* it may be executed again as it was set up */
    } else {
        free(handles);
    }
    free(values);
}
