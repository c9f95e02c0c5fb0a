/* Streams: queues of tasks with a worker thread each. */
#include "ascendcl/stream/stream.h"

#include "ascendcl/core/activity.h"
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/handles.h"
#include "ascendcl/core/plog.h"
#include "ascendcl/core/settings.h"
#include "ascendcl/stream/exception.h"
#include "ascendcl/validate/validate.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------------ life of streams */

static _Atomic int stream_ids = 1;

static void free_stream(void *object) {
    emu_stream *stream = object;
    if (stream->timeline != 0) emu_timeline_end(stream->timeline);
    emu_link_close(&stream->connection);
    pthread_mutex_destroy(&stream->lock);
    pthread_cond_destroy(&stream->wake);
    pthread_cond_destroy(&stream->progress);
    emu_buffer_free(&stream->answer);
    free(stream->error_text);
    free(stream->allocator);
    emu_object_release(stream->context);
    free(stream);
}

int emu_stream_new(emu_context *context, uint32_t priority, uint32_t flags, void **handle) {
    EMU_HELD emu_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) return emu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EMULATOR_OUT_OF_MEMORY", "no host memory");
    stream->base.references = 1;
    emu_object_hold(context);
    stream->context = context;
    stream->device = context->device;
    stream->priority = priority;
    stream->flags = flags;
    stream->connection.channel.socket = -1;
    stream->id = stream_ids++;
    if (emu_validates()) stream->timeline = emu_timeline_new(stream->id);
    stream->released = emu_config()->streams == STREAMS_DEFERRED ? 0 : UINT64_MAX;
    pthread_mutex_init(&stream->lock, NULL);
    emu_make_condition(&stream->wake);
    emu_make_condition(&stream->progress);
    *handle = emu_object_new(KIND_STREAM, stream, free_stream);
    if (*handle == NULL) return ACL_ERROR_RT_NO_STREAM_RESOURCE;
    emu_object_hold(stream); /* for the context's list */
    stream->next = context->streams;
    context->streams = stream;
    return 0;
}

emu_device *emu_stream_device(const emu_stream *stream) { return stream->device; }

int emu_stream_acquire(aclrtStream handle, emu_stream **result) {
    emu_context *context;
    int status = emu_current_context(&context);
    if (status != 0) return status;
    emu_stream *stream = emu_object_acquire(handle != NULL ? handle : context->default_stream, KIND_STREAM, &status);
    if (stream == NULL) return status;
    if (stream->context != context) {
        int other = stream->device->id;
        emu_object_release(stream);
        return emu_fail(ACL_ERROR_RT_STREAM_CONTEXT, "EMULATOR_WRONG_CONTEXT",
                        "the stream %p is of another context (device %d) than this thread's (device %d)", handle, other,
                        context->device->id);
    }
    *result = stream;
    return 0;
}

/* ----------------------------------------------------------------------------------------------------------- execution */

/*
 * One thread at a time drives the head of the queue: a thread that waits for the stream, or its worker. A launch goes into the
 * ring as soon as only launches and events precede it, on the thread that queues it. The device then continues by itself, and a
 * program that launches and waits needs no other thread; the worker does everything else. Finished launches and passed events
 * are taken in when a thread polls the stream or queues more. A thread that waits for a stream drives, in turn, the stream that
 * it waits for. A task is always queued before the tasks that wait for it, so such threads cannot wait for each other in a
 * circle.
 */

#define WINDOW 512u                /* launches in the ring at most, */
#define MANY 32u                   /* and the number from which a launching thread takes in finished ones */

typedef enum { STEP_DONE, STEP_NOTHING, STEP_TIMEOUT } step_result;

static uint64_t under_way(const emu_stream *stream) { return stream->connection.launched - stream->connection.taken; }

static void pass_unsent(emu_stream *stream) {
    if (!stream->unsent->quiet) stream->pressing--;
    stream->unsent = stream->unsent->next;
}

/* Ends the task at the head of the queue. The lock is held. */
static void end_head(emu_stream *stream, int status) {
    emu_task *task = stream->head;
    char *text = status != 0 ? emu_take_message() : NULL;
    stream->head = task->next;
    if (stream->head == NULL) stream->tail = NULL;
    if (stream->unsent == task) pass_unsent(stream);
    uint64_t sequence = task->sequence;
    pthread_mutex_unlock(&stream->lock);
    if (status != 0) {
        aclrtExceptionInfo info = {(uint32_t)sequence, (uint32_t)stream->id, task->thread, (uint32_t)stream->device->id, (uint32_t)status};
        emu_report_exception(&info);
    }
    task->finish(task);
    pthread_mutex_lock(&stream->lock);
    if (status != 0) stream->stumbled = stream->failure_mode == ACL_STOP_ON_FAILURE;
    if (status != 0 && stream->error == 0) {
        stream->error = status;
        stream->error_text = text;
        text = NULL;
    }
    free(text);
    stream->completed = sequence;
}

/* Tasks that have not begun are dropped: the stream is destroyed by force, or stops at its first error. */
static bool drops(const emu_stream *stream) {
    bool aborted = stream->head != NULL && stream->head->sequence <= stream->aborted;
    return stream->dropping || aborted || (stream->error != 0 && stream->failure_mode == ACL_STOP_ON_FAILURE);
}

bool emu_stream_drops(emu_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    bool result = drops(stream);
    pthread_mutex_unlock(&stream->lock);
    return result;
}

bool emu_stream_ends_wait(emu_stream *stream, int *status) {
    bool dropped = emu_stream_drops(stream);
    *status = dropped ? 0 : emu_link_check(stream->device);
    return dropped || *status != 0;
}

bool emu_stream_looks_again(emu_stream *stream, int *status) {
    if (emu_stream_ends_wait(stream, status)) return false;
    usleep(100);
    return true;
}

static bool fits_ring(const emu_task *task) { return task->answered != NULL && task->request.size <= EMU_LAUNCH_BYTES; }

/* Whether launches behind a task need not wait for it: a record of an event, or a wait for one that has passed. */
static bool lets_pass(const emu_task *task, const emu_stream *stream) {
    return task->quiet && (task->awaited == NULL || task->awaited == stream || task->awaited->completed >= task->until);
}

/* Puts all launches into the ring that may be there. The lock is held. */
static int send_launches(emu_stream *stream) {
    bool stops = stream->failure_mode == ACL_STOP_ON_FAILURE;
    while (!drops(stream) && stream->unsent != NULL && stream->unsent->sequence <= stream->released) {
        if (lets_pass(stream->unsent, stream)) {
            pass_unsent(stream);
            continue;
        }
        if (!fits_ring(stream->unsent)) return 0;
        uint64_t before = under_way(stream);
        if (before == 0) stream->stumbled = false;
        if (before >= WINDOW || stream->stumbled) return 0;
        if (before == 0 && !emu_link_current(&stream->connection)) {
            emu_link_close(&stream->connection);
            int status = emu_link_open(stream->device, &stream->connection);
            if (status != 0) return status;
        }
        if (!emu_link_launch(&stream->connection, &stream->unsent->request, stops && before > 0, stream->unsent->correlation)) return 0;
        pass_unsent(stream);
    }
    return 0;
}

/* The stream is not driven any more: a waiting thread may drive it. The lock is held. */
static void let_go(emu_stream *stream) {
    stream->driven = false;
    if (stream->waiters > 0) pthread_cond_broadcast(&stream->progress);
    if (stream->ending) pthread_cond_signal(&stream->wake);
}

/* Whether the head of the queue is a launch that has finished, or a quiet task, which needs no work. */
static bool is_done(const emu_stream *stream) {
    if (stream->head == stream->unsent) return false;
    return stream->head->answered == NULL || emu_link_done(&stream->connection);
}

/* Runs a task that the device process has no part in. The lock is not held. */
static int run_task(emu_task *task, emu_stream *stream) {
    uint64_t correlation = task->correlation, begin = correlation != 0 ? emu_now() : 0;
    int status = task->run(task, stream);
    if (correlation != 0) emu_activity_ran(correlation, begin, emu_now());
    return status;
}

/* Takes in the launch at the head of the queue and the finished ones behind it. The lock is held; no other thread drives the
 * stream. */
static void take_in(emu_stream *stream) {
    emu_buffer *answer = &stream->answer;
    do {
        emu_task *task = stream->head;
        int status = 0;
        emu_set_routine(task->routine);
        pthread_mutex_unlock(&stream->lock);
        if (task->answered != NULL) {
            status = emu_link_take(&stream->connection, answer);
            if (status != 0 || answer->size > 0) status = task->answered(task, status, answer);
        } else if (task->run != NULL) {
            status = run_task(task, stream);
        }
        pthread_mutex_lock(&stream->lock);
        end_head(stream, status);
    } while (is_done(stream));
    if (answer->room > (64u << 10)) emu_buffer_free(answer);
}

/* Sends a launch that does not fit into the ring. The lock is held. */
static int call_launch(emu_stream *stream, emu_task *task) {
    uint64_t correlation = task->correlation, begin = correlation != 0 ? emu_now() : 0;
    pthread_mutex_unlock(&stream->lock);
    int status = emu_link_call(stream->device, CALL_LAUNCH, &task->request, &stream->answer);
    status = task->answered(task, status, &stream->answer);
    if (begin != 0) emu_activity_ran(correlation, begin, emu_now());
    emu_buffer_free(&stream->answer);
    pthread_mutex_lock(&stream->lock);
    return status;
}

/* Drives the head of the queue: by one task, or by `launches` launches (at least one). The lock is held; no other thread drives
 * the stream. */
static step_result step(emu_stream *stream, bool worker, uint64_t launches, int32_t timeout) {
    emu_task *task = stream->head;
    if (task == NULL || task->sequence > stream->released || (task->slow && !worker)) return STEP_NOTHING;
    const char *routine = emu_routine();
    bool in_time = true, skip = drops(stream) && (task == stream->unsent || task->answered == NULL);
    int status = 0;
    stream->driven = true;
    emu_set_routine(task->routine);
    if (!skip && fits_ring(task)) status = send_launches(stream);
    if (skip || status != 0) {
        end_head(stream, status);
    } else if (fits_ring(task)) {
        uint64_t most = under_way(stream), wanted = stream->connection.taken + (launches < most ? launches : most);
        pthread_mutex_unlock(&stream->lock);
        in_time = emu_link_await(&stream->connection, wanted, timeout);
        pthread_mutex_lock(&stream->lock);
        if (in_time || emu_link_done(&stream->connection)) take_in(stream);
    } else if (task->answered != NULL) {
        end_head(stream, call_launch(stream, task));
    } else if (task->awaited != NULL) {
        if (!lets_pass(task, stream)) {
            pthread_mutex_unlock(&stream->lock);
            in_time = emu_stream_wait_for(task->awaited, task->until, timeout);
            pthread_mutex_lock(&stream->lock);
        }
        if (in_time) end_head(stream, 0);
    } else {
        pthread_mutex_unlock(&stream->lock);
        status = run_task(task, stream);
        pthread_mutex_lock(&stream->lock);
        end_head(stream, status);
    }
    if (stream->unsent != NULL && send_launches(stream) != 0) free(emu_take_message()); /* reported when they are driven */
    emu_set_routine(routine);
    let_go(stream);
    return in_time ? STEP_DONE : STEP_TIMEOUT;
}

/* Whether there is a task that the device process does not do by itself, and that should not wait for a poll. */
static bool needs_driver(const emu_stream *stream) {
    if (stream->unsent == NULL || stream->unsent->sequence > stream->released) return false;
    return stream->pressing > 0 || stream->submitted - stream->completed >= WINDOW;
}

/* The number of launches up to a task, as far as it matters. */
static uint64_t launches_until(const emu_stream *stream, uint64_t sequence) {
    uint64_t count = 0;
    for (const emu_task *task = stream->head; task != NULL && task->sequence <= sequence && count < WINDOW; task = task->next)
        count += task->answered != NULL;
    return count;
}

static void *work(void *argument) {
    emu_stream *stream = argument;
    pthread_mutex_lock(&stream->lock);
    while (!stream->ending || stream->head != NULL || stream->driven) {
        bool useful = !stream->driven && (needs_driver(stream) || (stream->ending && stream->head != NULL));
        if (!useful || step(stream, true, under_way(stream) / 2 + 1, -1) == STEP_NOTHING) pthread_cond_wait(&stream->wake, &stream->lock);
    }
    pthread_mutex_unlock(&stream->lock);
    emu_object_release(stream);
    return NULL;
}

/* The worker blocks all signals: they belong to the client. */
static int start_worker(emu_stream *stream) {
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, old;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 512u << 10);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    emu_object_hold(stream);
    int failed = pthread_create(&thread, &attributes, work, stream);
    if (failed != 0) emu_object_release(stream);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    stream->worker = failed == 0;
    return failed;
}

/* Wakes the worker if it is needed. The lock is held. */
static int call_worker(emu_stream *stream) {
    if (stream->driven || !needs_driver(stream)) return 0;
    int failed = stream->worker ? 0 : start_worker(stream);
    if (failed == 0) pthread_cond_signal(&stream->wake);
    return failed;
}

static uint64_t add_task(emu_stream *stream, emu_task *task) {
    task->thread = emu_thread_number();
    uint64_t correlation = emu_activity_queued((uint32_t)stream->device->id, (uint32_t)stream->id);
    if (task->correlation == 0) task->correlation = correlation;
    task->next = NULL;
    task->sequence = ++stream->submitted;
    if (task->number != NULL) *task->number = task->sequence;
    if (stream->tail != NULL) stream->tail->next = task;
    else stream->head = task;
    stream->tail = task;
    if (stream->unsent == NULL) stream->unsent = task;
    if (!task->quiet) stream->pressing++;
    return task->sequence;
}

/* ------------------------------------------------------------------------------------------------------------ captures */

void emu_describe_nothing(emu_task *task, emu_captured *captured) {
    (void)task;
    (void)captured;
}

void emu_stream_enter(emu_stream *stream, emu_capture *capture) {
    emu_object_hold(stream);
    stream->lane = emu_capture_join(capture, stream, stream->base.handle, stream->id);
    stream->capture = capture;
}

void emu_stream_leave(emu_stream *stream) {
    stream->capture = NULL;
    emu_object_release(stream);
}

int emu_refuse_while_captured(emu_stream *stream, int status, const char *what) {
    char text[160];
    if (stream->capture == NULL) return 0;
    emu_captures_lock();
    emu_capture *capture = stream->capture;
    if (capture == NULL)
        status = 0;
    else if (capture->by_hand)
        emu_fail(status, NULL, "%s while stream %d is bound to model %u; its tasks run only with the model", what, stream->id, capture->model);
    else
        emu_fail(status, NULL, "%s while stream %d is captured (%s); do it before aclmdlRICaptureBegin or after aclmdlRICaptureEnd", what,
                 stream->id, emu_capture_describe(capture, text, sizeof text));
    emu_captures_unlock();
    return status;
}

int emu_refuse_captured(emu_stream *stream) { return emu_refuse_while_captured(stream, ACL_ERROR_RT_STREAM_CAPTURED, "not"); }

/* Records a task. */
static int capture_task(emu_stream *stream, emu_capture *capture, emu_task *task) {
    char text[160];
    const emu_lane *lane = &capture->lanes[stream->lane];
    if (capture->open_groups > 0 && lane->group == 0) {
        emu_capture_invalidate(capture, ACL_ERROR_STREAM_TASK_GROUP_INTR, "another stream was used while a task group was open");
        return emu_fail(ACL_ERROR_STREAM_TASK_GROUP_INTR, NULL, "stream %d is used while a task group is open on another stream (%s)",
                        stream->id, emu_capture_describe(capture, text, sizeof text));
    }
    if (task->describe == NULL)
        return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "this cannot be captured (%s)", emu_capture_describe(capture, text, sizeof text));
    emu_node node = {.kind = NODE_TASK, .routine = task->routine, .task = task, .lane = stream->lane};
    task->describe(task, &node.captured);
    emu_capture_add(capture, node);
    return 0;
}

/* Adds a task to those that replace a task group's. */
static int update_task(const emu_stream *stream, emu_update *update, emu_task *task) {
    if (task->answered == NULL)
        return emu_fail(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT, NULL, "stream %d updates a task group, which only operators can do", stream->id);
    if (update->count == update->wanted)
        return emu_fail(ACL_ERROR_RT_INTERNAL_ERROR, NULL, "the task group has %u task(s), and all have been replaced", update->wanted);
    update->tasks[update->count++] = task;
    return 0;
}

/* Hands a task to the capture, or the update, that the stream is in; *taken: there is one. */
static int divert(emu_stream *stream, emu_task *task, bool *taken) {
    emu_captures_lock();
    emu_capture *capture = stream->capture;
    emu_update *update = stream->update;
    *taken = capture != NULL || (update != NULL && !task->quiet && task->describe != NULL);
    int status = !*taken ? 0 : capture != NULL ? capture_task(stream, capture, task) : update_task(stream, update, task);
    emu_captures_unlock();
    if (status != 0) task->finish(task);
    else if (*taken) emu_activity_captured();
    return status;
}

int emu_stream_queue(emu_stream *stream, emu_task *task, uint64_t *sequence) {
    pthread_mutex_lock(&stream->lock);
    if (stream->ending) {
        pthread_mutex_unlock(&stream->lock);
        task->finish(task);
        return emu_fail(ACL_ERROR_RT_INVALID_HANDLE, "EMULATOR_USE_AFTER_DESTROY", "the stream %p has been destroyed", stream->base.handle);
    }
    *sequence = add_task(stream, task);
    if (under_way(stream) >= MANY && emu_link_done(&stream->connection) && !stream->driven) step(stream, false, 1, 0);
    /* What cannot be sent now is sent, or fails, when the stream is driven. */
    if (stream->unsent == task && send_launches(stream) != 0) free(emu_take_message());
    if (stream->head == task && task->quiet && !stream->driven) step(stream, false, 1, 0);
    int failed = call_worker(stream);
    pthread_mutex_unlock(&stream->lock);
    if (failed == 0) return 0;
    return emu_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, NULL, "cannot start a stream's thread: %s", strerror(failed));
}

void emu_stream_queued(emu_stream *stream, uint64_t sequence) {
    if (emu_config()->streams == STREAMS_EAGER) emu_stream_wait_for(stream, sequence, -1);
}

int emu_stream_enqueue(emu_stream *stream, emu_task *task) {
    bool taken = false;
    uint64_t sequence;
    if (stream->capture != NULL || stream->update != NULL) {
        int status = divert(stream, task, &taken);
        if (taken) return status;
    }
    if (stream->model != 0) {
        task->finish(task);
        return emu_fail(ACL_ERROR_RT_STREAM_MODEL, NULL, "stream %d belongs to model %u, which takes no more tasks", stream->id, stream->model);
    }
    int status = emu_stream_queue(stream, task, &sequence);
    if (status == 0) emu_stream_queued(stream, sequence);
    return status;
}

void emu_stream_let_run(emu_stream *stream, uint64_t sequence) {
    if (emu_config()->streams != STREAMS_DEFERRED) return;
    pthread_mutex_lock(&stream->lock);
    if (stream->released < sequence) stream->released = sequence;
    call_worker(stream);
    pthread_mutex_unlock(&stream->lock);
}

bool emu_stream_wait_for(emu_stream *stream, uint64_t sequence, int32_t timeout) {
    uint64_t end = emu_now() + (uint64_t)(timeout > 0 ? timeout : 0) * 1000000ull;
    struct timespec until = emu_deadline(timeout > 0 ? timeout : 0);
    bool in_time = true;
    pthread_mutex_lock(&stream->lock);
    if (stream->released < sequence) stream->released = sequence;
    while (stream->completed < sequence && in_time) {
        if (!stream->driven) {
            step_result result = step(stream, false, launches_until(stream, sequence), timeout < 0 ? -1 : emu_left(end));
            in_time = result != STEP_TIMEOUT;
            if (result != STEP_NOTHING) continue;
            call_worker(stream);
        }
        stream->waiters++;
        if (timeout < 0) pthread_cond_wait(&stream->progress, &stream->lock);
        else in_time = pthread_cond_timedwait(&stream->progress, &stream->lock, &until) != ETIMEDOUT;
        stream->waiters--;
    }
    in_time = stream->completed >= sequence;
    call_worker(stream); /* the worker does what follows */
    pthread_mutex_unlock(&stream->lock);
    return in_time;
}

/* Takes in finished launches and passed events. */
void emu_stream_poll(emu_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    while (!stream->driven && stream->head != NULL && (stream->head != stream->unsent || stream->head->quiet)) {
        if (step(stream, false, 1, 0) != STEP_DONE) break;
    }
    call_worker(stream);
    pthread_mutex_unlock(&stream->lock);
}

uint64_t emu_stream_last(emu_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    uint64_t sequence = stream->submitted;
    pthread_mutex_unlock(&stream->lock);
    return sequence;
}

bool emu_stream_passed(emu_stream *stream, uint64_t sequence) {
    emu_stream_poll(stream);
    pthread_mutex_lock(&stream->lock);
    uint64_t completed = stream->completed;
    pthread_mutex_unlock(&stream->lock);
    /* In deferred mode each query lets one more task run, so that programs that poll come to an end. */
    if (completed < sequence) emu_stream_let_run(stream, completed + 1);
    return completed >= sequence;
}

void emu_stream_break(emu_stream *stream, int status) {
    char *text = emu_take_message();
    if (text != NULL) emu_fail_with(status, text); /* for the caller of the call that breaks it */
    pthread_mutex_lock(&stream->lock);
    if (!stream->broken) {
        free(stream->error_text);
        stream->error = status;
        stream->error_text = text;
        stream->broken = true;
        text = NULL;
    }
    pthread_mutex_unlock(&stream->lock);
    free(text);
}

int emu_stream_take_error(emu_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    int status = stream->error;
    char *text = stream->error_text;
    if (stream->broken) {
        text = text != NULL ? strdup(text) : NULL;
    } else {
        stream->error = 0;
        stream->error_text = NULL;
    }
    pthread_mutex_unlock(&stream->lock);
    if (status != 0) {
        if (text != NULL) emu_fail_with(status, text);
        else emu_fail(status, NULL, "a task of the stream failed");
    }
    free(text);
    return status;
}

int emu_stream_wait(emu_stream *stream, int32_t timeout) {
    pthread_mutex_lock(&stream->lock);
    uint64_t last = stream->submitted, before = stream->aborted;
    pthread_mutex_unlock(&stream->lock);
    bool in_time = emu_stream_wait_for(stream, last, timeout);
    pthread_mutex_lock(&stream->lock);
    bool aborted = stream->aborted != before;
    pthread_mutex_unlock(&stream->lock);
    if (in_time && emu_validates()) emu_host_waited(stream->timeline);
    if (aborted) return emu_fail(ACL_ERROR_RT_DEVICE_TASK_ABORT, NULL, "aclrtDeviceTaskAbort has dropped what was waited for");
    return in_time ? emu_stream_take_error(stream) : emu_timed_out(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "EE1002", "the stream is not done", timeout);
}

/* The update of a task group that a stream has begun ends with the stream; another one can update the group then. */
static void abandon_update(emu_stream *stream) {
    emu_captures_lock();
    emu_update *update = stream->update;
    stream->update = NULL;
    emu_captures_unlock();
    if (update != NULL) update->abandon(update);
}

/* Ends a stream that has no handle and is in no list. force: tasks that have not begun are dropped. */
static int end_stream(emu_stream *stream, bool force) {
    abandon_update(stream);
    int status = force ? 0 : emu_stream_wait(stream, -1);
    pthread_mutex_lock(&stream->lock);
    stream->dropping = stream->dropping || force;
    stream->ending = true;
    stream->released = UINT64_MAX;
    if (stream->head != NULL && !stream->worker) start_worker(stream);
    pthread_cond_signal(&stream->wake);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

/* Takes a stream out of its context's list, whose reference the caller gets; false when another thread has done so. */
static bool unlist_stream(emu_stream *stream) {
    pthread_mutex_lock(&emu_world);
    emu_stream **link = &stream->context->streams;
    while (*link != NULL && *link != stream) link = &(*link)->next;
    bool listed = *link != NULL;
    if (listed) {
        *link = stream->next;
        if (stream->base.handle != stream->context->default_stream && !stream->uncounted) stream->device->streams--;
    }
    pthread_mutex_unlock(&emu_world);
    return listed;
}

int emu_stream_of_model(emu_context *context, uint32_t model, emu_stream **result) {
    void *handle = NULL;
    pthread_mutex_lock(&emu_world);
    int status = emu_stream_new(context, 0, 0, &handle);
    pthread_mutex_unlock(&emu_world);
    if (status == 0) *result = emu_object_acquire(handle, KIND_STREAM, &status);
    if (status != 0) return status;
    (*result)->model = model;
    (*result)->uncounted = true;
    emu_handle_hide(handle); /* it goes with its model */
    return 0;
}

void emu_stream_discard(emu_stream *stream) {
    emu_object_reclaim(stream);
    if (unlist_stream(stream)) { /* otherwise the end of its context ends it */
        end_stream(stream, true);
        emu_object_release(stream);
    }
    emu_object_release(stream);
}

/* ----------------------------------------------------------------------------------------------------- stream functions */

static int create_stream(aclrtStream *handle, uint32_t priority, uint32_t flags) {
    emu_context *context;
    void *created = NULL;
    if (handle == NULL) return emu_null_argument("stream");
    int status = emu_current_context(&context);
    if (status == 0) status = emu_link_check(context->device);
    if (status != 0) return status;
    emu_device *device = context->device;
    pthread_mutex_lock(&emu_world);
    uint32_t count = device->streams + 1; /* the default stream is one of them */
    if (context->ended)
        status = emu_fail(ACL_ERROR_RT_CONTEXT_NULL, "EMULATOR_NO_DEVICE", "the context has been destroyed by another thread");
    else if (count >= (uint32_t)emu_config()->soc.streams)
        status = emu_fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, NULL, "%u streams exist, the limit of %s", count,
                          emu_config()->soc.name);
    if (status == 0) status = emu_stream_new(context, priority, flags, &created);
    if (status == 0) device->streams = count;
    pthread_mutex_unlock(&emu_world);
    if (status != 0) return status;
    emu_link_start(device);
    *handle = created;
    return 0;
}

static int destroy_stream(aclrtStream handle, bool force) {
    EMU_HELD emu_stream *stream = NULL;
    int status = 0;
    if (handle == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_NULL_HANDLE", "the default stream cannot be destroyed");
    if (emu_handle_serial(handle) == 0) { /* for the message about a second destruction */
        emu_object_release(emu_object_destroy(handle, KIND_STREAM, &status));
        return status;
    }
    status = emu_stream_acquire(handle, &stream);
    if (status != 0) return status;
    if (handle == stream->context->default_stream)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "the default stream cannot be destroyed");
    status = emu_refuse_captured(stream);
    if (status == 0 && stream->model != 0)
        status = emu_fail(ACL_ERROR_RT_STREAM_MODEL, NULL, "stream %d belongs to model %u", stream->id, stream->model);
    if (status != 0) return status;
    emu_object_release(emu_object_destroy(handle, KIND_STREAM, &status));
    if (status == 0 && unlist_stream(stream)) { /* otherwise a reset on another thread ends it */
        status = end_stream(stream, force);
        emu_object_release(stream);
    }
    return status;
}

API aclError aclrtCreateStream(aclrtStream *stream) {
    ENTER("aclrtCreateStream");
    return create_stream(stream, 0, 0);
}

API aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag) {
    ENTER("aclrtCreateStreamWithConfig");
    return create_stream(stream, priority, flag);
}

typedef struct {
    emu_object base;
    aclrtStreamConfigHandle values;
} stream_config;

API aclrtStreamConfigHandle *aclrtCreateStreamConfigHandle(void) {
    ENTER_OR_NULL("aclrtCreateStreamConfigHandle");
    return emu_object_new(KIND_STREAM_CONFIG, calloc(1, sizeof(stream_config)), free);
}

API aclError aclrtDestroyStreamConfigHandle(aclrtStreamConfigHandle *handle) {
    ENTER_RELEASE("aclrtDestroyStreamConfigHandle");
    int status;
    emu_object_release(emu_object_destroy(handle, KIND_STREAM_CONFIG, &status));
    LEAVE(status);
}

API aclError aclrtSetStreamConfigOpt(aclrtStreamConfigHandle *handle, aclrtStreamConfigAttr attr, const void *attrValue,
                                     size_t valueSize) {
    ENTER("aclrtSetStreamConfigOpt");
    int status;
    EMU_HELD stream_config *config = emu_object_acquire(handle, KIND_STREAM_CONFIG, &status);
    if (config == NULL) return status;
    static const size_t sizes[] = {sizeof(void *), sizeof(size_t), sizeof(size_t), sizeof(uint32_t)};
    if (attrValue == NULL || (unsigned)attr > ACL_RT_STREAM_PRIORITY || valueSize != sizes[attr])
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "attribute is %d with a value of %zu bytes, which do not go together", (int)attr, valueSize);
    switch (attr) {
        case ACL_RT_STREAM_WORK_ADDR_PTR: memcpy(&config->values.workptr, attrValue, valueSize); break;
        case ACL_RT_STREAM_WORK_SIZE: memcpy(&config->values.workSize, attrValue, valueSize); break;
        case ACL_RT_STREAM_FLAG: memcpy(&config->values.flag, attrValue, valueSize); break;
        default: memcpy(&config->values.priority, attrValue, valueSize); break;
    }
    return 0;
}

API aclError aclrtCreateStreamV2(aclrtStream *stream, const aclrtStreamConfigHandle *handle) {
    ENTER("aclrtCreateStreamV2");
    int status;
    EMU_HELD stream_config *config = emu_object_acquire(handle, KIND_STREAM_CONFIG, &status);
    if (config == NULL) return status;
    return create_stream(stream, config->values.priority, (uint32_t)config->values.flag);
}

API aclError aclrtDestroyStream(aclrtStream stream) {
    ENTER_RELEASE("aclrtDestroyStream");
    LEAVE(destroy_stream(stream, false));
}

API aclError aclrtDestroyStreamForce(aclrtStream stream) {
    ENTER_RELEASE("aclrtDestroyStreamForce");
    LEAVE(destroy_stream(stream, true));
}

static int synchronize(aclrtStream handle, int32_t timeout) {
    EMU_HELD emu_stream *stream = NULL;
    int status = emu_stream_acquire(handle, &stream);
    if (status == 0) status = emu_refuse_captured(stream);
    if (status == 0) status = emu_stream_wait(stream, timeout);
    return status != 0 ? status : emu_link_check(stream->device);
}

API aclError aclrtSynchronizeStream(aclrtStream stream) {
    ENTER_RELEASE("aclrtSynchronizeStream");
    LEAVE(synchronize(stream, -1));
}

int emu_check_timeout(int32_t timeout) {
    if (timeout == -1 || timeout > 0) return 0;
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "timeout is %d; allowed: -1 or more than 0 milliseconds", timeout);
}

API aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
    ENTER_RELEASE("aclrtSynchronizeStreamWithTimeout");
    int status = emu_check_timeout(timeout);
    LEAVE(status != 0 ? status : synchronize(stream, timeout));
}

#define MOST_STREAMS 2048 /* no SoC has more */

/* All streams of a device in all contexts; the caller releases them. */
static size_t all_streams(const emu_device *device, emu_stream **streams) {
    size_t count = 0;
    pthread_mutex_lock(&emu_world);
    for (emu_context *context = device->contexts; context != NULL; context = context->next) {
        for (emu_stream *s = context->streams; s != NULL && count < MOST_STREAMS; s = s->next) {
            emu_object_hold(s);
            streams[count++] = s;
        }
    }
    pthread_mutex_unlock(&emu_world);
    return count;
}

void emu_streams_poll(emu_device *device) {
    emu_stream *streams[MOST_STREAMS];
    size_t count = all_streams(device, streams);
    for (size_t i = 0; i < count; i++) {
        emu_stream_poll(streams[i]);
        emu_object_release(streams[i]);
    }
}

void emu_streams_let_run(emu_device *device) {
    emu_stream *streams[MOST_STREAMS];
    size_t count = all_streams(device, streams);
    for (size_t i = 0; i < count; i++) {
        emu_stream_let_run(streams[i], emu_stream_last(streams[i]));
        emu_object_release(streams[i]);
    }
}

void emu_streams_drain(emu_device *device) {
    emu_stream *streams[MOST_STREAMS];
    size_t count = all_streams(device, streams);
    for (size_t i = 0; i < count; i++) emu_stream_let_run(streams[i], emu_stream_last(streams[i]));
    for (size_t i = 0; i < count; i++) {
        emu_stream_wait_for(streams[i], emu_stream_last(streams[i]), -1);
        emu_object_release(streams[i]);
    }
}

static int synchronize_device(int32_t timeout) {
    emu_context *context;
    int status = emu_current_context(&context);
    if (status != 0) return status;
    uint64_t end = timeout < 0 ? 0 : emu_now() + (uint64_t)timeout * 1000000ull;
    emu_stream *streams[MOST_STREAMS];
    size_t count = all_streams(context->device, streams);
    for (size_t i = 0; i < count && status == 0; i++) status = emu_refuse_captured(streams[i]);
    for (size_t i = 0; i < count && status == 0; i++) emu_stream_let_run(streams[i], emu_stream_last(streams[i]));
    for (size_t i = 0; i < count; i++) {
        int32_t left = timeout;
        if (timeout >= 0) {
            uint64_t at = emu_now();
            left = at < end ? (int32_t)((end - at) / 1000000ull) : 0;
        }
        /* A replay waits for the streams of its model. */
        if (status == 0 && streams[i]->model == 0) status = emu_stream_wait(streams[i], left);
        emu_object_release(streams[i]);
    }
    return status != 0 ? status : emu_link_check(context->device);
}

uint64_t emu_stream_abort(emu_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    uint64_t last = stream->submitted;
    stream->aborted = last;
    emu_link_drop(&stream->connection);
    pthread_mutex_unlock(&stream->lock);
    emu_stream_let_run(stream, last);
    return last;
}

API aclError aclrtDeviceTaskAbort(int32_t deviceId, uint32_t timeout) {
    ENTER("aclrtDeviceTaskAbort");
    int status = emu_check_device(deviceId);
    if (status != 0) return status;
    emu_stream *streams[MOST_STREAMS];
    uint64_t last[MOST_STREAMS];
    size_t count = all_streams(&emu_devices[deviceId], streams);
    bool ended = true;
    for (size_t i = 0; i < count; i++) last[i] = emu_stream_abort(streams[i]); /* of all streams first: they may wait for each other */
    for (size_t i = 0; i < count; i++) {
        ended = emu_stream_wait_for(streams[i], last[i], timeout == 0 ? -1 : (int32_t)(timeout < INT32_MAX ? timeout : INT32_MAX)) && ended;
        if (ended && emu_stream_take_error(streams[i]) != 0) free(emu_take_message()); /* the device is as new */
        emu_object_release(streams[i]);
    }
    return ended ? 0 : emu_fail(ACL_ERROR_RT_WAIT_TIMEOUT, NULL, "what has begun on device %d has not ended after %u ms", deviceId, timeout);
}

API aclError aclrtSynchronizeDevice(void) {
    ENTER_RELEASE("aclrtSynchronizeDevice");
    LEAVE(synchronize_device(-1));
}

API aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
    ENTER_RELEASE("aclrtSynchronizeDeviceWithTimeout");
    int status = emu_check_timeout(timeout);
    LEAVE(status != 0 ? status : synchronize_device(timeout));
}

API aclError aclrtStreamQuery(aclrtStream handle, aclrtStreamStatus *status) {
    ENTER("aclrtStreamQuery");
    EMU_HELD emu_stream *stream = NULL;
    if (status == NULL) return emu_null_argument("status");
    int failed = emu_stream_acquire(handle, &stream);
    if (failed != 0) return failed;
    failed = emu_refuse_captured(stream);
    if (failed == 0) failed = emu_link_check(stream->device);
    if (failed != 0) return failed;
    bool passed = emu_stream_passed(stream, emu_stream_last(stream));
    if (passed && emu_validates()) emu_host_waited(stream->timeline);
    *status = passed ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    return 0;
}

API aclError aclrtSetStreamFailureMode(aclrtStream handle, uint64_t mode) {
    ENTER("aclrtSetStreamFailureMode");
    EMU_WITH_STREAM(handle, stream->failure_mode = mode);
}

API aclError aclrtSetStreamOverflowSwitch(aclrtStream handle, uint32_t flag) {
    ENTER("aclrtSetStreamOverflowSwitch");
    EMU_WITH_STREAM(handle, if ((status_ = emu_refuse_captured(stream)) == 0) stream->overflow_switch = flag);
}

API aclError aclrtGetStreamOverflowSwitch(aclrtStream handle, uint32_t *flag) {
    ENTER("aclrtGetStreamOverflowSwitch");
    if (flag == NULL) return emu_null_argument("flag");
    EMU_WITH_STREAM(handle, *flag = stream->overflow_switch);
}

API aclError aclrtStreamGetId(aclrtStream handle, int32_t *streamId) {
    ENTER("aclrtStreamGetId");
    if (streamId == NULL) return emu_null_argument("streamId");
    EMU_WITH_STREAM(handle, *streamId = stream->id);
}

API aclError aclrtStreamGetPriority(aclrtStream handle, uint32_t *priority) {
    ENTER("aclrtStreamGetPriority");
    if (priority == NULL) return emu_null_argument("priority");
    EMU_WITH_STREAM(handle, *priority = stream->priority);
}

API aclError aclrtStreamGetFlags(aclrtStream handle, uint32_t *flags) {
    ENTER("aclrtStreamGetFlags");
    if (flags == NULL) return emu_null_argument("flags");
    EMU_WITH_STREAM(handle, *flags = stream->flags);
}

API aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream) {
    ENTER("aclrtCtxGetCurrentDefaultStream");
    emu_context *context;
    if (stream == NULL) return emu_null_argument("stream");
    int status = emu_current_context(&context);
    if (status == 0) *stream = context->default_stream;
    return status;
}

API aclError aclrtGetStreamAvailableNum(uint32_t *streamCount) {
    ENTER("aclrtGetStreamAvailableNum");
    emu_context *context;
    if (streamCount == NULL) return emu_null_argument("streamCount");
    int status = emu_current_context(&context);
    if (status == 0) *streamCount = (uint32_t)emu_config()->soc.streams - 1 - context->device->streams;
    return status;
}

/* Ends the streams of a reset device: they finish their work first, and their handles die. */
int emu_streams_reclaim(emu_context *context) {
    int status = 0;
    for (;;) {
        pthread_mutex_lock(&emu_world);
        emu_stream *stream = context->streams;
        if (stream != NULL) emu_object_hold(stream);
        pthread_mutex_unlock(&emu_world);
        if (stream == NULL) return status;
        emu_object_reclaim(stream);
        if (unlist_stream(stream)) { /* otherwise a thread that destroys it ends it */
            int failed = end_stream(stream, false);
            if (status == 0) status = failed;
            emu_object_release(stream);
        }
        emu_object_release(stream);
    }
}
