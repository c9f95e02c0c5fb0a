/*
 * A stream of tiny operators, as an inference program queues it: tensors made for each call and destroyed after it, a
 * graph of 20 operators on the buffers of its layer, one synchronisation after each pass through 25 layers.
 *
 *     bench_stream OPERATORS ROUND_TRIPS
 *
 * Prints: microseconds of wall time, of this process and of the device process for each operator of the stream; then
 * the same for an operator that is waited for; microseconds for freeing one block of 8,000 and one of 400,000.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "acl/acl.h"
#include "aclemu.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_mul.h"
#include "aclnnop/aclnn_rms_norm.h"
#include "aclnnop/aclnn_silu.h"
#include "aclnnop/aclnn_softmax.h"

#define LAYERS 25
#define WIDTH 32
#define BUFFERS 8
#define CHECK(call)                                                                                       \
    do {                                                                                                  \
        int status_ = (call);                                                                             \
        if (status_ != 0) {                                                                               \
            const char *text_ = aclGetRecentErrMsg();                                                     \
            fprintf(stderr, "%s: %d %s\n", #call, status_, text_ != NULL ? text_ : "");                   \
            exit(1);                                                                                      \
        }                                                                                                 \
    } while (0)

static uint8_t *memory;
static void *workspace;
static aclrtStream stream;
static aclScalar *one;

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The clock of another process's processor time, as clock_getcpuclockid gives it. */
static clockid_t clock_of(int pid) { return (clockid_t)((~(unsigned)pid << 3) | 2u); }

static aclTensor *tensor(int layer, int buffer, int64_t rows, int64_t columns) {
    int64_t dims[] = {rows, columns}, strides[] = {columns, 1};
    uint8_t *address = memory + (size_t)(layer * BUFFERS + buffer) * WIDTH * WIDTH * sizeof(float);
    return aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 2, address);
}

#define RUN(name, ...)                                                        \
    do {                                                                      \
        uint64_t size = 0;                                                    \
        aclOpExecutor *executor = NULL;                                       \
        CHECK(name##GetWorkspaceSize(__VA_ARGS__, &size, &executor));         \
        CHECK(name(size > 0 ? workspace : NULL, size, executor, stream));     \
    } while (0)

static void add(int layer, int a, int b, int to) {
    aclTensor *x = tensor(layer, a, 1, WIDTH), *y = tensor(layer, b, 1, WIDTH), *out = tensor(layer, to, 1, WIDTH);
    RUN(aclnnAdd, x, y, one, out);
    aclDestroyTensor(x), aclDestroyTensor(y), aclDestroyTensor(out);
}

static void mul(int layer, int a, int b, int to) {
    aclTensor *x = tensor(layer, a, 1, WIDTH), *y = tensor(layer, b, 1, WIDTH), *out = tensor(layer, to, 1, WIDTH);
    RUN(aclnnMul, x, y, out);
    aclDestroyTensor(x), aclDestroyTensor(y), aclDestroyTensor(out);
}

static void matmul(int layer, int a, int to) {
    aclTensor *x = tensor(layer, a, 1, WIDTH), *w = tensor(layer, BUFFERS - 1, WIDTH, WIDTH), *out = tensor(layer, to, 1, WIDTH);
    RUN(aclnnMatmul, x, w, out, (int8_t)0);
    aclDestroyTensor(x), aclDestroyTensor(w), aclDestroyTensor(out);
}

static void silu(int layer, int a, int to) {
    aclTensor *x = tensor(layer, a, 1, WIDTH), *out = tensor(layer, to, 1, WIDTH);
    RUN(aclnnSilu, x, out);
    aclDestroyTensor(x), aclDestroyTensor(out);
}

static void softmax(int layer, int a, int to) {
    aclTensor *x = tensor(layer, a, 1, WIDTH), *out = tensor(layer, to, 1, WIDTH);
    RUN(aclnnSoftmax, x, -1, out);
    aclDestroyTensor(x), aclDestroyTensor(out);
}

static void norm(int layer, int a, int to) {
    int64_t dims[] = {WIDTH}, strides[] = {1}, few[] = {1, 1};
    aclTensor *x = tensor(layer, a, 1, WIDTH), *out = tensor(layer, to, 1, WIDTH), *rstd = tensor(layer, 6, 1, 1);
    aclTensor *gamma = aclCreateTensor(dims, 1, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 1, memory);
    (void)few;
    RUN(aclnnRmsNorm, x, gamma, 1e-6, out, rstd);
    aclDestroyTensor(x), aclDestroyTensor(out), aclDestroyTensor(rstd), aclDestroyTensor(gamma);
}

/* One layer: 20 operators. */
static void layer(int at) {
    norm(at, 0, 1);
    matmul(at, 1, 2), matmul(at, 1, 3), matmul(at, 1, 4);
    mul(at, 2, 3, 5), mul(at, 3, 4, 2), add(at, 2, 5, 3), mul(at, 3, 4, 5), add(at, 3, 5, 4);
    softmax(at, 4, 5), mul(at, 5, 4, 2), matmul(at, 2, 3), add(at, 0, 3, 1);
    norm(at, 1, 2);
    matmul(at, 2, 3), matmul(at, 2, 4), silu(at, 3, 5), mul(at, 5, 4, 3), matmul(at, 3, 4), add(at, 4, 1, 5);
}

static double freeing(int live) {
    static void *blocks[400000];
    for (int i = 0; i < live; i++) CHECK(aclrtMalloc(&blocks[i], 64, ACL_MEM_MALLOC_HUGE_FIRST));
    double start = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < 4000; i++) CHECK(aclrtFree(blocks[i]));
    double spent = seconds(CLOCK_PROCESS_CPUTIME_ID) - start;
    for (int i = 4000; i < live; i++) CHECK(aclrtFree(blocks[i]));
    return spent / 4000 * 1e6;
}

int main(int count, char **arguments) {
    int operators = count > 1 ? atoi(arguments[1]) : 200000, trips = count > 2 ? atoi(arguments[2]) : 20000;
    size_t bytes = (size_t)LAYERS * BUFFERS * WIDTH * WIDTH * sizeof(float);
    float unit = 1;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtMalloc((void **)&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemset(memory, bytes, 0, bytes));
    CHECK(aclrtMalloc(&workspace, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    one = aclCreateScalar(&unit, ACL_FLOAT);
    for (int at = 0; at < LAYERS; at++) layer(at); /* every plan is known from here on */
    CHECK(aclrtSynchronizeStream(stream));

    clockid_t device = clock_of(aclemuDevicePid(0));
    double wall = seconds(CLOCK_MONOTONIC), own = seconds(CLOCK_PROCESS_CPUTIME_ID), others = seconds(device);
    int done = 0;
    for (; done < operators; done += 20 * LAYERS) {
        for (int at = 0; at < LAYERS; at++) layer(at);
        CHECK(aclrtSynchronizeStream(stream));
    }
    if (done > 0)
        printf("%.2f %.2f %.2f\n", (seconds(CLOCK_MONOTONIC) - wall) / done * 1e6,
               (seconds(CLOCK_PROCESS_CPUTIME_ID) - own) / done * 1e6, (seconds(device) - others) / done * 1e6);

    wall = seconds(CLOCK_MONOTONIC), own = seconds(CLOCK_PROCESS_CPUTIME_ID), others = seconds(device);
    for (int i = 0; i < trips; i++) {
        add(0, 0, 1, 2);
        CHECK(aclrtSynchronizeStream(stream));
    }
    if (trips > 0)
        printf("%.2f %.2f %.2f\n", (seconds(CLOCK_MONOTONIC) - wall) / trips * 1e6,
               (seconds(CLOCK_PROCESS_CPUTIME_ID) - own) / trips * 1e6, (seconds(device) - others) / trips * 1e6);

    double few = freeing(8000), many = freeing(400000);
    printf("%.2f %.2f\n", few, many);

    aclDestroyScalar(one);
    CHECK(aclrtFree(workspace));
    CHECK(aclrtFree(memory));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}
