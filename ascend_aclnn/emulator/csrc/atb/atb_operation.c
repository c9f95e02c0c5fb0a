/*
 * atb::Operation, an object with C++'s table of virtual functions. Setup is phase one and Execute phase two of an operator of the
 * device process; what tensors a client passes become aclTensors, and what it passes on the host arrays of integers.
 */
#include "atb/atb_operation.h"

#include "ascendcl/core/api_entry.h"
#include "nnopbase/objects.h"

#include <stdlib.h>
#include <string.h>

#define MOST_VALUES 64

struct atb_operation {
    const void *const *functions;
    const emu_atb_kind *kind;
    uint32_t stream;            /* of the context's streams */
    bool is_set_up;             /* it has been, with the parameters that it has */
    aclOpExecutor *executor;    /* of the latest Setup */
    uint64_t workspace;
    emu_value values[ATB_MOST_SLOTS + MOST_VALUES]; /* of the operator */
    void *tensors[ATB_MOST_SLOTS];                  /* aclTensors that are its own */
    void *arrays[ATB_MOST_SLOTS];                   /* aclIntArrays that are */
    void *addresses[ATB_MOST_SLOTS];                /* of the inputs, then the outputs */
    char structure[];
};

/* --------------------------------------------------------------------------------------------------------- one set-up */

static void forget(atb_operation *self) {
    if (self->executor != NULL) aclDestroyAclOpExecutor(self->executor);
    self->executor = NULL;
    for (uint32_t i = 0; i < ATB_MOST_SLOTS; i++) {
        if (self->tensors[i] != NULL) aclDestroyTensor(self->tensors[i]);
        if (self->arrays[i] != NULL) aclDestroyIntArray(self->arrays[i]);
        self->tensors[i] = self->arrays[i] = NULL;
    }
}

/* The values at an address on the host, as an array of integers. */
static atb_status read_host(atb_operation *self, uint32_t slot, const char *name, int32_t dtype, uint64_t count, const void *host) {
    if (host == NULL)
        return atb_refuse(ATB_ERROR_INVALID_PARAM, NULL, "%s has no data on the host (hostData is null); ATB reads it there", name);
    if (dtype != ACL_INT32 && dtype != ACL_UINT32)
        return atb_refuse(ATB_ERROR_INVALID_TENSOR_INI_MATCH, NULL, "%s has data type %d; allowed: INT32 (%d), UINT32 (%d)", name, dtype,
                          ACL_INT32, ACL_UINT32);
    int64_t *numbers = malloc((count + 1) * sizeof *numbers);
    if (numbers == NULL) return ATB_ERROR_OUT_OF_HOST_MEMORY;
    for (uint64_t i = 0; i < count; i++) numbers[i] = ((const int32_t *)host)[i];
    self->arrays[slot] = aclCreateIntArray(numbers, count);
    free(numbers);
    return self->arrays[slot] != NULL ? ATB_NO_ERROR : atb_failed(ACLNN_ERR_INNER);
}

/* The name of a slot: the parameters' names are those of the inputs, the values and the outputs. */
static const char *slot_name(const emu_atb_kind *kind, uint32_t slot, char *buffer, size_t size) {
    uint32_t parameter = slot < kind->ins ? slot : slot + kind->values;
    const char *at = kind->operator.parameters;
    for (; parameter > 0; parameter--) at = strchr(at, ' ') + 1;
    size_t length = strcspn(at, " ");
    if (length >= size) length = size - 1;
    memcpy(buffer, at, length);
    buffer[length] = 0;
    return buffer;
}

static emu_value *slot_value(atb_operation *self, uint32_t slot) {
    return &self->values[slot < self->kind->ins ? slot : slot + self->kind->values];
}

/*
 * An aclTensor of one's own in a slot. In FRACTAL_NZ, dims of which the last has 32 bytes are those of the storage: fractals of one
 * column, in order. Of other dims the storage is in blocks of 16 rows of 32 bytes.
 */
static atb_status make_tensor(atb_operation *self, uint32_t slot, const int64_t *dims, uint64_t rank, int32_t dtype, int32_t format,
                              void *address) {
    int64_t strides[ATB_MOST_DIMS], storage[ATB_MOST_DIMS + 2];
    uint64_t storage_rank = rank;
    int64_t stride = 1, element = (int64_t)aclDataTypeSize((aclDataType)dtype);
    for (uint64_t i = rank; i > 0; i--) {
        strides[i - 1] = stride;
        stride *= dims[i - 1];
        storage[i - 1] = dims[i - 1];
    }
    if (format == ACL_FORMAT_FRACTAL_NZ && rank >= 4 && dims[rank - 1] * element == 32) format = ACL_FORMAT_ND;
    if (format == ACL_FORMAT_FRACTAL_NZ && rank >= 2 && element > 0) {
        int64_t columns = 32 / element;
        storage[rank - 2] = (dims[rank - 1] + columns - 1) / columns;
        storage[rank - 1] = (dims[rank - 2] + 15) / 16;
        storage[rank] = 16;
        storage[rank + 1] = columns;
        storage_rank = rank + 2;
    }
    self->tensors[slot] = aclCreateTensor(dims, rank, (aclDataType)dtype, strides, 0, (aclFormat)format, storage, storage_rank, address);
    slot_value(self, slot)->pointer = self->tensors[slot];
    return self->tensors[slot] != NULL ? ATB_NO_ERROR : atb_failed(ACLNN_ERR_INNER);
}

/* A client's tensor in a slot; one without axes and addresses is absent. */
static atb_status take_tensor(atb_operation *self, uint32_t slot, const atb_tensor *tensor) {
    char name[64];
    const atb_desc *desc = &tensor->desc;
    slot_name(self->kind, slot, name, sizeof name);
    if (desc->shape.count > ATB_MOST_DIMS)
        return atb_refuse(ATB_ERROR_INVALID_TENSOR_DIM_NUM, NULL, "%s has %llu axes; allowed: 1 to %d", name,
                          (unsigned long long)desc->shape.count, ATB_MOST_DIMS);
    if (desc->shape.count == 0 && tensor->device == NULL && tensor->host == NULL) return ATB_NO_ERROR;
    if (slot < self->kind->ins && (self->kind->on_host >> slot & 1) != 0) {
        atb_status status = read_host(self, slot, name, desc->dtype, atb_count(desc), tensor->host);
        slot_value(self, slot)->pointer = self->arrays[slot];
        return status;
    }
    if (tensor->device == NULL && atb_count(desc) > 0)
        return atb_refuse(ATB_ERROR_INVALID_TENSOR_ADDR, NULL, "%s has no data on the device (deviceData is null)", name);
    self->addresses[slot] = tensor->device;
    return make_tensor(self, slot, desc->shape.dims, desc->shape.count, desc->dtype, desc->format, tensor->device);
}

/* An aclTensor in a slot. One that an operation reads on the host lies there; one in FRACTAL_NZ has no storage dims. */
static atb_status take_handle(atb_operation *self, uint32_t slot, const aclTensor *handle) {
    char name[64];
    int status = 0;
    int64_t dims[ATB_MOST_DIMS];
    if (handle == NULL) return ATB_NO_ERROR;
    emu_table_lock();
    const emu_tensor *tensor = emu_object_borrow(handle, KIND_TENSOR, &status);
    emu_tensor seen = tensor != NULL ? *tensor : (emu_tensor){0};
    uint64_t count = 1;
    for (uint64_t i = 0; i < seen.rank && i < ATB_MOST_DIMS; i++) count *= (uint64_t)(dims[i] = seen.numbers[i]);
    emu_table_unlock();
    if (status != 0) return atb_failed(status);
    slot_name(self->kind, slot, name, sizeof name);
    if (seen.rank > ATB_MOST_DIMS)
        return atb_refuse(ATB_ERROR_INVALID_TENSOR_DIM_NUM, NULL, "%s has %llu axes; allowed: 1 to %d", name, (unsigned long long)seen.rank,
                          ATB_MOST_DIMS);
    char *address = seen.data != NULL ? (char *)seen.data + (size_t)seen.offset * aclDataTypeSize(seen.dtype) : NULL;
    if (slot < self->kind->ins && (self->kind->on_host >> slot & 1) != 0) {
        atb_status taken = read_host(self, slot, name, seen.dtype, count, address);
        slot_value(self, slot)->pointer = self->arrays[slot];
        return taken;
    }
    if (seen.format == ACL_FORMAT_FRACTAL_NZ) return make_tensor(self, slot, dims, seen.rank, seen.dtype, seen.format, address);
    slot_value(self, slot)->pointer = handle;
    return ATB_NO_ERROR;
}

static const atb_tensor *items(const atb_tensors *tensors) { return tensors->heap != NULL ? tensors->heap : tensors->items; }

static uint32_t count_bits(uint64_t bits, uint32_t from, uint32_t to) {
    uint32_t count = 0;
    for (uint32_t i = from; i < to; i++) count += (uint32_t)(bits >> i & 1);
    return count;
}

/* Forgets the last set-up; then the values are those of the structure, and no tensor is there. */
static void begin_set_up(atb_operation *self) {
    const emu_atb_kind *kind = self->kind;
    forget(self);
    memset(self->values, 0, sizeof self->values);
    memset(self->addresses, 0, sizeof self->addresses);
    kind->read(self->structure, self->values + kind->ins);
}

static atb_status set_up(atb_operation *self) {
    int status = emu_phase_one(&self->kind->operator, self->values, &self->workspace, &self->executor);
    self->is_set_up = status == 0;
    return status == 0 ? ATB_NO_ERROR : atb_failed(status);
}

static atb_status check_counts(const atb_operation *self, uint64_t present, const atb_pack *pack) {
    const emu_atb_kind *kind = self->kind;
    uint32_t ins = count_bits(present, 0, kind->ins), outs = count_bits(present, kind->ins, kind->ins + kind->outs);
    if (pack->ins.count != ins)
        return atb_refuse(ATB_ERROR_INVALID_IN_TENSOR_NUM, NULL, "inTensors has %zu tensors; with these parameters it must have %u",
                          pack->ins.count, ins);
    if (pack->outs.count != outs)
        return atb_refuse(ATB_ERROR_INVALID_IN_TENSOR_NUM, NULL, "outTensors has %zu tensors; with these parameters it must have %u",
                          pack->outs.count, outs);
    return ATB_NO_ERROR;
}

static atb_status take_pack(atb_operation *self, const atb_pack *pack) {
    const emu_atb_kind *kind = self->kind;
    uint64_t present = kind->present(self->structure);
    atb_status status = check_counts(self, present, pack);
    const atb_tensor *in = items(&pack->ins), *out = items(&pack->outs);
    begin_set_up(self);
    for (uint32_t slot = 0; status == ATB_NO_ERROR && slot < kind->ins + kind->outs; slot++) {
        if ((present >> slot & 1) == 0) continue;
        status = take_tensor(self, slot, slot < kind->ins ? in++ : out++);
    }
    if (status == ATB_NO_ERROR) status = set_up(self);
    if (status != ATB_NO_ERROR) forget(self);
    return status;
}

/* Whether tensors on the device lie where they did at the set-up. */
static bool is_unmoved(const atb_operation *self, const atb_pack *pack) {
    const emu_atb_kind *kind = self->kind;
    uint64_t present = kind->present(self->structure);
    const atb_tensor *in = items(&pack->ins), *out = items(&pack->outs);
    for (uint32_t slot = 0; slot < kind->ins + kind->outs; slot++) {
        if ((present >> slot & 1) == 0) continue;
        const atb_tensor *tensor = slot < kind->ins ? in++ : out++;
        if (self->tensors[slot] != NULL && tensor->device != self->addresses[slot]) return false;
    }
    return true;
}

static atb_status execute(atb_operation *self, void *workspace, uint64_t size, atb_context *context) {
    if (context == NULL) return atb_refuse(ATB_ERROR_INVALID_PARAM, NULL, "context is a null pointer");
    if (self->executor == NULL)
        return atb_refuse(ATB_ERROR_INVALID_PARAM, NULL, "the operation has not been set up since it was executed");
    if (size < self->workspace)
        return atb_refuse(ATB_ERROR_INVALID_WORKSPACE_SIZE, NULL, "workspaceSize is %llu; %llu bytes are needed", (unsigned long long)size,
                          (unsigned long long)self->workspace);
    if (self->workspace > 0 && workspace == NULL)
        return atb_refuse(ATB_ERROR_INVALID_WORKSPACE_ADDR, NULL, "workspace is a null pointer; %llu bytes are needed",
                          (unsigned long long)self->workspace);
    aclOpExecutor *executor = self->executor;
    self->executor = NULL;
    int status = emu_phase_two(&self->kind->operator, self->workspace > 0 ? workspace : NULL, self->workspace > 0 ? size : 0, executor,
                               atb_stream(context));
    forget(self);
    return status == 0 ? ATB_NO_ERROR : atb_failed(status);
}

/* ------------------------------------------------------------------------------------------------- the class's functions */

static void end_operation(atb_operation *self) { forget(self); }

static void delete_operation(atb_operation *self) {
    forget(self);
    free(self);
}

static atb_string get_name(const atb_operation *self) { return atb_new_string(self->kind->name); }

static const atb_desc *desc_items(const atb_descs *descs) { return descs->heap != NULL ? descs->heap : descs->items; }

/* Descriptions have no memory: those of what lies on the host become arrays without elements. */
static atb_status infer_shape(const atb_operation *self, const atb_descs *ins, atb_descs *outs) {
    const emu_atb_kind *kind = self->kind;
    uint64_t present = kind->present(self->structure);
    uint32_t in_count = count_bits(present, 0, kind->ins), out_count = count_bits(present, kind->ins, kind->ins + kind->outs);
    emu_set_routine(kind->name);
    if (ins->count != in_count)
        return atb_refuse(ATB_ERROR_INVALID_IN_TENSOR_NUM, NULL, "inTensorDescs has %zu tensors; with these parameters it must have %u",
                          ins->count, in_count);
    atb_operation *scratch = calloc(1, sizeof *scratch + kind->size);
    if (scratch == NULL) return ATB_ERROR_OUT_OF_HOST_MEMORY;
    scratch->kind = kind;
    memcpy(scratch->structure, self->structure, kind->size);
    begin_set_up(scratch);
    atb_status status = ATB_NO_ERROR;
    const atb_desc *in = desc_items(ins);
    for (uint32_t slot = 0; status == ATB_NO_ERROR && slot < kind->ins; slot++) {
        if ((present >> slot & 1) == 0) continue;
        static const int64_t nothing[1];
        const atb_desc *desc = in++;
        if ((kind->on_host >> slot & 1) != 0)
            slot_value(scratch, slot)->pointer = scratch->arrays[slot] = aclCreateIntArray(nothing, 0);
        else if (desc->shape.count > 0 && desc->shape.count <= ATB_MOST_DIMS)
            status = make_tensor(scratch, slot, desc->shape.dims, desc->shape.count, desc->dtype, desc->format, NULL);
    }
    int64_t words[ATB_MOST_SLOTS * (ATB_MOST_DIMS + 3)];
    size_t count = sizeof words / sizeof *words, at = 0;
    if (status == ATB_NO_ERROR) {
        int failed = emu_infer(&kind->operator, scratch->values, words, &count);
        if (failed != 0) status = atb_failed(failed);
    }
    delete_operation(scratch);
    if (status != ATB_NO_ERROR) return status;
    atb_desc *out = outs->heap != NULL ? outs->heap : outs->items;
    for (outs->count = 0; outs->count < out_count && at + 3 <= count; outs->count++) {
        atb_desc *desc = &out[outs->count];
        *desc = (atb_desc){(int32_t)words[at], (int32_t)words[at + 1], {{0}, (uint64_t)words[at + 2]}};
        memcpy(desc->shape.dims, words + at + 3, desc->shape.count * sizeof *desc->shape.dims);
        at += 3 + desc->shape.count;
    }
    return ATB_NO_ERROR;
}

static uint32_t input_count(const atb_operation *self) { return count_bits(self->kind->present(self->structure), 0, self->kind->ins); }

static uint32_t output_count(const atb_operation *self) {
    return count_bits(self->kind->present(self->structure), self->kind->ins, self->kind->ins + self->kind->outs);
}

static atb_status setup(atb_operation *self, const atb_pack *pack, uint64_t *workspace, atb_context *context) {
    emu_set_routine(self->kind->name);
    if (context == NULL) return atb_refuse(ATB_ERROR_INVALID_PARAM, NULL, "context is a null pointer");
    atb_status status = take_pack(self, pack);
    *workspace = status == ATB_NO_ERROR ? self->workspace : 0;
    return status;
}

static atb_status execute_pack(atb_operation *self, const atb_pack *pack, uint8_t *workspace, uint64_t size, atb_context *context) {
    emu_set_routine(self->kind->name);
    bool given = pack->ins.count > 0 || pack->outs.count > 0; /* the C functions execute an operation without tensors */
    if (given && self->is_set_up) {
        atb_status status = check_counts(self, self->kind->present(self->structure), pack);
        if (status == ATB_NO_ERROR && (self->executor == NULL || !is_unmoved(self, pack))) status = take_pack(self, pack);
        if (status != ATB_NO_ERROR) return status;
    }
    return execute(self, workspace, size, context);
}

/* Offset, type information, both destructors, and the functions in the order of the class. */
static const void *const operation_functions[] = {
    NULL, NULL, (void *)end_operation, (void *)delete_operation, (void *)get_name, (void *)infer_shape, (void *)input_count,
    (void *)output_count, (void *)setup, (void *)execute_pack,
};

/* ------------------------------------------------------------------------------------------------- making and destroying */

/* What ATB checks of the parameters when an operation is made. Without a device it is checked when it is set up. */
static atb_status check_structure(const emu_atb_kind *kind, const void *structure) {
    emu_set_routine(kind->parameters.name);
    if (!kind->is_reserved_clear(structure))
        return atb_refuse(ATB_ERROR_INVALID_PARAM, NULL, "a reserved byte (rsv) is not 0: the client was compiled with other headers");
    aclrtContext current;
    if (aclrtGetCurrentContext(&current) != 0) return ATB_NO_ERROR;
    emu_value values[MOST_VALUES] = {{0}};
    kind->read(structure, values);
    uint64_t workspace;
    aclOpExecutor *executor = NULL;
    int status = emu_phase_one(&kind->parameters, values, &workspace, &executor);
    if (status != 0) return atb_failed(status);
    aclDestroyAclOpExecutor(executor);
    return ATB_NO_ERROR;
}

atb_status atb_create(const emu_atb_kind *kind, const void *structure, atb_operation **operation) {
    if (emu_enter(kind->parameters.name) != 0) return ATB_ERROR_RT_FAIL;
    if (operation == NULL) return atb_refuse(ATB_ERROR_INVALID_PARAM, NULL, "operation is a null pointer");
    atb_status status = check_structure(kind, structure);
    if (status != ATB_NO_ERROR) return status;
    atb_operation *made = calloc(1, sizeof *made + kind->size);
    if (made == NULL) return ATB_ERROR_OUT_OF_HOST_MEMORY;
    made->functions = operation_functions + 2;
    made->kind = kind;
    memcpy(made->structure, structure, kind->size);
    *operation = made;
    return ATB_NO_ERROR;
}

static atb_status check_kind(const emu_atb_kind *kind, const atb_operation *operation) {
    emu_set_routine(kind->parameters.name);
    if (operation == NULL) return atb_refuse(ATB_ERROR_INVALID_PARAM, NULL, "operation is a null pointer");
    if (operation->kind != kind) return atb_refuse(ATB_ERROR_INVALID_PARAM, NULL, "the operation is a %s", operation->kind->name);
    return ATB_NO_ERROR;
}

atb_status atb_clone(const emu_atb_kind *kind, const atb_operation *operation, void *structure) {
    atb_status status = check_kind(kind, operation);
    if (status == ATB_NO_ERROR) memcpy(structure, operation->structure, kind->size);
    return status;
}

atb_status atb_update(const emu_atb_kind *kind, atb_operation *operation, const void *structure) {
    atb_status status = check_kind(kind, operation);
    if (status == ATB_NO_ERROR) status = check_structure(kind, structure);
    if (status != ATB_NO_ERROR) return status;
    forget(operation);
    operation->is_set_up = false;
    memcpy(operation->structure, structure, kind->size);
    return ATB_NO_ERROR;
}

/* DestroyOperation(Operation *) */
API atb_status _ZN3atb16DestroyOperationEPNS_9OperationE(atb_operation *operation) {
    emu_set_routine("atb::DestroyOperation");
    if (operation == NULL) return atb_refuse(ATB_ERROR_INVALID_PARAM, NULL, "operation is a null pointer");
    delete_operation(operation);
    return ATB_NO_ERROR;
}

/* SetExecuteStreamId(Operation *, uint32_t), GetExecuteStreamId(Operation *): of operations in a graph operation, which there are
 * none of here. */
API atb_status _ZN3atb18SetExecuteStreamIdEPNS_9OperationEj(atb_operation *operation, uint32_t stream) {
    if (operation == NULL) return ATB_ERROR_INVALID_OPERATION_ADDR;
    operation->stream = stream;
    return ATB_NO_ERROR;
}

API uint32_t _ZN3atb18GetExecuteStreamIdEPNS_9OperationE(atb_operation *operation) { return operation != NULL ? operation->stream : 0; }

/* --------------------------------------------------------------------------------------------------------- C functions */

atb_status atb_prepare(const emu_atb_kind *kind, const char *routine, const void *structure, const aclTensor *const *ins,
                       const aclTensor *const *outs, uint64_t *workspace, atb_operation **operation, atb_context *context) {
    if (emu_enter(routine) != 0) return ATB_ERROR_RT_FAIL;
    if (operation == NULL || workspace == NULL)
        return atb_refuse(operation == NULL ? ATB_ERROR_INVALID_OPERATION_ADDR : ATB_ERROR_INVALID_PARAM, NULL, "%s is a null pointer",
                          operation == NULL ? "op" : "workspaceSize");
    if (context == NULL) return atb_refuse(ATB_ERROR_INVALID_PARAM, NULL, "context is a null pointer");
    atb_status status = *operation == NULL ? atb_create(kind, structure, operation) : check_kind(kind, *operation);
    if (status != ATB_NO_ERROR) return status;
    emu_set_routine(routine);
    atb_operation *self = *operation;
    uint64_t present = kind->present(self->structure);
    begin_set_up(self);
    for (uint32_t slot = 0; status == ATB_NO_ERROR && slot < kind->ins + kind->outs; slot++) {
        if ((present >> slot & 1) != 0) status = take_handle(self, slot, slot < kind->ins ? ins[slot] : outs[slot - kind->ins]);
    }
    if (status == ATB_NO_ERROR) status = set_up(self);
    if (status != ATB_NO_ERROR) forget(self);
    *workspace = status == ATB_NO_ERROR ? self->workspace : 0;
    return status;
}

atb_status atb_run(const char *routine, atb_operation *operation, void *workspace, uint64_t size, atb_context *context) {
    emu_set_routine(routine);
    if (operation == NULL) return atb_refuse(ATB_ERROR_INVALID_OPERATION_ADDR, NULL, "op is a null pointer");
    return execute(operation, workspace, size, context);
}
