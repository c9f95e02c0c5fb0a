/* Notifies: marks between streams that a wait takes back. */
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/device_connection.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/stream/stream.h"
#include "ascendcl/validate/validate.h"

#include <stdlib.h>

typedef struct {
    emu_object base;
    emu_device *device;
    uint32_t id;
    _Atomic bool set;
    /* of --validate, as calls come: */
    emu_clock *_Atomic clock; /* what has passed with the record that no wait has taken back; NULL: there is none */
    _Atomic uint32_t owed;    /* records that earlier waits take back */
} emu_notify;

static _Atomic uint32_t notify_ids;

/* Each of CANN's functions answers a null pointer so. */
static int null_notify(const char *name) { return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "%s is a null pointer", name); }

static void free_notify(void *object) {
    emu_notify *notify = object;
    free(notify->clock);
    free(notify);
}

static int acquire_notify(aclrtNotify handle, emu_notify **notify) {
    emu_context *context;
    if (handle == NULL) return null_notify("notify");
    int status = emu_current_context(&context);
    if (status == 0) *notify = emu_object_acquire(handle, KIND_NOTIFY, &status);
    return status;
}

API aclError aclrtCreateNotify(aclrtNotify *notify, uint64_t flag) {
    ENTER("aclrtCreateNotify");
    emu_context *context;
    if (notify == NULL) return null_notify("notify");
    if (flag > ACL_NOTIFY_DEVICE_USE_ONLY)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "flag is %#llx; allowed: 0 (ACL_NOTIFY_DEFAULT) and 1 (ACL_NOTIFY_DEVICE_USE_ONLY)",
                        (unsigned long long)flag);
    int status = emu_current_context(&context);
    if (status == 0) status = emu_link_check(context->device);
    if (status != 0) return status;
    emu_notify *created = calloc(1, sizeof *created);
    if (created == NULL) abort();
    created->device = context->device;
    created->id = notify_ids++;
    void *handle = emu_object_new(KIND_NOTIFY, created, free_notify);
    if (handle == NULL) return ACL_ERROR_RT_NO_NOTIFY_RESOURCE;
    *notify = handle;
    return 0;
}

API aclError aclrtDestroyNotify(aclrtNotify notify) {
    ENTER_RELEASE("aclrtDestroyNotify");
    int status = notify == NULL ? null_notify("notify") : 0;
    if (status == 0) emu_object_release(emu_object_destroy(notify, KIND_NOTIFY, &status));
    LEAVE(status);
}

API aclError aclrtGetNotifyId(aclrtNotify handle, uint32_t *notifyId) {
    ENTER("aclrtGetNotifyId");
    EMU_HELD emu_notify *notify = NULL;
    if (notifyId == NULL) return null_notify("notifyId");
    int status = acquire_notify(handle, &notify);
    if (status == 0) *notifyId = notify->id;
    return status;
}

API aclError aclrtNotifyBatchReset(aclrtNotify *notifies, size_t num) {
    ENTER("aclrtNotifyBatchReset");
    if (notifies == NULL || num == 0)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "notifies is %p and num %zu; there must be at least one", (void *)notifies, num);
    for (size_t i = 0; i < num; i++) {
        EMU_HELD emu_notify *notify = NULL;
        int status = acquire_notify(notifies[i], &notify);
        if (status == 0) status = emu_link_check(notify->device);
        if (status != 0) return status;
        notify->set = false;
        free(atomic_exchange(&notify->clock, NULL));
    }
    return 0;
}

typedef struct {
    emu_task task;
    emu_notify *notify; /* a reference */
    uint64_t serial;    /* its handle's number: a destroyed notify fails */
    uint32_t timeout;   /* seconds, 0: none */
} notify_task;

static void finish_notify(emu_task *task) {
    emu_object_release(((notify_task *)task)->notify);
    free(task);
}

static int check_alive(const notify_task *item) {
    void *handle = item->notify->base.handle;
    if (item->serial != 0 && emu_handle_serial(handle) == item->serial) return 0;
    return emu_fail(ACL_ERROR_RT_INVALID_HANDLE, "EMULATOR_USE_AFTER_DESTROY", "the notify %p of queued work has been destroyed", handle);
}

static int run_record(emu_task *task, emu_stream *stream) {
    (void)stream;
    notify_task *item = (notify_task *)task;
    int status = check_alive(item);
    if (status == 0) item->notify->set = true;
    return status;
}

static int run_wait(emu_task *task, emu_stream *stream) {
    notify_task *item = (notify_task *)task;
    uint64_t end = emu_now() + item->timeout * 1000000000ull;
    int status = 0;
    while (!atomic_exchange(&item->notify->set, false)) {
        status = check_alive(item);
        if (status != 0) break;
        if (item->timeout > 0 && emu_now() >= end)
            return emu_fail(ACL_ERROR_RT_TASK_TIMEOUT, NULL, "notify %u has not been recorded for %u s", item->notify->id, item->timeout);
        if (!emu_stream_looks_again(stream, &status)) break;
    }
    return status;
}

/* What a wait waits for that is queued before its record is not known. */
static void validate_notify(const notify_task *item, uint32_t timeline) {
    emu_notify *notify = item->notify;
    bool waits = item->task.run == run_wait;
    emu_clock *clock = NULL;
    if (!waits && notify->owed > 0) notify->owed--;
    else clock = atomic_exchange(&notify->clock, waits ? NULL : emu_clock_of(timeline));
    if (waits) emu_timeline_waits(timeline, clock);
    if (waits && clock == NULL) notify->owed++;
    free(clock);
}

static void order_notify(const emu_task *task, const emu_captured *captured, uint32_t timeline) {
    (void)captured;
    validate_notify((const notify_task *)task, timeline);
}

static void describe_notify(emu_task *task, emu_captured *captured) {
    (void)task;
    captured->order = order_notify;
}

static int queue_notify(aclrtNotify handle, aclrtStream stream_handle, uint32_t timeout, int (*run)(emu_task *, emu_stream *)) {
    EMU_HELD emu_notify *notify = NULL;
    EMU_HELD emu_stream *stream = NULL;
    int status = acquire_notify(handle, &notify);
    if (status == 0) status = emu_stream_acquire(stream_handle, &stream);
    if (status != 0) return status;
    if (notify->device != stream->device)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_WRONG_CONTEXT", "the notify is of device %d, the stream of device %d", notify->device->id,
                        stream->device->id);
    notify_task *item = calloc(1, sizeof *item);
    if (item == NULL) abort();
    item->task = (emu_task){.run = run, .slow = run == run_wait, .finish = finish_notify, .describe = describe_notify, .routine = emu_routine()};
    item->notify = notify;
    emu_object_hold(notify);
    item->serial = emu_handle_serial(handle);
    item->timeout = timeout;
    if (emu_validates() && emu_stream_runs(stream)) validate_notify(item, stream->timeline);
    return emu_stream_enqueue(stream, &item->task);
}

API aclError aclrtRecordNotify(aclrtNotify notify, aclrtStream stream) {
    ENTER("aclrtRecordNotify");
    return queue_notify(notify, stream, 0, run_record);
}

API aclError aclrtWaitAndResetNotify(aclrtNotify notify, aclrtStream stream, uint32_t timeout) {
    ENTER("aclrtWaitAndResetNotify");
    return queue_notify(notify, stream, timeout, run_wait);
}
