/*
 * Threads that do everything at once, for the thread sanitizer: each launches on a stream of its own and on one that all
 * share, copies, registers host memory, records events that the others wait for, makes and destroys streams, and allocates
 * and frees memory, while another one polls, synchronises the device and profiles it. Prints "done".
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "acl/acl_prof.h"
#include "aclemu.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_nonzero.h"

#define THREADS 4
#define ROUNDS 60
#define COUNT 64

static aclrtStream shared;
static aclrtEvent events[THREADS];
static void *buffers[THREADS];
static atomic_bool ended;
static const char *folder; /* of profiles */

static void expect(const char *what, int status) {
    if (status == 0) return;
    const char *text = aclGetRecentErrMsg();
    fprintf(stderr, "%s: %d %s\n", what, status, text != NULL ? text : "");
    exit(1);
}

static aclTensor *tensor(void *data, aclDataType type, int64_t rows, int64_t columns) {
    int64_t dims[] = {rows, columns};
    return aclCreateTensor(dims, 2, type, NULL, 0, ACL_FORMAT_ND, dims, 2, data);
}

static void add(void *data, aclScalar *one, aclrtStream stream) {
    aclTensor *x = tensor(data, ACL_FLOAT, 1, COUNT), *y = tensor(data, ACL_FLOAT, 1, COUNT);
    uint64_t size = 0;
    aclOpExecutor *executor = NULL;
    expect("phase one", aclnnAddGetWorkspaceSize(x, x, one, y, &size, &executor));
    expect("phase two", aclnnAdd(NULL, 0, executor, stream));
    aclDestroyTensor(x);
    aclDestroyTensor(y);
}

/* Its output gets its shape from the data. */
static void nonzero(void *data, void *out, void *workspace, aclrtStream stream) {
    aclTensor *x = tensor(data, ACL_FLOAT, 1, COUNT), *y = tensor(out, ACL_INT64, COUNT, 2);
    uint64_t size = 0, count = 0;
    int64_t *dims = NULL;
    aclOpExecutor *executor = NULL;
    expect("phase one", aclnnNonzeroGetWorkspaceSize(x, y, &size, &executor));
    expect("phase two", aclnnNonzero(workspace, size, executor, stream));
    expect("view", aclGetViewShape(y, &dims, &count)); /* while the answer may be coming in */
    free(dims);
    expect("synchronise", aclrtSynchronizeStream(stream));
    aclDestroyTensor(x);
    aclDestroyTensor(y);
}

static void *work(void *argument) {
    int me = (int)(intptr_t)argument;
    float unit = 1, host[COUNT] = {0};
    void *out, *workspace, *pinned, *mapped;
    expect("device", aclrtSetDevice(0));
    aclScalar *one = aclCreateScalar(&unit, ACL_FLOAT);
    expect("malloc", aclrtMalloc(&out, COUNT * 16, ACL_MEM_MALLOC_NORMAL_ONLY));
    expect("malloc", aclrtMallocHost(&pinned, 8192));
    expect("malloc", aclrtMalloc(&workspace, 1 << 16, ACL_MEM_MALLOC_NORMAL_ONLY));
    for (int round = 0; round < ROUNDS; round++) {
        aclrtStream stream;
        void *data;
        expect("stream", aclrtCreateStream(&stream));
        expect("malloc", aclrtMalloc(&data, COUNT * 4, ACL_MEM_MALLOC_NORMAL_ONLY));
        expect("copy", aclrtMemcpyAsync(data, COUNT * 4, host, COUNT * 4, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        for (int i = 0; i < 80; i++) add(data, one, stream);
        expect("record", aclrtRecordEvent(events[me], stream));
        expect("wait", aclrtStreamWaitEvent(stream, events[(me + 1) % THREADS]));
        add(buffers[me], one, shared);
        nonzero(data, out, workspace, stream);
        expect("copy", aclrtMemcpyAsync(host, COUNT * 4, data, COUNT * 4, ACL_MEMCPY_DEVICE_TO_HOST, stream));
        if (round % 10 == me) {
            expect("register", aclrtHostRegister(pinned, 8192, ACL_HOST_REGISTER_MAPPED, &mapped));
            expect("set", aclrtMemsetAsync(mapped, 8192, round, 8192, stream));
            expect("unregister", aclrtHostUnregister(pinned)); /* waits for what uses it */
        }
        if (round % 3 == 0) expect("synchronise", aclrtSynchronizeStream(stream));
        expect("destroy", aclrtDestroyStream(stream));
        expect("free", aclrtFree(data));
    }
    aclDestroyScalar(one);
    expect("free", aclrtFreeHost(pinned));
    expect("free", aclrtFree(workspace));
    expect("free", aclrtFree(out));
    expect("reset", aclrtResetDevice(0));
    return NULL;
}

static void *watch(void *argument) {
    uint32_t device = 0;
    aclprofConfig *config = aclprofCreateConfig(&device, 1, ACL_AICORE_NONE, NULL, ACL_PROF_TASK_TIME);
    (void)argument;
    expect("device", aclrtSetDevice(0));
    expect("profile", aclprofInit(folder, strlen(folder)));
    for (int round = 0; !ended; round++) {
        if (round % 8 == 0) expect("start", aclprofStart(config));
        aclrtStreamStatus status;
        aclrtEventRecordedStatus recorded;
        expect("query", aclrtStreamQuery(shared, &status));
        expect("query", aclrtQueryEventStatus(events[0], &recorded));
        expect("synchronise", aclrtSynchronizeDevice());
        (void)aclemuCallCount();
        (void)aclemuLiveCount("stream");
        if (round % 8 == 0) expect("stop", aclprofStop(config));
    }
    expect("destroy", aclprofDestroyConfig(config));
    expect("profile", aclprofFinalize());
    expect("reset", aclrtResetDevice(0));
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    folder = arguments[1];
    pthread_t threads[THREADS], watcher;
    expect("init", aclInit(NULL));
    expect("device", aclrtSetDevice(0));
    expect("stream", aclrtCreateStream(&shared));
    for (int i = 0; i < THREADS; i++) {
        expect("event", aclrtCreateEvent(&events[i]));
        expect("malloc", aclrtMalloc(&buffers[i], COUNT * 4, ACL_MEM_MALLOC_NORMAL_ONLY));
    }
    pthread_create(&watcher, NULL, watch, NULL);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    ended = true;
    pthread_join(watcher, NULL);
    expect("synchronise", aclrtSynchronizeStream(shared));
    for (int i = 0; i < THREADS; i++) {
        expect("destroy", aclrtDestroyEvent(events[i]));
        expect("free", aclrtFree(buffers[i]));
    }
    expect("destroy", aclrtDestroyStream(shared));
    expect("reset", aclrtResetDevice(0));
    expect("finalize", aclFinalize());
    puts("done");
    return 0;
}
