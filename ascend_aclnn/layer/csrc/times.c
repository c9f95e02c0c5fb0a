/*
 * When the device ran what was launched, from CANN's MSPTI where it is installed: lines of text in a file beside the recording.
 *
 *     kernel BEGIN END DEVICE STREAM CORRELATION NAME      ns; also copy, set and collective
 *     call BEGIN END THREAD CORRELATION NAME
 */
#include "recorder.h"
#include "times.h"

#include "mspti.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER (1u << 20)
#define FLUSH_EACH 50 /* ms: a program may end without a word */

static FILE *file;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static msptiResult (*next_record)(uint8_t *, size_t, msptiActivity **);
static msptiResult (*flush_all)(uint32_t);

static void requested(uint8_t **buffer, size_t *size, size_t *most) {
    *buffer = malloc(BUFFER);
    *size = *buffer != NULL ? BUFFER : 0;
    *most = 0;
}

static void write_task(const char *kind, uint64_t begin, uint64_t end, uint32_t device, uint32_t stream, uint64_t correlation,
                       const char *name) {
    fprintf(file, "%s %" PRIu64 " %" PRIu64 " %u %u %" PRIu64 " %s\n", kind, begin, end, device, stream, correlation,
            name != NULL ? name : "?");
}

static void write_record(const msptiActivity *record) {
    switch (record->kind) {
        case MSPTI_ACTIVITY_KIND_KERNEL: {
            const msptiActivityKernel *k = (const void *)record;
            write_task("kernel", k->start, k->end, k->ds.deviceId, k->ds.streamId, k->correlationId, k->name);
            break;
        }
        case MSPTI_ACTIVITY_KIND_COMMUNICATION: {
            const msptiActivityCommunication *c = (const void *)record;
            write_task("collective", c->start, c->end, c->ds.deviceId, c->ds.streamId, c->correlationId, c->name);
            break;
        }
        case MSPTI_ACTIVITY_KIND_MEMCPY: {
            const msptiActivityMemcpy *c = (const void *)record;
            write_task("copy", c->start, c->end, c->deviceId, c->streamId, c->correlationId, "copy");
            break;
        }
        case MSPTI_ACTIVITY_KIND_MEMSET: {
            const msptiActivityMemset *s = (const void *)record;
            write_task("set", s->start, s->end, s->deviceId, s->streamId, s->correlationId, "set");
            break;
        }
        case MSPTI_ACTIVITY_KIND_API: {
            const msptiActivityApi *a = (const void *)record;
            fprintf(file, "call %" PRIu64 " %" PRIu64 " %u %" PRIu64 " %s\n", a->start, a->end, a->pt.threadId, a->correlationId,
                    a->name != NULL ? a->name : "?");
            break;
        }
        default: break;
    }
}

static void completed(uint8_t *buffer, size_t size, size_t valid) {
    msptiActivity *record = NULL;
    (void)size;
    pthread_mutex_lock(&lock);
    while (file != NULL && next_record(buffer, valid, &record) == MSPTI_SUCCESS && record != NULL) write_record(record);
    pthread_mutex_unlock(&lock);
    free(buffer);
}

/* The child has a recording of its own, and MSPTI one subscriber. */
static void in_child(void) { file = NULL; }

void times_start(const char *recording) {
    const char *wanted = getenv("ASCEND_LAYER_TIMES");
    static const msptiActivityKind kinds[] = {MSPTI_ACTIVITY_KIND_KERNEL, MSPTI_ACTIVITY_KIND_API, MSPTI_ACTIVITY_KIND_COMMUNICATION,
                                              MSPTI_ACTIVITY_KIND_MEMCPY, MSPTI_ACTIVITY_KIND_MEMSET};
    if (wanted == NULL || *wanted != '1' || file != NULL) return;
    void *library = dlopen("libmspti.so", RTLD_NOW);
    if (library == NULL) {
        fprintf(stderr, "ascend-aclnn layer: no times of the device: %s\n", dlerror());
        return;
    }
    msptiResult (*subscribe)(msptiSubscriberHandle *, msptiCallbackFunc, void *) = dlsym(library, "msptiSubscribe");
    msptiResult (*callbacks)(msptiBuffersCallbackRequestFunc, msptiBuffersCallbackCompleteFunc) =
        dlsym(library, "msptiActivityRegisterCallbacks");
    msptiResult (*enable)(msptiActivityKind) = dlsym(library, "msptiActivityEnable");
    msptiResult (*flush_each)(uint32_t) = dlsym(library, "msptiActivityFlushPeriod");
    next_record = dlsym(library, "msptiActivityGetNextRecord");
    flush_all = dlsym(library, "msptiActivityFlushAll");
    if (subscribe == NULL || callbacks == NULL || enable == NULL || next_record == NULL || flush_all == NULL) return;
    char path[4200];
    snprintf(path, sizeof path, "%s.times", recording);
    file = fopen(path, "we");
    static msptiSubscriberHandle subscriber;
    msptiResult status = file == NULL ? MSPTI_ERROR_INNER : subscribe(&subscriber, NULL, NULL);
    if (status == MSPTI_SUCCESS) status = callbacks(requested, completed);
    if (status != MSPTI_SUCCESS) {
        fprintf(stderr, "ascend-aclnn layer: no times of the device: MSPTI answers %d\n", (int)status);
        return;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) enable(kinds[i]); /* older ones lack some */
    if (flush_each != NULL) flush_each(FLUSH_EACH);
    pthread_atfork(NULL, NULL, in_child);
}

__attribute__((destructor)) static void finish(void) {
    if (file == NULL) return;
    flush_all(1);
    pthread_mutex_lock(&lock);
    fclose(file);
    file = NULL;
    pthread_mutex_unlock(&lock);
}
