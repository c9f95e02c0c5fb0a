/* Streams: queues of tasks. */
#ifndef EMU_STREAM_H
#define EMU_STREAM_H

#include "ascendcl/core/clock.h"
#include "ascendcl/stream/capture.h"

typedef struct emu_allocator emu_allocator;

/* A task is a launch on the device process (`answered` is set), runs here (`run` is set), or waits for a task of another stream
 * (`awaited` is set). A task's status is that of its function; the thread keeps the message. */
struct emu_task {
    emu_task *next;
    uint64_t sequence;
    uint64_t *number;                                   /* receives the task's number, or NULL */
    const char *routine;                                /* the function that queued it, */
    uint32_t thread;                                    /* and the thread */
    uint64_t correlation;                               /* of the call, where calls are observed; else 0 */
    int (*run)(emu_task *task, emu_stream *stream);
    bool slow;                                          /* run may wait for other threads: only a worker runs it */
    bool quiet;                                         /* its end is visible only to a poll of the stream: it may wait for one */
    emu_stream *awaited;
    uint64_t until;                                     /* the number of the task that is waited for */
    emu_buffer request;                                 /* of a launch */
    int (*answered)(emu_task *task, int status, emu_buffer *answer);
    /* Tells a capture how the task is run again, and unpins its memory. NULL: it cannot be captured. */
    void (*describe)(emu_task *task, emu_captured *captured);
    void (*finish)(emu_task *task);                     /* once, whether or not it ran; frees the task */
};

/* The stream behind a handle (NULL: the default stream) of this thread's context, with a reference; 107003 for a stream of
 * another context. */
LINK int emu_stream_acquire(aclrtStream handle, emu_stream **stream);
/* The body of a function that does one thing with the `stream` behind a handle. */
#define EMU_WITH_STREAM(handle, statement)                      \
    EMU_HELD emu_stream *stream = NULL;                         \
    int status_ = emu_stream_acquire(handle, &stream);          \
    if (status_ == 0) statement;                                \
    return status_
LINK emu_device *emu_stream_device(const emu_stream *stream);
/* Queues a task and takes it over; a stream that is captured records it, and one that has ended refuses it. */
LINK int emu_stream_enqueue(emu_stream *stream, emu_task *task);
/* Queues a task and takes it over, whatever records the stream's tasks; its number. emu_stream_queued follows the last one. */
int emu_stream_queue(emu_stream *stream, emu_task *task, uint64_t *sequence);
/* Waits for a queued task where streams are eager. */
void emu_stream_queued(emu_stream *stream, uint64_t sequence);
/* The number of the last task. */
uint64_t emu_stream_last(emu_stream *stream);
/* Takes in finished launches, which frees what they used, and passed events. */
void emu_stream_poll(emu_stream *stream);
void emu_streams_poll(emu_device *device);
/* Whether tasks that have not begun are dropped. */
bool emu_stream_drops(emu_stream *stream);
/* Whether a task that waits should end without what it waits for: tasks are dropped, or the device is lost. Its status then. */
bool emu_stream_ends_wait(emu_stream *stream, int *status);
/* The same for tasks that look again and again: where they go on, some time passes. */
bool emu_stream_looks_again(emu_stream *stream, int *status);
/* Deferred mode: lets everything that is queued so far run. */
void emu_streams_let_run(emu_device *device);
/* Waits for everything queued so far on the device. The streams keep their errors. */
void emu_streams_drain(emu_device *device);
/* Waits for everything queued so far (timeout in ms, negative: for ever), and returns the stream's error. */
int emu_stream_wait(emu_stream *stream, int32_t timeout);
/* Returns the stream's error to the calling thread, once. */
int emu_stream_take_error(emu_stream *stream);
/* Gives the stream an error, with the thread's message, that every later wait for it returns. */
void emu_stream_break(emu_stream *stream, int status);
/* Drops what has not begun; threads that wait for the stream get an error. The last task concerned. */
uint64_t emu_stream_abort(emu_stream *stream);
/* A stream that only a model uses; the caller gets a reference, and ends it by emu_stream_discard. */
int emu_stream_of_model(emu_context *context, uint32_t model, emu_stream **stream);
/* Ends a model's stream, and releases it; tasks that have not begun are dropped. */
void emu_stream_discard(emu_stream *stream);
/* Adds a stream to a context and gives its handle. The caller holds emu_world. */
int emu_stream_new(emu_context *context, uint32_t priority, uint32_t flags, void **handle);
/* Ends all streams of a context. The handles still alive die without counting as leaks. */
int emu_streams_reclaim(emu_context *context);

/* The tasks that a stream gets between aclmdlRICaptureTaskUpdateBegin and End, in place of those of a task group. */
typedef struct emu_update emu_update;

struct emu_update {
    void *group;
    emu_task **tasks;
    uint32_t count, wanted;
    void (*abandon)(emu_update *update); /* frees it, and nothing is replaced; without the captures' lock */
};

struct emu_stream {
    emu_object base;
    emu_context *context;         /* with a reference */
    emu_device *device;
    emu_stream *next;             /* in the context's list, under emu_world */
    int id;
    uint32_t flags;
    _Atomic uint32_t model;       /* the number of the model that alone gives it tasks, or to which it is bound; 0: none */
    bool uncounted;               /* it does not count among the device's streams: a model made it */
    _Atomic uint32_t priority, overflow_switch, cache_switch, tag;
    _Atomic uint64_t failure_mode;
    _Atomic uint32_t limits[2];   /* cores, by aclrtDevResLimitType; 0: the device's */

    pthread_mutex_t lock;
    pthread_cond_t wake;          /* for the worker: there is work, or the stream ends */
    pthread_cond_t progress;      /* for waiting threads: a task has ended */
    emu_task *head, *tail;
    emu_task *unsent;             /* the tasks before it are launches in the ring, and quiet tasks between them */
    uint64_t pressing;            /* tasks from `unsent` on that are not quiet */
    emu_connection connection;
    emu_buffer answer;            /* for the thread that drives the queue; reused */
    uint64_t submitted;
    _Atomic uint64_t completed;   /* other streams read it without the lock */
    uint64_t released;            /* deferred mode: tasks up to this number may run */
    bool stumbled;                /* a task has failed, and the device process skips the launches it has; then it may get more */
    bool driven;                  /* a thread works on the head of the queue */
    bool worker, ending, dropping;
    uint64_t aborted;             /* tasks up to this number are dropped unless they have begun: aclrtDeviceTaskAbort */
    int waiters;
    int error;
    char *error_text;
    bool broken;                  /* the error stays: every wait returns it */
    emu_capture *_Atomic capture; /* that records its tasks, or NULL; changes under the captures' lock */
    uint32_t lane;                /* its number in the capture */
    uint32_t timeline;            /* of --validate; 0: none */
    emu_update *_Atomic update;   /* under the captures' lock */
    /* host callbacks (aclrtSubscribeReport) */
    _Atomic uint64_t subscriber;
    emu_allocator *allocator;     /* the program's (aclrtAllocatorRegister), or NULL */
};

/* Whether what a stream gets runs, and is neither recorded nor refused: then --validate compares it. */
static inline bool emu_stream_runs(const emu_stream *stream) { return stream->capture == NULL && stream->update == NULL && stream->model == 0; }

/* 107027 with a message for a stream that is captured. */
int emu_refuse_captured(emu_stream *stream);
/* The same with another status, and what is refused. */
LINK int emu_refuse_while_captured(emu_stream *stream, int status, const char *what);
/* Makes a stream a part of a capture. The captures' lock is held. */
void emu_stream_enter(emu_stream *stream, emu_capture *capture);
/* The opposite; it releases the stream. */
void emu_stream_leave(emu_stream *stream);
/* Does nothing: for tasks that are run again as they are and use no memory. */
LINK void emu_describe_nothing(emu_task *task, emu_captured *captured);
/* -1 (for ever) or more than 0 milliseconds. */
int emu_check_timeout(int32_t timeout);
/* Deferred mode: lets tasks up to a number run. */
void emu_stream_let_run(emu_stream *stream, uint64_t sequence);
/* Whether a task has ended; polls, and lets a deferred stream go on a little. */
bool emu_stream_passed(emu_stream *stream, uint64_t sequence);
/* Waits until a task has ended: false on timeout. */
bool emu_stream_wait_for(emu_stream *stream, uint64_t sequence, int32_t timeout);

#endif
