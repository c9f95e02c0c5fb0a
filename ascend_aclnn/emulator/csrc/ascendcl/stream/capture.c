/* What captures record, and what threads may not do meanwhile. */
#include "ascendcl/stream/capture.h"

#include "ascendcl/core/api_entry.h"
#include "ascendcl/validate/call_site.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MODES 3

static pthread_mutex_t captures_lock = PTHREAD_MUTEX_INITIALIZER;
static emu_capture *captures;            /* that go on */
static _Atomic uint32_t capture_count;
static uint64_t capture_ids;
static __thread aclmdlRICaptureMode thread_mode = ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;

static const char *const mode_names[MODES] = {"GLOBAL", "THREAD_LOCAL", "RELAXED"};

void emu_captures_lock(void) { pthread_mutex_lock(&captures_lock); }

void emu_captures_unlock(void) { pthread_mutex_unlock(&captures_lock); }

/* ------------------------------------------------------------------------------------------------------------ captures */

static void *grown(void *items, size_t count, size_t size) {
    void *more = realloc(items, count * size);
    if (more == NULL) abort();
    return more;
}

emu_capture *emu_capture_begin(emu_context *context, void *owner, uint32_t model, aclmdlRICaptureMode mode) {
    emu_capture *capture = calloc(1, sizeof *capture);
    if (capture == NULL) abort();
    capture->id = ++capture_ids;
    capture->owner = owner;
    capture->model = model;
    capture->context = context;
    capture->mode = mode;
    capture->thread = emu_thread_number();
    capture->next = captures;
    captures = capture;
    capture_count++;
    return capture;
}

void emu_capture_end(emu_capture *capture) {
    emu_capture **link = &captures;
    while (*link != capture) link = &(*link)->next;
    *link = capture->next;
    capture_count--;
}

uint32_t emu_capture_join(emu_capture *capture, emu_stream *stream, void *handle, int id) {
    capture->lanes = grown(capture->lanes, capture->lane_count + 1, sizeof *capture->lanes);
    capture->lanes[capture->lane_count] = (emu_lane){stream, handle, id, -1, 0};
    return capture->lane_count++;
}

emu_capture *emu_capture_find(uint64_t id) {
    emu_capture *capture = captures;
    while (capture != NULL && capture->id != id) capture = capture->next;
    return capture;
}

uint32_t emu_capture_add(emu_capture *capture, emu_node node) {
    if (capture->count == capture->room) {
        capture->room = capture->room * 2 + 16;
        capture->nodes = grown(capture->nodes, capture->room, sizeof *capture->nodes);
    }
    node.group = capture->lanes[node.lane].group;
    if (emu_validates()) node.captured.call = emu_waiting_call();
    for (uint32_t i = 0; i < node.captured.use_count; i++) node.captured.uses[i].node = capture->count;
    capture->nodes[capture->count] = node;
    capture->lanes[node.lane].last = capture->count;
    return capture->count++;
}

void emu_capture_invalidate(emu_capture *capture, int status, const char *reason) {
    if (capture->invalid) return;
    capture->invalid = true;
    capture->status = status;
    snprintf(capture->reason, sizeof capture->reason, "%s", reason);
}

void emu_node_clear(emu_node *node) {
    free(node->captured.uses);
    emu_buffer_free(&node->captured.step);
    free(node->captured.accesses);
    free(node->captured.exchanges);
    node->captured = (emu_captured){0};
}

const char *emu_capture_describe(const emu_capture *capture, char *buffer, size_t size) {
    int at = snprintf(buffer, size, "model %u, mode %s", capture->model, mode_names[capture->mode]);
    if (capture->count > 0)
        snprintf(buffer + at, size - (size_t)at, "; captured last: %s, task %u", capture->nodes[capture->count - 1].routine,
                 capture->count - 1);
    else
        snprintf(buffer + at, size - (size_t)at, "; nothing is captured yet");
    return buffer;
}

/* ----------------------------------------------------------------------------------------------------- captured tasks */

void emu_captured_step(emu_captured *captured, const uint64_t *words, size_t count) {
    emu_buffer_put(&captured->step, words, count * sizeof *words);
}

void emu_captured_launch(emu_captured *captured, const emu_buffer *request) {
    captured->type = ACL_MODEL_RI_TASK_KERNEL;
    emu_captured_step(captured, (uint64_t[]){STEP_LAUNCH}, 1);
    emu_buffer_put(&captured->step, request->data, request->size);
}

void emu_captured_use(emu_captured *captured, emu_device *device, const void *address, uint64_t size, const char *name) {
    if (captured->use_count == captured->use_room) {
        captured->use_room = captured->use_room * 2 + 4;
        captured->uses = grown(captured->uses, captured->use_room, sizeof *captured->uses);
    }
    emu_use *use = &captured->uses[captured->use_count++];
    *use = (emu_use){.device = device, .address = address, .size = size};
    snprintf(use->name, sizeof use->name, "%s", name);
}

/* ------------------------------------------------------------------------------------------------------------- threads */

uint32_t emu_thread_number(void) {
    static __thread uint32_t number;
    if (number == 0) number = (uint32_t)syscall(SYS_gettid);
    return number;
}

aclmdlRICaptureMode emu_exchange_thread_mode(aclmdlRICaptureMode mode) {
    aclmdlRICaptureMode before = thread_mode;
    thread_mode = mode;
    return before;
}

/* The strictest mode of the captures of a context, or of those that this thread began; MODES when there are none. */
static aclmdlRICaptureMode strictest(const emu_context *context, uint32_t thread, const emu_capture **found) {
    aclmdlRICaptureMode mode = MODES;
    for (const emu_capture *capture = captures; capture != NULL; capture = capture->next) {
        bool counts = thread != 0 ? capture->thread == thread : capture->context == context;
        if (!counts || capture->mode >= mode) continue;
        mode = capture->mode;
        *found = capture;
    }
    return mode;
}

int emu_check_uncaptured(const emu_context *context, int status) {
    if (capture_count == 0 || thread_mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED) return 0;
    const emu_capture *of_context = NULL, *of_thread = NULL;
    char text[160];
    emu_captures_lock();
    aclmdlRICaptureMode anywhere = strictest(context, 0, &of_context), here = strictest(NULL, emu_thread_number(), &of_thread);
    bool refused = of_context != NULL && thread_mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL
                       ? anywhere == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL || here == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL
                       : of_context != NULL && here < ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    if (refused) {
        const emu_capture *reason = here < ACL_MODEL_RI_CAPTURE_MODE_RELAXED ? of_thread : of_context;
        emu_fail(status, NULL,
                 "a synchronous copy or fill is not permitted while %s captures a stream (%s); do it before aclmdlRICaptureBegin, "
                 "or set this thread's mode to RELAXED meanwhile (aclmdlRICaptureThreadExchangeMode)",
                 reason == of_thread ? "this thread" : "another thread", emu_capture_describe(reason, text, sizeof text));
    }
    emu_captures_unlock();
    return refused ? status : 0;
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_CAPTURES, &captures_lock, NULL); }
