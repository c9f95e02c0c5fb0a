/*
 * Two ranks, a thread and a device each, that capture an operator, an all-reduce and a copy, and replay the graph. Each replay adds
 * 1 to the values of a rank and then sums those of both. Prints "done".
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"
#include "hccl/hccl.h"

#define RANKS 2
#define REPLAYS 20
#define COUNT 64

static HcclRootInfo root;

static void expect(const char *what, int status) {
    if (status == 0) return;
    const char *text = aclGetRecentErrMsg();
    fprintf(stderr, "%s: %d %s\n", what, status, text != NULL ? text : "");
    exit(1);
}

static void *work(void *argument) {
    uint32_t rank = (uint32_t)(intptr_t)argument;
    int64_t dims[] = {COUNT};
    float unit = 1, host[COUNT], wanted[RANKS] = {1, 10};
    void *x, *y, *sum;
    uint64_t size = 0;
    aclrtStream stream;
    aclmdlRI graph;
    aclOpExecutor *executor = NULL;
    HcclComm communicator;
    expect("device", aclrtSetDevice((int32_t)rank));
    expect("communicator", HcclCommInitRootInfo(RANKS, &root, rank, &communicator));
    expect("stream", aclrtCreateStream(&stream));
    expect("malloc", aclrtMalloc(&x, sizeof host, ACL_MEM_MALLOC_NORMAL_ONLY));
    expect("malloc", aclrtMalloc(&y, sizeof host, ACL_MEM_MALLOC_NORMAL_ONLY));
    expect("malloc", aclrtMalloc(&sum, sizeof host, ACL_MEM_MALLOC_NORMAL_ONLY));
    for (int i = 0; i < COUNT; i++) host[i] = wanted[rank];
    expect("copy", aclrtMemcpy(x, sizeof host, host, sizeof host, ACL_MEMCPY_HOST_TO_DEVICE));
    aclTensor *in = aclCreateTensor(dims, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 1, x);
    aclTensor *out = aclCreateTensor(dims, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 1, y);
    aclScalar *one = aclCreateScalar(&unit, ACL_FLOAT);

    expect("begin", aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL));
    expect("phase one", aclnnAddsGetWorkspaceSize(in, one, one, out, &size, &executor));
    expect("phase two", aclnnAdds(NULL, 0, executor, stream));
    expect("all-reduce", HcclAllReduce(y, sum, COUNT, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, communicator, stream));
    expect("copy", aclrtMemcpyAsync(x, sizeof host, sum, sizeof host, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    expect("end", aclmdlRICaptureEnd(stream, &graph));

    for (int replay = 0; replay < REPLAYS; replay++) {
        expect("replay", aclmdlRIExecuteAsync(graph, stream));
        float total = 0;
        for (int i = 0; i < RANKS; i++) total += wanted[i] + 1;
        for (int i = 0; i < RANKS; i++) wanted[i] = total;
        if (replay % 5 != 4) continue; /* most replays follow each other without a wait */
        expect("synchronise", aclrtSynchronizeStream(stream));
        expect("copy", aclrtMemcpy(host, sizeof host, x, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST));
        for (int i = 0; i < COUNT; i++) {
            if (host[i] != wanted[rank]) {
                fprintf(stderr, "rank %u, replay %d: %g, not %g\n", rank, replay, host[i], wanted[rank]);
                exit(1);
            }
        }
    }

    expect("destroy", aclmdlRIDestroy(graph));
    aclDestroyScalar(one);
    aclDestroyTensor(in);
    aclDestroyTensor(out);
    expect("free", aclrtFree(x));
    expect("free", aclrtFree(y));
    expect("free", aclrtFree(sum));
    expect("destroy", aclrtDestroyStream(stream));
    expect("destroy", HcclCommDestroy(communicator));
    expect("reset", aclrtResetDevice((int32_t)rank));
    return NULL;
}

int main(void) {
    pthread_t threads[RANKS];
    expect("init", aclInit(NULL));
    expect("device", aclrtSetDevice(0));
    expect("root", HcclGetRootInfo(&root));
    for (int i = 0; i < RANKS; i++) pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i);
    for (int i = 0; i < RANKS; i++) pthread_join(threads[i], NULL);
    expect("reset", aclrtResetDevice(0));
    expect("finalize", aclFinalize());
    puts("done");
    return 0;
}
