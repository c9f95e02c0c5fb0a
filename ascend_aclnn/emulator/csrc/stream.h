/* What stream.c and event.c share. */
#ifndef EMU_STREAM_H
#define EMU_STREAM_H

#include "emu.h"

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
    pthread_cond_t wake;          /* for the worker: there is something to do, or the end */
    pthread_cond_t progress;      /* for waiters: a task has ended */
    emu_task *head, *tail;
    emu_task *unsent;             /* the first task that the device process does not have */
    emu_connection connection;
    uint32_t in_flight;
    size_t in_flight_bytes;
    uint64_t submitted, completed;
    uint64_t released;            /* deferred mode: tasks up to this number may run */
    bool driven;                  /* a thread is busy with the head of the queue */
    bool worker, ending, dropping;
    int waiters;
    int error;
    char *error_text;
    /* host callbacks (aclrtSubscribeReport) */
    uint64_t subscriber;
};

/* Nanoseconds of the monotonic clock; a moment of it; a condition that waits by it. */
uint64_t emu_now(void);
struct timespec emu_deadline(int32_t milliseconds);
void emu_make_condition(pthread_cond_t *condition);
/* -1 (for ever) or more than 0 milliseconds. */
int emu_check_timeout(int32_t timeout);
/* Deferred mode: lets tasks up to a number run. */
void emu_stream_let_run(emu_stream *stream, uint64_t sequence);
/* Whether the task with a number has ended; takes in answers, and lets a deferred stream go on a little. */
bool emu_stream_passed(emu_stream *stream, uint64_t sequence);
/* Waits until the task with a number has ended: false on timeout. */
bool emu_stream_wait_for(emu_stream *stream, uint64_t sequence, int32_t timeout);

#endif
