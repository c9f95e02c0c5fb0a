/* Marks and ranges of programs (mstx), for the profilers in the process. With a stream they are marked there, too. */
#include "ascendcl/core/activity.h"
#include "ascendcl/core/api_entry.h"
#include "ascendcl/core/clock.h"
#include "ascendcl/stream/stream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct {
    emu_task task;
    emu_activity_mark mark;
} mark_task;

/* Ranges that have begun. */
typedef struct range {
    struct range *next;
    uint64_t number;
    const char *domain;
    aclrtStream stream;
} range;

struct mstxDomainRegistration_st {
    char name[1]; /* with room for it */
};
typedef struct mstxDomainRegistration_st *mstxDomainHandle_t;
typedef uint64_t mstxRangeId;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static range *ranges;
static _Atomic uint64_t numbers;

static int run_mark(emu_task *task, emu_stream *stream) {
    mark_task *t = (mark_task *)task;
    (void)stream;
    t->mark.on_device = true;
    t->mark.time = emu_now();
    emu_activity_tell_mark(&t->mark);
    return 0;
}

static void finish_mark(emu_task *task) { free(task); }

static void put(emu_mark_kind kind, uint64_t number, const char *text, const char *domain, aclrtStream handle) {
    emu_activity_mark mark = {.kind = kind, .with_device = handle != NULL, .time = emu_now(), .number = number, .domain = domain,
                              .thread = (uint32_t)syscall(SYS_gettid)};
    EMU_HELD emu_stream *stream = NULL;
    if (!emu_activity_observed() || emu_is_forked()) return;
    mark.text = text;
    emu_activity_tell_mark(&mark);
    if (handle == NULL || emu_stream_acquire(handle, &stream) != 0) return;
    mark_task *t = calloc(1, sizeof *t);
    if (t == NULL) abort();
    t->task = (emu_task){.run = run_mark, .finish = finish_mark, .describe = emu_describe_nothing, .routine = emu_routine()};
    t->mark = mark;
    t->mark.text = NULL; /* the program's text does not last; the number tells which */
    t->mark.device = (uint32_t)stream->device->id;
    t->mark.stream = (uint32_t)stream->id;
    emu_stream_enqueue(stream, &t->task);
}

static mstxRangeId begin_range(const char *text, const char *domain, aclrtStream stream) {
    range *r = malloc(sizeof *r);
    if (r == NULL) abort();
    uint64_t number = ++numbers;
    pthread_mutex_lock(&lock);
    *r = (range){ranges, number, domain, stream};
    ranges = r;
    pthread_mutex_unlock(&lock);
    put(MARK_BEGIN, number, text, domain, stream);
    return number;
}

static void end_range(mstxRangeId number) {
    pthread_mutex_lock(&lock);
    range **at = &ranges;
    while (*at != NULL && (*at)->number != number) at = &(*at)->next;
    range *r = *at;
    if (r != NULL) *at = r->next;
    pthread_mutex_unlock(&lock);
    if (r != NULL) put(MARK_END, number, NULL, r->domain, r->stream);
    free(r);
}

API void mstxMarkA(const char *message, aclrtStream stream) {
    emu_set_routine("mstxMarkA");
    if (message != NULL) put(MARK_INSTANT, ++numbers, message, NULL, stream);
}

API mstxRangeId mstxRangeStartA(const char *message, aclrtStream stream) {
    emu_set_routine("mstxRangeStartA");
    return message == NULL ? 0 : begin_range(message, NULL, stream);
}

API void mstxRangeEnd(mstxRangeId id) {
    emu_set_routine("mstxRangeEnd");
    end_range(id);
}

API mstxDomainHandle_t mstxDomainCreateA(const char *name) {
    return name == NULL ? NULL : (mstxDomainHandle_t)strdup(name);
}

/* Records may still name it. */
API void mstxDomainDestroy(mstxDomainHandle_t domain) { (void)domain; }

API void mstxDomainMarkA(mstxDomainHandle_t domain, const char *message, aclrtStream stream) {
    emu_set_routine("mstxDomainMarkA");
    if (domain != NULL && message != NULL) put(MARK_INSTANT, ++numbers, message, domain->name, stream);
}

API mstxRangeId mstxDomainRangeStartA(mstxDomainHandle_t domain, const char *message, aclrtStream stream) {
    emu_set_routine("mstxDomainRangeStartA");
    return domain == NULL || message == NULL ? 0 : begin_range(message, domain->name, stream);
}

API void mstxDomainRangeEnd(mstxDomainHandle_t domain, mstxRangeId id) {
    (void)domain;
    emu_set_routine("mstxDomainRangeEnd");
    end_range(id);
}

__attribute__((constructor)) static void at_start(void) { emu_at_fork(FORK_RANGES, &lock, NULL); }
