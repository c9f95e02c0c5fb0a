/*
 * Threads that share every kind of handle, use them, destroy them under each other, reset the device and kill its process, at
 * random. Calls may fail, with a status that the emulated device documents for it; none may crash, hang, or answer otherwise.
 *
 *     handles SECONDS SEED KILL_EVERY_MS RESET_EVERY_MS
 *
 * An interval of 0: never. The last line is "done", the number of calls, kills and resets, and how often each status came.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "acl/acl.h"
#include "acl/acl_op.h"
#include "acl/acl_prof.h"
#include "acl/acl_rt_allocator.h"
#include "aclemu.h"
#include "aclnnop/aclnn_mul.h"
#include "hccl/hccl.h"

#define THREADS 4
#define SLOTS 6
#define COUNT 64
#define BYTES (COUNT * sizeof(float))
#define LONGEST 150 /* seconds of one call */

typedef _Atomic(void *) slot;

static slot streams[SLOTS], events[SLOTS], contexts[2], blocks[SLOTS], executors[SLOTS], tensors[SLOTS], scalars[2], lists[2], arrays[2],
    descriptions[SLOTS], buffers[SLOTS], communicators[2], allocators[2], configs[2], physicals[2], steps[2], profiles[2];

typedef struct {
    uint64_t random;
    _Atomic uint64_t since;         /* when the call that runs began, in seconds; 0: none runs */
    const char *_Atomic what;
    uint64_t calls;
    float host[COUNT];
} worker;

static atomic_bool ended, lost;
static atomic_int kills, resets;
static double seconds;

#define STATUSES 1000
static pthread_mutex_t statuses_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    int status;
    uint64_t count;
    char text[160];
} statuses[STATUSES];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static uint64_t any(worker *w, uint64_t limit) {
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return (w->random >> 11) % limit;
}

/* What calls on shared handles may return beside success: the runtime's 107xxx, 207xxx and 507xxx, aclnn's 161xxx, 361xxx and 561xxx,
 * aclop's 100xxx, 145xxx, 148xxx, 200xxx, 500xxx, and HCCL's numbers below 30. */
static bool is_documented(int status) {
    switch (status / 1000) {
        case 0: return status >= 0 && status < 30;
        case 100: case 107: case 145: case 148: case 161: case 200: case 207: case 361: case 500: case 507: case 561: return true;
        default: return false;
    }
}

static void count_status(worker *w, int status) {
    w->calls++;
    if (status == 0) return;
    const char *text = aclGetRecentErrMsg();
    if (status == 507899) lost = true;
    if (status == 107002) aclrtSetDevice(0); /* another thread has reset the device */
    pthread_mutex_lock(&statuses_lock);
    for (int i = 0; i < STATUSES; i++) {
        if (statuses[i].count > 0 && statuses[i].status != status) continue;
        statuses[i].status = status;
        if (statuses[i].count++ == 0) snprintf(statuses[i].text, sizeof statuses[i].text, "%s: %s", w->what, text != NULL ? text : "");
        break;
    }
    pthread_mutex_unlock(&statuses_lock);
    if (is_documented(status)) return;
    fprintf(stderr, "%s answers %d: %s\n", w->what, status, text != NULL ? text : "");
    abort();
}

#define CALL(routine, ...)                            \
    do {                                              \
        w->what = #routine;                           \
        w->since = (uint64_t)now();                   \
        int status_ = (int)routine(__VA_ARGS__);      \
        w->since = 0;                                 \
        count_status(w, status_);                     \
    } while (0)

/* A function without a status. */
#define CALL_VOID(routine, ...)                       \
    do {                                              \
        w->what = #routine;                           \
        w->since = (uint64_t)now();                   \
        routine(__VA_ARGS__);                         \
        w->since = 0;                                 \
        w->calls++;                                   \
    } while (0)

/* Puts a new handle into a slot: the old one, which others may be using, is destroyed by `destroy`. */
#define REPLACE(table, handle, destroy)                                                              \
    do {                                                                                             \
        void *new_ = (handle);                                                                       \
        void *old_ = atomic_exchange(&(table)[any(w, sizeof(table) / sizeof *(table))], new_);       \
        if (old_ != NULL) CALL(destroy, old_);                                                       \
    } while (0)

/* A handle from a table; sometimes it has been destroyed already. */
#define PICK(table) (atomic_load(&(table)[any(w, sizeof(table) / sizeof *(table))]))

/* Destroys a handle where it lies. */
#define DESTROY(table, destroy)                                    \
    do {                                                           \
        void *old_ = PICK(table);                                  \
        if (old_ != NULL) CALL(destroy, old_);                     \
    } while (0)

static aclError (*launch)(aclrtStream, void (*)(void *), void *); /* aclrtLaunchHostFunc, which older releases lack */

static void nothing(void *argument) { atomic_fetch_add((atomic_int *)argument, 1); }

static aclTensor *new_tensor(void *data) {
    int64_t dims[] = {COUNT};
    return aclCreateTensor(dims, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 1, data);
}

/* ----------------------------------------------------------------------------------------------------------- operations */

static void use_streams(worker *w) {
    static atomic_int called;
    aclrtStream stream = PICK(streams);
    aclrtStreamStatus status;
    switch (any(w, 12)) {
        case 0: case 1: {
            aclrtStream created = NULL;
            CALL(aclrtCreateStream, &created);
            if (created != NULL) REPLACE(streams, created, aclrtDestroyStream);
            break;
        }
        case 2: DESTROY(streams, aclrtDestroyStream); break;
        case 3: DESTROY(streams, aclrtDestroyStreamForce); break;
        case 4: case 5: CALL(aclrtSynchronizeStreamWithTimeout, stream, 1000); break;
        case 6: CALL(aclrtStreamQuery, stream, &status); break;
        case 7: CALL(aclrtSetStreamFailureMode, stream, any(w, 2)); break;
        case 8: if (launch != NULL) CALL(launch, stream, nothing, &called); break;
        case 9: CALL(aclrtSynchronizeDeviceWithTimeout, 1000); break;
        default: CALL(aclrtSynchronizeStream, stream); break;
    }
}

static void use_events(worker *w) {
    aclrtEvent event = PICK(events);
    aclrtEventRecordedStatus status;
    aclrtEventWaitStatus waited;
    float ms;
    uint64_t time;
    switch (any(w, 12)) {
        case 0: case 1: {
            aclrtEvent created = NULL;
            CALL(aclrtCreateEventWithFlag, &created, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
            if (created != NULL) REPLACE(events, created, aclrtDestroyEvent);
            break;
        }
        case 2: DESTROY(events, aclrtDestroyEvent); break;
        case 3: CALL(aclrtStreamWaitEvent, PICK(streams), event); break;
        case 4: CALL(aclrtQueryEventStatus, event, &status); break;
        case 5: CALL(aclrtQueryEventWaitStatus, event, &waited); break;
        case 6: CALL(aclrtResetEvent, event, PICK(streams)); break;
        case 7: CALL(aclrtSynchronizeEventWithTimeout, event, 1000); break;
        case 8: CALL(aclrtEventElapsedTime, &ms, event, PICK(events)); break;
        case 9: CALL(aclrtEventGetTimestamp, event, &time); break;
        default: CALL(aclrtRecordEvent, event, PICK(streams)); break;
    }
}

static void use_memory(worker *w) {
    void *block = PICK(blocks);
    switch (any(w, 10)) {
        case 0: case 1: {
            void *created = NULL;
            CALL(aclrtMalloc, &created, BYTES, ACL_MEM_MALLOC_NORMAL_ONLY);
            if (created != NULL) REPLACE(blocks, created, aclrtFree);
            break;
        }
        case 2: DESTROY(blocks, aclrtFree); break;
        case 3: CALL(aclrtMemcpy, block, BYTES, w->host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE); break;
        case 4: CALL(aclrtMemcpy, w->host, BYTES, block, BYTES, ACL_MEMCPY_DEVICE_TO_HOST); break;
        case 5: CALL(aclrtMemcpyAsync, block, BYTES, w->host, BYTES, ACL_MEMCPY_HOST_TO_DEVICE, PICK(streams)); break;
        case 6: CALL(aclrtMemcpyAsync, w->host, BYTES, block, BYTES, ACL_MEMCPY_DEVICE_TO_HOST, PICK(streams)); break;
        case 7: CALL(aclrtMemcpyAsync, block, BYTES, PICK(blocks), BYTES, ACL_MEMCPY_DEVICE_TO_DEVICE, PICK(streams)); break;
        case 8: CALL(aclrtMemset, block, BYTES, 1, BYTES); break;
        default: CALL(aclrtMemsetAsync, block, BYTES, 1, BYTES, PICK(streams)); break;
    }
}

static void use_virtual_memory(worker *w) {
    size_t size = 2u << 20;
    void *address = NULL;
    if (any(w, 3) == 0) {
        aclrtPhysicalMemProp property = {.location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
        aclrtDrvMemHandle created = NULL;
        CALL(aclrtMallocPhysical, &created, size, &property, 0);
        if (created != NULL) REPLACE(physicals, created, aclrtFreePhysical);
        return;
    }
    CALL(aclrtReserveMemAddress, &address, size, 0, NULL, 0);
    if (address == NULL) return;
    CALL(aclrtMapMem, address, size, 0, PICK(physicals), 0);
    CALL(aclrtMemset, address, BYTES, 1, BYTES);
    if (any(w, 2) == 0) DESTROY(physicals, aclrtFreePhysical);
    CALL(aclrtUnmapMem, address);
    CALL(aclrtReleaseMemAddress, address);
}

static void use_tensors(worker *w) {
    aclTensor *tensor = PICK(tensors);
    int64_t dims[] = {COUNT}, *read = NULL, offset;
    uint64_t rank;
    void *data;
    switch (any(w, 7)) {
        case 0: case 1: {
            aclTensor *created = new_tensor(PICK(blocks));
            if (created != NULL) REPLACE(tensors, created, aclDestroyTensor);
            break;
        }
        case 2: DESTROY(tensors, aclDestroyTensor); break;
        case 3: CALL(aclInitTensor, tensor, dims, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 1, PICK(blocks)); break;
        case 4:
            CALL(aclGetViewShape, tensor, &read, &rank);
            free(read);
            break;
        case 5:
            CALL(aclGetRawTensorAddr, tensor, &data);
            CALL(aclGetViewOffset, tensor, &offset);
            break;
        default: CALL(aclSetRawTensorAddr, tensor, PICK(blocks)); break;
    }
}

static void use_small_objects(worker *w) {
    float one = 1;
    int64_t numbers[] = {1, 2, 3};
    uint64_t size;
    switch (any(w, 6)) {
        case 0: REPLACE(scalars, aclCreateScalar(&one, ACL_FLOAT), aclDestroyScalar); break;
        case 1: REPLACE(arrays, aclCreateIntArray(numbers, 3), aclDestroyIntArray); break;
        case 2: CALL(aclGetIntArraySize, PICK(arrays), &size); break;
        case 3: CALL(aclGetTensorListSize, PICK(lists), &size); break;
        case 4: DESTROY(lists, aclDestroyTensorList); break;
        default: { /* a tensor that others share becomes the list's */
            const aclTensor *members[] = {PICK(tensors), new_tensor(PICK(blocks))};
            void *list = aclCreateTensorList(members, 2);
            if (list == NULL) CALL(aclDestroyTensor, members[1]);
            else REPLACE(lists, list, aclDestroyTensorList);
        }
    }
}

static void use_executors(worker *w) {
    aclOpExecutor *executor = NULL;
    uint64_t size = 0;
    switch (any(w, 8)) {
        case 0: case 1:
            CALL(aclnnMulGetWorkspaceSize, PICK(tensors), PICK(tensors), PICK(tensors), &size, &executor);
            if (executor == NULL) break;
            CALL(aclSetAclOpExecutorRepeatable, executor);
            REPLACE(executors, executor, aclDestroyAclOpExecutor);
            break;
        case 2: DESTROY(executors, aclDestroyAclOpExecutor); break;
        case 3: CALL(aclSetInputTensorAddr, PICK(executors), any(w, 2), PICK(tensors), PICK(blocks)); break;
        case 4: CALL(aclSetOutputTensorAddr, PICK(executors), 0, PICK(tensors), PICK(blocks)); break;
        default: CALL(aclnnMul, NULL, 0, PICK(executors), PICK(streams)); break;
    }
}

static void use_single_operators(worker *w) {
    int64_t dims[] = {COUNT}, size;
    switch (any(w, 10)) {
        case 0: {
            void *old = atomic_exchange(&descriptions[any(w, SLOTS)], aclCreateTensorDesc(ACL_FLOAT, 1, dims, ACL_FORMAT_ND));
            if (old != NULL) CALL_VOID(aclDestroyTensorDesc, old);
            break;
        }
        case 1: REPLACE(buffers, aclCreateDataBuffer(PICK(blocks), BYTES), aclDestroyDataBuffer); break;
        case 2: CALL_VOID(aclDestroyTensorDesc, PICK(descriptions)); break;
        case 3: CALL(aclUpdateDataBuffer, PICK(buffers), PICK(blocks), BYTES); break;
        case 4: CALL_VOID(aclSetTensorDescName, PICK(descriptions), "shared"); break;
        case 5: CALL(aclSetTensorConst, PICK(descriptions), w->host, 8 * any(w, 3)); break;
        case 6: CALL(aclGetTensorDescDimV2, PICK(descriptions), 0, &size); break;
        case 7: CALL_VOID(aclGetDataBufferSizeV2, PICK(buffers)); break;
        default: {
            aclTensorDesc *ins[] = {PICK(descriptions)}, *outs[] = {PICK(descriptions)};
            aclDataBuffer *in[] = {PICK(buffers)}, *out[] = {PICK(buffers)};
            if (any(w, 8) == 0) CALL(aclopExecuteV2, "Abs", 1, ins, in, 1, outs, out, NULL, PICK(streams));
        }
    }
}

static void use_rest(worker *w) {
    uint32_t device = 0, ranks;
    char name[128];
    aclprofStepInfo *step;
    switch (any(w, 14)) {
        case 0: REPLACE(allocators, aclrtAllocatorCreateDesc(), aclrtAllocatorDestroyDesc); break;
        case 1: CALL(aclrtAllocatorSetObjToDesc, PICK(allocators), w); break;
        case 2: CALL(aclrtAllocatorRegister, PICK(streams), PICK(allocators)); break;
        case 3: REPLACE(configs, aclrtCreateStreamConfigHandle(), aclrtDestroyStreamConfigHandle); break;
        case 4: {
            aclrtStream created = NULL;
            CALL(aclrtCreateStreamV2, &created, PICK(configs));
            if (created != NULL) REPLACE(streams, created, aclrtDestroyStream);
            break;
        }
        case 5: REPLACE(profiles, aclprofCreateConfig(&device, 1, ACL_AICORE_NONE, NULL, ACL_PROF_TASK_TIME), aclprofDestroyConfig); break;
        case 6: CALL(aclprofStart, PICK(profiles)); break;
        case 7:
            step = atomic_exchange(&steps[any(w, 2)], aclprofCreateStepInfo());
            if (step != NULL) CALL_VOID(aclprofDestroyStepInfo, step);
            break;
        case 8: CALL(aclprofGetStepTimestamp, PICK(steps), ACL_STEP_START, PICK(streams)); break;
        case 9: if (any(w, 10) == 0) {
            HcclRootInfo root;
            HcclComm created = NULL;
            CALL(HcclGetRootInfo, &root);
            CALL(HcclCommInitRootInfo, 1, &root, 0, &created);
            if (created != NULL) REPLACE(communicators, created, HcclCommDestroy);
            break;
        } /* fall through */
        case 10: case 11: CALL(HcclAllReduce, PICK(blocks), PICK(blocks), COUNT, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, PICK(communicators), PICK(streams)); break;
        case 12:
            CALL(HcclGetRankSize, PICK(communicators), &ranks);
            CALL(HcclGetCommName, PICK(communicators), name);
            break;
        default: DESTROY(communicators, HcclCommDestroy); break;
    }
}

static void use_contexts(worker *w) {
    aclrtContext current;
    switch (any(w, 5)) {
        case 0: {
            aclrtContext created = NULL;
            CALL(aclrtCreateContext, &created, 0);
            if (created != NULL) REPLACE(contexts, created, aclrtDestroyContext);
            break;
        }
        case 1: CALL(aclrtSetCurrentContext, PICK(contexts)); break;
        case 2: CALL(aclrtGetCurrentContext, &current); break;
        case 3: DESTROY(contexts, aclrtDestroyContext); break;
        default: break;
    }
    CALL(aclrtSetDevice, 0); /* streams are of this one's context */
}

static void recover(worker *w) {
    lost = false;
    for (size_t i = 0; i < 2; i++) {
        void *old = atomic_exchange(&communicators[i], NULL);
        if (old != NULL) CALL(HcclCommDestroy, old);
    }
    CALL(aclrtResetDeviceForce, 0);
    CALL(aclrtSetDevice, 0);
    resets++;
}

static void *work(void *argument) {
    worker *w = argument;
    CALL(aclrtSetDevice, 0);
    while (!ended) {
        uint64_t which = any(w, 100);
        if (lost && any(w, 200) == 0) recover(w);
        else if (which < 20) use_streams(w);
        else if (which < 45) use_events(w);
        else if (which < 60) use_memory(w);
        else if (which < 70) use_tensors(w);
        else if (which < 74) use_small_objects(w);
        else if (which < 90) use_executors(w);
        else if (which < 94) use_single_operators(w);
        else if (which < 98) use_rest(w);
        else if (which < 99) use_virtual_memory(w);
        else use_contexts(w);
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------------------ main */

static void kill_device(void) {
    char path[64], line[8192];
    int pid = aclemuDevicePid(0);
    if (pid <= 0) return;
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    FILE *file = fopen(path, "r");
    size_t size = file != NULL ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file != NULL) fclose(file);
    if (memmem(line, size, "ascend_aclnn", 12) == NULL) return;
    if (kill(pid, SIGKILL) == 0) kills++;
}

static void check_progress(worker *workers) {
    for (int i = 0; i < THREADS; i++) {
        uint64_t since = workers[i].since;
        if (since == 0 || (uint64_t)now() < since + LONGEST) continue;
        fprintf(stderr, "%s has not come back for %d seconds\n", workers[i].what, LONGEST);
        abort();
    }
}

int main(int count, char **arguments) {
    if (count != 5) return 2;
    static worker workers[THREADS];
    pthread_t threads[THREADS];
    seconds = atof(arguments[1]);
    uint64_t seed = strtoull(arguments[2], NULL, 10);
    double kill_every = atof(arguments[3]) * 1e-3, reset_every = atof(arguments[4]) * 1e-3;
    aclInit(NULL);
    launch = (aclError(*)(aclrtStream, void (*)(void *), void *))dlsym(RTLD_DEFAULT, "aclrtLaunchHostFunc");
    double begin = now(), killed = begin, reset = begin;
    for (int i = 0; i < THREADS; i++) {
        workers[i].random = (seed + 1) * 0x9e3779b97f4a7c15ull ^ (uint64_t)(i + 1) * 0xbf58476d1ce4e5b9ull;
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    while (now() - begin < seconds) {
        usleep(20000);
        check_progress(workers);
        if (kill_every > 0 && now() - killed > kill_every) {
            kill_device();
            killed = now();
        }
        if (reset_every > 0 && now() - reset > reset_every) {
            lost = true;
            reset = now();
        }
    }
    ended = true;
    double end = now();
    for (int i = 0; i < THREADS; i++) {
        while (workers[i].since != 0 && now() - end < LONGEST) usleep(1000);
        check_progress(workers);
        pthread_join(threads[i], NULL);
    }
    uint64_t calls = 0;
    for (int i = 0; i < THREADS; i++) calls += workers[i].calls;
    aclFinalize();
    printf("done %llu calls, %d kills, %d resets", (unsigned long long)calls, kills, resets);
    for (int i = 0; i < STATUSES && statuses[i].count > 0; i++) printf("; %d: %llu", statuses[i].status, (unsigned long long)statuses[i].count);
    putchar('\n');
    for (int i = 0; i < STATUSES && statuses[i].count > 0; i++) fprintf(stderr, "%d %s\n", statuses[i].status, statuses[i].text);
    return 0;
}
