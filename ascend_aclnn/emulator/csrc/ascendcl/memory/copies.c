/* Copies and fills, synchronous and in streams. */
#include "ascendcl/core/activity.h"
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/settings.h"
#include "ascendcl/memory/host_mapping.h"
#include "ascendcl/memory/host_memory.h"
#include "ascendcl/memory/memory.h"
#include "ascendcl/memory/peers.h"
#include "ascendcl/stream/stream.h"
#include "ascendcl/validate/call_site.h"
#include "ascendcl/validate/host_watch.h"
#include "ascendcl/validate/validate.h"
#include "protocol.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    emu_task task;
    uint8_t *dst;
    const uint8_t *src;
    size_t dpitch, spitch, width, height;
    int value;                              /* of a memset, whose src is NULL */
    emu_device *dst_device, *src_device;
    bool dst_host_pinned, src_host_pinned;
    bool dst_on_host, src_on_host;          /* of a captured copy: in pinned memory, which is looked for each time */
    uint8_t staged[];                       /* a copy of the source's bytes, when its owner may change them at once */
} copy_task;

/* Of pinned memory, whose pages may be closed (--validate=host). */
static void fill_host(uint8_t *dst, int value, size_t size) {
    uint8_t bytes[4096];
    memset(bytes, value, sizeof bytes);
    for (size_t at = 0; at < size; at += sizeof bytes) emu_watch_write(dst + at, bytes, size - at < sizeof bytes ? size - at : sizeof bytes);
}

static void copy_now(const copy_task *copy) {
    for (size_t row = 0; row < copy->height; row++) {
        uint8_t *dst = copy->dst + row * copy->dpitch;
        const uint8_t *src = copy->src != NULL ? copy->src + row * copy->spitch : NULL;
        bool to_host = copy->dst_host_pinned || copy->dst_on_host;
        if (src == NULL && to_host) fill_host(dst, copy->value, copy->width);
        else if (src == NULL) memset(dst, copy->value, copy->width);
        else if (to_host) emu_watch_write(dst, src, copy->width);
        else if (copy->src_host_pinned || copy->src_on_host) emu_watch_read(dst, src, copy->width);
        else memmove(dst, src, copy->width);
    }
}

static int run_copy(emu_task *task, emu_stream *stream) {
    (void)stream;
    copy_now((copy_task *)task);
    return 0;
}

static void unpin(copy_task *copy) {
    if (copy->dst_device != NULL) emu_memory_unpin(copy->dst_device, copy->dst);
    if (copy->src_device != NULL) emu_memory_unpin(copy->src_device, copy->src);
    if (copy->dst_host_pinned) emu_host_unpin(copy->dst);
    if (copy->src_host_pinned) emu_host_unpin(copy->src);
    copy->dst_device = copy->src_device = NULL;
    copy->dst_host_pinned = copy->src_host_pinned = false;
}

static void finish_copy(emu_task *task) {
    unpin((copy_task *)task);
    free(task);
}

/* Bytes from the first to the last one of some rows; false when they exceed any memory. */
static bool extent(size_t pitch, size_t width, size_t height, uint64_t *bytes) {
    uint64_t rows;
    return !__builtin_mul_overflow((uint64_t)height - 1, (uint64_t)pitch, &rows) &&
           !__builtin_add_overflow(rows, (uint64_t)width, bytes);
}

/* Pinned host memory that a captured copy uses must still be there. */
static int run_captured(emu_task *task, emu_stream *stream) {
    const copy_task *copy = (copy_task *)task;
    const void *sides[] = {copy->dst_on_host ? copy->dst : NULL, copy->src_on_host ? copy->src : NULL};
    for (int i = 0; i < 2; i++) {
        uint64_t bytes = 0;
        if (sides[i] == NULL) continue;
        extent(i == 0 ? copy->dpitch : copy->spitch, copy->width, copy->height, &bytes);
        if (!emu_host_has(sides[i], bytes))
            return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_USE_AFTER_FREE",
                            "%s of the captured copy (%p, %llu bytes of host memory) has been freed since it was captured",
                            i == 0 ? "dst" : "src", sides[i], (unsigned long long)bytes);
    }
    return run_copy(task, stream);
}

static size_t list_accesses(const copy_task *copy, const char *dst, emu_access *accesses);

/* Pinned memory that a queued copy writes, where its pages hold nothing else, and have no second address. */
static void watch_target(uint32_t timeline, const char *routine, uint32_t site, const emu_access *target) {
    uint64_t start, size;
    if ((emu_config()->validate & VALIDATE_HOST) == 0 || !emu_host_allocation(target->address, &start, &size) || emu_host_mapped(target->address) != NULL) return;
    emu_validate_target(timeline, routine, site, target, start, start + emu_whole_pages(size));
}

static void watch_host(const copy_task *copy, uint32_t timeline, uint32_t site, const emu_access *accesses, size_t count) {
    if (copy->src_host_pinned || copy->src_on_host) emu_validate_source(timeline, copy->task.routine, site, accesses);
    if ((copy->dst_host_pinned || copy->dst_on_host) && timeline != EMU_HOST_TIMELINE) watch_target(timeline, copy->task.routine, site, &accesses[count - 1]);
}

static void order_copy(const emu_task *task, const emu_captured *captured, uint32_t timeline) {
    watch_host((const copy_task *)task, timeline, captured->site, captured->accesses, captured->access_count);
}

static void describe_copy(emu_task *task, emu_captured *captured) {
    copy_task *copy = (copy_task *)task;
    uint64_t bytes = 0;
    emu_device *device = copy->dst_device;
    if (device != NULL) {
        extent(copy->dpitch, copy->width, copy->height, &bytes);
        emu_captured_use(captured, device, copy->dst, bytes, "dst");
    }
    if (copy->src_device != NULL) {
        extent(copy->spitch, copy->width, copy->height, &bytes);
        emu_captured_use(captured, copy->src_device, copy->src, bytes, "src");
    }
    if (!emu_config()->noop && device != NULL && copy->height == 1) {
        uint64_t offset = emu_memory_offset(device, copy->dst);
        if (copy->src == NULL)
            emu_captured_step(captured, (uint64_t[]){STEP_FILL, offset, copy->width, (uint64_t)(uint8_t)copy->value}, 4);
        else if (copy->src_device == device)
            emu_captured_step(captured, (uint64_t[]){STEP_COPY, offset, copy->width, emu_memory_offset(device, copy->src)}, 4);
    }
    if (emu_validates()) {
        captured->accesses = calloc(2, sizeof *captured->accesses);
        if (captured->accesses == NULL) abort();
        captured->access_count = list_accesses(copy, copy->src == NULL ? "devPtr" : "dst", captured->accesses);
        captured->site = emu_call_site();
        if (copy->src_host_pinned || copy->dst_host_pinned) captured->order = order_copy;
    }
    copy->dst_on_host = copy->dst_host_pinned;
    copy->src_on_host = copy->src_host_pinned;
    unpin(copy);
    task->run = run_captured;
}

/* A range must not reach beyond the address space. */
static int check_range(const void *address, size_t pitch, size_t width, size_t height, const char *what) {
    uint64_t bytes, end;
    if (extent(pitch, width, height, &bytes) && !__builtin_add_overflow((uint64_t)(uintptr_t)address, bytes, &end)) return 0;
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_OUT_OF_BOUNDS",
                    "%s: %zu rows of %zu bytes, %zu apart, from %p on are beyond any memory", what, height, width, pitch, address);
}

/* What a kind says of destination and source: device (1), host (0), or decided by the address (-1). */
static int kind_of(aclrtMemcpyKind kind, bool destination) {
    switch (kind) {
        case ACL_MEMCPY_HOST_TO_HOST: return 0;
        case ACL_MEMCPY_HOST_TO_DEVICE: case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE: return destination;
        case ACL_MEMCPY_DEVICE_TO_HOST: return !destination;
        case ACL_MEMCPY_DEVICE_TO_DEVICE: case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE: case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE:
            return 1;
        default: return -1;
    }
}

static int check_direction(const void *address, aclrtMemcpyKind kind, bool destination) {
    int wanted = kind_of(kind, destination);
    bool device = emu_memory_device(address) != NULL;
    if (wanted < 0 || wanted == (int)device) return 0;
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_COPY_DIRECTION", "kind %d, but %s (%p) is %s memory", (int)kind,
                    destination ? "dst" : "src", address, device ? "device" : "host");
}

static int check_peers(const emu_device *dst, const emu_device *src) {
    if (dst == NULL || src == NULL || dst == src || emu_peers_reach(dst, src)) return 0;
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_WRONG_CONTEXT",
                    "a copy between device %d and device %d needs aclrtDeviceEnablePeerAccess first", src->id, dst->id);
}

typedef struct {
    void *dst;
    const void *src;
    size_t dpitch, spitch, width, height;
    aclrtMemcpyKind kind;
} copy_request;

static int check_copy(const copy_request *request) {
    emu_context *context;
    if (request->dst == NULL || request->src == NULL)
        return emu_null_argument(request->dst == NULL ? "dst" : "src");
    if (request->width > request->dpitch || (request->height > 1 && request->width > request->spitch))
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "%zu bytes do not fit into %zu", request->width, request->dpitch);
    int status = emu_current_context(&context);
    if (status == 0 && request->height > 0) status = check_range(request->dst, request->dpitch, request->width, request->height, "dst");
    if (status == 0 && request->height > 0) status = check_range(request->src, request->spitch, request->width, request->height, "src");
    if (status == 0) status = check_direction(request->dst, request->kind, true);
    if (status == 0) status = check_direction(request->src, request->kind, false);
    return status;
}

/* Device memory stays while a task uses it. What a lost device holds is neither read nor written. */
static int pin(emu_device *device, const void *address, uint64_t bytes, const char *what) {
    int status = emu_link_check(device);
    return status != 0 ? status : emu_memory_pin(device, address, bytes, what);
}

/* A task for a copy, with its device memory pinned; NULL with *status set on an error. */
static copy_task *make_copy(const copy_request *request, size_t staged, int *status) {
    copy_task *copy = staged < SIZE_MAX - sizeof *copy ? calloc(1, sizeof *copy + staged) : NULL;
    if (copy == NULL) {
        *status = emu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EMULATOR_OUT_OF_MEMORY", "no host memory");
        return NULL;
    }
    emu_device *dst = emu_memory_device(request->dst), *src = emu_memory_device(request->src);
    copy->dst = request->dst;
    copy->src = request->src;
    copy->dpitch = request->dpitch;
    copy->spitch = request->spitch;
    copy->width = request->width;
    copy->height = request->height;
    copy->task.run = run_copy;
    copy->task.finish = finish_copy;
    copy->task.describe = describe_copy;
    copy->task.routine = emu_routine();
    uint64_t bytes = 0;
    *status = check_peers(dst, src);
    if (*status == 0 && dst != NULL) {
        extent(copy->dpitch, copy->width, copy->height, &bytes);
        *status = pin(dst, copy->dst, bytes, "dst");
        if (*status == 0) copy->dst_device = dst;
    }
    if (*status == 0 && src != NULL) {
        extent(copy->spitch, copy->width, copy->height, &bytes);
        *status = pin(src, copy->src, bytes, "src");
        if (*status == 0) copy->src_device = src;
    }
    if (*status == 0) return copy;
    finish_copy(&copy->task);
    return NULL;
}

/* Whose bytes are compared: device memory, and pinned host memory. */
static size_t list_accesses(const copy_task *copy, const char *dst, emu_access *accesses) {
    size_t count = 0;
    bool dst_known = copy->dst_device != NULL || emu_host_pin(copy->dst, 0), src_known = copy->src_device != NULL || (copy->src != NULL && emu_host_pin(copy->src, 0));
    emu_moves moves = copy->dst_device != NULL ? MOVES_IN_ORDER : MOVES_NOTHING; /* the host uses what it gets */
    if (src_known) accesses[count++] = (emu_access){ACCESS_READ, copy->src, copy->width, copy->height, copy->spitch, "src", -1, moves, false, false};
    if (dst_known) accesses[count++] = (emu_access){ACCESS_WRITE, copy->dst, copy->width, copy->height, copy->dpitch, dst, -1, moves, false, false};
    return count;
}

static void validate_copy(uint32_t timeline, const copy_task *copy, const char *dst) {
    emu_access accesses[2];
    size_t count = list_accesses(copy, dst, accesses);
    if (copy->dst_device == NULL && emu_is_uncounted()) { /* it gets what a launch would get, and is no access */
        for (size_t row = 0; row < copy->height; row++) emu_validate_poison(copy->src + row * copy->spitch, copy->width);
        return;
    }
    emu_validate_task(timeline, emu_routine(), emu_call_site(), accesses, count);
    watch_host(copy, timeline, emu_call_site(), accesses, count);
}

static int enqueue_copy(emu_stream *stream, copy_task *copy, const char *dst) {
    if (emu_validates() && emu_stream_runs(stream)) validate_copy(stream->timeline, copy, dst);
    return emu_stream_enqueue(stream, &copy->task);
}

static void do_now(copy_task *copy, const char *dst) {
    if (emu_validates()) validate_copy(EMU_HOST_TIMELINE, copy, dst);
    copy_now(copy);
    finish_copy(&copy->task);
}

/* What waits for its copy may not run while a stream is captured, depending on the modes. */
static int check_mode(int status) {
    emu_context *context;
    int failed = emu_current_context(&context);
    return failed != 0 ? failed : emu_check_uncaptured(context, status);
}

static int copy_sync(const copy_request *request) {
    int status = check_copy(request);
    if (status == 0) status = check_mode(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
    if (status != 0 || request->width == 0 || request->height == 0) return status;
    copy_task *copy = make_copy(request, 0, &status);
    if (copy == NULL) return status;
    do_now(copy, "dst");
    return 0;
}

/* A copy between pageable memory and the device is a synchronous one in CANN, too. */
static int check_pageable(emu_stream *stream) {
    if (stream->capture != NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL,
                        "a copy of pageable host memory cannot be captured (stream %d); use memory of aclrtMallocHost", stream->id);
    /* Older releases have no status of its own for it. */
    return check_mode(emu_claims(9, 0) ? ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC : ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
}

static int copy_async(const copy_request *request, aclrtStream handle) {
    EMU_HELD emu_stream *stream = NULL;
    int status = check_copy(request);
    if (status == 0) status = emu_stream_acquire(handle, &stream);
    if (status != 0 || request->width == 0 || request->height == 0) return status;
    bool dst_host = emu_memory_device(request->dst) == NULL, src_host = emu_memory_device(request->src) == NULL;
    if (dst_host && src_host) return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "host to host copies cannot be asynchronous");
    /* A pageable source is read before this returns, and so is one that the caller may free at once (kind 5). */
    bool src_pinned = src_host && request->kind != ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE && emu_host_pin(request->src, 1);
    bool stage = src_host && !src_pinned;
    bool pageable = (stage && request->kind != ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE) || (dst_host && !emu_host_pin(request->dst, 0));
    if (pageable) status = check_pageable(stream);
    if (status != 0) return status;
    size_t staged = 0;
    if (stage && __builtin_mul_overflow(request->width, request->height, &staged)) staged = SIZE_MAX;
    copy_task *copy = make_copy(request, staged, &status);
    if (copy == NULL) {
        if (src_pinned) emu_host_unpin(request->src);
        return status;
    }
    copy->src_host_pinned = src_pinned;
    copy->dst_host_pinned = dst_host && emu_host_pin(request->dst, 1);
    bool wait = dst_host && !copy->dst_host_pinned; /* a pageable destination is written before this returns */
    if (stage) {
        for (size_t row = 0; row < copy->height; row++)
            memcpy(copy->staged + row * copy->width, copy->src + row * copy->spitch, copy->width);
        copy->src = copy->staged;
        copy->spitch = copy->width;
    }
    status = enqueue_copy(stream, copy, "dst");
    return status == 0 && wait ? emu_stream_wait(stream, -1) : status;
}

/* Makes a call, reports it to observers, and returns its status. */
#define NOTED(kind, bytes, detail, call)                                                                 \
    uint64_t correlation_ = emu_activity_begin(kind, emu_routine(), bytes, (uint64_t)(detail), NULL);    \
    int noted_ = call;                                                                                   \
    emu_activity_end(correlation_, noted_);                                                              \
    return noted_

API aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind) {
    ENTER("aclrtMemcpy");
    NOTED(ACTIVITY_COPY, count, kind, copy_sync(&(copy_request){dst, src, destMax, count, count, 1, kind}));
}

API aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                              aclrtStream stream) {
    ENTER("aclrtMemcpyAsync");
    NOTED(ACTIVITY_COPY, count, kind, copy_async(&(copy_request){dst, src, destMax, count, count, 1, kind}, stream));
}

API aclError aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                                           aclrtStream stream) {
    ENTER("aclrtMemcpyAsyncWithCondition");
    return copy_async(&(copy_request){dst, src, destMax, count, count, 1, kind}, stream);
}

/* A batch of copies, one after the other. *fail_index is the one that failed, SIZE_MAX when the arguments themselves were
 * wrong. */
static int copy_batch(void **dsts, const size_t *rooms, void **srcs, const size_t *sizes, size_t count, const aclrtMemcpyBatchAttr *attrs,
                      const size_t *attr_indexes, size_t attr_count, size_t *fail_index, bool async, aclrtStream stream) {
    if (fail_index != NULL) *fail_index = SIZE_MAX;
    if (dsts == NULL || rooms == NULL || srcs == NULL || sizes == NULL || attrs == NULL || attr_indexes == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "an array is a null pointer");
    if (count == 0 || attr_count == 0 || attr_count > count || attr_indexes[0] != 0)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "%zu copies with %zu attributes; there must be some of both, and the first attribute is for the first copy", count,
                        attr_count);
    for (size_t i = 0, attr = 0; i < count; i++) {
        while (attr + 1 < attr_count && attr_indexes[attr + 1] <= i) attr++;
        bool to_device = attrs[attr].dstLoc.type == ACL_MEM_LOCATION_TYPE_DEVICE, from_device = attrs[attr].srcLoc.type == ACL_MEM_LOCATION_TYPE_DEVICE;
        int status = to_device == from_device
                         ? emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_COPY_DIRECTION", "copy %zu is not between host and device", i)
                         : 0;
        copy_request request = {dsts[i], srcs[i], rooms[i], sizes[i], sizes[i], 1, to_device ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_DEVICE_TO_HOST};
        if (status == 0) status = async ? copy_async(&request, stream) : copy_sync(&request);
        if (status == 0) continue;
        if (fail_index != NULL) *fail_index = i;
        return status;
    }
    return 0;
}

API aclError aclrtMemcpyBatch(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches, aclrtMemcpyBatchAttr *attrs,
                              size_t *attrsIndexes, size_t numAttrs, size_t *failIndex) {
    ENTER("aclrtMemcpyBatch");
    return copy_batch(dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, failIndex, false, NULL);
}

API aclError aclrtMemcpyBatchAsync(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches, aclrtMemcpyBatchAttr *attrs,
                                   size_t *attrsIndexes, size_t numAttrs, size_t *failIndex, aclrtStream stream) {
    ENTER("aclrtMemcpyBatchAsync");
    return copy_batch(dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, failIndex, true, stream);
}

API aclError aclrtMemcpyBatchV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches, aclrtMemcpyBatchAttr *attrs,
                                size_t *attrsIndexes, size_t numAttrs) {
    ENTER("aclrtMemcpyBatchV2");
    return copy_batch(dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, NULL, false, NULL);
}

API aclError aclrtMemcpyBatchAsyncV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes, size_t numBatches, aclrtMemcpyBatchAttr *attrs,
                                     size_t *attrsIndexes, size_t numAttrs, aclrtStream stream) {
    ENTER("aclrtMemcpyBatchAsyncV2");
    return copy_batch(dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs, NULL, true, stream);
}

static int check_2d(aclrtMemcpyKind kind) {
    if (kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEFAULT) return 0;
    return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "kind is %d; two-dimensional copies go between host and device",
                    (int)kind);
}

API aclError aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                           aclrtMemcpyKind kind) {
    ENTER("aclrtMemcpy2d");
    int status = check_2d(kind);
    return status != 0 ? status : copy_sync(&(copy_request){dst, src, dpitch, spitch, width, height, kind});
}

API aclError aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
                                aclrtMemcpyKind kind, aclrtStream stream) {
    ENTER("aclrtMemcpy2dAsync");
    int status = check_2d(kind);
    return status != 0 ? status : copy_async(&(copy_request){dst, src, dpitch, spitch, width, height, kind}, stream);
}

static copy_task *make_set(void *address, size_t room, int value, size_t count, int *status) {
    emu_context *context;
    *status = emu_current_context(&context);
    if (*status != 0) return NULL;
    if (address == NULL || count > room) {
        *status = address == NULL ? emu_null_argument("devPtr")
                                  : emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "%zu bytes do not fit into %zu", count, room);
        return NULL;
    }
    emu_device *device = emu_memory_device(address);
    if (device == NULL && emu_host_pin(address, 0) && !emu_host_has(address, count)) {
        *status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_OUT_OF_BOUNDS",
                           "devPtr needs %zu bytes from %p on, more than are left of its allocation", count, address);
        return NULL;
    }
    bool pinned = device == NULL && emu_host_pin(address, 1);
    if (device == NULL && !pinned) {
        *status = emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS",
                           "devPtr (%p) is neither device memory nor pinned host memory", address);
        return NULL;
    }
    if (device != NULL) *status = pin(device, address, count, "devPtr");
    copy_task *set = *status == 0 ? calloc(1, sizeof *set) : NULL;
    if (set == NULL) {
        if (*status == 0 && device != NULL) emu_memory_unpin(device, address);
        if (pinned) emu_host_unpin(address);
        if (*status == 0) *status = emu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EMULATOR_OUT_OF_MEMORY", "no host memory");
        return NULL;
    }
    set->task = (emu_task){.run = run_copy, .finish = finish_copy, .describe = describe_copy, .routine = emu_routine()};
    set->dst = address;
    set->dst_device = device;
    set->dst_host_pinned = pinned;
    set->value = value;
    set->width = count;
    set->height = 1;
    return set;
}

static int set_sync(void *address, size_t room, int32_t value, size_t bytes) {
    int status = check_mode(ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
    if (status != 0) return status;
    copy_task *set = make_set(address, room, value, bytes, &status);
    if (set == NULL) return status;
    do_now(set, "devPtr");
    return 0;
}

static int set_async(void *address, size_t room, int32_t value, size_t bytes, aclrtStream handle) {
    EMU_HELD emu_stream *stream = NULL;
    int status = emu_stream_acquire(handle, &stream);
    if (status != 0) return status;
    copy_task *set = make_set(address, room, value, bytes, &status);
    return set != NULL ? enqueue_copy(stream, set, "devPtr") : status;
}

API aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count) {
    ENTER("aclrtMemset");
    NOTED(ACTIVITY_SET, count, (uint32_t)value, set_sync(devPtr, maxCount, value, count));
}

API aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
    ENTER("aclrtMemsetAsync");
    NOTED(ACTIVITY_SET, count, (uint32_t)value, set_async(devPtr, maxCount, value, count, stream));
}

/* Device memory is coherent here: nothing to do. */
static int check_coherent(void *address, size_t size) {
    emu_device *device = emu_memory_device(address);
    if (device == NULL)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_INVALID_ADDRESS", "%p is not device memory", address);
    int status = emu_memory_check(device, address, size, "devPtr", 0);
    return status != 0 ? status : emu_link_check(device);
}

API aclError aclrtMemFlush(void *devPtr, size_t size) {
    ENTER("aclrtMemFlush");
    return check_coherent(devPtr, size);
}

API aclError aclrtMemInvalidate(void *devPtr, size_t size) {
    ENTER("aclrtMemInvalidate");
    return check_coherent(devPtr, size);
}
