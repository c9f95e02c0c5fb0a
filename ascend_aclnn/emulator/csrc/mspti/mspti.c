/*
 * MSPTI: activities of the emulated device for profilers in the process. Records wait here, in the order of their end, until
 * msptiActivityFlushAll, or the thread of msptiActivityFlushPeriod, hands them over in the subscriber's buffers.
 */
#include "ascendcl/core/activity.h"
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/clock.h"
#include "ascendcl/core/messages.h"

#include "acl/acl_rt.h"
#include "hccl/hccl_types.h"
#include "mspti.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXTERNAL_KINDS MSPTI_EXTERNAL_CORRELATION_KIND_SIZE
#define DEPTH 1024

typedef union {
    msptiActivity any;
    msptiActivityMarker marker;
    msptiActivityApi api;
    msptiActivityKernel kernel;
    msptiActivityHccl hccl;
    msptiActivityCommunication communication;
    msptiActivityMemset set;
    msptiActivityMemcpy copy;
    msptiActivityExternalCorrelation external;
} record;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool enabled[MSPTI_ACTIVITY_KIND_COUNT];
static msptiBuffersCallbackRequestFunc request_buffer;
static msptiBuffersCallbackCompleteFunc complete_buffer;
static struct msptiSubscriber_st {
    bool used;
} subscriber;
static record *records;
static size_t count, room;
static int64_t offset; /* from emu_now to the time of day */
static _Atomic uint32_t period;
static bool periodic;

/* Names that records point to: they stay. */
static struct name {
    struct name *next;
    char text[];
} *names;

static _Thread_local struct {
    uint64_t ids[DEPTH];
    uint32_t depth;
} external[EXTERNAL_KINDS];

static uint64_t day(uint64_t time) { return (uint64_t)((int64_t)time + offset); }

/* The lock is held. */
static const char *keep_name(const char *text) {
    if (text == NULL || *text == 0) return NULL;
    for (struct name *name = names; name != NULL; name = name->next) {
        if (strcmp(name->text, text) == 0) return name->text;
    }
    struct name *name = malloc(sizeof *name + strlen(text) + 1);
    if (name == NULL) abort();
    strcpy(name->text, text);
    name->next = names;
    names = name;
    return name->text;
}

/* The lock is held. */
static void add(record one) {
    if (count == room) {
        room = room > 0 ? 2 * room : 256;
        records = realloc(records, room * sizeof *records);
        if (records == NULL) abort();
    }
    records[count++] = one;
}

static void add_api(msptiActivityKind kind, uint64_t correlation, const emu_activity_call *call) {
    if (!enabled[kind]) return;
    add((record){.api = {kind, day(call->begin), day(call->end), {(uint32_t)getpid(), call->thread}, correlation, call->name}});
}

static void called(uint64_t correlation, const emu_activity_call *call) {
    pthread_mutex_lock(&lock);
    if (enabled[MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION]) {
        for (int kind = 1; kind < EXTERNAL_KINDS; kind++) {
            uint32_t depth = external[kind].depth;
            if (depth == 0 || depth > DEPTH) continue;
            add((record){.external = {MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, (msptiExternalCorrelationKind)kind,
                                      external[kind].ids[depth - 1], correlation}});
        }
    }
    add_api(MSPTI_ACTIVITY_KIND_API, correlation, call);
    add_api(MSPTI_ACTIVITY_KIND_ACL_API, correlation, call);
    if (call->kind == ACTIVITY_KERNEL) add_api(MSPTI_ACTIVITY_KIND_NODE_API, correlation, call);
    pthread_mutex_unlock(&lock);
}

/* HcclDataType counts as MSPTI does, as far as MSPTI knows its types. */
static msptiCommunicationDataType communication_type(uint64_t type) {
    return type <= MSPTI_ACTIVITY_COMMUNICATION_BFP16 ? (msptiCommunicationDataType)type : MSPTI_ACTIVITY_COMMUNICATION_INVALID_TYPE;
}

static void ran(uint64_t correlation, const emu_activity_call *call, uint64_t begin, uint64_t end) {
    uint64_t start = day(begin), stop = day(end);
    msptiStream place = {call->device, call->stream};
    pthread_mutex_lock(&lock);
    switch (call->kind) {
        case ACTIVITY_KERNEL:
            if (enabled[MSPTI_ACTIVITY_KIND_KERNEL])
                add((record){.kernel = {MSPTI_ACTIVITY_KIND_KERNEL, start, stop, place, correlation, "AI_CORE", call->name}});
            break;
        case ACTIVITY_COLLECTIVE:
            if (enabled[MSPTI_ACTIVITY_KIND_HCCL])
                add((record){.hccl = {MSPTI_ACTIVITY_KIND_HCCL, start, stop, place, 0, call->name, keep_name(call->group)}});
            if (enabled[MSPTI_ACTIVITY_KIND_COMMUNICATION])
                add((record){.communication = {MSPTI_ACTIVITY_KIND_COMMUNICATION, communication_type(call->detail), call->bytes, place,
                                               start, stop, "RANK_ORDER", call->name, keep_name(call->group), correlation}});
            break;
        case ACTIVITY_COPY:
            /* aclrtMemcpyKind counts from 0, MSPTI from 1; both in the same order. */
            if (enabled[MSPTI_ACTIVITY_KIND_MEMCPY])
                add((record){.copy = {MSPTI_ACTIVITY_KIND_MEMCPY,
                                      call->detail <= ACL_MEMCPY_DEFAULT ? (msptiActivityMemcpyKind)(call->detail + 1)
                                                                         : MSPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN,
                                      call->bytes, start, stop, call->device, call->stream, correlation, call->stream != EMU_NOWHERE}});
            break;
        case ACTIVITY_SET:
            if (enabled[MSPTI_ACTIVITY_KIND_MEMSET])
                add((record){.set = {MSPTI_ACTIVITY_KIND_MEMSET, (uint32_t)call->detail, call->bytes, start, stop, call->device,
                                     call->stream, correlation, call->stream != EMU_NOWHERE}});
            break;
        case ACTIVITY_REPLAY: break; /* each of its tasks has a record */
    }
    pthread_mutex_unlock(&lock);
}

static void marked(const emu_activity_mark *mark) {
    static const msptiActivityFlag flags[][2] = {
        [MARK_INSTANT] = {MSPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS, MSPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS_WITH_DEVICE},
        [MARK_BEGIN] = {MSPTI_ACTIVITY_FLAG_MARKER_START, MSPTI_ACTIVITY_FLAG_MARKER_START_WITH_DEVICE},
        [MARK_END] = {MSPTI_ACTIVITY_FLAG_MARKER_END, MSPTI_ACTIVITY_FLAG_MARKER_END_WITH_DEVICE},
    };
    if (!enabled[MSPTI_ACTIVITY_KIND_MARKER]) return;
    pthread_mutex_lock(&lock);
    record one = {.marker = {.kind = MSPTI_ACTIVITY_KIND_MARKER, .flag = flags[mark->kind][mark->with_device], .timestamp = day(mark->time),
                             .id = mark->number, .name = keep_name(mark->text), .domain = keep_name(mark->domain)}};
    if (mark->on_device) {
        one.marker.sourceKind = MSPTI_ACTIVITY_SOURCE_KIND_DEVICE;
        one.marker.objectId.ds = (msptiStream){mark->device, mark->stream};
    } else {
        one.marker.objectId.pt = (msptiThread){(uint32_t)getpid(), mark->thread};
    }
    add(one);
    pthread_mutex_unlock(&lock);
}

static const emu_activity_observer observer = {called, ran, marked};

/* ------------------------------------------------------------------------------------------------------- subscribers */

static msptiResult invalid(const char *text) {
    emu_fail(ACL_ERROR_INVALID_PARAM, NULL, "%s", text);
    return MSPTI_ERROR_INVALID_PARAMETER;
}

API msptiResult msptiSubscribe(msptiSubscriberHandle *handle, msptiCallbackFunc callback, void *userdata) {
    emu_set_routine("msptiSubscribe");
    (void)callback, (void)userdata; /* none can be enabled */
    if (handle == NULL) return invalid("subscriber is a null pointer");
    pthread_mutex_lock(&lock);
    bool taken = subscriber.used;
    subscriber.used = true;
    pthread_mutex_unlock(&lock);
    if (taken) return MSPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    offset = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - (int64_t)emu_now();
    *handle = &subscriber;
    emu_activity_observe(1, &observer);
    return MSPTI_SUCCESS;
}

API msptiResult msptiUnsubscribe(msptiSubscriberHandle handle) {
    emu_set_routine("msptiUnsubscribe");
    if (handle != &subscriber || !subscriber.used) return invalid("subscriber is not one of msptiSubscribe");
    emu_activity_collect();
    emu_activity_observe(1, NULL);
    pthread_mutex_lock(&lock);
    subscriber.used = false;
    pthread_mutex_unlock(&lock);
    return MSPTI_SUCCESS;
}

API msptiResult msptiEnableCallback(uint32_t enable, msptiSubscriberHandle handle, msptiCallbackDomain domain, msptiCallbackId cbid) {
    (void)enable, (void)handle, (void)domain, (void)cbid;
    emu_set_routine("msptiEnableCallback");
    return invalid("callbacks are not emulated; activities are");
}

API msptiResult msptiEnableDomain(uint32_t enable, msptiSubscriberHandle handle, msptiCallbackDomain domain) {
    (void)enable, (void)handle, (void)domain;
    emu_set_routine("msptiEnableDomain");
    return invalid("callbacks are not emulated; activities are");
}

/* -------------------------------------------------------------------------------------------------------- activities */

API msptiResult msptiActivityRegisterCallbacks(msptiBuffersCallbackRequestFunc requested, msptiBuffersCallbackCompleteFunc completed) {
    emu_set_routine("msptiActivityRegisterCallbacks");
    if (requested == NULL || completed == NULL) return invalid("a callback is a null pointer");
    pthread_mutex_lock(&lock);
    request_buffer = requested;
    complete_buffer = completed;
    pthread_mutex_unlock(&lock);
    return MSPTI_SUCCESS;
}

static msptiResult enable(msptiActivityKind kind, bool on) {
    if ((int)kind <= MSPTI_ACTIVITY_KIND_INVALID || (int)kind >= MSPTI_ACTIVITY_KIND_COUNT) return invalid("kind is not one of msptiActivityKind");
    if (kind == MSPTI_ACTIVITY_KIND_MEMORY || kind == MSPTI_ACTIVITY_KIND_RUNTIME_API)
        return invalid("the kinds MEMORY and RUNTIME_API are not emulated");
    enabled[kind] = on;
    return MSPTI_SUCCESS;
}

API msptiResult msptiActivityEnable(msptiActivityKind kind) {
    emu_set_routine("msptiActivityEnable");
    return enable(kind, true);
}

API msptiResult msptiActivityDisable(msptiActivityKind kind) {
    emu_set_routine("msptiActivityDisable");
    return enable(kind, false);
}

API bool msptiActivityIsEnabled(msptiActivityKind kind) {
    return (int)kind > MSPTI_ACTIVITY_KIND_INVALID && (int)kind < MSPTI_ACTIVITY_KIND_COUNT && enabled[kind];
}

/* Markers of all domains are noted. */
API msptiResult msptiActivityEnableMarkerDomain(const char *name) { return name != NULL ? MSPTI_SUCCESS : MSPTI_ERROR_INVALID_PARAMETER; }
API msptiResult msptiActivityDisableMarkerDomain(const char *name) {
    emu_set_routine("msptiActivityDisableMarkerDomain");
    (void)name;
    return invalid("markers of single domains cannot be left out");
}

static size_t size_of(msptiActivityKind kind) {
    switch (kind) {
        case MSPTI_ACTIVITY_KIND_MARKER: return sizeof(msptiActivityMarker);
        case MSPTI_ACTIVITY_KIND_KERNEL: return sizeof(msptiActivityKernel);
        case MSPTI_ACTIVITY_KIND_API:
        case MSPTI_ACTIVITY_KIND_ACL_API:
        case MSPTI_ACTIVITY_KIND_NODE_API: return sizeof(msptiActivityApi);
        case MSPTI_ACTIVITY_KIND_HCCL: return sizeof(msptiActivityHccl);
        case MSPTI_ACTIVITY_KIND_COMMUNICATION: return sizeof(msptiActivityCommunication);
        case MSPTI_ACTIVITY_KIND_MEMSET: return sizeof(msptiActivityMemset);
        case MSPTI_ACTIVITY_KIND_MEMCPY: return sizeof(msptiActivityMemcpy);
        case MSPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: return sizeof(msptiActivityExternalCorrelation);
        default: return 0;
    }
}

API msptiResult msptiActivityGetNextRecord(uint8_t *buffer, size_t validBufferSizeBytes, msptiActivity **next) {
    emu_set_routine("msptiActivityGetNextRecord");
    if (buffer == NULL || next == NULL) return invalid("buffer or record is a null pointer");
    size_t at = *next == NULL ? 0 : (size_t)((uint8_t *)*next - buffer) + size_of((*next)->kind);
    if (at + sizeof(msptiActivity) > validBufferSizeBytes) return MSPTI_ERROR_MAX_LIMIT_REACHED;
    *next = (msptiActivity *)(buffer + at);
    return MSPTI_SUCCESS;
}

/* Puts records into a buffer of the subscriber's: how many. A subscriber that gives no buffer loses them. */
static size_t hand_over(const record *from, size_t many, msptiBuffersCallbackRequestFunc requested, msptiBuffersCallbackCompleteFunc completed) {
    uint8_t *buffer = NULL;
    size_t size = 0, most = 0, used = 0, done = 0;
    requested(&buffer, &size, &most);
    if (buffer == NULL) return many;
    while (done < many && (most == 0 || done < most)) {
        size_t bytes = size_of(from[done].any.kind);
        if (used + bytes > size) break;
        memcpy(buffer + used, &from[done++], bytes);
        used += bytes;
    }
    completed(buffer, size, used);
    return done > 0 ? done : many; /* not one fits */
}

static void flush(void) {
    emu_activity_collect();
    pthread_mutex_lock(&lock);
    record *taken = records;
    size_t many = count;
    records = NULL;
    count = room = 0;
    msptiBuffersCallbackRequestFunc requested = request_buffer;
    msptiBuffersCallbackCompleteFunc completed = complete_buffer;
    pthread_mutex_unlock(&lock);
    for (size_t at = 0; at < many && requested != NULL;) at += hand_over(taken + at, many - at, requested, completed);
    free(taken);
}

API msptiResult msptiActivityFlushAll(uint32_t flag) {
    (void)flag;
    emu_set_routine("msptiActivityFlushAll");
    if (!emu_is_forked()) flush();
    return MSPTI_SUCCESS;
}

static void *flush_now_and_then(void *unused) {
    (void)unused;
    for (;;) {
        uint32_t milliseconds = period;
        usleep((milliseconds > 0 ? milliseconds : 100) * 1000);
        if (milliseconds > 0) flush();
    }
    return NULL;
}

/* In milliseconds; 0: no more. */
API msptiResult msptiActivityFlushPeriod(uint32_t time) {
    emu_set_routine("msptiActivityFlushPeriod");
    period = time;
    pthread_mutex_lock(&lock);
    bool first = !periodic && time > 0;
    periodic |= first;
    pthread_mutex_unlock(&lock);
    pthread_t thread;
    if (first && pthread_create(&thread, NULL, flush_now_and_then, NULL) != 0) return MSPTI_ERROR_INNER;
    if (first) pthread_detach(thread);
    return MSPTI_SUCCESS;
}

/* ----------------------------------------------------------------------------------------------- external correlations */

API msptiResult msptiActivityPushExternalCorrelationId(msptiExternalCorrelationKind kind, uint64_t id) {
    if ((int)kind <= MSPTI_EXTERNAL_CORRELATION_KIND_INVALID || (int)kind >= EXTERNAL_KINDS) return MSPTI_ERROR_INVALID_PARAMETER;
    if (external[kind].depth < DEPTH) external[kind].ids[external[kind].depth] = id;
    external[kind].depth++;
    return MSPTI_SUCCESS;
}

API msptiResult msptiActivityPopExternalCorrelationId(msptiExternalCorrelationKind kind, uint64_t *lastId) {
    if ((int)kind <= MSPTI_EXTERNAL_CORRELATION_KIND_INVALID || (int)kind >= EXTERNAL_KINDS) return MSPTI_ERROR_INVALID_PARAMETER;
    if (external[kind].depth == 0) return MSPTI_ERROR_QUEUE_EMPTY;
    external[kind].depth--;
    if (lastId != NULL) *lastId = external[kind].depth < DEPTH ? external[kind].ids[external[kind].depth] : 0;
    return MSPTI_SUCCESS;
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_MSPTI, &lock, NULL); }
