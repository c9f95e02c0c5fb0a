/* Writes and waits for single values in device memory, in streams; and hints about caches. */
#include "ascendcl/memory/stream_memory.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/memory/memory.h"
#include "ascendcl/validate/validate.h"

#include <stdlib.h>

typedef struct {
    emu_task task;
    emu_device *device;
    _Atomic uint64_t *address;
    bool pinned;
    uint64_t value;
    uint32_t flag;
} value_task;

static void finish_value(emu_task *task) {
    const value_task *access = (value_task *)task;
    if (access->pinned) emu_memory_unpin(access->device, (const void *)access->address);
    free(task);
}

static int run_write(emu_task *task, emu_stream *stream) {
    (void)stream;
    const value_task *access = (value_task *)task;
    atomic_store(access->address, access->value);
    return 0;
}

static bool satisfied(uint64_t found, uint64_t value, uint32_t flag) {
    switch (flag) {
        case ACL_STREAM_WAIT_VALUE_GEQ: return (int64_t)(found - value) >= 0;
        case ACL_STREAM_WAIT_VALUE_EQ: return found == value;
        case ACL_STREAM_WAIT_VALUE_AND: return (found & value) != 0;
        default: return ~(found | value) != 0;
    }
}

static int run_wait(emu_task *task, emu_stream *stream) {
    const value_task *access = (value_task *)task;
    int status = 0;
    while (!satisfied(atomic_load(access->address), access->value, access->flag) && emu_stream_looks_again(stream, &status)) continue;
    return status;
}

static void validate_value(const value_task *access, uint32_t timeline) {
    const void *address = (const void *)access->address;
    emu_validate_written(address, sizeof(uint64_t));
    if (access->task.run == run_wait) emu_value_waited(timeline, address, satisfied, access->value, access->flag);
    else emu_value_written(timeline, address, access->value);
}

static void order_value(const emu_task *task, const emu_captured *captured, uint32_t timeline) {
    (void)captured;
    validate_value((const value_task *)task, timeline);
}

static void describe_value(emu_task *task, emu_captured *captured) {
    value_task *access = (value_task *)task;
    emu_captured_use(captured, access->device, (const void *)access->address, sizeof(uint64_t), "devAddr");
    emu_memory_unpin(access->device, (const void *)access->address);
    access->pinned = false;
    captured->order = order_value;
    captured->type = task->run == run_wait ? ACL_MODEL_RI_TASK_VALUE_WAIT : ACL_MODEL_RI_TASK_VALUE_WRITE;
}

int emu_value_check(const void *address, uint32_t flag) {
    if (address == NULL) return emu_null_argument("devAddr");
    if ((uintptr_t)address % sizeof(uint64_t) != 0)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_UNALIGNED_ADDRESS", "devAddr (%p) is not 8-byte aligned", address);
    if (flag > ACL_STREAM_WAIT_VALUE_NOR) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "flag is %u; allowed: 0 to 3", flag);
    return 0;
}

emu_value_access emu_value_read(const emu_task *task) {
    const value_task *access = (const value_task *)task;
    return (emu_value_access){(void *)access->address, access->value, access->flag};
}

void emu_value_change(emu_task *task, const emu_value_access *what) {
    value_task *access = (value_task *)task;
    access->address = what->address;
    access->value = what->value;
    access->flag = what->flag;
}

static int queue_value(void *address, uint64_t value, uint32_t flag, aclrtStream handle, int (*run)(emu_task *, emu_stream *)) {
    EMU_HELD emu_stream *stream = NULL;
    int status = emu_value_check(address, flag);
    if (status == 0) status = emu_stream_acquire(handle, &stream);
    if (status != 0) return status;
    emu_device *device = emu_stream_device(stream);
    status = emu_memory_pin(device, address, sizeof(uint64_t), "devAddr");
    if (status != 0) return status;
    value_task *access = calloc(1, sizeof *access);
    if (access == NULL) abort();
    access->task = (emu_task){.run = run, .slow = run == run_wait, .finish = finish_value, .describe = describe_value, .routine = emu_routine()};
    access->device = device;
    access->address = address;
    access->pinned = true;
    access->value = value;
    access->flag = flag;
    if (emu_validates() && emu_stream_runs(stream)) validate_value(access, stream->timeline);
    return emu_stream_enqueue(stream, &access->task);
}

API aclError aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
    ENTER("aclrtValueWrite");
    if (flag != 0) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "flag is %u; allowed: 0", flag);
    return queue_value(devAddr, value, flag, stream, run_write);
}

API aclError aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
    ENTER("aclrtValueWait");
    return queue_value(devAddr, value, flag, stream, run_wait);
}

/* A hint: there is no cache to fill. */
API aclError aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType, aclrtStream handle) {
    ENTER("aclrtCmoAsync");
    EMU_HELD emu_stream *stream = NULL;
    if (src == NULL) return emu_null_argument("src");
    if (size == 0 || cmoType != ACL_RT_CMO_TYPE_PREFETCH)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "size is %zu and cmoType %d; size must be greater than 0 and cmoType 0", size, (int)cmoType);
    int status = emu_stream_acquire(handle, &stream);
    if (status != 0) return status;
    emu_device *device = emu_stream_device(stream);
    status = emu_memory_pin(device, src, size, "src");
    if (status == 0) emu_memory_unpin(device, src);
    return status;
}
