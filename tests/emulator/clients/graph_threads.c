/*
 * Threads that capture, replay and destroy graphs at once, for the sanitizers. Each captures on a stream of its own, on two streams and
 * with a task group, replays the graph, replaces the group's task, executes a graph that all share, and destroys its graph while it may
 * still run. Another thread asks for what there is, and frees memory that a graph uses. Prints "done".
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "aclemu.h"
#include "aclnnop/aclnn_add.h"

#define THREADS 4
#define ROUNDS 25
#define COUNT 64

static aclmdlRI shared;
static atomic_bool ended;
static const char *folder; /* of what is printed */

static void expect(const char *what, int status) {
    if (status == 0) return;
    const char *text = aclGetRecentErrMsg();
    fprintf(stderr, "%s: %d %s\n", what, status, text != NULL ? text : "");
    exit(1);
}

/* values += number, in place */
static void add(void *values, float number, aclrtStream stream) {
    int64_t dims[] = {COUNT};
    float unit = 1;
    uint64_t size = 0;
    aclOpExecutor *executor = NULL;
    aclTensor *x = aclCreateTensor(dims, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 1, values);
    aclScalar *addend = aclCreateScalar(&number, ACL_FLOAT), *one = aclCreateScalar(&unit, ACL_FLOAT);
    expect("phase one", aclnnInplaceAddsGetWorkspaceSize(x, addend, one, &size, &executor));
    expect("phase two", aclnnInplaceAdds(NULL, 0, executor, stream));
    aclDestroyTensor(x);
    aclDestroyScalar(addend);
    aclDestroyScalar(one);
}

static void *zeros(void) {
    void *values;
    expect("malloc", aclrtMalloc(&values, COUNT * 4, ACL_MEM_MALLOC_NORMAL_ONLY));
    expect("fill", aclrtMemset(values, COUNT * 4, 0, COUNT * 4));
    return values;
}

static void check(const void *values, float wanted) {
    float host[COUNT];
    expect("copy", aclrtMemcpy(host, sizeof host, values, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < COUNT; i++) {
        if (host[i] == wanted) continue;
        fprintf(stderr, "%g, not %g\n", host[i], wanted);
        exit(1);
    }
}

static void *work(void *argument) {
    aclrtStream stream, side;
    aclrtEvent fork, join;
    aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    (void)argument;
    expect("device", aclrtSetDevice(0));
    expect("mode", aclmdlRICaptureThreadExchangeMode(&mode)); /* others capture meanwhile */
    expect("stream", aclrtCreateStream(&stream));
    expect("stream", aclrtCreateStream(&side));
    expect("event", aclrtCreateEventExWithFlag(&fork, ACL_EVENT_SYNC));
    expect("event", aclrtCreateEventExWithFlag(&join, ACL_EVENT_SYNC));
    for (int round = 0; round < ROUNDS; round++) {
        aclmdlRI graph;
        aclrtTaskGrp group;
        void *left = zeros(), *right = zeros();
        expect("begin", aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
        add(left, 1, stream);
        expect("record", aclrtRecordEvent(fork, stream));
        expect("wait", aclrtStreamWaitEvent(side, fork));
        add(right, 2, side);
        expect("record", aclrtRecordEvent(join, side));
        expect("group", aclmdlRICaptureTaskGrpBegin(stream));
        add(left, 10, stream);
        expect("group", aclmdlRICaptureTaskGrpEnd(stream, &group));
        expect("wait", aclrtStreamWaitEvent(stream, join));
        expect("end", aclmdlRICaptureEnd(stream, &graph));

        expect("replay", aclmdlRIExecuteAsync(graph, stream));
        expect("replay", aclmdlRIExecuteAsync(graph, stream));
        expect("synchronise", aclrtSynchronizeStream(stream));
        check(left, 22);
        expect("update", aclmdlRICaptureTaskUpdateBegin(side, group));
        add(left, 100, side);
        expect("update", aclmdlRICaptureTaskUpdateEnd(side));
        expect("synchronise", aclrtSynchronizeStream(side));
        expect("execute", aclmdlRIExecuteAsync(shared, stream));
        expect("replay", aclmdlRIExecuteAsync(graph, stream));
        if (round % 2 == 0) expect("synchronise", aclrtSynchronizeStream(stream));
        expect("destroy", aclmdlRIDestroy(graph)); /* waits for the replay */
        expect("synchronise", aclrtSynchronizeStream(stream));
        check(left, 123);
        check(right, 6);
        expect("free", aclrtFree(left));
        expect("free", aclrtFree(right));
    }
    expect("destroy", aclrtDestroyEvent(fork));
    expect("destroy", aclrtDestroyEvent(join));
    expect("destroy", aclrtDestroyStream(side));
    expect("destroy", aclrtDestroyStream(stream));
    expect("reset", aclrtResetDevice(0));
    return NULL;
}

static void *watch(void *argument) {
    aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    aclrtStream stream;
    (void)argument;
    expect("device", aclrtSetDevice(0));
    expect("mode", aclmdlRICaptureThreadExchangeMode(&mode));
    expect("stream", aclrtCreateStream(&stream));
    while (!ended) {
        aclmdlRI graph;
        void *values = zeros();
        expect("print", aclmdlRIDebugJsonPrint(shared, folder, 0));
        (void)aclemuLiveCount("model");
        (void)aclemuDump(NULL, 0);
        expect("begin", aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_RELAXED));
        add(values, 1, stream);
        expect("end", aclmdlRICaptureEnd(stream, &graph));
        expect("free", aclrtFree(values));
        if (aclmdlRIExecuteAsync(graph, stream) != ACL_ERROR_RT_PARAM_INVALID) expect("a graph without its memory", 1);
        expect("destroy", aclmdlRIDestroy(graph));
        expect("execute", aclmdlRIExecute(shared, -1));
    }
    expect("destroy", aclrtDestroyStream(stream));
    expect("reset", aclrtResetDevice(0));
    return NULL;
}

int main(int count, char **arguments) {
    if (count != 2) return 2;
    folder = arguments[1];
    pthread_t threads[THREADS], watcher;
    aclrtStream stream;
    expect("init", aclInit(NULL));
    expect("device", aclrtSetDevice(0));
    expect("stream", aclrtCreateStream(&stream));
    void *values = zeros();
    expect("begin", aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    add(values, 1, stream);
    expect("end", aclmdlRICaptureEnd(stream, &shared));
    pthread_create(&watcher, NULL, watch, NULL);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    ended = true;
    pthread_join(watcher, NULL);
    expect("destroy", aclmdlRIDestroy(shared));
    expect("free", aclrtFree(values));
    expect("destroy", aclrtDestroyStream(stream));
    expect("reset", aclrtResetDevice(0));
    expect("finalize", aclFinalize());
    puts("done");
    return 0;
}
