/* Streams are queues with a worker thread each; events mark points in them. */
#include "emu.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct emu_stream {
    emu_context *context;
    emu_device *device;
    emu_stream *next;             /* in the context's list, under emu_world */
    void *handle;                 /* NULL once destroyed */
    int id;
    uint32_t priority, flags;
    uint64_t failure_mode;
    uint32_t overflow_switch;
    _Atomic uint32_t references;

    pthread_mutex_t lock;
    pthread_cond_t wake;          /* for the worker: there is work, or the end */
    pthread_cond_t progress;      /* for waiters: a task has ended */
    emu_task *head, *tail;
    uint64_t submitted, completed;
    uint64_t released;            /* deferred mode: tasks up to this number may run */
    bool worker, ending, dropping;
    int waiters;
    int error;
    char *error_text;
    pthread_mutex_t running;      /* eager mode: one task at a time */
    /* host callbacks (aclrtSubscribeReport) */
    uint64_t subscriber;
};

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

static struct timespec deadline(int32_t milliseconds) {
    uint64_t at = now() + (uint64_t)milliseconds * 1000000ull;
    return (struct timespec){(time_t)(at / 1000000000ull), (long)(at % 1000000000ull)};
}

static void make_condition(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* ------------------------------------------------------------------------------------------------------ life of streams */

static _Atomic int stream_ids = 1;

int emu_stream_new(emu_context *context, uint32_t priority, uint32_t flags, emu_stream **result) {
    emu_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) return emu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EMULATOR_OUT_OF_MEMORY", "no host memory");
    stream->context = context;
    stream->device = context->device;
    stream->priority = priority;
    stream->flags = flags;
    stream->references = 1;
    stream->id = stream_ids++;
    stream->released = emu_config()->streams == STREAMS_DEFERRED ? 0 : UINT64_MAX;
    pthread_mutex_init(&stream->lock, NULL);
    pthread_mutex_init(&stream->running, NULL);
    make_condition(&stream->wake);
    make_condition(&stream->progress);
    stream->handle = emu_handle_new(KIND_STREAM, stream);
    if (stream->handle == NULL) {
        emu_stream_release(stream);
        return ACL_ERROR_RT_NO_STREAM_RESOURCE;
    }
    *result = stream;
    return 0;
}

void emu_stream_release(emu_stream *stream) {
    if (--stream->references > 0) return;
    pthread_mutex_destroy(&stream->lock);
    pthread_mutex_destroy(&stream->running);
    pthread_cond_destroy(&stream->wake);
    pthread_cond_destroy(&stream->progress);
    free(stream->error_text);
    free(stream);
}

emu_device *emu_stream_device(const emu_stream *stream) { return stream->device; }

int emu_stream_acquire(aclrtStream handle, emu_stream **result) {
    emu_context *context;
    void *object = NULL;
    int status = emu_current_context(&context);
    if (status != 0) return status;
    if (handle == NULL) {
        *result = context->default_stream;
        context->default_stream->references++;
        return 0;
    }
    emu_table_lock();
    status = emu_handle_find(handle, KIND_STREAM, &object);
    if (status == 0) ((emu_stream *)object)->references++;
    emu_table_unlock();
    if (status != 0) return status;
    emu_stream *stream = object;
    if (stream->context != context) {
        int other = stream->device->id;
        emu_stream_release(stream);
        return emu_fail(ACL_ERROR_RT_STREAM_CONTEXT, "EMULATOR_WRONG_CONTEXT",
                        "the stream %p is of another context (device %d) than this thread's (device %d)", handle, other,
                        context->device->id);
    }
    *result = stream;
    return 0;
}

/* ----------------------------------------------------------------------------------------------------------- execution */

/* Runs one task in this thread and notes its error. */
static void run_task(emu_stream *stream, emu_task *task) {
    uint64_t sequence = task->sequence;
    pthread_mutex_lock(&stream->lock);
    bool skip = stream->dropping || (stream->error != 0 && stream->failure_mode == ACL_STOP_ON_FAILURE);
    pthread_mutex_unlock(&stream->lock);
    const char *routine = emu_routine();
    emu_set_routine(task->routine);
    int status = skip ? 0 : task->run(task, stream);
    char *text = status != 0 ? emu_take_message() : NULL;
    emu_set_routine(routine);
    task->finish(task);
    pthread_mutex_lock(&stream->lock);
    if (status != 0 && stream->error == 0) {
        stream->error = status;
        stream->error_text = text;
        text = NULL;
    }
    stream->completed = sequence;
    if (stream->waiters > 0) pthread_cond_broadcast(&stream->progress);
    pthread_mutex_unlock(&stream->lock);
    free(text);
}

static void *work(void *argument) {
    emu_stream *stream = argument;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while ((stream->head == NULL || stream->head->sequence > stream->released) && !stream->ending)
            pthread_cond_wait(&stream->wake, &stream->lock);
        emu_task *task = stream->head;
        if (task == NULL) break;
        stream->head = task->next;
        if (stream->head == NULL) stream->tail = NULL;
        pthread_mutex_unlock(&stream->lock);
        run_task(stream, task);
        pthread_mutex_lock(&stream->lock);
    }
    pthread_mutex_unlock(&stream->lock);
    emu_stream_release(stream);
    return NULL;
}

/* The worker handles no signals: they are the client's. */
static int start_worker(emu_stream *stream) {
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, old;
    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, 512u << 10);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    stream->references++;
    int failed = pthread_create(&thread, &attributes, work, stream);
    if (failed != 0) stream->references--;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attributes);
    stream->worker = failed == 0;
    return failed;
}

static void take_number(emu_stream *stream, emu_task *task) {
    task->sequence = ++stream->submitted;
    if (task->number != NULL) *task->number = task->sequence;
}

int emu_stream_enqueue(emu_stream *stream, emu_task *task) {
    if (emu_config()->streams == STREAMS_EAGER) {
        pthread_mutex_lock(&stream->running);
        pthread_mutex_lock(&stream->lock);
        take_number(stream, task);
        pthread_mutex_unlock(&stream->lock);
        run_task(stream, task);
        pthread_mutex_unlock(&stream->running);
        return 0;
    }
    pthread_mutex_lock(&stream->lock);
    int failed = stream->worker ? 0 : start_worker(stream);
    if (failed == 0) {
        task->next = NULL;
        take_number(stream, task);
        if (stream->tail != NULL) stream->tail->next = task;
        else stream->head = task;
        stream->tail = task;
        if (task->sequence <= stream->released) pthread_cond_signal(&stream->wake);
    }
    pthread_mutex_unlock(&stream->lock);
    if (failed == 0) return 0;
    task->finish(task);
    return emu_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, NULL, "cannot start a stream's thread: %s", strerror(failed));
}

/* Deferred mode: lets tasks up to a number run. */
static void let_run(emu_stream *stream, uint64_t sequence) {
    if (emu_config()->streams != STREAMS_DEFERRED) return;
    pthread_mutex_lock(&stream->lock);
    if (stream->released < sequence) {
        stream->released = sequence;
        pthread_cond_signal(&stream->wake);
    }
    pthread_mutex_unlock(&stream->lock);
}

/* Waits until the task with a number has ended: false on timeout. */
static bool wait_for(emu_stream *stream, uint64_t sequence, int32_t timeout) {
    let_run(stream, sequence);
    struct timespec until = deadline(timeout > 0 ? timeout : 0);
    bool in_time = true;
    pthread_mutex_lock(&stream->lock);
    stream->waiters++;
    while (stream->completed < sequence && in_time) {
        if (timeout < 0) pthread_cond_wait(&stream->progress, &stream->lock);
        else in_time = pthread_cond_timedwait(&stream->progress, &stream->lock, &until) != ETIMEDOUT;
    }
    stream->waiters--;
    in_time = stream->completed >= sequence;
    pthread_mutex_unlock(&stream->lock);
    return in_time;
}

static uint64_t last_submitted(emu_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    uint64_t sequence = stream->submitted;
    pthread_mutex_unlock(&stream->lock);
    return sequence;
}

/* Hands the stream's error to the calling thread, once. */
static int take_error(emu_stream *stream) {
    pthread_mutex_lock(&stream->lock);
    int status = stream->error;
    char *text = stream->error_text;
    stream->error = 0;
    stream->error_text = NULL;
    pthread_mutex_unlock(&stream->lock);
    if (status != 0) {
        if (text != NULL) emu_fail_with(status, text);
        else emu_fail(status, NULL, "a task of the stream failed");
    }
    free(text);
    return status;
}

int emu_stream_wait(emu_stream *stream, int32_t timeout, int timeout_status) {
    if (!wait_for(stream, last_submitted(stream), timeout))
        return emu_fail(timeout_status, NULL, "the stream is not done after %d ms", timeout);
    return take_error(stream);
}

int emu_stream_end(emu_stream *stream, bool force) {
    pthread_mutex_lock(&stream->lock);
    stream->dropping = stream->dropping || force;
    pthread_mutex_unlock(&stream->lock);
    int status = 0;
    if (force) let_run(stream, UINT64_MAX);
    else status = emu_stream_wait(stream, -1, 0);
    pthread_mutex_lock(&stream->lock);
    stream->ending = true;
    stream->released = UINT64_MAX;
    pthread_cond_signal(&stream->wake);
    pthread_mutex_unlock(&stream->lock);
    emu_stream_release(stream);
    return status;
}

/* ----------------------------------------------------------------------------------------------------- stream functions */

static int create_stream(aclrtStream *handle, uint32_t priority, uint32_t flags) {
    emu_context *context;
    emu_stream *stream;
    if (handle == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "stream is a null pointer");
    int status = emu_current_context(&context);
    if (status != 0) return status;
    pthread_mutex_lock(&emu_world);
    uint32_t count = ++context->device->streams;
    pthread_mutex_unlock(&emu_world);
    if (count >= (uint32_t)emu_config()->chip.streams) /* the default stream is one of them */
        status = emu_fail(ACL_ERROR_RT_NO_STREAM_RESOURCE, NULL, "%u streams exist, the limit of %s", count,
                          emu_config()->chip.name);
    if (status == 0) status = emu_stream_new(context, priority, flags, &stream);
    pthread_mutex_lock(&emu_world);
    if (status == 0) {
        emu_stream_adopt(stream);
        *handle = stream->handle;
    } else {
        context->device->streams--;
    }
    pthread_mutex_unlock(&emu_world);
    return status;
}

static int destroy_stream(aclrtStream handle, bool force) {
    emu_stream *stream;
    void *object;
    if (handle == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, "EMULATOR_NULL_HANDLE", "the default stream cannot be destroyed");
    emu_table_lock();
    bool destroyed = emu_handle_serial(handle) == 0;
    emu_table_unlock();
    if (destroyed) return emu_handle_drop(handle, KIND_STREAM, &object);
    int status = emu_stream_acquire(handle, &stream);
    if (status != 0) return status;
    if (stream == stream->context->default_stream) {
        emu_stream_release(stream);
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "the default stream cannot be destroyed");
    }
    status = emu_handle_drop(handle, KIND_STREAM, &object);
    if (status == 0) {
        pthread_mutex_lock(&emu_world);
        for (emu_stream **link = &stream->context->streams; *link != NULL; link = &(*link)->next) {
            if (*link == stream) {
                *link = stream->next;
                break;
            }
        }
        stream->device->streams--;
        pthread_mutex_unlock(&emu_world);
        status = emu_stream_end(stream, force);
    }
    emu_stream_release(stream);
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

API aclrtStreamConfigHandle *aclrtCreateStreamConfigHandle(void) {
    ENTER_OR_NULL("aclrtCreateStreamConfigHandle");
    aclrtStreamConfigHandle *config = calloc(1, sizeof *config);
    void *handle = config != NULL ? emu_handle_new(KIND_STREAM_CONFIG, config) : NULL;
    if (handle == NULL) free(config);
    return handle;
}

API aclError aclrtDestroyStreamConfigHandle(aclrtStreamConfigHandle *handle) {
    ENTER_RELEASE("aclrtDestroyStreamConfigHandle");
    void *config = NULL;
    int status = emu_handle_drop(handle, KIND_STREAM_CONFIG, &config);
    if (status == 0) free(config);
    LEAVE(status);
}

API aclError aclrtSetStreamConfigOpt(aclrtStreamConfigHandle *handle, aclrtStreamConfigAttr attr, const void *attrValue,
                                     size_t valueSize) {
    ENTER("aclrtSetStreamConfigOpt");
    void *object;
    int status = emu_handle_find(handle, KIND_STREAM_CONFIG, &object);
    if (status != 0) return status;
    aclrtStreamConfigHandle *config = object;
    static const size_t sizes[] = {sizeof(void *), sizeof(size_t), sizeof(size_t), sizeof(uint32_t)};
    if (attrValue == NULL || (unsigned)attr > ACL_RT_STREAM_PRIORITY || valueSize != sizes[attr])
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "attribute %d with a value of %zu bytes", (int)attr, valueSize);
    switch (attr) {
        case ACL_RT_STREAM_WORK_ADDR_PTR: memcpy(&config->workptr, attrValue, valueSize); break;
        case ACL_RT_STREAM_WORK_SIZE: memcpy(&config->workSize, attrValue, valueSize); break;
        case ACL_RT_STREAM_FLAG: memcpy(&config->flag, attrValue, valueSize); break;
        default: memcpy(&config->priority, attrValue, valueSize); break;
    }
    return 0;
}

API aclError aclrtCreateStreamV2(aclrtStream *stream, const aclrtStreamConfigHandle *handle) {
    ENTER("aclrtCreateStreamV2");
    void *object;
    int status = emu_handle_find(handle, KIND_STREAM_CONFIG, &object);
    if (status != 0) return status;
    const aclrtStreamConfigHandle *config = object;
    return create_stream(stream, config->priority, (uint32_t)config->flag);
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
    emu_stream *stream;
    int status = emu_stream_acquire(handle, &stream);
    if (status != 0) return status;
    status = emu_stream_wait(stream, timeout, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    emu_stream_release(stream);
    return status;
}

API aclError aclrtSynchronizeStream(aclrtStream stream) {
    ENTER("aclrtSynchronizeStream");
    return synchronize(stream, -1);
}

static int check_timeout(int32_t timeout) {
    if (timeout == -1 || timeout > 0) return 0;
    return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "timeout is %d; allowed: -1 or more than 0 milliseconds", timeout);
}

API aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
    ENTER("aclrtSynchronizeStreamWithTimeout");
    int status = check_timeout(timeout);
    return status != 0 ? status : synchronize(stream, timeout);
}

#define MOST_STREAMS 2048 /* no chip has more */

/* All streams of a device, whatever their context. */
static int synchronize_device(int32_t timeout) {
    emu_context *context;
    int status = emu_current_context(&context);
    if (status != 0) return status;
    uint64_t end = timeout < 0 ? 0 : now() + (uint64_t)timeout * 1000000ull;
    emu_stream *streams[MOST_STREAMS];
    size_t count = 0;
    pthread_mutex_lock(&emu_world);
    for (emu_context *c = context->device->contexts; c != NULL; c = c->next) {
        for (emu_stream *s = c->streams; s != NULL && count < MOST_STREAMS; s = s->next) {
            s->references++;
            streams[count++] = s;
        }
    }
    pthread_mutex_unlock(&emu_world);
    for (size_t i = 0; i < count; i++) let_run(streams[i], last_submitted(streams[i]));
    for (size_t i = 0; i < count; i++) {
        int32_t left = timeout;
        if (timeout >= 0) {
            uint64_t at = now();
            left = at < end ? (int32_t)((end - at) / 1000000ull) : 0;
        }
        if (status == 0) status = emu_stream_wait(streams[i], left, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
        emu_stream_release(streams[i]);
    }
    return status;
}

API aclError aclrtSynchronizeDevice(void) {
    ENTER("aclrtSynchronizeDevice");
    return synchronize_device(-1);
}

API aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout) {
    ENTER("aclrtSynchronizeDeviceWithTimeout");
    int status = check_timeout(timeout);
    return status != 0 ? status : synchronize_device(timeout);
}

API aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status) {
    ENTER("aclrtStreamQuery");
    emu_stream *found;
    if (status == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "status is a null pointer");
    int failed = emu_stream_acquire(stream, &found);
    if (failed != 0) return failed;
    pthread_mutex_lock(&found->lock);
    uint64_t completed = found->completed;
    *status = completed == found->submitted ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    pthread_mutex_unlock(&found->lock);
    /* So that a program which polls comes to an end in deferred mode, too: each question lets one task run. */
    if (*status != ACL_STREAM_STATUS_COMPLETE) let_run(found, completed + 1);
    emu_stream_release(found);
    return 0;
}

#define WITH_STREAM(body)                                       \
    emu_stream *found;                                          \
    int status_ = emu_stream_acquire(stream, &found);           \
    if (status_ != 0) return status_;                           \
    body;                                                       \
    emu_stream_release(found);                                  \
    return 0

API aclError aclrtSetStreamFailureMode(aclrtStream stream, uint64_t mode) {
    ENTER("aclrtSetStreamFailureMode");
    WITH_STREAM(found->failure_mode = mode);
}

API aclError aclrtSetStreamOverflowSwitch(aclrtStream stream, uint32_t flag) {
    ENTER("aclrtSetStreamOverflowSwitch");
    WITH_STREAM(found->overflow_switch = flag);
}

API aclError aclrtGetStreamOverflowSwitch(aclrtStream stream, uint32_t *flag) {
    ENTER("aclrtGetStreamOverflowSwitch");
    if (flag == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "flag is a null pointer");
    WITH_STREAM(*flag = found->overflow_switch);
}

API aclError aclrtStreamGetId(aclrtStream stream, int32_t *streamId) {
    ENTER("aclrtStreamGetId");
    if (streamId == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "streamId is a null pointer");
    WITH_STREAM(*streamId = found->id);
}

API aclError aclrtStreamGetPriority(aclrtStream stream, uint32_t *priority) {
    ENTER("aclrtStreamGetPriority");
    if (priority == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "priority is a null pointer");
    WITH_STREAM(*priority = found->priority);
}

API aclError aclrtStreamGetFlags(aclrtStream stream, uint32_t *flags) {
    ENTER("aclrtStreamGetFlags");
    if (flags == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "flags is a null pointer");
    WITH_STREAM(*flags = found->flags);
}

API aclError aclrtCtxGetCurrentDefaultStream(aclrtStream *stream) {
    ENTER("aclrtCtxGetCurrentDefaultStream");
    emu_context *context;
    if (stream == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "stream is a null pointer");
    int status = emu_current_context(&context);
    if (status == 0) *stream = context->default_stream->handle;
    return status;
}

API aclError aclrtGetStreamAvailableNum(uint32_t *streamCount) {
    ENTER("aclrtGetStreamAvailableNum");
    emu_context *context;
    if (streamCount == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "streamCount is a null pointer");
    int status = emu_current_context(&context);
    if (status == 0) *streamCount = (uint32_t)emu_config()->chip.streams - 1 - context->device->streams;
    return status;
}

/* Adds a stream to its context, as the first one. */
void emu_stream_adopt(emu_stream *stream) {
    stream->next = stream->context->streams;
    stream->context->streams = stream;
}

/* A reset device takes its streams away: they finish their work first, and their handles die. */
int emu_streams_reclaim(emu_context *context) {
    int status = 0;
    for (;;) {
        pthread_mutex_lock(&emu_world);
        emu_stream *stream = context->streams;
        if (stream != NULL) context->streams = stream->next;
        pthread_mutex_unlock(&emu_world);
        if (stream == NULL) return status;
        emu_handle_reclaim(stream->handle);
        int failed = emu_stream_end(stream, false);
        if (status == 0) status = failed;
    }
}

void *emu_stream_handle(const emu_stream *stream) { return stream->handle; }

/* -------------------------------------------------------------------------------------------------------------- events */

/* One recording of an event. Streams that wait hold on to the recording, so the event may be recorded again, or be
 * destroyed, while they wait. */
typedef struct {
    _Atomic uint32_t references;
    emu_stream *stream;
    uint64_t sequence;
    _Atomic bool done;
    _Atomic uint64_t time;
} recording;

typedef struct {
    emu_device *device;
    emu_context *context;
    uint32_t flags;
    enum { EVENT_PLAIN, EVENT_FLAG, EVENT_EX } made;
    recording *latest; /* NULL: not recorded, or reset; under events_lock */
    uint32_t id;
} event;

static pthread_mutex_t events_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t event_ids = 1;

static void drop_recording(recording *record) {
    if (record == NULL || --record->references > 0) return;
    emu_stream_release(record->stream);
    free(record);
}

static recording *latest_of(const event *which) {
    pthread_mutex_lock(&events_lock);
    recording *record = which->latest;
    if (record != NULL) record->references++;
    pthread_mutex_unlock(&events_lock);
    return record;
}

static void set_latest(event *which, recording *record) {
    pthread_mutex_lock(&events_lock);
    recording *old = which->latest;
    which->latest = record;
    pthread_mutex_unlock(&events_lock);
    drop_recording(old);
}

static int find_event(aclrtEvent handle, event **result) {
    emu_context *context;
    void *object;
    int status = emu_current_context(&context);
    if (status == 0) status = emu_handle_find(handle, KIND_EVENT, &object);
    if (status == 0) *result = object;
    return status;
}

static int create_event(aclrtEvent *handle, uint32_t flags, int made) {
    emu_context *context;
    if (handle == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "event is a null pointer");
    int status = emu_current_context(&context);
    if (status != 0) return status;
    emu_device *device = context->device;
    pthread_mutex_lock(&emu_world);
    uint32_t count = ++device->events;
    pthread_mutex_unlock(&emu_world);
    event *made_event = NULL;
    if (made != EVENT_EX && count > (uint32_t)emu_config()->chip.events) {
        status = emu_fail(ACL_ERROR_RT_NO_EVENT_RESOURCE, NULL, "%u events exist, the limit of %s", count - 1,
                          emu_config()->chip.name);
    } else {
        made_event = calloc(1, sizeof *made_event);
        if (made_event != NULL) {
            *made_event = (event){device, context, flags, made, NULL, event_ids++};
            *handle = emu_handle_new(KIND_EVENT, made_event);
            if (*handle == NULL) status = ACL_ERROR_RT_NO_EVENT_RESOURCE;
        } else {
            status = emu_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EMULATOR_OUT_OF_MEMORY", "no host memory");
        }
    }
    if (status != 0) {
        free(made_event);
        pthread_mutex_lock(&emu_world);
        device->events--;
        pthread_mutex_unlock(&emu_world);
    }
    return status;
}

#define EVERY_FLAG (ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE | ACL_EVENT_EXTERNAL | ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_IPC)

static int check_flags(uint32_t flags) {
    if (flags == 0 || (flags & ~(uint32_t)EVERY_FLAG) != 0)
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "flag is %#x; allowed: any of %#x", flags, (unsigned)EVERY_FLAG);
    return 0;
}

API aclError aclrtCreateEvent(aclrtEvent *event) {
    ENTER("aclrtCreateEvent");
    return create_event(event, ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE, EVENT_PLAIN);
}

API aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag) {
    ENTER("aclrtCreateEventWithFlag");
    int status = check_flags(flag);
    return status != 0 ? status : create_event(event, flag, EVENT_FLAG);
}

API aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag) {
    ENTER("aclrtCreateEventExWithFlag");
    int status = check_flags(flag);
    return status != 0 ? status : create_event(event, flag, EVENT_EX);
}

API aclError aclrtDestroyEvent(aclrtEvent handle) {
    ENTER_RELEASE("aclrtDestroyEvent");
    void *object = NULL;
    int status = emu_handle_drop(handle, KIND_EVENT, &object);
    if (status == 0) {
        event *old = object;
        set_latest(old, NULL);
        pthread_mutex_lock(&emu_world);
        old->device->events--;
        pthread_mutex_unlock(&emu_world);
        free(old);
    }
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
    record->time = now();
    record->done = true;
    return 0;
}

/* The error of the other stream is told where that stream is synchronised. */
static int run_wait(emu_task *task, emu_stream *stream) {
    recording *record = ((event_task *)task)->record;
    if (record->stream != stream) wait_for(record->stream, record->sequence, -1);
    return 0;
}

static emu_task *make_event_task(recording *record, int (*run)(emu_task *, emu_stream *)) {
    event_task *made = calloc(1, sizeof *made);
    if (made == NULL) abort();
    made->task = (emu_task){.run = run, .finish = finish_event, .routine = emu_routine()};
    made->record = record;
    return &made->task;
}

static int record_event(aclrtEvent handle, aclrtStream stream_handle) {
    event *which;
    emu_stream *stream;
    int status = find_event(handle, &which);
    if (status == 0) status = emu_stream_acquire(stream_handle, &stream);
    if (status != 0) return status;
    if (which->device != stream->device) {
        emu_stream_release(stream);
        return emu_fail(ACL_ERROR_RT_STREAM_CONTEXT, "EMULATOR_WRONG_CONTEXT", "the event is of device %d, the stream of device %d",
                        which->device->id, stream->device->id);
    }
    recording *record = calloc(1, sizeof *record);
    if (record == NULL) abort();
    record->references = 2; /* the event's and the task's */
    record->stream = stream;
    stream->references++;
    emu_task *task = make_event_task(record, run_record);
    task->number = &record->sequence;
    status = emu_stream_enqueue(stream, task);
    if (status == 0) set_latest(which, record);
    else drop_recording(record);
    emu_stream_release(stream);
    return status;
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

static int wait_event(aclrtStream stream_handle, aclrtEvent handle) {
    event *which;
    emu_stream *stream;
    int status = find_event(handle, &which);
    if (status == 0) status = emu_stream_acquire(stream_handle, &stream);
    if (status != 0) return status;
    if (which->made == EVENT_FLAG && (which->flags & ACL_EVENT_SYNC) == 0) {
        emu_stream_release(stream);
        return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "the event was made with flag %#x, without ACL_EVENT_SYNC", which->flags);
    }
    recording *record = latest_of(which);
    if (record != NULL) status = emu_stream_enqueue(stream, make_event_task(record, run_wait));
    emu_stream_release(stream);
    return status;
}

API aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
    ENTER("aclrtStreamWaitEvent");
    return wait_event(stream, event);
}

API aclError aclrtStreamWaitEventWithTimeout(aclrtStream stream, aclrtEvent event, int32_t timeout) {
    ENTER("aclrtStreamWaitEventWithTimeout");
    (void)timeout; /* of the device's own waiting; a recording always comes to pass here */
    return wait_event(stream, event);
}

API aclError aclrtResetEvent(aclrtEvent handle, aclrtStream stream_handle) {
    ENTER("aclrtResetEvent");
    event *which;
    emu_stream *stream;
    int status = find_event(handle, &which);
    if (status == 0) status = emu_stream_acquire(stream_handle, &stream);
    if (status != 0) return status;
    emu_stream_release(stream);
    if (which->made != EVENT_FLAG)
        return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "only events of aclrtCreateEventWithFlag can be reset");
    set_latest(which, NULL);
    return 0;
}

static bool recording_done(const recording *record) {
    if (record->done) return true;
    pthread_mutex_lock(&record->stream->lock);
    bool done = record->stream->completed >= record->sequence;
    pthread_mutex_unlock(&record->stream->lock);
    return done;
}

/* Whether what was recorded has passed; lets deferred streams advance as aclrtStreamQuery does. */
static int query_event(aclrtEvent handle, bool *done) {
    event *which;
    int status = find_event(handle, &which);
    if (status != 0) return status;
    recording *record = latest_of(which);
    *done = record != NULL ? recording_done(record) : which->made == EVENT_EX;
    if (record != NULL && !*done) {
        pthread_mutex_lock(&record->stream->lock);
        uint64_t next = record->stream->completed + 1;
        pthread_mutex_unlock(&record->stream->lock);
        let_run(record->stream, next);
    }
    drop_recording(record);
    return 0;
}

static int refuse_ex(aclrtEvent handle) {
    event *which;
    int status = find_event(handle, &which);
    if (status == 0 && which->made == EVENT_EX)
        return emu_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, NULL, "not for events of aclrtCreateEventExWithFlag");
    return status;
}

API aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status) {
    ENTER("aclrtQueryEventStatus");
    bool done;
    if (status == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "status is a null pointer");
    int failed = query_event(event, &done);
    if (failed == 0) *status = done ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return failed;
}

/* The older query counts the other way round. */
API aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status) {
    ENTER("aclrtQueryEvent");
    bool done;
    if (status == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "status is a null pointer");
    int failed = refuse_ex(event);
    if (failed == 0) failed = query_event(event, &done);
    if (failed == 0) *status = done ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    return failed;
}

API aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus *status) {
    ENTER("aclrtQueryEventWaitStatus");
    bool done;
    if (status == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "status is a null pointer");
    int failed = refuse_ex(event);
    if (failed == 0) failed = query_event(event, &done);
    if (failed == 0) *status = done ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
    return failed;
}

static int synchronize_event(aclrtEvent handle, int32_t timeout) {
    event *which;
    int status = find_event(handle, &which);
    if (status != 0) return status;
    recording *record = latest_of(which);
    if (record != NULL && !record->done && !wait_for(record->stream, record->sequence, timeout))
        status = emu_fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, NULL, "the event has not passed after %d ms", timeout);
    drop_recording(record);
    return status;
}

API aclError aclrtSynchronizeEvent(aclrtEvent event) {
    ENTER("aclrtSynchronizeEvent");
    return synchronize_event(event, -1);
}

API aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
    ENTER("aclrtSynchronizeEventWithTimeout");
    int status = check_timeout(timeout);
    return status != 0 ? status : synchronize_event(event, timeout);
}

/* When an event passed, in nanoseconds. */
static int time_of(aclrtEvent handle, uint64_t *time) {
    event *which;
    int status = find_event(handle, &which);
    if (status != 0) return status;
    if ((which->flags & ACL_EVENT_TIME_LINE) == 0)
        return emu_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, NULL, "the event was made with flag %#x, without ACL_EVENT_TIME_LINE",
                        which->flags);
    recording *record = latest_of(which);
    if (record == NULL) return emu_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, NULL, "the event has not been recorded");
    if (record->done) *time = record->time;
    else status = emu_fail(ACL_ERROR_RT_EVENT_NOT_COMPLETE, NULL, "the event has not passed yet; synchronize first");
    drop_recording(record);
    return status;
}

API aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent) {
    ENTER("aclrtEventElapsedTime");
    uint64_t start, end;
    if (ms == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "ms is a null pointer");
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
    if (timestamp == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "timestamp is a null pointer");
    int status = time_of(event, &time);
    if (status == 0) *timestamp = time / 1000;
    return status;
}

API aclError aclrtGetEventId(aclrtEvent event_handle, uint32_t *eventId) {
    ENTER("aclrtGetEventId");
    event *which;
    if (eventId == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "eventId is a null pointer");
    int status = find_event(event_handle, &which);
    if (status == 0) *eventId = which->id;
    return status;
}

API aclError aclrtGetEventAvailNum(uint32_t *eventCount) {
    ENTER("aclrtGetEventAvailNum");
    emu_context *context;
    if (eventCount == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "eventCount is a null pointer");
    int status = emu_current_context(&context);
    if (status == 0) *eventCount = (uint32_t)emu_config()->chip.events - context->device->events;
    return status;
}

/* ------------------------------------------------------------------------------------------------------ host callbacks */

typedef struct callback callback;

struct callback {
    emu_task task;
    void (*function)(void *);
    void *argument;
    bool blocks;
    callback *next;
    bool *done; /* where the stream waits */
};

static int run_host_function(emu_task *task, emu_stream *stream) {
    (void)stream;
    callback *call = (callback *)task;
    call->function(call->argument);
    return 0;
}

static void finish_callback(emu_task *task) { free(task); }

API aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args) {
    ENTER("aclrtLaunchHostFunc");
    emu_stream *target;
    if (fn == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "fn is a null pointer");
    int status = emu_stream_acquire(stream, &target);
    if (status != 0) return status;
    callback *call = calloc(1, sizeof *call);
    if (call == NULL) abort();
    call->task = (emu_task){.run = run_host_function, .finish = finish_callback, .routine = emu_routine()};
    call->function = fn;
    call->argument = args;
    status = emu_stream_enqueue(target, &call->task);
    emu_stream_release(target);
    return status;
}

/* Callbacks that wait for a thread to call aclrtProcessReport. */
typedef struct report_queue report_queue;

struct report_queue {
    uint64_t thread;
    uint32_t streams; /* subscribed to this thread */
    callback *first, *last;
    report_queue *next;
};

static pthread_mutex_t reports_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t reports_changed;
static pthread_once_t reports_once = PTHREAD_ONCE_INIT;
static report_queue *reports;

static void make_reports(void) { make_condition(&reports_changed); }

static report_queue *queue_of(uint64_t thread) {
    report_queue *queue = reports;
    while (queue != NULL && queue->thread != thread) queue = queue->next;
    return queue;
}

API aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
    ENTER("aclrtSubscribeReport");
    emu_stream *target;
    int status = emu_stream_acquire(stream, &target);
    if (status != 0) return status;
    pthread_once(&reports_once, make_reports);
    pthread_mutex_lock(&reports_lock);
    if (target->subscriber != 0) {
        status = ACL_ERROR_RT_STREAM_SUBSCRIBE;
    } else {
        report_queue *queue = queue_of(threadId);
        if (queue == NULL) {
            queue = calloc(1, sizeof *queue);
            if (queue == NULL) abort();
            queue->thread = threadId;
            queue->next = reports;
            reports = queue;
        }
        queue->streams++;
        target->subscriber = threadId;
    }
    pthread_mutex_unlock(&reports_lock);
    emu_stream_release(target);
    return status == 0 ? 0 : emu_fail(status, NULL, "the stream is subscribed already");
}

API aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
    ENTER("aclrtUnSubscribeReport");
    emu_stream *target;
    int status = emu_stream_acquire(stream, &target);
    if (status != 0) return status;
    pthread_mutex_lock(&reports_lock);
    report_queue *queue = queue_of(threadId);
    if (target->subscriber != threadId || queue == NULL) status = ACL_ERROR_RT_THREAD_SUBSCRIBE;
    else queue->streams--, target->subscriber = 0;
    pthread_mutex_unlock(&reports_lock);
    emu_stream_release(target);
    return status == 0 ? 0 : emu_fail(status, NULL, "the thread is not subscribed to the stream");
}

static int run_callback(emu_task *task, emu_stream *stream) {
    callback *call = (callback *)task;
    pthread_mutex_lock(&reports_lock);
    report_queue *queue = queue_of(stream->subscriber);
    if (queue == NULL) {
        pthread_mutex_unlock(&reports_lock);
        return emu_fail(ACL_ERROR_RT_STREAM_NO_CB_REG, NULL, "the stream is not subscribed any more");
    }
    bool done = false;
    callback *waiting = calloc(1, sizeof *waiting); /* the task ends before its callback has run, unless it blocks */
    if (waiting == NULL) abort();
    waiting->function = call->function;
    waiting->argument = call->argument;
    waiting->done = call->blocks ? &done : NULL;
    if (queue->last != NULL) queue->last->next = waiting;
    else queue->first = waiting;
    queue->last = waiting;
    pthread_cond_broadcast(&reports_changed);
    while (call->blocks && !done) pthread_cond_wait(&reports_changed, &reports_lock);
    pthread_mutex_unlock(&reports_lock);
    return 0;
}

API aclError aclrtLaunchCallback(aclrtCallback fn, void *userData, aclrtCallbackBlockType blockType, aclrtStream stream) {
    ENTER("aclrtLaunchCallback");
    emu_stream *target;
    if (fn == NULL) return emu_fail(ACL_ERROR_RT_PARAM_INVALID, NULL, "fn is a null pointer");
    int status = emu_stream_acquire(stream, &target);
    if (status != 0) return status;
    if (target->subscriber == 0) {
        emu_stream_release(target);
        return emu_fail(ACL_ERROR_RT_STREAM_NO_CB_REG, NULL, "aclrtSubscribeReport must come first");
    }
    callback *call = calloc(1, sizeof *call);
    if (call == NULL) abort();
    call->task = (emu_task){.run = run_callback, .finish = finish_callback, .routine = emu_routine()};
    call->function = fn;
    call->argument = userData;
    call->blocks = blockType == ACL_CALLBACK_BLOCK;
    status = emu_stream_enqueue(target, &call->task);
    emu_stream_release(target);
    return status;
}

API aclError aclrtProcessReport(int32_t timeout) {
    ENTER("aclrtProcessReport");
    int status = check_timeout(timeout);
    if (status != 0) return status;
    pthread_once(&reports_once, make_reports);
    struct timespec until = deadline(timeout > 0 ? timeout : 0);
    uint64_t self = (uint64_t)pthread_self();
    pthread_mutex_lock(&reports_lock);
    report_queue *queue = queue_of(self);
    callback *call = NULL;
    while (queue != NULL && queue->streams > 0 && (call = queue->first) == NULL && status == 0) {
        if (timeout < 0) pthread_cond_wait(&reports_changed, &reports_lock);
        else if (pthread_cond_timedwait(&reports_changed, &reports_lock, &until) == ETIMEDOUT) status = ETIMEDOUT;
    }
    if (call != NULL) {
        queue->first = call->next;
        if (queue->first == NULL) queue->last = NULL;
    }
    pthread_mutex_unlock(&reports_lock);
    if (call == NULL && status == 0)
        return emu_fail(ACL_ERROR_RT_THREAD_SUBSCRIBE, NULL, "this thread is subscribed to no stream");
    if (call == NULL) return emu_fail(ACL_ERROR_RT_REPORT_TIMEOUT, NULL, "no callback within %d ms", timeout);
    call->function(call->argument);
    pthread_mutex_lock(&reports_lock);
    if (call->done != NULL) *call->done = true;
    pthread_cond_broadcast(&reports_changed);
    pthread_mutex_unlock(&reports_lock);
    free(call);
    return 0;
}
