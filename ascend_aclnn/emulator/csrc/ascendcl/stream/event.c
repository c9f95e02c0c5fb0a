/* Events: marks in streams. */
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/core/plog.h"
#include "ascendcl/core/settings.h"
#include "ascendcl/core/sharing.h"
#include "ascendcl/stream/stream.h"
#include "ascendcl/validate/validate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------------------- events */

/* One recording of an event. Waiting streams hold a reference to the recording, so that the event may be recorded again or
 * destroyed meanwhile. */
typedef struct {
    _Atomic uint32_t references;
    emu_stream *stream; /* with a reference */
    uint64_t sequence;
    _Atomic bool done;
    _Atomic uint64_t time;
    emu_shared *shared; /* of an event shared with other processes, */
    uint64_t number;    /* and the recording's number in it */
    emu_clock *clock;   /* of --validate: what has passed then; NULL: not known */
} recording;

/* The functions that create events. */
typedef enum { CREATED_PLAIN, CREATED_WITH_FLAG, CREATED_EX } creator;

typedef struct {
    emu_object base;
    emu_device *device;
    uint32_t flags;
    creator creator;
    recording *latest; /* NULL: not recorded, or reset; under events_lock */
    uint32_t id;
    emu_shared *shared; /* of an event shared with other processes: its recordings are in a table that they read */
    uint64_t capture;   /* the capture that recorded it last, which may have ended; under the captures' lock, */
    uint32_t node;      /* and the recording's node in it */
    /* of --validate, for an external event, as calls and replays come; under events_lock */
    emu_clock *clock;   /* what has passed with its record; NULL: there is none */
    bool *owed;         /* waits (true) and resets that come before a later record, */
    size_t owed_count;  /* the first of which is a wait */
} emu_event;

static pthread_mutex_t events_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t event_ids = 1;

static void drop_recording(recording *record) {
    if (record == NULL || --record->references > 0) return;
    emu_object_release(record->stream);
    emu_shared_release(record->shared);
    free(record->clock);
    free(record);
}

static recording *latest_of(const emu_event *event) {
    pthread_mutex_lock(&events_lock);
    recording *record = event->latest;
    if (record != NULL) record->references++;
    pthread_mutex_unlock(&events_lock);
    return record;
}

static bool is_recorded(const emu_event *event) {
    pthread_mutex_lock(&events_lock);
    bool recorded = event->latest != NULL;
    pthread_mutex_unlock(&events_lock);
    return recorded;
}

static void set_latest(emu_event *event, recording *record) {
    pthread_mutex_lock(&events_lock);
    recording *old = event->latest;
    event->latest = record;
    pthread_mutex_unlock(&events_lock);
    drop_recording(old);
}

static void free_event(void *object) {
    emu_event *event = object;
    drop_recording(event->latest);
    emu_shared_release(event->shared);
    free(event->clock);
    free(event->owed);
    free(event);
}

/* A recording with a reference, for the event. */
static recording *new_recording(emu_stream *stream) {
    recording *record = calloc(1, sizeof *record);
    if (record == NULL) abort();
    record->references = 1;
    record->stream = stream;
    emu_object_hold(stream);
    return record;
}

/* The event behind a handle, with a reference; NULL with a status. */
static emu_event *acquire_event(aclrtEvent handle, int *status) {
    emu_context *context;
    *status = emu_current_context(&context);
    return *status == 0 ? emu_object_acquire(handle, KIND_EVENT, status) : NULL;
}

/* An event and a stream, each with a reference. */
static int acquire_both(aclrtEvent handle, emu_event **event, aclrtStream stream_handle, emu_stream **stream) {
    int status;
    *event = acquire_event(handle, &status);
    return status != 0 ? status : emu_stream_acquire(stream_handle, stream);
}

/* Changes the number of the device's events, and returns it. */
static uint32_t count_events(emu_device *device, int32_t more) {
    pthread_mutex_lock(&emu_world);
    uint32_t count = device->events += (uint32_t)more;
    pthread_mutex_unlock(&emu_world);
    return count;
}

/* The event takes over the shared object, also when this fails. */
static int add_event(aclrtEvent *handle, uint32_t flags, creator creator, emu_shared *shared) {
    emu_context *context;
    int status = emu_current_context(&context);
    if (status == 0) status = emu_link_check(context->device);
    if (status != 0) {
        emu_shared_release(shared);
        return status;
    }
    uint32_t count = count_events(context->device, 1);
    if (creator != CREATED_EX && count > (uint32_t)emu_config()->soc.events) {
        status = emu_fail(ACL_ERROR_RT_NO_EVENT_RESOURCE, NULL, "%u events exist, the limit of %s", count - 1, emu_config()->soc.name);
        emu_shared_release(shared);
    } else {
        emu_event *event = calloc(1, sizeof *event);
        if (event == NULL) abort();
        *event = (emu_event){.device = context->device, .flags = flags, .creator = creator, .id = event_ids++, .shared = shared};
        *handle = emu_object_new(KIND_EVENT, event, free_event);
        if (*handle == NULL) status = ACL_ERROR_RT_NO_EVENT_RESOURCE;
    }
    if (status != 0) count_events(context->device, -1);
    return status;
}

static int create_event(aclrtEvent *handle, uint32_t flags, creator creator) {
    emu_shared *shared = NULL;
    if (handle == NULL) return emu_null_argument("event");
    int status = (flags & ACL_EVENT_IPC) != 0 ? emu_shared_new(SHARED_EVENT, true, -1, 0, 0, &shared) : 0;
    return status != 0 ? status : add_event(handle, flags, creator, shared);
}

#define EVERY_FLAG (ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE | ACL_EVENT_EXTERNAL | ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_IPC)

static int check_flags(uint32_t flags) {
    if (flags == 0 || (flags & ~(uint32_t)EVERY_FLAG) != 0)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "flag is %#x; allowed: any of %#x", flags, (unsigned)EVERY_FLAG);
    return 0;
}

API aclError aclrtCreateEvent(aclrtEvent *event) {
    ENTER("aclrtCreateEvent");
    return create_event(event, ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE, CREATED_PLAIN);
}

API aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag) {
    ENTER("aclrtCreateEventWithFlag");
    int status = check_flags(flag);
    return status != 0 ? status : create_event(event, flag, CREATED_WITH_FLAG);
}

API aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag) {
    ENTER("aclrtCreateEventExWithFlag");
    int status = check_flags(flag);
    return status != 0 ? status : create_event(event, flag, CREATED_EX);
}

API aclError aclrtDestroyEvent(aclrtEvent handle) {
    ENTER_RELEASE("aclrtDestroyEvent");
    int status;
    EMU_HELD emu_event *event = emu_object_destroy(handle, KIND_EVENT, &status);
    if (event != NULL) count_events(event->device, -1);
    LEAVE(status);
}

typedef struct {
    emu_task task;
    recording *record;
} event_task;

static void finish_event(emu_task *task) {
    drop_recording(((event_task *)task)->record);
    free(task);
}

static int run_record(emu_task *task, emu_stream *stream) {
    (void)stream;
    recording *record = ((event_task *)task)->record;
    record->time = emu_now();
    record->done = true;
    if (record->shared != NULL) emu_shared_recorded(record->shared, record->number);
    return 0;
}

static emu_task *make_event_task(recording *record, emu_task task) {
    event_task *result = calloc(1, sizeof *result);
    if (result == NULL) abort();
    result->task = task;
    result->task.finish = finish_event;
    result->task.routine = emu_routine();
    result->record = record;
    return &result->task;
}

/* ------------------------------------------------------------------------------------------------------------ captures */

/* The capture that an event is part of; the captures' lock is held. */
static emu_capture *capture_of(const emu_event *event) { return event->capture != 0 ? emu_capture_find(event->capture) : NULL; }

/* 107028 with a message for an event that is part of a capture. */
static int refuse_captured_event(const emu_event *event) {
    char text[160];
    if (event->capture == 0) return 0;
    emu_captures_lock();
    const emu_capture *capture = capture_of(event);
    int status = capture == NULL ? 0
                                 : emu_fail(ACL_ERROR_RT_EVENT_CAPTURED, NULL,
                                            "not while event %u is part of a capture (%s); a captured event only orders streams of its graph",
                                            event->id, emu_capture_describe(capture, text, sizeof text));
    emu_captures_unlock();
    return status;
}

/* Only events of aclrtCreateEventExWithFlag can be captured. */
static int check_kind(const emu_event *event) {
    if (event->creator == CREATED_EX && event->shared == NULL) return 0;
    return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL,
                    "event %u is not of aclrtCreateEventExWithFlag, and not external; only those can be used while a stream is captured", event->id);
}

/* In a model that is built by hand an event is new at each execution. */
static int check_reset(const emu_event *event, emu_stream *stream) {
    emu_captures_lock();
    const emu_capture *capture = stream->capture;
    int status = capture != NULL && !capture->by_hand ? check_kind(event) : 0;
    emu_captures_unlock();
    return status;
}

static bool is_external(const emu_event *event) { return (event->flags & ACL_EVENT_EXTERNAL) != 0; }

/* A task group is open on another stream. The lock is held. */
static int check_group(emu_capture *capture, const emu_stream *stream) {
    if (capture->open_groups == 0 || stream->capture != capture || capture->lanes[stream->lane].group != 0) return 0;
    emu_capture_invalidate(capture, ACL_ERROR_STREAM_TASK_GROUP_INTR, "another stream was used while a task group was open");
    return emu_fail(ACL_ERROR_STREAM_TASK_GROUP_INTR, NULL, "stream %d is used while a task group is open on another stream", stream->id);
}

static void describe_event(const emu_event *event, aclmdlRITaskType type, emu_captured *captured) {
    captured->type = type;
    captured->event = event->base.handle;
    captured->event_flags = event->flags;
}

/* Records an event in the capture of a stream; *captured: the stream is captured. */
static int capture_record(emu_event *event, emu_stream *stream, bool *captured) {
    emu_captures_lock();
    emu_capture *capture = stream->capture;
    *captured = capture != NULL;
    int status = capture != NULL && !capture->by_hand ? check_kind(event) : 0;
    if (capture != NULL && status == 0 && (event->flags & ACL_EVENT_SYNC) != 0) {
        status = check_group(capture, stream);
        emu_node node = {.kind = NODE_RECORD, .routine = emu_routine(), .lane = stream->lane, .event = event->id};
        describe_event(event, ACL_MODEL_RI_TASK_EVENT_RECORD, &node.captured);
        if (status == 0) {
            event->capture = capture->id;
            event->node = emu_capture_add(capture, node);
        }
    }
    emu_captures_unlock();
    return status;
}

static int refuse_conflict(emu_capture *capture, emu_capture *other, const emu_event *event, const emu_stream *stream) {
    emu_capture_invalidate(capture, ACL_ERROR_STREAM_CAPTURE_CONFLICT, "its event was waited for by a stream of another capture");
    emu_capture_invalidate(other, ACL_ERROR_STREAM_CAPTURE_CONFLICT, "a stream of it waited for an event of another capture");
    return emu_fail(ACL_ERROR_STREAM_CAPTURE_CONFLICT, NULL, "event %u is part of the capture of model %u, stream %d of that of model %u",
                    event->id, capture->model, stream->id, other->model);
}

/* A stream waits for an event of a capture, and becomes part of it. */
static int capture_join_wait(emu_event *event, emu_capture *capture, emu_stream *stream) {
    if (stream->base.handle == stream->context->default_stream)
        return emu_fail(ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, NULL, "event %u is part of a capture, and the default stream cannot be", event->id);
    if ((event->flags & ACL_EVENT_SYNC) == 0)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "the event was made with flag %#x, without ACL_EVENT_SYNC", event->flags);
    if (capture->by_hand && stream->capture != capture)
        return emu_fail(ACL_ERROR_RT_STREAM_MODEL, NULL, "event %u is recorded in model %u, and only its streams can wait for it", event->id, capture->model);
    if (stream->capture != NULL && stream->capture != capture) return refuse_conflict(capture, stream->capture, event, stream);
    if (stream->capture == NULL && capture->invalid) {
        return emu_fail(ACL_ERROR_RT_INTERNAL_ERROR, NULL, "the capture of model %u is invalid: %s", capture->model, capture->reason);
    }
    if (stream->capture == NULL) emu_stream_enter(stream, capture);
    int status = check_group(capture, stream);
    if (status != 0) return status;
    emu_node *record = &capture->nodes[event->node];
    if (record->lane != stream->lane) {
        record->waits++;
        record->returned |= stream->lane == 0;
    }
    emu_node node = {.kind = NODE_WAIT, .routine = emu_routine(), .lane = stream->lane, .event = event->id, .recorded = event->node};
    describe_event(event, ACL_MODEL_RI_TASK_EVENT_WAIT, &node.captured);
    emu_capture_add(capture, node);
    return 0;
}

/* A wait that belongs to a capture, because of the event or of the stream; *captured: it does. */
static int capture_wait(emu_event *event, emu_stream *stream, bool *captured) {
    emu_captures_lock();
    emu_capture *capture = capture_of(event);
    *captured = capture != NULL || stream->capture != NULL;
    int status = 0;
    if (capture != NULL) {
        status = capture_join_wait(event, capture, stream);
    } else if (stream->capture != NULL) {
        status = stream->capture->by_hand ? 0 : check_kind(event);
        if (status == 0 && is_recorded(event))
            status = emu_fail(ACL_ERROR_RT_CAPTURE_DEPENDENCY, NULL,
                              "event %u was recorded outside of the capture of model %u, which cannot wait for it; record it on a stream "
                              "of the capture, or use an external event (ACL_EVENT_EXTERNAL)",
                              event->id, stream->capture->model);
    }
    emu_captures_unlock();
    return status;
}

/* What a graph does with an external event each time that it runs. */
typedef struct {
    emu_task task;
    emu_event *event; /* with a reference, */
    uint64_t serial;  /* and its handle's number: a destroyed event fails */
} external_task;

static void finish_external(emu_task *task) {
    emu_object_release(((external_task *)task)->event);
    free(task);
}

/* The event; NULL with a status when it has been destroyed. */
static emu_event *external_event(const emu_task *task, int *status) {
    const external_task *external = (const external_task *)task;
    emu_event *event = external->event;
    bool alive = external->serial != 0 && emu_handle_serial(event->base.handle) == external->serial;
    *status = alive ? 0
                    : emu_fail(ACL_ERROR_RT_INVALID_HANDLE, "EMULATOR_USE_AFTER_DESTROY", "the external event %p of the graph has been destroyed",
                               event->base.handle);
    return alive ? event : NULL;
}

static int run_external_record(emu_task *task, emu_stream *stream) {
    int status;
    emu_event *event = external_event(task, &status);
    if (event == NULL) return status;
    recording *record = new_recording(stream);
    record->time = emu_now();
    record->done = true;
    set_latest(event, record);
    return 0;
}

static bool has_passed(const recording *record) { return record->done || emu_stream_passed(record->stream, record->sequence); }

static int run_external_wait(emu_task *task, emu_stream *stream) {
    int status;
    do {
        const emu_event *event = external_event(task, &status);
        if (event == NULL) return status;
        recording *record = latest_of(event);
        bool passed = record != NULL && has_passed(record);
        drop_recording(record);
        if (passed) return 0;
    } while (emu_stream_looks_again(stream, &status));
    return status;
}

/* Takes back what has been recorded by now; a record that has been queued, but has not run, comes after the reset. */
static int run_external_reset(emu_task *task, emu_stream *stream) {
    (void)stream;
    int status;
    emu_event *event = external_event(task, &status);
    if (event == NULL) return status;
    recording *record = latest_of(event), *taken = NULL;
    if (record != NULL && has_passed(record)) {
        pthread_mutex_lock(&events_lock);
        if (event->latest == record) {
            taken = record;
            event->latest = NULL;
        }
        pthread_mutex_unlock(&events_lock);
    }
    drop_recording(taken);
    drop_recording(record);
    return 0;
}

typedef enum { EXTERNAL_RECORD, EXTERNAL_WAIT, EXTERNAL_RESET } external_action;

/* A record ends the waits that came before it, and the resets behind them take it back. */
static void pay(emu_event *event) {
    size_t paid = 0;
    while (paid < event->owed_count && (event->clock != NULL || !event->owed[paid])) {
        if (!event->owed[paid++]) {
            free(event->clock);
            event->clock = NULL;
        }
    }
    event->owed_count -= paid;
    if (paid > 0) memmove(event->owed, event->owed + paid, event->owed_count * sizeof *event->owed);
}

/* What --validate knows of an external event. What a wait waits for that comes before its record is not known. */
static void order_external(emu_event *event, external_action action, uint32_t timeline) {
    emu_clock *clock = action == EXTERNAL_RECORD ? emu_clock_of(timeline) : NULL;
    pthread_mutex_lock(&events_lock);
    if (action == EXTERNAL_WAIT) emu_timeline_waits(timeline, event->owed_count == 0 ? event->clock : NULL);
    if (action != EXTERNAL_RECORD && (event->owed_count > 0 || (action == EXTERNAL_WAIT && event->clock == NULL))) {
        event->owed = realloc(event->owed, (event->owed_count + 1) * sizeof *event->owed);
        if (event->owed == NULL) abort();
        event->owed[event->owed_count++] = action == EXTERNAL_WAIT;
    } else if (action != EXTERNAL_WAIT) {
        free(event->clock);
        event->clock = clock;
        pay(event);
    }
    pthread_mutex_unlock(&events_lock);
}

static external_action action_of(const emu_task *task) {
    return task->run == run_external_wait ? EXTERNAL_WAIT : task->run == run_external_reset ? EXTERNAL_RESET : EXTERNAL_RECORD;
}

static void order_captured(const emu_task *task, const emu_captured *captured, uint32_t timeline) {
    (void)captured;
    order_external(((const external_task *)task)->event, action_of(task), timeline);
}

static void describe_external(emu_task *task, emu_captured *captured) {
    captured->order = order_captured;
    describe_event(((external_task *)task)->event,
                   task->run == run_external_wait ? ACL_MODEL_RI_TASK_EVENT_WAIT
                   : task->run == run_external_reset ? ACL_MODEL_RI_TASK_EVENT_RESET : ACL_MODEL_RI_TASK_EVENT_RECORD, captured);
}

static int queue_external(emu_event *event, emu_stream *stream, int (*run)(emu_task *, emu_stream *)) {
    external_task *external = calloc(1, sizeof *external);
    if (external == NULL) abort();
    external->task = (emu_task){.run = run, .slow = run == run_external_wait, .finish = finish_external, .describe = describe_external,
                                .routine = emu_routine()};
    external->event = event;
    emu_object_hold(event);
    external->serial = emu_handle_serial(event->base.handle);
    return emu_stream_enqueue(stream, &external->task);
}

/* ------------------------------------------------------------------------------------------------- records and waits */

static int record_event(aclrtEvent handle, aclrtStream stream_handle) {
    EMU_HELD emu_event *event = NULL;
    EMU_HELD emu_stream *stream = NULL;
    int status = acquire_both(handle, &event, stream_handle, &stream);
    if (status != 0) return status;
    if (event->device != stream->device)
        return emu_fail(ACL_ERROR_RT_STREAM_CONTEXT, "EMULATOR_WRONG_CONTEXT", "the event is of device %d, the stream of device %d",
                        event->device->id, stream->device->id);
    if (stream->capture != NULL) {
        bool captured = true;
        status = is_external(event) ? queue_external(event, stream, run_external_record) : capture_record(event, stream, &captured);
        if (captured || status != 0) return status;
    }
    recording *record = new_recording(stream);
    record->references++; /* the task's */
    if (emu_validates()) record->clock = emu_clock_of(stream->timeline);
    if (emu_validates() && is_external(event)) order_external(event, EXTERNAL_RECORD, stream->timeline);
    if (event->shared != NULL) {
        record->shared = event->shared;
        emu_shared_hold(record->shared);
        record->number = emu_shared_record(record->shared);
        if (emu_validates()) emu_validate_recorded(stream->timeline, emu_shared_name(record->shared), record->number);
    }
    /* When it passes matters only where time is measured, or other processes wait. */
    bool quiet = (event->flags & ACL_EVENT_TIME_LINE) == 0 && event->shared == NULL;
    emu_task *task = make_event_task(record, (emu_task){.run = run_record, .quiet = quiet});
    task->number = &record->sequence;
    status = emu_stream_enqueue(stream, task);
    if (status != 0) {
        drop_recording(record);
        return status;
    }
    bool shared = record->shared != NULL;
    uint64_t sequence = record->sequence;
    set_latest(event, record); /* another thread may replace it at once */
    if (shared) emu_stream_let_run(stream, sequence); /* other processes may wait for it */
    return 0;
}

API aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
    ENTER("aclrtRecordEvent");
    return record_event(event, stream);
}

API aclError aclrtRecordEventWithFlag(aclrtEvent event, aclrtStream stream, uint32_t flag) {
    ENTER("aclrtRecordEventWithFlag");
    (void)flag;
    return record_event(event, stream);
}

/* Whether the latest recording is another process's. */
static bool is_elsewhere(const emu_event *event, const recording *record) {
    return event->shared != NULL && emu_shared_latest(event->shared) > (record != NULL ? record->number : 0);
}

typedef struct {
    emu_task task;
    emu_shared *shared;
    uint64_t number;
} shared_task;

static void finish_shared(emu_task *task) {
    emu_shared_release(((shared_task *)task)->shared);
    free(task);
}

static int check_recorder(int passed) {
    if (passed >= 0) return 0;
    return emu_fail(ACL_ERROR_RT_IPC_ERROR, "EMULATOR_NOT_SHARED", "the process that recorded the event has ended, and the event never passes");
}

static int run_wait_elsewhere(emu_task *task, emu_stream *stream) {
    const shared_task *wait = (shared_task *)task;
    int passed = 0, status = 0;
    while (passed == 0 && !emu_stream_ends_wait(stream, &status)) passed = emu_shared_wait(wait->shared, wait->number, 1000);
    return status != 0 ? status : check_recorder(passed);
}

static int wait_elsewhere(emu_stream *stream, const emu_event *event) {
    shared_task *wait = calloc(1, sizeof *wait);
    if (wait == NULL) abort();
    wait->task = (emu_task){.run = run_wait_elsewhere, .slow = true, .finish = finish_shared, .routine = emu_routine()};
    wait->shared = event->shared;
    emu_shared_hold(wait->shared);
    wait->number = emu_shared_latest(wait->shared);
    if (emu_validates()) emu_validate_waited(stream->timeline, emu_shared_name(wait->shared), wait->number);
    return emu_stream_enqueue(stream, &wait->task);
}

static int wait_event(aclrtStream stream_handle, aclrtEvent handle) {
    EMU_HELD emu_event *event = NULL;
    EMU_HELD emu_stream *stream = NULL;
    int status = acquire_both(handle, &event, stream_handle, &stream);
    if (status != 0) return status;
    if (event->creator == CREATED_WITH_FLAG && (event->flags & (ACL_EVENT_SYNC | ACL_EVENT_EXTERNAL)) == 0)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "the event was made with flag %#x, without ACL_EVENT_SYNC", event->flags);
    if (stream->capture != NULL || event->capture != 0) { /* an external event is never part of a capture itself */
        bool captured = true;
        status = is_external(event) ? queue_external(event, stream, run_external_wait) : capture_wait(event, stream, &captured);
        if (captured || status != 0) return status;
    }
    recording *record = latest_of(event);
    if (is_elsewhere(event, record)) {
        drop_recording(record);
        return wait_elsewhere(stream, event);
    }
    if (emu_validates() && is_external(event)) order_external(event, EXTERNAL_WAIT, stream->timeline);
    else if (record != NULL && emu_validates()) emu_timeline_waits(stream->timeline, record->clock);
    if (record == NULL && is_external(event)) return queue_external(event, stream, run_external_wait); /* a graph may record it */
    if (record != NULL && !record->done) emu_stream_poll(record->stream);
    if (record == NULL || record->done) {
        drop_recording(record);
        return 0;
    }
    /* The error of the other stream is reported when that stream is synchronised. */
    emu_task wait = {.quiet = true, .awaited = record->stream, .until = record->sequence};
    return emu_stream_enqueue(stream, make_event_task(record, wait));
}

API aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
    ENTER("aclrtStreamWaitEvent");
    return wait_event(stream, event);
}

API aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout) {
    ENTER("aclrtStreamWaitEventWithTimeout");
    (void)timeout; /* a limit of the device's waiting; a recording always passes here */
    return wait_event(stream, event);
}

API aclError aclrtResetEvent(aclrtEvent handle, aclrtStream stream_handle) {
    ENTER("aclrtResetEvent");
    EMU_HELD emu_event *event = NULL;
    EMU_HELD emu_stream *stream = NULL;
    int status = acquire_both(handle, &event, stream_handle, &stream);
    if (status != 0) return status;
    if (event->creator != CREATED_WITH_FLAG)
        return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "only events of aclrtCreateEventWithFlag can be reset");
    if (is_external(event)) { /* in the order of the stream: a wait before it may not have seen a graph's record yet */
        if (emu_validates() && stream->capture == NULL) order_external(event, EXTERNAL_RESET, stream->timeline);
        return queue_external(event, stream, run_external_reset);
    }
    if (stream->capture != NULL) return check_reset(event, stream);
    set_latest(event, NULL);
    return 0;
}

/* Whether the latest recording has passed. `any_creator`: also for events of aclrtCreateEventExWithFlag. */
static int query_event(aclrtEvent handle, bool any_creator, bool *done) {
    int status;
    EMU_HELD emu_event *event = acquire_event(handle, &status);
    if (event == NULL) return status;
    if (event->creator == CREATED_EX && !any_creator)
        return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "not for events of aclrtCreateEventExWithFlag");
    status = refuse_captured_event(event);
    if (status == 0) status = emu_link_check(event->device);
    if (status != 0) return status;
    recording *record = latest_of(event);
    if (is_elsewhere(event, record)) {
        drop_recording(record);
        uint64_t latest = emu_shared_latest(event->shared);
        int passed = emu_shared_wait(event->shared, latest, 0);
        *done = passed != 0;
        if (*done && emu_validates()) emu_validate_waited(EMU_HOST_TIMELINE, emu_shared_name(event->shared), latest);
        return check_recorder(passed);
    }
    *done = record != NULL ? has_passed(record) : event->creator == CREATED_EX;
    if (record != NULL && *done && emu_validates()) emu_host_passed(record->clock);
    drop_recording(record);
    return 0;
}

API aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status) {
    ENTER("aclrtQueryEventStatus");
    bool done;
    if (status == NULL) return emu_null_argument("status");
    int failed = query_event(event, true, &done);
    if (failed == 0) *status = done ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return failed;
}

/* The older query has the opposite values. */
API aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status) {
    ENTER("aclrtQueryEvent");
    bool done;
    if (status == NULL) return emu_null_argument("status");
    int failed = query_event(event, false, &done);
    if (failed == 0) *status = done ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    return failed;
}

API aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status) {
    ENTER("aclrtQueryEventWaitStatus");
    bool done;
    if (status == NULL) return emu_null_argument("status");
    int failed = query_event(event, false, &done);
    if (failed == 0) *status = done ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
    return failed;
}

static int event_timed_out(int32_t timeout) {
    return emu_timed_out(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "EE8888", "the event has not passed", timeout);
}

static int synchronize_event(aclrtEvent handle, int32_t timeout) {
    int status;
    EMU_HELD emu_event *event = acquire_event(handle, &status);
    if (event == NULL) return status;
    status = refuse_captured_event(event);
    if (status != 0) return status;
    recording *record = latest_of(event);
    if (is_elsewhere(event, record)) {
        uint64_t latest = emu_shared_latest(event->shared);
        int passed = emu_shared_wait(event->shared, latest, timeout);
        status = passed != 0 ? check_recorder(passed) : event_timed_out(timeout);
        if (status == 0 && emu_validates()) emu_validate_waited(EMU_HOST_TIMELINE, emu_shared_name(event->shared), latest);
    } else if (record != NULL && !record->done && !emu_stream_wait_for(record->stream, record->sequence, timeout)) {
        status = event_timed_out(timeout);
    } else if (record != NULL && emu_validates()) {
        emu_host_passed(record->clock);
    }
    drop_recording(record);
    return status != 0 ? status : emu_link_check(event->device);
}

API aclError aclrtSynchronizeEvent(aclrtEvent event) {
    ENTER_RELEASE("aclrtSynchronizeEvent");
    LEAVE(synchronize_event(event, -1));
}

API aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
    ENTER_RELEASE("aclrtSynchronizeEventWithTimeout");
    int status = emu_check_timeout(timeout);
    LEAVE(status != 0 ? status : synchronize_event(event, timeout));
}

/* When an event passed, in nanoseconds. */
static int time_of(aclrtEvent handle, uint64_t *time) {
    int status;
    EMU_HELD emu_event *event = acquire_event(handle, &status);
    if (event == NULL) return status;
    status = refuse_captured_event(event);
    if (status == 0) status = emu_link_check(event->device);
    if (status != 0) return status;
    if ((event->flags & ACL_EVENT_TIME_LINE) == 0)
        return emu_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, NULL, "the event was made with flag %#x, without ACL_EVENT_TIME_LINE",
                        event->flags);
    recording *record = latest_of(event);
    if (record == NULL) return emu_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, NULL, "the event has not been recorded");
    if (record->done) *time = record->time;
    else status = emu_fail(ACL_ERROR_RT_EVENT_NOT_COMPLETE, NULL, "the event has not passed yet; synchronize first");
    drop_recording(record);
    return status;
}

API aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent) {
    ENTER("aclrtEventElapsedTime");
    uint64_t start, end;
    if (ms == NULL) return emu_null_argument("ms");
    int status = time_of(startEvent, &start);
    if (status == 0) status = time_of(endEvent, &end);
    if (status != 0) return status;
    if (end < start) return emu_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, NULL, "the end event passed before the start event");
    *ms = (float)((double)(end - start) * 1e-6);
    return 0;
}

API aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t *timestamp) {
    ENTER("aclrtEventGetTimestamp");
    uint64_t time;
    if (timestamp == NULL) return emu_null_argument("timestamp");
    int status = time_of(event, &time);
    if (status == 0) *timestamp = time / 1000;
    return status;
}

API aclError aclrtGetEventId(aclrtEvent handle, uint32_t *eventId) {
    ENTER("aclrtGetEventId");
    int status;
    if (eventId == NULL) return emu_null_argument("eventId");
    EMU_HELD emu_event *event = acquire_event(handle, &status);
    if (event != NULL) *eventId = event->id;
    return status;
}

API aclError aclrtGetEventAvailNum(uint32_t *eventCount) {
    ENTER("aclrtGetEventAvailNum");
    emu_context *context;
    if (eventCount == NULL) return emu_null_argument("eventCount");
    int status = emu_current_context(&context);
    if (status == 0) *eventCount = (uint32_t)emu_config()->soc.events - context->device->events;
    return status;
}

/* --------------------------------------------------------------------------------------------------- other processes */

API aclError aclrtIpcGetEventHandle(aclrtEvent handle, aclrtIpcEventHandle *result) {
    ENTER("aclrtIpcGetEventHandle");
    int status;
    if (result == NULL) return emu_null_argument("handle");
    EMU_HELD emu_event *event = acquire_event(handle, &status);
    if (event == NULL) return status;
    if (event->shared == NULL || !emu_shared_mine(event->shared))
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "the event was made with flag %#x, without ACL_EVENT_IPC, or by another process", event->flags);
    status = emu_link_check(event->device);
    if (status != 0) return status;
    uint64_t name = emu_shared_name(event->shared);
    memset(result, 0, sizeof *result);
    memcpy(result, &name, sizeof name);
    return 0;
}

API aclError aclrtIpcOpenEventHandle(aclrtIpcEventHandle handle, aclrtEvent *result) {
    ENTER("aclrtIpcOpenEventHandle");
    uint64_t name;
    emu_shared *shared = NULL;
    if (result == NULL) return emu_null_argument("event");
    memcpy(&name, &handle, sizeof name);
    int status = emu_shared_open(name, SHARED_EVENT, &shared);
    return status != 0 ? status : add_event(result, ACL_EVENT_IPC, CREATED_EX, shared);
}
