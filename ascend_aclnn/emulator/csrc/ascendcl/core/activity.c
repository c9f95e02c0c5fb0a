#include "ascendcl/core/activity.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/clock.h"
#include "ascendcl/core/device_connection.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const emu_activity_observer *_Atomic observers[EMU_OBSERVERS];
static _Atomic bool observed;
/* Calls by correlation, from `first` on; all are kept until nothing observes them. */
static emu_activity_call *calls;
static uint64_t first = 1, count, room;
static _Thread_local uint64_t current;

void emu_activity_observe(int which, const emu_activity_observer *observer) {
    pthread_mutex_lock(&lock);
    observers[which] = observer;
    bool any = false;
    for (int i = 0; i < EMU_OBSERVERS; i++) any |= observers[i] != NULL;
    observed = any;
    if (!any) {
        free(calls);
        calls = NULL;
        first += count;
        count = room = 0;
    }
    pthread_mutex_unlock(&lock);
}

/* Room for more calls. The lock is held. */
static void grow(uint64_t by) {
    if (count + by <= room) return;
    while (room < count + by) room = room > 0 ? 2 * room : 1024;
    calls = realloc(calls, room * sizeof *calls);
    if (calls == NULL) abort();
}

uint64_t emu_activity_begin(emu_activity_kind kind, const char *name, uint64_t bytes, uint64_t detail, const char *group) {
    if (__builtin_expect(!observed, 1) || current != 0) return 0;
    emu_activity_call call = {.name = name, .kind = kind, .thread = (uint32_t)syscall(SYS_gettid), .device = EMU_NOWHERE,
                              .stream = EMU_NOWHERE, .begin = emu_now(), .bytes = bytes, .detail = detail};
    if (group != NULL) strncpy(call.group, group, sizeof call.group - 1);
    pthread_mutex_lock(&lock);
    grow(1);
    calls[count] = call;
    current = first + count++;
    pthread_mutex_unlock(&lock);
    return current;
}

/* A call by its correlation; false where it is not kept any more. */
static bool find(uint64_t correlation, emu_activity_call *call) {
    pthread_mutex_lock(&lock);
    bool known = correlation >= first && correlation < first + count;
    if (known) *call = calls[correlation - first];
    pthread_mutex_unlock(&lock);
    return known;
}

void emu_activity_end(uint64_t correlation, int status) {
    emu_activity_call call;
    if (correlation == 0) return;
    current = 0;
    if (status != 0 || !find(correlation, &call)) return;
    call.end = emu_now();
    pthread_mutex_lock(&lock);
    if (correlation >= first && correlation < first + count) calls[correlation - first].end = call.end;
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < EMU_OBSERVERS; i++) {
        const emu_activity_observer *observer = observers[i];
        if (observer != NULL) observer->called(correlation, &call);
    }
    bool here = call.stream == EMU_NOWHERE && !call.captured; /* nothing was queued: the call itself did it */
    if (here && call.kind != ACTIVITY_KERNEL && call.kind != ACTIVITY_REPLAY) emu_activity_ran(correlation, call.begin, call.end);
}

uint64_t emu_activity_queued(uint32_t device, uint32_t stream) {
    if (current == 0) return 0;
    bool replay = false;
    pthread_mutex_lock(&lock);
    if (current >= first && current < first + count) {
        calls[current - first].device = device;
        calls[current - first].stream = stream;
        replay = calls[current - first].kind == ACTIVITY_REPLAY;
    }
    pthread_mutex_unlock(&lock);
    return replay ? 0 : current;
}

void emu_activity_captured(void) {
    if (current == 0) return;
    pthread_mutex_lock(&lock);
    if (current >= first && current < first + count) calls[current - first].captured = true;
    pthread_mutex_unlock(&lock);
}

uint64_t emu_activity_replay(const emu_activity_call *parts, uint32_t many, uint32_t device, uint32_t stream) {
    uint64_t number = 0;
    if (current == 0) return 0;
    pthread_mutex_lock(&lock);
    if (current >= first && current < first + count) {
        grow(many);
        for (uint32_t i = 0; i < many; i++) {
            emu_activity_call *call = &calls[count + i];
            *call = parts[i];
            call->replay = current;
            call->thread = calls[current - first].thread;
            call->begin = call->end = calls[current - first].begin;
            call->device = device;
            call->stream = stream;
        }
        number = first + count;
        count += many;
    }
    pthread_mutex_unlock(&lock);
    return number;
}

void emu_activity_ran(uint64_t correlation, uint64_t begin, uint64_t end) {
    emu_activity_call call;
    if (!find(correlation, &call) || call.kind == ACTIVITY_REPLAY) return;
    if (call.replay != 0) correlation = call.replay;
    for (int i = 0; i < EMU_OBSERVERS; i++) {
        const emu_activity_observer *observer = observers[i];
        if (observer != NULL) observer->ran(correlation, &call, begin, end);
    }
}

bool emu_activity_observed(void) { return observed; }

void emu_activity_tell_mark(const emu_activity_mark *mark) {
    for (int i = 0; i < EMU_OBSERVERS; i++) {
        const emu_activity_observer *observer = observers[i];
        if (observer != NULL && observer->marked != NULL) observer->marked(mark);
    }
}

void emu_activity_collect(void) {
    for (uint32_t i = 0; i < EMU_MAX_DEVICES; i++) {
        if (emu_devices[i].process < 0) continue; /* it has run nothing */
        emu_buffer request = {0}, answer = {0};
        /* A device that is lost has nothing to tell; its loss is for the calls that need it. */
        if (emu_link_call(&emu_devices[i], CALL_PROFILE, &request, &answer) != 0) free(emu_take_message());
        for (size_t at = 0; at + 24 <= answer.size; at += 24) {
            uint64_t run[3]; /* correlation, begin, end */
            memcpy(run, answer.data + at, sizeof run);
            emu_activity_ran(run[0], run[1], run[2]);
        }
        emu_buffer_free(&answer);
    }
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_ACTIVITY, &lock, NULL); }
