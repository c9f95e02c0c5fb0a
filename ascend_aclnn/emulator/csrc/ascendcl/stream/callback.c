/* Functions of the host that streams call as tasks. */
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/device.h"
#include "ascendcl/stream/stream.h"
#include "ascendcl/validate/validate.h"

#include <errno.h>
#include <stdlib.h>

typedef struct callback callback;

struct callback {
    emu_task task;
    void (*function)(void *);
    void *argument;
    bool blocks;
    emu_stream *target; /* whose subscriber gets it; a reference */
    callback *next;
    bool *done; /* the stream waits for it */
    bool captured;    /* the replay says what has passed */
    emu_clock *clock; /* what has passed when it is called; NULL: not known */
};

/* What the function does orders the host after the stream, for all that is known. */
static void host_passes(const callback *call) {
    if (emu_validates() && !call->captured) emu_host_passed(call->clock);
}

static void describe_callback(emu_task *task, emu_captured *captured) {
    ((callback *)task)->captured = captured->calls_host = true;
}

static void validate_callback(callback *call, const emu_stream *stream) {
    call->clock = emu_clock_of(stream->timeline);
    emu_validate_host_function(true);
}

static __thread int failure; /* what the host function that runs in this thread has said of itself */

static int run_host_function(emu_task *task, emu_stream *stream) {
    (void)stream;
    callback *call = (callback *)task;
    host_passes(call);
    failure = 0;
    call->function(call->argument);
    return failure;
}

API void aclemuFailHostFunction(int32_t status, const char *text) { failure = emu_fail(status, NULL, "%s", text != NULL ? text : ""); }

static void finish_callback(emu_task *task) {
    const callback *call = (callback *)task;
    emu_object_release(call->target);
    if (call->clock != NULL) emu_validate_host_function(false);
    free(call->clock);
    free(task);
}

API aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void *args) {
    ENTER("aclrtLaunchHostFunc");
    EMU_HELD emu_stream *target = NULL;
    if (fn == NULL) return emu_null_argument("fn");
    int status = emu_stream_acquire(stream, &target);
    if (status != 0) return status;
    callback *call = calloc(1, sizeof *call);
    if (call == NULL) abort();
    call->task = (emu_task){.run = run_host_function, .slow = true, .finish = finish_callback, .describe = describe_callback, .routine = emu_routine()};
    call->function = fn;
    call->argument = args;
    if (emu_validates() && emu_stream_runs(target)) validate_callback(call, target);
    return emu_stream_enqueue(target, &call->task);
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

static void make_reports(void) { emu_make_condition(&reports_changed); }

static report_queue *queue_of(uint64_t thread) {
    report_queue *queue = reports;
    while (queue != NULL && queue->thread != thread) queue = queue->next;
    return queue;
}

API aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
    ENTER("aclrtSubscribeReport");
    EMU_HELD emu_stream *target = NULL;
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
    return status == 0 ? 0 : emu_fail(status, NULL, "the stream is subscribed already");
}

API aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
    ENTER("aclrtUnSubscribeReport");
    EMU_HELD emu_stream *target = NULL;
    int status = emu_stream_acquire(stream, &target);
    if (status != 0) return status;
    pthread_mutex_lock(&reports_lock);
    report_queue *queue = queue_of(threadId);
    if (target->subscriber != threadId || queue == NULL) status = ACL_ERROR_RT_THREAD_SUBSCRIBE;
    else queue->streams--, target->subscriber = 0;
    pthread_mutex_unlock(&reports_lock);
    return status == 0 ? 0 : emu_fail(status, NULL, "the thread is not subscribed to the stream");
}

static int run_callback(emu_task *task, emu_stream *stream) {
    (void)stream; /* where a graph runs that captured it */
    callback *call = (callback *)task;
    host_passes(call);
    pthread_mutex_lock(&reports_lock);
    report_queue *queue = queue_of(call->target->subscriber);
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
    EMU_HELD emu_stream *target = NULL;
    if (fn == NULL) return emu_null_argument("fn");
    int status = emu_stream_acquire(stream, &target);
    if (status != 0) return status;
    if (target->subscriber == 0) return emu_fail(ACL_ERROR_RT_STREAM_NO_CB_REG, NULL, "aclrtSubscribeReport must come first");
    callback *call = calloc(1, sizeof *call);
    if (call == NULL) abort();
    call->task = (emu_task){.run = run_callback, .slow = true, .finish = finish_callback, .describe = describe_callback, .routine = emu_routine()};
    call->function = fn;
    call->argument = userData;
    if (emu_validates() && emu_stream_runs(target)) validate_callback(call, target);
    call->blocks = blockType == ACL_CALLBACK_BLOCK;
    call->target = target;
    emu_object_hold(target);
    return emu_stream_enqueue(target, &call->task);
}

API aclError aclrtProcessReport(int32_t timeout) {
    ENTER("aclrtProcessReport");
    int status = emu_check_timeout(timeout);
    if (status != 0) return status;
    pthread_once(&reports_once, make_reports);
    struct timespec until = emu_deadline(timeout > 0 ? timeout : 0);
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
    if (call == NULL) return emu_fail(ACL_ERROR_RT_REPORT_TIMEOUT, NULL, "no callback came within %d ms", timeout);
    call->function(call->argument);
    pthread_mutex_lock(&reports_lock);
    if (call->done != NULL) *call->done = true;
    pthread_cond_broadcast(&reports_changed);
    pthread_mutex_unlock(&reports_lock);
    free(call);
    return 0;
}
